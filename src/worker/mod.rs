//! What goes on beside the requests: mails leave, and what is over is swept away.

mod outbox;
mod sweeper;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
pub use outbox::{Outcome, deliver_next};
pub use sweeper::sweep;

/// How long an idle worker waits for a wake-up before it looks all the same.
const POLL: Duration = Duration::from_secs(1);
/// How often what is over is swept away.
const SWEEP: Duration = Duration::from_secs(30);
/// How long after a failure of the database a worker tries again.
const PAUSE: Duration = Duration::from_secs(2);

/// The running workers.
pub struct Workers {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `MAIL_CONCURRENCY` mailers and one sweeper.
    pub fn start(app: &Arc<App>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut tasks: Vec<_> =
            (0..app.config.mail_concurrency).map(|_| tokio::spawn(mail(app.clone(), stopped.clone()))).collect();
        tasks.push(tokio::spawn(tidy(app.clone(), stopped)));
        Self { stop, tasks }
    }

    /// Lets each worker finish the mail in hand for as long as `patience`; a mail that is stuck goes
    /// back to the queue when its lease ends.
    pub async fn stop(self, patience: Duration) {
        let _ = self.stop.send(true);
        let all = async {
            for task in self.tasks {
                let _ = task.await;
            }
        };
        let _ = tokio::time::timeout(patience, all).await;
    }
}

async fn mail(app: Arc<App>, mut stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        // Wake, but still poll: the notification is armed before looking.
        let woken = app.wake.notified();
        // In a task of its own: a mail that makes us panic must not end the worker with it.
        let job = tokio::spawn({
            let app = app.clone();
            async move { deliver_next(&app).await }
        });
        let pause = match job.await {
            Ok(Ok(Some(_))) => continue,
            Ok(Ok(None)) => POLL,
            Err(panic) => {
                tracing::error!(%panic, "a mail could not be handled; it is tried again when its lease ends");
                PAUSE
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "the queue of mails can't be read; trying again");
                PAUSE
            }
        };
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep(pause) => {}
            _ = stopped.changed() => {}
        }
    }
}

async fn tidy(app: Arc<App>, mut stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        if let Err(error) = sweep(&app).await {
            tracing::error!(%error, "what is over can't be swept away; trying again");
        }
        tokio::select! {
            () = tokio::time::sleep(SWEEP) => {}
            _ = stopped.changed() => {}
        }
    }
}
