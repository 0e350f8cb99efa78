//! What is counted, one question to it, and its refusal.

use std::time::Duration;

use super::Key;
use crate::config::{Ceiling, ThrottleConfig};

/// The counters, in the order in which a request for a link meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    IpBurst,
    IpHourly,
    Email,
    Code,
    Anonymous,
}

impl Counter {
    pub const ALL: [Self; 5] = [Self::IpBurst, Self::IpHourly, Self::Email, Self::Code, Self::Anonymous];

    pub fn name(self) -> &'static str {
        match self {
            Self::IpBurst => "auth_ip_burst",
            Self::IpHourly => "auth_ip_hourly",
            Self::Email => "auth_email",
            Self::Code => "auth_code",
            Self::Anonymous => "anonymous",
        }
    }

    /// What was counted, as the refusal says it.
    pub fn scope(self) -> &'static str {
        match self {
            Self::Email | Self::Code => "email",
            Self::IpBurst | Self::IpHourly | Self::Anonymous => "ip",
        }
    }

    /// Whether replicas that share counters share this one: what is spent on a stranger's behalf, and what
    /// could be guessed. The rest only keeps the process itself from being overrun.
    pub(super) fn is_shared(self) -> bool {
        self != Self::Anonymous
    }

    /// Its share of `THROTTLE_MEMORY_MIB`; the rest is for remembered denials.
    pub(super) fn memory_percent(self) -> u64 {
        match self {
            Self::IpBurst | Self::IpHourly | Self::Anonymous => 17,
            Self::Email => 25,
            Self::Code => 14,
        }
    }

    /// Its ceiling for an ordinary client; none when it is off.
    pub(super) fn ceiling(self, config: &ThrottleConfig) -> Option<Ceiling> {
        match self {
            Self::IpBurst => Some(config.ip_burst),
            Self::IpHourly => Some(config.ip_hourly),
            Self::Email => Some(config.email),
            Self::Code => Some(config.code),
            Self::Anonymous => config.anonymous,
        }
    }
}

/// One question to a counter.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    pub counter: Counter,
    pub key: Key,
    pub window: Duration,
    pub limit: u32,
}

impl Hit {
    pub(super) fn new(counter: Counter, key: Key, ceiling: Ceiling) -> Self {
        Self { counter, key, window: ceiling.window, limit: ceiling.limit }
    }
}

/// A counter refused: what a person and a program are told. Never the count or the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub counter: Counter,
    pub limit: u32,
    pub window: Duration,
    pub retry_after: Duration,
}

impl Refusal {
    pub(super) fn new(hit: &Hit, retry_after: Duration) -> Self {
        Self { counter: hit.counter, limit: hit.limit, window: hit.window, retry_after }
    }

    /// Whole seconds, rounded up, at least 1.
    pub fn retry_after_seconds(&self) -> u64 {
        self.retry_after.as_micros().div_ceil(1_000_000).max(1) as u64
    }

    /// Whole minutes, rounded up.
    pub fn retry_after_minutes(&self) -> u64 {
        self.retry_after_seconds().div_ceil(60)
    }
}
