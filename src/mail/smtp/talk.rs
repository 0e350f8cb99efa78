//! The dialogue with the mail server, step by step: where it stands says whose fault an error is.

use std::fmt::Display;
use std::sync::atomic::{AtomicU8, Ordering};

use lettre::transport::smtp::Error as Reply;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};

use super::Smtp;
use super::line::Line;
use super::stream;
use crate::clock::Micros;
use crate::config::smtp_url::Tls;
use crate::mail::Mail;
use crate::mail::fault::{Place, SendError};

/// A dialogue, and how far it has come: known also when it is cut off by the time-out.
pub struct Talk<'a> {
    smtp: &'a Smtp,
    place: AtomicU8,
}

impl<'a> Talk<'a> {
    pub fn with(smtp: &'a Smtp) -> Self {
        Self { smtp, place: AtomicU8::new(Place::Connecting as u8) }
    }

    /// The server said nothing for too long.
    pub fn silence(&self, reason: impl Display) -> SendError {
        SendError::silence(self.place(), reason)
    }

    /// One mail, up to the server's acceptance; then the connection is kept.
    pub async fn send(&self, line: &mut Line, mail: &Mail, now: Micros) -> Result<(), SendError> {
        let mut connection = self.begin(line, now).await?;
        self.at(Place::Recipient);
        for to in mail.message.envelope().to() {
            let to = Rcpt::new(to.clone(), vec![]);
            connection.command(to).await.map_err(|e| self.judge(&e))?;
        }
        self.at(Place::Data);
        connection.command(Data).await.map_err(|e| self.judge(&e))?;
        self.at(Place::Message);
        connection.message(&mail.message.formatted()).await.map_err(|e| self.judge(&e))?;
        line.keep(connection, now);
        Ok(())
    }

    /// A connection on which a mail has begun. One that was kept may have been closed by the server
    /// meanwhile, which is nobody's fault: then a fresh one is made.
    async fn begin(&self, line: &mut Line, now: Micros) -> Result<AsyncSmtpConnection, SendError> {
        self.at(Place::Sender);
        if let Some(mut kept) = line.take(now).await
            && kept.command(self.sender()).await.is_ok()
        {
            return Ok(kept);
        }
        self.fresh().await
    }

    /// A new connection on which a mail has begun.
    pub async fn fresh(&self) -> Result<AsyncSmtpConnection, SendError> {
        let mut connection = self.connect().await?;
        self.at(Place::Sender);
        connection.command(self.sender()).await.map_err(|e| self.judge(&e))?;
        Ok(connection)
    }

    /// A connection that is encrypted as `SMTP_URL` says, and logged in.
    async fn connect(&self) -> Result<AsyncSmtpConnection, SendError> {
        let Smtp { server, tls, hello, .. } = self.smtp;
        self.at(Place::Connecting);
        let tcp = stream::connect(&server.host, server.port).await;
        let tcp = tcp.map_err(|e| self.silence(format!("{}:{}: {e}", server.host, server.port)))?;
        let stream: Box<dyn AsyncTokioStream> = match (tls, server.tls) {
            (Some(tls), Tls::Implicit) => {
                self.at(Place::Tls);
                Box::new(stream::encrypt(tcp, tls.clone()).await.map_err(|e| self.judge(&e))?)
            }
            _ => Box::new(tcp),
        };
        self.at(Place::Greeting);
        let greeted = AsyncSmtpConnection::connect_with_transport(stream, hello).await;
        let mut connection = greeted.map_err(|e| self.judge(&e))?;
        if let (Some(tls), Tls::Required) = (tls, server.tls) {
            self.at(Place::StartTls);
            // STARTTLS stripped: this fails, and never goes on in plain text.
            connection.starttls(tls.clone(), hello).await.map_err(|e| self.judge(&e))?;
        }
        if let Some((user, password)) = &server.credentials {
            self.at(Place::LoggingIn);
            let credentials = Credentials::new(user.clone(), password.0.clone());
            let mechanisms = [Mechanism::Plain, Mechanism::Login];
            connection.auth(&mechanisms, &credentials).await.map_err(|e| self.judge(&e))?;
        }
        Ok(connection)
    }

    fn sender(&self) -> MailFrom {
        MailFrom::new(Some(self.smtp.from.clone()), vec![])
    }

    fn at(&self, place: Place) {
        self.place.store(place as u8, Ordering::Relaxed);
    }

    fn place(&self) -> Place {
        Place::ALL[usize::from(self.place.load(Ordering::Relaxed))]
    }

    fn judge(&self, reply: &Reply) -> SendError {
        SendError::judge(self.place(), reply)
    }
}
