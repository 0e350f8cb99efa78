//! Row 11: a mail server that takes its time, or all of it.

use doorpost::clock::Clock;

use super::{SOON, arrive, ask, assert_all_mailed, drained, place, promised, stuck};
use crate::support::load::newcomer;
use crate::support::process::Process;
use crate::support::smtp::Act::{self, Drip, Silence};
use crate::support::until;

/// Wherever a reply can fail to come.
const PLACES: [&str; 6] = ["GREETING", "EHLO", "MAIL", "RCPT", "DATA", "END"];
const PAGES: [&str; 2] = ["/health", "/users/log-in"];

/// The middle one of the times that a page takes, in microseconds.
async fn median(doorpost: &Process, page: &str) -> u64 {
    let clock = Clock::system();
    let mut times = Vec::new();
    for _ in 0..300 {
        let (mut person, _) = newcomer(doorpost.address);
        let started = clock.monotonic();
        assert_eq!(person.get(page).await.status, 200);
        times.push(clock.monotonic() - started);
    }
    times.sort();
    times[times.len() / 2]
}

/// One mail for each place, each of which gets no answer there.
async fn every_stuck_mail_times_out_and_leaves_later(act: Act) {
    let (place, smtp) = place().await;
    let place = place.setting("MAIL_TIMEOUT_SECONDS", "1").setting("MAIL_CONCURRENCY", "6");
    let doorpost = place.start().await;
    for reply in PLACES {
        smtp.next(reply, act);
    }
    let emails = promised(&doorpost, PLACES.len()).await;
    let mut most = 0;
    until("every mail has left", 4 * SOON, async || {
        most = most.max(smtp.stuck());
        emails.iter().all(|email| smtp.accepted().iter().any(|mail| mail.to.contains(email)))
    })
    .await;
    assert!(most > 0, "they were stuck");
    drained(&place, SOON).await;
    assert_all_mailed(&emails, &smtp, "");
    until("nobody waits any more", SOON, async || smtp.stuck() == 0).await;
    assert!(smtp.opened() >= PLACES.len());
}

#[tokio::test]
async fn fault_11_silence_after_any_command_costs_a_mail_its_time_out() {
    every_stuck_mail_times_out_and_leaves_later(Silence).await;
}

#[tokio::test]
async fn fault_11_one_byte_every_thirty_seconds_costs_a_mail_its_time_out() {
    every_stuck_mail_times_out_and_leaves_later(Drip).await;
}

/// One mail is stuck for half a minute: nobody but it notices.
async fn the_others_go_on(act: Act) {
    let (place, smtp) = place().await;
    let place = place.setting("MAIL_CONCURRENCY", "2").setting("THROTTLE_ANONYMOUS_LIMIT", "off");
    let doorpost = place.start().await;
    let before = [median(&doorpost, PAGES[0]).await, median(&doorpost, PAGES[1]).await];
    smtp.next("RCPT", act);
    ask(&doorpost, "stuck@example.org").await;
    stuck(&smtp, 1).await;
    let others = promised(&doorpost, 10).await;
    arrive(&smtp, others.len(), 2 * SOON).await;
    for (page, before) in PAGES.into_iter().zip(before) {
        let with = median(&doorpost, page).await;
        assert!(with <= 5 * before + 5000, "{page} takes {with} µs, and {before} µs before");
    }
    assert_all_mailed(&others, &smtp, "");
    assert_eq!(smtp.stuck(), 1, "and all while the one was stuck");
}

#[tokio::test]
async fn fault_11_silence_holds_up_no_other_mail_and_no_page() {
    the_others_go_on(Silence).await;
}

#[tokio::test]
async fn fault_11_one_byte_every_thirty_seconds_holds_up_no_other_mail_and_no_page() {
    the_others_go_on(Drip).await;
}
