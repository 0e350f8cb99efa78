//! Whether mail is leaving: what the pages, `/ready` and the workers go by.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::fault::{Fault, SendError};
use crate::clock::Micros;

/// Pauses between probes while no mail can leave, in seconds; the last one repeats.
const PROBES: [Micros; 5] = [5, 10, 20, 40, 60];

/// What is known of the way out.
#[derive(Debug, Default)]
pub struct Health {
    state: Mutex<State>,
    /// The mail that waits the longest waits too long.
    late: AtomicBool,
    /// Late or paused: one look for each page.
    delayed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    pause: Option<Pause>,
    /// Why the mail server couldn't be reached the last time.
    unreachable: Option<String>,
    spent: bool,
}

/// No mail leaves until the operator has changed something.
#[derive(Debug)]
struct Pause {
    reason: String,
    probe_at: Micros,
    probes: usize,
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
        match &mut self.state().pause {
            None => Turn::Send,
            Some(pause) if now >= pause.probe_at => {
                pause.probe_at = now + patience;
                Turn::Probe
            }
            Some(_) => Turn::Wait,
        }
    }

    /// The server took a mail, or would have.
    pub fn well(&self) {
        let mut state = self.state();
        state.unreachable = None;
        if state.pause.take().is_some() {
            self.settle(&state);
            tracing::info!("mail leaves again");
        }
    }

    /// A try failed, and not for the mail's own sake.
    pub fn ill(&self, error: &SendError, now: Micros) {
        let mut state = self.state();
        let told = match error.advice() {
            Some(advice) => format!("{error}; {advice}"),
            None => error.to_string(),
        };
        match error.fault {
            Fault::Operator => {
                let probes = state.pause.as_ref().map_or(0, |pause| pause.probes + 1);
                let wait = PROBES[probes.min(PROBES.len() - 1)];
                tracing::error!("NO MAIL LEAVES: {told}. Nothing is lost; next look in {wait} s");
                state.pause = Some(Pause { reason: told, probe_at: now + wait * 1_000_000, probes });
                self.settle(&state);
            }
            Fault::Unreachable => {
                if state.unreachable.is_none() {
                    tracing::error!("the mail server can't be reached: {told}. Nothing is lost; mails wait");
                }
                state.unreachable = Some(told);
            }
            _ => state.unreachable = None,
        }
    }

    /// Whether the mail that waits the longest waits too long.
    pub fn late(&self, late: bool) {
        self.late.store(late, Ordering::Relaxed);
        self.settle(&self.state());
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
        let paused = state.pause.as_ref().map(|pause| pause.reason.clone());
        let spent = state.spent.then(|| "MAIL_DAILY_LIMIT is reached".to_owned());
        let late = self.late.load(Ordering::Relaxed).then(|| "a mail has waited for more than 60 s".to_owned());
        paused.into_iter().chain(state.unreachable.clone()).chain(spent).chain(late).collect()
    }

    fn settle(&self, state: &State) {
        self.delayed.store(state.pause.is_some() || self.late.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
