//! Counters outside this process, and what keeps a flood away from them and their failures away from
//! requests: remembered denials, turns, and a fuse.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::breaker::Breaker;
use super::log::Verdict;
use super::{Counter, Hit, Key, Refusal, Refused};
use crate::clock::Micros;

/// The most a request may lose to a counter store that doesn't answer.
const TIMEOUT: Duration = Duration::from_millis(300);
/// What a remembered denial takes in moka.
const DENIAL_BYTES: u64 = 400;
/// Keys whose requests take turns at most. One more, and two requests for a key may ask the store at once,
/// which it settles all the same.
const TURNS: u64 = 10_000;

/// Counters that every replica shares.
pub trait SharedCounters: Send + Sync {
    /// Settles the hits in order; each only if the one before was allowed. One verdict a hit asked.
    fn settle<'a>(&'a self, hits: &'a [Hit]) -> Answer<'a, Vec<Verdict>>;
    /// Removes some of the counters in which nothing counts any more; how many.
    fn sweep(&self) -> Answer<'_, u64>;
    /// A label of `doorpost_throttle_store_failures_total`.
    fn name(&self) -> &'static str;
}

/// What a shared store answers, some time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;
/// Why it doesn't, in words for the log.
pub type Failure = Box<dyn fmt::Display + Send>;

/// The shared counters, guarded.
pub(super) struct Shared {
    pub store: Arc<dyn SharedCounters>,
    breaker: Breaker,
    /// Since a refused hit leaves no trace, a denial holds until its instant: it is answered from
    /// here, and a flood never reaches the store.
    denials: Cache<(Counter, Key), Micros>,
    turns: Cache<(Counter, Key), Arc<Mutex<()>>>,
}

impl Shared {
    /// Remembers denials in `bytes` at most.
    pub fn new(store: Arc<dyn SharedCounters>, bytes: u64) -> Self {
        let denials = Cache::builder().max_capacity(bytes / DENIAL_BYTES);
        let turns = Cache::builder().max_capacity(TURNS).time_to_idle(Duration::from_secs(60));
        Self {
            store,
            breaker: Breaker::default(),
            denials: denials.eviction_policy(EvictionPolicy::lru()).build(),
            turns: turns.eviction_policy(EvictionPolicy::lru()).build(),
        }
    }

    /// The first of the hits that is known to be refused, and its place.
    pub fn refused(&self, hits: &[Hit], now: Micros) -> Option<Refused> {
        hits.iter().enumerate().find_map(|(at, hit)| {
            let left = self.denials.get(&(hit.counter, hit.key))?.checked_sub(now).filter(|left| *left > 0)?;
            Some((at, Refusal::new(hit, Duration::from_micros(left))))
        })
    }

    pub fn remember(&self, refusal: &Refusal, key: Key, now: Micros) {
        self.denials.insert((refusal.counter, key), now + refusal.retry_after.as_micros() as Micros);
    }

    /// Waits for those who hit the same keys before. So a stampede on a key keeps its order and asks the store
    /// once more than its ceiling allows, instead of queueing there until the store seems to fail. Held in the
    /// order of the counters, so that nobody waits in a circle.
    pub async fn turn(&self, hits: &[Hit]) -> Vec<OwnedMutexGuard<()>> {
        let mut held = Vec::with_capacity(hits.len());
        for hit in hits {
            held.push(self.turns.get_with((hit.counter, hit.key), Default::default).lock_owned().await);
        }
        held
    }

    /// What the store says, in time; none while it is left alone after a failure.
    pub async fn ask(&self, hits: &[Hit], now: Micros) -> Option<Result<Vec<Verdict>, Failure>> {
        if !self.breaker.admits(now) {
            return None;
        }
        let answer = tokio::time::timeout(TIMEOUT, self.store.settle(hits)).await;
        let answer = answer.unwrap_or_else(|_| Err(Box::new("no answer within 300 ms")));
        match answer {
            Ok(_) => self.breaker.succeeded(),
            Err(_) => self.breaker.failed(now),
        }
        Some(answer)
    }
}
