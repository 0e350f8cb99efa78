//! Sessions: a hash and two clocks. Ended on the server, so that a copied cookie ends with them.

use std::time::Duration;

use sqlx::AnyConnection;
use uuid::Uuid;

use super::links::Use;
use super::users::User;
use super::{Store, StoreError, in_time, millis};
use crate::clock::Millis;
use crate::domain::token::Hash;

/// A live session and whose it is.
#[derive(Clone, Debug)]
pub struct Session {
    pub user: User,
    /// The account's groups, in their order, with commas between them.
    pub groups: String,
    /// The absolute end, whatever is seen.
    pub expires_at: Millis,
}

type Row = (String, i64, i64, String, String, Option<String>);

/// Last seen is written at most once a minute, or every tenth of a shorter idle lifetime.
fn seen_every(idle: Duration) -> Millis {
    (idle.as_millis() as Millis / 10).min(60_000)
}

/// Starts a session inside the transaction that used the link, in place of the browser's last one.
pub(super) async fn start(connection: &mut AnyConnection, user: &User, entry: &Use<'_>) -> sqlx::Result<()> {
    for previous in entry.previous {
        let end = sqlx::query("DELETE FROM sessions WHERE token_hash = $1").bind(previous.as_str());
        end.execute(&mut *connection).await?;
    }
    sqlx::query(
        "INSERT INTO sessions (id, token_hash, user_id, agent, created_at, seen_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(Uuid::now_v7().to_string())
    .bind(entry.session.as_str())
    .bind(&user.id)
    .bind(entry.agent)
    .bind(entry.now)
    .bind(entry.now)
    .bind(entry.now + entry.session_lifetime.as_millis() as Millis)
    .execute(connection)
    .await
    .map(drop)
}

impl Store {
    /// The live session of a cookie's hash; notes that it was seen.
    pub async fn session(&self, token: &Hash, now: Millis, idle: Duration) -> Result<Option<Session>, StoreError> {
        let row = sqlx::query_as(
            "SELECT sessions.id, sessions.seen_at, sessions.expires_at, users.id, users.email,
                 (SELECT string_agg(name, ',' ORDER BY name) FROM user_groups WHERE user_id = users.id)
             FROM sessions JOIN users ON users.id = sessions.user_id
             WHERE sessions.token_hash = $1 AND sessions.expires_at > $2 AND sessions.seen_at > $3
               AND users.disabled_at IS NULL",
        )
        .bind(token.as_str())
        .bind(now)
        .bind(now - idle.as_millis() as Millis);
        let row: Option<Row> = in_time(row.fetch_optional(&self.read)).await?;
        let Some((id, seen_at, expires_at, user_id, email, groups)) = row else { return Ok(None) };
        if seen_at <= now - seen_every(idle)
            && let Err(error) = self.see_session(&id, now, seen_at).await
        {
            // The session lives on all the same; it only looks idle for longer.
            tracing::warn!(%error, "a visit could not be noted");
        }
        let user = User { id: user_id, email };
        Ok(Some(Session { user, groups: groups.unwrap_or_default(), expires_at }))
    }

    /// Of parallel visits that all found `seen_at`, one writes.
    async fn see_session(&self, id: &str, now: Millis, seen_at: Millis) -> Result<(), StoreError> {
        let see = sqlx::query("UPDATE sessions SET seen_at = $1 WHERE id = $2 AND seen_at = $3");
        in_time(see.bind(now).bind(id).bind(seen_at).execute(&self.write)).await.map(drop)
    }

    /// Ends one session on the server.
    pub async fn end_session(&self, token: &Hash) -> Result<(), StoreError> {
        let end = sqlx::query("DELETE FROM sessions WHERE token_hash = $1").bind(token.as_str());
        in_time(end.execute(&self.write)).await.map(drop)
    }

    /// Ends every session of an account.
    pub async fn end_all_sessions(&self, user_id: &str) -> Result<(), StoreError> {
        let end = sqlx::query("DELETE FROM sessions WHERE user_id = $1").bind(user_id);
        in_time(end.execute(&self.write)).await.map(drop)
    }

    /// How many devices are signed in to an account.
    pub async fn count_sessions(&self, user_id: &str, now: Millis, idle: Duration) -> Result<i64, StoreError> {
        let count = sqlx::query_as(
            "SELECT CAST(COUNT(*) AS BIGINT) FROM sessions
             WHERE user_id = $1 AND expires_at > $2 AND seen_at > $3",
        )
        .bind(user_id)
        .bind(now)
        .bind(now - idle.as_millis() as Millis);
        let (rows,): (i64,) = in_time(count.fetch_one(&self.read)).await?;
        Ok(rows)
    }

    /// How many sessions live, of all accounts.
    pub async fn count_all_sessions(&self, now: Millis, idle: Duration) -> Result<i64, StoreError> {
        let count =
            sqlx::query_as("SELECT CAST(COUNT(*) AS BIGINT) FROM sessions WHERE expires_at > $1 AND seen_at > $2");
        let (rows,): (i64,) = in_time(count.bind(now).bind(now - millis(idle)).fetch_one(&self.read)).await?;
        Ok(rows)
    }
}
