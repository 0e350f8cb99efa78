//! What goes on beside the requests: mails leave, and what is over is swept away.

mod marks;
mod outbox;
mod outcome;
mod plan;
mod sweeper;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::app::App;
use marks::Writing;
pub use outbox::{Postman, probe};
pub use outcome::Outcome;
pub use sweeper::{sweep, watch};

/// How long an idle worker waits for a wake-up before it looks all the same.
const POLL: Duration = Duration::from_secs(1);
/// How long strangers' log-ins gather before they are dropped together: nobody waits for that.
const GATHER: Duration = Duration::from_millis(20);
/// How often what is over is swept away, in looks at the queue.
const SWEEP: u32 = 30;
/// How long after a failure of the database or the mail server a worker tries again.
const PAUSE: Duration = Duration::from_secs(2);

/// What is left of the patience at the end for giving back what is stuck.
const GIVE_BACK: Duration = Duration::from_secs(2);

/// The running workers.
pub struct Workers {
    app: Arc<App>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    /// Batches, and what they write down.
    handling: Writing,
}

impl Workers {
    /// Starts `MAIL_CONCURRENCY` mailers and one sweeper.
    pub fn start(app: &Arc<App>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (mut tasks, handling) = (JoinSet::new(), Writing::default());
        for _ in 0..app.config.mail_concurrency {
            tasks.spawn(mail(app.clone(), handling.clone(), stopped.clone()));
        }
        tasks.spawn(tidy(app.clone(), stopped.clone()));
        tasks.spawn(try_out(app.clone(), stopped));
        Self { app: app.clone(), stop, tasks, handling }
    }

    /// Lets each worker finish the mail in hand; one that is stuck goes back to the queue. Takes as long as
    /// `patience` at most.
    pub async fn stop(mut self, patience: Duration) {
        let _ = self.stop.send(true);
        let for_mails = patience.saturating_sub(GIVE_BACK);
        let ended = timeout(for_mails, async { while self.tasks.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            self.tasks.shutdown().await;
            self.handling.tasks.close();
            // What has left meanwhile is marked, or at least not given back.
            let _ = timeout(GIVE_BACK / 2, self.handling.tasks.wait()).await;
            let left = self.handling.all_that_left();
            match timeout(GIVE_BACK / 2, self.app.store.give_back_all_but(left)).await {
                Ok(Ok(mails)) => tracing::warn!(mails, "stuck with the mail server; given back to the queue"),
                Ok(Err(error)) => {
                    tracing::error!(%error, "mails in hand can't be given back; they wait for their lease")
                }
                Err(_) => tracing::error!("the database is busy: mails in hand wait for their lease"),
            }
        }
    }
}

/// A wrong password is told at the start, and not when the first student waits.
async fn try_out(app: Arc<App>, mut stopped: watch::Receiver<bool>) {
    tokio::select! {
        _ = probe(&app) => {}
        _ = stopped.changed() => {}
    }
}

async fn mail(app: Arc<App>, handling: Writing, mut stopped: watch::Receiver<bool>) {
    let mut postman = Postman::new(handling.clone());
    while !*stopped.borrow() {
        // Wake, but still poll: the notification is armed before looking.
        let woken = app.wake.notified();
        let (kept, pause) = batch(&app, postman, &handling, stopped.clone()).await;
        postman = kept;
        let Some(pause) = pause else { continue };
        postman.rest(&app).await;
        tokio::select! {
            () = woken, if pause == POLL => {}
            () = tokio::time::sleep(pause) => {}
            _ = stopped.changed() => {}
        }
    }
    postman.close().await;
}

/// One batch, and how long to wait before the next; none when there may be more to do. In a task of
/// its own: a mail that makes us panic must not end the worker with it.
async fn batch(
    app: &Arc<App>,
    mut postman: Postman,
    handling: &Writing,
    stopped: watch::Receiver<bool>,
) -> (Postman, Option<Duration>) {
    let job = handling.tasks.spawn({
        let app = app.clone();
        async move {
            let outcomes = postman.deliver(&app, || *stopped.borrow()).await;
            (postman, outcomes)
        }
    });
    match AbortOnDropHandle::new(job).await {
        Ok((postman, Ok(outcomes))) if outcomes.is_empty() => (postman, Some(POLL)),
        Ok((postman, Ok(_))) if postman.is_troubled() => (postman, Some(PAUSE)),
        Ok((postman, Ok(outcomes))) => {
            let strangers = outcomes.iter().all(|outcome| *outcome == Outcome::Dropped);
            (postman, strangers.then_some(GATHER))
        }
        Ok((postman, Err(error))) => {
            tracing::error!(%error, "the queue of mails can't be read; trying again");
            (postman, Some(PAUSE))
        }
        Err(panic) => {
            tracing::error!(%panic, "mails could not be handled; they are tried again when their lease ends");
            (Postman::new(handling.clone()), Some(PAUSE))
        }
    }
}

async fn tidy(app: Arc<App>, mut stopped: watch::Receiver<bool>) {
    for look in 0u32.. {
        if *stopped.borrow() {
            return;
        }
        let sweeping = look.is_multiple_of(SWEEP);
        let tidied = if sweeping { sweep(&app).await } else { Ok(()) };
        if let Err(error) = tidied.and(watch(&app).await) {
            tracing::error!(%error, "the queue of mails can't be looked after; trying again");
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            _ = stopped.changed() => {}
        }
    }
}
