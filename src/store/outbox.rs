//! The queue of mails: written by requests, claimed by workers under a lease, marked only by whoever
//! holds it.

use std::time::Duration;

use sqlx::AnyConnection;
use uuid::Uuid;

use super::{Store, StoreError};
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
    pub agent: String,
    pub return_to: Option<ReturnTo>,
    pub asked_at: Millis,
    pub deadline_at: Millis,
}

/// A row under lease.
#[derive(Debug)]
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
}

impl NewMail {
    pub(super) async fn insert(&self, connection: &mut AnyConnection) -> sqlx::Result<()> {
        sqlx::query(
            "INSERT INTO outbox (id, purpose, email, browser, agent, return_to, asked_at, deadline_at, due_at, tries)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0)",
        )
        .bind(Uuid::now_v7().to_string())
        .bind(self.purpose.text())
        .bind(self.email.as_str())
        .bind(self.browser.as_str())
        .bind(&self.agent)
        .bind(self.return_to.as_ref().map(ReturnTo::as_str))
        .bind(self.asked_at)
        .bind(self.deadline_at)
        .bind(self.asked_at)
        .execute(connection)
        .await
        .map(drop)
    }
}

type Row = (String, String, String, String, String, Option<String>, i64, i64, String, i64);

impl Store {
    /// Queues a mail; returns once the row would survive a power cut.
    pub async fn enqueue(&self, mail: NewMail) -> Result<(), StoreError> {
        self.commits.insert(mail).await
    }

    /// Takes the next due mail for as long as `lease`; log-ins before registrations. One statement
    /// decides who gets it.
    pub async fn claim(&self, now: Millis, lease: Duration) -> Result<Option<QueuedMail>, StoreError> {
        let row: Option<Row> = sqlx::query_as(
            "UPDATE outbox SET lease = $1, due_at = $2, tries = tries + 1
             WHERE failed_at IS NULL AND due_at <= $3 AND id IN (
                 SELECT id FROM outbox WHERE failed_at IS NULL AND due_at <= $3
                 ORDER BY purpose, due_at LIMIT 1)
             RETURNING id, purpose, email, browser, agent, return_to, asked_at, deadline_at, lease, tries",
        )
        .bind(Uuid::now_v7().to_string())
        .bind(now + lease.as_millis() as Millis)
        .bind(now)
        .fetch_optional(&self.write)
        .await?;
        Ok(row.map(QueuedMail::from))
    }

    /// The mail is done with, sent or not: the row and the address in it go at once.
    pub async fn remove(&self, mail: &QueuedMail) -> Result<bool, StoreError> {
        let done = sqlx::query("DELETE FROM outbox WHERE id = $1 AND lease = $2").bind(&mail.id).bind(&mail.lease);
        Ok(done.execute(&self.write).await?.rows_affected() == 1)
    }

    /// Gives the mail back until `due_at`.
    pub async fn retry(&self, mail: &QueuedMail, due_at: Millis) -> Result<bool, StoreError> {
        self.mark("UPDATE outbox SET lease = NULL, due_at = $3 WHERE id = $1 AND lease = $2", mail, due_at).await
    }

    /// Sets a mail aside that can't be made at all, so that it blocks nobody.
    pub async fn set_aside(&self, mail: &QueuedMail, now: Millis) -> Result<bool, StoreError> {
        self.mark("UPDATE outbox SET lease = NULL, failed_at = $3 WHERE id = $1 AND lease = $2", mail, now).await
    }

    /// Marks a mail while the lease holds. False when it was lost meanwhile, and nothing was changed.
    async fn mark(&self, statement: &'static str, mail: &QueuedMail, at: Millis) -> Result<bool, StoreError> {
        let mark = sqlx::query(statement).bind(&mail.id).bind(&mail.lease).bind(at);
        Ok(mark.execute(&self.write).await?.rows_affected() == 1)
    }

    /// Removes mails that were set aside before `before`, at most `most` of them; how many it were.
    pub async fn sweep_outbox(&self, before: Millis, most: i64) -> Result<u64, StoreError> {
        let done = sqlx::query("DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE failed_at <= $1 LIMIT $2)");
        Ok(done.bind(before).bind(most).execute(&self.write).await?.rows_affected())
    }

    /// How many mails wait to leave.
    pub async fn pending(&self) -> Result<i64, StoreError> {
        let (rows,): (i64,) = sqlx::query_as("SELECT CAST(COUNT(*) AS BIGINT) FROM outbox WHERE failed_at IS NULL")
            .fetch_one(&self.read)
            .await?;
        Ok(rows)
    }
}

impl From<Row> for QueuedMail {
    fn from(row: Row) -> Self {
        let (id, purpose, email, browser, agent, return_to, asked_at, deadline_at, lease, tries) = row;
        let purpose = Purpose::read(&purpose);
        Self { id, purpose, email, browser, agent, return_to, asked_at, deadline_at, lease, tries }
    }
}
