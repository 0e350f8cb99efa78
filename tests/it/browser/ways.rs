//! Each way of a person who wants in, and of what comes between.

use crate::support::chromium::{Chromium, Look, PHONE};
use crate::support::{TestApp, path_of};

const ADA: &str = "ada@example.org";

/// An app in which Ada has an account.
async fn start() -> (TestApp, String) {
    let app = TestApp::with().setting("THROTTLE_IP_BURST_LIMIT", "100").run().await;
    app.account(ADA).await;
    let home = format!("http://localhost:{}", app.address.port());
    (app, home)
}

/// Asks on the log-in page, or where it leads.
async fn ask(browser: &Chromium, page: &str) {
    browser.goto(page).await;
    assert_eq!(browser.focused().await.as_deref(), Some("email"));
    browser.fill("email", ADA).await;
    browser.press("Send me a link").await;
    assert_eq!(browser.path().await, "/users/check-email");
    assert!(browser.words().await.contains(ADA));
}

async fn assert_signed_in(browser: &Chromium) {
    assert_eq!(browser.path().await, "/users/settings");
    assert!(browser.words().await.contains(&format!("You're logged in as {ADA}")));
}

async fn assert_signed_out(browser: &Chromium) {
    browser.goto("/users/settings").await;
    assert!(browser.path().await.starts_with("/users/log-in"), "{}", browser.path().await);
}

#[tokio::test]
async fn the_same_browser_by_the_link_and_on_to_where_it_was_going() {
    let (app, home) = start().await;
    let ada = Chromium::start(&home).await;
    ask(&ada, "/users/log-in?return_to=%2Fusers%2Fsettings%3Ffrom%3Dapp").await;
    let link = app.link().await;
    ada.goto(&link).await;
    assert!(ada.words().await.contains(&format!("Log in as {ADA}?")));
    ada.press("Log in").await;
    assert_eq!(ada.path().await, "/users/settings?from=app");
    ada.close().await;
}

#[tokio::test]
async fn a_phone_asks_and_a_laptop_opens_the_link() {
    let (app, home) = start().await;
    let phone = Chromium::with(&home, Look { screen: PHONE, ..Look::default() }).await;
    let laptop = Chromium::start(&home).await;
    ask(&phone, "/users/log-in").await;
    laptop.goto(&app.link().await).await;
    assert!(laptop.words().await.contains("This link was asked for in a different browser."));
    laptop.press("Log in").await;
    assert_signed_in(&laptop).await;
    assert_signed_out(&phone).await;
    phone.close().await;
    laptop.close().await;
}

#[tokio::test]
async fn a_laptop_asks_and_the_code_is_read_on_the_phone() {
    let (app, home) = start().await;
    let laptop = Chromium::start(&home).await;
    ask(&laptop, "/users/log-in").await;
    let code = app.deliver().await.remove(0).code;
    assert_eq!(laptop.focused().await.as_deref(), Some("code"));
    laptop.fill("code", &code.to_lowercase().replace('-', " ")).await;
    laptop.press("Continue").await;
    assert_signed_in(&laptop).await;
    laptop.close().await;
}

#[tokio::test]
async fn a_code_is_refused_where_nobody_asked_for_it_and_nothing_is_burnt() {
    let (app, home) = start().await;
    let (ada, stranger) = (Chromium::start(&home).await, Chromium::start(&home).await);
    ask(&ada, "/users/log-in").await;
    let code = app.deliver().await.remove(0).code;
    ask(&stranger, "/users/log-in").await;
    app.deliver().await;
    stranger.fill("code", &code).await;
    stranger.press("Continue").await;
    assert!(stranger.words().await.contains("That code isn't right, or it's too old."));
    assert_eq!(stranger.focused().await.as_deref(), Some("code"), "to type it again");
    assert_signed_out(&stranger).await;
    ada.fill("code", &code).await;
    ada.press("Continue").await;
    assert_signed_in(&ada).await;
    ada.close().await;
    stranger.close().await;
}

#[tokio::test]
async fn a_scanner_opens_everything_with_scripts_on_and_the_student_still_gets_in() {
    let (app, home) = start().await;
    let (ada, scanner) = (Chromium::start(&home).await, Chromium::start(&home).await);
    ask(&ada, "/users/log-in").await;
    let mail = app.deliver().await.remove(0);
    scanner.show(&mail.html).await;
    for link in mail.html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        for _ in 0..3 {
            scanner.goto(link).await;
            assert!(scanner.words().await.contains("Log in as"));
        }
    }
    assert_signed_out(&scanner).await;
    ada.goto(&path_of(&mail)).await;
    ada.press("Log in").await;
    assert_signed_in(&ada).await;
    ada.close().await;
    scanner.close().await;
}

