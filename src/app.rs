//! Wiring: what a running Doorpost consists of, and THE route table.

use std::sync::Arc;
use std::time::Duration;

use actix_web::{guard, web};
use tokio::sync::Notify;

use crate::client_ip::Trust;
use crate::clock::{Clock, Random, os_random};
use crate::config::Config;
use crate::domain::code::CodeKey;
use crate::domain::return_to::ReturnPolicy;
use crate::mail::{Health, Mailbox, Mailer, Smtp};
use crate::store::Store;
use crate::telemetry::Metrics;
use crate::throttle::postgres::PostgresCounters;
use crate::throttle::{SharedCounters, Throttle};
use crate::web::assets::{self, Assets};
use crate::web::check::Checks;
use crate::web::client::Watch;
use crate::web::cookies::Cookies;
use crate::web::plain::PlainPages;
use crate::web::sessions::Sessions;
use crate::web::{account, ask, check, code, guard as guards, health, link, mailbox};

/// Everything a request or a worker may need. One for the whole process.
pub struct App {
    pub config: Config,
    pub clock: Clock,
    pub random: Random,
    /// `THROTTLE_KEY_SECRET`, which replicas share; else the secret that lies beside the database.
    pub code_key: CodeKey,
    pub metrics: Arc<Metrics>,
    pub throttle: Throttle,
    pub store: Store,
    pub mailer: Mailer,
    /// Whether mail is leaving.
    pub health: Health,
    /// Rung when a mail was queued.
    pub wake: Notify,
    pub trust: Trust,
    pub watch: Watch,
    pub return_policy: ReturnPolicy,
    pub cookies: Cookies,
    pub assets: Assets,
    pub plain_pages: PlainPages,
    pub sessions: Sessions,
    pub checks: Checks,
    pub headers: guards::Headers,
}

/// What an [`App`] is handed rather than makes: time, randomness, counters outside the process.
pub struct Surroundings {
    pub clock: Clock,
    pub random: Random,
    /// None while the counters live in this process.
    pub shared_counters: Option<Arc<dyn SharedCounters>>,
}

impl Surroundings {
    /// The system's clock and randomness, and the counters that the settings name.
    pub fn system(config: &Config) -> Result<Self, String> {
        Ok(Self { clock: Clock::system(), random: os_random, shared_counters: Self::counters(config)? })
    }

    /// The counters that replicas share; none where they live in this process.
    pub fn counters(config: &Config) -> Result<Option<Arc<dyn SharedCounters>>, String> {
        if !config.throttle.shared {
            return Ok(None);
        }
        let counters = PostgresCounters::new(&config.database_url.0, config.throttle.longest_shared());
        let counters = counters.map_err(|e| format!("DATABASE_URL: {e}"))?;
        Ok(Some(Arc::new(counters)))
    }
}

impl App {
    /// Puts the parts together. The error says which setting can't be used.
    pub fn new(config: Config, store: Store, around: Surroundings) -> Result<Self, String> {
        let Surroundings { clock, random, shared_counters } = around;
        let metrics = Arc::new(Metrics::default());
        let throttle = Throttle::new(&config.throttle, clock.clone(), metrics.clone(), shared_counters);
        let mailer = match &config.smtp {
            Some(server) => Mailer::Smtp(Smtp::new(server, &config).map_err(|e| format!("SMTP_URL: {e}"))?),
            None => Mailer::Mailbox(Mailbox::default()),
        };
        let secret = config.throttle.key_secret.as_ref().map(|secret| secret.0.as_bytes());
        let code_key = secret.or(store.secret()).map(CodeKey::new).unwrap_or_default();
        Ok(Self {
            code_key,
            trust: Trust::new(&config),
            watch: Watch::new(&metrics),
            return_policy: ReturnPolicy::new(config.base_url.clone(), config.return_hosts.clone()),
            cookies: Cookies::new(&config),
            assets: Assets::new(),
            plain_pages: PlainPages::default(),
            sessions: Sessions::default(),
            checks: Checks::new(&metrics),
            headers: guards::Headers::new(&config),
            health: Health::default(),
            wake: Notify::new(),
            config,
            clock,
            random,
            metrics,
            throttle,
            store,
            mailer,
        })
    }

    /// How long a worker has a mail to itself: long enough to be done with it whatever happens.
    pub fn lease(&self) -> Duration {
        self.config.mail_timeout * 2
    }

    /// A whole URL for a path of ours. From `BASE_URL`, never from a header.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.config.base_url.as_str().trim_end_matches('/'))
    }
}

/// THE route table. Every request passes `guard::guard` first (address, size, origin, session,
/// `anonymous` counter), and every answer leaves through it (error pages, headers, one log line):
/// `web::server` wraps it around all of this, since `OPTIONS *` matches none of the routes.
pub fn routes(app: &App, table: &mut web::ServiceConfig) {
    table
        .service(page("/").route(get().to(account::home)))
        .service(page("/users/log-in").route(get().to(ask::log_in_page)).route(post().to(ask::log_in)))
        .service(page("/users/register").route(get().to(ask::register_page)).route(post().to(ask::register)))
        .service(page("/users/check-email").route(get().to(ask::check_email_page)))
        .service(page("/users/log-in/code").route(get().to(code::to_form)).route(post().to(code::enter)))
        .service(page("/users/log-in/{token}").route(get().to(link::confirm_page)).route(post().to(link::enter)))
        .service(page("/users/settings").route(get().to(account::settings_page)))
        .service(page("/users/log-out").route(post().to(account::log_out)))
        .service(page("/auth/check").route(get().to(check::check)))
        .service(page("/health").route(get().to(health::health)))
        .service(page("/static/{file}").route(get().to(assets::serve)))
        .default_service(web::to(health::not_found));
    if let Mailer::Mailbox(_) = app.mailer {
        table
            .service(page("/dev/mailbox").route(get().to(mailbox::list_page)))
            .service(page("/dev/mailbox/{id}").route(get().to(mailbox::mail_page)));
    }
}

fn page(path: &str) -> actix_web::Resource {
    web::resource(path).default_service(web::to(health::method_not_allowed))
}

/// GET, and HEAD with it: mail scanners send HEAD.
fn get() -> actix_web::Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

fn post() -> actix_web::Route {
    web::post()
}
