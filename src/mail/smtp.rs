//! One mail over SMTP. lettre speaks the protocol; the connection is ours, since its pool mixes up
//! replies after a cancelled send and its time-out covers connecting only.

mod stream;

use std::fmt;
use std::time::Duration;

use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use url::Host;

use super::{Mail, SendError};
use crate::config::Config;
use crate::config::smtp_url::{SmtpUrl, Tls};

/// How long a server that has accepted a mail may take to say good-bye.
const GOODBYE: Duration = Duration::from_millis(500);

/// The mail server of `SMTP_URL`.
pub struct Smtp {
    server: SmtpUrl,
    tls: Option<TlsParameters>,
    hello: ClientId,
    timeout: Duration,
}

impl Smtp {
    /// The error says what is wrong with the certificate or the host name in `SMTP_URL`.
    pub fn new(server: &SmtpUrl, config: &Config) -> Result<Self, String> {
        let tls = match server.tls {
            Tls::None => None,
            Tls::Implicit | Tls::Required => Some(tls_parameters(server)?),
        };
        let hello = match config.base_url.host() {
            Some(Host::Ipv4(ip)) => ClientId::Ipv4(ip),
            Some(Host::Ipv6(ip)) => ClientId::Ipv6(ip),
            host => ClientId::Domain(host.map_or("localhost".to_owned(), |host| host.to_string())),
        };
        Ok(Self { server: server.clone(), tls, hello, timeout: config.mail_timeout })
    }

    /// Hands one mail over. The time-out is around everything, name look-up to the last reply: a
    /// tarpit costs this mail its time and nobody else's.
    pub async fn send(&self, mail: &Mail) -> Result<(), SendError> {
        let handed_over = tokio::time::timeout(self.timeout, self.dialogue(mail)).await;
        let silent = |_| SendError::Later(format!("no answer within {:?}", self.timeout));
        let mut connection = handed_over.map_err(silent)??;
        // The mail is accepted; how the connection ends, or whether it does, doesn't matter any more.
        let _ = tokio::time::timeout(GOODBYE, connection.quit()).await;
        Ok(())
    }

    /// Up to the server's acceptance.
    async fn dialogue(&self, mail: &Mail) -> Result<AsyncSmtpConnection, SendError> {
        let mut connection = self.connect().await?;
        let envelope = mail.message.envelope();
        let from = MailFrom::new(envelope.from().cloned(), vec![]);
        connection.command(from).await.map_err(|e| later("MAIL FROM", e))?;
        for to in envelope.to() {
            let to = Rcpt::new(to.clone(), vec![]);
            connection.command(to).await.map_err(|e| judged("RCPT TO", &e))?;
        }
        connection.command(Data).await.map_err(|e| judged("DATA", &e))?;
        connection.message(&mail.message.formatted()).await.map_err(|e| judged("the message", &e))?;
        Ok(connection)
    }

    /// A connection that is encrypted as `SMTP_URL` says, and logged in.
    async fn connect(&self) -> Result<AsyncSmtpConnection, SendError> {
        let tcp = stream::connect(&self.server.host, self.server.port);
        let place = || format!("connecting to {}:{}", self.server.host, self.server.port);
        let tcp = tcp.await.map_err(|e| later(&place(), e))?;
        let stream: Box<dyn AsyncTokioStream> = match (&self.tls, self.server.tls) {
            (Some(tls), Tls::Implicit) => {
                let encrypted = stream::encrypt(tcp, tls.clone()).await;
                Box::new(encrypted.map_err(|e| later("TLS", e))?)
            }
            _ => Box::new(tcp),
        };
        let connection = AsyncSmtpConnection::connect_with_transport(stream, &self.hello).await;
        let mut connection = connection.map_err(|e| later("greeting", e))?;
        if let (Some(tls), Tls::Required) = (&self.tls, self.server.tls) {
            // STARTTLS stripped: this fails, and never goes on in plain text.
            connection.starttls(tls.clone(), &self.hello).await.map_err(|e| later("STARTTLS", e))?;
        }
        if let Some((user, password)) = &self.server.credentials {
            let credentials = Credentials::new(user.clone(), password.0.clone());
            let mechanisms = [Mechanism::Plain, Mechanism::Login];
            connection.auth(&mechanisms, &credentials).await.map_err(|e| later("logging in", e))?;
        }
        Ok(connection)
    }
}

fn tls_parameters(server: &SmtpUrl) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(server.host.clone());
    if let Some(pem) = &server.ca {
        let root = Certificate::from_pem(pem).map_err(|e| format!("ca: {e}"))?;
        builder = builder.add_root_certificate(root);
    }
    builder.build_rustls().map_err(|e| e.to_string())
}

/// The operator's fault or a passing one, never the mail's: 535 and 530 are "permanent" to SMTP, but
/// a mended password mends them.
fn later(place: &str, error: impl fmt::Display) -> SendError {
    SendError::Later(format!("{place}: {error}"))
}

/// Final only where the server refused this recipient or this content.
fn judged(place: &str, error: &Error) -> SendError {
    let operators = error.status().is_some_and(|code| matches!(u16::from(code), 530 | 535 | 538));
    if error.is_permanent() && !operators {
        SendError::Refused(format!("{place}: {error}"))
    } else {
        SendError::Later(format!("{place}: {error}"))
    }
}
