//! A queue of mails, full before the program starts, and the look at it that tells when it is empty.

use std::time::{Duration, UNIX_EPOCH};

use sqlx::{AnyConnection, AnyPool};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::database;
use crate::server::{Server, folder, now};

/// The longest that the queue may take to empty.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often it is looked at: rare enough to cost nothing, often enough for a figure of seconds.
const GLANCE: Duration = Duration::from_millis(5);
/// Far enough that no mail is too old.
const LIFETIME: i64 = 3_600_000;

/// A folder with a database in which mails wait.
pub struct Queue {
    folder: TempDir,
    watch: Watch,
}

/// A connection of our own to the database.
pub struct Watch {
    runtime: Runtime,
    pool: AnyPool,
}

impl Queue {
    /// Registrations, every one from an address of its own.
    pub fn fill(mails: usize) -> Self {
        let folder = folder();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let pool = runtime.block_on(async {
            let pool = database::open(&folder.path().join(database::FILE)).await;
            write(&pool, mails).await.expect("the mails can be queued");
            pool
        });
        Self { folder, watch: Watch { runtime, pool } }
    }

    /// Starts the program on this queue.
    pub fn send(self, smtp: &str, connections: usize) -> (Server, Watch) {
        let settings = [
            ("SMTP_URL", &*format!("smtp://{smtp}?tls=none")),
            ("MAIL_FROM", "Doorpost <login@school.example>"),
            ("MAIL_CONCURRENCY", &*connections.to_string()),
        ];
        (Server::doorpost_in(self.folder, &settings), self.watch)
    }
}

impl Watch {
    /// Returns once no mail is left; the server is what empties the queue, so it must be alive.
    pub fn wait(self, _server: &Server) {
        let started = now();
        while self.runtime.block_on(self.waiting()) {
            assert!(started.elapsed() < PATIENCE, "the queue did not empty");
            std::thread::sleep(GLANCE);
        }
    }

    async fn waiting(&self) -> bool {
        let some = sqlx::query_scalar("SELECT CAST(EXISTS (SELECT 1 FROM outbox WHERE email <> '') AS BIGINT)");
        let some: i64 = some.fetch_one(&self.pool).await.expect("the database can be read");
        some == 1
    }
}

async fn write(pool: &AnyPool, mails: usize) -> sqlx::Result<()> {
    let now = wall_clock();
    let mut transaction = pool.begin().await?;
    for number in 0..mails {
        insert(&mut transaction, &format!("person{}@school.example", 1_000_000 + number), now).await?;
    }
    transaction.commit().await?;
    // What the filling left to be tidied up is no work of the program's.
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(pool).await.map(drop)
}

async fn insert(connection: &mut AnyConnection, email: &str, now: i64) -> sqlx::Result<()> {
    let row = sqlx::query(
        "INSERT INTO outbox (id, purpose, email, browser, inbox, agent, return_to, asked_at, deadline_at, due_at, tries)
         VALUES ($1, 'register', $2, $3, SUBSTR($3, 1, 32), 'Firefox on Windows', NULL, $4, $5, $4, 0)",
    );
    let row = row.bind(Uuid::now_v7().to_string()).bind(email).bind("ab".repeat(32));
    row.bind(now).bind(now + LIFETIME).execute(connection).await.map(drop)
}

#[expect(clippy::disallowed_methods, reason = "the program compares the rows with the real time of day")]
fn wall_clock() -> i64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a clock past 1970").as_millis().try_into().expect("a clock before the end of time")
}
