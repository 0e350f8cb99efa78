//! What the server does in place of what it should.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use super::talk::Talk;
use super::{Act, Counted};

/// Between two bytes of a reply that drips.
const DRIP: Duration = Duration::from_secs(30);

impl Talk<'_> {
    pub(super) async fn perform(&mut self, act: Act, usual: &str) -> io::Result<bool> {
        match act {
            Act::Say(text) => self.say(text).await,
            Act::Drop => Ok(false),
            Act::Silence => {
                let _stuck = Counted::new(&self.shared.stuck);
                self.wire.read_to_end(&mut Vec::new()).await?;
                Ok(false)
            }
            Act::Drip => self.drip(usual).await,
            Act::Hold => self.hold(usual).await,
            Act::Impostor => unreachable!("a reply has no certificate"),
        }
    }

    async fn drip(&mut self, usual: &str) -> io::Result<bool> {
        let _stuck = Counted::new(&self.shared.stuck);
        for byte in format!("{usual}\r\n").bytes() {
            self.wire.write_all(&[byte]).await?;
            self.wire.flush().await?;
            // The client has nothing to say before the reply is whole: it is gone.
            if tokio::time::timeout(DRIP, self.wire.fill_buf()).await.is_ok() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn hold(&mut self, usual: &str) -> io::Result<bool> {
        let mut released = std::pin::pin!(self.shared.released.notified());
        // From here on a release counts, so that whoever sees the client stuck may release it.
        released.as_mut().enable();
        let stuck = Counted::new(&self.shared.stuck);
        tokio::select! {
            () = released => {}
            _ = self.wire.fill_buf() => return Ok(false),
        }
        drop(stuck);
        self.say(usual).await
    }
}
