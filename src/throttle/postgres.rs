//! The counters of several replicas, in the PostgreSQL that they share. Every replica enforces one limit.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::time::{error::Elapsed, timeout};

use super::log::Verdict;
use super::{Answer, Failure, Hit, SharedCounters};

/// A small pool of its own: requests that wait for the rest of the database don't stand in its way.
const CONNECTIONS: u32 = 4;
/// Longest wait for a connection, and then for the answer: less than a request may lose together.
const FOR_A_CONNECTION: Duration = Duration::from_millis(120);
const FOR_AN_ANSWER: Duration = Duration::from_millis(150);
/// The server gives up a little earlier by itself, so that the connection can be kept.
const STATEMENT_TIMEOUT: &str = "120";

/// Instants are µs since the epoch, by the database's clock: whatever the replicas' clocks say.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// Not logged: after a crash of the server the counters start afresh, and a hit costs no disk.
const TABLE: &str = "
    CREATE UNLOGGED TABLE IF NOT EXISTS throttle_hits (
        key     BYTEA    NOT NULL, -- 16 bytes, never text
        counter SMALLINT NOT NULL, -- which of the counters
        hits    BIGINT[] NOT NULL, -- instants of allowed hits, ascending, at most as many as the limit
        allowed BOOLEAN  NOT NULL, -- the last verdict
        at      BIGINT   NOT NULL, -- its instant; never goes back, so that a clock set back locks nobody out
        ends_at BIGINT   NOT NULL, -- nothing counts any more from then on
        PRIMARY KEY (key, counter)
    ) WITH (fillfactor = 70);
    CREATE INDEX IF NOT EXISTS throttle_hits_ends_at ON throttle_hits (ends_at)";
/// Replicas that start together make it one after the other.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7238230541180596337)";

/// Hits of one request at most.
const MOST: usize = 3;

/// The counters in PostgreSQL.
pub struct PostgresCounters {
    pool: PgPool,
    /// For so many hits each, less one.
    statements: [String; MOST],
    /// Whether the table is there; it may have been dropped.
    ready: AtomicBool,
}

impl PostgresCounters {
    /// The counters in the database of `DATABASE_URL`; connects when it is needed. The error says what can't
    /// be read.
    pub fn new(url: &str) -> Result<Self, String> {
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
        Ok(Self { pool, statements: std::array::from_fn(|at| statement(at + 1)), ready: AtomicBool::new(false) })
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
            Err(silence) => {
                // Cut off: nobody may wait for the rest of its answer.
                drop(connection.detach());
                Err(told_silence(silence))
            }
        }
    }

    async fn settle_on(&self, connection: &mut PgConnection, hits: &[Hit]) -> sqlx::Result<Vec<Verdict>> {
        if !self.ready.load(Ordering::Relaxed) {
            make_table(connection).await?;
            self.ready.store(true, Ordering::Relaxed);
        }
        // Nothing but our own words and markers.
        let mut settle = sqlx::query_as(AssertSqlSafe(self.statements[hits.len() - 1].as_str()));
        for hit in hits {
            let (window, limit) = (hit.window.as_micros() as i64, hit.limit as i32);
            settle = settle.bind(hit.key.bytes()).bind(hit.counter as i16).bind(window).bind(limit);
        }
        let rows: Vec<(bool, i32, i64)> = settle.fetch_all(connection).await?;
        Ok(rows.into_iter().map(verdict).collect())
    }
}

impl SharedCounters for PostgresCounters {
    fn settle<'a>(&'a self, hits: &'a [Hit]) -> Answer<'a, Vec<Verdict>> {
        Box::pin(self.ask(hits))
    }

    fn sweep(&self, most: i64) -> Answer<'_, u64> {
        Box::pin(async move {
            if !self.ready.load(Ordering::Relaxed) {
                return Ok(0);
            }
            let statement = AssertSqlSafe(format!(
                "WITH ended AS MATERIALIZED (
                     SELECT key, counter FROM throttle_hits WHERE ends_at <= {CLOCK} LIMIT $1 FOR UPDATE SKIP LOCKED)
                 DELETE FROM throttle_hits WHERE (key, counter) IN (SELECT key, counter FROM ended)"
            ));
            let removed = sqlx::query(statement).bind(most).execute(&self.pool).await.map_err(told)?;
            Ok(removed.rows_affected())
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

fn verdict((allowed, count, retry_after): (bool, i32, i64)) -> Verdict {
    match allowed {
        true => Verdict::Allow { count: count as u32 },
        false => Verdict::Deny { retry_after: Duration::from_micros(retry_after.max(1) as u64) },
    }
}

fn told(error: sqlx::Error) -> Failure {
    Box::new(error.to_string())
}

fn told_silence(_: Elapsed) -> Failure {
    Box::new("PostgreSQL doesn't answer")
}

/// One statement that settles so many hits in order, each only if the one before was allowed: one round trip,
/// and a refusal touches nothing behind it. The row's lock is held when the clock is read, so that of any number
/// of replicas each decides by what the one before has written. Locks are taken in the order of the counters.
fn statement(hits: usize) -> String {
    let settled: Vec<_> = (0..hits).map(settle_one).collect();
    let verdicts: Vec<_> =
        (0..hits).map(|at| format!("SELECT {at} AS place, allowed, hits, retry_after FROM hit_{at}")).collect();
    format!(
        "WITH {} SELECT allowed, hits, retry_after FROM ({}) AS verdicts ORDER BY place",
        settled.join(", "),
        verdicts.join(" UNION ALL ")
    )
}

fn settle_one(at: usize) -> String {
    let [key, counter, window, limit] = [1, 2, 3, 4].map(|of| format!("${}", 4 * at + of));
    // Read behind the verdict before, and not earlier: that one may have waited.
    let (after, only_if) = match at.checked_sub(1) {
        None => (format!("(SELECT {CLOCK} AS now OFFSET 0) AS clock"), String::new()),
        Some(before) => (
            format!("hit_{before}, LATERAL (SELECT {CLOCK} + 0 * hit_{before}.retry_after AS now OFFSET 0) AS clock"),
            format!("WHERE hit_{before}.allowed"),
        ),
    };
    format!(
        "hit_{at} AS (
             INSERT INTO throttle_hits AS was (key, counter, hits, allowed, at, ends_at)
             SELECT {key}, {counter}, ARRAY[now], true, now, now + {window} FROM {after} {only_if}
             ON CONFLICT (key, counter) DO UPDATE SET (hits, allowed, at, ends_at) = (
                 SELECT CASE WHEN fits THEN (was.hits || now)[greatest(1, cardinality(was.hits) + 2 - {limit}):]
                             ELSE was.hits END,
                        fits, now, CASE WHEN fits THEN now + {window} ELSE was.ends_at END
                 FROM (SELECT greatest({CLOCK}, was.at) AS now OFFSET 0) AS clock,
                      LATERAL (SELECT coalesce(was.hits[cardinality(was.hits) - {limit} + 1] <= now - {window}, true)
                               AS fits) AS room)
             RETURNING allowed, cardinality(hits) AS hits,
                 CASE WHEN allowed THEN 0 ELSE hits[cardinality(hits) - {limit} + 1] + {window} - at END AS retry_after)"
    )
}
