//! The answer to a gateway that asks whether a request may pass.

use crate::support::TestApp;
use crate::support::http::{Browser, Response};
use crate::support::process::Place;

const IDENTITY: [&str; 4] = ["remote-user", "remote-email", "remote-name", "remote-groups"];

/// What Caddy asks for a page of an app.
fn for_page(browser: Browser, host: &str, uri: &str) -> Browser {
    let forwarded = [("Accept", "text/html,*/*"), ("X-Forwarded-Method", "GET"), ("X-Forwarded-Proto", "https")];
    let browser = forwarded.iter().fold(browser, |browser, (name, value)| browser.header(name, value));
    browser.header("X-Forwarded-Host", host).header("X-Forwarded-Uri", uri)
}

async fn on_https(hosts: &str) -> TestApp {
    let smtp = [("BASE_URL", "https://auth.school.example"), ("SMTP_URL", "smtp://127.0.0.1:1?tls=none")];
    let start = smtp.iter().fold(TestApp::with(), |start, (name, value)| start.setting(name, value));
    start.setting("RETURN_HOSTS", hosts).run().await
}

async fn check(browser: &Browser) -> Response {
    browser.clone().get("/auth/check").await
}

#[tokio::test]
async fn who_is_signed_in_is_told_in_full() {
    let app = TestApp::start().await;
    let ada = app.account("ada@example.org").await;
    let answer = check(&ada).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    let told = IDENTITY.map(|name| answer.header(name).unwrap_or_else(|| panic!("no {name}")).to_owned());
    assert_eq!((told[0].len(), &told[1..]), (36, &["ada@example.org", "ada@example.org", ""].map(str::to_owned)[..]));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(app.metric(r#"doorpost_session_checks_total{result="signed_in"}"#).as_deref(), Some("1"));
    let head = ada.clone().head("/auth/check").await;
    assert_eq!((head.status, head.header("remote-email")), (200, Some("ada@example.org")));
}

#[tokio::test]
async fn who_is_not_is_sent_to_log_in_and_back_to_the_page_with_its_query() {
    let app = on_https("app.school.example,*.apps.school.example").await;
    for (host, uri, return_to) in [
        ("app.school.example", "/courses?x=1&y=%20", Some("https://app.school.example/courses?x=1&y=%20")),
        ("a.apps.school.example", "/", Some("https://a.apps.school.example/")),
        ("auth.school.example", "/app/?x=1", Some("/app/?x=1")),
        ("auth.school.example", "//evil.example", None),
        ("evil.example", "/", None),
        ("app.school.example.evil.example", "/", None),
        ("app.school.example@evil.example", "/", None),
        ("evil.example/app.school.example", "/", None),
        ("app.school.example", "//evil.example", None),
        ("app.school.example", "/\\evil.example", None),
        ("app.school.example", "/%5Cevil.example", None),
        ("app.school.example:8443", "/", None),
        ("app.school.example", "@evil.example/", None),
    ] {
        let answer = check(&for_page(app.browser(), host, uri)).await;
        let wanted: Option<String> = return_to.map(|to| url::form_urlencoded::byte_serialize(to.as_bytes()).collect());
        let query = wanted.map(|to| format!("?return_to={to}")).unwrap_or_default();
        assert_eq!(
            answer.header("location"),
            Some(&*format!("https://auth.school.example/users/log-in{query}")),
            "{host}{uri}"
        );
        assert_eq!(answer.status, 302);
        assert!(IDENTITY.iter().all(|name| answer.header(name).is_none()));
    }
    // Without a word of where it was going, or with two.
    let plain = Some("https://auth.school.example/users/log-in");
    assert_eq!(check(&app.browser().header("Accept", "text/html")).await.header("location"), plain);
    let doubled = for_page(app.browser(), "app.school.example", "/").header("X-Forwarded-Host", "evil.example");
    assert_eq!(check(&doubled).await.header("location"), plain);
}

#[tokio::test]
async fn attack_03_nobody_but_a_trusted_proxy_says_where_somebody_was_going() {
    for (name, value) in [("TRUSTED_PROXY_HOPS", "0"), ("TRUSTED_PROXIES", "192.0.2.0/24")] {
        let app = TestApp::with().setting("RETURN_HOSTS", "app.school.example").setting(name, value).run().await;
        let asks = for_page(app.browser(), "app.school.example", "/x");
        let location = check(&asks).await.header("location").unwrap().to_owned();
        assert!(location.ends_with("/users/log-in"), "{name}: {location}");
    }
}

#[tokio::test]
async fn what_is_no_page_gets_401_and_a_reason_for_programs() {
    let app = TestApp::start().await;
    let post = for_page(app.browser(), "app.school.example", "/").header("X-Unused", "1");
    let as_post = app.browser().header("Accept", "text/html").header("X-Forwarded-Method", "POST");
    for browser in [app.browser(), app.browser().json(), app.browser().header("Accept", "image/png"), as_post] {
        let answer = check(&browser).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &"unauthenticated".into()));
    }
    assert_eq!(check(&post).await.status, 302);
    let mut forged = app.browser().json();
    forged.cookies.insert("doorpost_session".into(), "a".repeat(52));
    assert_eq!(check(&forged.header("Remote-User", "ada")).await.status, 401);
}

