//! What somebody sees and gets who opens a link: the confirm page, the pages of dead links, and how long
//! the browser keeps what it was given.

use serde_json::json;
use sqlx::{AnyConnection, AssertSqlSafe};

use crate::support::TestApp;
use crate::support::database::is_postgres;
use crate::support::http::{Browser, Response};

const UNKNOWN: &str = "/users/log-in/aaaaaaaaaaaaaaaaaaaaaaaaaa";
/// The form of the confirm page with the box checked and unchecked.
const CHECKED: &str = "stay_shown=true&stay=true";
const UNCHECKED: &str = "stay_shown=true";

/// A link to log in, asked for by `browser` on its way to `return_to`.
async fn link(app: &TestApp, browser: &mut Browser, email: &str, return_to: &str) -> String {
    let body = format!("email={}&return_to={return_to}", email.replace('@', "%40"));
    browser.post("/users/log-in", &body).await.assert_found("/users/check-email");
    app.link().await
}

/// The one cookie of this name in an answer.
fn cookie<'a>(answer: &'a Response, name: &str) -> &'a str {
    let cookies: Vec<_> = answer.cookies().filter(|cookie| cookie.starts_with(&format!("{name}="))).collect();
    assert_eq!(cookies.len(), 1, "{name} in {cookies:?}");
    cookies[0]
}

/// The browser after it was closed: what `answer` set without an age is gone.
fn closed(mut browser: Browser, answer: &Response) -> Browser {
    for cookie in answer.cookies().filter(|cookie| !cookie.contains("Max-Age")) {
        browser.cookies.remove(cookie.split('=').next().unwrap());
    }
    browser
}

/// Changes whenever another connection commits anything: in SQLite's own words, and by what PostgreSQL calls
/// every row's version and place.
async fn version(watching: &mut AnyConnection) -> String {
    if !is_postgres() {
        let (version,): (i64,) = sqlx::query_as("PRAGMA data_version").fetch_one(watching).await.unwrap();
        return version.to_string();
    }
    let tables = ["users", "outbox", "links", "sessions", "marks", "mails_sent", "throttle_hits"];
    let rows = tables.map(|table| format!("SELECT '{table}', xmin::text || ctid::text AS row FROM {table}"));
    let rows = AssertSqlSafe(format!("{} ORDER BY 1, 2", rows.join(" UNION ALL ")));
    let rows: Vec<(String, String)> = sqlx::query_as(rows).fetch_all(watching).await.unwrap();
    format!("{rows:?}")
}

#[tokio::test]
async fn a_hundred_looks_write_nothing_at_all() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let good = link(&app, &mut ada, "ada@example.org", "/x").await;
    let mut stranger = app.browser_at("203.0.113.9").header("Sec-Purpose", "prefetch;prerender");
    let mut program = app.browser_at("203.0.113.10").json();
    // Her visit is noted here, and the clock stands still from now on.
    assert_eq!(ada.get("/users/settings").await.status, 200);
    let mut watching = app.database.acquire().await.unwrap();
    let before = version(&mut watching).await;
    for _ in 0..100 {
        for browser in [&mut ada, &mut stranger, &mut program] {
            assert_eq!((browser.get(&good).await.status, browser.head(&good).await.status), (200, 200));
        }
        assert_eq!(stranger.get(UNKNOWN).await.status, 410);
    }
    assert_eq!(before, version(&mut watching).await);
    drop(watching);
    assert!(!stranger.cookies.contains_key("doorpost_session"));
    app.browser().post(&good, "").await.assert_found("/x");
}

#[tokio::test]
async fn the_confirm_page_has_one_button_and_nothing_that_could_press_it() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    ada.post("/users/log-out", "").await;
    let link = link(&app, &mut ada, "ada@example.org", "/x").await;
    let page = ada.get(&link).await;
    assert_eq!(page.assert_guarded().body.matches("<button").count(), 1);
    for word in ["<script", "http-equiv", "autofocus", " on"] {
        let found = page.body.split('<').any(|tag| format!("<{}", tag.split('>').next().unwrap()).contains(word));
        assert!(!found, "{word}: {}", page.body);
    }
}

