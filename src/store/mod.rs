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
pub mod quota;
pub mod sessions;
pub mod tries;
pub mod users;

use std::fmt;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use sqlx::any::AnyPoolOptions;
use sqlx::migrate::MigrateError;
use sqlx::{AnyPool, Connection};
use uuid::{ContextV7, Uuid};

use crate::clock::Millis;
use commits::Commits;

/// Longest that a request waits for a connection or a lock before it is told "not right now".
const PATIENCE: Duration = Duration::from_secs(5);
/// Readers beside the one writer; SQLite's readers don't block it.
const READERS: u32 = 4;

/// The database. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct Store {
    /// One connection: SQLite has one writer at a time, and a queue beats its busy errors.
    write: AnyPool,
    read: AnyPool,
    commits: Commits,
    /// Keeps the requests' ids in their order within a millisecond.
    ids: Arc<Mutex<ContextV7>>,
    /// Begins the lease of every mail that this process has in hand.
    instance: Uuid,
    /// What lies beside the database and not in it.
    secret: Option<Arc<[u8]>>,
    /// Says to other processes that this one lives.
    _alive: Arc<File>,
}

/// The database did not do it. What was to be written is not written, unless only the answer to a commit
/// was lost; asking again is safe.
#[derive(Debug)]
pub struct StoreError(sqlx::Error);

/// Why the database can't be used at all; a sentence for the operator.
#[derive(Debug)]
pub struct OpenError(String);

impl Store {
    /// Opens the database of `DATABASE_URL`, makes it and its folder if missing, and brings its
    /// schema up to date.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        sqlx::any::install_default_drivers();
        let file = prepare_file(url)?;
        let unusable = |e: sqlx::Error| OpenError(format!("DATABASE_URL: the database can't be opened: {e}"));
        let write = pool(1).connect(url).await.map_err(unusable)?;
        sqlx::migrate!().run(&write).await.map_err(migration_failed)?;
        let read = pool(READERS).connect(url).await.map_err(unusable)?;
        let alive = alone::join(&file, &write).await?;
        let commits = Commits::start(write.clone());
        let ids = Arc::new(Mutex::new(ContextV7::new()));
        let secret = Some(key::beside(&file)?.into());
        Ok(Self { commits, write, read, ids, instance: Uuid::now_v7(), secret, _alive: Arc::new(alive) })
    }

    /// A secret that who reads the database lacks; none where nothing of ours lies beside it.
    pub fn secret(&self) -> Option<&[u8]> {
        self.secret.as_deref()
    }

    /// Whether the database can be read and written, by doing so.
    pub async fn check(&self, now: Millis) -> Result<(), StoreError> {
        touch(&self.write, "ready", now).await?;
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

/// Makes the folder and the file, readable by their owner only.
fn prepare_file(url: &str) -> Result<PathBuf, OpenError> {
    let file = url.trim_start_matches("sqlite:").trim_start_matches("//");
    let file = percent_decode_str(file.split('?').next().unwrap_or(file)).decode_utf8_lossy();
    let path = Path::new(&*file);
    let refused = |e: std::io::Error| OpenError(format!("DATABASE_URL: {} can't be made: {e}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(refused)?;
    }
    let options = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    options.map(|_| path.to_owned()).map_err(refused)
}

fn pool(connections: u32) -> AnyPoolOptions {
    AnyPoolOptions::new()
        .max_connections(connections)
        .min_connections(1)
        .acquire_timeout(PATIENCE)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        // After a failed COMMIT (a full disk) SQLite has rolled back and sqlx believes that it hasn't: on
        // such a connection nothing would ever be committed again.
        .after_release(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
        .after_connect(|connection, _| {
            Box::pin(async move {
                for pragma in [
                    "PRAGMA busy_timeout = 5000",
                    "PRAGMA journal_mode = WAL",
                    "PRAGMA synchronous = FULL",
                    "PRAGMA foreign_keys = ON",
                    // 16 MiB between two checkpoints: a page that a cohort's mails change again and again
                    // is copied back once.
                    "PRAGMA wal_autocheckpoint = 4000",
                ] {
                    sqlx::query(pragma).execute(&mut *connection).await?;
                }
                Ok(())
            })
        })
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
