//! "Check your email": what helps when nothing comes, and what it may not give away.

use data_encoding::BASE64URL_NOPAD;
use doorpost::domain::provider::{meant, webmail};

use crate::support::TestApp;
use crate::support::http::Browser;

async fn page_for(app: &TestApp, email: &str) -> String {
    let mut browser = app.browser();
    browser.ask("/users/log-in", email).await.assert_found("/users/check-email");
    page(&mut browser).await
}

async fn page(browser: &mut Browser) -> String {
    browser.get("/users/check-email").await.body.replace("&#39;", "'")
}

#[tokio::test]
async fn it_says_what_is_left_before_the_inbox_is_full_and_when_it_opens_again() {
    let app = TestApp::start().await;
    let mut ada = app.browser();
    for (email, says) in [
        ("ada@gmail.com", Some("You can ask 2 more times for now.")),
        ("A.Da+x@gmail.com", Some("You can ask once more for now.")),
        ("ada@googlemail.com", None),
    ] {
        ada.ask("/users/log-in", email).await.assert_found("/users/check-email");
        let page = page(&mut ada).await;
        assert_eq!(page.contains("Send it again"), says.is_some(), "{page}");
        assert!(page.contains(says.unwrap_or("You can ask again in about 13 minutes.")), "{page}");
        app.advance(60);
    }
    assert_eq!(ada.ask("/users/log-in", "ada@gmail.com").await.status, 429, "as it was told");
    app.advance(720);
    assert!(page(&mut ada).await.contains("You can ask once more for now."));
    ada.ask("/users/log-in", "ada@gmail.com").await.assert_found("/users/check-email");
    // Another inbox has a ceiling of its own.
    ada.ask("/users/log-in", "bob@example.org").await.assert_found("/users/check-email");
    assert!(page(&mut ada).await.contains("You can ask 2 more times for now."));
}

#[tokio::test]
async fn a_forged_cookie_tells_nothing_of_a_strangers_counter() {
    let app = TestApp::start().await;
    for _ in 0..3 {
        app.browser().ask("/users/log-in", "ada@example.org").await.assert_found("/users/check-email");
    }
    let mut spy = app.browser();
    let asked = format!("log_in.{}.", BASE64URL_NOPAD.encode(b"ada@example.org"));
    spy.cookies.insert("doorpost_asked".into(), asked.clone());
    assert!(page(&mut spy).await.contains("You can ask 3 more times for now."));
    let odd = [
        "-9223372036854775808",
        "9223372036854775807",
        "1.2.3",
        "x",
        "99999999999999999999",
        "",
        "1.1.1.1.1.1.1.1.1.1.1.1",
    ];
    for times in odd {
        spy.cookies.insert("doorpost_asked".into(), format!("{asked}.{times}"));
        assert!(page(&mut spy).await.contains("Send it again"), "{times}");
    }
}

#[tokio::test]
async fn without_a_ceiling_nothing_is_said_of_one() {
    for setting in [("THROTTLE_ENABLED", "false"), ("THROTTLE_EMAIL_LIMIT", "1000")] {
        let app = TestApp::with().setting(setting.0, setting.1).run().await;
        let page = page_for(&app, "ada@example.org").await;
        assert!(page.contains("Send it again") && !page.contains("You can ask"), "{page}");
    }
}

