//! Mails: what they say, the two ways they leave, and whether they do.

pub mod fault;
pub mod health;
pub mod mailbox;
pub mod messages;
pub mod smtp;

use crate::clock::Micros;
pub use fault::{Fault, SendError};
pub use health::{Health, Turn};
pub use mailbox::Mailbox;
pub use messages::Mail;
pub use smtp::{Line, Smtp};

/// How mails leave: over SMTP, or, on a machine where somebody tries Doorpost out, into a page.
pub enum Mailer {
    Smtp(Smtp),
    Mailbox(Mailbox),
}

impl Mailer {
    /// Hands a mail over, on the connection that `line` keeps where there is one. The `next` is sent by another
    /// call, soon or not at all.
    pub async fn send(&self, line: &mut Line, mail: Mail, next: Option<&Mail>, now: Micros) -> Result<(), SendError> {
        match self {
            Self::Smtp(smtp) => smtp.send(line, &mail, next, now).await,
            Self::Mailbox(mailbox) => {
                mailbox.keep(mail);
                Ok(())
            }
        }
    }

    /// Whether a mail could leave, without one.
    pub async fn probe(&self) -> Result<(), SendError> {
        match self {
            Self::Smtp(smtp) => smtp.probe().await,
            Self::Mailbox(_) => Ok(()),
        }
    }
}
