//! `doorpost`: serves until it is told to stop.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::app::{App, Surroundings};
use crate::config::{Bind, Config};
use crate::mail::Mailer;
use crate::store::Store;
use crate::telemetry;
use crate::web::server::{Listener, Servers};
use crate::worker::Workers;

/// How long a request or a mail in hand may take after the signal to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Reads the settings, serves, and says in one sentence why it can't.
pub fn run() -> ExitCode {
    let config = match super::settings("can't start") {
        Ok(config) => config,
        Err(code) => return code,
    };
    let log = telemetry::init(&config);
    let runtime = tokio::runtime::Runtime::new().expect("the system gives threads");
    let outcome = runtime.block_on(serve(config));
    log.flush();
    // What is still under way after the grace, or after a second signal, is not waited for.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|reason| {
        super::print_problems("can't start", &[reason]);
        ExitCode::FAILURE
    })
}

async fn serve(config: Config) -> Result<ExitCode, String> {
    let public =
        Listener::open(&config.bind).map_err(|e| format!("BIND: {e}; choose another, and BASE_URL with it"))?;
    let admin = config.admin_bind.as_ref().map(Listener::open).transpose();
    let admin = admin.map_err(|e| format!("ADMIN_BIND: {e}; choose another, or off"))?;
    let store = Store::open(&config.database_url.0).await.map_err(|e| e.to_string())?;
    let around = Surroundings::system(&config)?;
    let app = Arc::new(App::new(config, store, around)?);
    let mut signals = Signals::listen().map_err(|e| format!("the system gives no signals: {e}"))?;
    let workers = Workers::start(&app);
    greet(&app);
    let mut servers = Servers::start(app, public, admin, GRACE).map_err(|e| format!("BIND: {e}"))?;
    tokio::select! {
        () = signals.next() => {}
        reason = servers.ended() => {
            tracing::error!(reason, "the server ended by itself");
            return Ok(ExitCode::FAILURE);
        }
    }
    tracing::info!("stopping: requests and mails in hand have {} s; a second signal ends at once", GRACE.as_secs());
    tokio::select! {
        _ = async { tokio::join!(servers.stop(), workers.stop(GRACE)) } => {}
        () = signals.next() => {
            tracing::warn!("ended at once, by a second signal");
            return Ok(ExitCode::FAILURE);
        }
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// SIGTERM, as a service manager sends it, and SIGINT, as Ctrl-C does.
struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

fn greet(app: &App) {
    let mails = match app.mailer {
        Mailer::Smtp(_) => "by SMTP".to_owned(),
        Mailer::Mailbox(_) => format!("in {}", app.url("/dev/mailbox")),
    };
    let bind = &app.config.bind;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "serving {} on {bind}; mails {mails}", app.url("/"));
    if let Bind::Tcp(address) = bind
        && app.config.is_local()
        && app.config.base_url.port_or_known_default() != Some(address.port())
    {
        tracing::warn!(
            "links will start with {}, but this server listens on {bind}: set BASE_URL to match",
            app.url("/")
        );
    }
    if !app.config.is_https() && !app.config.is_local() {
        tracing::warn!("BASE_URL is plain http: links and sessions can be read on the way; use https");
    }
    if app.config.smtp.is_some() && app.config.mail_from.email.domain() == "localhost" {
        tracing::warn!("MAIL_FROM is at localhost, which other mail servers refuse; set it to an address of yours");
    }
    if let Some((limit, needed)) = app.config.throttle.too_high() {
        tracing::warn!("a limit of {limit} is only counted up to with THROTTLE_MEMORY_MIB={needed} or more");
    }
    if app.config.throttle.key_secret.is_none() && app.store.secret().is_none() {
        tracing::warn!(
            "THROTTLE_KEY_SECRET is unset: who reads the database could try out codes; set it, the same on every replica"
        );
    }
}
