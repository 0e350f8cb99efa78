//! The code beside the link: six characters that a person types where they asked.

use std::fmt;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::email::Email;
use super::token::{BrowserSecret, Hash, SessionToken};

/// Crockford's base32: no I, L, O (read as 1, 1, 0) and no U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Longest text that is read at all.
const MAX_BYTES: usize = 64;

/// 30 bits from the system. Few enough to type, and too few to stand alone: a code counts only together
/// with the secret of the browser that asked, and five tries. Prints as dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Code([u8; 6]);

/// What digests of codes are keyed with, kept outside of the database. Prints as dots.
#[derive(Clone, Default)]
pub struct CodeKey(Vec<u8>);

impl CodeKey {
    /// A secret of at least 256 bits, or nothing where there is none.
    pub fn new(secret: &[u8]) -> Self {
        Self(secret.to_owned())
    }

    /// What an inbox is known by when codes are typed for it: 16 bytes in hex, never an address.
    pub fn inbox(&self, email: &Email) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(b"inbox\0");
        mac.update(email.inbox().as_bytes());
        HEXLOWER.encode(&mac.finalize().into_bytes()[..16])
    }
}

impl fmt::Debug for CodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeKey(…)")
    }
}

impl Code {
    /// A fresh code.
    pub fn mint(random: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = [0; 4];
        random(&mut bytes);
        let bits = u32::from_be_bytes(bytes);
        Self(std::array::from_fn(|at| ALPHABET[(bits >> (5 * at)) as usize % ALPHABET.len()]))
    }

    /// Reads a code as people type and paste it: in any case, with spaces and dashes, with O for 0 and I
    /// or L for 1.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let typed = text.chars().filter(|c| !is_between(*c));
        let symbols: Vec<u8> = typed.map(symbol).collect::<Option<_>>()?;
        Some(Self(symbols.try_into().ok()?))
    }

    /// As it stands in the mail: `K7Q-2MX`.
    pub fn text(&self) -> String {
        let symbols: String = self.0.iter().map(|symbol| char::from(*symbol)).collect();
        format!("{}-{}", &symbols[..3], &symbols[3..])
    }

    /// What is stored beside the link, keyed by what the database doesn't hold. Who steals the database
    /// lacks the secret of the browser that asked. Who reads it at all times can ask for a victim's mail
    /// himself, and has that secret: only `key` then keeps 30 bits from being tried out.
    pub fn digest(&self, key: &CodeKey, browser: &str, link: &str) -> String {
        HEXLOWER.encode(&self.mac(&key.0, &format!("code\0{browser}"), link).finalize().into_bytes())
    }

    /// Whether `digest` is this code's, in the same time for any.
    pub fn fits(&self, digest: &str, key: &CodeKey, browser: &str, link: &str) -> bool {
        let stored = HEXLOWER.decode(digest.as_bytes()).unwrap_or_default();
        self.mac(&key.0, &format!("code\0{browser}"), link).verify_slice(&stored).is_ok()
    }

    /// The session token of this code used in a browser: the same again for one that types it twice, as
    /// [`SessionToken::of`] is for a link. The browser's secret alone keeps it from being guessed.
    pub fn session(&self, browser: &BrowserSecret, link: &Hash) -> SessionToken {
        SessionToken::from_bytes(
            self.mac(browser.bytes(), "session by code", link.as_str()).finalize().into_bytes().into(),
        )
    }

    fn mac(&self, key: &[u8], purpose: &str, link: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
        for part in [purpose.as_bytes(), link.as_bytes(), &self.0] {
            mac.update(part);
            mac.update(b"\0");
        }
        mac
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(…)")
    }
}

/// What may stand between the characters: white space, dashes of any kind, and what programs paste unseen.
fn is_between(c: char) -> bool {
    let is_dash = matches!(c, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}');
    let is_unseen = matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}');
    c.is_whitespace() || is_dash || is_unseen
}

fn symbol(typed: char) -> Option<u8> {
    let folded = match typed.to_ascii_uppercase() {
        'O' => b'0',
        'I' | 'L' => b'1',
        other => u8::try_from(other).ok()?,
    };
    ALPHABET.contains(&folded).then_some(folded)
}
