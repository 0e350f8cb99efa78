//! What a batch of claimed mails is to come to: decide, write, mint. Nothing has left yet.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::outcome::{Outcome, unmakeable};
use crate::app::App;
use crate::clock::Millis;
use crate::domain::code::Code;
use crate::domain::token::{Hash, LinkToken};
use crate::mail::Mail;
use crate::mail::messages::{Kind, Letter, Unmakeable};
use crate::store::StoreError;
use crate::store::links::NewLink;
use crate::store::outbox::{Purpose, QueuedMail};
use crate::store::quota::Place;
use crate::store::tries::{Begun, Tries, Try};
use crate::store::users::Account;

/// A claimed mail, and what is to be done with it.
pub struct Plan {
    pub mail: QueuedMail,
    pub step: Step,
}

/// What is to be done.
pub enum Step {
    /// Nothing leaves; that is its end, for this time.
    End(Outcome),
    /// A mail whose link is stored.
    Send(Box<Mail>),
}

impl Plan {
    /// The mail that is to leave, if one is.
    pub fn letter(&self) -> Option<&Mail> {
        match &self.step {
            Step::Send(letter) => Some(letter),
            Step::End(_) => None,
        }
    }
}

/// A mail that is written, and whose link isn't stored yet.
struct Draft {
    letter: Box<Mail>,
    kind: Kind,
    hash: Hash,
    code: String,
}

/// Plans a batch. One transaction stores all the links and takes all the places under the daily limit.
pub async fn plan(app: &App, mails: Vec<QueuedMail>) -> Result<Vec<Plan>, StoreError> {
    let drafts: Vec<_> = mails.iter().map(|mail| decide(app, mail)).collect();
    let written = mails.iter().zip(&drafts).filter_map(|(mail, draft)| Some((mail, draft.as_ref().ok()?)));
    let tries: Vec<Try> = written.map(|(mail, draft)| draft.as_try(app, mail)).collect();
    let begun = match mails.first() {
        Some(mail) if !tries.is_empty() => app.store.begin(together(app, mail.lease.clone(), tries)).await?,
        _ => Vec::new(),
    };
    let mut begun = begun.into_iter();
    let step = |draft| match draft {
        Err(outcome) => Step::End(outcome),
        Ok(Draft { letter, .. }) => match begun.next() {
            Some(Begun::Go) => Step::Send(letter),
            Some(Begun::Held) => Step::End(Outcome::Held),
            _ => Step::End(Outcome::Dropped),
        },
    };
    let steps = drafts.into_iter().map(step);
    Ok(mails.into_iter().zip(steps).map(|(mail, step)| Plan { mail, step }).collect())
}

fn decide(app: &App, mail: &QueuedMail) -> Result<Draft, Outcome> {
    if mail.deadline_at <= app.clock.now() {
        return Err(Outcome::Expired);
    }
    match (mail.purpose, mail.account) {
        (Purpose::LogIn, Account::None) | (_, Account::Disabled) => Err(Outcome::Dropped),
        (Purpose::LogIn, Account::Active) => write(app, mail, Kind::SignIn),
        (Purpose::Register, Account::None) => write(app, mail, Kind::Welcome),
        (Purpose::Register, Account::Active) => write(app, mail, Kind::AlreadyRegistered),
    }
}

fn write(app: &App, mail: &QueuedMail, kind: Kind) -> Result<Draft, Outcome> {
    // Minted now, so that the queue holds no secret.
    let (token, hash) = LinkToken::mint(app.random);
    let code = Code::mint(app.random);
    let letter = Letter {
        id: &mail.id,
        // The stored address: the account was found by it.
        to: &mail.email,
        kind,
        code: &code.text(),
        // Host poisoning: from BASE_URL, never from a header.
        link: app.url(&format!("/users/log-in/{}", token.text())),
        agent: &mail.agent,
        asked_at: mail.asked_at,
        now: app.clock.now(),
    };
    // A row that makes us panic must not take the rest of its batch with it.
    let written = catch_unwind(AssertUnwindSafe(|| letter.write(&app.config)));
    match written.unwrap_or_else(|_| Err(Unmakeable("writing it ended in a panic".to_owned()))) {
        Ok(letter) => {
            let code = code.digest(&app.code_key, &mail.browser, hash.as_str());
            Ok(Draft { letter: Box::new(letter), kind, hash, code })
        }
        Err(Unmakeable(reason)) => {
            tracing::error!(mail = mail.id, tries = mail.tries, reason, "a mail can't be made");
            Err(unmakeable(mail, app.clock.now()))
        }
    }
}

impl Draft {
    fn as_try(&self, app: &App, mail: &QueuedMail) -> Try {
        let purpose = if self.kind == Kind::Welcome { Purpose::Register } else { Purpose::LogIn };
        let link = NewLink { outbox_id: mail.id.clone(), purpose, hash: self.hash.clone(), code: self.code.clone() };
        // Flooding the plan's quota: what has no account stops short of the reserve.
        let ceiling = app.config.daily_limit.map(|limit| limit.ceiling(self.kind != Kind::Welcome));
        Try { link, place: ceiling.map(|ceiling| Place { id: mail.try_id(), ceiling }) }
    }
}

fn together(app: &App, lease: String, mails: Vec<Try>) -> Tries {
    let now = app.clock.now();
    Tries { lease, now, expires_at: now + app.config.link_lifetime.as_millis() as Millis, mails }
}
