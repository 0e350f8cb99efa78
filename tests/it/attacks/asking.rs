//! Attacks on the two forms.

use sqlx::Row;

use std::time::Duration;

use crate::support::http::{Browser, Response};
use crate::support::{TestApp, path_of};

#[tokio::test]
async fn attack_03_host_poisoning() {
    let app = TestApp::start().await;
    let mut attacker = app
        .browser()
        .header("X-Forwarded-Host", "evil.example")
        .header("Forwarded", "host=evil.example;proto=gopher;for=1.2.3.4")
        .header("X-Forwarded-Proto", "gopher");
    attacker.ask("/users/register", "ada@example.org").await.assert_found("/users/check-email");
    let mails = app.deliver().await;
    assert!(mails[0].link.starts_with(&format!("http://localhost:{}/users/log-in/", app.address.port())));
    assert!(!format!("{}{}", mails[0].text, mails[0].html).contains("evil"));
}

#[tokio::test]
async fn attack_04_open_redirect() {
    let app = TestApp::with().setting("RETURN_HOSTS", "app.school.example").run().await;
    app.account("ada@example.org").await;
    for (n, wish) in
        ["//evil.example", "/\\evil.example", "/%5Cevil.example", "/x/..//evil.example", "https://evil.example/"]
            .iter()
            .enumerate()
    {
        let coded: String = url::form_urlencoded::byte_serialize(wish.as_bytes()).collect();
        let mut browser = app.browser_at(&format!("198.51.100.{n}"));
        let page = browser.get(&format!("/users/log-in?return_to={coded}")).await;
        assert!(!page.body.contains("evil"), "{wish}");
        browser.post("/users/log-in", &format!("email=ada%40example.org&return_to={coded}")).await;
        let link = app.link().await;
        browser.post(&link, "").await.assert_found("/users/settings");
        app.advance(900);
    }
}

#[tokio::test]
async fn attack_05_look_alike_addresses() {
    let app = TestApp::with().setting("THROTTLE_IP_BURST_LIMIT", "100").run().await;
    for look_alike in ["m\u{131}ke@x.example", "\u{212A}elvin@x.example", "a\u{FF20}x.example", "a@x\u{200b}.example"] {
        assert_eq!(app.browser().ask("/users/register", look_alike).await.status, 422, "{look_alike}");
    }
    app.assert_nothing_stored().await;
    app.account("mike@x.example").await;
    app.browser().ask("/users/register", "MIKE@X.example").await;
    assert_eq!(app.deliver().await[0].to, "mike@x.example", "the same account by ASCII folding");
}

#[tokio::test]
async fn attack_06_one_form_two_recipients() {
    let app = TestApp::with().setting("THROTTLE_IP_BURST_LIMIT", "7").run().await;
    for form in [
        "email=a@x.example,b@y.example",
        "email=a@x.example;b@y.example",
        "email=a@x.example&email=b@y.example",
        "email[]=a@x.example",
    ] {
        assert_eq!(app.browser().post("/users/register", form).await.status, 422, "{form}");
    }
    for json in [
        r#"{"email":["a@x.example","b@y.example"]}"#,
        r#"["a@x.example"]"#,
        r#"{"email":"a@x.example","email":"b@y.example"}"#,
    ] {
        let answer = app.browser().request("POST", "/users/register", "application/json", json.as_bytes()).await;
        assert_eq!(answer.status, 422, "{json}");
    }
    app.assert_nothing_stored().await;
    assert_eq!(
        app.browser().ask("/users/register", "a@x.example").await.status,
        429,
        "junk spent the network's counter"
    );
}

#[tokio::test]
async fn attack_07_an_address_that_routes_elsewhere() {
    let app = TestApp::with().setting("THROTTLE_IP_BURST_LIMIT", "100").run().await;
    for address in [
        r#""e@evil.example"@victim.example"#,
        "=?utf-8?q?a=40x.example=3e=00?=foo@y.example",
        "user%evil.example@x.example",
        "x!user@x.example",
        "a@x.example(@evil.example)",
        "a@xn--a.example",
    ] {
        assert_eq!(app.browser().ask("/users/register", address).await.status, 422, "{address}");
    }
    app.assert_nothing_stored().await;
}

#[tokio::test]
async fn attack_08_header_injection() {
    let app = TestApp::start().await;
    for form in [
        "email=a@x.example%0d%0aBcc:e@y.example",
        "email=a@x.example%0d%0a",
        "email=a%0d%0a@x.example",
        "email=a@x.example%00",
    ] {
        app.browser().post("/users/register", form).await.assert_guarded();
    }
    app.assert_nothing_stored().await;
}

