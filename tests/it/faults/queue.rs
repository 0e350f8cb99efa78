//! Rows 13 and 25: mails that can't leave, or mustn't, and all the others that do.

use super::{SOON, arrive, ask, place, promised, signs_in};
use crate::support::until;

const HELD: &str = r#"doorpost_mails_total{outcome="held_back"}"#;
const LEFT: &str = "doorpost_mail_quota_remaining";

#[tokio::test]
async fn fault_13_a_row_that_cannot_be_mailed_is_set_aside_listed_and_blocks_nobody() {
    let (place, smtp) = place().await;
    let away = place.start_with(&[("SMTP_URL", "smtp://127.0.0.1:1?tls=none")]).await;
    ask(&away, "ada@example.org").await;
    away.kill();
    // Near its end, so that this is its last try.
    place.change("UPDATE outbox SET email = 'no address', due_at = 0, tries = 9").await;
    let doorpost = place.start().await;
    let others = promised(&doorpost, 3).await;
    arrive(&smtp, others.len(), SOON).await;
    until("it is set aside", SOON, async || place.run(&["outbox", "list"]).out.contains("set_aside")).await;
    let list = place.run(&["outbox", "list", "--json"]);
    assert!(list.out.contains("set_aside"), "{}", list.out);
    assert!(doorpost.log().contains("doorpost outbox list"), "{}", doorpost.log());
    assert_eq!(smtp.accepted().len(), others.len());
    // Somebody looks, mends the row, and has it mailed after all.
    place.change("UPDATE outbox SET email = 'ada@example.org'").await;
    assert_eq!(place.run(&["outbox", "retry", "--all"]).code, Some(0));
    let mails = arrive(&smtp, others.len() + 1, SOON).await;
    assert!(signs_in(&doorpost, &mails.last().unwrap().link()).await);
}

#[tokio::test]
async fn fault_25_the_daily_limit_is_reached_and_the_reserve_serves_who_has_an_account() {
    let (place, smtp) = place().await;
    let place = place.setting("MAIL_DAILY_LIMIT", "4").setting("MAIL_DAILY_RESERVE_PERCENT", "50");
    let doorpost = place.start().await;
    ask(&doorpost, "ada@example.org").await;
    let welcome = arrive(&smtp, 1, SOON).await[0].link();
    assert!(signs_in(&doorpost, &welcome).await);
    promised(&doorpost, 3).await;
    until("it is held back", SOON, async || doorpost.metric(HELD).await.as_deref() == Some("2")).await;
    assert!(doorpost.log().contains("MAIL_DAILY_LIMIT"), "{}", doorpost.log());
    assert_eq!(smtp.accepted().len(), 2, "two of four are the reserve");
    // The limit is kept over a restart, and what is seen doesn't change.
    doorpost.kill();
    let doorpost = place.start().await;
    let known = doorpost.browser().ask("/users/log-in", "ada@example.org").await;
    let unknown = doorpost.browser().ask("/users/register", "eve@example.org").await;
    assert_eq!((known.status, known.header("location")), (unknown.status, unknown.header("location")));
    let mails = arrive(&smtp, 3, SOON).await;
    assert_eq!(mails[2].to, ["ada@example.org"]);
    assert!(signs_in(&doorpost, &mails[2].link()).await);
    assert!(!doorpost.browser().get("/users/log-in").await.body.contains("delayed"));
    until("it is told what is left", SOON, async || doorpost.metric(LEFT).await.as_deref() == Some("1.0")).await;
}
