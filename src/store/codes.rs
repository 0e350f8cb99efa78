//! Typed codes: tries counted before they are looked at, for known and unknown addresses alike.

use sqlx::{AnyConnection, AssertSqlSafe};

use super::outbox::STRANGERS;
use super::{Store, StoreError};
use crate::clock::Millis;
use crate::domain::token::Hash;

/// How often a code may be tried, right or wrong.
const TRIES: i64 = 5;

/// Codes that one browser may type at a time, the latest: one that has asked a thousand times must not make
/// a try cost a thousand rows.
const LATEST: i64 = 16;

/// A code that a browser may be typing: a link that it asked for, and what its code is known by.
#[derive(Debug)]
pub struct Candidate {
    pub link: Hash,
    pub digest: String,
}

impl Store {
    /// Counts a try of every code that this browser asked for and that isn't too old, and only then shows
    /// them: of any number of tries at once, five are looked at. Also codes of links that were used, so
    /// that a second press finds what the first one did. For an address without an account there is a row
    /// as well, whose code nothing fits.
    pub async fn try_codes(&self, browser: &Hash, now: Millis) -> Result<Vec<Candidate>, StoreError> {
        let rows: Vec<(String, String)> = sqlx::query_as(
            "UPDATE links SET code_tries = code_tries + 1
             WHERE expires_at > $2 AND code_tries < $3 AND token_hash IN (
                 SELECT token_hash FROM links WHERE browser = $1 ORDER BY outbox_id DESC LIMIT $4)
             RETURNING token_hash, code_hash",
        )
        .bind(browser.as_str())
        .bind(now)
        .bind(TRIES)
        .bind(LATEST)
        .fetch_all(&self.write)
        .await?;
        Ok(rows.into_iter().map(|(link, digest)| Candidate { link: Hash::stored(link), digest }).collect())
    }
}

/// Enumeration by the code's page: a request that no mail answers leaves a row like any other, with a
/// link and a code that nothing fits, and without the address. For those about to be dropped, all at once:
/// a flood of them is to cost little.
pub(super) async fn stand_in_for_strangers(
    connection: &mut AnyConnection,
    (now, expires_at): (Millis, Millis),
    looked_at: i64,
) -> sqlx::Result<()> {
    let statement = format!(
        "INSERT INTO links (token_hash, outbox_id, purpose, email, browser, code_hash, created_at, expires_at)
         SELECT id, id, 'none', '', browser, '', CAST($1 AS BIGINT), CAST($3 AS BIGINT)
         FROM outbox WHERE id IN ({STRANGERS}) ON CONFLICT (token_hash) DO NOTHING"
    );
    let insert = sqlx::query(AssertSqlSafe(statement)).bind(now).bind(looked_at).bind(expires_at);
    insert.execute(connection).await.map(drop)
}

/// The same for requests that were in hand: their ids and browsers.
pub(super) async fn stand_in(
    connection: &mut AnyConnection,
    requests: &[(String, String)],
    now: Millis,
    expires_at: Millis,
) -> sqlx::Result<()> {
    if requests.is_empty() {
        return Ok(());
    }
    let row = |at: usize| format!("(${}, ${}, 'none', '', ${}, '', $1, $2)", at, at, at + 1);
    let rows: Vec<_> = (0..requests.len()).map(|request| row(2 * request + 3)).collect();
    let statement = format!(
        "INSERT INTO links (token_hash, outbox_id, purpose, email, browser, code_hash, created_at, expires_at)
         VALUES {} ON CONFLICT (token_hash) DO NOTHING",
        rows.join(", ")
    );
    // Nothing but our own words and markers.
    let mut insert = sqlx::query(AssertSqlSafe(statement)).bind(now).bind(expires_at);
    for (id, browser) in requests {
        insert = insert.bind(id).bind(browser);
    }
    insert.execute(connection).await.map(drop)
}
