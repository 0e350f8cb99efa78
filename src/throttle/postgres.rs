//! The counters of several replicas, in the PostgreSQL that they share. Every replica enforces one limit.

pub mod statement;

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};
use tokio::time::timeout;

use super::log::Verdict;
use super::{Answer, Failure, Hit, SharedCounters};

/// A small pool of its own: requests that wait for the rest of the database don't stand in its way.
const CONNECTIONS: u32 = 4;
/// Longest wait for a connection, and then for the answer: less than a request may lose together.
const FOR_A_CONNECTION: Duration = Duration::from_millis(120);
const FOR_AN_ANSWER: Duration = Duration::from_millis(150);
/// The server gives up a little earlier by itself, so that the connection can be kept.
const STATEMENT_TIMEOUT: &str = "120";

/// Not logged: after a crash of the server the counters start afresh, and a hit costs no disk. No index but the
/// key's: with one that every hit changes, a hit would cost twice as much.
const TABLE: &str = "
    CREATE UNLOGGED TABLE IF NOT EXISTS throttle_hits (
        key    BYTEA         NOT NULL PRIMARY KEY,  -- 16 bytes, never text
        at     TIMESTAMPTZ   NOT NULL,              -- the last decision; each is later than the one before
        first  TIMESTAMPTZ[] NOT NULL DEFAULT '{}', -- instants of allowed hits, ascending, at most as many
        second TIMESTAMPTZ[] NOT NULL DEFAULT '{}'  -- as the limit: of an inbox or of codes; or burst and hourly
    ) WITH (fillfactor = 70)";
/// Replicas that start together make it one after the other.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7238230541180596337)";

/// Rows that are looked at together for what is over, and how often in one sweep.
const PAGE: i64 = 500;
const PAGES: usize = 80;

/// The counters in PostgreSQL.
pub struct PostgresCounters {
    pool: PgPool,
    statements: Statements,
    /// Nothing counts any more so long after the last decision.
    longest: PgInterval,
    /// Whether the table is there; it may have been dropped.
    ready: AtomicBool,
    /// Where the last sweep ended.
    swept: Mutex<Vec<u8>>,
}

impl PostgresCounters {
    /// The counters in the database of `DATABASE_URL`, none of which looks further back than `longest`; connects
    /// when it is needed. The error says what can't be read.
    pub fn new(url: &str, longest: Duration) -> Result<Self, String> {
        let options = PgConnectOptions::from_str(url).map_err(|e| e.to_string())?.disable_statement_logging();
        let options = options.options([
            ("statement_timeout", STATEMENT_TIMEOUT),
            // The statement reads the latest version of a row, and decides by it.
            ("default_transaction_isolation", "read committed"),
        ]);
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(FOR_A_CONNECTION)
            .test_before_acquire(false)
            .connect_lazy_with(options);
        let (statements, ready) = (Statements::default(), AtomicBool::new(false));
        Ok(Self { pool, statements, longest: interval(longest), ready, swept: Mutex::default() })
    }

    async fn ask(&self, hits: &[Hit]) -> Result<Vec<Verdict>, Failure> {
        let mut connection = self.pool.acquire().await.map_err(told)?;
        match timeout(FOR_AN_ANSWER, self.settle_on(&mut connection, hits)).await {
            Ok(Ok(verdicts)) => Ok(verdicts),
            Ok(Err(error)) => {
                // Dropped, perhaps: made again when it is asked the next time.
                self.ready.store(false, Ordering::Relaxed);
                Err(told(error))
            }
            Err(_) => {
                // Cut off: nobody may wait for the rest of its answer.
                drop(connection.detach());
                Err(Box::new("PostgreSQL doesn't answer"))
            }
        }
    }

    async fn settle_on(&self, connection: &mut PgConnection, hits: &[Hit]) -> sqlx::Result<Vec<Verdict>> {
        if !self.ready.load(Ordering::Relaxed) {
            make_table(connection).await?;
            self.ready.store(true, Ordering::Relaxed);
        }
        let rows: Vec<&[Hit]> = hits.chunk_by(|one, next| one.key == next.key).collect();
        // Nothing but our own words and markers.
        let mut settle = sqlx::query(AssertSqlSafe(self.statements.of(&rows)));
        for row in rows {
            settle = settle.bind(row[0].key.bytes());
            for hit in row {
                settle = settle.bind(interval(hit.window)).bind(hit.limit as i32);
            }
        }
        verdicts(&settle.fetch_one(connection).await?, hits.len())
    }

