//! An embedded SQLite file: made with its folder where it is missing, one writer, readers beside it.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use sqlx::any::AnyPoolOptions;

use super::{OpenError, PATIENCE, Parts, alone, key, migrate, migration_failed};

/// Readers beside the one writer, which they don't block.
const READERS: u32 = 4;

/// What an open file keeps from the rest of the process.
#[derive(Clone)]
pub struct Beside {
    /// In a file of its own: who reads the database lacks it.
    pub secret: Arc<[u8]>,
    /// Says to other processes that this one lives.
    _alive: Arc<File>,
}

pub(super) async fn open(url: &str) -> Result<Parts, OpenError> {
    let file = prepare_file(url)?;
    let unusable = |e: sqlx::Error| OpenError(format!("DATABASE_URL: the database can't be opened: {e}"));
    // One connection: SQLite has one writer at a time, and a queue beats its busy errors.
    let write = pool(1).connect(url).await.map_err(unusable)?;
    migrate(&write).await.map_err(migration_failed)?;
    let read = pool(READERS).connect(url).await.map_err(unusable)?;
    let alive = alone::join(&file, &write).await?;
    let beside = Beside { secret: key::of(&file)?.into(), _alive: Arc::new(alive) };
    Ok(Parts { write, read, beside: Some(beside), unlocked: "" })
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

/// The name of what lies beside a database.
pub(super) fn beside(database: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(end);
    name.into()
}

fn pool(connections: u32) -> AnyPoolOptions {
    super::pool(connections, &PRAGMAS).min_connections(1).idle_timeout(None).max_lifetime(None)
}

const PRAGMAS: [&str; 5] = [
    "PRAGMA busy_timeout = 5000",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    // 16 MiB between two checkpoints: a page that a cohort's mails change again and again is copied back once.
    "PRAGMA wal_autocheckpoint = 4000",
];

const _: () = assert!(PATIENCE.as_millis() == 5000, "busy_timeout is the same patience");
