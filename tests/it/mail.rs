//! The mail itself, as a mail server gets it: what stands in it, to whom it goes, and to whom not.

mod ahead;
mod blame;
mod faults;
mod leaving;
mod quota;
mod real;
mod trust;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use doorpost::worker::Outcome;

use crate::support::TestApp;
use crate::support::smtp::{Received, Security, SmtpServer};

/// An app that mails to a plain-text relay.
async fn start() -> (TestApp, SmtpServer) {
    start_with(&[]).await
}

async fn start_with(settings: &[(&str, &str)]) -> (TestApp, SmtpServer) {
    let smtp = SmtpServer::start(Security::Plain).await;
    let mut start = TestApp::with()
        .setting("SMTP_URL", &smtp.url("?tls=none"))
        .setting("MAIL_FROM", "Doorpost <doorpost@school.edu>");
    for (name, value) in settings {
        start = start.setting(name, value);
    }
    (start.run().await, smtp)
}

/// From another client network each time: what is tested here isn't its ceilings.
async fn ask(app: &TestApp, path: &str, email: &str) {
    static NETWORKS: AtomicU32 = AtomicU32::new(0x0a00_0000);
    let network = Ipv4Addr::from(NETWORKS.fetch_add(1, Ordering::Relaxed));
    app.browser_at(&network.to_string()).ask(path, email).await.assert_found("/users/check-email");
}

/// Registers Ada and uses her link.
async fn register_ada(app: &TestApp, smtp: &SmtpServer) {
    ask(app, "/users/register", "ada@example.org").await;
    assert_eq!(app.work().await, [Outcome::Sent]);
    app.browser().post(&smtp.accepted()[0].link(), "").await.assert_found("/users/settings");
    app.advance(3600);
}

/// The mail that a request for `path` brings.
async fn mail_for(app: &TestApp, smtp: &SmtpServer, path: &str, email: &str) -> Received {
    ask(app, path, email).await;
    assert_eq!(app.work().await, [Outcome::Sent]);
    smtp.accepted().pop().unwrap()
}

fn header<'a>(mail: &'a Received, name: &str) -> &'a str {
    let head = std::str::from_utf8(&mail.raw).unwrap();
    let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {head}"))
}

#[tokio::test]
async fn the_mail_arrives_and_its_link_works() {
    let (app, smtp) = start().await;
    let mail = mail_for(&app, &smtp, "/users/register", "ada@example.org").await;
    assert_eq!((mail.from.as_str(), mail.to), ("doorpost@school.edu", vec!["ada@example.org".to_owned()]));
    assert_eq!(mail.hello, "localhost");
    let link = smtp.only().link();
    app.browser().post(&link, "").await.assert_found("/users/settings");
    assert_eq!(app.rows("outbox").await, 0);
}

#[tokio::test]
async fn the_headers_say_whose_mail_it_is_and_that_a_machine_wrote_it() {
    let (app, smtp) = start_with(&[("MAIL_REPLY_TO", "Help desk <help@school.edu>")]).await;
    let mail = mail_for(&app, &smtp, "/users/register", "ada@example.org").await;
    assert_eq!(header(&mail, "From"), "Doorpost <doorpost@school.edu>");
    assert_eq!(header(&mail, "To"), "ada@example.org");
    assert_eq!(header(&mail, "Reply-To"), "\"Help desk\" <help@school.edu>");
    assert_eq!(header(&mail, "Date"), "Mon, 30 Nov 2026 14:17:00 +0000");
    assert_eq!(header(&mail, "Auto-Submitted"), "auto-generated");
    assert_eq!(header(&mail, "X-Auto-Response-Suppress"), "All");
    assert!(header(&mail, "Message-ID").ends_with("@school.edu>"));
}

#[tokio::test]
async fn each_mail_has_a_subject_and_an_id_of_its_own() {
    let (app, smtp) = start().await;
    let first = mail_for(&app, &smtp, "/users/register", "ada@example.org").await;
    app.advance(1);
    let second = mail_for(&app, &smtp, "/users/register", "ada@example.org").await;
    assert_ne!(header(&first, "Subject"), header(&second, "Subject"));
    assert_ne!(header(&first, "Message-ID"), header(&second, "Message-ID"));
}

