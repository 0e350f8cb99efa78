//! The real binary, and what befalls it: each test is named after its row of the table of faults, and
//! wants the one outcome that the fault may have.

mod disk;
mod fence;
mod kill;
mod operator;
mod queue;
mod random;
mod stop;
mod tarpit;

use std::collections::BTreeMap;

use crate::support::database::is_postgres;
use crate::support::load::newcomer;
use crate::support::process::{Place, Process};
use crate::support::smtp::{Act, Received, Security, SmtpServer};
use crate::support::until;

/// How long a machine with much to do may take for what takes no time.
const SOON: u64 = 15;

/// A mail server, and a place whose mails go to it.
async fn place() -> (Place, SmtpServer) {
    let smtp = SmtpServer::start(Security::Plain).await;
    let place = Place::new().setting("SMTP_URL", &smtp.url("?tls=none"));
    // Where nobody can tell whether a process has ended, its mails wait for their lease, twice as long.
    let place = if is_postgres() { place.setting("MAIL_TIMEOUT_SECONDS", "4") } else { place };
    (place, smtp)
}

/// Asks for an account, from a network of its own.
async fn ask(doorpost: &Process, email: &str) {
    doorpost.browser().ask("/users/register", email).await.assert_found("/users/check-email");
}

/// Asks for as many mails; the addresses.
async fn promised(doorpost: &Process, mails: usize) -> Vec<String> {
    let mut emails = Vec::new();
    for _ in 0..mails {
        let (mut person, email) = newcomer(doorpost.address);
        person.ask("/users/register", &email).await.assert_found("/users/check-email");
        emails.push(email);
    }
    emails
}

/// Waits until as many mails were accepted.
async fn arrive(smtp: &SmtpServer, mails: usize, seconds: u64) -> Vec<Received> {
    until(&format!("{mails} mails arrive"), seconds, async || smtp.accepted().len() >= mails).await;
    smtp.accepted()
}

/// Waits until as many clients of the mail server get no answer.
async fn stuck(smtp: &SmtpServer, clients: usize) {
    until(&format!("{clients} clients are stuck"), SOON, async || smtp.stuck() == clients).await;
}

/// A running server that has Ada's mail in hand, and the mail server that acts so at `reply`.
async fn in_hand(reply: &'static str, act: Act) -> (Place, SmtpServer, Process) {
    let (place, smtp) = place().await;
    let doorpost = place.start().await;
    until("the look at the start is over", SOON, async || smtp.opened() == 1 && smtp.open() == 0).await;
    smtp.next(reply, act);
    ask(&doorpost, "ada@example.org").await;
    stuck(&smtp, 1).await;
    (place, smtp, doorpost)
}

/// Waits until nothing is queued any more.
async fn drained(place: &Place, seconds: u64) {
    until("the queue drains", seconds, async || {
        place.count("SELECT COUNT(*) FROM outbox WHERE email <> ''").await == 0
    })
    .await;
}

async fn signs_in(doorpost: &Process, link: &str) -> bool {
    let answer = doorpost.browser().post(link, "").await;
    assert!([302, 410].contains(&answer.status), "{answer:?}");
    answer.status == 302
}

/// All there is of a mail: one, or copies that a mailbox takes for one.
#[track_caller]
fn assert_one_mail(copies: &[Received]) {
    assert!(!copies.is_empty(), "a mail");
    let ids: Vec<_> = copies.iter().map(|copy| copy.header("Message-ID")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

/// Everybody who was promised a mail has it, once or in copies that a mailbox takes for one.
fn assert_all_mailed(promised: &[String], smtp: &SmtpServer, seed: &str) {
    let mut mails: BTreeMap<String, Vec<Received>> = BTreeMap::new();
    for mail in smtp.accepted() {
        mails.entry(mail.to.concat()).or_default().push(mail);
    }
    let missing: Vec<_> = promised.iter().filter(|email| !mails.contains_key(*email)).collect();
    assert!(missing.is_empty(), "{seed}: promised and never mailed: {missing:?}");
    for copies in mails.values() {
        assert_one_mail(copies);
    }
}
