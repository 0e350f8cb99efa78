//! The real binary as a process, in a folder and with an environment of its own.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tempfile::TempDir;

use super::http::Browser;

/// An empty working folder, and the environment that `doorpost` is started with in it.
pub struct Place {
    folder: TempDir,
    settings: Vec<(String, String)>,
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
        std::fs::create_dir(folder.path().join("here")).unwrap();
        Self { folder, settings: Vec::new() }
    }

    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorpost"));
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
        let (address, admin) = (free_address(), free_address());
        let log = self.folder.path().join("log");
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = self.command();
        command.env("BIND", address.to_string()).env("ADMIN_BIND", admin.to_string());
        command.env("BASE_URL", format!("http://localhost:{}", address.port()));
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let mut process = Process { child, address, admin, log };
        for _ in 0..500 {
            let ended = process.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {}", process.log());
            if TcpStream::connect(address).is_ok() {
                assert_eq!(process.browser().get("/health").await.status, 200);
                return process;
            }
            std::thread::sleep(Duration::from_millis(10));
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
        let signal = format!("kill -TERM {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &signal]).status().unwrap().success());
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

/// A mail server in a few lines: hands over the text of each mail, and refuses those to `refused@…`
/// in words that repeat the address.
pub fn mail_server(address: SocketAddr) -> Receiver<String> {
    let listener = TcpListener::bind(address).unwrap();
    let (sender, mails) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, sender) = (stream.unwrap(), sender.clone());
            // How a connection ends is the client's affair.
            std::thread::spawn(move || speak(stream, &sender));
        }
    });
    mails
}

fn speak(mut stream: TcpStream, mails: &Sender<String>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    stream.write_all(b"220 ready\r\n")?;
    while let Some(line) = lines.next().transpose()? {
        let reply = match line.split(' ').next().unwrap_or_default() {
            "RCPT" if line.contains("refused@") => format!("550 no such user: {line}\r\n"),
            "DATA" => {
                stream.write_all(b"354 go on\r\n")?;
                let text: Vec<_> = lines.by_ref().map_while(Result::ok).take_while(|line| line != ".").collect();
                let _ = mails.send(text.join("\n"));
                "250 queued\r\n".to_owned()
            }
            "QUIT" => return stream.write_all(b"221 bye\r\n"),
            _ => "250 ok\r\n".to_owned(),
        };
        stream.write_all(reply.as_bytes())?;
    }
    Ok(())
}

/// The path of the link in a mail's text part.
pub fn link_in(mail: &str) -> String {
    let line = mail.lines().find(|line| line.starts_with("http://localhost")).expect("a link on a line of its own");
    line[line.find("/users/").expect("a link of ours")..].trim().to_owned()
}

/// The files of a folder with their permission bits.
pub fn modes(folder: &Path) -> Vec<(String, u32)> {
    use std::os::unix::fs::PermissionsExt;
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mode = |entry: &std::fs::DirEntry| entry.metadata().unwrap().permissions().mode() & 0o777;
    entries.map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry))).collect()
}
