//! Shared commits: what concurrent requests and workers write goes to the disk in one transaction.
//! While one commit is on its way the next gathers, so that a flush to disk is paid once for many.

use std::time::Duration;

use sqlx::AnyPool;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::marks::{GiveBack, Mark};
use super::outbox::{Claim, Claimed, NewMail};
use super::tries::{Begun, Tries};
use super::{PATIENCE, StoreError};

/// Writes that may wait for the disk before further ones wait for a place.
const WAITING: usize = 1024;
/// Writes in one transaction at most.
const TOGETHER: usize = 256;

/// Something to write, whatever else is in the transaction.
pub enum Write {
    Queue(Uuid, NewMail),
    Claim(Claim),
    Begin(Tries),
    Mark(Mark),
    GiveBack(GiveBack),
}

/// What came of it.
#[derive(Clone)]
pub enum Written {
    /// So many rows were changed.
    Rows(u64),
    Claimed(Claimed),
    Begun(Vec<Begun>),
    /// The ids of the mails.
    Marked(Vec<String>),
}

type Outcome = Result<Written, String>;
type Waiting = (Write, oneshot::Sender<Outcome>);

/// The queue before the writer.
#[derive(Clone)]
pub struct Commits(mpsc::Sender<Waiting>);

impl Commits {
    /// Starts the writer; it ends when the last clone is dropped.
    pub fn start(pool: AnyPool) -> Self {
        let (send, receive) = mpsc::channel(WAITING);
        tokio::spawn(write_together(pool, receive));
        Self(send)
    }

    /// Returns once it is durable.
    pub async fn write(&self, row: Write) -> Result<Written, StoreError> {
        let (answer, done) = oneshot::channel();
        let commit = async {
            self.0.send((row, answer)).await.map_err(|_| "the writer has ended".to_owned())?;
            done.await.unwrap_or_else(|_| Err("the writer has ended".to_owned()))
        };
        // A little longer than the writer's own patience, so that its reason is the one told.
        let outcome = tokio::time::timeout(PATIENCE + Duration::from_secs(1), commit).await;
        outcome
            .unwrap_or_else(|_| Err("the database is busy".to_owned()))
            .map_err(|reason| StoreError(sqlx::Error::Protocol(reason)))
    }
}

async fn write_together(pool: AnyPool, mut waiting: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::with_capacity(TOGETHER);
    while waiting.recv_many(&mut batch, TOGETHER).await > 0 {
        // Whoever waits for it has been told by then; the next batch may fare better.
        let committed = tokio::time::timeout(2 * PATIENCE, commit(&pool, &mut batch)).await;
        match committed.unwrap_or_else(|_| Err(sqlx::Error::PoolTimedOut)) {
            Ok(written) => answer(batch.drain(..), written.into_iter().map(Ok)),
            Err(error) => answer(batch.drain(..), std::iter::repeat(Err(error.to_string()))),
        }
    }
}

/// Writes a batch, without those for which nobody waits any more: they were told that it failed.
async fn commit(pool: &AnyPool, batch: &mut Vec<Waiting>) -> sqlx::Result<Vec<Written>> {
    loop {
        batch.retain(|(_, answer)| !answer.is_closed());
        let mut written = Vec::with_capacity(batch.len());
        let mut transaction = pool.begin().await?;
        for (row, _) in &*batch {
            written.push(match row {
                Write::Queue(id, mail) => Written::Rows(mail.insert(*id, &mut transaction).await?),
                Write::Claim(claim) => Written::Claimed(claim.make(&mut transaction).await?),
                Write::Begin(tries) => Written::Begun(tries.begin(&mut transaction).await?),
                Write::Mark(mark) => Written::Marked(mark.make(&mut transaction).await?),
                Write::GiveBack(back) => Written::Rows(back.make(&mut transaction).await?),
            });
        }
        // The lock may have been long in coming.
        if !batch.iter().any(|(_, answer)| answer.is_closed()) {
            transaction.commit().await?;
            return Ok(written);
        }
        transaction.rollback().await?;
    }
}

fn answer(batch: impl Iterator<Item = Waiting>, outcomes: impl Iterator<Item = Outcome>) {
    for ((_, waiting), outcome) in batch.zip(outcomes) {
        // Gone while the commit was under way: the row stays.
        let _ = waiting.send(outcome);
    }
}
