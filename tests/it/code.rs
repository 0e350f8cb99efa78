//! The code beside the link: typed where it was asked for, and nowhere else.

use doorpost::mail::Mail;
use tokio::task::JoinSet;

use crate::support::http::{Browser, Response};
use crate::support::{Start, TestApp, path_of};

const WRONG: &str = "That code isn't right, or it's too old. Check the newest e-mail, or send a new one.";

/// Ada has an account and asks for a link in a browser that is new.
async fn ada_asks(start: Start) -> (TestApp, Browser, Mail) {
    let app = start.run().await;
    app.account("ada@example.org").await;
    let mut ada = app.browser_at("198.51.100.1");
    let mail = asks(&app, &mut ada, "/users/log-in", "ada@example.org").await;
    (app, ada, mail)
}

async fn asks(app: &TestApp, browser: &mut Browser, path: &str, email: &str) -> Mail {
    browser.ask(path, email).await.assert_found("/users/check-email");
    let mut mails = app.deliver().await;
    assert_eq!(mails.len(), 1);
    mails.remove(0)
}

async fn types(browser: &mut Browser, code: &str) -> Response {
    let form: String = form_urlencoded::Serializer::new(String::new()).append_pair("code", code).finish();
    browser.post("/users/log-in/code", &form).await
}

#[track_caller]
fn assert_wrong(answer: &Response) {
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.body.replace("&#39;", "'").contains(WRONG), "{}", answer.body);
    assert!(answer.cookies().all(|cookie| !cookie.contains("session")));
}

/// A code that isn't this one.
fn other_than(code: &str) -> &'static str {
    if code == "000-000" { "111-111" } else { "000-000" }
}

async fn tries(app: &TestApp) -> Vec<i64> {
    let tries: Vec<(i64,)> = sqlx::query_as("SELECT code_tries FROM outbox WHERE purpose = 'log_in' ORDER BY id")
        .fetch_all(&app.database)
        .await
        .unwrap();
    tries.into_iter().map(|(tries,)| tries).collect()
}

