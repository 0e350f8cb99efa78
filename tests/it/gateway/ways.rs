//! What a person does, in a real Chromium through a real gateway.

use crate::support::chromium::{Chromium, Look, PHONE};
use crate::support::gateway::{Chain, Kind};

const ADA: &str = "ada@example.org";
const PAGE: &str = "https://app.school.example/courses?week=3&part=a%20b";

async fn browser(chain: &Chain, screen: (u32, u32)) -> Chromium {
    let look = Look { screen, gateway: Some(chain.address.port()), ..Look::default() };
    Chromium::with("https://app.school.example", look).await
}

/// Asks for the page of the app, and then for a link.
async fn ask(browser: &Chromium) {
    browser.goto(PAGE).await;
    assert!(browser.url().await.starts_with("https://auth.school.example/users/log-in?return_to="));
    browser.fill("email", ADA).await;
    browser.press("Send me a link").await;
}

async fn assert_there(browser: &Chromium) {
    assert_eq!(browser.url().await, PAGE);
    assert!(browser.words().await.contains("at /courses?week=3&part=a%20b"));
}

#[tokio::test]
async fn from_a_page_of_the_app_to_the_mail_and_back_and_out_again() {
    for (kind, screen) in [(Kind::Caddy26, PHONE), (Kind::Caddy, (1280, 800)), (Kind::Nginx, PHONE)] {
        let chain = Chain::start(kind).await;
        chain.account(ADA).await;
        let ada = browser(&chain, screen).await;
        ask(&ada).await;
        let mail = chain.mail().await;
        ada.goto(&format!("https://auth.school.example{}", mail.link())).await;
        ada.press("Log in").await;
        assert_there(&ada).await;
        // On a second browser, by the code of a mail of its own.
        let other = browser(&chain, screen).await;
        ask(&other).await;
        other.fill("code", &chain.mail().await.code()).await;
        other.press("Continue").await;
        assert_there(&other).await;
        other.close().await;
        ada.goto("https://auth.school.example/users/settings").await;
        ada.press("Log out").await;
        assert!(ada.words().await.contains("logged out"), "{}", ada.words().await);
        // Neither page shows again what was for somebody who was logged in.
        for _ in 0..2 {
            ada.back().await;
            let words = ada.words().await;
            assert!(!words.contains(ADA) && !words.contains("The app"), "{kind:?}: {words}");
        }
        ada.goto(PAGE).await;
        assert!(ada.url().await.starts_with("https://auth.school.example/users/log-in"), "{kind:?}");
        ada.close().await;
    }
}

#[tokio::test]
async fn the_caddyfile_works_as_it_stands_on_this_machine() {
    for kind in Kind::CADDIES {
        let chain = Chain::local(kind).await;
        let home = format!("https://localhost:{}", chain.address.port());
        let look = Look { gateway: Some(chain.address.port()), ..Look::default() };
        let ada = Chromium::with(&home, look).await;
        ada.goto("/open/").await;
        ada.press("Members only").await;
        assert_eq!(ada.path().await, "/users/log-in?return_to=%2Fmembers%2F", "{kind:?}");
        ada.press("Create an account").await;
        ada.fill("email", ADA).await;
        ada.press("Create account").await;
        ada.goto(&chain.mail().await.link()).await;
        ada.press("Create account and continue").await;
        assert_eq!(ada.path().await, "/members/", "{kind:?}");
        assert!(ada.words().await.contains("Hello ada@example.org."), "{kind:?}");
        ada.press("Log out").await;
        ada.back().await;
        assert!(!ada.words().await.contains("Hello"), "{kind:?}");
        ada.goto("/members/").await;
        assert_eq!(ada.path().await, "/users/log-in?return_to=%2Fmembers%2F", "{kind:?}");
        ada.close().await;
    }
}
