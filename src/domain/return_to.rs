//! Where a person is sent after signing in: this host's pages and the hosts the operator named.

use percent_encoding::percent_decode_str;
use url::Url;

use super::host::HostPattern;

/// The longest destination taken, in bytes.
pub const MAX_BYTES: usize = 2048;

/// A destination that was checked and is percent-encoded: a path on this host or a whole URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnTo(String);

/// Which destinations are allowed: paths of this host, and the hosts of `RETURN_HOSTS`.
#[derive(Clone, Debug)]
pub struct ReturnPolicy {
    base: Url,
    hosts: Vec<HostPattern>,
}

impl ReturnPolicy {
    pub fn new(base: Url, hosts: Vec<HostPattern>) -> Self {
        Self { base, hosts }
    }

    /// The destination, or none: the caller then uses its default page.
    pub fn parse(&self, input: &str) -> Option<ReturnTo> {
        let backslash = input.contains('\\') || input.to_ascii_lowercase().contains("%5c");
        if input.len() > MAX_BYTES || input.chars().any(char::is_control) || backslash {
            return None;
        }
        let sent = if input.starts_with('/') { self.local(input)? } else { self.remote(input)? };
        (sent.len() <= MAX_BYTES).then_some(ReturnTo(sent))
    }

    /// Open redirect: `//evil`, `/.//evil` and `/%2f/evil` all name another host to some reader.
    fn local(&self, input: &str) -> Option<String> {
        let url = self.base.join(input).ok()?;
        let decoded = percent_decode_str(input).decode_utf8_lossy();
        let read_again = self.base.join(&decoded).ok()?;
        let stays = |url: &Url| url.origin() == self.base.origin() && !url.path().starts_with("//");
        let clean = !decoded.chars().any(char::is_control) && stays(&url) && stays(&read_again);
        clean.then(|| url[url::Position::BeforePath..].to_owned())
    }

    fn remote(&self, input: &str) -> Option<String> {
        let scheme = input.get(..self.base.scheme().len() + 3)?;
        let written_out = scheme.eq_ignore_ascii_case(&format!("{}://", self.base.scheme()));
        if !written_out || input[scheme.len()..].starts_with('/') {
            return None;
        }
        let url = Url::parse(input).ok()?;
        let bare = url.username().is_empty() && url.password().is_none() && url.port().is_none();
        let host = url.host_str()?;
        let named = self.hosts.iter().any(|pattern| pattern.matches(host));
        (bare && named && !url.path().starts_with("//")).then(|| url.into())
    }
}

impl ReturnTo {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host it names; none for a path on this host.
    pub fn host(&self) -> Option<&str> {
        let rest = self.0.split_once("://")?.1;
        (!self.0.starts_with('/')).then(|| rest.split(['/', '?', '#']).next().unwrap_or(rest))
    }
}