#[tokio::test]
async fn it_says_which_other_host_it_leads_to_as_things_stand_now() {
    let app = TestApp::with().setting("RETURN_HOSTS", "app.school.example").run().await;
    let mut ada = app.account("ada@example.org").await;
    ada.post("/users/log-out", "").await;
    let away = link(&app, &mut ada, "ada@example.org", "http://app.school.example/x").await;
    let page = ada.get(&away).await.words();
    assert!(page.contains("You'll continue to <strong>app.school.example</strong>."), "{page}");
    let here = link(&app, &mut ada, "ada@example.org", "/x").await;
    assert!(!ada.get(&here).await.body.contains("continue to"));
    assert_eq!(ada.clone().json().get(&here).await.json()["return_to"], "/x");
    sqlx::query("UPDATE links SET return_to = 'http://gone.example/'").execute(&app.database).await.unwrap();
    assert!(!ada.get(&away).await.body.contains("gone.example"), "no longer allowed");
    assert_eq!(ada.json().get(&away).await.json()["return_to"], json!(null));
}

#[tokio::test]
async fn a_session_stays_or_ends_with_the_browser_as_chosen() {
    let app = TestApp::start().await;
    let mut asker = app.account("ada@example.org").await;
    for (body, stays) in [
        ("", true),
        (CHECKED, true),
        (UNCHECKED, false),
        ("stay=false", false),
        ("stay=true", true),
        ("stay_shown=true&stay=false", false),
    ] {
        let link = link(&app, &mut asker, "ada@example.org", "/x").await;
        let answer = app.browser().post(&link, body).await;
        let session = cookie(answer.assert_found("/x"), "doorpost_session");
        assert_eq!(session.contains("Max-Age=2592000"), stays, "{body}: {session}");
        assert!(stays || !session.contains("Max-Age") && !session.contains("Expires"), "{body}: {session}");
        app.advance(900);
    }
    let link = link(&app, &mut asker, "ada@example.org", "/x").await;
    let program = app.browser().json().request("POST", &link, "application/json", br#"{"stay":false}"#).await;
    assert_eq!(program.json()["status"], "signed_in");
    assert!(!cookie(&program, "doorpost_session").contains("Max-Age"));
}

/// The browser may stay open for as long as it likes.
#[tokio::test]
async fn a_session_until_the_browser_closes_ends_on_the_server_as_any_other() {
    let app = TestApp::with().setting("SESSION_IDLE_SECONDS", "1000").run().await;
    let mut asker = app.account("ada@example.org").await;
    let link = link(&app, &mut asker, "ada@example.org", "/x").await;
    let mut browser = app.browser();
    browser.post(&link, UNCHECKED).await.assert_found("/x");
    app.advance(999);
    assert_eq!(browser.get("/users/settings").await.status, 200);
    app.advance(1000);
    assert_eq!(browser.get("/users/settings").await.status, 302);
}

#[tokio::test]
async fn a_double_press_keeps_the_choice() {
    let app = TestApp::start().await;
    let mut asker = app.account("ada@example.org").await;
    for (body, stays) in [(UNCHECKED, false), (CHECKED, true)] {
        let link = link(&app, &mut asker, "ada@example.org", "/x").await;
        let mut ada = app.browser();
        ada.get(&link).await;
        let (first, second) = (ada.post(&link, body).await, ada.post(&link, body).await);
        assert_eq!(cookie(first.assert_found("/x"), "doorpost_session"), cookie(&second, "doorpost_session"));
        assert_eq!(cookie(second.assert_found("/x"), "doorpost_session").contains("Max-Age"), stays);
    }
}

/// A shared computer: the link is in its history, and the server's session lives on for days.
#[tokio::test]
async fn who_comes_after_a_closed_browser_gets_nothing_of_the_last_person() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let link = link(&app, &mut ada, "ada@example.org", "/x").await;
    let mut library = app.browser();
    library.ask("/users/log-in", "ada@example.org").await;
    let answer = library.post(&link, UNCHECKED).await;
    let mut next = closed(library, answer.assert_found("/x"));
    assert_eq!(next.cookies.len(), 0, "{:?}", next.cookies);
    for answer in [next.get(&link).await, next.post(&link, "").await, next.get("/users/check-email").await] {
        assert!(!answer.body.contains("ada@example.org"), "{}", answer.body);
    }
    assert_eq!(next.get("/users/settings").await.status, 302);
    let mut at_home = app.browser();
    at_home.ask("/users/log-in", "ada@example.org").await;
    app.work().await;
    at_home.post("/users/log-out", "").await;
    assert!(!at_home.get("/users/check-email").await.body.contains("ada@example.org"));
}