#[tokio::test]
async fn attack_10_expensive_validation() {
    let app = TestApp::start().await;
    let long = format!("email=a@{}", "a.".repeat(500_000));
    assert_eq!(app.browser().post("/users/register", &long).await.status, 413);
    let longish = format!("email=a@{}", "a.".repeat(4000));
    assert_eq!(app.browser().post("/users/register", &longish).await.status, 422);
    app.assert_nothing_stored().await;
}

/// Known and unknown, both endpoints, HTML and JSON, throttled and not: the same bytes.
#[tokio::test]
async fn attack_17_enumeration_by_what_is_answered() {
    let app = TestApp::start().await;
    app.account("known@example.org").await;
    for (n, path) in ["/users/log-in", "/users/register"].iter().enumerate() {
        for (m, accept) in ["text/html", "application/json"].iter().enumerate() {
            let mut histories = Vec::new();
            for (k, email) in ["known@example.org", "never@example.org"].iter().enumerate() {
                let mut browser =
                    app.browser_at(&format!("203.0.113.{}", n * 100 + m * 10 + k)).header("Accept", accept);
                histories.push(history(&mut browser, path, email).await);
                app.work().await;
            }
            assert_eq!(histories[0], histories[1], "{path} {accept}");
            app.advance(3600);
        }
    }
}

/// Four requests, the last refused by the inbox, and the page that follows; addresses and random
/// values taken out.
async fn history(browser: &mut Browser, path: &str, email: &str) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..4 {
        let answer = browser.ask(path, email).await;
        seen.push(comparable(&answer, browser, email));
    }
    let page = browser.get("/users/check-email").await;
    seen.push(comparable(&page, browser, email));
    seen
}

fn comparable(answer: &Response, browser: &Browser, email: &str) -> String {
    let mut text = answer.without_date().replace(email, "ADDRESS");
    for (name, value) in &browser.cookies {
        text = text.replace(value, name);
    }
    text
}

/// The request path does the same for a known and an unknown address: the same statements, one row.
/// What it costs is measured from outside, interleaved.
#[tokio::test]
async fn attack_18_enumeration_by_time() {
    let app = TestApp::with().setting("THROTTLE_ENABLED", "false").run().await;
    app.account("known@example.org").await;
    let mut browser = app.browser();
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for n in 0..600 {
        let (email, times) =
            if n % 2 == 0 { ("known@example.org", &mut known) } else { ("never@example.org", &mut unknown) };
        #[expect(clippy::disallowed_methods, reason = "the attacker has a real clock")]
        let start = std::time::Instant::now();
        browser.ask("/users/log-in", email).await.assert_found("/users/check-email");
        times.push(start.elapsed());
    }
    let auc = likelihood_to_tell(&known, &unknown);
    assert!((0.4..=0.6).contains(&auc), "known and unknown can be told apart: AUC {auc}");
    app.work().await;
}

/// How often one of `known` took longer than one of `unknown`: 0.5 where nothing can be told (the area
/// under the curve).
fn likelihood_to_tell(known: &[Duration], unknown: &[Duration]) -> f64 {
    let slower = |k: &Duration| unknown.iter().filter(|u| k > *u).count() + unknown.iter().filter(|u| k >= *u).count();
    known.iter().map(slower).sum::<usize>() as f64 / (2 * known.len() * unknown.len()) as f64
}

/// The same of typed codes: each request has a row that its tries are counted in, also when they are used up.
#[tokio::test]
async fn attack_18_enumeration_by_the_time_of_a_code() {
    let app = TestApp::with().setting("THROTTLE_ENABLED", "false").run().await;
    app.account("known@example.org").await;
    let mut browsers = [app.browser(), app.browser(), app.browser()];
    for (browser, email) in browsers.iter_mut().zip(["known@example.org", "never@example.org", "known@example.org"]) {
        browser.ask("/users/log-in", email).await;
        app.work().await;
    }
    // Of the third one all tries are used up.
    let used_up = "UPDATE outbox SET code_tries = 100 WHERE id = (SELECT MAX(id) FROM outbox)";
    sqlx::query(used_up).execute(&app.database).await.unwrap();
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for n in 0..3600 {
        if n % 6 == 0 {
            let fresh = "UPDATE outbox SET code_tries = 0 WHERE code_tries < 100";
            sqlx::query(fresh).execute(&app.database).await.unwrap();
        }
        // In turns, and each as often the first after the others.
        let one = (n + n / 3) % 3;
        #[expect(clippy::disallowed_methods, reason = "the attacker has a real clock")]
        let start = std::time::Instant::now();
        let answer = browsers[one].post("/users/log-in/code", "code=000-000").await;
        times[one].push(start.elapsed());
        assert_eq!(answer.status, 422);
    }
    for (name, others) in [("known and unknown", &times[0]), ("used up and unknown", &times[2])] {
        let auc = likelihood_to_tell(others, &times[1]);
        assert!((0.45..=0.55).contains(&auc), "{name} can be told apart: AUC {auc}");
    }
}

