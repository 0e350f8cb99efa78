//! Typed codes: a try is counted before it is looked at, for known and unknown addresses alike.

use super::{Store, StoreError, in_time};
use crate::clock::Millis;
use crate::domain::token::Hash;

/// How often codes may be typed for one request.
const TRIES: i64 = 5;
/// Requests of one browser that a typed code may belong to, the latest: one that has asked a thousand times
/// must not make a try cost a thousand rows.
const LATEST: i64 = 16;

/// A code that a browser may be typing: the link it stands beside, and what it is known by. Both are empty
/// where no mail answered the request: nothing fits that.
#[derive(Debug)]
pub struct Candidate {
    pub link: Hash,
    pub digest: String,
}

impl Store {
    /// What the inboxes are known by for which this browser has asked: those that its typed codes may be of. By
    /// its own requests, and not by a cookie that says so, which anybody can forge.
    pub async fn inboxes_of(&self, browser: &Hash) -> Result<Vec<String>, StoreError> {
        let inboxes = sqlx::query_as(
            "SELECT DISTINCT inbox FROM (
                 SELECT inbox FROM outbox WHERE browser = $1 ORDER BY id DESC LIMIT $2) AS latest",
        );
        let inboxes = inboxes.bind(browser.as_str()).bind(LATEST);
        let inboxes: Vec<(String,)> = in_time(inboxes.fetch_all(&self.read)).await?;
        Ok(inboxes.into_iter().map(|(inbox,)| inbox).collect())
    }

    /// Counts a try for every request of this browser, and only then looks for the code that `fits`: of any
    /// number of tries at once, five are looked at. Also codes of links that were used, so that a second
    /// press finds what the first one did. A code that fits costs no try: whoever knows it isn't guessing.
    ///
    /// Enumeration by the code's page: each request has its row, whether or not there is an account, and
    /// every try writes to it. What is wrong, exhausted or unknown runs the same statements and waits for
    /// the same disk.
    pub async fn try_codes(
        &self,
        browser: &Hash,
        now: Millis,
        fits: impl Fn(&Candidate) -> bool,
    ) -> Result<Option<Hash>, StoreError> {
        in_time(self.count_and_find(browser, now, fits)).await
    }

    async fn count_and_find(
        &self,
        browser: &Hash,
        now: Millis,
        fits: impl Fn(&Candidate) -> bool,
    ) -> sqlx::Result<Option<Hash>> {
        let mut transaction = self.write.begin().await?;
        let count = sqlx::query(
            "UPDATE outbox SET code_tries = code_tries + 1 WHERE id IN (
                 SELECT id FROM outbox WHERE browser = $1 ORDER BY id DESC LIMIT $2)",
        );
        count.bind(browser.as_str()).bind(LATEST).execute(&mut *transaction).await?;
        let rows: Vec<(i64, Option<String>, Option<String>)> = sqlx::query_as(
            "SELECT mail.code_tries, links.token_hash, links.code_hash
             FROM (SELECT id, code_tries FROM outbox WHERE browser = $1 ORDER BY id DESC LIMIT $2) AS mail
             LEFT JOIN links ON links.outbox_id = mail.id AND links.expires_at > $3",
        )
        .bind(browser.as_str())
        .bind(LATEST)
        .bind(now)
        .fetch_all(&mut *transaction)
        .await?;
        let found = find(rows, fits);
        match found {
            Some(_) => transaction.rollback().await?,
            None => transaction.commit().await?,
        }
        Ok(found)
    }
}

/// Compares every row, also when one was found and where none can be.
fn find(rows: Vec<(i64, Option<String>, Option<String>)>, fits: impl Fn(&Candidate) -> bool) -> Option<Hash> {
    let mut found = None;
    for (tries, link, digest) in rows {
        let candidate = Candidate { link: Hash::stored(link.unwrap_or_default()), digest: digest.unwrap_or_default() };
        if fits(&candidate) && tries <= TRIES {
            found = Some(candidate.link);
        }
    }
    found
}
