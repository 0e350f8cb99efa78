//! Mails: what they say, and the two ways they leave.

pub mod mailbox;
pub mod messages;
pub mod smtp;

use std::fmt;

use crate::telemetry::redact;
pub use mailbox::Mailbox;
pub use messages::Mail;
pub use smtp::Smtp;

/// How mails leave: over SMTP, or, on a machine where somebody tries Doorpost out, into a page.
pub enum Mailer {
    Smtp(Smtp),
    Mailbox(Mailbox),
}

/// A mail that did not leave.
#[derive(Debug)]
pub enum SendError {
    /// The server refused this recipient or this content for good.
    Refused(String),
    /// Anything else: worth another try until the link's deadline.
    Later(String),
}

impl Mailer {
    pub async fn send(&self, mail: Mail) -> Result<(), SendError> {
        match self {
            Self::Smtp(smtp) => smtp.send(&mail).await,
            Self::Mailbox(mailbox) => {
                mailbox.keep(mail);
                Ok(())
            }
        }
    }
}

/// Without the addresses and links that servers like to repeat.
impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(reason) | Self::Later(reason)) = self;
        f.write_str(&redact(reason))
    }
}
