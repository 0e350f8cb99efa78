//! A PostgreSQL of its own for one test: free port, temporary folder, gone when dropped.

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::Connection;
use tempfile::TempDir;

use super::database;
use super::process::free_address;

/// Ends itself and all of the server's processes, which are in its process group, at once: when the server ends,
/// and when the test does, in whichever way, for that closes the standard input.
const KEEPER: &str = r#"{ "$@"; kill -s KILL 0; } & read -r _; kill -s KILL 0"#;

/// A running server.
pub struct Postgres {
    keeper: Child,
    port: u16,
    settings: Vec<&'static str>,
    folder: TempDir,
}

impl Postgres {
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With further settings of the server's.
    pub async fn with(settings: &[&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (port, settings) = (free_address().port(), settings.to_vec());
        let keeper = launch(&folder, port, &settings);
        let mut postgres = Self { keeper, port, settings, folder };
        postgres.answers().await;
        postgres
    }

    /// `DATABASE_URL`.
    pub fn url(&self) -> String {
        format!("postgres://doorpost:doorpost@127.0.0.1:{}/doorpost", self.port)
    }

    /// Below this lie all of its files.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn execute(&self, statement: &str) {
        database::execute(&self.url(), statement.to_owned());
    }

    pub async fn number(&self, statement: &'static str) -> i64 {
        let mut connection = database::connect(&self.url()).await;
        sqlx::query_as::<_, (i64,)>(statement).fetch_one(&mut connection).await.unwrap().0
    }

    /// Ends it from one instruction to the next.
    pub async fn crash(&mut self) {
        // The rest follows: by the keeper, and since they watch for it.
        signal("KILL", &[self.postmaster()]);
        let keeper = &mut self.keeper;
        super::until("PostgreSQL is gone", 20, async || keeper.try_wait().unwrap().is_some()).await;
    }

    /// Starts it again in the same place.
    pub async fn start_again(&mut self) {
        self.keeper = launch(&self.folder, self.port, &self.settings);
        self.answers().await;
    }

    /// All of its processes stand still.
    pub fn freeze(&self) {
        signal("STOP", &self.processes());
    }

    pub fn thaw(&self) {
        signal("CONT", &self.processes());
    }

    /// The first of its processes, of which all others are children.
    fn postmaster(&self) -> u32 {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        file.lines().next().and_then(|pid| pid.parse().ok()).unwrap_or_else(|| self.keeper.id())
    }

    fn processes(&self) -> Vec<u32> {
        let first = self.postmaster();
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        std::iter::once(first).chain(pids.filter(|pid| parent(*pid) == Some(first))).collect()
    }

    async fn answers(&mut self) {
        for _ in 0..2000 {
            let ended = self.keeper.try_wait().unwrap();
            assert!(ended.is_none(), "PostgreSQL ended: {}", self.log());
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok()
                && let Ok(connection) = sqlx::PgConnection::connect(&self.url()).await
            {
                connection.close().await.unwrap();
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("PostgreSQL doesn't answer: {}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Closes the keeper's standard input first.
        let _ = self.keeper.wait();
    }
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

fn signal(name: &str, pids: &[u32]) {
    let pids = pids.iter().map(u32::to_string);
    // One of them may have ended meanwhile.
    Command::new("kill").arg(format!("-{name}")).args(pids).status().unwrap();
}

fn launch(folder: &TempDir, port: u16, settings: &[&str]) -> Child {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/postgres");
    let log = File::options().create(true).append(true).open(folder.path().join("log")).unwrap();
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "keeper", script]).arg(folder.path()).arg(port.to_string()).args(settings);
    keeper.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log).process_group(0).spawn().unwrap()
}
