//! Whose fault it is that a mail doesn't leave: the mail's, the operator's, or nobody's for long.

use doorpost::worker::Outcome::{Failed, GivenBack, Held, Later, Sent};
use doorpost::worker::{Postman, sweep};

use super::{ask, start, start_with};
use crate::support::TestApp;
use crate::support::smtp::Act::{Drop, Say};
use crate::support::smtp::{Security, SmtpServer};

async fn is_told(app: &TestApp) -> bool {
    app.watch().await;
    app.browser().get("/users/log-in").await.body.contains("E-mail is delayed")
}

#[tokio::test]
async fn a_refusal_of_who_sends_loses_no_mail() {
    for (place, reply) in [
        ("RCPT", "554 5.7.1 <ada@example.org>: Relay access denied"),
        ("RCPT", "553 5.7.1 Sender address rejected: not owned by user"),
        ("RCPT", "550 5.4.5 Daily user sending limit exceeded"),
        ("END", "550 5.4.5 Daily user sending limit exceeded"),
        ("RCPT", "553 5.1.8 Domain of sender address does not exist"),
        ("END", "550 5.7.60 SMTP; Client does not have permissions to send as this sender"),
        ("END", "550 5.7.708 Service unavailable. Traffic not accepted from this IP"),
    ] {
        let (app, smtp) = start().await;
        ask(&app, "/users/register", "ada@example.org").await;
        smtp.next(place, Say(reply));
        assert_eq!(app.work().await, [Later], "{place}: {reply}");
        app.advance(2);
        assert_eq!(app.work().await, [Sent], "{place}: {reply}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_recipient_or_the_content_is_final_whatever_its_detail() {
    for (place, reply) in [
        ("RCPT", "550 5.1.1 <ada@example.org>: User unknown"),
        ("RCPT", "550 5.2.1 mailbox disabled"),
        ("DATA", "554 5.5.1 no valid recipients"),
        ("END", "554 5.7.1 looks like spam"),
    ] {
        let (app, smtp) = start().await;
        ask(&app, "/users/register", "ada@example.org").await;
        smtp.next(place, Say(reply));
        assert_eq!(app.work().await, [Failed], "{place}: {reply}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_everybody_refuses_who_sends_whatever_it_says() {
    for (place, reply) in [("RCPT", "550 relaying denied"), ("END", "554 message rejected: sender is not verified")] {
        let (app, smtp) = start().await;
        smtp.always(place, Say(reply));
        for (student, outcome) in [("ada", Failed), ("bob", Failed), ("eve", Later), ("kim", Later)] {
            ask(&app, "/users/register", &format!("{student}@example.org")).await;
            assert_eq!(app.work().await, [outcome], "{student}: {reply}");
        }
        app.advance(1);
        assert!(!is_told(&app).await, "strangers' mails tell nobody of a delay");
        smtp.mend();
        app.advance(1);
        assert_eq!(app.work().await, [Sent; 2], "{reply}");
        // One that is refused among others is its own fault again.
        ask(&app, "/users/register", "lou@example.org").await;
        smtp.next(place, Say(reply));
        assert_eq!(app.work().await, [Failed], "{reply}");
    }
}

#[tokio::test]
async fn a_mail_that_alone_draws_a_wrong_password_does_not_stand_in_front_of_all_others() {
    let (app, smtp) = start().await;
    for student in ["ada", "bob", "eve"] {
        ask(&app, "/users/register", &format!("{student}@example.org")).await;
    }
    smtp.next("RCPT", Say("530 5.7.0 authentication required"));
    assert_eq!(app.work().await, [Later]);
    assert!(is_told(&app).await);
    smtp.next("RCPT", Say("530 5.7.0 authentication required"));
    app.advance(5);
    assert_eq!(app.work().await, [Later], "one look found no fault, and the next mail did");
    app.advance(9);
    assert_eq!(app.work().await, [], "it is looked more rarely until a mail leaves");
    app.advance(1);
    assert_eq!(app.work().await, [Sent; 3]);
    assert!(!is_told(&app).await);
}

#[tokio::test]
async fn workers_that_meet_with_the_same_fault_make_it_no_worse() {
    let (app, smtp) = start_with(&[]).await;
    for student in ["ada", "bob", "eve", "kim"] {
        ask(&app, "/users/register", &format!("{student}@example.org")).await;
    }
    let mut workers: Vec<Postman> = (0..4).map(|_| Postman::default()).collect();
    smtp.always("MAIL", Say("530 log in first"));
    let [a, b, c, d] = &mut workers[..] else { unreachable!("four") };
    let (a, b, c, d) = tokio::join!(
        a.deliver(&app.app, || false),
        b.deliver(&app.app, || false),
        c.deliver(&app.app, || false),
        d.deliver(&app.app, || false),
    );
    let outcomes: Vec<_> = [a, b, c, d].into_iter().flat_map(Result::unwrap).collect();
    assert!(!outcomes.is_empty() && outcomes.iter().all(|outcome| *outcome == GivenBack), "{outcomes:?}");
    smtp.mend();
    app.advance(5);
    assert_eq!(app.work().await, [Sent; 4], "the first look comes after 5 s, however many failed");
}

#[tokio::test]
async fn the_server_that_closes_at_the_recipient_did_not_speak_of_this_mail() {
    let (app, smtp) = start().await;
    for student in ["ada", "bob"] {
        ask(&app, "/users/register", &format!("{student}@example.org")).await;
    }
    smtp.next("RCPT", Say("421 4.7.0 too many connections"));
    assert_eq!(app.work().await, [Later, Sent]);
}

#[tokio::test]
async fn one_mail_put_off_delays_nobody_and_three_delay_all() {
    let (app, smtp) = start().await;
    for (student, told) in [("ada", false), ("bob", false), ("eve", true)] {
        ask(&app, "/users/register", &format!("{student}@example.org")).await;
        smtp.always("RCPT", Say("450 4.2.0 greylisted"));
        for _ in 0..90 {
            app.advance(1);
            app.work().await;
        }
        assert_eq!(is_told(&app).await, told, "{student}");
    }
    smtp.mend();
    app.advance(150);
    app.work().await;
    assert!(!is_told(&app).await);
    assert_eq!(app.rows("outbox").await, 0);
}

#[tokio::test]
async fn a_server_that_was_away_is_seen_to_be_back_though_nobody_asks() {
    let smtp = SmtpServer::start(Security::Plain).await;
    let app = TestApp::with().setting("SMTP_URL", &smtp.url("?tls=none")).run().await;
    smtp.next("GREETING", Drop);
    ask(&app, "/users/register", "ada@example.org").await;
    assert_eq!(app.work().await, [Later]);
    assert_eq!(app.app.health.reasons().len(), 1);
    sqlx::query("DELETE FROM outbox").execute(&app.database).await.unwrap();
    app.advance(61);
    assert!(is_told(&app).await, "nothing has left for a minute");
    assert_eq!(app.work().await, []);
    assert!(!is_told(&app).await);
    assert_eq!(app.app.health.reasons(), [""; 0]);
}

#[tokio::test]
async fn what_a_server_repeats_of_a_log_in_or_an_address_stands_nowhere() {
    let smtp = SmtpServer::start(Security::Plain).await;
    let app = TestApp::with().setting("SMTP_URL", &smtp.url_as("post:hunter2@", "?tls=none")).run().await;
    ask(&app, "/users/register", "ada@example.org").await;
    smtp.next("AUTH", Say("535 5.7.8 bad credentials: hunter2 AGFkYQBodW50ZXIy"));
    assert_eq!(app.work().await, [GivenBack]);
    let reasons = app.app.health.reasons().concat();
    assert!(reasons.contains("535") && !reasons.contains("hunter2") && !reasons.contains("AGFk"), "{reasons}");
    app.advance(5);
    smtp.next("RCPT", Say("530 5.7.0 Ada is unknown, and <ada@example.org> at EXAMPLE.ORG: log in first"));
    assert_eq!(app.work().await, [Later]);
    let reasons = app.app.health.reasons().concat().to_lowercase();
    assert!(
        reasons.contains("log in first") && !reasons.contains("ada ") && !reasons.contains("example.org"),
        "{reasons}"
    );
}

#[tokio::test]
async fn fault_21_a_clock_set_back_freezes_no_mail() {
    let (app, smtp) = start().await;
    smtp.next("RCPT", Say("450 4.2.0 greylisted"));
    ask(&app, "/users/register", "ada@example.org").await;
    assert_eq!(app.work().await, [Later]);
    // As if it had been put off an hour ahead of now.
    sqlx::query("UPDATE outbox SET due_at = due_at + 3600000").execute(&app.database).await.unwrap();
    assert_eq!(app.work().await, []);
    sweep(&app.app).await.unwrap();
    app.advance(60);
    assert_eq!(app.work().await, [Sent]);
}

#[tokio::test]
async fn what_is_given_back_frees_its_place_and_what_was_held_is_held_no_longer() {
    let limit = [("MAIL_DAILY_LIMIT", "3"), ("MAIL_DAILY_RESERVE_PERCENT", "0"), ("THROTTLE_EMAIL_LIMIT", "1000")];
    let (app, smtp) = start_with(&limit).await;
    for student in ["ada", "bob", "eve"] {
        ask(&app, "/users/register", &format!("{student}@example.org")).await;
    }
    smtp.next("MAIL", Say("530 log in first"));
    assert_eq!(app.work().await, [GivenBack]);
    assert_eq!(app.rows("mails_sent").await, 0);
    app.advance(5);
    assert_eq!(app.work().await, [Sent; 3]);
    ask(&app, "/users/register", "kim@example.org").await;
    assert_eq!(app.work().await, [Held]);
    sqlx::query("DELETE FROM mails_sent").execute(&app.database).await.unwrap();
    smtp.next("RCPT", Say("450 4.2.0 greylisted"));
    app.advance(2);
    assert_eq!(app.work().await, [Later]);
    let held: (i64,) =
        sqlx::query_as("SELECT COUNT(held_at) FROM outbox WHERE email <> ''").fetch_one(&app.database).await.unwrap();
    assert_eq!(held.0, 0, "it waits for the server now, and not for a place");
    let tries: (i64,) =
        sqlx::query_as("SELECT tries FROM outbox WHERE email <> ''").fetch_one(&app.database).await.unwrap();
    assert_eq!(tries.0, 1, "being held back is no try");
}

#[tokio::test]
async fn a_server_that_closes_at_every_message_is_told_of() {
    let (app, smtp) = start().await;
    smtp.always("DATA", Drop);
    for student in 0..4 {
        ask(&app, "/users/register", &format!("student{student}@example.org")).await;
    }
    for _ in 0..90 {
        app.work().await;
        app.advance(1);
    }
    assert!(is_told(&app).await);
    smtp.mend();
    app.advance(150);
    app.work().await;
    assert!(!is_told(&app).await);
}

#[tokio::test]
async fn what_was_unreachable_is_forgotten_with_the_last_mail() {
    let (app, smtp) = start().await;
    smtp.always("RCPT", Say("450 4.2.0 greylisted"));
    for student in ["ada", "bob", "eve"] {
        ask(&app, "/users/register", &format!("{student}@example.org")).await;
        assert_eq!(app.work().await, [Later]);
    }
    smtp.mend();
    smtp.next("GREETING", Drop);
    app.advance(8);
    app.hang_up().await;
    app.work().await;
    sqlx::query("DELETE FROM outbox").execute(&app.database).await.unwrap();
    app.watch().await;
    assert_eq!(app.app.health.reasons(), [""; 0]);
}
