//! What is limited, and how far.

use std::time::Duration;

use ipnet::IpNet;

use super::Hidden;

/// The mail plan's quota in any 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DailyLimit {
    pub mails: i64,
    /// How many of them, the last ones, are for addresses that have an account.
    pub reserve: i64,
}

impl DailyLimit {
    /// How many mails may have left before one to such an address.
    pub fn ceiling(self, has_account: bool) -> i64 {
        if has_account { self.mails } else { self.mails - self.reserve }
    }
}

/// The ceilings of the contract's section 2.
#[derive(Clone, Debug)]
pub struct ThrottleConfig {
    pub enabled: bool,
    /// Whether the counters live in PostgreSQL, shared by all replicas, and not in this process.
    pub shared: bool,
    pub ip_burst: Ceiling,
    pub ip_hourly: Ceiling,
    pub email: Ceiling,
    pub code: Ceiling,
    pub anonymous: Option<Ceiling>,
    /// Shared networks with burst and hourly limits of their own, the most specific first.
    pub networks: Vec<(IpNet, u32, u32)>,
    pub key_secret: Option<Hidden>,
    pub ipv6_prefix: u8,
    pub memory_mib: u64,
}

impl ThrottleConfig {
    /// How far any of the counters that replicas may share looks back.
    pub fn longest_shared(&self) -> Duration {
        [self.ip_burst, self.ip_hourly, self.email, self.code]
            .map(|ceiling| ceiling.window)
            .into_iter()
            .max()
            .unwrap_or_default()
    }

    pub(super) fn check_whole(&self, problems: &mut Vec<String>) {
        for (network, ..) in &self.networks {
            if network.addr().is_ipv6() && network.prefix_len() > self.ipv6_prefix {
                problems.push(format!("THROTTLE_NETWORKS: {network} is smaller than THROTTLE_IPV6_PREFIX counts"));
            }
        }
    }

    /// The highest limit and the memory to count up to it, if that is more than there is: a log of that
    /// many instants must be a small part of the room it lives in, or it is forgotten too soon.
    pub fn too_high(&self) -> Option<(u32, u64)> {
        let limits = [self.ip_burst.limit, self.ip_hourly.limit, self.email.limit, self.code.limit];
        let limits = limits.into_iter().chain(self.anonymous.map(|ceiling| ceiling.limit));
        let highest = limits.chain(self.networks.iter().flat_map(|(_, burst, hourly)| [*burst, *hourly])).max()?;
        let needed = u64::from(highest.next_power_of_two()) * 8 * 50 / (1024 * 1024);
        (needed > self.memory_mib).then_some((highest, needed))
    }
}

/// At most `limit` hits in any `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    pub limit: u32,
    pub window: Duration,
}
