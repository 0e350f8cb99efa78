//! A batch of mails: claim, plan, mail, mark.

use std::sync::Arc;
use std::time::Duration;

use super::marks::{Marks, Writing};
use super::outcome::Outcome;
use super::plan::{Plan, Step, plan};
use crate::app::App;
use crate::clock::Millis;
use crate::mail::{Fault, Line, Mail, SendError, Turn};
use crate::store::StoreError;
use crate::store::outbox::{Claimed, QueuedMail};
use crate::store::users::Account;

/// Mails that one worker takes at once at most. Few enough that a log-in doesn't wait behind them.
const MOST: i64 = 64;
/// A batch that took less time may be twice as big the next time, and one that took more half.
const BRISK: u64 = 100_000;

/// What one worker keeps from batch to batch.
pub struct Postman {
    line: Line,
    most: i64,
    /// The last batch met with something that would stop the next mail as well.
    troubled: bool,
    /// What is being written down, though the batch may have been cut off.
    writing: Writing,
}

impl Default for Postman {
    fn default() -> Self {
        Self::new(Writing::default())
    }
}

impl Postman {
    /// What it writes down goes on in `writing`.
    pub fn new(writing: Writing) -> Self {
        Self { line: Line::default(), most: 1, troubled: false, writing }
    }

    /// Handles a batch of due mails; nothing when none is due or none may leave. Ends early, the rest
    /// given back, when `stopping` says so.
    pub async fn deliver(&mut self, app: &Arc<App>, stopping: impl Fn() -> bool) -> Result<Vec<Outcome>, StoreError> {
        if !may_send(app).await {
            return Ok(Vec::new());
        }
        let (started, claimed_at) = (app.clock.monotonic(), app.clock.now());
        let Claimed { mails, dropped } = app.store.claim(claimed_at, app.lease(), self.most).await?;
        let all = mails.len() as i64 == self.most;
        // A send begins only while the lease outlasts it.
        let last_start = claimed_at + app.config.mail_timeout.as_millis() as Millis;
        let hurried = || stopping() || app.clock.now() > last_start;
        app.metrics.mails(Outcome::DROPPED, dropped);
        let mut outcomes = vec![Outcome::Dropped; dropped as usize];
        outcomes.extend(self.work_off(app, plan(app, mails).await?, hurried).await);
        self.adapt(app.clock.monotonic() - started, all);
        Ok(outcomes)
    }

    /// Whether to wait a little before the next batch.
    pub fn is_troubled(&self) -> bool {
        self.troubled
    }

    /// Closes the connection if it is idle.
    pub async fn rest(&mut self, app: &App) {
        self.line.rest(app.clock.monotonic()).await;
    }

    /// Closes the connection.
    pub async fn close(&mut self) {
        self.line.close().await;
    }

    async fn work_off(&mut self, app: &Arc<App>, plans: Vec<Plan>, hurried: impl Fn() -> bool) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(plans.len());
        let mut marks = Marks::new(app, &self.writing);
        self.troubled = false;
        let mut plans = plans.into_iter().peekable();
        while let Some(Plan { mail, step }) = plans.next() {
            let outcome = match step {
                Step::End(outcome) => outcome,
                Step::Send(_) if self.troubled || hurried() => Outcome::GivenBack,
                Step::Send(letter) => self.send(app, &mail, *letter, plans.peek().and_then(Plan::letter)).await,
            };
            outcomes.push(outcome);
            marks.make(mail, outcome).await;
        }
        marks.finish().await;
        outcomes
    }

    async fn send(&mut self, app: &App, mail: &QueuedMail, letter: Mail, next: Option<&Mail>) -> Outcome {
        let started = app.clock.monotonic();
        let sent = app.mailer.send(&mut self.line, letter, next, started).await;
        app.metrics.smtp_took(Duration::from_micros(app.clock.monotonic() - started));
        match sent {
            Ok(()) => {
                self.writing.has_left(mail);
                app.health.took();
                tracing::info!(mail = mail.id, purpose = mail.purpose.text(), "mail sent");
                Outcome::Sent
            }
            Err(error) => {
                self.troubled = !error.is_about_the_mail();
                failed(app, mail, error)
            }
        }
    }

    fn adapt(&mut self, took: u64, all: bool) {
        self.most = match took {
            _ if self.troubled => 1,
            _ if took > BRISK => (self.most / 2).max(1),
            _ if all => (self.most * 2).min(MOST),
            _ => self.most,
        };
    }
}

/// Whether mails may leave now. While they may not, one worker at a time finds out whether it is mended.
async fn may_send(app: &App) -> bool {
    let patience = app.config.mail_timeout * 2;
    match app.health.turn(app.clock.monotonic(), patience.as_micros() as u64) {
        Turn::Send => true,
        Turn::Wait => false,
        Turn::Probe => probe(app).await,
    }
}

/// Whether a mail could leave, found out without one.
pub async fn probe(app: &App) -> bool {
    match app.mailer.probe().await {
        Ok(()) => app.health.mended(),
        Err(ref error) => app.health.ill(error, app.clock.monotonic(), true),
    }
    app.health.is_well()
}

fn failed(app: &App, mail: &QueuedMail, mut error: SendError) -> Outcome {
    let (id, tries, now) = (&mail.id, mail.tries, app.clock.monotonic());
    // Whoever registers a few addresses that nobody has must not have everybody told of a delay.
    let tells = error.fault != Fault::Mail || mail.account == Account::Active;
    // A refusal for good that meets one mail after the other isn't of the mails, whatever the server calls it:
    // "550 relaying denied" without a detailed code, or a provider's own rules at the end of the message.
    if error.fault == Fault::Mail && app.health.refuses_all(id) {
        error.fault = Fault::Sender;
    }
    match error.fault {
        Fault::Mail => app.health.answers(),
        _ if error.is_about_the_mail() => {
            if tells {
                app.health.put_off(id, now);
            }
        }
        _ => app.health.ill(&error, now, false),
    }
    match error.fault {
        Fault::Mail => {
            tracing::warn!(mail = id, reason = %error, "mail refused by the mail server for good");
            Outcome::Failed
        }
        Fault::Operator if error.is_before_the_recipient() => Outcome::GivenBack,
        // One mail that alone draws it must not stand in front of all others for good.
        Fault::Operator => Outcome::Later,
        Fault::Sender => {
            tracing::error!(mail = id, tries, "mail refused, but perhaps not for good: {}", error.told());
            Outcome::Later
        }
        fault => {
            tracing::warn!(mail = id, tries, reason = %error, "mail not sent; trying again");
            if fault == Fault::Unsure { Outcome::Unsure } else { Outcome::Later }
        }
    }
}
