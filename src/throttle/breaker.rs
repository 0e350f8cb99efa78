//! A fuse before a store that may fail: while it is open, nobody waits for the store.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Micros;

/// How long the store is left alone after a failure.
const OPEN: Micros = 1_000_000;

/// Closed until the first failure; then one caller a second may try the store.
#[derive(Debug, Default)]
pub struct Breaker {
    /// When the next try is due; 0 while closed.
    retry_at: AtomicU64,
}

impl Breaker {
    /// Whether this caller may ask the store now. While the fuse is open that is one a second.
    pub fn admits(&self, now: Micros) -> bool {
        let retry_at = self.retry_at.load(Ordering::Acquire);
        retry_at == 0
            || now >= retry_at
                && self.retry_at.compare_exchange(retry_at, now + OPEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub fn failed(&self, now: Micros) {
        self.retry_at.store(now + OPEN, Ordering::Release);
    }

    pub fn succeeded(&self) {
        self.retry_at.store(0, Ordering::Release);
    }
}
