//! Host names in settings: one host, or `*.` and everything below it.

/// `app.school.example` or `*.school.example`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    Exact(String),
    /// Any host below this one, not the host itself.
    Below(String),
}

impl HostPattern {
    /// Reads a pattern, folding it to its ASCII form. The error says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (below, host) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
        let ascii = idna::domain_to_ascii(host).unwrap_or_default();
        let sound = !ascii.is_empty() && ascii.bytes().all(plain) && !ascii.starts_with('.');
        if !sound || ascii.ends_with('.') || ascii.contains("..") {
            return Err(format!("{text:?} is not a host like app.school.example or *.school.example"));
        }
        Ok(if below { Self::Below(ascii) } else { Self::Exact(ascii) })
    }

    /// Whether `host` (ASCII, lower case) is meant.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(exact) => host == exact,
            Self::Below(parent) => {
                host.strip_suffix(parent.as_str()).is_some_and(|sub| sub.len() > 1 && sub.ends_with('.'))
            }
        }
    }

    /// As Content-Security-Policy and people write it.
    pub fn text(&self) -> String {
        match self {
            Self::Exact(host) => host.clone(),
            Self::Below(parent) => format!("*.{parent}"),
        }
    }
}
