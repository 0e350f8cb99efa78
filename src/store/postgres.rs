//! A PostgreSQL that several replicas share.

use std::str::FromStr;
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};

use super::{OpenError, PATIENCE, Parts, migrate, migration_failed};

/// Connections of one replica at most, beside those of the counters.
const CONNECTIONS: u32 = 10;
/// Connections that rested longer than this are tried before they are used: the server may have been restarted.
const RESTED: Duration = Duration::from_secs(1);
/// The oldest server that this was tried with, as PostgreSQL numbers its versions.
const OLDEST: i32 = 150_000;

pub(super) async fn open(url: &str) -> Result<Parts, OpenError> {
    let looking = tokio::time::timeout(2 * PATIENCE, look(url)).await;
    looking.map_err(|_| OpenError("DATABASE_URL: the PostgreSQL server doesn't answer".into()))??;
    // On a connection of its own: a change of the schema, and waiting for another replica's, may take long.
    let alone = AnyPoolOptions::new().max_connections(1).connect(url).await.map_err(refused)?;
    migrate(&alone).await.map_err(not_migrated)?;
    alone.close().await;
    let pool = pool().connect(url).await.map_err(refused)?;
    Ok(Parts { write: pool.clone(), read: pool, beside: None, unlocked: " FOR UPDATE SKIP LOCKED" })
}

/// Whether this server will do, in a sentence if not.
async fn look(url: &str) -> Result<(), OpenError> {
    let options = PgConnectOptions::from_str(url).map_err(refused)?.disable_statement_logging();
    let mut connection = PgConnection::connect_with(&options).await.map_err(refused)?;
    let (version, standby, read_only): (i32, bool, String) = sqlx::query_as(
        "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('transaction_read_only')",
    )
    .fetch_one(&mut connection)
    .await
    .map_err(refused)?;
    let problem = unfit(version, standby, read_only == "on");
    // It was closed by us: what goes wrong now matters to nobody.
    let _ = connection.close().await;
    problem.map_or(Ok(()), |problem| Err(OpenError(format!("DATABASE_URL: {problem}"))))
}

fn unfit(version: i32, standby: bool, read_only: bool) -> Option<String> {
    if version < OLDEST {
        return Some(format!("this is PostgreSQL {}; Doorpost needs {} or newer", version / 10_000, OLDEST / 10_000));
    }
    if standby {
        return Some("this PostgreSQL is a standby, which can't be written to; name the primary".into());
    }
    read_only
        .then(|| "this database is read-only (default_transaction_read_only); name one that can be written to".into())
}

fn refused(error: sqlx::Error) -> OpenError {
    OpenError(format!("DATABASE_URL: {}", told(&error)))
}

fn not_migrated(error: MigrateError) -> OpenError {
    match error {
        MigrateError::Execute(error @ sqlx::Error::Database(_))
        | MigrateError::ExecuteMigration(error @ sqlx::Error::Database(_), _) => refused(error),
        other => migration_failed(other),
    }
}

/// What went wrong, and what to change.
fn told(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(e) => told_by_server(&**e),
        sqlx::Error::Io(e) => format!("PostgreSQL can't be reached: {e}; check host and port, and whether it runs"),
        sqlx::Error::Tls(e) => format!(
            "TLS with PostgreSQL failed: {e}; the host must be the one its certificate names, ?sslrootcert=FILE \
             trusts another root, ?sslmode=require asks for no certificate that is known"
        ),
        sqlx::Error::Configuration(e) => {
            format!("can't be read: {e}; it is like postgres://user:password@host/doorpost")
        }
        other => format!("PostgreSQL can't be used: {other}"),
    }
}

fn told_by_server(error: &dyn DatabaseError) -> String {
    let advice = match error.code().as_deref() {
        Some("28P01") => "check user and password",
        Some("28000") if error.message().contains("no encryption") => "the server wants TLS: add ?sslmode=require",
        Some("28000") => "check the user, and whether pg_hba.conf lets it in from this machine",
        Some("3D000") => "create it: createdb, with its owner the user of DATABASE_URL",
        Some("42501") => "the user of DATABASE_URL must own the database, or be allowed to create tables in it",
        Some("53300") => "the server has no connection left: raise its max_connections",
        Some("57P03") => "it is starting or stopping: try again in a moment",
        _ => "see PostgreSQL's log",
    };
    format!("PostgreSQL says: {}; {advice}", error.message())
}

fn pool() -> AnyPoolOptions {
    super::pool(CONNECTIONS, &SETTINGS).before_acquire(|connection, rested| {
        Box::pin(async move {
            if rested.idle_for > RESTED {
                connection.ping().await?;
            }
            Ok(true)
        })
    })
}

/// Whatever the database's defaults are. A lock that others hold is waited for as on SQLite.
const SETTINGS: [&str; 4] = [
    "SET default_transaction_isolation = 'read committed'",
    "SET synchronous_commit = on",
    "SET statement_timeout = 5000",
    "SET idle_in_transaction_session_timeout = 10000",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_will_not_do_is_named() {
        assert_eq!(unfit(140_010, false, false).unwrap(), "this is PostgreSQL 14; Doorpost needs 15 or newer");
        assert!(unfit(150_001, true, true).unwrap().contains("standby"));
        assert!(unfit(150_001, false, true).unwrap().contains("read-only"));
        assert_eq!(unfit(150_000, false, false), None);
    }
}
