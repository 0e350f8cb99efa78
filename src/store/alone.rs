//! Whether another process uses the same SQLite file: after a crash the leases of the dead process are
//! freed at once, but never those of one that lives.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sqlx::AnyPool;

use super::OpenError;
use super::sqlite::beside;

/// A lock that every process on `database` shares for as long as it lives. The first one makes every
/// mail in hand due again, since the hands are gone.
pub async fn join(database: &Path, pool: &AnyPool) -> Result<File, OpenError> {
    let refused = |e: &dyn std::fmt::Display| OpenError(format!("DATABASE_URL: {}-alive: {e}", database.display()));
    let lock = lock_beside(database).map_err(|e| refused(&e))?;
    match lock.try_lock() {
        // Held alone until the leases are free: whoever starts meanwhile has none yet.
        Ok(()) => free_leases(pool).await.map_err(|e| refused(&e))?,
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(refused(&error)),
    }
    lock.lock_shared().map_err(|e| refused(&e))?;
    Ok(lock)
}

/// In a file of its own: closing the database's would drop SQLite's locks.
fn lock_beside(database: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(beside(database, "-alive"))
}

async fn free_leases(pool: &AnyPool) -> sqlx::Result<()> {
    let free = "UPDATE outbox SET lease = NULL, due_at = asked_at WHERE email <> '' AND lease IS NOT NULL";
    sqlx::query(free).execute(pool).await.map(drop)
}
