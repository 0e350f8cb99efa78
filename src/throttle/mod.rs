//! The throttle: three shared counters in their order, and one for everything else anonymous.
//!
//! The threat is spending: a stranger can spend a victim's inbox and the mail quota. So every
//! ceiling is an exact sliding window, a refusal is not recorded, and a counter that fails lets
//! people in, since the link is the only door.

mod breaker;
mod counter;
mod key;
pub mod log;
pub mod memory;
pub mod postgres;
mod shared;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client_ip::Network;
use crate::clock::{Clock, Micros};
use crate::config::ThrottleConfig;
use crate::domain::email::Email;
use crate::telemetry::{self, Metrics};
pub use counter::{Counter, Hit, Refusal};
pub use key::{Key, Keys};
use log::Verdict;
use memory::Memory;
use shared::Shared;
pub use shared::{Answer, Failure, SharedCounters};

/// How often a counter allowed and refused.
struct Decided {
    allow: telemetry::Counter,
    deny: telemetry::Counter,
}

/// Who may ask for what, and when again.
pub struct Throttle {
    config: ThrottleConfig,
    keys: Keys,
    clock: Clock,
    metrics: Arc<Metrics>,
    decided: [Decided; Counter::ALL.len()],
    memory: Memory,
    shared: Option<Shared>,
}

impl Throttle {
    /// `shared` is where the counters live; without it they live in this process, which also
    /// stands in whenever `shared` fails.
    pub fn new(
        config: &ThrottleConfig,
        clock: Clock,
        metrics: Arc<Metrics>,
        shared: Option<Arc<dyn SharedCounters>>,
    ) -> Self {
        let bytes = config.memory_mib * 1024 * 1024;
        let longest = |counter: Counter| counter.ceiling(config).map_or(Duration::from_secs(1), |c| c.window);
        Self {
            keys: Keys::new(config.key_secret.as_ref()),
            memory: Memory::new(bytes, longest),
            config: config.clone(),
            clock,
            decided: Counter::ALL.map(|counter| Decided {
                allow: metrics.decisions(counter.name(), "allow"),
                deny: metrics.decisions(counter.name(), "deny"),
            }),
            metrics,
            shared: shared.map(|store| Shared::new(store, bytes / 100 * 10)),
        }
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whether a flooding network's refusal still holds: known from memory alone, before anything is
    /// read of what it sent. Only the first counter's: a request that a later one refuses still spends
    /// those before it.
    pub fn still_refused(&self, client: (Network, Key)) -> Result<(), Refusal> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let [burst, _] = self.ip_hits(client);
        match shared.refused(&[burst], self.clock.monotonic()) {
            None => Ok(()),
            refused => self.decide(&[burst], refused),
        }
    }

    /// A request for a link: burst, hourly, then the inbox if the address could be read.
    pub async fn ask(&self, client: (Network, Key), email: Option<&Email>) -> Result<(), Refusal> {
        let [burst, hourly] = self.ip_hits(client);
        match email {
            // Junk is still abuse: it spends the network's counters.
            None => self.settle(&[burst, hourly]).await,
            Some(email) => {
                let inbox = Hit::new(Counter::Email, self.keys.inbox(email), self.config.email);
                self.settle(&[burst, hourly, inbox]).await
            }
        }
    }

    /// A typed code, whether or not there is an account: per inbox and client network, so that nobody can
    /// burn somebody else's tries from elsewhere. For every inbox that the browser has asked for, since the code
    /// may be of any; without one all of a network's count together.
    pub async fn code(&self, client: (Network, Key), inboxes: &[String]) -> Result<(), Refusal> {
        let none = [String::new()];
        let inboxes = if inboxes.is_empty() { &none } else { inboxes };
        let mut keys: Vec<_> = inboxes.iter().map(|inbox| self.keys.code(client.0, inbox)).collect();
        // In one order, so that nobody waits in a circle.
        keys.sort_unstable();
        let hits: Vec<_> = keys.into_iter().map(|key| Hit::new(Counter::Code, key, self.config.code)).collect();
        self.settle(&hits).await
    }

    /// Any other request without a live session.
    pub async fn anonymous(&self, key: Key) -> Result<(), Refusal> {
        match self.config.anonymous {
            Some(ceiling) => self.settle(&[Hit::new(Counter::Anonymous, key, ceiling)]).await,
            None => Ok(()),
        }
    }

