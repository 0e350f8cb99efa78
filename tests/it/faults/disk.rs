//! Rows 14 and 15: the database can't be written to, for want of room or because somebody else is
//! at it.

use std::time::Duration;

use tokio::task::JoinSet;

use super::{SOON, arrive, ask, assert_all_mailed, drained, place, signs_in};
use crate::support::http::{Browser, Response};
use crate::support::load::newcomer;
use crate::support::process::{Place, Process};
use crate::support::smtp::SmtpServer;
use crate::support::until;

/// A write beyond the limit fails, in place of ending the process.
const SURVIVE: &str = "trap '' XFSZ";

#[track_caller]
fn assert_unavailable(page: &Response) {
    assert_eq!(page.status, 503, "{page:?}");
    page.assert_guarded();
    assert!(page.words().contains("We can't do this right now"), "{page:?}");
}

async fn ask_as_newcomer(doorpost: &Process) -> (Response, String) {
    let (mut person, email) = newcomer(doorpost.address);
    (person.ask("/users/register", &email).await, email)
}

/// No file may grow beyond what the log of the database is now and a little.
fn fill_disk(place: &Place, doorpost: &Process) {
    let written = std::fs::metadata(place.path().join("data/doorpost.db-wal")).unwrap().len();
    doorpost.limit_files(&(written + 128 * 1024).to_string());
}

/// Asks until there is no room left; the addresses that were promised a mail before.
async fn until_full(doorpost: &Process) -> Vec<String> {
    let mut promised = Vec::new();
    for _ in 0..2000 {
        let (answer, email) = ask_as_newcomer(doorpost).await;
        if answer.status == 503 {
            assert_unavailable(&answer);
            return promised;
        }
        answer.assert_found("/users/check-email");
        promised.push(email);
    }
    panic!("the disk never fills up");
}

/// An account, and its browser.
async fn account(doorpost: &Process, smtp: &SmtpServer) -> Browser {
    let mut ada = doorpost.browser();
    ada.ask("/users/register", "ada@example.org").await.assert_found("/users/check-email");
    let link = arrive(smtp, 1, SOON).await[0].link();
    ada.post(&link, "").await.assert_found("/users/settings");
    ada
}

#[tokio::test]
async fn fault_14_sqlite_disk_full() {
    let (place, smtp) = place().await;
    let place = place.setting("MAIL_TIMEOUT_SECONDS", "2").before(SURVIVE);
    let doorpost = place.start().await;
    let mut ada = account(&doorpost, &smtp).await;
    drained(&place, SOON).await;
    fill_disk(&place, &doorpost);
    let mut promised = until_full(&doorpost).await;
    let (person, email) = newcomer(doorpost.address);
    let refused = person.json().ask("/users/register", &email).await;
    assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (503, Some("unavailable")));
    for page in ["/users/log-in", "/users/register", "/users/check-email", "/health", "/users/settings"] {
        assert_eq!(ada.get(page).await.status, 200, "{page} only reads");
    }
    assert_eq!(place.texts("PRAGMA integrity_check").await, ["ok"]);
    let queued = place.texts("SELECT email FROM outbox WHERE email <> ''").await;
    assert!(queued.iter().all(|email| promised.contains(email)), "nothing that was refused is half-written");

    doorpost.limit_files("unlimited");
    until("there is room again, and nobody has to help", SOON, async || {
        let (answer, email) = ask_as_newcomer(&doorpost).await;
        if answer.status == 302 {
            promised.push(email);
        }
        answer.status == 302
    })
    .await;
    // As somebody else sees it: what is written since must not stand in a transaction that never ends.
    drained(&place, 2 * SOON).await;
    assert_all_mailed(&promised, &smtp, "");
    let latest = smtp.accepted().into_iter().rfind(|mail| mail.to.contains(promised.last().unwrap())).unwrap();
    assert!(signs_in(&doorpost, &latest.link()).await, "and so is what was mailed since");
}

/// Some ask while nobody can write; the answers they get, how often the page of the form was shown
/// meanwhile, and who they are.
async fn ask_in_vain(doorpost: &Process) -> (Vec<Response>, usize, Vec<String>) {
    let (mut asking, mut emails) = (JoinSet::new(), Vec::new());
    for _ in 0..4 {
        let (mut person, email) = newcomer(doorpost.address);
        emails.push(email.clone());
        asking.spawn(async move { person.ask("/users/register", &email).await });
    }
    let (mut answers, mut pages) = (Vec::new(), 0);
    while !asking.is_empty() {
        tokio::select! {
            answer = asking.join_next() => answers.push(answer.unwrap().unwrap()),
            page = page_of(doorpost) => pages += usize::from(page.status == 200),
        }
    }
    (answers, pages, emails)
}

#[tokio::test]
async fn fault_15_sqlite_locked_by_another_process() {
    let (place, smtp) = place().await;
    let doorpost = place.start().await;
    let lock = place.lock().await;
    let waiting = tokio::time::timeout(Duration::from_secs(SOON), ask_in_vain(&doorpost)).await;
    let (answers, pages, refused) = waiting.expect("nobody waits much longer than the five seconds of its patience");
    answers.iter().for_each(assert_unavailable);
    assert!(pages > 10, "the page of the form answers all the while, not {pages} times");
    lock.release().await;
    let (mut ada, email) = newcomer(doorpost.address);
    let mut asked = async || ada.ask("/users/register", &email).await.status == 302;
    until("it recovers by itself", SOON, &mut asked).await;
    let hers = || smtp.accepted().into_iter().find(|mail| mail.to.contains(&email));
    until("her mail arrives", SOON, async || hers().is_some()).await;
    assert!(signs_in(&doorpost, &hers().unwrap().link()).await);
    drained(&place, SOON).await;
    let mailed: Vec<_> = smtp.accepted().into_iter().flat_map(|mail| mail.to).collect();
    assert!(!refused.iter().any(|email| mailed.contains(email)), "who was told no gets no mail: {mailed:?}");
}

/// Looks at the log-in page, and then waits a little.
async fn page_of(doorpost: &Process) -> Response {
    let page = doorpost.browser().get("/users/log-in").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    page
}

#[tokio::test]
async fn fault_15_a_lock_that_is_soon_released_costs_nobody_an_error() {
    let (place, smtp) = place().await;
    let doorpost = place.start().await;
    let lock = place.lock().await;
    let asking = async { ask(&doorpost, "ada@example.org").await };
    let releasing = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        lock.release().await;
    };
    tokio::join!(asking, releasing);
    arrive(&smtp, 1, SOON).await;
}
