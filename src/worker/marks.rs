//! What became of the mails of a batch, written down: each as soon as it is known, and those for whom
//! nothing left together.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::outcome::Outcome;
use crate::app::App;
use crate::store::outbox::QueuedMail;

/// Mails of a batch that have left and wait for their mark at most, beside as many whose mark is on its way
/// to the disk: a crash mails them again, and a disk that is slow must not make them many.
const UNMARKED: usize = 8;
/// How often a mark is tried, and how long it waits in between. Whatever has left and isn't marked when its
/// lease ends leaves again, with the same Message-ID.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);

/// The marks of a batch.
pub struct Marks {
    app: Arc<App>,
    /// Where marks are written: in tasks of their own, which nothing that happens to the batch cuts off.
    writing: TaskTracker,
    /// Mails that have left: while one mark is on its way to the disk the next gathers.
    sent: mpsc::Sender<(QueuedMail, Outcome)>,
    writer: JoinHandle<()>,
    others: Vec<JoinHandle<()>>,
    /// What nothing is known to be said of but that it didn't leave: dropped, expired, given back.
    dropped: Vec<(QueuedMail, Outcome)>,
    expired: Vec<(QueuedMail, Outcome)>,
    given_back: Vec<(QueuedMail, Outcome)>,
}

impl Marks {
    pub fn new(app: &Arc<App>, writing: &TaskTracker) -> Self {
        let (sent, gathered) = mpsc::channel(UNMARKED);
        let writer = writing.spawn(write_down(app.clone(), gathered));
        let (others, dropped, expired, given_back) = (vec![], vec![], vec![], vec![]);
        Self { app: app.clone(), writing: writing.clone(), sent, writer, others, dropped, expired, given_back }
    }

    /// Writes down what became of one mail, or gathers it.
    pub async fn make(&mut self, mail: QueuedMail, outcome: Outcome) {
        match outcome {
            Outcome::Dropped => self.dropped.push((mail, outcome)),
            Outcome::Expired => self.expired.push((mail, outcome)),
            Outcome::GivenBack => self.given_back.push((mail, outcome)),
            // At once, since the next mail may be stuck for long. If the writer panicked, it is tried again.
            Outcome::Sent => drop(self.sent.send((mail, outcome)).await),
            _ => self.others.push(self.mark(vec![(mail, outcome)])),
        }
    }

    /// Returns once all is written down.
    pub async fn finish(mut self) {
        for gathered in [&mut self.dropped, &mut self.expired, &mut self.given_back].map(std::mem::take) {
            self.others.push(self.mark(gathered));
        }
        drop(self.sent);
        self.others.push(self.writer);
        for mark in self.others {
            // A mark that panicked is a mail that is tried again.
            let _ = mark.await;
        }
    }

    fn mark(&self, mails: Vec<(QueuedMail, Outcome)>) -> JoinHandle<()> {
        self.writing.spawn(mark(self.app.clone(), mails))
    }
}

async fn write_down(app: Arc<App>, mut gathered: mpsc::Receiver<(QueuedMail, Outcome)>) {
    let mut mails = Vec::with_capacity(UNMARKED);
    while gathered.recv_many(&mut mails, UNMARKED).await > 0 {
        mark(app.clone(), std::mem::take(&mut mails)).await;
    }
}

/// Writes down one fate that mails share, if their lease still holds.
async fn mark(app: Arc<App>, ended: Vec<(QueuedMail, Outcome)>) {
    let now = app.clock.now();
    let Some((first, outcome)) = ended.first() else { return };
    let (id, fate) = (first.id.clone(), outcome.fate(first, now));
    // The place under the daily limit of what the server certainly didn't take.
    let frees = app.config.daily_limit.is_some() && outcome.is_not_taken();
    let mails: Vec<_> = ended.iter().map(|(mail, _)| mail).collect();
    for left in (0..TRIES).rev() {
        match app.store.mark(&mails, fate, frees).await {
            Ok(marked) => return noted(&app, ended, &marked),
            Err(error) if left == 0 => {
                tracing::error!(mail = id, %error, "can't be marked; it is tried again when its lease ends");
            }
            Err(error) => {
                tracing::warn!(mail = id, %error, "can't be marked yet; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn noted(app: &App, ended: Vec<(QueuedMail, Outcome)>, marked: &[String]) {
    for (mail, outcome) in ended {
        if marked.contains(&mail.id) {
            note(app, &mail, outcome);
        } else {
            tracing::warn!(mail = mail.id, "the lease was lost to another worker; nothing marked");
        }
    }
}

/// Counts what became of a mail, and logs what nobody has logged yet.
fn note(app: &App, mail: &QueuedMail, outcome: Outcome) {
    if let Some(label) = outcome.label(mail) {
        app.metrics.mails(label, 1);
    }
    match outcome {
        Outcome::Expired => {
            tracing::warn!(mail = mail.id, tries = mail.tries - 1, "mail given up: its link would be too old");
        }
        Outcome::Held if mail.held_at.is_none() => tracing::warn!(mail = mail.id, "mail held back by MAIL_DAILY_LIMIT"),
        Outcome::SetAside => tracing::error!(mail = mail.id, "mail set aside; see doorpost outbox list"),
        _ => {}
    }
}
