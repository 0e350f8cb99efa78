//! Whether mail is leaving: what the pages, `/ready` and the workers go by.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fault::{Fault, SendError};
use crate::clock::Micros;

/// Pauses between looks while no mail can leave, in seconds; the last one repeats.
const LOOKS: [Micros; 5] = [5, 10, 20, 40, 60];
/// Different mails that the server puts off without taking one before it is no longer their own affair.
const MANY: usize = 3;
/// For how long mail may fail to leave before the pages say so.
const LATE: Duration = Duration::from_secs(60);

/// What is known of the way out.
#[derive(Debug, Default)]
pub struct Health {
    state: Mutex<State>,
    /// Late or paused: one look for each page.
    delayed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Why no mail leaves until the operator has changed something.
    pause: Option<String>,
    /// Why the mail server couldn't be reached the last time.
    unreachable: Option<String>,
    /// Since when no try has come to anything.
    failing_since: Option<Micros>,
    /// The next look, and how many have failed since a mail left.
    look_at: Micros,
    looks: usize,
    /// Different mails that the server put off since it took one.
    put_off: Vec<String>,
    /// Different mails that it refused for good since then.
    refused: Vec<String>,
    late: bool,
    /// The last try failed where no look comes to.
    fails_late: bool,
    spent: bool,
}

/// What a worker may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Send,
    /// Find out whether it is mended; nobody else does meanwhile.
    Probe,
    Wait,
}

impl Health {
    /// Asked before each batch. A probe takes at most `patience`.
    pub fn turn(&self, now: Micros, patience: Micros) -> Turn {
        let mut state = self.state();
        let looking = state.pause.is_some() || state.failing_since.is_some() && state.put_off.len() < MANY;
        match state.pause {
            _ if looking && now >= state.look_at => {
                state.look_at = now + patience;
                Turn::Probe
            }
            Some(_) => Turn::Wait,
            None => Turn::Send,
        }
    }

    /// The server took a mail.
    pub fn took(&self) {
        self.state().refused.clear();
        self.answers();
    }

    /// The server refused this mail for good. Whether it has refused many since it took one: then it isn't for
    /// the mails' sake.
    pub fn refuses_all(&self, mail: &str) -> bool {
        let mut state = self.state();
        note(&mut state.refused, mail);
        state.refused.len() == MANY
    }

    /// The server took a mail, or refused it for its own sake. A pause stays: this connection may be older
    /// than what is wrong.
    pub fn answers(&self) {
        let mut state = self.state();
        state.put_off.clear();
        if state.pause.is_none() {
            state.begin_anew();
            state.looks = 0;
        }
    }

    /// A look found that mails could leave. Looks go on getting rarer until one does.
    pub fn mended(&self) {
        let mut state = self.state();
        let was_paused = state.pause.take().is_some();
        state.unreachable = None;
        // A look ends before a recipient is named: of what goes wrong behind it, it proves nothing.
        if state.put_off.len() < MANY && !state.fails_late {
            state.failing_since = None;
        }
        self.settle(&state);
        if was_paused {
            tracing::info!("mail leaves again");
        }
    }

    /// The server put this mail off, and perhaps not only this one.
    pub fn put_off(&self, mail: &str, now: Micros) {
        let mut state = self.state();
        state.unreachable = None;
        note(&mut state.put_off, mail);
        if state.put_off.len() == MANY {
            state.failing_since.get_or_insert(now);
        }
    }

    /// A look, or a try to mail, failed, and not for one mail's own sake.
    pub fn ill(&self, error: &SendError, now: Micros, looked: bool) {
        let mut state = self.state();
        let begins = state.failing_since.is_none();
        state.failing_since.get_or_insert(now);
        state.fails_late = !looked && !error.is_before_the_recipient();
        // The other workers meet with the same, which makes it no worse.
        let pauses = error.fault == Fault::Operator && (looked || state.pause.is_none());
        let wait = if begins || looked || pauses { state.look_later(now) } else { 0 };
        if pauses {
            let told = error.told();
            tracing::error!("NO MAIL LEAVES: {told}. Nothing is lost; next look in {wait} s");
            state.pause = Some(told);
            self.settle(&state);
        }
        let unreachable = (error.fault == Fault::Unreachable).then(|| error.told());
        if let (Some(told), None) = (&unreachable, &state.unreachable) {
            tracing::error!("the mail server can't be reached: {told}. Nothing is lost; mails wait");
        }
        state.unreachable = unreachable;
    }

    /// Takes note of how many mails wait that the daily limit doesn't hold back, and of how long the oldest that is due does.
    pub fn watch(&self, pending: i64, waiting: Duration, now: Micros) {
        let mut state = self.state();
        if pending == 0 && (state.put_off.len() == MANY || state.fails_late) {
            state.put_off.clear();
            state.begin_anew();
        }
        let failing = state.failing_since.map_or(0, |since| now.saturating_sub(since));
        state.late = waiting.max(Duration::from_micros(failing)) > LATE;
        self.settle(&state);
    }

    /// Whether the daily limit leaves no place at all.
    pub fn spent(&self, spent: bool) {
        self.state().spent = spent;
    }

    /// Whether no pause holds the mails back.
    pub fn is_well(&self) -> bool {
        self.state().pause.is_none()
    }

    /// Whether the pages say that mail is delayed.
    pub fn is_delayed(&self) -> bool {
        self.delayed.load(Ordering::Relaxed)
    }

    /// What is wrong, for `/ready`.
    pub fn reasons(&self) -> Vec<String> {
        let state = self.state();
        let spent = state.spent.then(|| "MAIL_DAILY_LIMIT is reached".to_owned());
        let late = state.late.then(|| "a mail has waited for more than 60 s".to_owned());
        state.pause.iter().chain(&state.unreachable).cloned().chain(spent).chain(late).collect()
    }

    fn settle(&self, state: &State) {
        self.delayed.store(state.pause.is_some() || state.late, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes one of the first [`MANY`].
fn note(mails: &mut Vec<String>, mail: &str) {
    if mails.len() < MANY && !mails.iter().any(|id| id == mail) {
        mails.push(mail.to_owned());
    }
}

impl State {
    fn begin_anew(&mut self) {
        self.unreachable = None;
        self.failing_since = None;
    }

    /// Puts the next look off; the seconds until then.
    fn look_later(&mut self, now: Micros) -> Micros {
        let wait = LOOKS[self.looks.min(LOOKS.len() - 1)];
        self.look_at = now + wait * 1_000_000;
        self.looks += 1;
        wait
    }
}