    /// One page of the table, in the order of the keys: removes what is over.
    async fn sweep_page(&self) -> sqlx::Result<Page> {
        let from = self.swept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let seen: Vec<(Vec<u8>, bool, bool)> =
            sqlx::query_as(statement::SEEN).bind(from).bind(PAGE).bind(self.longest).fetch_all(&self.pool).await?;
        let of = |wanted: fn(&(Vec<u8>, bool, bool)) -> bool| -> Vec<_> {
            seen.iter().filter(|row| wanted(row)).map(|(key, ..)| key.clone()).collect()
        };
        let (over, ahead) = (of(|(_, over, _)| *over), of(|(_, _, ahead)| *ahead));
        let removed = sqlx::query(statement::REMOVE).bind(over).bind(self.longest).execute(&self.pool).await?;
        if !ahead.is_empty() {
            sqlx::query(statement::SET_BACK).bind(ahead).execute(&self.pool).await?;
        }
        let last = (seen.len() as i64) < PAGE;
        let end = seen.into_iter().next_back().filter(|_| !last).map(|(key, ..)| key);
        *self.swept.lock().unwrap_or_else(PoisonError::into_inner) = end.unwrap_or_default();
        Ok(Page { removed: removed.rows_affected(), last })
    }
}

impl SharedCounters for PostgresCounters {
    fn settle<'a>(&'a self, hits: &'a [Hit]) -> Answer<'a, Vec<Verdict>> {
        Box::pin(self.ask(hits))
    }

    fn sweep(&self) -> Answer<'_, u64> {
        Box::pin(async move {
            let mut removed = 0;
            for _ in 0..PAGES {
                // Not there yet, or just dropped: there is nothing to sweep.
                if !self.ready.load(Ordering::Relaxed) {
                    break;
                }
                let page = self.sweep_page().await.map_err(told)?;
                removed += page.removed;
                if page.last {
                    break;
                }
            }
            Ok(removed)
        })
    }

    fn name(&self) -> &'static str {
        "postgres"
    }
}

async fn make_table(connection: &mut PgConnection) -> sqlx::Result<()> {
    let mut transaction = connection.begin().await?;
    sqlx::query(LOCK).execute(&mut *transaction).await?;
    sqlx::raw_sql(TABLE).execute(&mut *transaction).await?;
    transaction.commit().await
}

/// Those that are needed all the time: a network and an inbox, a network alone, one log alone.
struct Statements([(&'static [usize], Arc<str>); 3]);

impl Default for Statements {
    fn default() -> Self {
        let of = |logs: &'static [usize]| (logs, statement::settling(logs.iter().copied()).into());
        Self([of(&[2, 1]), of(&[2]), of(&[1])])
    }
}

impl Statements {
    fn of(&self, rows: &[&[Hit]]) -> Arc<str> {
        let logs = rows.iter().map(|row| row.len());
        let ready = self.0.iter().find(|(of, _)| of.iter().copied().eq(logs.clone()));
        ready.map_or_else(|| statement::settling(logs).into(), |(_, statement)| statement.clone())
    }
}

/// What became of a page.
struct Page {
    removed: u64,
    last: bool,
}

/// Three columns for each hit, of which those behind a refusal mean nothing.
fn verdicts(row: &PgRow, hits: usize) -> sqlx::Result<Vec<Verdict>> {
    let mut verdicts = Vec::with_capacity(hits);
    for column in (0..hits).map(|hit| 3 * hit) {
        if row.try_get(column)? {
            let count: i32 = row.try_get(column + 1)?;
            verdicts.push(Verdict::Allow { count: count as u32 });
        } else {
            let wait: PgInterval = row.try_get(column + 2)?;
            let micros = i64::from(wait.days) * 24 * 3600 * 1_000_000 + wait.microseconds;
            verdicts.push(Verdict::Deny { retry_after: Duration::from_micros(micros.max(1) as u64) });
            break;
        }
    }
    Ok(verdicts)
}

fn interval(length: Duration) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: length.as_micros() as i64 }
}

fn told(error: sqlx::Error) -> Failure {
    Box::new(error.to_string())
}
