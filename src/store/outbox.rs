//! The queue of mails: written by requests, claimed by workers under a lease.

use std::time::Duration;

use sqlx::{AnyConnection, AssertSqlSafe};
use uuid::{Timestamp, Uuid};

use super::commits::{Write, Written};
use super::users::Account;
use super::{Store, StoreError, millis};
use crate::clock::Millis;
use crate::domain::email::Email;
use crate::domain::return_to::ReturnTo;
use crate::domain::token::Hash;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    LogIn,
    Register,
}

impl Purpose {
    /// As it stands in the database. Log-ins sort before registrations and so leave first.
    pub fn text(self) -> &'static str {
        match self {
            Self::LogIn => "log_in",
            Self::Register => "register",
        }
    }

    pub(super) fn read(text: &str) -> Self {
        if text == "register" { Self::Register } else { Self::LogIn }
    }
}

/// A row to queue. Holds no secret: the link is minted when the mail leaves.
#[derive(Clone, Debug)]
pub struct NewMail {
    pub purpose: Purpose,
    pub email: Email,
    /// Hash of the asking browser's secret.
    pub browser: Hash,
    /// What the inbox is known by when codes are typed for it.
    pub inbox: String,
    pub agent: String,
    pub return_to: Option<ReturnTo>,
    pub asked_at: Millis,
    pub deadline_at: Millis,
}

/// A row under lease.
#[derive(Clone, Debug)]
pub struct QueuedMail {
    pub id: String,
    pub purpose: Purpose,
    pub email: String,
    pub browser: String,
    pub agent: String,
    pub return_to: Option<String>,
    pub asked_at: Millis,
    pub deadline_at: Millis,
    pub lease: String,
    /// How often it was tried, this time included.
    pub tries: i64,
    /// Since when the daily limit keeps it back.
    pub held_at: Option<Millis>,
    /// Whose address it is. The account's address is this very one: it was found by it.
    pub account: Account,
}

impl QueuedMail {
    /// What this try, and no other, is called where it takes a place under the daily limit.
    pub fn try_id(&self) -> String {
        format!("{}/{}", self.id, self.lease)
    }
}

impl NewMail {
    pub(super) async fn insert(&self, id: Uuid, connection: &mut AnyConnection) -> sqlx::Result<u64> {
        let insert = sqlx::query(
            "INSERT INTO outbox
                 (id, purpose, email, browser, inbox, agent, return_to, asked_at, deadline_at, due_at, tries)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0)",
        )
        .bind(id.to_string())
        .bind(self.purpose.text())
        .bind(self.email.as_str())
        .bind(self.browser.as_str())
        .bind(&self.inbox)
        .bind(&self.agent)
        .bind(self.return_to.as_ref().map(ReturnTo::as_str))
        .bind(self.asked_at)
        .bind(self.deadline_at)
        .bind(self.asked_at);
        Ok(insert.execute(connection).await?.rows_affected())
    }
}

/// A claim for the next due mails.
pub struct Claim {
    lease: String,
    now: Millis,
    until: Millis,
    most: i64,
    unlocked: &'static str,
}

/// What a claim came to.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    pub mails: Vec<QueuedMail>,
    /// Log-ins without an account, which are over at once.
    pub dropped: u64,
}

/// What is left of a row whose mail has left, or will not: nothing of the person, and what is needed for a
/// code to be typed.
pub(super) const OVER: &str = "email = '', agent = '', return_to = NULL, lease = NULL";
/// What still waits; in the words of the index.
pub(super) const WAITS: &str = "email <> '' AND failed_at IS NULL";
/// The longest due log-ins that one claim looks through for those without an account.
const LOOKED_AT: i64 = 256;

impl Claim {
    pub(super) async fn make(&self, connection: &mut AnyConnection) -> sqlx::Result<Claimed> {
        let dropped = self.drop_strangers(&mut *connection).await?;
        Ok(Claimed { mails: self.take(connection).await?, dropped })
    }