#[tokio::test]
async fn text_comes_first_and_the_bare_link_stands_unbroken_on_its_own_line() {
    // A name beyond ASCII makes the mail quoted-printable, which would break a longer line.
    for name in ["Doorpost", "École"] {
        let (app, smtp) = start_with(&[("APP_NAME", name)]).await;
        let mail = mail_for(&app, &smtp, "/users/register", "ada@example.org").await;
        let raw = std::str::from_utf8(&mail.raw).unwrap();
        let parsed = mail.parse();
        assert!(header(&mail, "Content-Type").starts_with("multipart/alternative"));
        let kinds: Vec<_> = raw.lines().filter(|line| line.starts_with("Content-Type: text/")).collect();
        assert_eq!(kinds, ["Content-Type: text/plain; charset=utf-8", "Content-Type: text/html; charset=utf-8"]);
        let html = parsed.body_html(0).unwrap();
        let url = raw.lines().find(|line| line.ends_with(&smtp.only().link())).expect("the bare link on its own line");
        assert!(url.starts_with("http://localhost:") && url.len() < 76, "{url}");
        assert_eq!(html.matches("http").count(), html.matches(url).count(), "nothing remote but the link: {html}");
        assert!(!["<img", "src=", "url(", "<script"].iter().any(|remote| html.contains(remote)), "{html}");
        assert!(raw.lines().all(|line| line.len() <= 998), "no line is too long for SMTP");
        assert!(!raw.replace("\r\n", "").contains(['\r', '\n']), "no bare CR or LF");
    }
}

/// Nothing that a visitor sends but the address reaches the mail, so there is nothing to smuggle with.
#[tokio::test]
async fn attack_09_smtp_smuggling() {
    let (app, smtp) = start().await;
    let mut smuggler = app.browser().header("User-Agent", r"Firefox/1 \r\n.\r\nMAIL FROM:<eve@evil.example>");
    for dot in ["%0D%0A.%0D%0A", "%0A.%0A", "%0D.%0D", "%0A.%0D%0A"] {
        let form = format!("email=ada%40example.org{dot}MAIL%20FROM:<eve@evil.example>");
        assert_eq!(smuggler.post("/users/register", &form).await.status, 422);
    }
    let form = "email=ada%40example.org&return_to=/smuggled%0D%0A.%0D%0AMAIL%20FROM:<eve@evil.example>&name=Eve";
    smuggler.post("/users/register", form).await.assert_found("/users/check-email");
    assert_eq!(app.work().await, [Outcome::Sent]);
    let raw = String::from_utf8(smtp.only().raw).unwrap();
    assert!(raw.contains("from Firefox"), "{raw}");
    assert!(!raw.contains("evil") && !raw.contains("smuggled") && !raw.contains("Eve"), "{raw}");
    assert_eq!(smtp.seen().iter().filter(|line| line.starts_with("MAIL")).count(), 1);
}

#[tokio::test]
async fn nobody_is_mailed_who_has_no_account() {
    let (app, smtp) = start().await;
    ask(&app, "/users/log-in", "nobody@example.org").await;
    assert_eq!(app.work().await, [Outcome::Dropped]);
    assert!(smtp.seen().is_empty(), "the mail server isn't even called");
    assert_eq!(app.rows("outbox").await, 0);
}

#[tokio::test]
async fn a_registered_address_is_told_that_it_has_an_account() {
    let (app, smtp) = start().await;
    register_ada(&app, &smtp).await;
    let mail = mail_for(&app, &smtp, "/users/register", "ada@example.org").await;
    let words = "You already have an account, so this link logs you in.";
    assert!(mail.text().contains(words) && mail.parse().body_html(0).unwrap().contains(words));
}

#[tokio::test]
async fn mail_goes_to_the_stored_address_however_it_is_typed() {
    let (app, smtp) = start().await;
    register_ada(&app, &smtp).await;
    for path in ["/users/log-in", "/users/register"] {
        assert_eq!(mail_for(&app, &smtp, path, "ADA@Example.org").await.to, ["ada@example.org"]);
    }
}

#[tokio::test]
async fn log_ins_leave_before_registrations() {
    let (app, smtp) = start().await;
    register_ada(&app, &smtp).await;
    ask(&app, "/users/register", "bob@example.org").await;
    app.advance(1);
    ask(&app, "/users/log-in", "ada@example.org").await;
    app.work().await;
    let order: Vec<_> = smtp.accepted().into_iter().skip(1).flat_map(|mail| mail.to).collect();
    assert_eq!(order, ["ada@example.org", "bob@example.org"]);
}

#[tokio::test]
async fn a_disabled_account_gets_no_mail_and_its_earlier_link_is_dead() {
    let (app, smtp) = start().await;
    register_ada(&app, &smtp).await;
    let link = mail_for(&app, &smtp, "/users/log-in", "ada@example.org").await.link();
    sqlx::query("UPDATE users SET disabled_at = 1").execute(&app.database).await.unwrap();
    ask(&app, "/users/log-in", "ada@example.org").await;
    ask(&app, "/users/register", "ada@example.org").await;
    assert_eq!(app.work().await, [Outcome::Dropped, Outcome::Dropped]);
    assert_eq!(app.browser().get(&link).await.status, 410);
    assert_eq!(app.browser().post(&link, "").await.status, 410);
}
