//! Links: minted by the worker, looked at by the confirm page, used once.

use std::time::Duration;

use sqlx::{AnyConnection, AssertSqlSafe};

use super::outbox::Purpose;
use super::tries::Tries;
use super::users::{self, Account, User};
use super::{Store, StoreError, in_time, sessions};
use crate::clock::Millis;
use crate::domain::token::Hash;

/// A link as the confirm page sees it, and the page of one that doesn't work any more.
#[derive(Clone, Debug)]
pub struct Link {
    pub purpose: Purpose,
    pub email: String,
    /// Hash of the secret of the browser that asked.
    pub browser: String,
    pub return_to: Option<String>,
    /// The same of the browser that used it; none while it is good, or when a sibling was used.
    pub used_browser: Option<String>,
}

/// A link to store: the hash only.
#[derive(Debug)]
pub struct NewLink {
    /// The queued mail it is for, whose address it signs in.
    pub outbox_id: String,
    pub purpose: Purpose,
    pub hash: Hash,
    /// Digest of the code beside it.
    pub code: String,
}

/// Why a link doesn't work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLink {
    Used,
    Expired,
    Unknown,
}

/// What using a link came to.
#[derive(Debug)]
pub enum Entry {
    /// This request used the link and started the session.
    SignedIn {
        user: User,
        return_to: Option<String>,
    },
    /// This very browser used it before: it is sent where it was going.
    Repeat {
        return_to: Option<String>,
    },
    Dead(DeadLink),
}

/// Who uses a link, and the session that it is to start.
#[derive(Debug)]
pub struct Use<'a> {
    pub link: &'a Hash,
    pub browser: &'a Hash,
    pub session: &'a Hash,
    /// The sessions this browser had until now, whoever's they were: they end.
    pub previous: &'a [Hash],
    pub agent: &'a str,
    pub now: Millis,
    pub session_lifetime: Duration,
}

type Row = (String, String, String, Option<String>, i64, Option<i64>, Option<String>);

impl Link {
    fn of((purpose, email, browser, return_to, _, _, used_browser): Row) -> Self {
        Self { purpose: Purpose::read(&purpose), email, browser, return_to, used_browser }
    }
}

/// Stores the links of a batch's mails; the queue ids of those whose link is stored. One statement
/// decides: nothing is stored where the lease was lost, or where an earlier copy arrived after all and
/// its link was used. An earlier try's link stays good: its mail may have arrived although we never
/// heard so, and a mailbox keeps only the first of two mails with one Message-ID. Using either ends the
/// other.
pub(super) async fn mint(
    connection: &mut AnyConnection,
    tries: &Tries,
    links: Vec<&NewLink>,
) -> sqlx::Result<Vec<String>> {
    if links.is_empty() {
        return Ok(Vec::new());
    }
    let row = |at: usize| format!("(${at}, ${}, ${}, ${})", at + 1, at + 2, at + 3);
    let rows: Vec<_> = (0..links.len()).map(|link| row(4 * link + 4)).collect();
    let statement = format!(
        "INSERT INTO links
             (token_hash, outbox_id, purpose, email, browser, return_to, code_hash, created_at, expires_at)
         SELECT new.column1, mail.id, new.column3, mail.email, mail.browser, mail.return_to, new.column4,
                CAST($1 AS BIGINT), CAST($2 AS BIGINT)
         FROM (VALUES {}) AS new JOIN outbox AS mail ON mail.id = new.column2 AND mail.lease = $3
         WHERE NOT EXISTS (SELECT 1 FROM links AS known
                           WHERE known.outbox_id = mail.id AND known.used_at IS NOT NULL)
         RETURNING outbox_id",
        rows.join(", ")
    );
    // Nothing but our own words and markers.
    let mut mint = sqlx::query_as(AssertSqlSafe(statement));
    mint = mint.bind(tries.now).bind(tries.expires_at).bind(&tries.lease);
    for link in links {
        mint = mint.bind(link.hash.as_str()).bind(&link.outbox_id).bind(link.purpose.text()).bind(&link.code);
    }
    let minted: Vec<(String,)> = mint.fetch_all(connection).await?;
    Ok(minted.into_iter().map(|(id,)| id).collect())
}