#[tokio::test]
async fn what_cannot_be_read_uses_nothing_up() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let link = link(&app, &mut ada, "ada@example.org", "/x").await;
    assert_eq!(app.browser().request("POST", &link, "text/plain", b"stay=false").await.status, 415);
    app.browser().post(&link, "").await.assert_found("/x");
}

#[tokio::test]
async fn a_new_link_is_one_press_away_where_the_address_is_known() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    ada.post("/users/log-out", "").await;
    let old = link(&app, &mut ada, "ada@example.org", "/mine").await;
    app.browser().post(&old, "").await.assert_found("/mine");
    let used = ada.get(&old).await;
    let expired = link(&app, &mut ada, "ada@example.org", "/mine").await;
    app.advance(900);
    let (expired, unknown) = (ada.get(&expired).await, ada.get(UNKNOWN).await);
    for page in [used, expired, unknown] {
        assert_eq!(page.assert_guarded().status, 410);
        assert!(page.body.contains("<strong class=\"address\">ada@example.org</strong>"), "{}", page.body);
        assert!(!page.body.contains("type=\"email\""), "nothing to fill in: {}", page.body);
        assert!(page.body.contains("<a href=\"/users/log-in?return_to=%2Fmine\">Use a different"), "{}", page.body);
        let hidden = ["email\" value=\"ada@example.org", "return_to\" value=\"/mine"];
        assert!(hidden.iter().all(|field| page.body.contains(&format!("\"hidden\" name=\"{field}\""))));
    }
}

#[tokio::test]
async fn a_dead_link_tells_other_browsers_nothing_and_asks_for_the_address() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let used = link(&app, &mut ada, "ada@example.org", "/mine").await;
    ada.post(&used, "").await.assert_found("/mine");
    let expired = link(&app, &mut ada, "ada@example.org", "/mine").await;
    app.advance(900);
    for (path, code) in [(used.as_str(), "link_used"), (&expired, "link_expired"), (UNKNOWN, "link_unknown")] {
        let mut bob = app.browser_at("203.0.113.9");
        bob.cookies.insert("doorpost_browser".into(), "a".repeat(52));
        for page in [bob.get(path).await, bob.post(path, "").await] {
            assert_eq!(page.assert_guarded().status, 410);
            assert!(!page.body.contains("ada@") && !page.body.contains("/mine"), "{}", page.body);
            assert!(page.body.contains("type=\"email\"") && page.body.contains("Send me a new link"));
        }
        let told = bob.json().get(path).await;
        let error = &told.json()["error"];
        assert_eq!((told.status, &error["code"], &error["details"]), (410, &code.into(), &json!({})));
    }
}

/// Two tabs asked; the cookie knows the last one only.
#[tokio::test]
async fn a_new_link_for_a_dead_one_leads_where_that_one_led() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    ada.post("/users/log-out", "").await;
    let first = link(&app, &mut ada, "ada@example.org", "/first").await;
    link(&app, &mut ada, "ada@example.org", "/last").await;
    app.advance(900);
    let page = ada.get(&first).await.body;
    assert!(page.contains("value=\"/first\"") && !page.contains("/last"), "{page}");
    let details = ada.json().get(&first).await.json()["error"]["details"].clone();
    assert_eq!(details, json!({ "email": "ada@example.org", "return_to": "/first" }));
}

/// An account that exists is logged in to; one that doesn't is registered.
#[tokio::test]
async fn a_registration_goes_on_as_one_unless_it_was_completed() {
    let app = TestApp::start().await;
    let mut ada = app.browser();
    ada.ask("/users/register", "ada@example.org").await;
    let link = app.link().await;
    app.advance(900);
    assert!(ada.get(&link).await.body.contains("action=\"/users/register\""));
    ada.ask("/users/register", "ada@example.org").await;
    let link = app.link().await;
    app.browser().post(&link, "").await.assert_found("/users/settings");
    assert!(ada.get(&link).await.body.contains("action=\"/users/log-in\""));
}

