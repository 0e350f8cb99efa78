//! Row 7, and the faults beside it that only the operator can mend: what is seen of them at the start,
//! in the log, at `/ready` and on the pages, that nothing is lost, and that nothing leaves in plain text.

use super::{SOON, arrive, assert_all_mailed, drained, promised};
use crate::support::process::{Place, Process, free_address};
use crate::support::smtp::Act::{self, Impostor, Say};
use crate::support::smtp::{Security, SmtpServer};
use crate::support::until;

const DELAYED: &str =
    "E-mail is delayed right now. Your link may take a few minutes longer; there's no need to ask again.";
const PAGES: [&str; 3] = ["/users/log-in", "/users/register", "/users/check-email"];
/// Longer than a queue that is paused waits before it tries anew, after as short a fault as these.
const PROBED: u64 = 40;

/// On how many of the pages it is said that mail is delayed.
async fn pages_that_say_so(doorpost: &Process) -> usize {
    let mut said = 0;
    for page in PAGES {
        let page = doorpost.browser().get(page).await;
        assert_eq!(page.status, 200);
        said += usize::from(page.words().contains(DELAYED));
    }
    said
}

/// All that is seen while mail can't leave.
async fn assert_seen(doorpost: &Process) {
    until("it isn't ready", SOON, async || doorpost.ready().await.status == 503).await;
    let state = doorpost.ready().await.json();
    assert_eq!((state["status"].as_str(), state["reasons"][0]["part"].as_str()), (Some("unready"), Some("mail")));
    let reason = state["reasons"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("SMTP_URL"), "it names what to change: {reason}");
    until("every page says so", SOON, async || pages_that_say_so(doorpost).await == PAGES.len()).await;
    let log = doorpost.log();
    assert!(log.lines().any(|line| line.contains("ERROR") && line.contains("SMTP_URL")), "loud: {log}");
    assert!(!log.contains("s3cret") && !state.to_string().contains("s3cret"), "and says no password");
}

/// All that is seen once it can.
async fn assert_mended(place: &Place, doorpost: &Process, smtp: &SmtpServer, emails: &[String]) {
    arrive(smtp, emails.len(), PROBED).await;
    drained(place, PROBED).await;
    assert_all_mailed(emails, smtp, "");
    until("it is ready", SOON, async || doorpost.ready().await.status == 200).await;
    assert_eq!(doorpost.ready().await.json(), serde_json::json!({ "status": "ready" }));
    until("no page says so", SOON, async || pages_that_say_so(doorpost).await == 0).await;
}

/// One fault from its begin to its end.
async fn is_seen_and_mended(smtp: &SmtpServer, url: &str, (reply, act): (&'static str, Act)) {
    let place = Place::new().setting("SMTP_URL", url);
    smtp.always(reply, act);
    let doorpost = place.start().await;
    let mut emails = promised(&doorpost, 2).await;
    assert_seen(&doorpost).await;
    emails.extend(promised(&doorpost, 1).await);
    assert!(smtp.accepted().is_empty(), "nothing leaves meanwhile");
    let said = |verb| smtp.seen().iter().any(|line| line.starts_with(verb));
    assert!(!said("MAIL") && (reply == "AUTH" || !said("AUTH")), "{:?}", smtp.seen());
    smtp.mend();
    assert_mended(&place, &doorpost, smtp, &emails).await;
}

fn with_password(url: &str) -> String {
    url.replace("://", "://post:s3cret@")
}

#[tokio::test]
async fn fault_07_a_refused_password() {
    let smtp = SmtpServer::start(Security::StartTls).await;
    let url = with_password(&smtp.trusted_url());
    is_seen_and_mended(&smtp, &url, ("AUTH", Say("535 5.7.8 wrong password"))).await;
    assert!(smtp.accepted().iter().all(|mail| mail.encrypted && mail.login.is_some()));
}

#[tokio::test]
async fn fault_07_a_wrong_certificate() {
    let smtp = SmtpServer::start(Security::Implicit).await;
    let url = with_password(&smtp.trusted_url());
    is_seen_and_mended(&smtp, &url, ("TLS", Impostor)).await;
    assert!(smtp.accepted().iter().all(|mail| mail.encrypted));
}

#[tokio::test]
async fn fault_07_starttls_stripped() {
    let smtp = SmtpServer::start(Security::StartTls).await;
    let url = with_password(&smtp.trusted_url());
    is_seen_and_mended(&smtp, &url, ("EHLO", Say("250-localhost\r\n250 AUTH PLAIN LOGIN"))).await;
    assert!(smtp.accepted().iter().all(|mail| mail.encrypted), "never in plain text");
}

#[tokio::test]
async fn fault_07_the_password_is_not_said_in_plain_text_when_starttls_is_stripped() {
    let smtp = SmtpServer::start(Security::Plain).await;
    let place = Place::new().setting("SMTP_URL", &with_password(&smtp.url("")));
    let doorpost = place.start().await;
    promised(&doorpost, 1).await;
    until("it was tried", SOON, async || smtp.opened() > 0 && smtp.open() == 0).await;
    let seen = smtp.seen();
    assert!(!seen.iter().any(|line| line.starts_with("AUTH") || line.starts_with("MAIL")), "{seen:?}");
    assert_eq!(place.count("SELECT COUNT(*) FROM outbox WHERE email <> ''").await, 1, "the mail waits");
}

#[tokio::test]
async fn fault_12_a_mail_server_that_is_down_stops_no_start_and_loses_no_mail() {
    let address = free_address();
    let place = Place::new().setting("SMTP_URL", &format!("smtp://{address}?tls=none"));
    let doorpost = place.start().await;
    let emails = promised(&doorpost, 3).await;
    until("the log says so", SOON, async || doorpost.log().contains("mail not sent")).await;
    assert!(doorpost.log().contains(&address.to_string()), "{}", doorpost.log());
    let state = doorpost.ready().await;
    // It may come back by itself, so it is for a while no more than a delay.
    assert!(state.status == 200 || state.json()["reasons"][0]["part"] == "mail", "{state:?}");
    let smtp = SmtpServer::at(address, Security::Plain).await;
    assert_mended(&place, &doorpost, &smtp, &emails).await;
}

#[test]
fn a_smtp_url_that_cannot_be_read_stops_the_start_with_a_sentence() {
    for wrong in ["mail.example:587", "smtp://post@mail.example", "http://mail.example", "smtp://post:s3cret@"] {
        let run = Place::new().setting("SMTP_URL", wrong).run(&[]);
        assert_eq!(run.code, Some(2), "{wrong}: {}", run.err);
        assert!(run.err.contains("one thing to mend") && run.err.contains("SMTP_URL:"), "{}", run.err);
        assert!(!run.err.contains("s3cret"), "{}", run.err);
    }
}
