//! The dialogue with the mail server, step by step: where it stands says whose fault an error is.

use std::fmt::Display;
use std::sync::atomic::{AtomicU8, Ordering};

use lettre::transport::smtp::Error as Reply;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Ehlo, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::response::{Response, Severity};

use super::Smtp;
use super::line::{Line, Wire};
use super::stream;
use crate::clock::Micros;
use crate::config::smtp_url::Tls;
use crate::mail::Mail;
use crate::mail::fault::{Place, SendError};

const DONE: Severity = Severity::PositiveCompletion;
/// 354: now the message.
const GO_ON: Severity = Severity::PositiveIntermediate;

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

    /// One mail, up to the server's acceptance; then the connection is kept. The commands before the `next`
    /// one go with its end where the server takes them so (RFC 2920, 3.1), which spares both sides a wake-up.
    pub async fn send(&self, line: &mut Line, mail: &Mail, next: Option<&Mail>, now: Micros) -> Result<(), SendError> {
        let mut wire = self.begin(line, mail, now).await?;
        self.at(Place::Message);
        let mut end = stuffed(mail);
        let next = next.filter(|_| wire.pipelines);
        end.extend(next.iter().flat_map(|next| self.steps(next)).map(|(_, command)| command));
        let taken = wire.connection.command(end).await.map_err(|e| self.judge(&e))?;
        self.expect(&taken, DONE)?;
        line.keep(wire, now, next);
        Ok(())
    }

    /// Whether a mail could leave, as far as that is known without one.
    pub async fn try_out(&self) -> Result<Wire, SendError> {
        let mut wire = self.connect().await?;
        self.at(Place::Sender);
        wire.connection.command(self.sender()).await.map_err(|e| self.judge(&e))?;
        Ok(wire)
    }

    /// A connection that waits for the message. One that was kept may have been closed by the server
    /// meanwhile, which is nobody's fault: then a fresh one is made.
    async fn begin(&self, line: &mut Line, mail: &Mail, now: Micros) -> Result<Wire, SendError> {
        self.at(Place::Sender);
        if let Some((mut kept, begun)) = line.take(mail, now).await {
            match self.envelope(&mut kept, mail, begun).await {
                Ok(()) => return Ok(kept),
                Err(_) if self.place() == Place::Sender => {}
                Err(error) => return Err(error),
            }
        }
        let mut fresh = self.connect().await?;
        self.envelope(&mut fresh, mail, false).await?;
        Ok(fresh)
    }

    /// The commands before the message, unless they were written already: all at once where the server says
    /// that it takes them so, and else one after the other.
    async fn envelope(&self, wire: &mut Wire, mail: &Mail, written: bool) -> Result<(), SendError> {
        let steps = self.steps(mail);
        let at_once = wire.pipelines && !written;
        let mut together = at_once.then(|| steps.iter().map(|(_, command)| command.as_str()).collect::<String>());
        for (place, command) in &steps {
            self.at(*place);
            let reply = match together.take() {
                Some(all) => wire.connection.command(all).await,
                None if wire.pipelines => wire.connection.read_response().await,
                None => wire.connection.command(command).await,
            };
            let reply = reply.map_err(|e| self.judge(&e))?;
            // A server that says more than it was asked would have us take one reply for another, and a
            // refused mail for one that left.
            let wanted = if *place == Place::Data { GO_ON } else { DONE };
            self.expect(&reply, wanted)?;
        }
        Ok(())
    }

    fn steps(&self, mail: &Mail) -> Vec<(Place, String)> {
        let mut steps = vec![(Place::Sender, self.sender().to_string())];
        for to in mail.message.envelope().to() {
            steps.push((Place::Recipient, Rcpt::new(to.clone(), vec![]).to_string()));
        }
        steps.push((Place::Data, Data.to_string()));
        steps
    }

    fn expect(&self, reply: &Response, wanted: Severity) -> Result<(), SendError> {
        if reply.code().severity == wanted { Ok(()) } else { Err(self.silence("a reply at the wrong place")) }
    }

    /// A connection that is encrypted as `SMTP_URL` says, and logged in.
    async fn connect(&self) -> Result<Wire, SendError> {
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
        // lettre keeps to itself what else the server can do.
        let offers = connection.command(Ehlo::new(hello.clone())).await.map_err(|e| self.judge(&e))?;
        let pipelines = offers.message().any(|offer| offer.eq_ignore_ascii_case("PIPELINING"));
        if let Some((user, password)) = &server.credentials {
            self.at(Place::LoggingIn);
            let credentials = Credentials::new(user.clone(), password.0.clone());
            let mechanisms = [Mechanism::Plain, Mechanism::Login];
            connection.auth(&mechanisms, &credentials).await.map_err(|e| self.judge(&e))?;
        }
        Ok(Wire { connection, pipelines })
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

/// A message as it goes over the wire, its end included, to be written at once: lettre writes the final dot
/// by itself, which costs both sides a wake-up.
fn stuffed(mail: &Mail) -> String {
    let message = mail.message.formatted();
    let mut message = String::from_utf8(message).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    // SMTP smuggling: the one CR LF dot CR LF is ours (RFC 5321, 4.5.2). lettre leaves no bare CR or LF.
    if message.contains("\r\n.") {
        message = message.replace("\r\n.", "\r\n..");
    }
    if message.starts_with('.') {
        message.insert(0, '.');
    }
    message.push_str("\r\n.\r\n");
    message
}
