//! A Postfix of its own for one test: free port, temporary folder, gone when dropped. It needs root.

use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;

use super::process::free_address;
use super::smtp::Received;

/// Whom the mailboxes belong to: anyone but root, for whom Postfix delivers nothing.
const NOBODY: u32 = 65534;

/// The daemons that take in a mail over TLS and put it into a mailbox, none of them in a chroot.
const SERVICES: &str = "\
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
anvil unix - - n - 1 anvil
retry unix - - n - - error
virtual unix - n n - - virtual
postlog unix-dgram n - n - 1 postlogd
";

/// Ends itself and all daemons, which are in its process group, at once: when Postfix ends, and when
/// the test does, in whichever way, for that closes the standard input.
const KEEPER: &str = r#"{ "$@"; kill -s KILL 0; } & read -r _; kill -s KILL 0"#;

/// A running Postfix with one mailbox, ada@example.org; it hears nothing before STARTTLS.
pub struct Postfix {
    keeper: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Postfix {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Its daemons run under other users, and have to get at what is theirs.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let address = free_address();
        write_settings(folder.path(), address);
        make_queue(folder.path());
        let mut postfix = Self { keeper: start_daemons(folder.path()), address, folder };
        postfix.wait_until_it_listens().await;
        postfix
    }

    /// `SMTP_URL` with `rest` behind it.
    pub fn url(&self, rest: &str) -> String {
        format!("smtp://localhost:{}{rest}", self.address.port())
    }

    /// `SMTP_URL` that trusts this server's certificate.
    pub fn trusted_url(&self) -> String {
        self.url(&format!("?ca={}", self.folder.path().join("ca.pem").display()))
    }

    /// What lies in Ada's mailbox once all that was accepted is delivered.
    pub async fn delivered(&self) -> Vec<Received> {
        // A mail moves through the queue in this order, so that none slips by while we look.
        let queues = ["queue/incoming", "queue/active", "queue/deferred"];
        for _ in 0..1000 {
            if queues.iter().all(|queue| self.files(queue).is_empty()) {
                let mails = self.files("mail/ada/new").into_iter();
                return mails.map(|raw| Received { raw, ..Received::default() }).collect();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("a mail isn't delivered: {}", self.log());
    }

    /// The contents of the files in `folder`, which comes with the first of them.
    fn files(&self, folder: &str) -> Vec<Vec<u8>> {
        let entries = fs::read_dir(self.folder.path().join(folder)).into_iter().flatten();
        // One that has moved on since is no longer here.
        entries.filter_map(|entry| fs::read(entry.unwrap().path()).ok()).collect()
    }

    async fn wait_until_it_listens(&mut self) {
        for _ in 0..1000 {
            let ended = self.keeper.try_wait().unwrap();
            assert!(ended.is_none(), "Postfix ended: {}", self.log());
            if TcpStream::connect(self.address).is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("Postfix doesn't listen: {}", self.log());
    }

    fn log(&self) -> String {
        log(self.folder.path())
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        // Closes the keeper's standard input first.
        let _ = self.keeper.wait();
    }
}

fn write_settings(folder: &Path, address: SocketAddr) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let chain = certified.signing_key.serialize_pem() + &certified.cert.pem();
    fs::write(folder.join("ca.pem"), certified.cert.pem()).unwrap();
    fs::write(folder.join("chain.pem"), chain).unwrap();
    fs::create_dir(folder.join("queue")).unwrap();
    fs::create_dir(folder.join("mail")).unwrap();
    chown(folder.join("mail"), Some(NOBODY), Some(NOBODY)).expect("this is root, as Postfix needs it");
    fs::create_dir(folder.join("etc")).unwrap();
    fs::write(folder.join("etc/master.cf"), format!("{address} inet n - n - - smtpd\n{SERVICES}")).unwrap();
    let mut main = File::create(folder.join("etc/main.cf")).unwrap();
    main.write_all(settings(folder).as_bytes()).unwrap();
    // Postfix reads a file that has just changed over and over, until it is seconds old.
    main.set_modified(UNIX_EPOCH).unwrap();
}

/// Postfix asks no name server, knows nobody on this machine, and keeps the queues that we look into
/// flat: only one that is never used has folders in it.
fn settings(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "compatibility_level = 3.6
myhostname = mx.example.org
queue_directory = {folder}/queue
data_directory = {folder}/data
hash_queue_names = hold
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
inet_protocols = ipv4
smtpd_peername_lookup = no
mydestination =
local_recipient_maps =
alias_maps =
alias_database =
virtual_mailbox_domains = example.org
virtual_mailbox_maps = inline:{{ada@example.org=ada/}}
virtual_mailbox_base = {folder}/mail
virtual_uid_maps = static:{NOBODY}
virtual_gid_maps = static:{NOBODY}
smtpd_relay_restrictions = reject_unauth_destination
smtpd_tls_security_level = encrypt
smtpd_tls_chain_files = {folder}/chain.pem
smtpd_tls_received_header = yes
"
    )
}

/// Lets Postfix make the folders of its queue, each for its own user.
fn make_queue(folder: &Path) {
    let made = Command::new("postfix").arg("-c").arg(folder.join("etc")).arg("check").stdout(Stdio::null()).status();
    let made = made.expect("Postfix is there: ./scripts/test installs it");
    assert!(made.success(), "Postfix can't be set up: {}", log(folder));
}

/// Runs Postfix in the foreground for as long as its standard input stays open.
fn start_daemons(folder: &Path) -> Child {
    let daemons = Command::new("postconf").args(["-d", "-h", "daemon_directory"]).output().unwrap();
    let master = format!("{}/master", String::from_utf8(daemons.stdout).unwrap().trim());
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", KEEPER, "sh", &master, "-d", "-c"]).arg(folder.join("etc")).process_group(0);
    command.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

/// What Postfix said so far, if anything.
fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}
