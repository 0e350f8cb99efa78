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

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::client_ip::Network;
use crate::clock::{Clock, Micros};
use crate::config::ThrottleConfig;
use crate::domain::email::Email;
use crate::telemetry::{self, Metrics};
use breaker::Breaker;
pub use counter::{Counter, Hit, Refusal};
pub use key::{Key, Keys};
use log::Verdict;
use memory::Memory;

/// The most a request may lose to a counter store that doesn't answer.
const STORE_TIMEOUT: Duration = Duration::from_millis(300);
/// What a remembered denial takes in moka.
const DENIAL_BYTES: u64 = 400;

/// Counters outside this process, shared by every replica.
pub trait SharedCounters: Send + Sync {
    /// Settles the hits in order; each only if the one before was allowed. One verdict a hit asked.
    fn settle<'a>(&'a self, hits: &'a [Hit]) -> StoreAnswer<'a>;
    /// A label of `doorpost_throttle_store_failures_total`.
    fn name(&self) -> &'static str;
}

/// What a shared store answers, some time.
pub type StoreAnswer<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Verdict>, Box<dyn fmt::Display + Send>>> + Send + 'a>>;

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
    shared: Option<Arc<dyn SharedCounters>>,
    breaker: Breaker,
    /// Since a refused hit leaves no trace, a denial holds until its instant: it is answered from
    /// here, and a flood never reaches either store.
    denials: Cache<(Counter, Key), Micros>,
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
        let denials = Cache::builder()
            .max_capacity(bytes / 100 * 10 / DENIAL_BYTES)
            .eviction_policy(EvictionPolicy::lru())
            .build();
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
            shared,
            breaker: Breaker::default(),
            denials,
        }
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whether a flooding network's refusal still holds: known from memory alone, before anything is
    /// read of what it sent. Only the first counter's: a request that a later one refuses still spends
    /// those before it.
    pub fn still_refused(&self, client: (Network, Key)) -> Result<(), Refusal> {
        let [burst, _] = self.ip_hits(client);
        let refused = self.denied(&burst, self.clock.monotonic());
        refused.map_or(Ok(()), |refusal| {
            self.decided[burst.counter as usize].deny.inc();
            Err(refusal)
        })
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
    /// burn somebody else's tries from elsewhere. Without an inbox all of a network's count together.
    pub async fn code(&self, client: (Network, Key), email: Option<&Email>) -> Result<(), Refusal> {
        self.settle(&[Hit::new(Counter::Code, self.keys.code(client.0, email), self.config.code)]).await
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
        let now = self.clock.monotonic();
        // The counters of this process say the same as fast.
        let remembering = if self.shared.is_some() { hits } else { &[] };
        let remembered = remembering.iter().enumerate().find_map(|(at, hit)| Some((at, self.denied(hit, now)?)));
        // The counters before the remembered one still count this request; those behind it don't.
        let open = &hits[..remembered.as_ref().map_or(hits.len(), |(at, _)| *at)];
        let verdict = self.count(open, now).await.and(match remembered {
            Some((_, refusal)) => Err(refusal),
            None => Ok(()),
        });
        self.record(open, &verdict);
        verdict
    }

    fn denied(&self, hit: &Hit, now: Micros) -> Option<Refusal> {
        let until = self.denials.get(&(hit.counter, hit.key))?;
        let left = until.checked_sub(now).filter(|left| *left > 0)?;
        Some(Refusal::new(hit, Duration::from_micros(left)))
    }

    /// Asks the shared store if there is one and it is well, else the counters of this process.
    async fn count(&self, hits: &[Hit], now: Micros) -> Result<(), Refusal> {
        if hits.is_empty() {
            return Ok(());
        }
        if let Some(shared) = &self.shared
            && self.breaker.admits(now)
        {
            match tokio::time::timeout(STORE_TIMEOUT, shared.settle(hits)).await {
                Ok(Ok(verdicts)) => {
                    self.breaker.succeeded();
                    return self.judge(hits, verdicts.into_iter(), now);
                }
                Ok(Err(error)) => self.store_failed(shared.name(), &error),
                Err(_) => self.store_failed(shared.name(), &"no answer within 300 ms"),
            }
            self.breaker.failed(now);
        }
        let verdicts = hits.iter().map_while(|hit| match self.memory.hit(hit, now) {
            Ok(verdict) => Some(verdict),
            Err(memory::Poisoned) => {
                // It fails open: the link is the only door.
                self.store_failed("memory", &"a lock was poisoned");
                Some(Verdict::Allow { count: 0 })
            }
        });
        self.judge(hits, verdicts, now)
    }

    /// The first refusal, remembered.
    fn judge(&self, hits: &[Hit], verdicts: impl Iterator<Item = Verdict>, now: Micros) -> Result<(), Refusal> {
        for (hit, verdict) in hits.iter().zip(verdicts) {
            if let Verdict::Deny { retry_after } = verdict {
                let until = now + retry_after.as_micros() as Micros;
                self.denials.insert((hit.counter, hit.key), until);
                return Err(Refusal::new(hit, retry_after));
            }
        }
        Ok(())
    }

    fn store_failed(&self, store: &'static str, error: &dyn fmt::Display) {
        self.metrics.store_failed(store);
        tracing::error!(store, %error, "a counter failed; the request is allowed by the next one");
    }

    fn record(&self, open: &[Hit], verdict: &Result<(), Refusal>) {
        let refused = verdict.as_ref().err().map(|refusal| refusal.counter);
        for hit in open.iter().take_while(|hit| Some(hit.counter) != refused) {
            self.decided[hit.counter as usize].allow.inc();
        }
        if let Some(counter) = refused {
            self.decided[counter as usize].deny.inc();
        }
    }
}
