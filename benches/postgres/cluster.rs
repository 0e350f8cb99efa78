//! A PostgreSQL of its own, on the servers' core, durable as it comes; gone when dropped.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output};
use std::time::Duration;

use tempfile::TempDir;

use crate::server::{self, free_address, now};

/// The longest that it may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Cluster {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Cluster {
    pub fn start() -> Self {
        let folder = server::folder();
        std::fs::remove_dir(folder.path().join("data")).expect("it is empty");
        // It runs as another user.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("our own folder");
        let port: u16 = free_address().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let log = std::fs::File::create(folder.path().join("log")).expect("a fresh file");
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "scripts/postgres"]).arg(folder.path()).arg(port.to_string());
        let errors = log.try_clone().expect("a second handle");
        let process = command.stdout(log).stderr(errors).spawn().expect("taskset, from util-linux, starts it");
        let cluster = Self { process, port, folder };
        let started = now();
        while !cluster.psql("SELECT 1").status.success() {
            assert!(started.elapsed() < PATIENCE, "PostgreSQL did not start: see {}", cluster.folder.path().display());
            std::thread::sleep(Duration::from_millis(50));
        }
        cluster
    }

    pub fn url(&self) -> String {
        format!("postgres://doorpost:doorpost@127.0.0.1:{}/doorpost", self.port)
    }

    pub fn execute(&self, statement: &str) {
        let output = self.psql(statement);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn number(&self, statement: &str) -> u64 {
        let output = self.psql(statement);
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
    }

    /// Transactions a second of eight clients that all run this script of pgbench's.
    pub fn rate(&self, script: &str) -> f64 {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(script.as_bytes()).expect("room for a script");
        let mut command = Command::new("pgbench");
        command.args(["-n", "-M", "prepared", "-c", "8", "-j", "2", "-T", "4", "-f"]).arg(file.path());
        let output = command.arg(self.url()).output().expect("pgbench, from postgresql, starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        rate.unwrap_or_else(|| panic!("pgbench said: {text}{}", String::from_utf8_lossy(&output.stderr)))
    }

    fn psql(&self, statement: &str) -> Output {
        let mut command = Command::new("psql");
        command.args(["-qAtX", "-c", statement, &self.url()]).output().expect("psql, from postgresql, starts")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The first of its processes is ours: taskset and the script have become it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
