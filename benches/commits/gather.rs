//! Shared commits as the program has them, bare: while one is on its way the next gathers. Written
//! anew rather than borrowed, since a control that is the program's own code shows none of its faults.

use sqlx::{AnyConnection, AnyPool};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// The same bounds as the program's.
const WAITING: usize = 1024;
const TOGETHER: usize = 256;
const AGENT: &str = "an unknown browser";
const ASKED_AT: i64 = 1_796_048_220_000;
const LIFETIME: i64 = 900_000;

type Outcome = Result<(), String>;
type Waiting = (String, oneshot::Sender<Outcome>);

/// The queue before the writer.
pub struct Commits(mpsc::Sender<Waiting>);

impl Commits {
    pub fn start(pool: AnyPool) -> Self {
        let (send, receive) = mpsc::channel(WAITING);
        tokio::spawn(write_together(pool, receive));
        Self(send)
    }

    /// Returns once the row is durable.
    pub async fn insert(&self, email: String) -> Outcome {
        let (answer, done) = oneshot::channel();
        let ended = || "the writer has ended".to_owned();
        self.0.send((email, answer)).await.map_err(|_| ended())?;
        done.await.map_err(|_| ended())?
    }
}

async fn write_together(pool: AnyPool, mut waiting: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::with_capacity(TOGETHER);
    while waiting.recv_many(&mut batch, TOGETHER).await > 0 {
        let outcome = write(&pool, &batch).await.map_err(|error| error.to_string());
        for (_, answer) in batch.drain(..) {
            // Nobody waits for it any more when the load ends.
            let _ = answer.send(outcome.clone());
        }
    }
}

async fn write(pool: &AnyPool, batch: &[Waiting]) -> sqlx::Result<()> {
    let mut transaction = pool.begin().await?;
    for (email, _) in batch {
        insert(&mut transaction, email).await?;
    }
    transaction.commit().await
}

async fn insert(connection: &mut AnyConnection, email: &str) -> sqlx::Result<()> {
    let row = sqlx::query(
        "INSERT INTO outbox (id, purpose, email, browser, inbox, agent, return_to, asked_at, deadline_at, due_at, tries)
         VALUES ($1, 'log_in', $2, $3, SUBSTR($3, 1, 32), $4, NULL, $5, $6, $5, 0)",
    );
    let id = Uuid::now_v7();
    // As the program's: another one each time, anywhere in the index.
    let browser = id.as_u128().reverse_bits();
    let row = row.bind(id.to_string()).bind(email).bind(format!("{browser:032x}{browser:032x}")).bind(AGENT);
    row.bind(ASKED_AT).bind(ASKED_AT + LIFETIME).execute(connection).await.map(drop)
}