    /// Burst and hourly of this network, whose own limits, the most specific first, come before the
    /// common ones.
    fn ip_hits(&self, (network, key): (Network, Key)) -> [Hit; 2] {
        let (mut burst, mut hourly) = (self.config.ip_burst, self.config.ip_hourly);
        let own = self.config.networks.iter().find(|(net, ..)| net.contains(&network.address()));
        if let Some((_, own_burst, own_hourly)) = own {
            (burst.limit, hourly.limit) = (*own_burst, *own_hourly);
        }
        [Hit::new(Counter::IpBurst, key, burst), Hit::new(Counter::IpHourly, key, hourly)]
    }

    async fn settle(&self, hits: &[Hit]) -> Result<(), Refusal> {
        if !self.config.enabled {
            return Ok(());
        }
        let refused = match &self.shared {
            Some(shared) if hits.iter().all(|hit| hit.counter.is_shared()) => self.settle_by(shared, hits).await,
            _ => self.settle_here(hits, self.clock.monotonic()),
        };
        self.decide(hits, refused)
    }

    /// By the counters of this process.
    fn settle_here(&self, hits: &[Hit], now: Micros) -> Option<Refused> {
        let verdicts = hits.iter().map(|hit| match self.memory.hit(hit, now) {
            Ok(verdict) => verdict,
            Err(memory::Poisoned) => {
                // It fails open: the link is the only door.
                self.store_failed("memory", &"a lock was poisoned");
                Verdict::Allow { count: 0 }
            }
        });
        first_refused(hits, verdicts)
    }

    /// By the counters that replicas share, where nothing is remembered and they are well.
    async fn settle_by(&self, shared: &Shared, hits: &[Hit]) -> Option<Refused> {
        // A flood on one key ends here.
        let known = shared.refused(hits, self.clock.monotonic());
        let mut turn = shared.turn(&hits[..known.map_or(hits.len(), |(at, _)| at)]).await;
        let now = self.clock.monotonic();
        let remembered = [shared.refused(hits, now), known].into_iter().flatten().min_by_key(|(at, _)| *at);
        // The counters before the remembered one still count this request; those behind it don't, and nobody is
        // to wait there for what happens before.
        let open = &hits[..remembered.map_or(hits.len(), |(at, _)| at)];
        turn.truncate(open.len());
        let Some((at, refusal)) = self.ask_shared(shared, open, now).await else { return remembered };
        shared.remember(&refusal, open[at].key, now);
        Some((at, refusal))
    }

    async fn ask_shared(&self, shared: &Shared, hits: &[Hit], now: Micros) -> Option<Refused> {
        if hits.is_empty() {
            return None;
        }
        match shared.ask(hits, now).await {
            Some(Ok(verdicts)) => return first_refused(hits, verdicts.into_iter()),
            Some(Err(error)) => self.store_failed(shared.store.name(), &error),
            None => {}
        }
        self.settle_here(hits, now)
    }

    /// Counts what was decided: the hits before a refused one were allowed, and those behind it not asked.
    fn decide(&self, hits: &[Hit], refused: Option<Refused>) -> Result<(), Refusal> {
        let of = |hit: &Hit| &self.decided[hit.counter as usize];
        let allowed = refused.map_or(hits.len(), |(at, _)| at);
        for hit in &hits[..allowed] {
            of(hit).allow.inc();
        }
        refused.map_or(Ok(()), |(at, refusal)| {
            of(&hits[at]).deny.inc();
            Err(refusal)
        })
    }

    /// Removes some of the shared counters in which nothing counts any more; how many.
    pub async fn sweep(&self) -> Result<u64, Failure> {
        match &self.shared {
            Some(shared) => shared.store.sweep().await,
            None => Ok(0),
        }
    }

    fn store_failed(&self, store: &'static str, error: &dyn fmt::Display) {
        self.metrics.store_failed(store);
        tracing::error!(store, %error, "a counter failed; the request is allowed by the next one");
    }
}

/// A refusal, and the place of its hit among those that were asked about.
type Refused = (usize, Refusal);

/// The first that was refused; nobody is asked about those behind it.
fn first_refused(hits: &[Hit], verdicts: impl Iterator<Item = Verdict>) -> Option<Refused> {
    hits.iter().zip(verdicts).enumerate().find_map(|(at, (hit, verdict))| match verdict {
        Verdict::Allow { .. } => None,
        Verdict::Deny { retry_after } => Some((at, Refusal::new(hit, retry_after))),
    })
}
