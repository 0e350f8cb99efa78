//! The real binary as a process, in a folder and with an environment of its own.

mod control;
mod relay;

use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

use super::database;
use super::http::Browser;
pub use relay::{link_in, mail_server};

/// An empty working folder, and the environment that `doorpost` is started with in it.
pub struct Place {
    folder: TempDir,
    pub database_url: String,
    settings: Vec<(String, String)>,
    before: Option<&'static str>,
}

/// How a run to the end ended.
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// A running server; killed when dropped.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    log: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("here");
        std::fs::create_dir(&here).unwrap();
        // Where the default puts it.
        let database_url = database::fresh(&here.join("data"));
        let settings = database::is_postgres().then(|| ("DATABASE_URL".to_owned(), database_url.clone()));
        Self { folder, database_url, settings: settings.into_iter().collect(), before: None }
    }

    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Started by a shell that runs `script` first.
    pub fn before(mut self, script: &'static str) -> Self {
        self.before = Some(script);
        self
    }

    /// The working folder.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("here")
    }

    /// What lies in the working folder.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn command(&self) -> Command {
        let binary = env!("CARGO_BIN_EXE_doorpost");
        let mut command = Command::new(if self.before.is_some() { "sh" } else { binary });
        if let Some(script) = self.before {
            command.args(["-c", &format!("{script}; exec \"$0\""), binary]);
        }
        command.env_clear().current_dir(self.path()).stdin(Stdio::null());
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs to the end, which has to come within ten seconds.
    pub fn run(&self, arguments: &[&str]) -> Run {
        let mut command = self.command();
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut child = Guarded(child);
        let status = ends(&mut child.0, 10).expect("it ends by itself");
        let (mut out, mut err) = (String::new(), String::new());
        child.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        child.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Run { code: status.code(), out, err }
    }

    /// Starts the server on free ports and waits until it answers.
    pub async fn start(&self) -> Process {
        self.start_with(&[]).await
    }

    /// The same with further settings for this one.
    pub async fn start_with(&self, settings: &[(&str, &str)]) -> Process {
        let (address, admin) = (free_address(), free_address());
        let log = self.folder.path().join("log");
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = self.command();
        command.env("BIND", address.to_string()).env("ADMIN_BIND", admin.to_string());
        command.env("BASE_URL", format!("http://localhost:{}", address.port()));
        command.envs(settings.iter().copied());
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let mut process = Process { child, address, admin, log };
        for _ in 0..500 {
            let ended = process.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {}", process.log());
            if TcpStream::connect(address).await.is_ok() {
                assert_eq!(process.browser().get("/health").await.status, 200);
                return process;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it doesn't answer: {}", process.log());
    }
}

impl Process {
    pub fn browser(&self) -> Browser {
        Browser::new(self.address)
    }

    /// All that was logged in this place so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        assert_eq!(self.child.wait().unwrap().signal(), Some(9));
    }

    /// SIGTERM; the status, if it ends within `seconds`.
    pub fn terminate(mut self, seconds: usize) -> Option<ExitStatus> {
        self.signal("TERM");
        ends(&mut self.child, seconds)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process and all that it starts, in a group of their own, which is ended by its id.
pub struct Group(pub Child);

impl Drop for Group {
    fn drop(&mut self) {
        let group = format!("kill -KILL -{}", self.0.id());
        let _ = Command::new("sh").args(["-c", &group]).status();
        let _ = self.0.wait();
    }
}

struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ends(child: &mut Child, seconds: usize) -> Option<ExitStatus> {
    for _ in 0..seconds * 100 {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// An address nobody listens on, outside of the ports that the system hands out by itself. Tests run
/// side by side, each in a process of its own, so each begins elsewhere.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 2000) as u16 * 10;
    for _ in 0..1000 {
        let port = 10_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port is free");
}

/// The files of a folder with their permission bits.
pub fn modes(folder: &Path) -> Vec<(String, u32)> {
    use std::os::unix::fs::PermissionsExt;
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mode = |entry: &std::fs::DirEntry| entry.metadata().unwrap().permissions().mode() & 0o777;
    entries.map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry))).collect()
}
