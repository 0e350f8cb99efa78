//! Starts the app, drives the worker by hand, reads the mail.

pub mod chromium;
pub mod database;
pub mod gateway;
pub mod http;
pub mod load;
pub mod postfix;
pub mod postgres;
pub mod process;
pub mod smtp;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use doorpost::app::{App, Surroundings};
use doorpost::clock::{Clock, os_random};
use doorpost::config::{Bind, Config};
use doorpost::mail::{Mail, Mailer};
use doorpost::store::Store;
use doorpost::throttle::SharedCounters;
use doorpost::web::server::{self, Listener};
use doorpost::worker::{self, Outcome};
use sqlx::AnyPool;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use http::Browser;

/// A running Doorpost on a port of its own, with a clock that stands still.
pub struct TestApp {
    pub app: Arc<App>,
    pub address: SocketAddr,
    pub clock: Clock,
    /// The worker's hands: its connection to the mail server is kept from call to call.
    worker: Mutex<worker::Postman>,
    settings: Vec<(String, String)>,
    server: AbortHandle,
    folder: TempDir,
    pub database_url: String,
    /// A second way into the database, to see what is stored.
    pub database: AnyPool,
}

/// How to start it.
pub struct Start {
    settings: Vec<(String, String)>,
    listen: SocketAddr,
    counters: Option<Arc<dyn SharedCounters>>,
    database_url: Option<String>,
}

impl Start {
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn listen(mut self, address: &str) -> Self {
        self.listen = address.parse().unwrap();
        self
    }

    pub fn counters(mut self, counters: impl SharedCounters + 'static) -> Self {
        self.counters = Some(Arc::new(counters));
        self
    }

    /// On this database, and not one of its own.
    pub fn on(mut self, database_url: &str) -> Self {
        self.database_url = Some(database_url.to_owned());
        self
    }

    pub async fn run(self) -> TestApp {
        let folder = tempfile::tempdir().unwrap();
        let url = self.database_url.clone().unwrap_or_else(|| database::fresh(folder.path()));
        self.run_in(folder, url, Clock::test()).await
    }

    async fn run_in(self, folder: TempDir, url: String, clock: Clock) -> TestApp {
        let listener = Listener::open(&Bind::Tcp(self.listen)).unwrap();
        let Listener::Tcp(socket) = &listener else { unreachable!("a TCP address gives a TCP socket") };
        let address = socket.local_addr().unwrap();
        let basics = [("BASE_URL", format!("http://localhost:{}", address.port())), ("DATABASE_URL", url.clone())];
        let settings = basics.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(self.settings.clone());
        let config = Config::load(settings, folder.path()).unwrap();
        let counters = self.counters.or_else(|| Surroundings::counters(&config).unwrap());
        let around = Surroundings { clock: clock.clone(), random: os_random, shared_counters: counters };
        let store = Store::open(&url).await.unwrap();
        let app = Arc::new(App::new(config, store, around).unwrap());
        let server = tokio::spawn(server::start(app.clone(), listener, Duration::from_secs(1)).unwrap());
        let database = AnyPool::connect(&url).await.unwrap();
        let (settings, server) = (self.settings, server.abort_handle());
        let worker = Mutex::default();
        TestApp { app, address, clock, worker, settings, server, folder, database_url: url, database }
    }
}

impl TestApp {
    /// With the defaults.
    pub async fn start() -> Self {
        Self::with().run().await
    }

    pub fn with() -> Start {
        Start { settings: Vec::new(), listen: ([127, 0, 0, 1], 0).into(), counters: None, database_url: None }
    }

    /// Ends it and starts it anew on the same database, with nothing else kept. It gets another port.
    pub async fn restart(self) -> Self {
        self.server.abort();
        let start = Start { settings: self.settings, ..Self::with() };
        start.run_in(self.folder, self.database_url, self.clock).await
    }

    /// Another one beside it, on the same database and by the same clock.
    pub async fn replica(&self) -> Self {
        let start = Start { settings: self.settings.clone(), ..Self::with() };
        start.run_in(tempfile::tempdir().unwrap(), self.database_url.clone(), self.clock.clone()).await
    }

    /// A fresh browser behind the proxy, with an address of its own.
    pub fn browser(&self) -> Browser {
        Browser::new(self.address)
    }

    /// A browser whose requests the proxy reports as coming from `address`.
    pub fn browser_at(&self, address: &str) -> Browser {
        self.browser().from(address)
    }

