//! Shared commits: the rows of concurrent requests go to the disk in one transaction. While one
//! commit is on its way the next gathers, so that a flush to disk is paid once for many.

use std::time::Duration;

use sqlx::AnyPool;
use tokio::sync::{mpsc, oneshot};

use super::outbox::NewMail;
use super::{PATIENCE, StoreError};

/// Rows that may wait for the disk before further requests wait for a place.
const WAITING: usize = 1024;
/// Rows in one transaction at most.
const TOGETHER: usize = 256;

type Answer = oneshot::Sender<Result<(), String>>;

/// The queue before the writer.
#[derive(Clone)]
pub struct Commits(mpsc::Sender<(NewMail, Answer)>);

impl Commits {
    /// Starts the writer; it ends when the last clone is dropped.
    pub fn start(pool: AnyPool) -> Self {
        let (send, receive) = mpsc::channel(WAITING);
        tokio::spawn(write_together(pool, receive));
        Self(send)
    }

    /// Returns once the row is durable.
    pub async fn insert(&self, mail: NewMail) -> Result<(), StoreError> {
        let (answer, done) = oneshot::channel();
        let commit = async {
            self.0.send((mail, answer)).await.map_err(|_| "the writer has ended".to_owned())?;
            done.await.unwrap_or_else(|_| Err("the writer has ended".to_owned()))
        };
        // A little longer than the writer's own patience, so that its reason is the one told.
        let outcome = tokio::time::timeout(PATIENCE + Duration::from_secs(1), commit).await;
        outcome
            .unwrap_or_else(|_| Err("the database is busy".to_owned()))
            .map_err(|reason| StoreError(sqlx::Error::Protocol(reason)))
    }
}

async fn write_together(pool: AnyPool, mut waiting: mpsc::Receiver<(NewMail, Answer)>) {
    let mut batch = Vec::with_capacity(TOGETHER);
    while waiting.recv_many(&mut batch, TOGETHER).await > 0 {
        // Nobody waits for the row any more, and nobody was promised it.
        batch.retain(|(_, answer)| !answer.is_closed());
        let outcome = write(&pool, &batch).await.map_err(|error| error.to_string());
        for (_, answer) in batch.drain(..) {
            // Gone while the commit was under way: the row stays.
            let _ = answer.send(outcome.clone());
        }
    }
}

async fn write(pool: &AnyPool, batch: &[(NewMail, Answer)]) -> sqlx::Result<()> {
    let mut transaction = pool.begin().await?;
    for (mail, _) in batch {
        mail.insert(&mut transaction).await?;
    }
    transaction.commit().await
}
