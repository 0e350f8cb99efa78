//! What became of the mails of a batch, written down: each as soon as it is known, and those for whom
//! nothing left together.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::outcome::Outcome;
use super::plan::place_of;
use crate::app::App;
use crate::store::outbox::QueuedMail;

/// Marks of mails that have left under way at most, beside the next mail: a crash mails again what isn't
/// marked, and a disk that is slow must not make that many.
const UNMARKED: usize = 4;

/// The marks of a batch.
pub struct Marks {
    app: Arc<App>,
    /// Of mails that have left: in tasks of their own, which nothing that happens to the batch cuts off.
    sent: VecDeque<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    /// What is removed without having left.
    removed: Vec<(QueuedMail, Outcome)>,
}

impl Marks {
    pub fn new(app: &Arc<App>) -> Self {
        Self { app: app.clone(), sent: VecDeque::new(), others: vec![], removed: vec![] }
    }

    /// Writes down what became of one mail, or gathers it.
    pub async fn make(&mut self, mail: QueuedMail, outcome: Outcome) {
        match outcome {
            Outcome::Dropped | Outcome::Expired => self.removed.push((mail, outcome)),
            Outcome::Sent => {
                // At once: the next mail may be stuck for long.
                self.sent.push_back(self.mark(vec![(mail, outcome)]));
                if self.sent.len() > UNMARKED {
                    end(self.sent.pop_front()).await;
                }
            }
            _ => self.others.push(self.mark(vec![(mail, outcome)])),
        }
    }

    /// Returns once all is written down.
    pub async fn finish(mut self) {
        let removed = std::mem::take(&mut self.removed);
        self.others.push(self.mark(removed));
        end(self.sent.into_iter().chain(self.others)).await;
    }

    fn mark(&self, mails: Vec<(QueuedMail, Outcome)>) -> JoinHandle<()> {
        tokio::spawn(mark(self.app.clone(), mails))
    }
}

async fn end(marks: impl IntoIterator<Item = JoinHandle<()>>) {
    for mark in marks {
        // A mark that panicked is a mail that is tried again.
        let _ = mark.await;
    }
}

/// Writes down one fate that mails share, if their lease still holds.
async fn mark(app: Arc<App>, ended: Vec<(QueuedMail, Outcome)>) {
    let now = app.clock.now();
    let Some(fate) = ended.first().map(|(mail, outcome)| outcome.fate(mail, now)) else { return };
    for (mail, outcome) in &ended {
        free_place(&app, mail, *outcome).await;
    }
    let (mails, outcomes): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
    match app.store.mark(&mails, fate).await {
        Ok(true) => mails.iter().zip(outcomes).for_each(|(mail, outcome)| note(&app, mail, outcome)),
        Ok(false) => tracing::warn!(mail = mails[0].id, "the lease was lost to another worker; nothing marked"),
        Err(error) => {
            tracing::error!(mail = mails[0].id, %error, "can't be marked; it is tried again when its lease ends");
        }
    }
}

/// Gives the place under the daily limit back, where the server certainly didn't take the mail.
async fn free_place(app: &App, mail: &QueuedMail, outcome: Outcome) {
    let not_taken = matches!(outcome, Outcome::Later | Outcome::GivenBack | Outcome::Failed);
    if not_taken && app.config.daily_limit.is_some() {
        let freed = app.store.free_place(&place_of(mail)).await;
        freed.unwrap_or_else(|error| tracing::error!(mail = mail.id, %error, "it counts against the daily limit"));
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
