//! Row 20: two processes on one database, and a lease that outlives its worker's attention.

use super::{SOON, arrive, ask, drained, in_hand, place, signs_in, stuck};
use crate::support::process::{Place, Process};
use crate::support::smtp::Act::{Hold, Silence};
use crate::support::smtp::SmtpServer;
use crate::support::until;

const LEASES: &str = "SELECT COALESCE(lease, 'none') || ' ' || due_at FROM outbox WHERE email <> '' ORDER BY id";

/// A server that is stopped while a mail is in its hand, whose lease is two seconds.
async fn stopped_with_a_mail_in_hand(place: &Place, smtp: &SmtpServer) -> Process {
    let first = place.start_with(&[("MAIL_TIMEOUT_SECONDS", "1")]).await;
    smtp.next("RCPT", Silence);
    ask(&first, "ada@example.org").await;
    stuck(smtp, 1).await;
    first.signal("STOP");
    first
}

#[tokio::test]
async fn fault_20_a_stopped_worker_does_not_mark_what_another_has_in_hand() {
    let (place, smtp) = place().await;
    let place = place.setting("MAIL_CONCURRENCY", "1");
    let first = stopped_with_a_mail_in_hand(&place, &smtp).await;
    smtp.next("DATA", Hold);
    let _second = place.start().await;
    stuck(&smtp, 2).await;
    let held = place.texts(LEASES).await;
    assert_eq!(held.len(), 1);
    first.signal("CONT");
    // It has one worker, and the second's is busy: once this mail is there, the first is done with Ada's.
    ask(&first, "bob@example.org").await;
    assert_eq!(arrive(&smtp, 1, 2 * SOON).await[0].to, ["bob@example.org"]);
    until("bob's row goes", SOON, async || place.texts(LEASES).await.len() == 1).await;
    assert_eq!(place.texts(LEASES).await, held, "Ada's is as the second left it");
    smtp.release();
    let mails = arrive(&smtp, 2, SOON).await;
    drained(&place, SOON).await;
    assert_eq!((mails[1].to.concat().as_str(), smtp.accepted().len()), ("ada@example.org", 2), "one mail each");
    assert!(signs_in(&first, &mails[1].link()).await);
    assert!(!signs_in(&first, &mails[1].link()).await, "once");
}

#[tokio::test]
async fn fault_20_a_stopped_worker_does_not_send_again_what_another_has_sent() {
    let (place, smtp) = place().await;
    let place = place.setting("MAIL_CONCURRENCY", "1");
    let first = stopped_with_a_mail_in_hand(&place, &smtp).await;
    let second = place.start().await;
    let link = arrive(&smtp, 1, SOON).await[0].link();
    drained(&place, SOON).await;
    first.signal("CONT");
    drop(second);
    // The only worker left: once this mail is there, it is done with Ada's.
    ask(&first, "bob@example.org").await;
    assert_eq!(arrive(&smtp, 2, 2 * SOON).await[1].to, ["bob@example.org"]);
    drained(&place, SOON).await;
    assert_eq!(smtp.accepted().len(), 2, "one mail each");
    assert!(signs_in(&first, &link).await);
    assert!(!signs_in(&first, &link).await, "once");
}

#[tokio::test]
async fn fault_20_a_second_process_takes_no_mail_out_of_a_living_ones_hand() {
    let (place, smtp, first) = in_hand("DATA", Hold).await;
    let held = place.texts(LEASES).await;
    // Even one that does nothing at all: it may go on at any moment.
    first.signal("STOP");
    let second = place.start().await;
    ask(&second, "bob@example.org").await;
    assert_eq!(arrive(&smtp, 1, SOON).await[0].to, ["bob@example.org"], "the queue was looked through");
    until("bob's row goes", SOON, async || place.texts(LEASES).await.len() == 1).await;
    assert_eq!(place.texts(LEASES).await, held, "Ada's lease is the first's");
    first.signal("CONT");
    smtp.release();
    assert_eq!(arrive(&smtp, 2, SOON).await[1].to, ["ada@example.org"]);
    drained(&place, SOON).await;
    assert_eq!(smtp.accepted().len(), 2, "one mail each");
}
