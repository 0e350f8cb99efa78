//! Whom a mail is handed to: encrypted to the right server, logged in, or not at all.

use doorpost::worker::Outcome;

use super::ask;
use crate::support::TestApp;
use crate::support::smtp::{Act, Security, SmtpServer};

/// An app with one mail in its queue.
async fn one_waiting(url: &str) -> TestApp {
    let app = TestApp::with().setting("SMTP_URL", url).run().await;
    ask(&app, "/users/register", "ada@example.org").await;
    app
}

/// The mail stays, and its server heard nothing worth hearing.
async fn assert_kept(app: &TestApp, smtp: &SmtpServer) {
    assert_eq!(app.work().await, [Outcome::GivenBack]);
    assert_eq!(app.work().await, [], "nothing is tried while nothing is mended");
    assert_eq!((app.rows("outbox").await, smtp.accepted().len()), (1, 0));
    assert!(smtp.seen().iter().all(|line| !line.starts_with("MAIL")), "{:?}", smtp.seen());
}

#[tokio::test]
async fn a_mail_leaves_encrypted_by_either_way() {
    for security in [Security::StartTls, Security::Implicit] {
        let smtp = SmtpServer::start(security).await;
        let app = one_waiting(&smtp.trusted_url()).await;
        assert_eq!(app.work().await, [Outcome::Sent]);
        assert!(smtp.only().encrypted);
    }
}

#[tokio::test]
async fn nothing_leaves_in_plain_text_when_starttls_is_stripped() {
    let smtp = SmtpServer::start(Security::Plain).await;
    let app = one_waiting(&smtp.url_as("ada:secret@", "")).await;
    assert_kept(&app, &smtp).await;
    assert!(smtp.seen().iter().all(|line| !line.starts_with("AUTH")), "{:?}", smtp.seen());
}

#[tokio::test]
async fn nothing_leaves_to_a_server_that_cannot_prove_who_it_is() {
    for security in [Security::StartTls, Security::Implicit] {
        let unknown = SmtpServer::start(security).await;
        assert_kept(&one_waiting(&unknown.url("")).await, &unknown).await;
        let another = SmtpServer::with(security, "mail.example", "PLAIN").await;
        assert_kept(&one_waiting(&another.trusted_url()).await, &another).await;
    }
}

#[tokio::test]
async fn it_logs_in_by_either_mechanism() {
    for mechanism in ["PLAIN", "LOGIN"] {
        let smtp = SmtpServer::with(Security::Plain, "localhost", mechanism).await;
        let app = one_waiting(&smtp.url_as("post:p%40ss%2Fword@", "?tls=none")).await;
        assert_eq!(app.work().await, [Outcome::Sent]);
        assert_eq!(smtp.only().login, Some(("post".into(), "p@ss/word".into())));
    }
}

#[tokio::test]
async fn a_wrong_password_is_the_operators_fault_and_loses_no_mail() {
    for reply in ["535 wrong password", "530 log in first", "534 weak"] {
        let smtp = SmtpServer::start(Security::Plain).await;
        let app = one_waiting(&smtp.url_as("post:wrong@", "?tls=none")).await;
        smtp.next("AUTH", Act::Say(reply));
        assert_kept(&app, &smtp).await;
        app.advance(5);
        assert_eq!(app.work().await, [Outcome::Sent]);
    }
}

#[tokio::test]
async fn a_server_that_wants_a_log_in_loses_no_mail() {
    // What a mail draws behind its recipient could be its own, so it lets the others pass.
    for (place, outcome) in [("MAIL", Outcome::GivenBack), ("RCPT", Outcome::Later), ("DATA", Outcome::Later)] {
        let smtp = SmtpServer::start(Security::Plain).await;
        let app = one_waiting(&smtp.url("?tls=none")).await;
        smtp.next(place, Act::Say("530 log in first"));
        assert_eq!(app.work().await, [outcome]);
        assert!(!app.app.health.is_well());
        assert_eq!(app.rows("outbox").await, 1);
    }
}

#[tokio::test]
async fn silence_before_the_log_in_is_done_costs_a_mail_its_time_out() {
    for place in ["STARTTLS", "AUTH"] {
        let smtp = SmtpServer::start(Security::StartTls).await;
        let url = smtp.trusted_url().replace("://", "://post:secret@");
        let app = TestApp::with().setting("SMTP_URL", &url).setting("MAIL_TIMEOUT_SECONDS", "1").run().await;
        ask(&app, "/users/register", "ada@example.org").await;
        smtp.next(place, Act::Silence);
        assert_eq!(app.work().await, [Outcome::Later], "{place}");
        assert!(smtp.accepted().is_empty());
        app.advance(2);
        assert_eq!(app.work().await, [Outcome::Sent], "{place}");
    }
}