impl Store {
    /// Looks at a link without touching it, however often. A link whose account may not sign in is
    /// unknown.
    pub async fn look_at_link(&self, hash: &Hash, now: Millis) -> Result<Result<Link, DeadLink>, StoreError> {
        let Some(row) = self.link_row(hash).await? else { return Ok(Err(DeadLink::Unknown)) };
        let (.., expires_at, used_at, _) = row;
        if used_at.is_some() {
            return Ok(Err(DeadLink::Used));
        }
        if expires_at <= now {
            return Ok(Err(DeadLink::Expired));
        }
        let link = Link::of(row);
        match (link.purpose, self.account(&link.email).await?) {
            (_, Account::Disabled) | (Purpose::LogIn, Account::None) => Ok(Err(DeadLink::Unknown)),
            _ => Ok(Ok(link)),
        }
    }

    /// A link whatever its state: what one that is dead was for.
    pub async fn recall_link(&self, hash: &Hash) -> Result<Option<Link>, StoreError> {
        Ok(self.link_row(hash).await?.map(Link::of))
    }

    /// Uses a link: one transaction, one deciding statement. If anything after it fails, the link is
    /// still good.
    pub async fn use_link(&self, entry: &Use<'_>) -> Result<Entry, StoreError> {
        match in_time(self.win(entry)).await? {
            Some(entered) => Ok(entered),
            None => self.lost(entry).await,
        }
    }

    /// None where the link isn't good, or not any more.
    async fn win(&self, entry: &Use<'_>) -> sqlx::Result<Option<Entry>> {
        let mut transaction = self.write.begin().await?;
        // Race on a single-use link: of any number of posts, this changes the row for one. Its siblings end in
        // the same statement and so in one order: two of them used at once don't wait for each other. A link
        // made for another purpose never signs anybody in.
        let ended: Vec<(String, String, String, Option<String>)> = sqlx::query_as(
            "UPDATE links SET used_at = $1, used_browser = CASE WHEN token_hash = $3 THEN $2 END
             WHERE used_at IS NULL AND email = (
                 SELECT email FROM links WHERE token_hash = $3 AND used_at IS NULL AND expires_at > $1
                     AND purpose IN ('log_in', 'register'))
             RETURNING token_hash, purpose, email, return_to",
        )
        .bind(entry.now)
        .bind(entry.browser.as_str())
        .bind(entry.link.as_str())
        .fetch_all(&mut *transaction)
        .await?;
        let won = ended.into_iter().find(|(hash, ..)| hash == entry.link.as_str());
        let Some((_, purpose, email, return_to)) = won else {
            transaction.rollback().await?;
            return Ok(None);
        };
        if Purpose::read(&purpose) == Purpose::Register {
            // Pre-registration: the account comes into being here, and nothing of whoever asked
            // before the owner confirmed is in it.
            users::create(&mut transaction, &email, entry.now).await?;
        }
        let Some(user) = users::active(&mut transaction, &email).await? else {
            return Ok(Some(Entry::Dead(DeadLink::Unknown)));
        };
        sessions::start(&mut transaction, &user, entry).await?;
        transaction.commit().await?;
        Ok(Some(Entry::SignedIn { user, return_to }))
    }

    /// Somebody used the link before, or it never worked.
    async fn lost(&self, entry: &Use<'_>) -> Result<Entry, StoreError> {
        Ok(match self.link_row(entry.link).await? {
            None => Entry::Dead(DeadLink::Unknown),
            Some((.., return_to, _, Some(_), Some(browser))) if browser == entry.browser.as_str() => {
                Entry::Repeat { return_to }
            }
            Some((.., Some(_), _)) => Entry::Dead(DeadLink::Used),
            Some(_) => Entry::Dead(DeadLink::Expired),
        })
    }

    async fn link_row(&self, hash: &Hash) -> Result<Option<Row>, StoreError> {
        let row = sqlx::query_as(
            "SELECT purpose, email, browser, return_to, expires_at, used_at, used_browser
             FROM links WHERE token_hash = $1 AND purpose IN ('log_in', 'register')",
        );
        in_time(row.bind(hash.as_str()).fetch_optional(&self.read)).await
    }
}
