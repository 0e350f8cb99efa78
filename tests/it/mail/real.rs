//! A mail server that we didn't write. Its ideas of TLS, of SMTP and of a message are not ours, so
//! what we and our own server might get wrong together shows here.

use doorpost::worker::Outcome;

use super::{ask, header};
use crate::support::TestApp;
use crate::support::postfix::Postfix;

/// An app with one mail in its queue.
async fn one_waiting(url: &str, email: &str) -> TestApp {
    let app = TestApp::with().setting("SMTP_URL", url).setting("MAIL_FROM", "Doorpost <doorpost@school.edu>");
    let app = app.run().await;
    ask(&app, "/users/register", email).await;
    app
}

/// The Message-ID that the mail in the queue will have.
async fn queued_id(app: &TestApp) -> String {
    let row = sqlx::query_as::<_, (String,)>("SELECT id FROM outbox").fetch_one(&app.database).await.unwrap();
    format!("<{}@school.edu>", row.0)
}

#[tokio::test]
async fn a_real_mail_server_delivers_the_mail_once_and_its_link_signs_in() {
    let postfix = Postfix::start().await;
    let app = one_waiting(&postfix.trusted_url(), "ada@example.org").await;
    let id = queued_id(&app).await;
    assert_eq!(app.work().await, [Outcome::Sent]);
    assert_eq!(app.rows("outbox").await, 0);
    let [mail] = <[_; 1]>::try_from(postfix.delivered().await).expect("one mail");
    let raw = std::str::from_utf8(&mail.raw).unwrap();
    assert_eq!(header(&mail, "Return-Path"), "<doorpost@school.edu>");
    assert_eq!(raw.matches("\nReceived: ").count(), 1, "{raw}");
    assert!(raw.contains("(using TLSv1.3 ") && raw.contains(" with ESMTPS id "), "{raw}");
    assert_eq!(header(&mail, "Message-ID"), id);
    assert_eq!(raw.to_lowercase().matches("\nmessage-id:").count(), 1, "{raw}");
    let mut browser = app.browser();
    browser.post(&mail.link(), "").await.assert_found("/users/settings");
    assert_eq!(browser.get("/users/settings").await.status, 200);
}

#[tokio::test]
async fn a_recipient_whom_a_real_mail_server_refuses_fails_once() {
    let postfix = Postfix::start().await;
    let app = one_waiting(&postfix.trusted_url(), "nobody@example.org").await;
    assert_eq!(app.work().await, [Outcome::Failed]);
    assert_eq!((app.rows("outbox").await, postfix.delivered().await.len()), (0, 0));
    // The refusal was that person's only.
    ask(&app, "/users/register", "ada@example.org").await;
    assert_eq!(app.work().await, [Outcome::Sent]);
    assert_eq!(postfix.delivered().await.len(), 1);
}

#[tokio::test]
async fn a_real_mail_server_gets_nothing_before_it_proves_who_it_is() {
    let postfix = Postfix::start().await;
    for url in [postfix.url(""), postfix.url("?tls=none")] {
        let app = one_waiting(&url, "ada@example.org").await;
        assert_eq!(app.work().await, [Outcome::GivenBack], "{url}");
        assert_eq!((app.rows("outbox").await, postfix.delivered().await.len()), (1, 0), "{url}");
    }
    // It was only the certificate: the same server takes the same mail once it is trusted.
    let app = one_waiting(&postfix.trusted_url(), "ada@example.org").await;
    assert_eq!(app.work().await, [Outcome::Sent]);
    assert_eq!(postfix.delivered().await.len(), 1);
}
