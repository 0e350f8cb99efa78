//! The real binary: what outlives it, what it writes down, and how it ends.

use std::time::Duration;

use crate::support::http::{Browser, Response, send};
use crate::support::process::{Place, Process, free_address, link_in, mail_server, modes};

const MAIL: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_mail_that_was_promised_outlives_a_kill() {
    let server = free_address();
    let place = Place::new()
        .setting("SMTP_URL", &format!("smtp://{server}?tls=none"))
        // The lease of a mail in hand is twice this.
        .setting("MAIL_TIMEOUT_SECONDS", "1");
    let doorpost = place.start().await;
    doorpost.browser().ask("/users/register", "ada@example.org").await.assert_found("/users/check-email");
    doorpost.kill();
    let mails = mail_server(server);
    let doorpost = place.start().await;
    let mail = mails.recv_timeout(MAIL).expect("the mail comes after the restart");
    let mut ada = doorpost.browser();
    ada.post(&link_in(&mail), "").await.assert_found("/users/settings");
    assert!(ada.get("/users/settings").await.body.contains("ada@example.org"));
    assert!(mails.try_recv().is_err(), "one mail");
}

#[tokio::test]
async fn a_session_outlives_a_restart_and_sigterm_ends_well() {
    let place = Place::new();
    let doorpost = place.start().await;
    let (mut ada, _) = register(&doorpost).await;
    let status = doorpost.terminate(5).expect("it ends within seconds");
    assert_eq!(status.code(), Some(0));
    let doorpost = place.start().await;
    ada.address = doorpost.address;
    assert!(ada.get("/users/settings").await.body.contains("ada@example.org"));
}

#[tokio::test]
async fn a_sqlite_database_is_readable_by_its_owner_only() {
    let place = Place::new();
    let _doorpost = place.start().await;
    assert_eq!(modes(&place.path()), [("data".to_owned(), 0o700)]);
    let files = modes(&place.path().join("data"));
    assert!(files.iter().any(|(name, _)| name == "doorpost.db"), "{files:?}");
    assert!(files.iter().all(|(_, mode)| *mode == 0o600), "{files:?}");
}

#[tokio::test]
async fn a_damaged_secret_beside_sqlite_is_named_and_nothing_starts() {
    let place = Place::new();
    place.start().await;
    std::fs::write(place.path().join("data/doorpost.db-key"), "short").unwrap();
    let run = place.run(&[]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("data/doorpost.db-key is damaged; delete it"), "{}", run.err);
}

#[tokio::test]
async fn attack_16_tokens_stand_in_no_log_line() {
    for format in ["text", "json"] {
        let (place, server) = loud(format);
        let mails = mail_server(server);
        let doorpost = place.start().await;
        let (ada, link) = register_by_mail(&doorpost, &mails).await;
        let seen: Vec<_> = ada.cookies.values().cloned().collect();
        assert_eq!(seen.len(), 3, "session, browser, what was asked for: {:?}", ada.cookies);
        misbehave(&doorpost, ada, &link).await;
        doorpost.browser().ask("/users/register", "refused@example.org").await.assert_found("/users/check-email");
        let log = when_logged(&doorpost, "refused by the mail server");
        let token = link.rsplit('/').next().unwrap().to_owned();
        let others = ["ada@", "refused@", "@example", "203.0.113.77", "aaaaaaaaaaaaaaaaaaaaaaaaaa", "evil"];
        for secret in seen.iter().chain([&token]).map(String::as_str).chain(others) {
            assert!(!log.contains(secret), "{secret:?} stands in {log}");
        }
        for event in ["asked", "mail sent", "link opened", "signed in", "signed out", "refused", "request"] {
            assert!(log.contains(event), "{event:?} is worth a line: {log}");
        }
    }
}

#[tokio::test]
async fn attack_31_log_lines_stay_one_line() {
    for format in ["text", "json"] {
        let (place, server) = loud(format);
        let mails = mail_server(server);
        let doorpost = place.start().await;
        let (ada, link) = register_by_mail(&doorpost, &mails).await;
        misbehave(&doorpost, ada, &link).await;
        let log = when_logged(&doorpost, "/users/log-out");
        for line in log.lines() {
            assert!(!line.chars().any(char::is_control), "{line:?}");
            if format == "json" {
                let parsed: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
                assert!(parsed["timestamp"].is_string() && parsed["level"].is_string(), "{line}");
            } else {
                let level = line.split_whitespace().nth(1).unwrap_or_default();
                assert!(line.starts_with("20") && ["INFO", "WARN", "ERROR", "DEBUG"].contains(&level), "{line:?}");
            }
        }
    }
}

