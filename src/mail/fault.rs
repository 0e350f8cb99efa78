//! Why a mail did not leave, and whose fault that is: what is to become of it follows from this alone.

use std::error::Error as _;
use std::fmt;

use lettre::transport::smtp::Error as Reply;

use crate::telemetry::redact;

/// A mail that did not leave.
#[derive(Debug)]
pub struct SendError {
    pub fault: Fault,
    place: Place,
    /// With a reply, and not by silence.
    answered: bool,
    /// In the server's words, which may repeat an address.
    reason: String,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The mail's: the server refused this recipient or this content for good.
    Mail,
    /// The operator's: no mail leaves until something is changed.
    Operator,
    /// The server isn't there: nothing of the mail was said.
    Unreachable,
    /// A passing one; worth another try until the link's deadline.
    Passing,
    /// Unknown: the connection was lost behind the final dot, so the mail may have been taken.
    Unsure,
}

/// Where in the dialogue it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Connecting,
    Tls,
    Greeting,
    StartTls,
    LoggingIn,
    Sender,
    Recipient,
    Data,
    Message,
}

impl Place {
    pub const ALL: [Self; 9] = [
        Self::Connecting,
        Self::Tls,
        Self::Greeting,
        Self::StartTls,
        Self::LoggingIn,
        Self::Sender,
        Self::Recipient,
        Self::Data,
        Self::Message,
    ];
}

impl SendError {
    /// Judges what the server said by where it did.
    pub fn judge(place: Place, reply: &Reply) -> Self {
        let fault = match place {
            // "Permanent" to SMTP, but a mended password mends it: 535 is never the mail's fault.
            _ if matches!(reply.status().map(u16::from), Some(530 | 534 | 535 | 538)) => Fault::Operator,
            Place::Recipient | Place::Data | Place::Message if reply.is_permanent() => Fault::Mail,
            _ if reply.is_permanent() => Fault::Operator,
            Place::Tls | Place::StartTls if is_tls(reply) => Fault::Operator,
            // Not offered: neither STARTTLS, nor a way to log in that we know.
            Place::StartTls | Place::LoggingIn if reply.is_client() => Fault::Operator,
            _ if reply.is_transient() => Fault::Passing,
            _ => return Self::silence(place, reply),
        };
        Self { fault, place, answered: true, reason: reply.to_string() }
    }

    /// No reply at all, or none that can be read.
    pub fn silence(place: Place, reason: impl fmt::Display) -> Self {
        let fault = match place {
            Place::Connecting | Place::Tls | Place::Greeting => Fault::Unreachable,
            Place::Message => Fault::Unsure,
            _ => Fault::Passing,
        };
        Self { fault, place, answered: false, reason: reason.to_string() }
    }

    /// Whether the server spoke of this mail alone, so that the next one may fare better.
    pub fn is_about_the_mail(&self) -> bool {
        self.fault == Fault::Mail || self.fault == Fault::Passing && self.answered && self.place >= Place::Recipient
    }

    /// What the operator is to change, if it is for them.
    pub fn advice(&self) -> Option<&'static str> {
        let advice = match self.place {
            _ if self.fault == Fault::Unreachable => {
                "check the host and the port in SMTP_URL, and whether the mail server runs"
            }
            _ if self.fault != Fault::Operator => return None,
            Place::Tls | Place::StartTls => {
                "check SMTP_URL: smtps:// is TLS from the first byte, smtp:// is STARTTLS, ?ca=FILE trusts another \
                 root, ?tls=none is plain text to a relay on this machine, and the host must be the one the \
                 certificate names"
            }
            Place::Sender => "check that the mail server lets this user send as MAIL_FROM",
            Place::Connecting | Place::Greeting => "the mail server turns this machine away: ask whoever runs it",
            _ => "check the user and the password in SMTP_URL",
        };
        Some(advice)
    }
}

/// Whether the other side broke the rules of TLS or isn't who it should be, and not merely the line.
fn is_tls(reply: &Reply) -> bool {
    let mut cause = reply.source();
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return io.kind() == std::io::ErrorKind::InvalidData;
        }
        cause = error.source();
    }
    reply.is_tls()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "connecting",
            Self::Tls => "TLS",
            Self::Greeting => "greeting",
            Self::StartTls => "STARTTLS",
            Self::LoggingIn => "logging in",
            Self::Sender => "MAIL FROM",
            Self::Recipient => "RCPT TO",
            Self::Data => "DATA",
            Self::Message => "the message",
        })
    }
}

/// Without the addresses and links that servers like to repeat.
impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, redact(&self.reason))
    }
}