#[tokio::test]
async fn a_used_link_does_not_sign_in_again_who_has_logged_out() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let link = link(&app, &mut ada, "ada@example.org", "/x").await;
    ada.post(&link, "").await.assert_found("/x");
    ada.post("/users/log-out", "").await;
    for page in [ada.get(&link).await, ada.post(&link, "").await] {
        assert_eq!((page.status, page.cookies().count()), (410, 0));
        assert!(page.words().contains("you've been logged out since"), "{}", page.body);
    }
    assert_eq!(ada.get("/users/settings").await.status, 302);
    assert_eq!(ada.json().post(&link, "").await.json()["error"]["code"], "link_used");
    assert_eq!(app.rows("sessions").await, 0);
}

/// The old tab's button, after a new log-in: there is nothing to complain about.
#[tokio::test]
async fn a_used_link_leads_on_who_has_logged_in_anew() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let old = link(&app, &mut ada, "ada@example.org", "/old").await;
    ada.post(&old, "").await.assert_found("/old");
    ada.post("/users/log-out", "").await;
    let new = link(&app, &mut ada, "ada@example.org", "/new").await;
    ada.post(&new, "").await.assert_found("/new");
    assert_eq!(ada.post(&old, "").await.assert_found("/old").cookies().count(), 0);
    assert_eq!(ada.get("/users/settings").await.status, 200);
}

#[tokio::test]
async fn a_used_link_is_kind_to_who_is_logged_in_to_that_account() {
    let app = TestApp::start().await;
    let mut bob = app.account("bob@example.org").await;
    let mut ada = app.account("ada@example.org").await;
    let mut phone = app.browser();
    let link = link(&app, &mut ada, "ada@example.org", "/x").await;
    phone.post(&link, "").await.assert_found("/x");
    let page = ada.get(&link).await;
    assert_eq!(page.status, 410);
    assert!(page.words().contains("You're already logged in as") && page.body.contains("ada@example.org"));
    assert!(page.body.contains("href=\"/x\">Continue</a>") && !page.body.contains("<form"), "{}", page.body);
    let error = ada.json().get(&link).await.json()["error"].clone();
    assert_eq!(error["code"], "link_used");
    assert_eq!(error["details"], json!({ "signed_in_as": "ada@example.org", "location": "/x" }));
    assert!(!bob.get(&link).await.words().contains("already logged in"), "that is another account");
}

#[tokio::test]
async fn who_is_logged_in_as_somebody_else_is_asked_which_to_keep() {
    let app = TestApp::start().await;
    let mut bob = app.account("bob@example.org").await;
    let mut ada = app.account("ada@example.org").await;
    let link = link(&app, &mut bob, "bob@example.org", "/x").await;
    let page = ada.get(&link).await.words();
    assert!(page.contains("Log in as <span class=\"address\">bob@example.org</span> instead?"), "{page}");
    assert!(page.contains("You're logged in as <strong class=\"address\">ada@example.org</strong>."), "{page}");
    assert!(page.contains("href=\"/x\">Stay logged in as ada@example.org</a>"), "{page}");
    assert_eq!(ada.clone().json().get(&link).await.json()["signed_in_as"], "ada@example.org");
    let mut stranger = app.browser_at("203.0.113.9");
    assert!(!stranger.get(&link).await.body.contains("ada@example.org"));
    assert_eq!(stranger.json().get(&link).await.json()["signed_in_as"], json!(null));
    // Staying consumed nothing; switching ends the session that was.
    let mut before = ada.clone();
    ada.post(&link, CHECKED).await.assert_found("/x");
    assert!(ada.get("/users/settings").await.body.contains("bob@example.org"));
    assert_eq!(before.get("/users/settings").await.status, 302);
}

