//! The daily limit: what the mail server took in the last 24 hours, exactly and durably, for all
//! replicas together.

use sqlx::{AnyConnection, AssertSqlSafe};

use super::{Store, StoreError, in_time, markers};
use crate::clock::Millis;

/// How far back the limit looks.
pub(super) const DAY: Millis = 24 * 3600 * 1000;
/// A mail sent at `t` counts during `[t, t + 24 h)`.
const COUNT: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM mails_sent WHERE sent_at > $1";

/// A place under the limit that a try asks for.
#[derive(Clone, Debug)]
pub struct Place {
    /// The mail and its try.
    pub id: String,
    /// How many mails may have left in the last 24 hours before this one, and no more.
    pub ceiling: i64,
}

/// The first statement of a transaction is a write, and here a lock that replicas share: no two of
/// them take the last place.
pub(super) async fn lock_and_count(connection: &mut AnyConnection, now: Millis) -> sqlx::Result<i64> {
    super::touch(&mut *connection, "daily_limit", now).await?;
    let (sent,): (i64,) = sqlx::query_as(COUNT).bind(now - DAY).fetch_one(connection).await?;
    Ok(sent)
}

pub(super) async fn take(connection: &mut AnyConnection, place: &Place, now: Millis) -> sqlx::Result<()> {
    let take = sqlx::query("INSERT INTO mails_sent (id, sent_at) VALUES ($1, $2)").bind(&place.id).bind(now);
    take.execute(connection).await.map(drop)
}

/// Gives back the places of tries that the mail server certainly didn't take.
pub(super) async fn free(connection: &mut AnyConnection, places: &[String]) -> sqlx::Result<()> {
    if places.is_empty() {
        return Ok(());
    }
    let statement = format!("DELETE FROM mails_sent WHERE id IN ({})", markers(1, places.len()));
    let free = places.iter().fold(sqlx::query(AssertSqlSafe(statement)), |free, place| free.bind(place));
    free.execute(connection).await.map(drop)
}

impl Store {
    /// How many mails count against the limit.
    pub async fn sent_in_a_day(&self, now: Millis) -> Result<i64, StoreError> {
        let (sent,): (i64,) = in_time(sqlx::query_as(COUNT).bind(now - DAY).fetch_one(&self.read)).await?;
        Ok(sent)
    }
}
