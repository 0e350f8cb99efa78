//! Where a test's data lies, and a second way into it: to see what is stored, and to be in its way.

use std::path::Path;

use sqlx::{AnyConnection, AssertSqlSafe, Connection, Executor};
use uuid::Uuid;

use super::process::Place;

/// The environment variable that names a PostgreSQL: each test has a schema of its own there. Without it, a
/// file of its own.
const SERVER: &str = "DOORPOST_TEST_POSTGRES";

/// The `DATABASE_URL` of an empty database.
pub fn fresh(folder: &Path) -> String {
    match std::env::var(SERVER) {
        Ok(server) => schema_in(&server),
        Err(_) => format!("sqlite:{}/doorpost.db", folder.display()),
    }
}

/// Whether tests lie in a PostgreSQL.
pub fn is_postgres() -> bool {
    std::env::var_os(SERVER).is_some()
}

/// An empty schema of a PostgreSQL, as a database of its own.
pub fn schema_in(server: &str) -> String {
    let (server, name) = (server.to_owned(), format!("t{}", Uuid::now_v7().simple()));
    let url = format!("{server}?options=-csearch_path%3D{name}");
    execute(&server, format!("CREATE SCHEMA {name}"));
    url
}

/// Executes a statement at once, whatever else this thread is about.
pub fn execute(url: &str, statement: String) {
    let url = url.to_owned();
    let execute = async move {
        connect(&url).await.execute(AssertSqlSafe(statement)).await.unwrap();
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::spawn(move || runtime().block_on(execute)).join().unwrap();
}

/// A connection of the test's own.
pub async fn connect(url: &str) -> AnyConnection {
    sqlx::any::install_default_drivers();
    AnyConnection::connect(url).await.unwrap()
}

/// The one lock there is to write, held until it is released or dropped.
pub struct Lock(AnyConnection);

impl Place {
    /// A connection of the test's own.
    pub async fn database(&self) -> AnyConnection {
        connect(&self.database_url).await
    }

    /// What a statement that counts comes to.
    pub async fn count(&self, statement: &'static str) -> i64 {
        sqlx::query_as::<_, (i64,)>(statement).fetch_one(&mut self.database().await).await.unwrap().0
    }

    /// Changes what is stored, as no request could.
    pub async fn change(&self, statement: &'static str) {
        sqlx::query(statement).execute(&mut self.database().await).await.unwrap();
    }

    /// The first column of every row.
    pub async fn texts(&self, statement: &'static str) -> Vec<String> {
        let rows = sqlx::query_as::<_, (String,)>(statement).fetch_all(&mut self.database().await).await.unwrap();
        rows.into_iter().map(|(text,)| text).collect()
    }

    /// Keeps everybody else from writing.
    pub async fn lock(&self) -> Lock {
        let mut connection = self.database().await;
        if is_postgres() {
            let tables = "BEGIN; LOCK TABLE outbox, links, sessions, users, marks, mails_sent IN SHARE MODE";
            connection.execute(tables).await.unwrap();
        } else {
            connection.execute("BEGIN IMMEDIATE").await.unwrap();
        }
        Lock(connection)
    }
}

impl Lock {
    pub async fn release(mut self) {
        self.0.execute("ROLLBACK").await.unwrap();
    }
}