#[tokio::test]
async fn a_slip_in_a_well_known_domain_is_pointed_out_and_mended_by_one_press() {
    let app = TestApp::start().await;
    let mut ada = app.browser();
    ada.post("/users/register", "email=Ada%2Bx%40gamil.com&return_to=%2Fapp").await;
    let said = page(&mut ada).await;
    assert!(said.contains(r#"Did you mean <strong class="address">Ada+x@gmail.com</strong>?"#), "{said}");
    assert!(said.contains(r#"<input type="hidden" name="email" value="Ada+x@gmail.com">"#), "{said}");
    assert!(!page_for(&app, "ada@example.org").await.contains("Did you mean"));
    for (typed, wanted) in [
        ("gamil.com", "gmail.com"),
        ("gmial.com", "gmail.com"),
        ("gmail.con", "gmail.com"),
        ("gmail.co", "gmail.com"),
        ("gmai.com", "gmail.com"),
        ("hotmial.com", "hotmail.com"),
        ("hotmail.cm", "hotmail.com"),
        ("outlok.com", "outlook.com"),
        ("yaho.com", "yahoo.com"),
        ("yahoo.con", "yahoo.com"),
        ("iclud.com", "icloud.com"),
        ("protonmial.com", "protonmail.com"),
        ("gmx.ner", "gmx.net"),
        ("live.con", "live.com"),
        ("aol.cmo", "aol.com"),
    ] {
        assert_eq!(meant(typed), Some(wanted), "{typed}");
    }
    for fine in [
        "gmail.com",
        "mail.com",
        "email.com",
        "ymail.com",
        "gmx.at",
        "gmx.ch",
        "gmx.com",
        "live.com",
        "live.nl",
        "me.com",
        "aol.com",
        "hotmail.fr",
        "yahoo.co.uk",
        "yahoo.de",
        "outlook.de",
        "web.de",
        "proton.me",
        "school.edu",
        "example.org",
        "love.com",
        "line.com",
        "olive.com",
        "aon.com",
        "bmx.de",
        "wed.de",
        "cloud.com",
        "protonmail.ch",
        "gov.uk",
        "",
    ] {
        assert_eq!(meant(fine), None, "{fine}");
    }
}

#[tokio::test]
async fn the_big_webmails_are_one_press_away() {
    let app = TestApp::start().await;
    let page = page_for(&app, "ada@gmail.com").await;
    let link =
        r#"<a class="button second" href="https://mail.google.com/" rel="noreferrer" target="_blank">Open Gmail</a>"#;
    assert!(page.contains(link), "{page}");
    assert!(!page_for(&app, "ada@school.edu").await.contains("target="));
    for (domain, name) in [
        ("hotmail.co.uk", "Outlook"),
        ("live.nl", "Outlook"),
        ("yahoo.com.br", "Yahoo Mail"),
        ("me.com", "iCloud Mail"),
        ("pm.me", "Proton Mail"),
        ("gmx.net", "GMX"),
        ("web.de", "WEB.DE"),
    ] {
        assert_eq!(webmail(domain).map(|(name, _)| name), Some(name), "{domain}");
    }
    for other in ["outlook.example", "live.school.edu", "notgmail.com", "gmx.", "yahoo.evil.com"] {
        assert_eq!(webmail(other), None, "{other}");
    }
}

#[tokio::test]
async fn attack_17_apart_from_the_address_it_is_the_same_for_known_and_unknown() {
    let app = TestApp::start().await;
    app.account("ada@gmail.com").await;
    let mut pages = Vec::new();
    for name in ["ada", "eve"] {
        let mut browser = app.browser();
        browser.ask("/users/log-in", &format!("{name}@gmail.com")).await.assert_found("/users/check-email");
        app.work().await;
        let answer = browser.get("/users/check-email").await;
        pages.push(answer.without_date().replace(&format!("{name}@"), "…@"));
    }
    assert_eq!(pages[0], pages[1]);
}

#[tokio::test]
async fn a_browser_is_known_before_it_asks_so_that_a_double_click_is_one_browser() {
    let app = TestApp::start().await;
    for page in ["/users/log-in", "/users/register", "/users/log-in?return_to=%2Fx"] {
        let mut ada = app.browser().header("Accept", "text/html,application/xhtml+xml");
        assert_eq!(ada.get(page).await.cookies().count(), 1, "{page}");
        let known = ada.cookies["doorpost_browser"].clone();
        assert_eq!(ada.get(page).await.cookies().count(), 0, "it is known");
        let mut twice = [ada.clone(), ada.clone()];
        let [first, second] = &mut twice;
        tokio::join!(first.ask("/users/register", "ada@example.org"), second.ask("/users/register", "ada@example.org"));
        assert!(twice.iter().all(|browser| browser.cookies["doorpost_browser"] == known));
        assert_eq!(app.deliver().await.len(), 2);
        app.advance(900);
    }
    assert_eq!(app.browser().get("/users/log-in").await.cookies().count(), 0, "a monitor is no browser");
}
