//! A mail server of our own on a free port: speaks SMTP, keeps what it accepts, and misbehaves on
//! demand.

mod acts;
mod received;
mod talk;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

pub use received::Received;

/// What to do in place of the usual reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Say(&'static str),
    Drop,
    Silence,
    /// The usual reply, one byte every thirty seconds.
    Drip,
    /// The usual reply, once `release` is called.
    Hold,
    /// At `TLS`: with the certificate of somebody else.
    Impostor,
}

/// How much of TLS the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    Plain,
    StartTls,
    Implicit,
}

/// The running server.
pub struct SmtpServer {
    port: u16,
    scheme: &'static str,
    /// Holds the certificate, for `?ca=`.
    folder: TempDir,
    shared: Arc<Shared>,
}

struct Shared {
    security: Security,
    mechanisms: &'static str,
    /// Whether it says that it takes several commands at once.
    pipelines: AtomicBool,
    acceptor: TlsAcceptor,
    impostor: TlsAcceptor,
    script: Mutex<Vec<Line>>,
    released: Notify,
    seen: Mutex<Vec<String>>,
    accepted: Mutex<Vec<Received>>,
    opened: AtomicUsize,
    open: AtomicUsize,
    stuck: AtomicUsize,
}

/// What is to happen where, once or from now on.
struct Line {
    place: &'static str,
    act: Act,
    always: bool,
}

impl SmtpServer {
    pub async fn start(security: Security) -> Self {
        Self::with(security, "localhost", "PLAIN LOGIN").await
    }

    /// With a certificate for `name`, and ways to log in.
    pub async fn with(security: Security, name: &str, mechanisms: &'static str) -> Self {
        let listener = TcpListener::bind(("localhost", 0)).await.unwrap();
        Self::on(listener, security, name, mechanisms)
    }

    /// On a port that was known before.
    pub async fn at(address: SocketAddr, security: Security) -> Self {
        Self::on(TcpListener::bind(address).await.unwrap(), security, "localhost", "PLAIN LOGIN")
    }

    fn on(listener: TcpListener, security: Security, name: &str, mechanisms: &'static str) -> Self {
        let (pem, acceptor) = certified(name);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), pem).unwrap();
        let shared = Arc::new(Shared {
            security,
            mechanisms,
            pipelines: AtomicBool::new(false),
            acceptor,
            impostor: certified(name).1,
            script: Mutex::default(),
            released: Notify::new(),
            seen: Mutex::default(),
            accepted: Mutex::default(),
            opened: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            stuck: AtomicUsize::new(0),
        });
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(talk::serve(listener, shared.clone()));
        let scheme = if security == Security::Implicit { "smtps" } else { "smtp" };
        Self { port, scheme, folder, shared }
    }

    /// From now on it says that it takes several commands at once.
    pub fn pipeline(&self) {
        self.shared.pipelines.store(true, Ordering::SeqCst);
    }

    /// `SMTP_URL` with `rest` behind it.
    pub fn url(&self, rest: &str) -> String {
        self.url_as("", rest)
    }

    /// `SMTP_URL` for `user:password@`.
    pub fn url_as(&self, login: &str, rest: &str) -> String {
        format!("{}://{login}localhost:{}{rest}", self.scheme, self.port)
    }

    /// `SMTP_URL` that trusts this server's certificate.
    pub fn trusted_url(&self) -> String {
        self.url(&format!("?ca={}", self.folder.path().join("ca.pem").display()))
    }

    /// Acts this way the next time `place` is reached: a command, or `GREETING`, `TLS`, `INSIDE` (a message) or `END` (its dot).
    pub fn next(&self, place: &'static str, act: Act) {
        self.shared.script.lock().unwrap().push(Line { place, act, always: false });
    }

    /// Acts this way whenever `place` is reached, until it is mended.
    pub fn always(&self, place: &'static str, act: Act) {
        self.shared.script.lock().unwrap().push(Line { place, act, always: true });
    }

    /// From now on nothing goes wrong any more.
    pub fn mend(&self) {
        self.shared.script.lock().unwrap().clear();
    }

    /// Gives every reply that is held.
    pub fn release(&self) {
        self.shared.released.notify_waiters();
    }

    /// How many clients wait for a reply that is held, drips, or never comes.
    pub fn stuck(&self) -> usize {
        self.shared.stuck.load(Ordering::SeqCst)
    }

    /// How many connections there were so far.
    pub fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::SeqCst)
    }

    /// How many connections there are.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// The messages accepted so far, oldest first.
    pub fn accepted(&self) -> Vec<Received> {
        self.shared.accepted.lock().unwrap().clone()
    }

    /// The one message accepted.
    #[track_caller]
    pub fn only(&self) -> Received {
        let accepted = self.accepted();
        assert_eq!(accepted.len(), 1, "one message is accepted");
        accepted[0].clone()
    }

    /// Every command line heard.
    pub fn seen(&self) -> Vec<String> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Shared {
    fn act(&self, place: &str) -> Option<Act> {
        let mut script = self.script.lock().unwrap();
        let at = script.iter().position(|line| line.place == place)?;
        if script[at].always { Some(script[at].act) } else { Some(script.remove(at).act) }
    }
}

/// Counts one more for as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A certificate of its own for `name`, and the server's half of TLS with it.
fn certified(name: &str) -> (String, TlsAcceptor) {
    let certified = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(ring::default_provider().into());
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![certified.cert.der().clone()], key).unwrap();
    (certified.cert.pem(), TlsAcceptor::from(Arc::new(config)))
}
