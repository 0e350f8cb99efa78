//! Why a mail did not leave, and whose fault that is: what is to become of it follows from this alone.

use std::error::Error as _;
use std::fmt;

use lettre::Address;
use lettre::transport::smtp::Error as Reply;

use crate::telemetry::redact;

/// A mail that did not leave.
#[derive(Debug)]
pub struct SendError {
    pub fault: Fault,
    place: Place,
    /// With a reply to this mail: not by silence, and not by closing the connection.
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
    /// The operator's, perhaps: the server refused who sends, but this mail alone is known to suffer. Worth
    /// another try, since somebody may mend it.
    Sender,
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
            Place::Recipient | Place::Data | Place::Message if is_of_the_mail(place, reply) => Fault::Mail,
            Place::Recipient | Place::Data | Place::Message if reply.is_permanent() => Fault::Sender,
            _ if reply.is_permanent() => Fault::Operator,
            Place::Tls | Place::StartTls if is_tls(reply) => Fault::Operator,
            // Not offered: neither STARTTLS, nor a way to log in that we know.
            Place::StartTls | Place::LoggingIn if reply.is_client() => Fault::Operator,
            _ if reply.is_transient() => Fault::Passing,
            _ => return Self::silence(place, reply),
        };
        // 421: it closes the connection, whatever was asked.
        let answered = reply.status().map(u16::from) != Some(421);
        // Servers that repeat what was sent would put the password in the log.
        let reason = match reply.status() {
            Some(status) if place == Place::LoggingIn => format!("the server answered {status}"),
            _ => reply.to_string(),
        };
        Self { fault, place, answered, reason }
    }

    /// Without the parts of this address, which servers like to repeat.
    pub fn without(mut self, address: &Address) -> Self {
        let of_a_word = |c: char| !c.is_whitespace() && !"<>()[]\"',;:".contains(c);
        let is_personal =
            |word: &str| [address.user(), address.domain()].iter().any(|part| word.eq_ignore_ascii_case(part));
        let hidden = |piece: &str| {
            let (word, end) = piece.split_at(piece.trim_end_matches(|c| !of_a_word(c)).len());
            [if is_personal(word) { "…" } else { word }, end].concat()
        };
        self.reason = self.reason.split_inclusive(|c| !of_a_word(c)).map(hidden).collect();
        self
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
        match self.fault {
            Fault::Mail | Fault::Sender => true,
            Fault::Passing => self.answered && self.place >= Place::Recipient,
            Fault::Operator | Fault::Unreachable | Fault::Unsure => false,
        }
    }

    /// Whether it was the connection's or the mail's first command at most: another mail would have met with
    /// the same.
    pub fn is_before_the_recipient(&self) -> bool {
        self.place < Place::Recipient
    }

    /// The error, and what the operator is to change where it is for them.
    pub fn told(&self) -> String {
        self.advice().map_or_else(|| self.to_string(), |advice| format!("{self}; {advice}"))
    }

    /// What the operator is to change, if it is for them.
    pub fn advice(&self) -> Option<&'static str> {
        let advice = match self.place {
            _ if self.fault == Fault::Unreachable => {
                "check the host and the port in SMTP_URL, and whether the mail server runs"
            }
            _ if self.fault == Fault::Sender => {
                "check that the mail server lets this user send as MAIL_FROM, to everybody, and what its own limits are"
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

/// Whether a refusal for good is of this recipient or this content, and not of who sends: "relay access
/// denied" and "sender not owned by user" (5.7.x, RFC 3463) come at RCPT TO; a bad sender (5.1.7, 5.1.8) and a
/// provider's own daily limit (5.4.5) anywhere; Exchange says after the message that this client may not send
/// as this sender (5.7.60), through this connector (5.7.64), or as this tenant (5.7.70x). Those would refuse every mail until something is changed.
fn is_of_the_mail(place: Place, reply: &Reply) -> bool {
    let words = reply.source().map(ToString::to_string).unwrap_or_default();
    let detail = words.split_whitespace().next().unwrap_or_default();
    let of_the_sender = matches!(detail, "5.1.7" | "5.1.8" | "5.4.5")
        || place == Place::Recipient && detail.starts_with("5.7.")
        || place == Place::Message && (matches!(detail, "5.7.60" | "5.7.64") || detail.starts_with("5.7.70"));
    reply.is_permanent() && !of_the_sender
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