#[tokio::test]
async fn a_double_click_is_one_sign_in() {
    let (app, home) = start().await;
    let ada = Chromium::start(&home).await;
    ask(&ada, "/users/log-in").await;
    let before = app.rows("sessions").await;
    ada.goto(&app.link().await).await;
    ada.press_times("Log in", 2).await;
    assert_signed_in(&ada).await;
    assert_eq!(app.rows("sessions").await, before + 1);
    ada.close().await;
}

#[tokio::test]
async fn a_double_click_in_a_browser_that_is_new_asks_as_one_browser() {
    let (app, home) = start().await;
    for at in [0, 1] {
        let ada = Chromium::start(&home).await;
        ada.goto("/users/log-in").await;
        ada.fill("email", "ada@example.org").await;
        ada.press_times("Send me a link", 2).await;
        // The first may be called off before it leaves; what has left has a code that works here.
        let mails = app.deliver().await;
        ada.goto("/users/check-email").await;
        ada.fill("code", &mails[at.min(mails.len() - 1)].code).await;
        ada.press("Continue").await;
        assert_signed_in(&ada).await;
        ada.close().await;
        app.advance(900);
    }
}

#[tokio::test]
async fn the_back_button_shows_nothing_stale() {
    let (app, home) = start().await;
    let ada = Chromium::start(&home).await;
    ask(&ada, "/users/log-in").await;
    ada.goto(&app.link().await).await;
    ada.press("Log in").await;
    assert_signed_in(&ada).await;
    ada.back().await;
    let words = ada.words().await;
    assert!(words.contains("This link was already used") && words.contains("Continue"), "{words}");
    ada.goto("/users/settings").await;
    ada.press("Log out").await;
    assert!(ada.words().await.contains("You're logged out on this device."));
    ada.back().await;
    assert!(!ada.words().await.contains("You're logged in as"), "{}", ada.words().await);
    ada.close().await;
}

#[tokio::test]
async fn no_page_needs_scripts() {
    let (app, home) = start().await;
    let ada = Chromium::with(&home, Look { scripts: false, ..Look::default() }).await;
    ada.show("<script>document.write('on')</script><noscript>off</noscript>").await;
    assert_eq!(ada.words().await, "off");
    ask(&ada, "/users/log-in").await;
    ada.goto(&app.link().await).await;
    ada.press("Log in").await;
    assert_signed_in(&ada).await;
    ada.press("Log out").await;
    ask(&ada, "/users/log-in").await;
    ada.fill("code", &app.deliver().await.remove(0).code).await;
    ada.press("Continue").await;
    assert_signed_in(&ada).await;
    ada.close().await;
}

#[tokio::test]
async fn on_a_phone_the_main_button_is_seen_without_scrolling() {
    let (app, home) = start().await;
    let phone = Chromium::with(&home, Look { screen: PHONE, ..Look::default() }).await;
    phone.goto("/users/register").await;
    assert!(phone.shows("Create account").await);
    phone.goto("/users/log-in").await;
    assert!(phone.shows("Send me a link").await);
    ask(&phone, "/users/log-in").await;
    assert!(phone.shows("Continue").await);
    let link = app.link().await;
    phone.goto(&link).await;
    assert!(phone.shows("Log in").await);
    phone.press("Log in").await;
    assert!(phone.shows("Log out").await);
    phone.goto(&link).await;
    assert!(phone.shows("Continue").await);
    app.browser().ask("/users/register", "bob@example.org").await;
    phone.goto(&app.link().await).await;
    assert!(phone.shows("Create account and continue").await);
    phone.goto("/users/log-in/nothing").await;
    assert!(phone.shows("Send me a new link").await);
    app.advance(60);
    app.browser().ask("/users/register", "kim@example.org").await;
    let other = app.link().await;
    phone.goto(&other).await;
    assert!(phone.shows("Create account and continue").await);
    assert!(phone.shows("Stay logged in as ada@example.org").await);
    phone.goto("/users/settings").await;
    phone.press("Log out").await;
    assert!(phone.shows("Send me a link").await, "and that one is logged out");
    ask(&phone, "/users/log-in").await;
    phone.fill("code", "000-000").await;
    phone.press("Continue").await;
    assert!(phone.shows("Continue").await, "after a wrong code");
    app.work().await;
    app.advance(901);
    phone.goto(&other).await;
    assert!(phone.shows("Send me a new link").await, "too old");
    phone.close().await;
}