#[tokio::test]
async fn a_group_that_is_wanted_and_missing_is_a_403_with_a_page() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await.header("Accept", "text/html");
    app.app.store.set_group("ada@example.org", "other", true).await.unwrap();
    let slips =
        ["group=other&group=staff", "group=other&group=other", "groups=other", "Group=other", "group[]=other", "x"];
    for query in ["group=staff", "group=", "group=a,b", "group=Staff", "group=%00"].into_iter().chain(slips) {
        let answer = ada.get(&format!("/auth/check?{query}")).await;
        assert_eq!(answer.status, 403, "{query}");
        assert!(answer.body.contains("You can&#39;t see this") || answer.body.contains("You can't see this"));
        assert!(answer.body.contains(">Go to your account</a>"), "{}", answer.body);
        // It is shown under the app's name, and yet in our dress.
        let base = format!("http://localhost:{}", app.address.port());
        assert!(answer.body.contains(&format!("href=\"{base}/static/style-")), "{}", answer.body);
        assert!(answer.header("content-security-policy").unwrap().contains(&format!("style-src {base};")));
    }
    app.app.store.set_group("ada@example.org", "staff", true).await.unwrap();
    app.app.store.set_group("ada@example.org", "a-team", true).await.unwrap();
    app.advance(5);
    let answer = ada.get("/auth/check?group=staff").await;
    assert_eq!((answer.status, answer.header("remote-groups")), (200, Some("a-team,other,staff")));
    app.app.store.set_group("ada@example.org", "staff", false).await.unwrap();
    app.advance(5);
    assert_eq!(ada.get("/auth/check?group=staff").await.status, 403);
}

/// Caddy's `uri /auth/check`, without a question mark, keeps the query of the page.
#[tokio::test]
async fn the_query_of_the_page_is_no_wish_of_the_gateways() {
    let app = TestApp::start().await;
    let ada = app.account("ada@example.org").await;
    for (page, query, status) in [
        ("/a?x=1&y=%20", "x=1&y=%20", 200),
        ("/a?x", "x", 200),
        ("/a?x=1", "x=2", 403),
        ("/a", "x=1", 403),
        // Copied by a visitor from what the gateway wants, or looking so.
        ("/a?group=staff", "group=staff", 403),
        ("/a?g%72oup=staff", "g%72oup=staff", 403),
        ("/a?x=1&Groups=staff", "x=1&Groups=staff", 403),
    ] {
        let mut asks = for_page(ada.clone(), "app.school.example", page);
        assert_eq!(asks.get(&format!("/auth/check?{query}")).await.status, status, "{page} {query}");
    }
    // Of a stranger's word nothing is believed.
    let app = TestApp::with().setting("TRUSTED_PROXY_HOPS", "0").run().await;
    let mut asks = for_page(app.account("ada@example.org").await, "app.school.example", "/a?x=1");
    assert_eq!(asks.get("/auth/check?x=1").await.status, 403);
}

