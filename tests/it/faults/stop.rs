//! Row 22: told to stop. Whoever stops a server by hand waits ten seconds and not longer.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{SOON, arrive, assert_all_mailed, drained, in_hand, place, promised, signs_in, stuck};
use crate::support::load::{Load, newcomer};
use crate::support::process::Process;
use crate::support::smtp::Act::{Hold, Silence};
use crate::support::until;

/// The ten seconds, and a little for a machine with much to do.
const GRACE: u64 = 12;

/// The head of a form, of whose body nothing comes.
const SLOW: &[u8] = b"POST /users/register HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n";

async fn closes(doorpost: &Process) {
    until("nobody is let in any more", SOON, async || !doorpost.listens().await).await;
}

/// A connection on which this was sent, and nothing follows.
async fn unfinished(doorpost: &Process, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(doorpost.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

#[tokio::test]
async fn fault_22_connections_with_nothing_to_say_hold_up_nobody() {
    let (place, _smtp) = place().await;
    let mut doorpost = place.start().await;
    let mut kept = unfinished(&doorpost, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let _silent = unfinished(&doorpost, b"").await;
    assert!(kept.read(&mut [0; 1024]).await.unwrap() > 0, "answered, and open for more");
    doorpost.signal("TERM");
    assert_eq!(doorpost.ended(5).await.code(), Some(0));
}

#[tokio::test]
async fn fault_22_sigterm_under_load() {
    let (place, smtp) = place().await;
    let mut doorpost = place.start().await;
    let load = Load::start(doorpost.address, 3);
    until("mails leave", SOON, async || smtp.accepted().len() > 5).await;
    doorpost.signal("TERM");
    closes(&doorpost).await;
    assert_eq!(doorpost.ended(GRACE).await.code(), Some(0));
    let promised = load.promised().await;
    let leased = place.count("SELECT COUNT(*) FROM outbox WHERE lease IS NOT NULL").await;
    assert_eq!(leased, 0, "no mail is left in a hand that is gone");
    let _doorpost = place.start().await;
    drained(&place, 6 * SOON).await;
    assert_all_mailed(&promised, &smtp, "");
    let mails = smtp.accepted().len();
    assert_eq!(mails, promised.len(), "everybody who asked was answered, and mailed once");
}

#[tokio::test]
async fn fault_22_a_request_in_flight_is_finished() {
    let (place, smtp) = place().await;
    let mut doorpost = place.start().await;
    let lock = place.lock().await;
    let (mut ada, email) = newcomer(doorpost.address);
    let asking = tokio::spawn(async move { ada.ask("/users/register", &email).await });
    let allowed = r#"doorpost_throttle_decisions_total{counter="auth_email",decision="allow"}"#;
    until("it is under way", SOON, async || doorpost.metric(allowed).await.is_some()).await;
    doorpost.signal("TERM");
    closes(&doorpost).await;
    lock.release().await;
    asking.await.unwrap().assert_found("/users/check-email");
    assert_eq!(doorpost.ended(GRACE).await.code(), Some(0));
    let _doorpost = place.start().await;
    arrive(&smtp, 1, SOON).await;
}

#[tokio::test]
async fn fault_22_the_mail_in_hand_is_finished() {
    let (place, smtp, mut doorpost) = in_hand("DATA", Hold).await;
    doorpost.signal("TERM");
    closes(&doorpost).await;
    smtp.release();
    assert_eq!(doorpost.ended(GRACE).await.code(), Some(0));
    smtp.only();
    assert_eq!(place.count("SELECT COUNT(*) FROM outbox WHERE email <> ''").await, 0, "and marked");
}

#[tokio::test]
async fn fault_22_a_mail_that_is_stuck_goes_back_to_the_queue() {
    let (place, smtp, mut doorpost) = in_hand("DATA", Silence).await;
    // A request that is slow to arrive has the same ten seconds, and not ten more.
    let _slow = unfinished(&doorpost, SLOW).await;
    doorpost.signal("TERM");
    assert_eq!(doorpost.ended(GRACE).await.code(), Some(0));
    let given_back = "SELECT COUNT(*) FROM outbox WHERE email <> '' AND lease IS NULL";
    assert_eq!(place.count(given_back).await, 1, "whoever starts next may take it at once");
    let doorpost = place.start().await;
    arrive(&smtp, 1, SOON).await;
    drained(&place, SOON).await;
    assert!(signs_in(&doorpost, &smtp.only().link()).await);
}

#[tokio::test]
async fn fault_22_a_second_sigterm_ends_at_once() {
    let (place, smtp) = place().await;
    let mut doorpost = place.start().await;
    smtp.next("DATA", Silence);
    let emails = promised(&doorpost, 1).await;
    stuck(&smtp, 1).await;
    doorpost.signal("TERM");
    closes(&doorpost).await;
    // The first would leave the mail its ten seconds.
    let waits = tokio::time::timeout(Duration::from_millis(300), doorpost.ended(SOON)).await;
    assert!(waits.is_err(), "it waits for the mail in hand: {waits:?}");
    doorpost.signal("TERM");
    doorpost.ended(3).await;
    let _doorpost = place.start().await;
    arrive(&smtp, 1, SOON).await;
    assert_all_mailed(&emails, &smtp, "");
}
