//! Text to value, one small reader a kind. An error says what was expected.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use lettre::message::Mailbox;
use url::{Host, Url};

use crate::domain::host::HostPattern;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A text that never prints.
#[derive(Clone)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

pub fn bind(text: &str) -> Result<Bind, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return if path.starts_with('/') {
            Ok(Bind::Unix(path.into()))
        } else {
            Err(format!("{text:?} needs a whole path: unix:/run/doorpost.sock"))
        };
    }
    let text = text.replace("localhost:", "127.0.0.1:");
    text.parse().map(Bind::Tcp).map_err(|_| {
        format!("{text:?} is not an address with a port, like 127.0.0.1:8080 or [::]:8080, nor unix:/path")
    })
}

pub fn bind_or_off(text: &str) -> Result<Option<Bind>, String> {
    if text == "off" { Ok(None) } else { bind(text).map(Some) }
}

/// `http` or `https`, a host, perhaps a port; nothing behind it, since links are made from it.
pub fn base_url(text: &str) -> Result<Url, String> {
    let wrong = || format!("{text:?} is not like https://auth.school.example (no path, user or query)");
    let url = Url::parse(text).map_err(|_| wrong())?;
    let web = matches!(url.scheme(), "http" | "https") && url.host().is_some();
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if web && bare && url.username().is_empty() && url.password().is_none() { Ok(url) } else { Err(wrong()) }
}

/// Whether a URL can only be reached from this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

pub fn database_url(text: &str) -> Result<Hidden, String> {
    if is_postgres(text) {
        return postgres_url(text);
    }
    if text.contains(":memory:") || text.contains("mode=") {
        return Err("must name a file, as in sqlite:data/doorpost.db: what is queued has to survive".into());
    }
    match text.strip_prefix("sqlite:") {
        Some(file) if !file.trim_start_matches("//").is_empty() => Ok(Hidden(text.to_owned())),
        _ => Err("is not like sqlite:data/doorpost.db or postgres://user:password@host/doorpost".into()),
    }
}

/// Whether `DATABASE_URL` names a PostgreSQL.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

fn postgres_url(text: &str) -> Result<Hidden, String> {
    let like = "is not like postgres://user:password@host/doorpost";
    let url = Url::parse(text).map_err(|e| format!("{like}: {e}"))?;
    let named = |option: &str| url.query_pairs().any(|(name, value)| name == option && !value.is_empty());
    match (url.host_str(), url.path().trim_start_matches('/')) {
        (None | Some(""), _) if !named("host") => Err(format!("{like}: no host")),
        (_, "") if !named("dbname") => Err(format!("{like}: no database")),
        _ => Ok(Hidden(text.to_owned())),
    }
}

pub fn mailbox(text: &str) -> Result<Mailbox, String> {
    text.parse().map_err(|_| format!("{text:?} is not like School <login@school.example>"))
}

pub fn address(text: &str) -> Result<String, String> {
    let plain = text.contains('@') && !text.contains([' ', '<', '>', '"', '\'', '&', '?']);
    if plain { Ok(text.to_owned()) } else { Err(format!("{text:?} is not like help@school.example")) }
}

pub fn name(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.chars().count() <= 60 { Ok(text.to_owned()) } else { Err("is longer than 60 characters".into()) }
}

pub fn text(text: &str) -> Result<Hidden, String> {
    Ok(Hidden(text.to_owned()))
}

/// A whole number from `LOW` to `HIGH`.
pub fn number<const LOW: u64, const HIGH: u64>(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if (LOW..=HIGH).contains(&number) => Ok(number),
        _ => Err(format!("{text:?} is not a whole number from {LOW} to {HIGH}")),
    }
}

pub fn limit_or_off(text: &str) -> Result<Option<u64>, String> {
    if text == "off" { Ok(None) } else { number::<1, 1_000_000>(text).map(Some) }
}

pub fn flag(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// One of the words, by its place.
pub fn word<const N: usize>(text: &str, words: [&str; N]) -> Result<usize, String> {
    let found = words.iter().position(|word| *word == text);
    found.ok_or_else(|| format!("{text:?} is not one of: {}", words.join(", ")))
}

/// A comma-separated list.
pub fn list<T>(text: &str, one: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let (mut values, mut problems) = (Vec::new(), Vec::new());
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        match one(item) {
            Ok(value) => values.push(value),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(problems.join("; ")) }
}

pub fn hosts(text: &str) -> Result<Vec<HostPattern>, String> {
    list(text, HostPattern::parse)
}

pub fn host(text: &str) -> Result<String, String> {
    match HostPattern::parse(text)? {
        HostPattern::Exact(host) if host.contains('.') => Ok(host),
        _ => Err(format!("{text:?} is not a domain like school.example")),
    }
}

/// A network, or one address of it.
pub fn network(text: &str) -> Result<IpNet, String> {
    let whole = IpAddr::from_str(text).map(IpNet::from);
    IpNet::from_str(text)
        .or(whole)
        .map(|net| net.trunc())
        .map_err(|_| format!("{text:?} is not a network like 198.51.100.0/24 or 2001:db8::/32"))
}

pub fn networks(text: &str) -> Result<Vec<IpNet>, String> {
    list(text, network)
}
