//! The one address parser: both endpoints, the command line and the counters use it.

use std::fmt;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};

/// RFC 5321 4.5.3.1.3: a path of 256 octets less its angle brackets.
const MAX_BYTES: usize = 254;
/// RFC 5321 4.5.3.1.1.
const MAX_LOCAL_BYTES: usize = 64;
/// RFC 5322 `atext` less `%` and `!`, which old relays take for routing.
const LOCAL_SYMBOLS: &[u8] = b"#$&'*+/=?^_`{|}~.-";

/// An e-mail address, checked and folded: ASCII lower case, the domain in its ASCII form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Email {
    folded: String,
    at: usize,
}

/// The text was not one plain address. Says nothing about accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnAddress;

impl Email {
    /// Reads one plain address; folds it. See the contract's section 4 for the rules.
    pub fn parse(input: &str) -> Result<Self, NotAnAddress> {
        // Expensive validation: the length is judged before anything looks at the bytes.
        if input.len() > MAX_BYTES {
            return Err(NotAnAddress);
        }
        // Header injection: CR and LF are never trimmed away, so they are refused below.
        let trimmed = input.trim_matches(|c: char| c.is_whitespace() && c != '\r' && c != '\n');
        // Two recipients, or one that routes elsewhere: exactly one `@`.
        let (local, domain) = trimmed.split_once('@').ok_or(NotAnAddress)?;
        if !is_local(local) {
            return Err(NotAnAddress);
        }
        let domain = ascii_domain(domain).ok_or(NotAnAddress)?;
        // Look-alikes: Unicode folding would turn the Kelvin sign into `k`; ASCII's doesn't.
        let folded = format!("{}@{domain}", local.to_ascii_lowercase());
        if folded.len() > MAX_BYTES {
            return Err(NotAnAddress);
        }
        Ok(Self { folded, at: local.len() })
    }

    /// The whole folded address.
    pub fn as_str(&self) -> &str {
        &self.folded
    }

    /// The part before the `@`.
    pub fn local(&self) -> &str {
        &self.folded[..self.at]
    }

    /// The part after the `@`, in its ASCII form.
    pub fn domain(&self) -> &str {
        &self.folded[self.at + 1..]
    }

    /// The inbox this address fills, for counting only: another spelling of the same inbox must
    /// not get another bucket. Two addresses of one inbox are still two accounts.
    pub fn inbox(&self) -> String {
        let gmail = matches!(self.domain(), "gmail.com" | "googlemail.com");
        let base = match self.local().split('+').next() {
            Some(base) if !base.is_empty() => base,
            _ => self.local(),
        };
        if gmail { format!("{}@gmail.com", base.replace('.', "")) } else { format!("{base}@{}", self.domain()) }
    }
}

/// An address is somebody's: it is shown on purpose only, never by accident in a log line.
impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Email(…)")
    }
}

fn is_local(local: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || LOCAL_SYMBOLS.contains(&b);
    (1..=MAX_LOCAL_BYTES).contains(&local.len())
        && local.bytes().all(legal)
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..")
        // Header injection: an encoded word would be decoded by some mail programs.
        && !local.contains("=?")
}

/// The domain in ASCII, or none when it isn't a host name of at least two labels.
fn ascii_domain(domain: &str) -> Option<String> {
    // Look-alikes: UTS-46 drops zero-width characters, so that another spelling would look the same.
    if domain.chars().any(vanishes) {
        return None;
    }
    // UTS-46 maps full-width letters and dots to ASCII, so the result is checked, not the input.
    let ascii =
        Uts46::new().to_ascii(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::Allow, DnsLength::Verify).ok()?;
    let last = ascii.rsplit('.').next()?;
    let is_address = last.bytes().all(|b| b.is_ascii_digit());
    let labels = ascii.split('.').count();
    (labels >= 2 && !is_address && ascii.split('.').all(is_label)).then(|| ascii.into_owned())
}

/// Whether UTS-46 maps a character to nothing at all.
fn vanishes(c: char) -> bool {
    let between = || idna::domain_to_ascii(&format!("a{c}a"));
    !c.is_ascii() && between().is_ok_and(|ascii| ascii == "aa")
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}
