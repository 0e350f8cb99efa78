//! What people read, kept as pages and mails stand: a change of words shows as a change of a file.

use doorpost::mail::Mail;
use insta::assert_snapshot;

use crate::support::http::{Browser, Response};
use crate::support::{TestApp, path_of};

/// What a person sees of a page: status, title, words, fields and buttons.
fn seen(response: &Response) -> String {
    let (head, main) = response.body.split_once("<main>").expect("a page of ours");
    let title = head.split(['<', '>']).skip_while(|part| *part != "title").nth(1).unwrap_or_default();
    let mut text = String::new();
    let mut href = String::new();
    for piece in main.split('<').skip(1) {
        let (tag, words) = piece.split_once('>').expect("a whole tag");
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let attribute = |name: &str| attributes.split_once(&format!("{name}=\""))?.1.split('"').next();
        match name {
            "h1" => text += "\n# ",
            "h2" => text += "\n## ",
            "p" | "label" | "li" | "form" => text += "\n",
            "input" if attribute("type") == Some("hidden") => {}
            "input" if attribute("type") == Some("checkbox") => {
                text += if attributes.ends_with("checked") { "[x] " } else { "[ ] " };
            }
            "input" => text += &format!("\n[{:_<24}]", attribute("value").unwrap_or_default()),
            "button" => text += "\n( ",
            "/button" => text += " )",
            "a" => href = attribute("href").unwrap_or_default().to_owned(),
            "/a" => text += &format!(" <{href}>"),
            _ => {}
        }
        text += words.trim_end_matches('\n');
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = format!("{} · {title}\n\n{text}", response.status);
    text.replace("&#39;", "'").replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

async fn ask(app: &TestApp, path: &str, email: &str) -> Browser {
    let mut browser = app.browser();
    browser.ask(path, email).await.assert_found("/users/check-email");
    browser
}

/// What differs from run to run, taken out.
fn steady(app: &TestApp, mail: &Mail, part: &str) -> String {
    let token = mail.link.rsplit('/').next().expect("a link ends in its token");
    part.replace(token, "TOKEN").replace(&mail.code, "K7Q-2MX").replace(&app.address.port().to_string(), "PORT")
}

#[tokio::test]
async fn asking() {
    let app = TestApp::start().await;
    let mut browser = app.browser();
    assert_snapshot!("log_in", seen(&browser.get("/users/log-in").await));
    assert_snapshot!("logged_out", seen(&browser.get("/users/log-in?logged_out=1").await));
    assert_snapshot!("register", seen(&browser.get("/users/register").await));
    assert_snapshot!("wrong_address", seen(&browser.ask("/users/log-in", "ada at school").await));
    assert_snapshot!("wrong_address_register", seen(&browser.ask("/users/register", "ada@school").await));
    for path in ["/users/log-in", "/users/register"] {
        let mut browser = ask(&app, path, "ada@example.org").await;
        let name = path.trim_start_matches("/users/").replace('-', "_");
        assert_snapshot!(format!("check_email_{name}"), seen(&browser.get("/users/check-email").await));
        if name == "log_in" {
            assert_snapshot!("wrong_code", seen(&browser.post("/users/log-in/code", "code=K7Q2MX").await));
            for _ in 0..4 {
                browser.post("/users/log-in/code", "code=K7Q2MX").await;
            }
            assert_snapshot!("too_many_codes", seen(&browser.post("/users/log-in/code", "code=K7Q2MX").await));
        }
    }
    let mut slip = ask(&app, "/users/log-in", "ada@gamil.com").await;
    assert_snapshot!("check_email_slip", seen(&slip.get("/users/check-email").await));
    app.advance(60);
    let mut full = ask(&app, "/users/log-in", "bob@gmail.com").await;
    for _ in 0..2 {
        full.ask("/users/log-in", "bob@gmail.com").await.assert_found("/users/check-email");
    }
    assert_snapshot!("check_email_nothing_left", seen(&full.get("/users/check-email").await));
    assert_snapshot!("check_email_alone", seen(&app.browser().get("/users/check-email").await));
}

#[tokio::test]
async fn refused() {
    let app = TestApp::with().setting("REGISTRATION_DOMAINS", "school.edu").run().await;
    let mut browser = app.browser();
    assert_snapshot!("wrong_domain", seen(&browser.ask("/users/register", "ada@example.org").await));
    for _ in 0..3 {
        browser.ask("/users/log-in", "ada@example.org").await.assert_found("/users/check-email");
    }
    assert_snapshot!("too_many", seen(&browser.ask("/users/log-in", "ada@example.org").await));
    let mut other_site = app.browser().header("Sec-Fetch-Site", "cross-site");
    assert_snapshot!("other_site", seen(&other_site.ask("/users/log-in", "ada@example.org").await));
    assert_snapshot!("not_found", seen(&browser.get("/nowhere").await));
    let closed = TestApp::with().setting("REGISTRATION", "closed").run().await;
    assert_snapshot!("closed", seen(&closed.browser().get("/users/register").await));
}

#[tokio::test]
async fn entering() {
    let app = TestApp::start().await;
    let mut browser = ask(&app, "/users/register", "ada@example.org").await;
    let link = app.link().await;
    assert_snapshot!("confirm_new", seen(&browser.get(&link).await));
    browser.post(&link, "").await.assert_found("/users/settings");
    assert_snapshot!("settings", seen(&browser.get("/users/settings").await));
    browser.post("/users/log-in", "email=ada%40example.org&return_to=/course").await;
    let link = app.link().await;
    assert_snapshot!("confirm_same_account", seen(&browser.get(&link).await));
    assert_snapshot!("confirm_other_browser", seen(&app.browser().get(&link).await));
    let mut other = app.browser();
    other.post(&link, "").await.assert_found("/course");
    assert_snapshot!("settings_two_devices", seen(&other.get("/users/settings").await));
    assert_snapshot!("used", seen(&app.browser().get(&link).await));
    assert_snapshot!("used_logged_in", seen(&browser.get(&link).await));
    browser.post("/users/log-out", "").await;
    assert_snapshot!("used_address_known", seen(&browser.get(&link).await));
    other.post("/users/log-out", "").await;
    assert_snapshot!("used_logged_out", seen(&other.get(&link).await));
    assert_snapshot!("unknown", seen(&app.browser().get("/users/log-in/abc").await));
    browser.ask("/users/log-in", "ada@example.org").await.assert_found("/users/check-email");
    let link = app.link().await;
    assert_snapshot!("confirm", seen(&browser.get(&link).await));
    let mut bob = app.account("bob@example.org").await;
    assert_snapshot!("expired_address_known", seen(&browser.get(&link).await));
    assert_snapshot!("expired", seen(&app.browser().get(&link).await));
    assert_snapshot!("unknown_address_known", seen(&browser.get("/users/log-in/abc").await));
    browser.ask("/users/log-in", "ada@example.org").await.assert_found("/users/check-email");
    let link = app.link().await;
    assert_snapshot!("confirm_other_account", seen(&bob.get(&link).await));
    bob.ask("/users/register", "carol@example.org").await.assert_found("/users/check-email");
    let link = app.link().await;
    assert_snapshot!("confirm_new_other_account", seen(&bob.get(&link).await));
}

#[tokio::test]
async fn leaving_for_another_host() {
    let app = TestApp::with().setting("RETURN_HOSTS", "courses.school.example").run().await;
    let mut browser = app.browser();
    browser.post("/users/register", "email=ada%40example.org&return_to=http://courses.school.example/3").await;
    let link = app.link().await;
    assert_snapshot!("confirm_other_host", seen(&browser.get(&link).await));
}

#[tokio::test]
async fn in_trouble() {
    let app = TestApp::with().setting("SUPPORT_EMAIL", "help@school.edu").run().await;
    sqlx::query("DROP TABLE outbox").execute(&app.database).await.unwrap();
    assert_snapshot!("unavailable", seen(&app.browser().ask("/users/log-in", "ada@example.org").await));
}

#[tokio::test]
async fn mailed() {
    let app = TestApp::start().await;
    let firefox = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0";
    let mut browser = app.browser().header("User-Agent", firefox);
    for (name, path) in
        [("welcome", "/users/register"), ("sign_in", "/users/log-in"), ("already_registered", "/users/register")]
    {
        browser.ask(path, "ada@example.org").await.assert_found("/users/check-email");
        app.advance(65);
        let mails = app.deliver().await;
        let mail = &mails[0];
        assert_snapshot!(format!("mail_{name}"), steady(&app, mail, &format!("{}\n\n{}", mail.subject, mail.text)));
        assert_snapshot!(format!("mail_{name}_html"), steady(&app, mail, &mail.html));
        browser.post(&path_of(mail), "").await.assert_found("/users/settings");
    }
}
