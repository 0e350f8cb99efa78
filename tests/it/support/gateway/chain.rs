//! Browser, gateway, Doorposts, mail server and app.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::settings::{self, Around};
use super::{Tls, Upstream};
use crate::support::http::Browser;
use crate::support::process::free_address;
use crate::support::smtp::{Received, Security, SmtpServer};
use crate::support::{TestApp, database};

/// Which gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The one that Debian has.
    Caddy26,
    /// The newest.
    Caddy,
    Nginx,
}

impl Kind {
    pub const CADDIES: [Self; 2] = [Self::Caddy26, Self::Caddy];
    pub const ALL: [Self; 3] = [Self::Caddy26, Self::Caddy, Self::Nginx];
}

/// All of it, running: Doorpost is at auth.school.example, or, through Caddy, at localhost, and the app at
/// app.school.example.
pub struct Chain {
    /// Two on a PostgreSQL, else one.
    pub apps: Vec<TestApp>,
    pub smtp: SmtpServer,
    pub upstream: Upstream,
    /// Where the gateway listens.
    pub address: SocketAddr,
    /// What vouches for it.
    pem: Vec<u8>,
    host: String,
    process: Child,
    folder: TempDir,
}

/// A gateway's own name for the machine it runs on.
const LOCALHOST: &str = "localhost";
const AUTH: &str = "auth.school.example";
pub const APP: &str = "app.school.example";

impl Chain {
    /// On hosts of their own.
    pub async fn start(kind: Kind) -> Self {
        Self::with(kind, &[]).await
    }

    /// The same with further settings.
    pub async fn with(kind: Kind, settings: &[(&str, &str)]) -> Self {
        Self::for_group(kind, None, settings).await
    }

    /// The same with an app for that group alone.
    pub async fn for_group(kind: Kind, group: Option<&str>, settings: &[(&str, &str)]) -> Self {
        let shared = [("COOKIE_DOMAIN", "school.example"), ("RETURN_HOSTS", APP)];
        Self::at(kind, AUTH, free_address(), group, &[&shared, settings].concat()).await
    }

    /// As the Caddyfile stands, on this machine.
    pub async fn local(kind: Kind) -> Self {
        let address = free_address();
        Self::at(kind, &format!("{LOCALHOST}:{}", address.port()), address, None, &[]).await
    }

    async fn at(kind: Kind, host: &str, https: SocketAddr, group: Option<&str>, further: &[(&str, &str)]) -> Self {
        let (smtp, upstream) = (SmtpServer::start(Security::Plain).await, Upstream::start().await);
        let (base, mail) = (format!("https://{host}"), smtp.url("?tls=none"));
        let settings = [("BASE_URL", &*base), ("SMTP_URL", &mail), ("TRUSTED_PROXIES", "127.0.0.1/32")];
        let settings = settings.iter().chain(further);
        let first = settings.fold(TestApp::with(), |start, (name, value)| start.setting(name, value)).run().await;
        let mut apps = vec![first];
        if database::is_postgres() {
            apps.push(apps[0].replica().await);
        }
        let doorposts: Vec<_> = apps.iter().map(|app| app.address).collect();
        let folder = tempfile::tempdir().unwrap();
        let around = Around { https, doorposts: &doorposts, app: upstream.address, group, folder: folder.path() };
        let (process, certificate) = launch(kind, host, &around);
        let mut chain =
            Self { apps, smtp, upstream, address: https, pem: Vec::new(), host: host.to_owned(), process, folder };
        chain.answers(&certificate).await;
        chain
    }

    async fn answers(&mut self, certificate: &Path) {
        for _ in 0..1000 {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {}", self.log());
            if let Ok(pem) = fs::read(certificate) {
                self.pem = pem;
                let health = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
                if Tls::trusting(&self.pem, &self.host).send(self.address, health).await.is_some() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the gateway doesn't answer: {}", self.log());
    }

    /// A fresh browser at Doorpost's host.
    pub fn browser(&self) -> Browser {
        Browser::through(self.address, Tls::trusting(&self.pem, &self.host))
    }

    /// The same from another address of this machine.
    pub fn browser_from(&self, address: [u8; 4]) -> Browser {
        let mut tls = Tls::trusting(&self.pem, &self.host);
        tls.from = address.into();
        Browser::through(self.address, tls)
    }

    /// All that the gateway has logged so far.
    pub fn log(&self) -> String {
        let files = ["output", "doorpost.log", "doorpost-error.log", "access.log", "error.log"];
        let texts = files.iter().filter_map(|file| fs::read_to_string(self.folder.path().join(file)).ok());
        texts.collect()
    }

    /// Lets the mails leave; the newest one.
    pub async fn mail(&self) -> Received {
        self.apps[0].work().await;
        self.smtp.accepted().pop().expect("a mail has left")
    }

    /// Somebody new, signed in by the whole way.
    pub async fn account(&self, email: &str) -> Browser {
        let mut browser = self.browser();
        browser.ask("/users/register", email).await.assert_found("/users/check-email");
        let link = self.mail().await.link();
        browser.post(&link, "").await.assert_found("/users/settings");
        browser
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The process, and the certificate that will be there.
fn launch(kind: Kind, host: &str, around: &Around) -> (Child, PathBuf) {
    let folder = around.folder;
    let file = folder.join("settings");
    let mut command = Command::new(match kind {
        Kind::Caddy26 => "caddy",
        Kind::Caddy => concat!(env!("CARGO_TARGET_TMPDIR"), "/caddy-current/caddy"),
        Kind::Nginx => "nginx",
    });
    let certificate = if kind == Kind::Nginx {
        certify(folder);
        fs::write(&file, settings::nginx(around)).unwrap();
        command.arg("-p").arg(folder).arg("-e").arg(folder.join("error.log")).arg("-c").arg(&file);
        folder.join("certificate.pem")
    } else {
        fs::write(&file, settings::caddyfile(around)).unwrap();
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
        command.env("HOME", folder).env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
        command.env("DOORPOST_HOST", host.split(':').next().unwrap_or_default());
        folder.join("caddy/pki/authorities/local/root.crt")
    };
    let output = File::create(folder.join("output")).unwrap();
    command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    (command.spawn().unwrap_or_else(|e| panic!("{kind:?} can't be started, see scripts/test: {e}")), certificate)
}

fn certify(folder: &Path) {
    let certified = rcgen::generate_simple_self_signed(["auth", "app"].map(|host| format!("{host}.school.example")));
    let certified = certified.unwrap();
    fs::write(folder.join("certificate.pem"), certified.cert.pem()).unwrap();
    fs::write(folder.join("key.pem"), certified.signing_key.serialize_pem()).unwrap();
}
