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
            Some((_, refusal)) => {
                self.decided[burst.counter as usize].deny.inc();
                Err(refusal)
            }
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
        match &self.shared {
            Some(shared) if hits.iter().all(|hit| hit.counter.is_shared()) => self.settle_by(shared, hits).await,
            _ => self.settle_here(hits, self.clock.monotonic()),
        }
    }

    /// By the counters of this process.
    fn settle_here(&self, hits: &[Hit], now: Micros) -> Result<(), Refusal> {
        let verdicts = hits.iter().map_while(|hit| match self.memory.hit(hit, now) {
            Ok(verdict) => Some(verdict),
            Err(memory::Poisoned) => {
                // It fails open: the link is the only door.
                self.store_failed("memory", &"a lock was poisoned");
                Some(Verdict::Allow { count: 0 })
            }
        });
        self.judge(hits, verdicts)
    }

    /// By the counters that replicas share, where nothing is remembered and they are well.
    async fn settle_by(&self, shared: &Shared, hits: &[Hit]) -> Result<(), Refusal> {
        // A flood on one key ends here.
        let known = shared.refused(hits, self.clock.monotonic());
        let mut turn = shared.turn(&hits[..known.map_or(hits.len(), |(at, _)| at)]).await;
        let now = self.clock.monotonic();
        let remembered = [shared.refused(hits, now), known].into_iter().flatten().min_by_key(|(at, _)| *at);
        // The counters before the remembered one still count this request; those behind it don't, and nobody is
        // to wait there for what happens before.
        let open = &hits[..remembered.map_or(hits.len(), |(at, _)| at)];
        turn.truncate(open.len());
        let counted = match open {
            [] => Ok(()),
            _ => match shared.ask(open, now).await {
                Some(Ok(verdicts)) => self.judge(open, verdicts.into_iter()),
                Some(Err(error)) => {
                    self.store_failed(shared.store.name(), &error);
                    self.settle_here(open, now)
                }
                None => self.settle_here(open, now),
            },
        };
        if let Err(refusal) = &counted
            && let Some(hit) = open.iter().find(|hit| hit.counter == refusal.counter)
        {
            shared.remember(refusal, hit.key, now);
        }
        counted.and_then(|()| match remembered {
            Some((at, refusal)) => self.deny(&hits[at], refusal),
            None => Ok(()),
        })
    }

    /// Counts the verdicts; the first refusal.
    fn judge(&self, hits: &[Hit], verdicts: impl Iterator<Item = Verdict>) -> Result<(), Refusal> {
        for (hit, verdict) in hits.iter().zip(verdicts) {
            match verdict {
                Verdict::Allow { .. } => self.decided[hit.counter as usize].allow.inc(),
                Verdict::Deny { retry_after } => return self.deny(hit, Refusal::new(hit, retry_after)),
            };
        }
        Ok(())
    }

    fn deny(&self, hit: &Hit, refusal: Refusal) -> Result<(), Refusal> {
        self.decided[hit.counter as usize].deny.inc();
        Err(refusal)
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
