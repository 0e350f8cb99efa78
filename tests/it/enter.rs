//! The straight way through: register, get the mail, sign in, log out, sign in again.

use doorpost::worker::Outcome;

use crate::support::{TestApp, path_of};

#[tokio::test]
async fn a_person_registers_signs_in_logs_out_and_logs_in_again() {
    let app = TestApp::start().await;
    let mut ada = app.browser();
    ada.get("/").await.assert_found("/users/log-in");
    ada.ask("/users/register", "Ada@Example.org").await.assert_found("/users/check-email");
    assert!(ada.get("/users/check-email").await.body.contains("Ada@Example.org"), "as typed, so that a typo is seen");
    let link = app.link().await;
    let page = ada.get(&link).await;
    assert!(page.body.contains("Create your account as") && page.body.contains("ada@example.org"), "{}", page.body);
    assert!(!page.body.contains("different browser"));
    ada.post(&link, "").await.assert_found("/users/settings");
    assert!(ada.get("/users/settings").await.body.contains("ada@example.org"));
    ada.get("/").await.assert_found("/users/settings");
    ada.post("/users/log-out", "").await.assert_found("/users/log-in?logged_out=1");
    ada.get("/users/settings").await.assert_found("/users/log-in?return_to=%2Fusers%2Fsettings");
    ada.ask("/users/log-in", "ada@example.org").await.assert_found("/users/check-email");
    let link = app.link().await;
    ada.post(&link, "").await.assert_found("/users/settings");
    assert_eq!(app.rows("users").await, 1);
    assert_eq!(app.rows("outbox").await, 0);
}

#[tokio::test]
async fn programs_get_json_all_the_way() {
    let app = TestApp::start().await;
    let mut program = app.browser().json();
    let asked = program.request(
        "POST",
        "/users/register",
        "application/json",
        br#"{"email":"ada@example.org","return_to":"/x"}"#,
    );
    let asked = asked.await;
    assert_eq!((asked.status, asked.json()), (202, serde_json::json!({ "status": "check_email" })));
    let link = app.link().await;
    assert_eq!(program.get(&link).await.json()["email"], "ada@example.org");
    let entered = program.post(&link, "").await;
    assert_eq!((entered.status, entered.json()), (200, serde_json::json!({ "status": "signed_in", "location": "/x" })));
    assert_eq!(program.get("/users/settings").await.json()["email"], "ada@example.org");
    program.post("/users/log-out", "").await;
    let turned_away = program.get("/users/settings").await;
    assert_eq!((turned_away.status, &turned_away.json()["error"]["code"]), (401, &"unauthenticated".into()));
}

