//! A server in a process of its own, on core 0, with a folder of its own; gone when dropped.

use std::fs::{self, File};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Answer, Connection, get};

pub const DOORPOST: &str = env!("CARGO_BIN_EXE_doorpost");
/// The longest that a server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Server {
    pub address: String,
    /// From the moment of spawning to the first whole answer.
    pub first_answer: Duration,
    process: Child,
    _folder: TempDir,
}

impl Server {
    /// The real one: it logs to a file, as it does under a service manager.
    pub fn doorpost(settings: &[(&str, &str)]) -> Self {
        Self::start("/health", |address| {
            let mut command = pinned(DOORPOST);
            let url = format!("http://{address}");
            command.env("BIND", address).env("BASE_URL", url).env("ADMIN_BIND", "off");
            command.envs(settings.iter().copied());
            command
        })
    }

    /// The control, which gives `answer` to every request.
    pub fn control(answer: &Answer) -> Self {
        let recorded = tempfile::NamedTempFile::new().expect("a temporary file");
        serde_json::to_writer(&recorded, answer).expect("the answer can be written");
        let server = Self::start("/users/log-in", |address| {
            let mut command = pinned(std::env::current_exe().expect("a process knows its program"));
            command.args(["control", address]).arg(recorded.path());
            command
        });
        assert_eq!(&server.ask(&get("/users/log-in", "203.0.113.9")), answer, "the control answers the same bytes");
        server
    }

    /// Says one thing on a connection of its own.
    pub fn ask(&self, request: &str) -> Answer {
        ask(&self.address, request).expect("the server answers")
    }

    /// The memory it holds at this moment.
    pub fn rss_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    fn start(path: &str, command: impl FnOnce(&str) -> Command) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        fs::create_dir(folder.path().join("data")).expect("a fresh folder");
        let output = File::create(folder.path().join("output")).expect("a fresh file");
        let address = free_address();
        let mut command = command(&address);
        command.current_dir(folder.path()).stdout(output);
        let spawned = now();
        let process = command.spawn().expect("taskset, from util-linux, starts it");
        let mut server = Self { address, first_answer: PATIENCE, process, _folder: folder };
        while ask(&server.address, &get(path, "203.0.113.9")).is_err() {
            assert!(spawned.elapsed() < PATIENCE, "it did not start");
            std::thread::sleep(Duration::from_micros(200));
        }
        server.first_answer = spawned.elapsed();
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One core, so one worker: nothing else of the caller's environment reaches it.
fn pinned(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn ask(address: &str, request: &str) -> std::io::Result<Answer> {
    let mut connection = Connection::open(address)?;
    connection.send(request)?;
    connection.receive()
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}
