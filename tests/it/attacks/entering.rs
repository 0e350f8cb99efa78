//! Attacks on the link and the session.

use tokio::task::JoinSet;

use crate::support::{TestApp, path_of};

#[tokio::test]
async fn attack_01_pre_registration() {
    let app = TestApp::start().await;
    let mut attacker = app.browser_at("203.0.113.66");
    attacker
        .post("/users/register", "email=victim%40example.org&return_to=/evil")
        .await
        .assert_found("/users/check-email");
    assert_eq!(app.rows("users").await, 0, "nobody has an account before it is confirmed");
    let attackers_link = app.link().await;
    let mut victim = app.browser_at("203.0.113.7");
    victim.ask("/users/register", "victim@example.org").await;
    let link = app.link().await;
    victim.post(&link, "").await.assert_found("/users/settings");
    assert_eq!(attacker.post(&attackers_link, "").await.status, 410, "every earlier link is dead");
    assert_eq!(attacker.get("/users/settings").await.status, 302);
    assert_eq!((app.rows("users").await, app.rows("sessions").await), (1, 1));
}

#[tokio::test]
async fn attack_02_scanner_opens_the_link() {
    let app = TestApp::start().await;
    let mut student = app.browser();
    student.ask("/users/register", "ada@example.org").await;
    let link = app.link().await;
    let mut scanner = app.browser_at("203.0.113.9").header("Sec-Purpose", "prefetch");
    for _ in 0..5 {
        assert_eq!(scanner.head(&link).await.assert_guarded().status, 200);
        let page = scanner.get(&link).await;
        assert_eq!(page.assert_guarded().status, 200);
        assert!(!page.body.contains("<script") && !page.body.contains("autofocus"), "nothing presses the button");
    }
    assert!(!scanner.cookies.contains_key("doorpost_session"));
    assert_eq!((app.rows("users").await, app.rows("sessions").await), (0, 0));
    student.post(&link, "").await.assert_found("/users/settings");
}

#[tokio::test]
async fn attack_11_race_on_a_single_use_link() {
    let app = TestApp::start().await;
    app.browser().ask("/users/register", "ada@example.org").await;
    let link = app.link().await;
    let mut posts = JoinSet::new();
    for n in 0..50 {
        let (mut browser, link) = (app.browser_at(&format!("203.0.113.{n}")), link.clone());
        posts.spawn(async move { browser.post(&link, "").await });
    }
    let answers = posts.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 302).count(), 1);
    let used = answers.iter().filter(|answer| answer.body.contains("This link was already used"));
    assert_eq!(used.count(), 49);
    assert_eq!(app.rows("sessions").await, 1);
}

/// A double click: the same browser gets the same session, never a second one.
#[tokio::test]
async fn attack_11_race_from_one_browser() {
    let app = TestApp::start().await;
    let mut browser = app.browser();
    browser.ask("/users/register", "ada@example.org").await;
    let link = app.link().await;
    let mut posts = JoinSet::new();
    for _ in 0..50 {
        let (mut twin, link) = (browser.clone(), link.clone());
        posts.spawn(async move {
            twin.post(&link, "").await.assert_found("/users/settings");
            twin.cookies["doorpost_session"].clone()
        });
    }
    let mut sessions = posts.join_all().await;
    sessions.dedup();
    assert_eq!((sessions.len(), app.rows("sessions").await), (1, 1));
}

#[tokio::test]
async fn attack_13_confirm_without_a_token_or_with_another_purpose() {
    let app = TestApp::start().await;
    let mut browser = app.account("ada@example.org").await;
    let fresh = app.browser_at("203.0.113.5");
    assert_eq!(fresh.clone().post("/users/log-in/", "").await.assert_guarded().status, 404);
    browser.ask("/users/log-in", "ada@example.org").await;
    let link = app.link().await;
    sqlx::query("UPDATE links SET purpose = 'change_email'").execute(&app.database).await.unwrap();
    assert_eq!(fresh.clone().get(&link).await.status, 410);
    let answer = fresh.clone().post(&link, "").await;
    assert_eq!((answer.status, answer.cookies().count()), (410, 0));
    assert_eq!(app.rows("sessions").await, 1, "the one there was");
}

#[tokio::test]
async fn attack_14_log_in_by_an_attackers_link() {
    let app = TestApp::start().await;
    app.browser_at("203.0.113.66").ask("/users/register", "attacker@example.org").await;
    let link = app.link().await;
    let page = app.browser_at("203.0.113.7").get(&link).await.body;
    assert!(page.contains("attacker@example.org"), "{page}");
    assert!(page.contains("asked for in a different browser"), "{page}");
}

#[tokio::test]
async fn attack_15_session_fixation() {
    let app = TestApp::start().await;
    let mut browser = app.browser();
    let fixed = "a".repeat(52);
    browser.cookies.insert("doorpost_session".into(), fixed.clone());
    browser.ask("/users/register", "ada@example.org").await;
    let link = path_of(&app.deliver().await[0]);
    browser.post(&link, "").await.assert_found("/users/settings");
    assert_ne!(browser.cookies["doorpost_session"], fixed);
    let mut attacker = app.browser();
    attacker.cookies.insert("doorpost_session".into(), fixed);
    attacker.get("/users/settings").await.assert_found("/users/log-in?return_to=%2Fusers%2Fsettings");
}

/// New at every sign-in: two links never give the same session.
#[tokio::test]
async fn attack_15_a_session_is_new_at_every_sign_in() {
    let app = TestApp::start().await;
    let mut browser = app.account("ada@example.org").await;
    let first = browser.cookies["doorpost_session"].clone();
    browser.ask("/users/log-in", "ada@example.org").await;
    let link = app.link().await;
    browser.post(&link, "").await.assert_found("/users/settings");
    assert_ne!(browser.cookies["doorpost_session"], first);
}

#[tokio::test]
async fn attack_34_a_replayed_cookie_after_log_out() {
    let app = TestApp::start().await;
    let mut browser = app.account("ada@example.org").await;
    let mut copy = browser.clone();
    browser.post("/users/log-out", "").await.assert_found("/users/log-in?logged_out=1");
    assert!(!browser.cookies.contains_key("doorpost_session"));
    copy.get("/users/settings").await.assert_found("/users/log-in?return_to=%2Fusers%2Fsettings");
}

/// A sibling host may toss in a cookie of the session's name; the real one still counts, and ends.
#[tokio::test]
async fn attack_34_a_second_cookie_of_the_same_name_hides_nothing() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let pair = format!("{}; doorpost_session={}", "a".repeat(52), ada.cookies["doorpost_session"]);
    let mut copy = ada.clone();
    ada.cookies.insert("doorpost_session".into(), pair);
    assert_eq!(ada.get("/users/settings").await.status, 200);
    ada.post("/users/log-out", "").await.assert_found("/users/log-in?logged_out=1");
    assert_eq!(copy.get("/users/settings").await.status, 302);
}

/// DNS rebinding: another site's name that leads to this machine shows nobody's links.
#[tokio::test]
async fn the_mailbox_is_for_this_machine_under_its_own_name() {
    let app = TestApp::start().await;
    let at = |host: &str| format!("GET /dev/mailbox HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    for (host, status) in [("localhost:8080", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("evil.example", 404)] {
        assert_eq!(crate::support::http::send(app.address, at(host).as_bytes()).await.status, status, "{host}");
    }
    assert_eq!(app.browser_at("203.0.113.9").get("/dev/mailbox").await.status, 404);
}
