//! The only place that speaks SQL. Every statement is written once, with `$1` markers, for one
//! portable schema; time is an argument; the first statement of a transaction is a write.

mod alone;
pub mod backlog;
pub mod codes;
mod commits;
mod key;
pub mod links;
pub mod marks;
pub mod outbox;
mod postgres;
pub mod quota;
pub mod sessions;
mod sqlite;
mod sweep;
pub mod tries;
pub mod users;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::migrate::MigrateError;
use sqlx::{AnyPool, Connection};
use uuid::{ContextV7, Uuid};

use crate::clock::Millis;
use crate::config::values::is_postgres;
use commits::Commits;
use sqlite::Beside;

/// Longest that a request waits for a connection or a lock before it is told "not right now".
const PATIENCE: Duration = Duration::from_secs(5);

/// The database. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct Store {
    write: AnyPool,
    read: AnyPool,
    commits: Commits,
    /// Keeps the requests' ids in their order within a millisecond.
    ids: Arc<Mutex<ContextV7>>,
    /// Begins the lease of every mail that this process has in hand.
    instance: Uuid,
    /// Only of a file.
    beside: Option<Beside>,
    /// Ends a `SELECT` of rows to change: those that another replica is changing are left to it.
    unlocked: &'static str,
}

/// What an engine brings along.
struct Parts {
    write: AnyPool,
    read: AnyPool,
    beside: Option<Beside>,
    unlocked: &'static str,
}

/// The database did not do it. What was to be written is not written, unless only the answer to a commit
/// was lost; asking again is safe.
#[derive(Debug)]
pub struct StoreError(sqlx::Error);

/// Why the database can't be used at all; a sentence for the operator.
#[derive(Debug)]
pub struct OpenError(String);

impl Store {
    /// Opens the database of `DATABASE_URL`, makes a file and its folder if missing, and brings its
    /// schema up to date.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        sqlx::any::install_default_drivers();
        let opened = if is_postgres(url) { postgres::open(url).await? } else { sqlite::open(url).await? };
        let Parts { write, read, beside, unlocked } = opened;
        let (ids, instance) = (Arc::new(Mutex::new(ContextV7::new())), Uuid::now_v7());
        Ok(Self { commits: Commits::start(write.clone()), write, read, ids, instance, beside, unlocked })
    }

    /// A secret that who reads the database lacks; none where nothing of ours lies beside it.
    pub fn secret(&self) -> Option<&[u8]> {
        self.beside.as_ref().map(|beside| &*beside.secret)
    }

    /// Whether the database can be read and written, by doing so.
    pub async fn check(&self, now: Millis) -> Result<(), StoreError> {
        in_time(touch(&self.write, "ready", now)).await?;
        self.pending(now).await.map(drop)
    }
}

fn millis(length: Duration) -> Millis {
    length.as_millis() as Millis
}

/// No id of a row that was made at `at` or later sorts before it: ids begin with their time (UUIDv7).
fn first_id(at: Millis) -> String {
    format!("{:08x}-{:04x}", at >> 16, at & 0xFFFF)
}

/// `$first, …`: markers for so many values, to stand in an `IN (…)`.
fn markers(first: usize, values: usize) -> String {
    (first..first + values).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}

/// A server that is frozen or out of reach keeps nobody waiting for ever.
async fn in_time<T>(work: impl Future<Output = sqlx::Result<T>>) -> Result<T, StoreError> {
    let silent = |_| sqlx::Error::Protocol("the database doesn't answer".into());
    let answer = tokio::time::timeout(PATIENCE + Duration::from_secs(1), work).await;
    Ok(answer.map_err(silent)??)
}

/// Writes a row for the sake of writing: it locks, and it proves that rows can be written.
async fn touch(to: impl sqlx::Executor<'_, Database = sqlx::Any>, name: &str, now: Millis) -> sqlx::Result<()> {
    let touch = "INSERT INTO marks (name, at) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET at = $2";
    sqlx::query(touch).bind(name).bind(now).execute(to).await.map(drop)
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database failed: {}", crate::telemetry::redact(&self.0.to_string()))
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What both engines' pools have in common. Each connection begins with `settings`.
fn pool(connections: u32, settings: &'static [&'static str]) -> AnyPoolOptions {
    AnyPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(PATIENCE)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            Box::pin(async move {
                for setting in settings {
                    sqlx::query(*setting).execute(&mut *connection).await?;
                }
                Ok(())
            })
        })
        // After a failed COMMIT (a full disk) SQLite has rolled back and sqlx believes that it hasn't: on
        // such a connection nothing would ever be committed again.
        .after_release(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
}

/// Brings the schema up to date: once, however many processes start together.
async fn migrate(pool: &AnyPool) -> Result<(), MigrateError> {
    sqlx::migrate!().run(pool).await
}

fn migration_failed(error: MigrateError) -> OpenError {
    OpenError(match error {
        MigrateError::VersionMissing(_) | MigrateError::VersionTooNew(..) => {
            "DATABASE_URL: this database was written by a newer Doorpost; start that version, or \
             restore a backup. Nothing was changed."
                .to_owned()
        }
        MigrateError::Dirty(version) => format!(
            "DATABASE_URL: an earlier change of the schema ({version}) was interrupted; restore a \
             backup. Nothing was changed."
        ),
        other => format!("DATABASE_URL: the schema can't be brought up to date: {other}"),
    })
}
