//! Rows 1 to 4 and 10: the process is gone from one instruction to the next.

use doorpost::domain::token::LinkToken;

use super::{SOON, arrive, ask, assert_one_mail, drained, in_hand, place, signs_in};
use crate::support::process::Process;
use crate::support::smtp::Act::{Drop, Hold, Silence};
use crate::support::smtp::Received;
use crate::support::until;

/// Waits until the counters have let a request through: what is left of it is to write its row.
async fn let_through(doorpost: &Process) {
    let allowed = r#"doorpost_throttle_decisions_total{counter="auth_email",decision="allow"}"#;
    until("it is let through", SOON, async || doorpost.metric(allowed).await.is_some()).await;
}

/// Two copies of a mail: at most one of their links signs in.
async fn assert_one_sign_in(doorpost: &Process, copies: &[Received]) {
    assert!(signs_in(doorpost, &copies[0].link()).await, "whichever copy a mailbox shows, it works");
    for copy in &copies[1..] {
        assert!(!signs_in(doorpost, &copy.link()).await, "and the other one doesn't any more");
    }
}

#[tokio::test]
async fn fault_01_killed_before_the_row_commits() {
    let (place, smtp) = place().await;
    let doorpost = place.start().await;
    let lock = place.lock().await;
    let mut ada = doorpost.browser();
    let asking = tokio::spawn(async move { ada.try_ask("/users/register", "ada@example.org").await });
    let_through(&doorpost).await;
    doorpost.kill();
    assert!(asking.await.unwrap().is_none(), "nothing was promised");
    lock.release().await;
    let doorpost = place.start().await;
    ask(&doorpost, "bob@example.org").await;
    assert_eq!(arrive(&smtp, 1, SOON).await[0].to, ["bob@example.org"]);
    drained(&place, SOON).await;
    smtp.only();
}

#[tokio::test]
async fn fault_02_killed_after_the_answer_before_sending() {
    let (place, smtp, doorpost) = in_hand("MAIL", Silence).await;
    doorpost.kill();
    let doorpost = place.start().await;
    // Its lease has nearly a minute to go, but nobody is left who could hold it.
    arrive(&smtp, 1, SOON).await;
    drained(&place, SOON).await;
    assert!(signs_in(&doorpost, &smtp.only().link()).await);
}

#[tokio::test]
async fn fault_03_killed_after_the_servers_acceptance_before_marking() {
    let (place, smtp, doorpost) = in_hand("END", Hold).await;
    let lock = place.lock().await;
    smtp.release();
    let heard = "doorpost_smtp_seconds_count";
    until("it hears of the acceptance", SOON, async || doorpost.metric(heard).await.as_deref() == Some("1")).await;
    doorpost.kill();
    lock.release().await;
    let doorpost = place.start().await;
    arrive(&smtp, 2, SOON).await;
    drained(&place, SOON).await;
    let copies = smtp.accepted();
    assert_eq!(copies.len(), 2, "one duplicate");
    assert_one_mail(&copies);
    assert_one_sign_in(&doorpost, &copies).await;
}

#[tokio::test]
async fn fault_04_killed_between_storing_the_links_hash_and_sending() {
    // The letter is written by then, and nothing of it has left.
    let (place, smtp, doorpost) = in_hand("DATA", Silence).await;
    let hashes = "SELECT token_hash FROM links ORDER BY created_at, token_hash";
    let earlier = place.texts(hashes).await;
    assert_eq!(earlier.len(), 1, "the hash is stored");
    doorpost.kill();
    assert!(smtp.accepted().is_empty(), "nobody ever saw what it is the hash of");
    let doorpost = place.start().await;
    arrive(&smtp, 1, SOON).await;
    drained(&place, SOON).await;
    let link = smtp.only().link();
    let fresh = LinkToken::parse(link.rsplit('/').next().unwrap()).expect("a token").hash();
    assert_ne!(fresh.as_str(), earlier[0], "a fresh link");
    assert!(signs_in(&doorpost, &link).await);
    let unused = place.count("SELECT COUNT(*) FROM links WHERE used_at IS NULL").await;
    assert_eq!(unused, 0, "the earlier hash ended with it");
}

#[tokio::test]
async fn fault_10_connection_dropped_after_the_final_dot() {
    let (place, smtp) = place().await;
    let doorpost = place.start().await;
    smtp.next("END", Drop);
    ask(&doorpost, "ada@example.org").await;
    arrive(&smtp, 2, 2 * SOON).await;
    drained(&place, SOON).await;
    let copies = smtp.accepted();
    assert_eq!(copies.len(), 2, "one duplicate");
    assert_one_mail(&copies);
    assert_one_sign_in(&doorpost, &copies).await;
}
