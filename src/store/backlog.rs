//! What lies in the queue, for whoever looks at it from outside: the operator, the metrics, the sweeper.

use std::time::Duration;

use sqlx::AssertSqlSafe;

use super::outbox::{OVER, Purpose, WAITS};
use super::{Store, StoreError, in_time};
use crate::clock::Millis;

/// A queued mail as the operator sees it.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub id: String,
    pub purpose: Purpose,
    pub email: String,
    pub asked_at: Millis,
    pub deadline_at: Millis,
    pub due_at: Millis,
    pub tries: i64,
    pub state: State,
}

/// What waits to leave, those held back by the daily limit included.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub mails: i64,
    /// Those without them.
    pub free: i64,
    /// When the mail that waits the longest was asked for, and since when one has been due the longest. Not
    /// one that the daily limit holds back: that shows to nobody.
    pub oldest: Option<Millis>,
    pub oldest_due: Option<Millis>,
}

/// Where a queued mail stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Due now or later.
    Queued,
    /// A worker has it in hand.
    InHand,
    /// The daily limit keeps it back.
    HeldBack,
    /// It can't be made; somebody has to look.
    SetAside,
}

type Row = (String, String, String, i64, i64, i64, i64, Option<String>, Option<i64>, Option<i64>);

impl Store {
    /// The oldest `most` queued mails, those set aside included.
    pub async fn backlog(&self, most: i64) -> Result<Vec<Waiting>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, purpose, email, asked_at, deadline_at, due_at, tries, lease, held_at, failed_at
             FROM outbox WHERE email <> '' ORDER BY id LIMIT $1",
        )
        .bind(most)
        .fetch_all(&self.read)
        .await?;
        Ok(rows.into_iter().map(Waiting::from).collect())
    }

    /// Queues a mail that was set aside once more, or all of them, as if asked for at `now`; how many.
    pub async fn queue_again(&self, id: Option<&str>, now: Millis, lifetime: Duration) -> Result<u64, StoreError> {
        let again = sqlx::query(
            "UPDATE outbox SET failed_at = NULL, held_at = NULL, tries = 0, asked_at = $1, due_at = $1,
                 deadline_at = $2
             WHERE failed_at IS NOT NULL AND (id = $3 OR $3 = '')",
        );
        let again = again.bind(now).bind(now + lifetime.as_millis() as Millis).bind(id.unwrap_or_default());
        Ok(again.execute(&self.write).await?.rows_affected())
    }

    /// What waits to leave, at `now`.
    pub async fn pending(&self, now: Millis) -> Result<Pending, StoreError> {
        let pending = sqlx::query_as(AssertSqlSafe(format!(
            "SELECT CAST(COUNT(*) AS BIGINT), CAST(COUNT(CASE WHEN held_at IS NULL THEN 1 END) AS BIGINT),
                 MIN(CASE WHEN held_at IS NULL THEN asked_at END),
                 MIN(CASE WHEN held_at IS NULL AND due_at <= $1 THEN due_at END)
             FROM outbox WHERE {WAITS}"
        )))
        .bind(now);
        let (mails, free, oldest, oldest_due) = in_time(pending.fetch_one(&self.read)).await?;
        Ok(Pending { mails, free, oldest, oldest_due })
    }

    /// After the clock was set back: what would be due later than anything may be is due at `due_at`; how
    /// many.
    pub async fn pull_back(&self, latest: Millis, due_at: Millis) -> Result<u64, StoreError> {
        let pull = sqlx::query(AssertSqlSafe(format!("UPDATE outbox SET due_at = $1 WHERE {WAITS} AND due_at > $2")));
        Ok(pull.bind(due_at).bind(latest).execute(&self.write).await?.rows_affected())
    }

    /// Gives up mails that nobody has in hand and whose link would be too old, at most `most` of them; how
    /// many were held back by the daily limit, and how many not.
    pub async fn expire(&self, now: Millis, most: i64) -> Result<(u64, u64), StoreError> {
        let rows: Vec<(Option<i64>,)> = sqlx::query_as(AssertSqlSafe(format!(
            "WITH late AS MATERIALIZED (
                 SELECT id FROM outbox
                 WHERE {WAITS} AND deadline_at <= $1 AND (lease IS NULL OR due_at <= $1) LIMIT $2{})
             UPDATE outbox SET {OVER} WHERE id IN (SELECT id FROM late)
             RETURNING held_at",
            self.unlocked
        )))
        .bind(now)
        .bind(most)
        .fetch_all(&self.write)
        .await?;
        let held = rows.iter().filter(|(held_at,)| held_at.is_some()).count();
        Ok((held as u64, (rows.len() - held) as u64))
    }
}

impl From<Row> for Waiting {
    fn from((id, purpose, email, asked_at, deadline_at, due_at, tries, lease, held_at, failed_at): Row) -> Self {
        let state = match (failed_at, lease, held_at) {
            (Some(_), ..) => State::SetAside,
            (None, Some(_), _) => State::InHand,
            (None, None, Some(_)) => State::HeldBack,
            (None, None, None) => State::Queued,
        };
        Self { id, purpose: Purpose::read(&purpose), email, asked_at, deadline_at, due_at, tries, state }
    }
}
