//! A connection that is kept over several mails.

use std::time::Duration;

use lettre::transport::smtp::client::AsyncSmtpConnection;

use crate::clock::Micros;
use crate::mail::Mail;

/// How long a server may take to say good-bye.
const GOODBYE: Duration = Duration::from_millis(500);
/// After this long without a mail a connection is asked whether it still lives.
const DOUBTFUL: Micros = 1_000_000;
/// After this long it is closed: a server has few places, and somebody else may want this one.
const IDLE: Micros = 10_000_000;

/// One worker's connection. It is in here only while nothing is under way on it: whatever fails,
/// times out or is cancelled takes it along.
#[derive(Default)]
pub struct Line(Option<Kept>);

struct Kept {
    wire: Wire,
    used_at: Micros,
    /// The mail that the server has been told to expect: it would take whatever comes for that mail's message.
    begun: Option<String>,
}

/// A connection on which mails may leave.
pub(super) struct Wire {
    pub connection: AsyncSmtpConnection,
    /// Whether the server takes several commands at once.
    pub pipelines: bool,
}

impl Line {
    /// Closes the connection if it is idle.
    pub async fn rest(&mut self, now: Micros) {
        if self.0.as_ref().is_some_and(|kept| now.saturating_sub(kept.used_at) >= IDLE) {
            self.close().await;
        }
    }

    /// Says good-bye and closes.
    pub async fn close(&mut self) {
        if let Some(Kept { wire, begun: None, .. }) = self.0.take() {
            goodbye(wire).await;
        }
    }

    /// The connection, if it is fresh enough or still answers, and whether the commands before the message of
    /// `mail` have been written.
    pub(super) async fn take(&mut self, mail: &Mail, now: Micros) -> Option<(Wire, bool)> {
        let Kept { mut wire, used_at, begun } = self.0.take()?;
        let doubtful = now.saturating_sub(used_at) >= DOUBTFUL;
        match begun {
            Some(begun) => (!doubtful && begun == mail.id).then_some((wire, true)),
            None => (!doubtful || wire.connection.test_connected().await).then_some((wire, false)),
        }
    }

    pub(super) fn keep(&mut self, wire: Wire, now: Micros, begun: Option<&Mail>) {
        self.0 = Some(Kept { wire, used_at: now, begun: begun.map(|mail| mail.id.clone()) });
    }
}

/// Ends a connection. How it ends, or whether it does, doesn't matter.
pub(super) async fn goodbye(mut wire: Wire) {
    let _ = tokio::time::timeout(GOODBYE, wire.connection.quit()).await;
}
