//! One mail: claim, look up, decide, mint, store the hash, mail, mark.

use std::time::Duration;

use crate::app::App;
use crate::clock::Millis;
use crate::domain::token::LinkToken;
use crate::mail::SendError;
use crate::mail::messages::{Kind, Letter};
use crate::store::StoreError;
use crate::store::links::NewLink;
use crate::store::outbox::{Purpose, QueuedMail};
use crate::store::users::Account;

/// Pauses between tries, in seconds; the last one repeats until the link's deadline.
const PAUSES: [Millis; 5] = [2, 8, 20, 55, 150];

/// What became of a mail this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Sent,
    /// Nothing is to be sent: no such account, or a disabled one.
    Dropped,
    /// The server refused it for good.
    Failed,
    /// Not sent within a link's lifetime of being asked for.
    Expired,
    /// To be tried again.
    Later,
    /// It can't be made; set aside.
    SetAside,
}

impl Outcome {
    /// A label of `doorpost_mails_total`; none while the mail is still on its way.
    fn label(self) -> Option<&'static str> {
        match self {
            Self::Sent => Some("sent"),
            Self::Dropped => Some("dropped"),
            Self::Failed | Self::SetAside => Some("failed"),
            Self::Expired => Some("expired"),
            Self::Later => None,
        }
    }
}

/// Handles the next due mail; none when none is due.
pub async fn deliver_next(app: &App) -> Result<Option<Outcome>, StoreError> {
    let lease = app.config.mail_timeout * 2;
    let Some(mail) = app.store.claim(app.clock.now(), lease).await? else { return Ok(None) };
    let outcome = handle(app, &mail).await?;
    if !mark(app, &mail, outcome).await? {
        tracing::warn!(mail = mail.id, "the lease was lost to another worker; nothing marked");
    } else if let Some(label) = outcome.label() {
        app.metrics.mail(label);
    }
    Ok(Some(outcome))
}

async fn handle(app: &App, mail: &QueuedMail) -> Result<Outcome, StoreError> {
    if mail.deadline_at <= app.clock.now() {
        tracing::warn!(mail = mail.id, tries = mail.tries - 1, "mail given up: its link would be too old");
        return Ok(Outcome::Expired);
    }
    match (mail.purpose, app.store.account(&mail.email).await?) {
        (Purpose::LogIn, Account::None) | (_, Account::Disabled) => Ok(Outcome::Dropped),
        (Purpose::LogIn, Account::Active(user)) => send(app, mail, &user.email, Kind::SignIn).await,
        (Purpose::Register, Account::None) => send(app, mail, &mail.email, Kind::Welcome).await,
        (Purpose::Register, Account::Active(user)) => send(app, mail, &user.email, Kind::AlreadyRegistered).await,
    }
}

async fn send(app: &App, mail: &QueuedMail, to: &str, kind: Kind) -> Result<Outcome, StoreError> {
    // Minted now, so that the queue holds no secret.
    let (token, hash) = LinkToken::mint(app.random);
    let now = app.clock.now();
    let letter = Letter {
        id: &mail.id,
        to,
        kind,
        // Host poisoning: from BASE_URL, never from a header.
        link: app.url(&format!("/users/log-in/{}", token.text())),
        agent: &mail.agent,
        asked_at: mail.asked_at,
        now,
    };
    let letter = match letter.write(&app.config) {
        Ok(letter) => letter,
        Err(unmakeable) => {
            tracing::error!(mail = mail.id, reason = unmakeable.0, "mail set aside: it can't be made");
            return Ok(Outcome::SetAside);
        }
    };
    let purpose = if kind == Kind::Welcome { Purpose::Register } else { Purpose::LogIn };
    let until = now + app.config.link_lifetime.as_millis() as Millis;
    let link = NewLink { mail, to, purpose, hash: &hash, now, expires_at: until };
    if !app.store.mint_link(&link).await? {
        tracing::info!(mail = mail.id, "nothing to send: the lease was lost, or an earlier copy's link was used");
        return Ok(Outcome::Dropped);
    }
    let started = app.clock.monotonic();
    let sent = app.mailer.send(letter).await;
    app.metrics.smtp_took(Duration::from_micros(app.clock.monotonic() - started));
    Ok(match sent {
        Ok(()) => {
            tracing::info!(mail = mail.id, purpose = mail.purpose.text(), "mail sent");
            Outcome::Sent
        }
        Err(refusal @ SendError::Refused(_)) => {
            tracing::warn!(mail = mail.id, reason = %refusal, "mail refused by the mail server for good");
            Outcome::Failed
        }
        Err(error) => {
            tracing::warn!(mail = mail.id, tries = mail.tries, reason = %error, "mail not sent; trying again");
            Outcome::Later
        }
    })
}

/// Writes the outcome down, if the lease still holds.
async fn mark(app: &App, mail: &QueuedMail, outcome: Outcome) -> Result<bool, StoreError> {
    let now = app.clock.now();
    match outcome {
        Outcome::Later => app.store.retry(mail, (now + pause(mail.tries)).min(mail.deadline_at)).await,
        Outcome::SetAside => app.store.set_aside(mail, now).await,
        _ => app.store.remove(mail).await,
    }
}

fn pause(tries: i64) -> Millis {
    let at = (tries.max(1) as usize - 1).min(PAUSES.len() - 1);
    PAUSES[at] * 1000
}