#[tokio::test]
async fn a_code_signs_in_where_it_was_asked_for() {
    let (app, mut ada, mail) = ada_asks(TestApp::with()).await;
    assert_eq!(mail.subject, format!("{} is your Doorpost code", mail.code));
    assert!(mail.text.contains(&format!("Or type this code where you asked for it: {}", mail.code)), "{}", mail.text);
    assert!(mail.html.contains(&mail.code));
    let page = ada.get("/users/check-email").await;
    assert!(page.body.contains(r#"name="code" type="text" autocomplete="one-time-code""#), "{}", page.body);
    types(&mut ada, &mail.code).await.assert_found("/users/settings");
    assert!(ada.get("/users/settings").await.body.contains("ada@example.org"));
    assert_eq!(app.metric(r#"doorpost_sign_ins_total{by="code"}"#).as_deref(), Some("1"));
}

#[tokio::test]
async fn it_is_read_as_people_type_it() {
    for spell in [
        |code: &str| code.to_lowercase(),
        |code: &str| code.replace('-', ""),
        |code: &str| format!("  {}\u{a0}", code.replace('-', " \u{2013} ")),
        |code: &str| code.replace('0', "O").replace('1', "l"),
        |code: &str| code.replace('0', "o").replace('1', "i"),
        |code: &str| format!("\u{2068}{}\u{ad}\u{2069}", code.replace('-', "\u{FF0D}")),
    ] {
        let (_app, mut ada, mail) = ada_asks(TestApp::with()).await;
        types(&mut ada, &spell(&mail.code)).await.assert_found("/users/settings");
    }
}

#[tokio::test]
async fn it_creates_the_account_of_a_registration_and_leads_where_the_person_was_going() {
    let app = TestApp::start().await;
    let mut ada = app.browser();
    ada.post("/users/register", "email=ada%40example.org&return_to=%2Fapp%3Fa%3D1").await;
    let mail = app.deliver().await.remove(0);
    types(&mut ada, &mail.code).await.assert_found("/app?a=1");
    assert_eq!(app.rows("users").await, 1);
}

#[tokio::test]
async fn programs_may_send_it_too() {
    let (_app, mut ada, mail) = ada_asks(TestApp::with()).await;
    let mut program = ada.clone().json();
    let body = |code: &str| format!(r#"{{"code":"{code}"}}"#).into_bytes();
    let wrong = program.request("POST", "/users/log-in/code", "application/json", &body("000-00U")).await;
    assert_eq!((wrong.status, &wrong.json()["error"]["code"]), (422, &"code_wrong".into()));
    let right = program.request("POST", "/users/log-in/code", "application/json", &body(&mail.code)).await;
    assert_eq!(right.json(), serde_json::json!({ "status": "signed_in", "location": "/users/settings" }));
    ada.get("/users/log-in/code").await.assert_found("/users/check-email");
}

#[tokio::test]
async fn code_and_link_end_each_other_and_all_others_of_the_address() {
    let (app, mut ada, first) = ada_asks(TestApp::with()).await;
    let second = asks(&app, &mut ada, "/users/log-in", "ada@example.org").await;
    let mut elsewhere = app.browser_at("198.51.100.2");
    let third = asks(&app, &mut elsewhere, "/users/log-in", "ada@example.org").await;
    types(&mut ada, &second.code).await.assert_found("/users/settings");
    for mail in [&first, &second, &third] {
        assert_eq!(app.browser().post(&path_of(mail), "").await.status, 410);
    }
    assert_wrong(&types(&mut ada, &first.code).await);
    assert_wrong(&types(&mut elsewhere, &third.code).await);
    let (app, mut ada, mail) = ada_asks(TestApp::with()).await;
    app.browser().post(&path_of(&mail), "").await.assert_found("/users/settings");
    assert_wrong(&types(&mut ada, &mail.code).await);
}

#[tokio::test]
async fn the_codes_of_both_mails_work() {
    for at in [0, 1] {
        let (app, mut ada, first) = ada_asks(TestApp::with()).await;
        let second = asks(&app, &mut ada, "/users/log-in", "ada@example.org").await;
        types(&mut ada, &[first, second][at].code).await.assert_found("/users/settings");
    }
}

#[tokio::test]
async fn pressed_twice_it_is_the_same_session() {
    let (app, mut ada, mail) = ada_asks(TestApp::with()).await;
    let mut again = ada.clone();
    types(&mut ada, &mail.code).await.assert_found("/users/settings");
    let sessions = app.rows("sessions").await;
    types(&mut again, &mail.code).await.assert_found("/users/settings");
    assert_eq!((app.rows("sessions").await, &again.cookies), (sessions, &ada.cookies));
    ada.post("/users/log-out", "").await;
    assert_wrong(&types(&mut again, &mail.code).await);
}

#[tokio::test]
async fn where_the_link_was_faster_the_code_goes_on() {
    let (app, mut ada, mail) = ada_asks(TestApp::with()).await;
    ada.post(&path_of(&mail), "").await.assert_found("/users/settings");
    types(&mut ada, &mail.code).await.assert_found("/users/settings");
    // But not into another account.
    let bob = asks(&app, &mut ada, "/users/register", "bob@example.org").await;
    ada.post(&path_of(&bob), "").await.assert_found("/users/settings");
    assert_wrong(&types(&mut ada, &mail.code).await);
}

#[tokio::test]
async fn only_the_browser_that_asked_may_use_it_and_others_burn_nothing() {
    let (app, mut ada, mail) = ada_asks(TestApp::with()).await;
    let mut stranger = app.browser_at("198.51.100.9");
    assert_wrong(&types(&mut stranger, &mail.code).await);
    // Who knows the address, and even whose cookie says so.
    asks(&app, &mut stranger, "/users/register", "ada@example.org").await;
    assert_wrong(&types(&mut stranger, &mail.code).await);
    let asked = |browser: &Browser| browser.cookies["doorpost_asked"].clone();
    stranger.cookies.insert("doorpost_asked".into(), asked(&ada));
    assert_wrong(&types(&mut stranger, &mail.code).await);
    assert_eq!(tries(&app).await[0], 0, "of hers");
    types(&mut ada, &mail.code).await.assert_found("/users/settings");
}

#[tokio::test]
async fn a_code_is_looked_at_five_times_however_many_come_at_once() {
    for limit in ["5", "1000"] {
        let (app, ada, mail) = ada_asks(TestApp::with().setting("THROTTLE_CODE_LIMIT", limit)).await;
        let mut parallel = JoinSet::new();
        for _ in 0..50 {
            let (mut ada, wrong) = (ada.clone(), other_than(&mail.code));
            parallel.spawn(async move { types(&mut ada, wrong).await.status });
        }
        let answers = parallel.join_all().await;
        let refused = answers.iter().filter(|status| **status == 429).count();
        assert_eq!(refused, if limit == "5" { 45 } else { 0 });
        assert!(answers.iter().all(|status| [422, 429].contains(status)));
        assert_eq!(tries(&app).await, [if limit == "5" { 5 } else { 50 }]);
        if limit == "1000" {
            assert_wrong(&types(&mut ada.clone(), &mail.code).await);
        }
        // The link still works: guesses burn the code alone.
        app.browser().post(&path_of(&mail), "").await.assert_found("/users/settings");
    }
}

#[tokio::test]
async fn attack_11_of_fifty_at_once_all_are_in_one_session() {
    let start = TestApp::with().setting("THROTTLE_CODE_LIMIT", "1000");
    let (app, ada, mail) = ada_asks(start).await;
    let before = app.rows("sessions").await;
    let mut parallel = JoinSet::new();
    for _ in 0..50 {
        let (mut ada, code) = (ada.clone(), mail.code.clone());
        parallel.spawn(async move { types(&mut ada, &code).await.status });
    }
    let answers = parallel.join_all().await;
    assert!(answers.iter().all(|status| *status == 302), "{answers:?}");
    assert_eq!(app.rows("sessions").await, before + 1);
    assert_eq!(tries(&app).await, [0], "who knows the code isn't guessing");
}

#[tokio::test]
async fn the_fifth_try_is_looked_at_and_the_sixth_is_not() {
    for (wrong, status) in [(4, 302), (5, 422)] {
        let (app, mut ada, mail) = ada_asks(TestApp::with().setting("THROTTLE_CODE_LIMIT", "1000")).await;
        for _ in 0..wrong {
            assert_wrong(&types(&mut ada, other_than(&mail.code)).await);
        }
        assert_eq!(types(&mut ada, &mail.code).await.status, status, "after {wrong} wrong ones");
        assert_eq!(tries(&app).await, [if status == 302 { wrong } else { wrong + 1 }]);
    }
}

#[tokio::test]
async fn attack_33_guesses_are_counted_by_inbox_and_network_whoever_has_an_account() {
    let app = TestApp::start().await;
    app.account("ada@example.org").await;
    for (address, email) in [("198.51.100.1", "ada@example.org"), ("198.51.100.2", "nobody@example.org")] {
        let mut guesser = app.browser_at(address);
        guesser.ask("/users/log-in", email).await.assert_found("/users/check-email");
        app.work().await;
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(types(&mut guesser, "000-000").await);
        }
        seen.iter().for_each(assert_wrong);
        let refused = types(&mut guesser, "000-000").await;
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("900")));
        assert!(refused.body.contains("Too many attempts. Please try again in about 15 minutes."));
        assert!(refused.body.contains(r#"name="code""#), "the page that the form is on");
        let json = guesser.clone().json();
        let details = { json }.post("/users/log-in/code", "code=0").await.json()["error"]["details"].clone();
        let said =
            serde_json::json!({ "scope": "email", "limit": 5, "window_seconds": 900, "retry_after_seconds": 900 });
        assert_eq!(details, said);
        // From another network it is another count.
        let mut moved = guesser.clone().from("198.51.100.77");
        assert_wrong(&types(&mut moved, "000-000").await);
        app.advance(900);
        assert_wrong(&types(&mut guesser, "000-000").await);
    }
}

#[tokio::test]
async fn attack_33_no_forged_cookie_and_no_second_request_makes_another_count() {
    let (app, ada, mail) = ada_asks(TestApp::with()).await;
    let mut other = app.browser_at("198.51.100.1");
    other.ask("/users/log-in", "eve@example.org").await;
    let forged = other.cookies["doorpost_asked"].clone();
    for n in 0..5 {
        let mut guesser = ada.clone();
        match n {
            0 => drop(guesser.cookies.remove("doorpost_asked")),
            1 => drop(guesser.cookies.insert("doorpost_asked".into(), "garbage".into())),
            2 => drop(guesser.cookies.insert("doorpost_asked".into(), forged.clone())),
            // For an address of the guesser's own, in the same browser: the old code is still one that it may type.
            _ => drop(guesser.ask("/users/log-in", &format!("mallory{n}@example.org")).await),
        }
        assert_wrong(&types(&mut guesser, other_than(&mail.code)).await);
    }
    for cookie in [None, Some("garbage"), Some(&*forged)] {
        let mut guesser = ada.clone();
        guesser.cookies.remove("doorpost_asked");
        if let Some(cookie) = cookie {
            guesser.cookies.insert("doorpost_asked".into(), cookie.into());
        }
        assert_eq!(types(&mut guesser, &mail.code).await.status, 429, "{cookie:?}");
    }
    // Nor does another browser that asks for the same inbox from there.
    let mut second = app.browser_at("198.51.100.1");
    second.ask("/users/log-in", "ada@example.org").await;
    assert_eq!(types(&mut second, "000-000").await.status, 429);
    app.work().await;
}

#[tokio::test]
async fn a_refusal_for_one_inbox_is_remembered_for_that_one_alone() {
    for (full, other) in [("ada@example.org", "bob@example.org"), ("bob@example.org", "ada@example.org")] {
        let app = TestApp::with().setting("THROTTLE_IP_BURST_LIMIT", "9").run().await;
        let mut browsers = [0; 3].map(|_| app.browser_at("198.51.100.1"));
        let [fills, of_both, of_other] = &mut browsers;
        for (browser, inboxes) in
            [(&mut *fills, &[full][..]), (&mut *of_both, &[full, other]), (&mut *of_other, &[other])]
        {
            for inbox in inboxes {
                browser.ask("/users/log-in", inbox).await.assert_found("/users/check-email");
            }
        }
        for _ in 0..5 {
            assert_wrong(&types(fills, "000-000").await);
        }
        for _ in 0..2 {
            assert_eq!(types(of_both, "000-000").await.status, 429, "{full} is full");
        }
        assert_wrong(&types(of_other, "000-000").await);
        app.work().await;
    }
}

#[tokio::test]
async fn attack_19_known_and_unknown_addresses_leave_the_same_and_read_the_same() {
    let app = TestApp::start().await;
    app.account("ada@example.org").await;
    sqlx::query("DELETE FROM links").execute(&app.database).await.unwrap();
    let mut seen = Vec::new();
    for (address, email) in [("198.51.100.1", "ada@example.org"), ("198.51.100.2", "eve@example.org")] {
        let mut browser = app.browser_at(address);
        browser.ask("/users/log-in", email).await.assert_found("/users/check-email");
        app.work().await;
        let page = browser.get("/users/check-email").await.without_date();
        let wrong = types(&mut browser, "000-000").await.without_date();
        seen.push([page, wrong].map(|answer| answer.replace("ada@", "…@").replace("eve@", "…@")));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(tries(&app).await, [1, 1], "a row for each");
    let kept = "SELECT DISTINCT email || agent || COALESCE(return_to, '') || COALESCE(lease, '') FROM outbox";
    let kept: Vec<(String,)> = sqlx::query_as(kept).fetch_all(&app.database).await.unwrap();
    assert_eq!(kept, [(String::new(),)], "and nothing that tells whose it was");
}

#[tokio::test]
async fn a_request_is_forgotten_once_no_code_can_be_typed_for_it() {
    let app = TestApp::start().await;
    app.browser().ask("/users/log-in", "eve@example.org").await;
    app.work().await;
    assert_eq!((app.rows("links").await, app.rows("requests").await), (0, 1), "no link, and yet a row");
    for (seconds, rows) in [(1799, 1), (2, 0)] {
        app.advance(seconds);
        doorpost::worker::sweep(&app.app).await.unwrap();
        assert_eq!(app.rows("requests").await, rows);
    }
}

#[tokio::test]
async fn a_link_is_told_apart_from_one_that_never_was_for_a_day() {
    let (app, _, mail) = ada_asks(TestApp::with()).await;
    for (seconds, status) in [(900 + 24 * 3600, 410), (900, 410), (1, 410)] {
        app.advance(seconds);
        doorpost::worker::sweep(&app.app).await.unwrap();
        assert_eq!(app.browser().get(&path_of(&mail)).await.status, status);
    }
    assert_eq!(app.rows("links").await, 0);
}

#[tokio::test]
async fn odd_codes_are_wrong_and_look_at_nothing() {
    let start = TestApp::with().setting("THROTTLE_CODE_LIMIT", "1000").setting("THROTTLE_ANONYMOUS_LIMIT", "off");
    let (app, mut ada, mail) = ada_asks(start).await;
    let long = "K".repeat(7000);
    for odd in [
        "",
        "K",
        "K7Q-2M",
        "K7Q-2MXX",
        "UUU-UUU",
        "\0\0\0\0\0\0",
        "１２３４５６",
        "٣٤٥٦٧٨",
        "K7Q\u{301}2MX",
        "<script>",
        &long,
    ] {
        assert_wrong(&types(&mut ada, odd).await);
    }
    assert_eq!(types(&mut ada, &"K".repeat(10_000)).await.status, 413);
    for form in [format!("code={0}&code={0}", mail.code), format!("code[]={}", mail.code), "email=x".into()] {
        assert_wrong(&ada.post("/users/log-in/code", &form).await);
    }
    for json in [r#"{"code":123456}"#, r#"{"code":["K7Q-2MX"]}"#, "[]", "{", "null"] {
        let answer = ada.request("POST", "/users/log-in/code", "application/json", json.as_bytes()).await;
        assert_eq!(answer.status, 422, "{json}");
    }
    assert_eq!(ada.request("POST", "/users/log-in/code", "text/plain", b"code=1").await.status, 415);
    assert_eq!(tries(&app).await, [0]);
    let mut bare = app.browser();
    for _ in 0..100 {
        assert_wrong(&types(&mut bare, other_than(&mail.code)).await);
    }
    types(&mut ada, &mail.code).await.assert_found("/users/settings");
}

#[tokio::test]
async fn it_is_over_with_its_link() {
    let (app, mut ada, mail) = ada_asks(TestApp::with()).await;
    app.advance(900);
    assert_wrong(&types(&mut ada, &mail.code).await);
}

#[tokio::test]
async fn attack_29_a_cross_site_post_counts_nothing() {
    let (app, mut ada, mail) = ada_asks(TestApp::with()).await;
    let mut forged = ada.clone().header("Sec-Fetch-Site", "cross-site");
    assert_eq!(types(&mut forged, &mail.code).await.status, 403);
    assert_eq!(tries(&app).await, [0]);
    types(&mut ada, &mail.code).await.assert_found("/users/settings");
}

#[tokio::test]
async fn attack_32_who_steals_the_database_lacks_the_browsers_secret() {
    let (app, ada, mail) = ada_asks(TestApp::with()).await;
    let secret = ada.cookies["doorpost_browser"].clone();
    for column in ["code_hash", "browser", "token_hash"] {
        let statement = format!("SELECT {column} FROM links WHERE used_at IS NULL");
        let (stored,): (String,) =
            sqlx::query_as(sqlx::AssertSqlSafe(statement)).fetch_one(&app.database).await.unwrap();
        assert!(!stored.contains(&secret) && !stored.contains(&mail.code.replace('-', "")), "{column}");
        // What is stored opens nothing in its place.
        let mut thief = app.browser_at("198.51.100.9");
        thief.cookies.insert("doorpost_browser".into(), stored);
        assert_wrong(&types(&mut thief, &mail.code).await);
    }
}

#[tokio::test]
async fn attack_32_codes_are_keyed_with_a_secret_beside_sqlite() {
    for kept in [true, false] {
        let (app, ada, mail) = ada_asks(TestApp::with()).await;
        let key = app.beside("doorpost.db-key");
        assert_eq!(std::fs::read_to_string(&key).unwrap().len(), 64, "256 bits in hex");
        if !kept {
            std::fs::remove_file(key).unwrap();
        }
        let app = app.restart().await;
        let mut here = app.browser_at("198.51.100.1");
        here.cookies = ada.cookies;
        match types(&mut here, &mail.code).await {
            answer if kept => drop(answer.assert_found("/users/settings")),
            wrong => assert_wrong(&wrong),
        }
        // Who lost the secret has links that work.
        assert_eq!(here.post(&path_of(&mail), "").await.status, 302);
    }
}