#[tokio::test]
async fn metrics_have_the_promised_names_and_no_address() {
    let place = Place::new();
    let doorpost = place.start().await;
    let (ada, link) = register(&doorpost).await;
    misbehave(&doorpost, ada, &link).await;
    let metrics = Browser::new(doorpost.admin).get("/metrics").await;
    assert_eq!(metrics.status, 200);
    for name in [
        "doorpost_requests_total{route=\"/users/log-in/{token}\",status=\"302\"}",
        "doorpost_request_seconds_bucket{",
        "doorpost_throttle_decisions_total{counter=\"auth_email\",decision=\"deny\"}",
        "doorpost_client_ip_total{reason=",
        "doorpost_outbox_pending ",
        "doorpost_mails_total{outcome=\"sent\"} ",
        "doorpost_smtp_seconds_bucket{",
        "doorpost_sign_ins_total{by=\"link\"} 1",
        "doorpost_build_info{version=",
    ] {
        assert!(metrics.body.contains(name), "{name} is missing in {}", metrics.body);
    }
    for secret in ["example", "203.0.113.77", "127.0.0.1", "evil", link.rsplit('/').next().unwrap()] {
        assert!(!metrics.body.contains(secret), "{secret}");
    }
    assert_eq!(doorpost.browser().get("/metrics").await.status, 404, "not on the public listener");
}

/// Logging all it can, with a mail server to be.
fn loud(format: &str) -> (Place, std::net::SocketAddr) {
    let server = free_address();
    let place = Place::new()
        .setting("SMTP_URL", &format!("smtp://{server}?tls=none"))
        .setting("RUST_LOG", "trace")
        .setting("LOG_FORMAT", format);
    (place, server)
}

/// Registers by the mailbox in the browser; the browser and the path of the link that it used.
async fn register(doorpost: &Process) -> (Browser, String) {
    let mut ada = doorpost.browser();
    ada.ask("/users/register", "ada@example.org").await.assert_found("/users/check-email");
    let mut machine = doorpost.browser().json();
    for _ in 0..500 {
        if let Some(link) = machine.get("/dev/mailbox").await.json()[0]["link"].as_str() {
            let link = link[link.find("/users/").unwrap()..].to_owned();
            ada.post(&link, "").await.assert_found("/users/settings");
            return (ada, link);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no mail comes: {}", doorpost.log());
}

/// The same by SMTP, from afar.
async fn register_by_mail(doorpost: &Process, mails: &std::sync::mpsc::Receiver<String>) -> (Browser, String) {
    let mut ada = doorpost.browser().from("203.0.113.77");
    ada.ask("/users/register", "ada@example.org").await.assert_found("/users/check-email");
    let link = link_in(&mails.recv_timeout(MAIL).expect("a mail comes"));
    assert_eq!(ada.get(&link).await.status, 200);
    ada.post(&link, "").await.assert_found("/users/settings");
    (ada, link)
}

/// Everything that could leave a trace: a used link, hostile names and paths, refusals, log-out.
async fn misbehave(doorpost: &Process, mut ada: Browser, link: &str) {
    let mut other = doorpost.browser().from("203.0.113.77").header("User-Agent", "[31mevil\u{9b}2J \u{202e}");
    assert_eq!(other.post(link, "").await.status, 410);
    assert_eq!(other.get("/users/log-in/aaaaaaaaaaaaaaaaaaaaaaaaaa").await.status, 410);
    assert_eq!(other.get("/users/log-in/evil%0a%1b%5b2J%00").await.status, 410);
    assert_eq!(other.get("/ada@example.org/%0aevil%0d").await.status, 404);
    assert_eq!(other.get("/users/settings?ada@example.org").await.status, 302);
    assert_eq!(other.get("/users/log-in?return_to=https://evil.example/%0d%0a").await.status, 200);
    assert_eq!(other.request("evil", "/ada@example.org", "", b"").await.status, 404);
    assert_eq!(other.post("/users/log-in", "email=ada@example.org%0d%0aevil&return_to=//evil").await.status, 422);
    assert_eq!(other.request("POST", "/users/log-in", "evil/ada@example.org", b"x").await.status, 415);
    assert_eq!(raw(doorpost, b"GET /ada@example.org\x1b[31m\xff HTTP/1.1\r\nHost: x\r\n\r\n").await.status / 100, 4);
    let agent = b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: \x1b[31mada@example.org\r\n\r\n";
    assert_eq!(raw(doorpost, agent).await.status, 400);
    assert_eq!(raw(doorpost, b"evil ada@example.org\x00\r\n\r\n").await.status, 400);
    while other.ask("/users/log-in", "ada@example.org").await.status != 429 {}
    ada.post("/users/log-out", "").await.assert_found("/users/log-in?logged_out=1");
}

async fn raw(doorpost: &Process, bytes: &[u8]) -> Response {
    send(doorpost.address, bytes).await
}

/// The log once `event` stands in it.
fn when_logged(doorpost: &Process, event: &str) -> String {
    for _ in 0..500 {
        let log = doorpost.log();
        if log.contains(event) {
            return log;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{event:?} is never logged: {}", doorpost.log());
}
