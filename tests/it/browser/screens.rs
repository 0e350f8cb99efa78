//! Pictures of every page and of the mail, as people see them: light and dark, on a phone and on a desk.
//! Written into `docs/screens` by `scripts/screens`; without it only made.

use std::path::Path;

use crate::support::TestApp;
use crate::support::chromium::{Chromium, DESKTOP, Look, PHONE};
use crate::support::smtp::{Act, Security, SmtpServer};

/// Where the pictures go, from the environment: set by `scripts/screens` alone.
const FOLDER: &str = "DOORPOST_SCREENS";

struct Camera {
    browser: Chromium,
    name: &'static str,
}

impl Camera {
    async fn take(&self, page: &str) {
        let picture = self.browser.picture().await;
        assert!(picture.len() > 2000, "{page} shows something");
        if let Ok(folder) = std::env::var(FOLDER) {
            std::fs::write(Path::new(&folder).join(format!("{page}-{}.png", self.name)), picture).unwrap();
        }
    }

    async fn at(&self, path: &str, page: &str) {
        self.browser.goto(path).await;
        self.take(page).await;
    }
}

async fn tour(look: Look, name: &'static str) {
    let smtp = SmtpServer::start(Security::Plain).await;
    let app = TestApp::with()
        .setting("THROTTLE_IP_BURST_LIMIT", "12")
        .setting("SUPPORT_EMAIL", "help@school.example")
        .setting("SMTP_URL", &smtp.url("?tls=none"));
    let app = app.run().await;
    let camera = Camera { browser: Chromium::with(&home(&app), look).await, name };
    let browser = &camera.browser;
    let mailed = async || {
        app.work().await;
        smtp.accepted().pop().expect("a mail")
    };
    camera.at("/users/log-in", "log-in").await;
    browser.fill("email", "ada at school").await;
    browser.press("Send me a link").await;
    camera.take("wrong-address").await;
    camera.at("/users/register", "register").await;
    browser.fill("email", "ada@gmail.com").await;
    browser.press("Create account").await;
    camera.take("check-email-register").await;
    let mail = mailed().await;
    camera.at(&mail.link(), "confirm-new").await;
    browser.press("Create account and continue").await;
    camera.take("settings").await;
    camera.at("/auth/check?group=staff", "forbidden").await;
    browser.show(&mail.html()).await;
    camera.take("mail-welcome").await;
    camera.at(&mail.link(), "used-logged-in").await;
    app.browser().ask("/users/register", "bob@example.org").await;
    camera.at(&mailed().await.link(), "confirm-which-account").await;
    browser.goto("/users/settings").await;
    browser.press("Log out").await;
    camera.take("logged-out").await;
    camera.at(&mail.link(), "used").await;
    browser.goto("/users/log-in").await;
    browser.fill("email", "ada@gamil.com").await;
    browser.press("Send me a link").await;
    camera.take("check-email-slip").await;
    browser.press("Send it there").await;
    camera.take("check-email").await;
    let mail = mailed().await;
    browser.show(&mail.html()).await;
    camera.take("mail-log-in").await;
    browser.goto("/users/check-email").await;
    browser.fill("code", "000 00U").await;
    browser.press("Continue").await;
    camera.take("wrong-code").await;
    let other = Camera { browser: Chromium::with(&home(&app), look).await, name };
    other.at(&mail.link(), "confirm-other").await;
    other.browser.close().await;
    camera.at(&mail.link(), "confirm").await;
    app.advance(901);
    camera.at(&mail.link(), "expired").await;
    camera.at("/users/log-in/nothing", "unknown").await;
    camera.at("/nowhere", "not-found").await;
    browser
        .show(&format!("<form method=post action='{}/users/log-out'><button>Win a prize</button>", home(&app)))
        .await;
    browser.press("Win a prize").await;
    camera.take("other-site").await;
    browser.goto("/users/log-in").await;
    for _ in 0..13 {
        app.browser().ask("/users/log-in", "eve@example.org").await;
    }
    browser.fill("email", "ada@gmail.com").await;
    browser.press("Send me a link").await;
    app.work().await;
    camera.take("too-many").await;
    smtp.always("MAIL", Act::Say("530 log in first"));
    app.browser_at("203.0.113.4").ask("/users/register", "kim@example.org").await;
    app.work().await;
    app.watch().await;
    camera.at("/users/log-in", "delayed").await;
    sqlx::query("DROP TABLE outbox").execute(&app.database).await.unwrap();
    app.advance(3600);
    browser.fill("email", "ada@gmail.com").await;
    browser.press("Send me a link").await;
    camera.take("unavailable").await;
    camera.browser.close().await;
    closed_and_without_mail(look, name).await;
}

/// What is there only without a mail server, and where nobody may register.
async fn closed_and_without_mail(look: Look, name: &'static str) {
    let app = TestApp::with().setting("REGISTRATION", "closed").run().await;
    let camera = Camera { browser: Chromium::with(&home(&app), look).await, name };
    camera.at("/users/register", "closed").await;
    camera.at("/dev/mailbox", "mailbox").await;
    camera.browser.close().await;
}

fn home(app: &TestApp) -> String {
    format!("http://localhost:{}", app.address.port())
}

#[tokio::test]
async fn on_a_phone_by_day() {
    tour(Look { screen: PHONE, ..Look::default() }, "phone-light").await;
}

#[tokio::test]
async fn on_a_phone_by_night() {
    tour(Look { screen: PHONE, dark: true, ..Look::default() }, "phone-dark").await;
}

#[tokio::test]
async fn on_a_desk_by_day() {
    tour(Look { screen: DESKTOP, ..Look::default() }, "desktop-light").await;
}

#[tokio::test]
async fn on_a_desk_by_night() {
    tour(Look { screen: DESKTOP, dark: true, ..Look::default() }, "desktop-dark").await;
}
