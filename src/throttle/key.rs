//! What a counter is kept under: a keyed digest, never an address.

use std::fmt;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::client_ip::Network;
use crate::config::Hidden;
use crate::domain::email::Email;

/// 16 bytes that stand for a client network or an inbox. Shows as 12 hex digits, which is what logs
/// carry in place of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key([u8; 16]);

impl Key {
    /// As a shared store keeps it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The 12 hex digits, without asking for memory: every request's log line has them.
    pub fn short(&self) -> ShortKey {
        let mut digits = [0; 12];
        HEXLOWER.encode_mut(&self.0[..6], &mut digits);
        ShortKey(digits)
    }
}

/// The first 12 hex digits of a key.
pub struct ShortKey([u8; 12]);

impl ShortKey {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hex digits are ASCII")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short().as_str())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Makes keys: HMAC-SHA256 under `THROTTLE_KEY_SECRET`, plain SHA-256 without it.
#[derive(Clone)]
pub struct Keys(Option<Hmac<Sha256>>);

impl Keys {
    pub fn new(secret: Option<&Hidden>) -> Self {
        Self(secret.map(|secret| Hmac::new_from_slice(secret.0.as_bytes()).expect("HMAC takes a key of any length")))
    }

    /// The key of a client network.
    pub fn network(&self, network: Network) -> Key {
        // The address's bytes and not its text: this runs for every request.
        let mut subject = [0; 16];
        let length = match network.address() {
            std::net::IpAddr::V4(v4) => {
                subject[..4].copy_from_slice(&v4.octets());
                4
            }
            std::net::IpAddr::V6(v6) => {
                subject = v6.octets();
                16
            }
        };
        self.digest(b"network\0", &subject[..length])
    }

    /// The key of the inbox that an address fills.
    pub fn inbox(&self, email: &Email) -> Key {
        self.digest(b"inbox\0", email.inbox().as_bytes())
    }

    /// The key of an inbox as seen from a client network, by what the inbox is known by; empty for none.
    pub fn code(&self, network: Network, inbox: &str) -> Key {
        self.digest(b"code\0", format!("{inbox}\0{}", network.address()).as_bytes())
    }

    fn digest(&self, kind: &[u8], subject: &[u8]) -> Key {
        let full: [u8; 32] = match &self.0 {
            Some(keyed) => {
                let mut mac = keyed.clone();
                mac.update(kind);
                mac.update(subject);
                mac.finalize().into_bytes().into()
            }
            None => Sha256::new().chain_update(kind).chain_update(subject).finalize().into(),
        };
        let mut key = [0; 16];
        key.copy_from_slice(&full[..16]);
        Key(key)
    }
}