#[tokio::test]
async fn a_link_leads_where_the_person_was_going() {
    let app = TestApp::with()
        .setting("RETURN_HOSTS", "app.school.example")
        .setting("BASE_URL", "https://localhost")
        .run()
        .await;
    let mut ada = app.browser();
    let page = ada.get("/users/register?return_to=https%3A%2F%2Fapp.school.example%2Fx%3Fa%3D1").await;
    assert!(page.body.contains(r#"name="return_to" value="https://app.school.example/x?a=1""#), "{}", page.body);
    assert!(page.header("content-security-policy").unwrap().contains("form-action 'self' https://app.school.example;"));
    ada.post("/users/register", "email=ada%40example.org&return_to=https%3A%2F%2Fapp.school.example%2Fx%3Fa%3D1").await;
    let link = app.link().await;
    assert!(ada.get(&link).await.body.contains("<strong>app.school.example</strong>"));
    let entered = ada.post(&link, "").await;
    entered.assert_found("https://app.school.example/x?a=1");
    let session = entered.cookies().find(|cookie| cookie.contains("session")).unwrap();
    assert!(session.starts_with("__Host-doorpost_session=") && session.contains("; Secure"), "{session}");
    assert!(
        session.contains("HttpOnly") && session.contains("SameSite=Lax") && session.contains("Path=/"),
        "{session}"
    );
}

/// Sending it again, another address, a new link for a dead one: the destination comes along.
#[tokio::test]
async fn a_destination_outlives_a_second_try() {
    let app = TestApp::start().await;
    let mut ada = app.browser();
    ada.post("/users/register", "email=ada%40example.org&return_to=/courses").await;
    let page = ada.get("/users/check-email").await.body;
    assert!(page.contains(r#"name="return_to" value="/courses""#), "{page}");
    assert!(page.contains(r#"href="/users/register?return_to=%2Fcourses""#), "{page}");
    let link = app.link().await;
    app.advance(900);
    let dead = ada.get(&link).await.body;
    assert!(dead.contains(r#"action="/users/register""#) && dead.contains(r#"value="/courses""#), "{dead}");
}

#[tokio::test]
async fn an_unknown_address_gets_nothing_and_an_account_gets_a_link() {
    let app = TestApp::start().await;
    app.browser().ask("/users/log-in", "nobody@example.org").await.assert_found("/users/check-email");
    assert_eq!(app.work().await, [Outcome::Dropped]);
    assert_eq!((app.rows("outbox").await, app.rows("users").await), (0, 0));
}

#[tokio::test]
async fn siblings_die_when_one_is_used_and_not_when_another_is_asked_for() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let mut links = Vec::new();
    for _ in 0..3 {
        ada.ask("/users/log-in", "ada@example.org").await;
        links.push(app.link().await);
    }
    assert_eq!(ada.get(&links[0]).await.status, 200, "an older link still works");
    ada.post(&links[1], "").await.assert_found("/users/settings");
    for dead in [&links[0], &links[2]] {
        let answer = ada.post(dead, "").await;
        assert_eq!(answer.status, 410);
        assert!(answer.body.contains("This link was already used"), "{}", answer.body);
    }
}

#[tokio::test]
async fn used_expired_and_unknown_links_say_so() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    ada.ask("/users/log-in", "ada@example.org").await;
    let link = app.link().await;
    app.advance(899);
    assert_eq!(ada.get(&link).await.status, 200);
    app.advance(1);
    let unknown = format!("/users/log-in/{}", "a".repeat(26));
    for (path, words, code) in
        [(&link, "This link is too old", "link_expired"), (&unknown, "This link doesn&#39;t work", "link_unknown")]
    {
        for answer in [ada.get(path).await, ada.post(path, "").await] {
            assert_eq!(answer.assert_guarded().status, 410);
            assert!(answer.body.contains(words) && answer.body.contains("Send me a new link"), "{}", answer.body);
            assert!(
                answer.body.contains("value=\"ada@example.org\""),
                "prefilled where this browser knows the address"
            );
        }
        assert_eq!(app.browser().json().post(path, "").await.json()["error"]["code"], code);
    }
}

#[tokio::test]
async fn the_same_browser_pressing_twice_lands_where_it_was_going() {
    let app = TestApp::start().await;
    let mut ada = app.browser();
    ada.post("/users/register", "email=ada%40example.org&return_to=/courses").await;
    let link = app.link().await;
    ada.post(&link, "").await.assert_found("/courses");
    ada.post(&link, "").await.assert_found("/courses");
    assert_eq!(ada.get("/users/settings").await.status, 200);
    ada.post("/users/log-out", "").await;
    let again = ada.post(&link, "").await;
    assert_eq!((again.status, again.cookies().count()), (410, 0), "a session that ended stays ended");
    assert_eq!(app.browser_at("203.0.113.9").post(&link, "").await.status, 410);
}

#[tokio::test]
async fn log_out_everywhere_ends_every_session() {
    let app = TestApp::start().await;
    let mut phone = app.account("ada@example.org").await;
    let mut laptop = app.browser();
    laptop.ask("/users/log-in", "ada@example.org").await;
    let link = app.link().await;
    laptop.post(&link, "").await.assert_found("/users/settings");
    assert!(laptop.get("/users/settings").await.body.contains("2 devices"));
    laptop.post("/users/log-out", "everywhere=true").await;
    phone.get("/users/settings").await.assert_found("/users/log-in?return_to=%2Fusers%2Fsettings");
    assert_eq!(app.rows("sessions").await, 0);
}

#[tokio::test]
async fn a_session_ends_when_idle_and_at_its_absolute_end() {
    let app =
        TestApp::with().setting("SESSION_IDLE_SECONDS", "1000").setting("SESSION_LIFETIME_SECONDS", "5000").run().await;
    let mut browser = app.browser();
    browser.ask("/users/register", "ada@example.org").await;
    let link = app.link().await;
    browser.post(&link, "").await;
    for _ in 0..5 {
        app.advance(990);
        assert_eq!(browser.get("/users/settings").await.status, 200);
    }
    app.advance(50);
    assert_eq!(browser.get("/users/settings").await.status, 302, "the absolute end");
    doorpost::worker::sweep(&app.app).await.unwrap();
    assert_eq!(app.rows("sessions").await, 0);
}

/// If starting the session fails, the link is still good.
#[tokio::test]
async fn a_link_whose_session_could_not_start_still_works() {
    let app = TestApp::start().await;
    let mut ada = app.browser();
    ada.ask("/users/register", "ada@example.org").await;
    let link = path_of(&app.deliver().await[0]);
    sqlx::query("ALTER TABLE sessions RENAME TO away").execute(&app.database).await.unwrap();
    assert_eq!(ada.post(&link, "").await.assert_guarded().status, 503);
    sqlx::query("ALTER TABLE away RENAME TO sessions").execute(&app.database).await.unwrap();
    ada.post(&link, "").await.assert_found("/users/settings");
}

#[tokio::test]
async fn closed_registration_and_foreign_domains_say_so() {
    let closed = TestApp::with().setting("REGISTRATION", "closed").run().await;
    let page = closed.browser().get("/users/register").await;
    assert!(page.status == 200 && page.body.contains("No new accounts"), "{}", page.body);
    assert!(!closed.browser().get("/users/log-in").await.body.contains("/users/register"));
    assert_eq!(closed.browser().ask("/users/register", "a@x.example").await.status, 403);
    assert_eq!(
        closed.browser().json().ask("/users/register", "a@x.example").await.json()["error"]["code"],
        "registration_closed"
    );
    let domains = TestApp::with().setting("REGISTRATION_DOMAINS", "school.edu,*.school.edu").run().await;
    assert_eq!(domains.browser().ask("/users/register", "a@x.example").await.status, 422);
    domains.browser().ask("/users/register", "a@cs.school.edu").await.assert_found("/users/check-email");
    domains.browser().ask("/users/log-in", "a@x.example").await.assert_found("/users/check-email");
    domains.work().await;
}

#[tokio::test]
async fn styles_are_kept_for_a_year_and_health_is_never_throttled() {
    let app = TestApp::with().setting("THROTTLE_ANONYMOUS_LIMIT", "1").run().await;
    let mut browser = app.browser();
    let page = browser.get("/users/log-in").await.body;
    let style = page
        .split("href=\"")
        .find_map(|part| part.starts_with("/static/style").then(|| part.split('"').next().unwrap()));
    for _ in 0..3 {
        let answer = browser.get(style.unwrap()).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/css; charset=utf-8")));
        assert_eq!(answer.header("cache-control"), Some("public, max-age=31536000, immutable"));
        assert_eq!(browser.get("/health").await.json()["status"], "ok");
    }
    assert_eq!(browser.get("/static/style.css").await.status, 404);
    assert_eq!(browser.get("/users/log-in").await.status, 429);
}

/// One browser is one device: signing in again ends the session it had.
#[tokio::test]
async fn signing_in_again_replaces_this_browsers_session() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let mut copy = ada.clone();
    ada.ask("/users/log-in", "ada@example.org").await;
    let link = app.link().await;
    ada.post(&link, "").await.assert_found("/users/settings");
    assert_eq!(app.rows("sessions").await, 1);
    assert_eq!(copy.get("/users/settings").await.status, 302);
}
