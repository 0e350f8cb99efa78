//! The daily limit: an exact sliding window, with a reserve for those who have an account.

use doorpost::worker::Outcome::{Expired, Held, Later, Sent, Unsure};

use super::{ask, register_ada, start_with};
use crate::support::smtp::Act::{Drop, Say};

const LIMIT: [(&str, &str); 4] = [
    ("MAIL_DAILY_LIMIT", "5"),
    ("MAIL_DAILY_RESERVE_PERCENT", "40"),
    ("THROTTLE_EMAIL_LIMIT", "1000"),
    ("LINK_LIFETIME_SECONDS", "900"),
];
const HELD: &str = r#"doorpost_mails_total{outcome="held_back"}"#;

#[tokio::test]
async fn fault_25_from_the_reserve_only_addresses_with_an_account_are_served() {
    let (app, smtp) = start_with(&LIMIT).await;
    register_ada(&app, &smtp).await;
    for stranger in ["bob", "eve"] {
        ask(&app, "/users/register", &format!("{stranger}@example.org")).await;
    }
    assert_eq!(app.work().await, [Sent, Sent], "three in all, and two of five are the reserve");
    let before = app.browser().ask("/users/register", "mallory@example.org").await;
    assert_eq!(app.work().await, [Held]);
    for path in ["/users/log-in", "/users/register"] {
        ask(&app, path, "ada@example.org").await;
        assert_eq!(app.work().await, [Sent], "she has an account");
    }
    ask(&app, "/users/log-in", "ada@example.org").await;
    assert_eq!(app.work().await, [Held], "the reserve has an end too");
    assert_eq!(app.metric(HELD).as_deref(), Some("2"));
    app.watch().await;
    assert_eq!(app.metric("doorpost_mail_quota_remaining").as_deref(), Some("0.0"));
    assert_eq!(app.app.health.reasons(), ["MAIL_DAILY_LIMIT is reached"]);
    // What is seen doesn't change: neither the answer nor, later, the pages.
    let after = app.browser().ask("/users/register", "trudy@example.org").await;
    assert_eq!((before.status, before.header("location")), (after.status, after.header("location")));
    assert_eq!(app.work().await, [Held]);
    app.advance(120);
    app.watch().await;
    assert!(!app.browser().get("/users/log-in").await.body.contains("delayed"));
}

#[tokio::test]
async fn what_is_held_back_leaves_as_soon_as_there_is_a_place_and_is_given_up_with_its_link() {
    let (app, _smtp) = start_with(&[("MAIL_DAILY_LIMIT", "1"), ("MAIL_DAILY_RESERVE_PERCENT", "0")]).await;
    ask(&app, "/users/register", "ada@example.org").await;
    assert_eq!(app.work().await, [Sent]);
    app.advance(24 * 3600 - 1);
    ask(&app, "/users/register", "bob@example.org").await;
    assert_eq!(app.work().await, [Held], "a second too early");
    app.advance(2);
    assert_eq!(app.work().await, [Sent]);
    ask(&app, "/users/register", "eve@example.org").await;
    assert_eq!(app.work().await, [Held]);
    app.advance(900);
    assert_eq!(app.work().await, [Expired]);
    assert_eq!(app.metric(HELD).as_deref(), Some("2"));
    assert_eq!(app.metric(r#"doorpost_mails_total{outcome="expired"}"#), None, "it is counted as held back");
}

#[tokio::test]
async fn only_what_the_server_took_or_may_have_taken_counts() {
    let (app, smtp) = start_with(&[("MAIL_DAILY_LIMIT", "2"), ("MAIL_DAILY_RESERVE_PERCENT", "0")]).await;
    for (place, act, outcome) in [("RCPT", Say("450 later"), Later), ("END", Drop, Unsure)] {
        smtp.next(place, act);
        ask(&app, "/users/register", &format!("{place}@example.org")).await;
        assert_eq!(app.work().await, [outcome]);
        app.advance(2);
        assert_eq!(app.work().await, [if outcome == Later { Sent } else { Held }]);
    }
}

#[tokio::test]
async fn the_limit_holds_whoever_mails() {
    let (app, smtp) = start_with(&[("MAIL_DAILY_LIMIT", "7"), ("MAIL_DAILY_RESERVE_PERCENT", "0")]).await;
    for student in 0..20 {
        ask(&app, "/users/register", &format!("student{student}@example.org")).await;
    }
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let app = app.app.clone();
        workers.spawn(async move {
            let mut worker = doorpost::worker::Postman::default();
            while !worker.deliver(&app, || false).await.unwrap().is_empty() {}
        });
    }
    workers.join_all().await;
    assert_eq!((smtp.accepted().len(), app.rows("outbox").await), (7, 13));
}
