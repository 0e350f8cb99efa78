//! A server in a process of its own, on core 0, with a folder of its own; gone when dropped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Answer, Connection, get, post};

pub const DOORPOST: &str = env!("CARGO_BIN_EXE_doorpost");
/// Where the requests seem to come from.
pub const NETWORK: &str = "203.0.113.9";
/// Ceilings that no load here reaches.
pub const OPEN: &[(&str, &str)] = &[
    ("THROTTLE_IP_BURST_LIMIT", "100000"),
    ("THROTTLE_IP_BURST_WINDOW_SECONDS", "1"),
    ("THROTTLE_IP_HOURLY_LIMIT", "100000"),
    ("THROTTLE_IP_HOURLY_WINDOW_SECONDS", "1"),
    ("THROTTLE_EMAIL_LIMIT", "100000"),
    ("THROTTLE_EMAIL_WINDOW_SECONDS", "1"),
];
/// The longest that a server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// Beside what was built: the system's own folder for such things is often kept in memory.
const FOLDERS: &str = env!("CARGO_TARGET_TMPDIR");

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
        Self::doorpost_in(folder(), settings)
    }

    /// The real one, with whatever the folder holds.
    pub fn doorpost_in(folder: TempDir, settings: &[(&str, &str)]) -> Self {
        Self::start(folder, "/health", |address| {
            let mut command = pinned(DOORPOST);
            let url = format!("http://{address}");
            command.env("BIND", address).env("BASE_URL", url).env("ADMIN_BIND", "off");
            command.envs(settings.iter().copied());
            command
        })
    }

    /// The control of that name, which gives `answer` to every request.
    pub fn control(name: &str, answer: &Answer) -> Self {
        let recorded = tempfile::NamedTempFile::new().expect("a temporary file");
        serde_json::to_writer(&recorded, answer).expect("the answer can be written");
        let server = Self::start(folder(), "/users/log-in", |address| {
            let mut command = pinned(std::env::current_exe().expect("a process knows its program"));
            command.args([name, address]).arg(recorded.path());
            command
        });
        let given = server.ask(&post("person1000000@school.example", NETWORK));
        assert_eq!(&given, answer, "the control answers the same bytes");
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

    fn start(folder: TempDir, path: &str, command: impl FnOnce(&str) -> Command) -> Self {
        let output = File::create(folder.path().join("output")).expect("a fresh file");
        let address = free_address();
        let mut command = command(&address);
        command.current_dir(folder.path()).stdout(output);
        let spawned = now();
        let process = command.spawn().expect("taskset, from util-linux, starts it");
        let mut server = Self { address, first_answer: PATIENCE, process, _folder: folder };
        while ask(&server.address, &get(path, NETWORK)).is_err() {
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
pub fn pinned(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// A folder for one server, with room for its database.
pub fn folder() -> TempDir {
    let folder = TempDir::new_in(FOLDERS).expect("a temporary folder");
    fs::create_dir(folder.path().join("data")).expect("a fresh folder");
    folder
}

/// What the folders' file system is, and a word of warning where nothing is ever flushed to a disk.
pub fn disk() -> String {
    let output = Command::new("df").args(["--output=fstype", FOLDERS]).output().expect("df, from coreutils");
    let kind = String::from_utf8_lossy(&output.stdout).lines().nth(1).unwrap_or("an unknown file system").to_owned();
    match &*kind {
        "tmpfs" | "ramfs" => format!("{kind}, IN MEMORY: what is said of accepted requests and mails is worth nothing"),
        _ => kind,
    }
}

fn ask(address: &str, request: &str) -> std::io::Result<Answer> {
    let mut connection = Connection::open(address)?;
    connection.send(request)?;
    connection.receive()
}

pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn now() -> Instant {
    Instant::now()
}