/// One who forges the session's cookie is nobody.
#[tokio::test]
async fn a_tampered_cookie_is_shown_nobodys_name() {
    let app = TestApp::start().await;
    let mut bob = app.account("bob@example.org").await;
    let ada = app.account("ada@example.org").await;
    let link = link(&app, &mut bob, "bob@example.org", "/x").await;
    let session = &ada.cookies["doorpost_session"];
    for forged in ["", "x", &session[1..], &"a".repeat(52), &session.to_ascii_uppercase(), &format!("{session}a")] {
        let mut forger = app.browser();
        forger.cookies.insert("doorpost_session".into(), forged.to_owned());
        let page = forger.get(&link).await;
        assert_eq!(page.status, 200);
        assert!(!page.body.contains("ada@") && !page.body.contains("instead"), "{forged}: {}", page.body);
    }
}

#[tokio::test]
async fn a_link_to_the_account_one_is_logged_in_to_says_so_and_works() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let link = link(&app, &mut ada, "ada@example.org", "/x").await;
    assert!(ada.get(&link).await.words().contains("You're already logged in to this account."));
    ada.post(&link, CHECKED).await.assert_found("/x");
    assert!(ada.get("/users/settings").await.body.contains("ada@example.org"));
    assert_eq!(app.rows("sessions").await, 1);
}

#[tokio::test]
async fn a_form_left_open_for_an_hour_still_works_across_a_restart() {
    let app = TestApp::start().await;
    let mut ada = app.browser();
    let form = ada.get("/users/register?return_to=/x").await.body;
    assert!(form.contains("name=\"return_to\" value=\"/x\""));
    app.advance(3600);
    let app = app.restart().await;
    ada.address = app.address;
    ada.post("/users/register", "email=ada%40example.org&return_to=/x").await.assert_found("/users/check-email");
    let link = app.link().await;
    ada.get(&link).await;
    app.advance(600);
    let app = app.restart().await;
    ada.address = app.address;
    ada.post(&link, CHECKED).await.assert_found("/x");
}

#[tokio::test]
async fn two_tabs_that_ask_at_once_do_not_spoil_each_other() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    app.account("bob@example.org").await;
    ada.post("/users/log-out", "").await;
    let (mut one, mut other) = (ada.clone(), ada.clone());
    let first = link(&app, &mut one, "ada@example.org", "/first").await;
    let second = link(&app, &mut other, "bob@example.org", "/second").await;
    let third = link(&app, &mut other, "ada@example.org", "/third").await;
    // One jar: what is shown is the last one's.
    let mut ada = other;
    assert!(ada.get("/users/check-email").await.body.contains("/third"));
    for link in [&first, &second, &third] {
        let page = ada.get(link).await;
        assert!(page.status == 200 && !page.body.contains("different browser"), "{}", page.body);
    }
    ada.post(&second, "").await.assert_found("/second");
    ada.post(&first, "").await.assert_found("/first");
    // Using one link ends the account's others; the page still leads where that one led.
    let page = ada.post(&third, "").await;
    assert!(page.status == 410 && page.body.contains("href=\"/third\">Continue</a>"), "{}", page.body);
}

/// Browsers that keep a page for the back button in spite of `no-store` drop it when a cookie that
/// scripts can't see changes.
#[tokio::test]
async fn nothing_stale_comes_back_after_log_in_and_log_out() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let link = link(&app, &mut ada, "ada@example.org", "/users/settings").await;
    ada.get(&link).await.assert_guarded();
    let entered = ada.post(&link, "").await;
    ada.get("/users/settings").await.assert_guarded();
    let left = ada.post("/users/log-out", "").await;
    for answer in [entered, left] {
        let session = cookie(answer.assert_guarded(), "doorpost_session");
        assert!(session.contains("HttpOnly"), "{session}");
    }
    assert_eq!(ada.get("/users/settings").await.status, 302);
}

/// Who is logged in is looked up for those only who show a session's cookie.
#[tokio::test]
async fn a_look_by_nobody_asks_for_no_session() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let link = link(&app, &mut ada, "ada@example.org", "/x").await;
    sqlx::query("ALTER TABLE sessions RENAME TO away").execute(&app.database).await.unwrap();
    assert_eq!(app.browser().get(&link).await.status, 200);
    assert_eq!(app.browser().get(UNKNOWN).await.status, 410);
    assert_eq!(ada.get(&link).await.assert_guarded().status, 503, "and for those it is");
}
