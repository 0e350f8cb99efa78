//! What became of the mails of a batch, written down: each as soon as it is known, and those for whom
//! nothing left together.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::outcome::Outcome;
use crate::app::App;
use crate::store::outbox::QueuedMail;

/// Mails of a batch that have left and wait for their mark at most, beside as many whose mark is on its way
/// to the disk: a crash mails them again, and a disk that is slow must not make them many. With fewer, most of a
/// cohort's time goes into commits.
const UNMARKED: usize = 16;
/// How often a mark is tried, and how long it waits in between. Whatever has left and isn't marked when its
/// lease ends leaves again, with the same Message-ID.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);

/// What is being written down, by all workers together. Cheap to clone.
#[derive(Clone, Default)]
pub struct Writing {
    /// Batches and their marks: in tasks of their own, which nothing that happens to a worker cuts off.
    pub tasks: TaskTracker,
    /// Mails that have left and aren't marked: whatever happens, they aren't given back.
    left: Arc<Mutex<HashSet<String>>>,
}

impl Writing {
    /// From the moment in which the server has taken it.
    pub fn has_left(&self, mail: &QueuedMail) {
        self.lock().insert(mail.id.clone());
    }

    pub fn all_that_left(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn marked(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The marks of a batch.
pub struct Marks {
    app: Arc<App>,
    writing: Writing,
    /// Mails that have left: while one mark is on its way to the disk the next gathers.
    sent: mpsc::Sender<Ended>,
    writer: JoinHandle<()>,
    others: Vec<JoinHandle<()>>,
    /// What nothing is known to be said of but that it didn't leave.
    gathered: Vec<Ended>,
}

type Ended = (QueuedMail, Outcome);

impl Marks {
    pub fn new(app: &Arc<App>, writing: &Writing) -> Self {
        let (sent, ended) = mpsc::channel(UNMARKED);
        let writer = writing.tasks.spawn(write_down(app.clone(), writing.clone(), ended));
        Self { app: app.clone(), writing: writing.clone(), sent, writer, others: Vec::new(), gathered: Vec::new() }
    }

    /// Writes down what became of one mail, or gathers it.
    pub async fn make(&mut self, mail: QueuedMail, outcome: Outcome) {
        match outcome {
            Outcome::Dropped | Outcome::Expired | Outcome::GivenBack => self.gathered.push((mail, outcome)),
            // At once, since the next mail may be stuck for long. If the writer panicked, it is tried again.
            Outcome::Sent => drop(self.sent.send((mail, outcome)).await),
            _ => self.mark(vec![(mail, outcome)]),
        }
    }

    /// Returns once all is written down.
    pub async fn finish(mut self) {
        for outcome in [Outcome::Dropped, Outcome::Expired, Outcome::GivenBack] {
            let (these, others) = self.gathered.drain(..).partition(|(_, became)| *became == outcome);
            self.gathered = others;
            self.mark(these);
        }
        drop(self.sent);
        self.others.push(self.writer);
        for mark in self.others {
            // A mark that panicked is a mail that is tried again.
            let _ = mark.await;
        }
    }

    fn mark(&mut self, mails: Vec<Ended>) {
        self.others.push(self.writing.tasks.spawn(mark(self.app.clone(), self.writing.clone(), mails)));
    }
}

async fn write_down(app: Arc<App>, writing: Writing, mut ended: mpsc::Receiver<Ended>) {
    let mut mails = Vec::with_capacity(UNMARKED);
    while ended.recv_many(&mut mails, UNMARKED).await > 0 {
        mark(app.clone(), writing.clone(), std::mem::take(&mut mails)).await;
    }
}

/// Writes down one fate that mails share, if their lease still holds.
async fn mark(app: Arc<App>, writing: Writing, ended: Vec<Ended>) {
    let now = app.clock.now();
    let Some((first, outcome)) = ended.first() else { return };
    let (id, fate) = (first.id.clone(), outcome.fate(first, now));
    // The place under the daily limit of what the server certainly didn't take.
    let frees = app.config.daily_limit.is_some() && outcome.is_not_taken();
    let mails: Vec<_> = ended.iter().map(|(mail, _)| mail).collect();
    for left in (0..TRIES).rev() {
        match app.store.mark(&mails, fate, frees).await {
            Ok(marked) => return noted(&app, &writing, ended, &marked),
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

fn noted(app: &App, writing: &Writing, ended: Vec<Ended>, marked: &[String]) {
    for (mail, outcome) in ended {
        writing.marked(&mail.id);
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
