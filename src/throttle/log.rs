//! The exact sliding window: the instants of the allowed hits, and nothing else. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Micros;

/// What a counter says to one hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allowed and recorded; `count` hits are now inside the window.
    Allow { count: u32 },
    /// Refused and not recorded; a hit exactly `retry_after` later is allowed.
    Deny { retry_after: Duration },
}

/// The last allowed hits of one key, oldest first, at most `limit` of them.
#[derive(Debug, Default)]
pub struct HitLog {
    hits: VecDeque<Micros>,
}

impl HitLog {
    /// Decides one hit at `now`. A hit at `t` counts during `[t, t + window)`, so that no window of
    /// that length ever holds more than `limit` allowed hits.
    ///
    /// # Panics
    /// When `limit` is 0, which the settings refuse.
    pub fn hit(&mut self, now: Micros, window: Duration, limit: u32) -> Verdict {
        let (window, limit) = (window.as_micros() as Micros, limit as usize);
        // Requests of two threads may arrive out of their order; time never goes back for a key.
        let at = self.hits.back().map_or(now, |newest| now.max(*newest));
        while self.hits.front().is_some_and(|oldest| oldest + window <= at) {
            self.hits.pop_front();
        }
        match self.hits.len().checked_sub(limit) {
            // Lock-out by hammering: a refused hit leaves no trace, so it can't move this instant.
            Some(first) => Verdict::Deny { retry_after: Duration::from_micros(self.hits[first] + window - now) },
            None => {
                self.hits.push_back(at);
                Verdict::Allow { count: self.hits.len() as u32 }
            }
        }
    }

    /// How many hits there is room for without growing: what this log weighs.
    pub fn capacity(&self) -> usize {
        self.hits.capacity()
    }

    /// How many hits it holds, those outside the window included until the next hit.
    pub fn len(&self) -> usize {
        self.hits.len()
    }

    pub fn is_empty(&self) -> bool {
        self.hits.is_empty()
    }
}
