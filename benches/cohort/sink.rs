//! smtp-sink on core 1: it takes mails, throws them away and counts them.

use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::server::{free_address, now};

/// The longest that it may take to start, or to notice that it is done.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Sink {
    pub address: String,
    process: Child,
}

impl Sink {
    /// Ends at the first mail after `mails`, so that counting costs nothing.
    pub fn start(mails: usize) -> Self {
        let address = free_address();
        let mut command = Command::new("taskset");
        command.args(["-c", "1", "smtp-sink", "-M", &(mails + 1).to_string()]);
        if is_root() {
            // It doesn't run as root.
            command.args(["-u", "nobody"]);
        }
        let process = command.args([&*address, "100"]).spawn().expect("taskset, from util-linux, starts smtp-sink");
        let sink = Self { address, process };
        wait_until("smtp-sink did not start", || TcpStream::connect(&sink.address).is_ok());
        sink
    }

    /// It took exactly what it was to take: it is there still, and one mail more ends it.
    pub fn check(mut self) {
        assert!(self.has_ended().is_none(), "more mails came than there are");
        let mut one_more = Command::new("smtp-source");
        one_more.args(["-m", "1", "-f", "login@school.example", "-t", "person@school.example", &self.address]);
        // The mail that ends the server gets no answer, and its client complains.
        one_more.stderr(Stdio::null()).status().expect("smtp-source starts");
        wait_until("fewer mails came than there are", || self.has_ended().is_some());
    }

    fn has_ended(&mut self) -> Option<std::process::ExitStatus> {
        self.process.try_wait().expect("it is a child of ours")
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn wait_until(otherwise: &str, mut done: impl FnMut() -> bool) {
    let started = now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "{otherwise}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
