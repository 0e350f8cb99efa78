//! Environment to a typed [`Config`], checked once at the start: every problem at once, one line each.

mod limits;
pub mod settings;
pub mod smtp_url;
mod sources;
pub mod values;

use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use lettre::message::Mailbox;
use url::Url;

use crate::domain::host::HostPattern;
pub use limits::{Ceiling, DailyLimit, ThrottleConfig};
use smtp_url::SmtpUrl;
use sources::Sources;
pub use values::{Bind, Hidden};

/// What the operator decided. Secrets in it never print.
#[derive(Clone, Debug)]
pub struct Config {
    pub bind: Bind,
    pub admin_bind: Option<Bind>,
    pub base_url: Url,
    pub database_url: Hidden,
    pub smtp: Option<SmtpUrl>,
    pub mail_from: Mailbox,
    pub mail_reply_to: Option<Mailbox>,
    pub mail_concurrency: usize,
    pub mail_timeout: Duration,
    pub daily_limit: Option<DailyLimit>,
    pub app_name: String,
    pub support_email: Option<String>,
    pub registration_open: bool,
    /// Mail domains that may register; empty for all.
    pub registration_domains: Vec<HostPattern>,
    pub link_lifetime: Duration,
    pub session_lifetime: Duration,
    pub session_idle: Duration,
    pub cookie_domain: Option<String>,
    pub return_hosts: Vec<HostPattern>,
    pub throttle: ThrottleConfig,
    pub trusted_proxies: Vec<IpNet>,
    pub trusted_proxy_hops: usize,
    pub log_json: bool,
    pub log_filter: String,
}

impl Config {
    /// Reads and checks every setting. The error is all that is wrong, one line each.
    pub fn load(environment: impl Iterator<Item = (String, String)>, folder: &Path) -> Result<Self, Vec<String>> {
        let mut reader = Reader(Sources::read(environment, folder));
        let config = reader.config();
        config.check_whole(&mut reader.0.problems);
        if reader.0.problems.is_empty() { Ok(config) } else { Err(reader.0.problems) }
    }

    /// Every setting with the value in force, secrets hidden.
    pub fn describe(
        environment: impl Iterator<Item = (String, String)>,
        folder: &Path,
    ) -> Vec<(&'static settings::Setting, String)> {
        let sources = Sources::read(environment, folder);
        let value = |setting: &settings::Setting| match sources.values.get(setting.name) {
            Some(_) if setting.secret => "(hidden)".to_owned(),
            Some(value) => value.clone(),
            None => setting.default.to_owned(),
        };
        settings::SETTINGS.iter().map(|setting| (setting, value(setting))).collect()
    }

    /// Whether `BASE_URL` can only be reached from this machine: a person trying it out.
    pub fn is_local(&self) -> bool {
        values::is_loopback(&self.base_url)
    }

    pub fn is_https(&self) -> bool {
        self.base_url.scheme() == "https"
    }

    /// Problems that lie between settings.
    fn check_whole(&self, problems: &mut Vec<String>) {
        if self.smtp.is_none() && !self.is_local() {
            // A development convenience that would leak in production refuses to exist there.
            problems.push(format!(
                "SMTP_URL: must be set, since BASE_URL ({}) is not this machine: \
                 smtps://user:password@mail.example:465",
                self.base_url
            ));
        }
        let own = self.base_url.host_str().unwrap_or_default();
        if let Some(domain) = &self.cookie_domain
            && own != domain
            && !HostPattern::Below(domain.clone()).matches(own)
        {
            problems.push(format!("COOKIE_DOMAIN: {domain} does not contain BASE_URL's host {own}"));
        }
        self.throttle.check_whole(problems);
        if self.throttle.shared && !values::is_postgres(&self.database_url.0) {
            problems.push("THROTTLE_STORE: postgres needs a DATABASE_URL that begins with postgres://".into());
        }
        if self.session_idle > self.session_lifetime {
            problems.push("SESSION_IDLE_SECONDS: must not exceed SESSION_LIFETIME_SECONDS".into());
        }
        let any_port = matches!(self.bind, Bind::Tcp(address) if address.port() == 0);
        if !any_port && Some(&self.bind) == self.admin_bind.as_ref() {
            problems.push("ADMIN_BIND: is the same as BIND; choose another port, or off".into());
        }
    }
}

/// Takes values by name and gathers what is wrong with them.
struct Reader(Sources);

