//! Whether mail is leaving: the pause while no mail can, the note on the pages, `/ready`'s reasons.

use doorpost::worker::Outcome;

use super::{ask, start, start_with};
use crate::support::TestApp;
use crate::support::http::Browser;
use crate::support::process::free_address;
use crate::support::smtp::Act::{Drop, Say};
use crate::support::smtp::{Security, SmtpServer};

const NOTE: &str =
    "E-mail is delayed right now. Your link may take a few minutes longer; there's no need to ask again.";

/// Whether the three pages carry the note; they always agree.
async fn is_told(app: &TestApp) -> bool {
    let mut browser = app.browser();
    let mut told = Vec::new();
    for page in ["/users/log-in", "/users/register", "/users/check-email", "/users/log-in?return_to=/app"] {
        told.push(page_says(&mut browser, page).await);
    }
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{told:?}");
    told[0]
}

async fn page_says(browser: &mut Browser, page: &str) -> bool {
    browser.get(page).await.body.replace("&#39;", "'").contains(NOTE)
}

#[tokio::test]
async fn fault_07_a_wrong_password_pauses_the_queue_until_it_is_mended() {
    let smtp = SmtpServer::start(Security::Plain).await;
    let app = TestApp::with().setting("SMTP_URL", &smtp.url_as("post:wrong@", "?tls=none")).run().await;
    for student in ["ada", "bob", "eve"] {
        ask(&app, "/users/register", &format!("{student}@example.org")).await;
    }
    for _ in 0..3 {
        smtp.next("AUTH", Say("535 wrong password"));
    }
    assert_eq!(app.work().await, [Outcome::GivenBack]);
    assert!(is_told(&app).await);
    let reasons = app.app.health.reasons();
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].contains("535") && reasons[0].contains("check the user and the password in SMTP_URL"));
    // Backing off: after 5 seconds, 10, 20.
    for pause in [5, 10] {
        app.advance(pause - 1);
        let heard = smtp.seen().len();
        assert_eq!((app.work().await, smtp.seen().len()), (vec![], heard), "nobody is bothered meanwhile");
        app.advance(1);
        assert_eq!(app.work().await, []);
        assert!(smtp.seen().len() > heard, "it was looked whether it is mended");
    }
    app.advance(20);
    assert_eq!(app.work().await, [Outcome::Sent; 3]);
    assert!(!is_told(&app).await);
    assert_eq!((app.app.health.reasons(), app.rows("outbox").await), (vec![], 0));
    assert!(smtp.accepted().iter().all(|mail| mail.login.is_some()));
}

#[tokio::test]
async fn fault_07_the_queue_recovers_though_it_is_empty() {
    let (app, smtp) = start().await;
    smtp.next("MAIL", Say("553 not your address"));
    ask(&app, "/users/register", "ada@example.org").await;
    assert_eq!(app.work().await, [Outcome::GivenBack]);
    assert!(app.app.health.reasons()[0].contains("MAIL_FROM"));
    sqlx::query("DELETE FROM outbox").execute(&app.database).await.unwrap();
    app.advance(5);
    assert_eq!(app.work().await, []);
    assert!(!is_told(&app).await);
}

#[tokio::test]
async fn a_mail_that_waits_for_more_than_a_minute_is_told_to_everybody_alike() {
    let (app, smtp) = start().await;
    ask(&app, "/users/register", "ada@example.org").await;
    smtp.next("RCPT", Say("451 not now"));
    assert_eq!(app.work().await, [Outcome::Later]);
    // Due again after 2 seconds, and nobody takes it up.
    app.advance(62);
    app.watch().await;
    assert!(!is_told(&app).await);
    app.advance(1);
    app.watch().await;
    assert!(is_told(&app).await);
    assert_eq!(app.metric("doorpost_outbox_oldest_seconds").as_deref(), Some("63.0"));
    assert_eq!(app.app.health.reasons(), ["a mail has waited for more than 60 s"]);
    let mut refused = app.browser();
    for _ in 0..5 {
        refused.ask("/users/log-in", "ada@example.org").await;
    }
    let refusal = refused.ask("/users/log-in", "ada@example.org").await;
    assert_eq!(refusal.status, 429);
    assert!(refusal.body.contains("E-mail is delayed"), "the refusal is the same page");
    app.work().await;
    app.watch().await;
    assert!(!is_told(&app).await);
}

