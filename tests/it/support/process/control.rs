//! What is done to a running server from outside, and seen of it.

use std::process::{Command, ExitStatus};

use tokio::net::TcpStream;

use super::Process;
use crate::support::http::{Browser, Response};
use crate::support::until;

impl Process {
    /// Sends it a signal by its name: `TERM`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        run("sh", &["-c", &format!("kill -{name} {}", self.child.id())]);
    }

    /// No file of it may grow beyond `size` any more: a number of bytes, or `unlimited`.
    pub fn limit_files(&self, size: &str) {
        run("prlimit", &["--pid", &self.child.id().to_string(), &format!("--fsize={size}:")]);
    }

    /// How it ended, once it has; that has to come within `seconds`.
    pub async fn ended(&mut self, seconds: u64) -> ExitStatus {
        let mut status = None;
        until("it ends", seconds, async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    /// Whether anybody is still let in.
    pub async fn listens(&self) -> bool {
        TcpStream::connect(self.address).await.is_ok()
    }

    /// Its state, as its operator asks for it.
    pub async fn ready(&self) -> Response {
        Browser::new(self.admin).get("/ready").await
    }

    /// What stands behind `name` in its metrics.
    pub async fn metric(&self, name: &str) -> Option<String> {
        let metrics = Browser::new(self.admin).get("/metrics").await.body;
        metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned))
    }
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    assert!(status.unwrap_or_else(|e| panic!("{program}: {e}")).success(), "{program} {arguments:?}");
}
