//! What became of the mails in hand, marked only by whoever holds their lease.

use sqlx::{AnyConnection, AssertSqlSafe};
use uuid::Uuid;

use super::commits::{Write, Written};
use super::outbox::{OVER, QueuedMail};
use super::{Store, StoreError, markers, quota};
use crate::clock::Millis;

/// What becomes of a mail under lease.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// It is done with, sent or not: the address goes at once.
    Over,
    /// Tried again at this time; the daily limit left it a place.
    Retry(Millis),
    /// Kept back by the daily limit since `held_at`; tried again at `due_at`.
    Hold { held_at: Millis, due_at: Millis },
    /// Not its turn after all: due at once, and nothing counts as a try.
    GiveBack,
    /// Set aside at this time: it can't be made at all, and blocks nobody.
    SetAside(Millis),
}

/// As if it had never been claimed.
const GIVEN_BACK: &str = "lease = NULL, due_at = asked_at, tries = tries - 1";

/// A fate to write down, if the lease still holds.
pub struct Mark {
    /// Of one batch: they share their lease.
    ids: Vec<String>,
    lease: String,
    fate: Fate,
    /// The places under the daily limit that become free.
    places: Vec<String>,
}

impl Mark {
    /// Fenced: a worker that lost its lease can't undo what another has done. The ids that were marked.
    pub(super) async fn make(&self, connection: &mut AnyConnection) -> sqlx::Result<Vec<String>> {
        let (change, times) = match self.fate {
            Fate::Over => (OVER, vec![]),
            Fate::Retry(at) => ("lease = NULL, held_at = NULL, due_at = $2", vec![at]),
            Fate::Hold { held_at, due_at } => {
                ("lease = NULL, tries = tries - 1, due_at = $2, held_at = $3", vec![due_at, held_at])
            }
            Fate::GiveBack => (GIVEN_BACK, vec![]),
            Fate::SetAside(at) => ("lease = NULL, failed_at = $2", vec![at]),
        };
        let ids = markers(times.len() + 2, self.ids.len());
        let statement = format!("UPDATE outbox SET {change} WHERE lease = $1 AND id IN ({ids}) RETURNING id");
        // Nothing but our own words and markers.
        let mut mark = sqlx::query_as(AssertSqlSafe(statement)).bind(&self.lease);
        for at in times {
            mark = mark.bind(at);
        }
        for id in &self.ids {
            mark = mark.bind(id);
        }
        let marked: Vec<(String,)> = mark.fetch_all(&mut *connection).await?;
        quota::free(connection, &self.places).await?;
        Ok(marked.into_iter().map(|(id,)| id).collect())
    }
}

/// Gives back every mail that a process has in hand, but those that have left.
pub struct GiveBack {
    instance: Uuid,
    left: Vec<String>,
}

impl GiveBack {
    pub(super) async fn make(&self, connection: &mut AnyConnection) -> sqlx::Result<u64> {
        let but = if self.left.is_empty() {
            String::new()
        } else {
            format!("AND id NOT IN ({})", markers(2, self.left.len()))
        };
        let back = format!("UPDATE outbox SET {GIVEN_BACK} WHERE email <> '' AND lease LIKE $1 {but}");
        let back = sqlx::query(AssertSqlSafe(back)).bind(format!("{}.%", self.instance));
        let back = self.left.iter().fold(back, |back, id| back.bind(id));
        Ok(back.execute(connection).await?.rows_affected())
    }
}

impl Store {
    /// Writes down what became of mails of one batch, and gives back their places under the daily limit if
    /// the mail server certainly didn't take them. The ids of those whose lease held; the others are unchanged.
    pub async fn mark(&self, mails: &[&QueuedMail], fate: Fate, frees: bool) -> Result<Vec<String>, StoreError> {
        let Some(first) = mails.first() else { return Ok(Vec::new()) };
        let ids = mails.iter().map(|mail| mail.id.clone()).collect();
        let places = if frees { mails.iter().map(|mail| mail.try_id()).collect() } else { Vec::new() };
        let mark = Mark { ids, lease: first.lease.clone(), fate, places };
        match self.commits.write(Write::Mark(mark)).await? {
            Written::Marked(ids) => Ok(ids),
            _ => unreachable!("a mark is answered with what was marked"),
        }
    }

    /// Gives back every mail that this process has in hand but those that have `left` already; how many.
    pub async fn give_back_all_but(&self, left: Vec<String>) -> Result<u64, StoreError> {
        let back = GiveBack { instance: self.instance, left };
        match self.commits.write(Write::GiveBack(back)).await? {
            Written::Rows(rows) => Ok(rows),
            _ => unreachable!("rows are answered with how many they were"),
        }
    }
}