#[tokio::test]
async fn fault_12_an_outage_costs_no_page_and_its_dead_rows_are_counted() {
    let nobody = format!("smtp://{}?tls=none", free_address());
    let app = TestApp::with().setting("SMTP_URL", &nobody).run().await;
    for minute in 0..20 {
        ask(&app, "/users/register", &format!("student{minute}@example.org")).await;
        assert!(!app.work().await.contains(&Outcome::Sent));
        doorpost::worker::sweep(&app.app).await.unwrap();
        app.watch().await;
        assert_eq!(is_told(&app).await, minute > 1, "{minute} minutes in");
        app.advance(60);
    }
    assert!(app.app.health.reasons()[0].contains("check the host and the port in SMTP_URL"));
    let expired: i64 = app.metric(r#"doorpost_mails_total{outcome="expired"}"#).unwrap().parse().unwrap();
    assert_eq!((expired, app.rows("outbox").await), (5, 15));
}

#[tokio::test]
async fn one_connection_carries_many_mails_and_a_fault_ends_it() {
    let (app, smtp) = start().await;
    for student in 0..20 {
        ask(&app, "/users/register", &format!("student{student}@example.org")).await;
    }
    assert_eq!(app.work().await, [Outcome::Sent; 20]);
    assert_eq!(smtp.opened(), 1);
    ask(&app, "/users/register", "eve@example.org").await;
    smtp.next("RCPT", Say("550 no such user"));
    assert_eq!((app.work().await, smtp.opened()), (vec![Outcome::Failed], 1));
    ask(&app, "/users/register", "bob@example.org").await;
    assert_eq!((app.work().await, smtp.opened()), (vec![Outcome::Sent], 2), "never on the connection of a refusal");
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_costs_no_try() {
    let (app, smtp) = start().await;
    for (act, idle) in [(Drop, 0), (Say("421 too many mails"), 0), (Drop, 5)] {
        ask(&app, "/users/register", "ada@example.org").await;
        assert_eq!(app.work().await, [Outcome::Sent]);
        smtp.next(if idle > 0 { "NOOP" } else { "MAIL" }, act);
        app.advance(idle);
        ask(&app, "/users/register", "bob@example.org").await;
        assert_eq!(app.work().await, [Outcome::Sent], "{act:?} after {idle} s");
        app.advance(3600);
    }
    assert_eq!(smtp.accepted().len(), 6);
}

#[tokio::test]
async fn fault_13_a_mail_that_cannot_be_made_is_set_aside_and_blocks_nobody() {
    let (app, smtp) = start_with(&[]).await;
    ask(&app, "/users/register", "ada@example.org").await;
    sqlx::query("UPDATE outbox SET email = 'no address'").execute(&app.database).await.unwrap();
    ask(&app, "/users/register", "bob@example.org").await;
    assert_eq!(app.work().await, [Outcome::Later, Outcome::Sent]);
    for (pause, outcome) in [(2, Outcome::Later), (8, Outcome::Later), (20, Outcome::Later), (55, Outcome::SetAside)] {
        app.advance(pause);
        assert_eq!(app.work().await, [outcome]);
    }
    app.advance(3600);
    assert_eq!((app.work().await, smtp.accepted().len()), (vec![], 1));
    app.watch().await;
    assert!(!is_told(&app).await, "what is set aside delays nobody");
    assert_eq!(app.metric(r#"doorpost_mails_total{outcome="failed"}"#).as_deref(), Some("1"));
    assert_eq!(app.metric("doorpost_outbox_pending").as_deref(), Some("0"));
    sqlx::query("UPDATE outbox SET email = 'ada@example.org' WHERE email <> ''").execute(&app.database).await.unwrap();
    let lifetime = app.app.config.link_lifetime;
    assert_eq!(app.app.store.queue_again(None, app.clock.now(), lifetime).await.unwrap(), 1);
    assert_eq!(app.work().await, [Outcome::Sent]);
    app.browser().post(&smtp.accepted()[1].link(), "").await.assert_found("/users/settings");
}