#[tokio::test]
async fn attack_29_cross_site_post() {
    let app = TestApp::start().await;
    let port = app.address.port();
    let foreign = [
        ("Sec-Fetch-Site", "cross-site".to_owned()),
        ("Sec-Fetch-Site", "same-site".to_owned()),
        ("Origin", "null".to_owned()),
        ("Origin", format!("https://localhost:{port}")),
        ("Origin", format!("http://localhost:{}", port ^ 1)),
        ("Referer", "http://evil.example/".to_owned()),
    ];
    for (name, value) in &foreign {
        let answer = app.browser().header(name, value).ask("/users/register", "a@example.org").await;
        assert_eq!(answer.assert_guarded().status, 403, "{name}: {value}");
    }
    app.assert_nothing_stored().await;
    // It spent nothing: five are still allowed.
    let ours = [
        ("Sec-Fetch-Site", "same-origin".to_owned()),
        ("Sec-Fetch-Site", "none".to_owned()),
        ("Origin", format!("http://localhost:{port}")),
        ("Referer", format!("http://LOCALHOST:{port}/users/log-in")),
        ("Accept", "*/*".to_owned()),
    ];
    for (n, (name, value)) in ours.iter().enumerate() {
        let answer = app.browser().header(name, value).ask("/users/register", &format!("a{n}@example.org")).await;
        assert_eq!(answer.status, 302, "{name}: {value}");
    }
    app.work().await;
}

#[tokio::test]
async fn attack_30_script_injection_and_frames() {
    let app = TestApp::start().await;
    let mut browser = app.browser().header("User-Agent", "<script>alert(1)</script>");
    let script = "%3Cscript%3Ealert(1)%3C/script%3E";
    for answer in [
        browser.get(&format!("/users/log-in?return_to=/{script}")).await,
        browser.post("/users/log-in", &format!("email={script}%22onfocus=x&return_to=/{script}")).await,
        browser.get(&format!("/users/log-in/{script}")).await,
        browser.get(&format!("/{script}")).await,
        browser.get("/users/settings").await,
    ] {
        answer.assert_guarded();
        assert!(!answer.body.contains("<script") && !answer.body.contains("\"onfocus"), "{}", answer.body);
    }
    browser.ask("/users/register", "a@example.org").await;
    let mail = &app.deliver().await[0];
    assert!(!mail.text.contains("script") && !mail.html.contains("script"));
}

/// Links, sessions, queue: whoever steals the database holds nothing that can be used.
#[tokio::test]
async fn attack_32_stolen_database() {
    let app = TestApp::start().await;
    let mut browser = app.browser();
    browser.ask("/users/register", "ada@example.org").await;
    let queued = dump(&app).await;
    let link = path_of(&app.deliver().await[0]);
    let minted = dump(&app).await;
    browser.post(&link, "").await.assert_found("/users/settings");
    let entered = dump(&app).await;
    let token = link.rsplit('/').next().unwrap();
    for text in [&queued, &minted, &entered] {
        assert!(!text.contains(token), "a link's token is stored");
        for name in ["doorpost_session", "doorpost_browser"] {
            assert!(!text.contains(&browser.cookies[name]), "{name} is stored");
        }
    }
}

async fn dump(app: &TestApp) -> String {
    let mut text = String::new();
    let tables = [
        "SELECT id || email || browser || agent || COALESCE(return_to, '') || COALESCE(lease, '') FROM outbox",
        "SELECT token_hash || outbox_id || email || browser || COALESCE(used_browser, '') FROM links",
        "SELECT token_hash || user_id || agent FROM sessions",
    ];
    for statement in tables {
        for row in sqlx::query(statement).fetch_all(&app.database).await.unwrap() {
            text += &row.get::<String, _>(0);
        }
    }
    text
}
