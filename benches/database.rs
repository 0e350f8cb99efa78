//! A database like the program's: its schema, its settings, one connection that writes.

use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sqlx::AnyPool;
use sqlx::any::AnyPoolOptions;

/// Below a server's folder.
pub const FILE: &str = "data/doorpost.db";

/// Makes the file where it is missing.
pub async fn open(file: &Path) -> AnyPool {
    sqlx::any::install_default_drivers();
    let path = file.to_str().expect("a path of plain text");
    let url = format!("sqlite:{}?mode=rwc", utf8_percent_encode(path, NON_ALPHANUMERIC));
    let pool = AnyPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = pool.test_before_acquire(false).connect(&url).await.expect("the database opens");
    for pragma in [
        "busy_timeout = 5000",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "wal_autocheckpoint = 4000",
    ] {
        let pragma = sqlx::AssertSqlSafe(format!("PRAGMA {pragma}"));
        sqlx::query(pragma).execute(&pool).await.expect("a pragma of the program's");
    }
    sqlx::migrate!().run(&pool).await.expect("the program's schema");
    pool
}
