//! Secrets that a browser or a mail carries: link tokens, session tokens, browser secrets.

use std::fmt;
use std::sync::LazyLock;

use data_encoding::{BASE32_NOPAD, Encoding, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// What a mail carries: 128 bits, 26 characters, so that the whole URL stays under 76.
pub type LinkToken = Secret<16>;
/// What the session cookie carries.
pub type SessionToken = Secret<32>;
/// What tells one browser from another: the cookie of the browser that asked.
pub type BrowserSecret = Secret<32>;

/// `N` random bytes that leave the program once, as lower-case base32. Prints as dots.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret<const N: usize>([u8; N]);

/// The SHA-256 of a secret in hex: all that is ever stored of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hash(String);

impl<const N: usize> Secret<N> {
    /// A fresh secret and the hash to store.
    pub fn mint(random: impl FnOnce(&mut [u8])) -> (Self, Hash) {
        let secret = Self::fresh(random);
        let hash = secret.hash();
        (secret, hash)
    }

    /// A fresh secret of which nothing is stored yet.
    pub fn fresh(random: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = [0; N];
        random(&mut bytes);
        Self(bytes)
    }

    /// Reads the one spelling that [`Secret::text`] writes; anything else is no secret.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != (N * 8).div_ceil(5) {
            return None;
        }
        let bytes = ALPHABET.decode(text.as_bytes()).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// Lower-case base32 without padding, which mail programs leave alone.
    pub fn text(&self) -> String {
        ALPHABET.encode(&self.0)
    }

    /// What is stored. A stolen database holds nothing that can be used.
    pub fn hash(&self) -> Hash {
        Hash(HEXLOWER.encode(&Sha256::digest(self.0)))
    }
}

impl Secret<32> {
    /// For who makes keys of it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl SessionToken {
    /// The session token of a link used in a browser.
    ///
    /// It follows from the link's token (128 bits that only the mail held) and the browser's
    /// secret (256 bits that only this browser holds), so that a browser that posts the same link
    /// twice, and loses the first answer, gets the same session again and never a second one.
    /// Neither value alone gives it, and the server keeps hashes of both only.
    pub fn of(link: &LinkToken, browser: &BrowserSecret) -> Self {
        let mut mac = Hmac::<Sha256>::new_from_slice(&browser.0).expect("HMAC takes a key of any length");
        mac.update(b"session\0");
        mac.update(&link.0);
        Self(mac.finalize().into_bytes().into())
    }
}

impl Hash {
    /// One that was stored.
    pub fn stored(hash: String) -> Self {
        Self(hash)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Lower-case base32 without padding.
static ALPHABET: LazyLock<Encoding> = LazyLock::new(|| {
    let mut spec = BASE32_NOPAD.specification();
    spec.symbols = spec.symbols.to_ascii_lowercase();
    spec.encoding().expect("lower-case base32 is a sound alphabet")
});
