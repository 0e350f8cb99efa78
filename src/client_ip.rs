//! Which address a request is counted as: a pure function, and an adaptor that reads a request.
//!
//! One trap rules this file: every header is the client's own words, except for what a trusted proxy
//! appended to `X-Forwarded-For`. So that header alone is read, counted from the right, and only
//! from a trusted peer. `Forwarded`, `X-Real-IP` and their kin are never looked at.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::config::Config;

/// Why a request was counted as the address it was. A label of `doorpost_client_ip_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The entry that the trusted proxy vouches for.
    Forwarded,
    /// No proxy is expected.
    Peer,
    /// The peer isn't one of `TRUSTED_PROXIES`.
    UntrustedPeer,
    /// A trusted peer sent no `X-Forwarded-For`.
    Missing,
    /// Fewer entries than `TRUSTED_PROXY_HOPS`.
    TooFew,
    /// The entry isn't an address.
    Unparsable,
    /// The entry is itself a trusted proxy: too few hops are configured.
    IsProxy,
}

impl Reason {
    pub const ALL: [Self; 7] = [
        Self::Forwarded,
        Self::Peer,
        Self::UntrustedPeer,
        Self::Missing,
        Self::TooFew,
        Self::Unparsable,
        Self::IsProxy,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::Peer => "peer",
            Self::UntrustedPeer => "untrusted_peer",
            Self::Missing => "missing",
            Self::TooFew => "too_few",
            Self::Unparsable => "unparsable",
            Self::IsProxy => "is_proxy",
        }
    }

    /// What the operator is to do about it; none where all is as it should be.
    pub fn advice(self) -> Option<&'static str> {
        match self {
            Self::Forwarded | Self::Peer => None,
            Self::UntrustedPeer => Some("the peer is not in TRUSTED_PROXIES, so its headers are ignored"),
            Self::Missing => {
                Some("a trusted proxy sent no X-Forwarded-For; set TRUSTED_PROXY_HOPS=0 if there is no proxy")
            }
            Self::TooFew => Some("X-Forwarded-For has fewer entries than TRUSTED_PROXY_HOPS; hops too high?"),
            Self::Unparsable => Some("the X-Forwarded-For entry of the proxy is not an address"),
            Self::IsProxy => Some("the X-Forwarded-For entry is itself a trusted proxy; hops too low?"),
        }
    }
}

/// A client network: one IPv4 address, or the IPv6 prefix one customer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpNet);

impl Network {
    /// IPv6 rotation: 1,000 addresses of one `/64` are one network.
    pub fn of(address: IpAddr, ipv6_prefix: u8) -> Self {
        let prefix = if address.is_ipv4() { 32 } else { ipv6_prefix };
        Self(IpNet::new_assert(address, prefix).trunc())
    }

    pub fn address(self) -> IpAddr {
        self.0.addr()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpNet::V4(net) => write!(f, "{}", net.addr()),
            IpNet::V6(net) => write!(f, "{net}"),
        }
    }
}

/// Whom to believe.
#[derive(Clone, Debug)]
pub struct Trust {
    proxies: Vec<IpNet>,
    hops: usize,
}

impl Trust {
    pub fn new(config: &Config) -> Self {
        Self { proxies: config.trusted_proxies.clone(), hops: config.trusted_proxy_hops }
    }

    /// Whether an address is one of `TRUSTED_PROXIES`.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|net| net.contains(&address))
    }

    /// Whether a peer's words about the request that it hands on are to be believed: a unix socket's, or a
    /// trusted proxy's, where proxies are expected at all.
    pub fn believes(&self, peer: Option<IpAddr>) -> bool {
        self.hops > 0 && peer.is_none_or(|peer| self.is_proxy(peer.to_canonical()))
    }

    /// The address a request is counted as. `peer` is none for a unix socket, whose peer is
    /// trusted; `forwarded` are the lines of `X-Forwarded-For` in their order.
    pub fn client_ip<'a>(&self, peer: Option<IpAddr>, forwarded: impl Iterator<Item = &'a [u8]>) -> (IpAddr, Reason) {
        let address = peer.map_or(IpAddr::from([127, 0, 0, 1]), |peer| peer.to_canonical());
        if self.hops == 0 {
            return (address, Reason::Peer);
        }
        if peer.is_some() && !self.is_proxy(address) {
            return (address, Reason::UntrustedPeer);
        }
        match self.vouched_for(forwarded) {
            Ok(entry) if self.is_proxy(entry) => (entry, Reason::IsProxy),
            Ok(entry) => (entry, Reason::Forwarded),
            Err(reason) => (address, reason),
        }
    }

    /// The hops-th entry from the right, and never one further left: those are the client's words.
    fn vouched_for<'a>(&self, lines: impl Iterator<Item = &'a [u8]>) -> Result<IpAddr, Reason> {
        let lines: Vec<&[u8]> = lines.collect();
        if lines.is_empty() {
            return Err(Reason::Missing);
        }
        let mut from_right = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
        let entry = from_right.nth(self.hops - 1).ok_or(Reason::TooFew)?;
        parse_entry(entry).ok_or(Reason::Unparsable)
    }
}

/// An address as proxies write it: with a port, in brackets, with a zone.
fn parse_entry(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim_matches([' ', '\t']);
    let bare = match text.strip_prefix('[') {
        Some(rest) => bracketed(rest)?,
        None if text.contains('.') && text.matches(':').count() == 1 => {
            return text.parse::<SocketAddr>().ok().map(|address| address.ip()).filter(is_client);
        }
        None => text,
    };
    let (bare, _zone) = bare.split_once('%').unwrap_or((bare, ""));
    bare.parse::<IpAddr>().ok().map(|ip| ip.to_canonical()).filter(is_client)
}

/// `2001:db8::9]` or `2001:db8::9]:443`, the opening bracket gone.
fn bracketed(rest: &str) -> Option<&str> {
    let (inside, behind) = rest.split_once(']')?;
    let port = behind.strip_prefix(':').is_none_or(|port| port.parse::<u16>().is_ok());
    let v6 = inside.contains(':') && (behind.is_empty() || behind.starts_with(':'));
    (v6 && port).then_some(inside)
}

fn is_client(address: &IpAddr) -> bool {
    !address.is_unspecified()
}