    /// A file beside the database.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        if self.app.config.throttle.shared {
            self.age_shared_counters(seconds);
        }
    }

    /// They go by the database's clock, which nobody can move: what they hold is moved the other way.
    fn age_shared_counters(&self, seconds: u64) {
        let age = format!(
            "DO $$ BEGIN UPDATE throttle_hits SET at = at - interval '{seconds} s',
                 first = ARRAY(SELECT hit - interval '{seconds} s' FROM unnest(first) AS hit),
                 second = ARRAY(SELECT hit - interval '{seconds} s' FROM unnest(second) AS hit);
             EXCEPTION WHEN undefined_table THEN END $$"
        );
        database::execute(&self.database_url, age);
    }

    /// Runs the worker until nothing is due; what became of each mail.
    pub async fn work(&self) -> Vec<Outcome> {
        let (mut worker, mut outcomes) = (self.worker.lock().await, Vec::new());
        loop {
            let batch = worker.deliver(&self.app, || false).await.unwrap();
            if batch.is_empty() {
                return outcomes;
            }
            outcomes.extend(batch);
        }
    }

    /// Ends the worker's connection to the mail server.
    pub async fn hang_up(&self) {
        self.worker.lock().await.close().await;
    }

    /// Looks whether mail is leaving, as the sweeper does every second.
    pub async fn watch(&self) {
        worker::watch(&self.app).await.unwrap();
    }

    /// Runs the worker until nothing is due; the mails that left, oldest first.
    pub async fn deliver(&self) -> Vec<Mail> {
        let before = self.mailbox().len();
        self.work().await;
        let mut mails = self.mailbox();
        mails.reverse();
        mails.split_off(before)
    }

    fn mailbox(&self) -> Vec<Mail> {
        match &self.app.mailer {
            Mailer::Mailbox(mailbox) => mailbox.list(),
            Mailer::Smtp(_) => Vec::new(),
        }
    }

    /// Rows in a table.
    pub async fn rows(&self, table: &'static str) -> i64 {
        let statement = match table {
            "users" => "SELECT COUNT(*) FROM users",
            "outbox" => "SELECT COUNT(*) FROM outbox WHERE email <> ''",
            "requests" => "SELECT COUNT(*) FROM outbox",
            "links" => "SELECT COUNT(*) FROM links",
            "sessions" => "SELECT COUNT(*) FROM sessions",
            "mails_sent" => "SELECT COUNT(*) FROM mails_sent",
            _ => unreachable!("no such table"),
        };
        sqlx::query_as::<_, (i64,)>(statement).fetch_one(&self.database).await.unwrap().0
    }

    /// That a request left nothing behind: no row to mail, no account, no session.
    pub async fn assert_nothing_stored(&self) {
        for table in ["requests", "users", "sessions", "links"] {
            assert_eq!(self.rows(table).await, 0, "rows in {table}");
        }
    }

    /// An account, made the way people make one: asked for, mailed, confirmed.
    pub async fn account(&self, email: &str) -> Browser {
        let mut browser = self.browser_at("198.18.0.1");
        browser.ask("/users/register", email).await.assert_found("/users/check-email");
        let link = self.link().await;
        browser.post(&link, "").await.assert_found("/users/settings");
        // The next request for a link starts with fresh ceilings.
        self.advance(3600);
        browser
    }

    /// The path of the link in the one mail that is due.
    pub async fn link(&self) -> String {
        let mails = self.deliver().await;
        assert_eq!(mails.len(), 1, "one mail is due");
        path_of(&mails[0])
    }

    /// What `doorpost_…` counts, as its exposition line ends.
    pub fn metric(&self, line: &str) -> Option<String> {
        let text = self.app.metrics.render();
        text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' ').map(str::to_owned))
    }
}

/// The path of a mail's link.
pub fn path_of(mail: &Mail) -> String {
    let path = mail.link.find("/users/").expect("a link of ours");
    mail.link[path..].to_owned()
}

/// Waits until `condition` holds, and fails when it doesn't within `seconds`.
pub async fn until(what: &str, seconds: u64, mut condition: impl AsyncFnMut() -> bool) {
    let polling = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let came = tokio::time::timeout(Duration::from_secs(seconds), polling).await;
    assert!(came.is_ok(), "not within {seconds} s: {what}");
}