#[tokio::test]
async fn it_is_answered_from_memory_for_less_than_five_seconds() {
    let app = TestApp::start().await;
    let ada = app.account("ada@example.org").await;
    assert_eq!(check(&ada).await.status, 200);
    // As another replica would end it.
    sqlx::query("DELETE FROM sessions").execute(&app.database).await.unwrap();
    assert_eq!(check(&ada).await.status, 200, "the database isn't asked");
    app.advance(5);
    assert_eq!(check(&ada.json()).await.status, 401);
}

#[tokio::test]
async fn attack_34_a_log_out_here_is_heeded_at_once() {
    for everywhere in ["", "everywhere=true"] {
        let app = TestApp::start().await;
        let mut ada = app.account("ada@example.org").await;
        let copied = ada.clone();
        assert_eq!(check(&copied).await.status, 200);
        ada.post("/users/log-out", everywhere).await;
        assert_eq!(check(&copied.json()).await.status, 401, "{everywhere}");
    }
}

#[tokio::test]
async fn a_new_sign_in_ends_the_old_session_at_once() {
    let app = TestApp::start().await;
    let mut ada = app.account("ada@example.org").await;
    let old = ada.clone();
    assert_eq!(check(&old).await.status, 200);
    ada.ask("/users/log-in", "ada@example.org").await;
    ada.post(&app.link().await, "").await.assert_found("/users/settings");
    assert_eq!(check(&old.json()).await.status, 401);
    assert_eq!(check(&ada).await.status, 200);
}

#[tokio::test]
async fn it_is_never_throttled_and_a_session_ends_by_its_own_clocks() {
    let app = TestApp::with().setting("THROTTLE_ANONYMOUS_LIMIT", "1").run().await;
    for _ in 0..20 {
        assert_eq!(check(&app.browser().json()).await.status, 401);
    }
    let ada = app.account("ada@example.org").await;
    // Seen now and then, it lives to its absolute end, and not a second longer.
    for _ in 0..3 {
        app.advance(10 * 24 * 3600 - 1201);
        assert_eq!(check(&ada).await.status, 200);
    }
    app.advance(2);
    assert_eq!(check(&ada).await.status, 200, "in its last second");
    app.advance(1);
    assert_eq!(check(&ada.json()).await.status, 401, "also from memory");
}

#[tokio::test]
async fn groups_are_given_and_taken_on_the_command_line() {
    let place = Place::new();
    let doorpost = place.start().await;
    let said = |arguments: &[&str]| {
        let run = place.run(&[&["user", "group"], arguments].concat());
        (run.code, run.out + &run.err)
    };
    let (code, words) = said(&["add", "ada@example.org", "staff"]);
    assert!(code == Some(1) && words.contains("there is no account ada@example.org"), "{words}");
    place.change("INSERT INTO users (id, email, created_at) VALUES ('1', 'ada@example.org', 0)").await;
    for (arguments, wanted) in [
        (["add", "Ada@Example.org", "staff"], "ada@example.org is in staff.\n"),
        (["add", "ada@example.org", "staff"], "ada@example.org is already in staff.\n"),
        (["remove", "ada@example.org", "staff"], "ada@example.org is not in staff.\n"),
        (["remove", "ada@example.org", "staff"], "ada@example.org is already not in staff.\n"),
    ] {
        assert_eq!(said(&arguments), (Some(0), wanted.to_owned()));
    }
    for arguments in [["add", "ada", "staff"], ["add", "ada@example.org", "a,b"], ["add", "ada@example.org", ""]] {
        let (code, words) = said(&arguments);
        assert!(code == Some(2) && words.contains(" is not a"), "{words}");
    }
    drop(doorpost);
}
