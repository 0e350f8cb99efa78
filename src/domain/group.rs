//! Groups of accounts, as they are told to apps.

/// A name that can stand in a list with commas between them, and in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(String);

impl Group {
    /// One to 32 lower-case letters, digits, dashes, dots and underscores.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b);
        ((1..=32).contains(&text.len()) && text.bytes().all(plain)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is one of those in a list with commas.
    pub fn is_in(&self, list: &str) -> bool {
        list.split(',').any(|name| name == self.0)
    }
}
