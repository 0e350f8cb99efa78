//! Attacks on the counters: forged addresses, other spellings, floods.

use crate::support::TestApp;
use crate::support::http::Browser;

#[tokio::test]
async fn attack_20_forged_addresses_give_one_key() {
    let app = TestApp::start().await;
    let headers: Vec<Box<dyn Fn(Browser, usize) -> Browser>> = vec![
        Box::new(|b, n| b.from(&format!("1.2.3.{n}, 203.0.113.9"))),
        Box::new(|b, n| b.from(&format!("1.2.3.{n}")).from("203.0.113.9")),
        Box::new(|b, n| b.from(&format!(",,garbage{n},, 203.0.113.9"))),
        Box::new(|b, n| b.header("Forwarded", &format!("for=1.2.3.{n}")).from("203.0.113.9")),
        Box::new(|b, n| b.header("X-Real-IP", &format!("1.2.3.{n}")).from("203.0.113.9")),
        Box::new(|b, n| b.header("X_Forwarded_For", &format!("1.2.3.{n}")).from("203.0.113.9")),
        Box::new(|b, n| b.header("True-Client-IP", &format!("1.2.3.{n}")).from("203.0.113.9")),
        Box::new(|b, n| b.header("CF-Connecting-IP", &format!("1.2.3.{n}")).from("203.0.113.9:4711")),
    ];
    let mut allowed = 0;
    for n in 0..24 {
        let mut browser = headers[n % headers.len()](app.browser(), n);
        allowed += usize::from(browser.ask("/users/log-in", &format!("a{n}@example.org")).await.status == 302);
    }
    assert_eq!(allowed, 5, "24 forged headers are one client");
    app.work().await;
}

#[tokio::test]
async fn attack_21_no_proxy_and_a_forged_header() {
    let app = TestApp::with().setting("TRUSTED_PROXIES", "10.0.0.0/8").run().await;
    for n in 0..6 {
        let mut browser = app.browser_at(&format!("203.0.113.{n}"));
        let wanted = if n < 5 { 302 } else { 429 };
        assert_eq!(browser.ask("/users/log-in", &format!("a{n}@example.org")).await.status, wanted);
    }
    app.work().await;
}

#[tokio::test]
async fn attack_22_ipv6_rotation() {
    let app = TestApp::start().await;
    let mut allowed = 0;
    for n in 0..1000 {
        let mut browser = app.browser_at(&format!("2001:db8:1:2:{n:x}::{n:x}"));
        allowed += usize::from(browser.ask("/users/log-in", &format!("a{n}@example.org")).await.status == 302);
    }
    assert_eq!(allowed, 5, "a /64 is one client");
    for (n, spelling) in ["203.0.113.9", "::ffff:203.0.113.9", "::ffff:cb00:7109"].iter().cycle().take(6).enumerate() {
        let wanted = if n < 5 { 302 } else { 429 };
        assert_eq!(app.browser_at(spelling).ask("/users/log-in", &format!("b{n}@example.org")).await.status, wanted);
    }
    app.work().await;
}

#[tokio::test]
async fn attack_23_another_spelling_another_bucket() {
    let app = TestApp::with().setting("THROTTLE_IP_BURST_LIMIT", "100").run().await;
    let mut browser = app.browser();
    browser.ask("/users/log-in", "v.ictim+1@gmail.com").await.assert_found("/users/check-email");
    browser.ask("/users/register", "  VICTIM@GoogleMail.com ").await.assert_found("/users/check-email");
    let json = br#"{"email":"vic.tim+x@gmail.com"}"#;
    assert_eq!(browser.request("POST", "/users/%6cog-in", "application/json", json).await.status, 302);
    for (path, email) in [("/users/log-in", "victim@gmail.com"), ("/users/register", "v.i.c.t.i.m@gmail.com")] {
        assert_eq!(browser.ask(path, email).await.status, 429, "{path} {email}");
    }
    let json = br#"{"email":"victim+9@gmail.com"}"#;
    assert_eq!(browser.request("POST", "/users/log-in", "application/json", json).await.status, 429);
    app.work().await;
}

#[tokio::test]
async fn attack_24_burning_a_victims_ceiling_with_refused_requests() {
    let app = TestApp::start().await;
    let mut attacker = app.browser_at("203.0.113.66");
    for n in 0..5 {
        attacker.ask("/users/log-in", &format!("a{n}@example.org")).await;
    }
    for _ in 0..20 {
        assert_eq!(attacker.ask("/users/log-in", "victim@example.org").await.status, 429);
    }
    for n in 0..3 {
        let mut victim = app.browser_at(&format!("198.51.100.{n}"));
        victim.ask("/users/log-in", "victim@example.org").await.assert_found("/users/check-email");
    }
    app.work().await;
}

#[tokio::test]
async fn attack_25_lock_out_by_hammering() {
    let app = TestApp::start().await;
    for n in 0..3 {
        app.browser_at(&format!("198.51.100.{n}")).ask("/users/log-in", "victim@example.org").await;
    }
    // Hours of it, from everywhere; the victim's ceiling opens when it would have anyway.
    for minute in 0..14 {
        app.advance(60);
        let answer = app.browser_at(&format!("203.0.113.{minute}")).ask("/users/log-in", "victim@example.org").await;
        let left = 900 - (minute + 1) * 60;
        assert_eq!(answer.header("retry-after"), Some(left.to_string().as_str()));
    }
    app.advance(60);
    app.browser().ask("/users/log-in", "victim@example.org").await.assert_found("/users/check-email");
    app.work().await;
}
