//! A client that sends just the bytes it is told to, and a browser with cookies on top of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::gateway::Tls;

const FORM: &str = "application/x-www-form-urlencoded";

/// An answer as it came over the wire.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// In their order, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn cookies(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(|(name, _)| name == "set-cookie").map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    /// The page with its apostrophes as people read them.
    pub fn words(&self) -> String {
        self.body.replace("&#39;", "'")
    }

    /// Everything but `Date`, for comparing two answers. actix-web writes headers in an order that
    /// changes from answer to answer, so they are sorted.
    pub fn without_date(&self) -> String {
        let mut lines: Vec<_> = self.headers.iter().filter(|(name, _)| name != "date").collect();
        lines.sort();
        format!("{} {lines:?} {}", self.status, self.body)
    }

    #[track_caller]
    pub fn assert_found(&self, location: &str) -> &Self {
        assert_eq!((self.status, self.header("location")), (302, Some(location)), "{}", self.body);
        self
    }

    /// The headers that every answer carries, errors included.
    #[track_caller]
    pub fn assert_guarded(&self) -> &Self {
        let policy = self.header("content-security-policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'"), "{self:?}");
        assert!(policy.contains("frame-ancestors 'none'"), "{self:?}");
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"), "{self:?}");
        assert_eq!(self.header("referrer-policy"), Some("strict-origin"), "{self:?}");
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        self
    }
}

/// Sends raw bytes on a connection of its own and reads the answer to its end.
pub async fn send(address: SocketAddr, bytes: &[u8]) -> Response {
    try_send(address, bytes).await.expect("an HTTP answer")
}

/// The same to a server that may be gone, or go before it has answered.
pub async fn try_send(address: SocketAddr, bytes: &[u8]) -> Option<Response> {
    exchange(TcpStream::connect(address).await.ok()?, bytes).await
}

/// One request and its answer.
pub async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> Option<Response> {
    // A server that refuses early may close while we still write; its answer counts all the same.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(n) => answer.extend_from_slice(&chunk[..n]),
        }
        let head_only = bytes.starts_with(b"HEAD ");
        if is_whole(&answer, head_only) {
            break;
        }
    }
    parse(&answer)
}

fn is_whole(answer: &[u8], head_only: bool) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let start = head.len() + 4;
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    head_only || length.is_some_and(|length: usize| answer.len() >= start + length)
}

fn parse(answer: &[u8]) -> Option<Response> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok())?;
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    });
    Some(Response { status, headers: headers.collect(), body: body.to_owned() })
}

/// A browser: cookies, an address as the proxy reports it, further headers.
#[derive(Clone, Debug)]
pub struct Browser {
    pub address: SocketAddr,
    pub cookies: BTreeMap<String, String>,
    headers: Vec<(String, String)>,
    tls: Option<Tls>,
}

impl Browser {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, cookies: BTreeMap::new(), headers: Vec::new(), tls: None }
    }

    /// Over TLS, through a gateway.
    pub fn through(gateway: SocketAddr, tls: Tls) -> Self {
        Self { tls: Some(tls), ..Self::new(gateway) }
    }

    /// The same person at another of the gateway's hosts.
    pub fn at(mut self, host: &str) -> Self {
        self.tls.as_mut().expect("it goes through a gateway").host = host.to_owned();
        self
    }

    /// Reported by the proxy as coming from `client`.
    pub fn from(self, client: &str) -> Self {
        self.header("X-Forwarded-For", client)
    }

    /// With one more header on every request.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn json(self) -> Self {
        self.header("Accept", "application/json")
    }

    pub async fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, "", b"").await
    }

    pub async fn head(&mut self, path: &str) -> Response {
        self.request("HEAD", path, "", b"").await
    }

    /// Posts a form.
    pub async fn post(&mut self, path: &str, form: &str) -> Response {
        self.request("POST", path, FORM, form.as_bytes()).await
    }

    /// Fills in the e-mail field and sends the form.
    pub async fn ask(&mut self, path: &str, email: &str) -> Response {
        self.try_ask(path, email).await.expect("an HTTP answer")
    }

    /// The same of a server that may be gone, or go before it has answered.
    pub async fn try_ask(&mut self, path: &str, email: &str) -> Option<Response> {
        let encoded: String = url::form_urlencoded::byte_serialize(email.as_bytes()).collect();
        let form = format!("email={encoded}");
        self.try_request("POST", path, FORM, form.as_bytes()).await
    }

    pub async fn request(&mut self, method: &str, path: &str, kind: &str, body: &[u8]) -> Response {
        self.try_request(method, path, kind, body).await.expect("an HTTP answer")
    }

    async fn try_request(&mut self, method: &str, path: &str, kind: &str, body: &[u8]) -> Option<Response> {
        let host = self.tls.as_ref().map_or_else(|| self.address.to_string(), |tls| tls.host.clone());
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !self.cookies.is_empty() {
            let pairs: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            head += &format!("Cookie: {}\r\n", pairs.join("; "));
        }
        if !kind.is_empty() {
            head += &format!("Content-Type: {kind}\r\n");
        }
        if method != "GET" && method != "HEAD" {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        let bytes = [head.as_bytes(), b"\r\n", body].concat();
        let response = match &self.tls {
            Some(tls) => tls.send(self.address, &bytes).await?,
            None => try_send(self.address, &bytes).await?,
        };
        self.keep_cookies(&response);
        Some(response)
    }

    fn keep_cookies(&mut self, response: &Response) {
        for cookie in response.cookies() {
            let (pair, attributes) = cookie.split_once(';').unwrap_or((cookie, ""));
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if attributes.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}
