//! A mail server of our own on a free port: speaks SMTP, keeps what it accepts, and misbehaves on
//! demand.

mod talk;

use std::sync::{Arc, Mutex};

use mail_parser::{Message, MessageParser};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// What to do in place of the usual reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Say(&'static str),
    Drop,
    Silence,
}

/// How much of TLS the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    Plain,
    StartTls,
    Implicit,
}

/// A message as it was accepted.
#[derive(Clone, Debug, Default)]
pub struct Received {
    pub from: String,
    pub to: Vec<String>,
    /// Without the doubled dots.
    pub raw: Vec<u8>,
    pub encrypted: bool,
    pub hello: String,
    /// User and password.
    pub login: Option<(String, String)>,
}

impl Received {
    pub fn parse(&self) -> Message<'_> {
        MessageParser::default().parse(&self.raw).expect("a message")
    }

    pub fn text(&self) -> String {
        self.parse().body_text(0).expect("a text part").into_owned()
    }

    /// The path of the link in the text part.
    pub fn link(&self) -> String {
        let text = self.text();
        let url = text.lines().find(|line| line.starts_with("http")).expect("a link on a line of its own");
        url[url.find("/users/").expect("a link of ours")..].to_owned()
    }
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
    acceptor: TlsAcceptor,
    script: Mutex<Vec<(&'static str, Act)>>,
    seen: Mutex<Vec<String>>,
    accepted: Mutex<Vec<Received>>,
}

impl SmtpServer {
    pub async fn start(security: Security) -> Self {
        Self::with(security, "localhost", "PLAIN LOGIN").await
    }

    /// With a certificate for `name`, and ways to log in.
    pub async fn with(security: Security, name: &str, mechanisms: &'static str) -> Self {
        let certified = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), certified.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(ring::default_provider().into());
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![certified.cert.der().clone()], key).unwrap();
        let shared = Arc::new(Shared {
            security,
            mechanisms,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            script: Mutex::default(),
            seen: Mutex::default(),
            accepted: Mutex::default(),
        });
        let listener = TcpListener::bind(("localhost", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(talk::serve(listener, shared.clone()));
        let scheme = if security == Security::Implicit { "smtps" } else { "smtp" };
        Self { port, scheme, folder, shared }
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

    /// Acts this way the next time `place` is reached: a command, or `GREETING`, `INSIDE` (a message) or `END` (its dot).
    pub fn next(&self, place: &'static str, act: Act) {
        self.shared.script.lock().unwrap().push((place, act));
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
        let at = script.iter().position(|(known, _)| *known == place)?;
        Some(script.remove(at).1)
    }
}