impl Reader {
    fn config(&mut self) -> Config {
        let database_url = self.value("DATABASE_URL", values::database_url);
        let on_postgres = values::is_postgres(&database_url.0);
        Config {
            bind: self.value("BIND", values::bind),
            admin_bind: self.value("ADMIN_BIND", values::bind_or_off),
            base_url: self.value("BASE_URL", values::base_url),
            database_url,
            smtp: self.optional("SMTP_URL", SmtpUrl::parse),
            mail_from: self.value("MAIL_FROM", values::mailbox),
            mail_reply_to: self.optional("MAIL_REPLY_TO", values::mailbox),
            mail_concurrency: self.value("MAIL_CONCURRENCY", values::number::<1, 256>) as usize,
            mail_timeout: self.seconds("MAIL_TIMEOUT_SECONDS"),
            daily_limit: self.daily_limit(),
            app_name: self.value("APP_NAME", values::name),
            support_email: self.optional("SUPPORT_EMAIL", values::address),
            registration_open: self.value("REGISTRATION", |v| values::word(v, ["open", "closed"])) == 0,
            registration_domains: self.value("REGISTRATION_DOMAINS", values::hosts),
            link_lifetime: self.seconds("LINK_LIFETIME_SECONDS"),
            session_lifetime: self.seconds("SESSION_LIFETIME_SECONDS"),
            session_idle: self.seconds("SESSION_IDLE_SECONDS"),
            cookie_domain: self.optional("COOKIE_DOMAIN", values::host),
            return_hosts: self.value("RETURN_HOSTS", values::hosts),
            throttle: self.throttle(on_postgres),
            trusted_proxies: self.value("TRUSTED_PROXIES", values::networks),
            trusted_proxy_hops: self.value("TRUSTED_PROXY_HOPS", values::number::<0, 20>) as usize,
            log_json: self.value("LOG_FORMAT", |v| values::word(v, ["text", "json"])) == 1,
            log_filter: self.value("RUST_LOG", crate::telemetry::check_filter),
        }
    }

    fn daily_limit(&mut self) -> Option<DailyLimit> {
        let reserve = self.value("MAIL_DAILY_RESERVE_PERCENT", values::number::<0, 100>) as i64;
        let mails = self.value("MAIL_DAILY_LIMIT", values::limit_or_off);
        mails.map(|mails| DailyLimit { mails: mails as i64, reserve: (mails as i64 * reserve + 99) / 100 })
    }

    fn throttle(&mut self, on_postgres: bool) -> ThrottleConfig {
        let window = self.seconds("THROTTLE_ANONYMOUS_WINDOW_SECONDS");
        let anonymous = self.value("THROTTLE_ANONYMOUS_LIMIT", values::limit_or_off);
        let store = self.optional("THROTTLE_STORE", |v| values::word(v, ["memory", "postgres"]));
        ThrottleConfig {
            shared: store.map_or(on_postgres, |store| store == 1),
            enabled: self.value("THROTTLE_ENABLED", values::flag),
            ip_burst: self.ceiling("THROTTLE_IP_BURST_LIMIT", "THROTTLE_IP_BURST_WINDOW_SECONDS"),
            ip_hourly: self.ceiling("THROTTLE_IP_HOURLY_LIMIT", "THROTTLE_IP_HOURLY_WINDOW_SECONDS"),
            email: self.ceiling("THROTTLE_EMAIL_LIMIT", "THROTTLE_EMAIL_WINDOW_SECONDS"),
            code: self.ceiling("THROTTLE_CODE_LIMIT", "THROTTLE_CODE_WINDOW_SECONDS"),
            anonymous: anonymous.map(|limit| Ceiling { limit: limit as u32, window }),
            networks: self.value("THROTTLE_NETWORKS", network_ceilings),
            key_secret: self.optional("THROTTLE_KEY_SECRET", values::text),
            ipv6_prefix: self.value("THROTTLE_IPV6_PREFIX", values::number::<32, 128>) as u8,
            memory_mib: self.value("THROTTLE_MEMORY_MIB", values::number::<8, 65_536>),
        }
    }

    fn ceiling(&mut self, limit: &str, window: &str) -> Ceiling {
        let window = self.seconds(window);
        Ceiling { limit: self.value(limit, values::number::<1, 1_000_000>) as u32, window }
    }

    /// From a second to a year.
    fn seconds(&mut self, name: &str) -> Duration {
        Duration::from_secs(self.value(name, values::number::<1, 31_536_000>))
    }

    fn optional<T>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = self.0.values.get(name)?.clone();
        match read(value.trim()) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.0.problems.push(format!("{name}: {problem}"));
                None
            }
        }
    }

    /// The value in force. A wrong one is noted, and its default stands in until all are read.
    fn value<T>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> T {
        let default = settings::named(name).expect("every setting is in the table").default;
        self.optional(name, &read).unwrap_or_else(|| read(default).expect("every default can be read"))
    }
}

/// `198.51.100.0/24=60/600,2001:db8::/32=30/300`, the most specific first.
fn network_ceilings(text: &str) -> Result<Vec<(IpNet, u32, u32)>, String> {
    let mut networks = values::list(text, |item| {
        let wrong = || format!("{item:?} is not like 198.51.100.0/24=60/600 (burst/hourly)");
        let (network, limits) = item.split_once('=').ok_or_else(wrong)?;
        let (burst, hourly) = limits.split_once('/').ok_or_else(wrong)?;
        let limit = |text: &str| values::number::<1, 1_000_000>(text.trim()).map(|n| n as u32);
        Ok((values::network(network.trim())?, limit(burst)?, limit(hourly)?))
    })?;
    networks.sort_by_key(|(network, ..)| std::cmp::Reverse(network.prefix_len()));
    if let Some(twice) = networks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(format!("{} stands there twice", twice[0].0));
    }
    Ok(networks)
}
