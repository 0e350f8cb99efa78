//! What became of a mail: what is counted, and what is to be written down about it.

use crate::clock::Millis;
use crate::store::marks::Fate;
use crate::store::outbox::QueuedMail;

/// Pauses between tries, in seconds; the last one repeats until the link's deadline.
const PAUSES: [Millis; 5] = [2, 8, 20, 55, 150];
/// The longest of them, in milliseconds.
pub const LONGEST: Millis = PAUSES[PAUSES.len() - 1] * 1000;
/// How often a mail that can't be made is tried before it is set aside.
const HOPELESS: i64 = PAUSES.len() as i64;

/// What became of a mail this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Sent,
    /// Nothing is to be sent: no such account, a disabled one, or the lease was lost.
    Dropped,
    /// The server refused it for good.
    Failed,
    /// Not sent within a link's lifetime of being asked for.
    Expired,
    /// To be tried again.
    Later,
    /// As `Later`, but the server may have taken it.
    Unsure,
    /// The daily limit holds it back.
    Held,
    /// Not tried: the queue pauses, or the worker stops.
    GivenBack,
    /// It can't be made, was tried often enough, and is set aside.
    SetAside,
}

impl Outcome {
    /// The label of `Dropped`.
    pub const DROPPED: &'static str = "dropped";

    /// A label of `doorpost_mails_total`; none while the mail is still on its way.
    pub fn label(self, mail: &QueuedMail) -> Option<&'static str> {
        match self {
            Self::Sent => Some("sent"),
            Self::Dropped => Some(Self::DROPPED),
            Self::Failed | Self::SetAside => Some("failed"),
            // Counted once, when it begins.
            Self::Held if mail.held_at.is_none() => Some("held_back"),
            Self::Expired if mail.held_at.is_none() => Some("expired"),
            _ => None,
        }
    }

    /// Whether the server certainly doesn't have the mail.
    pub fn is_not_taken(self) -> bool {
        matches!(self, Self::Later | Self::GivenBack | Self::Failed)
    }

    pub fn fate(self, mail: &QueuedMail, now: Millis) -> Fate {
        let due_at = (now + pause(mail.tries)).min(mail.deadline_at);
        match self {
            Self::Sent | Self::Dropped | Self::Failed | Self::Expired => Fate::Over,
            Self::SetAside => Fate::SetAside(now),
            Self::Later | Self::Unsure => Fate::Retry(due_at),
            Self::Held => {
                let held_at = mail.held_at.unwrap_or(now);
                Fate::Hold { held_at, due_at: (now + held_for(now - held_at)).min(mail.deadline_at) }
            }
            Self::GivenBack => Fate::GiveBack,
        }
    }
}

/// What becomes of a mail that can't be made, at `now`: perhaps what stands in the way goes away.
pub fn unmakeable(mail: &QueuedMail, now: Millis) -> Outcome {
    let last = mail.tries >= HOPELESS || now + pause(mail.tries) >= mail.deadline_at;
    if last { Outcome::SetAside } else { Outcome::Later }
}

/// Until the next look at a mail that the daily limit has kept back for so long: as long again, within the
/// bounds of the other pauses.
fn held_for(length: Millis) -> Millis {
    length.clamp(pause(1), LONGEST)
}

fn pause(tries: i64) -> Millis {
    let at = (tries.max(1) as usize - 1).min(PAUSES.len() - 1);
    PAUSES[at] * 1000
}
