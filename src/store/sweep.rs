//! What is over is removed in small batches, by whichever replica gets there.

use std::time::Duration;

use sqlx::AssertSqlSafe;

use super::quota::DAY;
use super::{Store, StoreError, first_id, millis};
use crate::clock::Millis;

/// What a row is compared with.
enum Bound {
    At(Millis),
    Id(String),
}

/// Each removes at most `most` rows, and says how many it were.
impl Store {
    /// Links that were asked for before `asked` and ended before `ended`. Requests are named by the time they
    /// were made, so that one index serves both.
    pub async fn sweep_links(&self, asked: Millis, ended: Millis, most: i64) -> Result<u64, StoreError> {
        let bounds = [Bound::Id(first_id(asked)), Bound::At(ended)];
        self.remove(("links", "token_hash"), "outbox_id < $1 AND expires_at <= $2", bounds, most).await
    }

    /// What is left of requests that are over and were made before `asked`.
    pub async fn sweep_requests(&self, asked: Millis, most: i64) -> Result<u64, StoreError> {
        self.remove(("outbox", "id"), "id < $1 AND email = ''", [Bound::Id(first_id(asked))], most).await
    }

    /// Mails that were set aside before `before`.
    pub async fn sweep_set_aside(&self, before: Millis, most: i64) -> Result<u64, StoreError> {
        self.remove(("outbox", "id"), "email <> '' AND failed_at <= $1", [Bound::At(before)], most).await
    }

    /// What counts no more against the daily limit.
    pub async fn sweep_places(&self, now: Millis, most: i64) -> Result<u64, StoreError> {
        self.remove(("mails_sent", "id"), "sent_at <= $1", [Bound::At(now - DAY)], most).await
    }

    /// Sessions that are over, or idle for too long.
    pub async fn sweep_sessions(&self, now: Millis, idle: Duration, most: i64) -> Result<u64, StoreError> {
        let bounds = [Bound::At(now), Bound::At(now - millis(idle))];
        self.remove(("sessions", "id"), "expires_at <= $1 OR seen_at <= $2", bounds, most).await
    }

    async fn remove<const N: usize>(
        &self,
        (table, key): (&str, &str),
        ended: &str,
        bounds: [Bound; N],
        most: i64,
    ) -> Result<u64, StoreError> {
        let (limit, unlocked) = (N + 1, self.unlocked);
        // Nothing but our own words and markers.
        let statement = AssertSqlSafe(format!(
            "WITH ended AS MATERIALIZED (SELECT {key} FROM {table} WHERE {ended} LIMIT ${limit}{unlocked})
             DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM ended)"
        ));
        let remove = bounds.into_iter().fold(sqlx::query(statement), |remove, bound| match bound {
            Bound::At(time) => remove.bind(time),
            Bound::Id(id) => remove.bind(id),
        });
        Ok(remove.bind(most).execute(&self.write).await?.rows_affected())
    }
}
