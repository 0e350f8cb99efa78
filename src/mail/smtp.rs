//! Mails over SMTP. lettre speaks the protocol; the connection is ours, since its pool mixes up
//! replies after a cancelled send and its time-out covers connecting only.

mod line;
mod stream;
mod talk;

use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::client::{Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use url::Host;

use super::Mail;
use super::fault::SendError;
use crate::clock::Micros;
use crate::config::Config;
use crate::config::smtp_url::{SmtpUrl, Tls};
pub use line::Line;
use line::goodbye;
use talk::Talk;

/// The mail server of `SMTP_URL`.
pub struct Smtp {
    server: SmtpUrl,
    tls: Option<TlsParameters>,
    hello: ClientId,
    from: Address,
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
        let from = config.mail_from.email.clone();
        Ok(Self { server: server.clone(), tls, hello, from, timeout: config.mail_timeout })
    }

    /// Hands one mail over, and begins the `next` if it is known. The time-out is around everything, name look-up to the last reply: a
    /// tarpit costs this mail its time and nobody else's.
    pub async fn send(&self, line: &mut Line, mail: &Mail, next: Option<&Mail>, now: Micros) -> Result<(), SendError> {
        let talk = Talk::with(self);
        let sent = tokio::time::timeout(self.timeout, talk.send(line, mail, next, now)).await;
        let sent = sent.unwrap_or_else(|_| Err(talk.silence(self.too_long())));
        sent.map_err(|error| mail.message.envelope().to().iter().fold(error, SendError::without))
    }

    /// Goes as far as a mail's first command, without a mail: whether mails could leave.
    pub async fn probe(&self) -> Result<(), SendError> {
        let talk = Talk::with(self);
        let begun = tokio::time::timeout(self.timeout, talk.try_out()).await;
        goodbye(begun.unwrap_or_else(|_| Err(talk.silence(self.too_long())))?).await;
        Ok(())
    }

    fn too_long(&self) -> String {
        format!("no answer within {} s", self.timeout.as_secs())
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