    /// A flood of log-ins for made-up addresses leaves the queue as cheaply as it can. Among the first few
    /// only: those before them are taken by this very claim.
    async fn drop_strangers(&self, connection: &mut AnyConnection) -> sqlx::Result<u64> {
        let drop = sqlx::query(AssertSqlSafe(format!(
            "WITH nearest AS MATERIALIZED (
                 SELECT id, email FROM outbox WHERE {WAITS} AND purpose = 'log_in' AND due_at <= $1
                 ORDER BY due_at LIMIT $2{})
             UPDATE outbox SET {OVER} WHERE id IN (
                 SELECT id FROM nearest WHERE NOT EXISTS (SELECT 1 FROM users WHERE users.email = nearest.email))",
            self.unlocked
        )));
        Ok(drop.bind(self.now).bind(LOOKED_AT).execute(connection).await?.rows_affected())
    }

    /// One statement decides who gets them, and looks up whose they are.
    async fn take(&self, connection: &mut AnyConnection) -> sqlx::Result<Vec<QueuedMail>> {
        let rows: Vec<Row> = sqlx::query_as(AssertSqlSafe(format!(
            "WITH next AS MATERIALIZED (
                 SELECT id FROM outbox WHERE {WAITS} AND due_at <= $3 ORDER BY purpose, due_at LIMIT $4{})
             UPDATE outbox SET lease = $1, due_at = $2, tries = tries + 1 WHERE id IN (SELECT id FROM next)
             RETURNING id, purpose, email, browser, agent, return_to, asked_at, deadline_at, lease, tries, held_at,
                 (SELECT CASE WHEN disabled_at IS NULL THEN 'active' ELSE 'disabled' END
                  FROM users WHERE users.email = outbox.email)",
            self.unlocked
        )))
        .bind(&self.lease)
        .bind(self.until)
        .bind(self.now)
        .bind(self.most)
        .fetch_all(connection)
        .await?;
        let mut mails: Vec<_> = rows.into_iter().map(QueuedMail::from).collect();
        // RETURNING keeps no order.
        mails.sort_by(|a, b| (a.purpose.text(), a.asked_at, &a.id).cmp(&(b.purpose.text(), b.asked_at, &b.id)));
        Ok(mails)
    }
}

type Row = (String, String, String, String, String, Option<String>, i64, i64, String, i64, Option<i64>, Option<String>);

impl Store {
    /// Queues a mail; returns once the row would survive a power cut.
    pub async fn enqueue(&self, mail: NewMail) -> Result<(), StoreError> {
        // By the time that was handed in, which its sweeping goes by.
        let asked_at = mail.asked_at.max(0) as u64;
        let at = Timestamp::from_unix(&*self.ids, asked_at / 1000, (asked_at % 1000) as u32 * 1_000_000);
        self.commits.write(Write::Queue(Uuid::new_v7(at), mail)).await.map(drop)
    }

    /// Takes at most `most` of the due mails for as long as `lease`; log-ins before registrations, the
    /// longest due first.
    pub async fn claim(&self, now: Millis, lease: Duration, most: i64) -> Result<Claimed, StoreError> {
        let (until, lease) = (now + millis(lease), format!("{}.{}", self.instance, Uuid::now_v7()));
        let claim = Claim { lease, now, until, most, unlocked: self.unlocked };
        match self.commits.write(Write::Claim(claim)).await? {
            Written::Claimed(claimed) => Ok(claimed),
            _ => unreachable!("a claim is answered with what was claimed"),
        }
    }
}

impl From<Row> for QueuedMail {
    fn from(row: Row) -> Self {
        let (id, purpose, email, browser, agent, return_to, asked_at, deadline_at, lease, tries, held_at, account) =
            row;
        let purpose = Purpose::read(&purpose);
        let account = match account.as_deref() {
            None => Account::None,
            Some("active") => Account::Active,
            Some(_) => Account::Disabled,
        };
        Self { id, purpose, email, browser, agent, return_to, asked_at, deadline_at, lease, tries, held_at, account }
    }
}
