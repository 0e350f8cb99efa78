//! The listeners and the two servers behind them.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{App as Actix, HttpServer};
use tokio::task::JoinHandle;

use super::{Shared, admin, guard};
use crate::app::{self, App};
use crate::config::Bind;

/// How long a request's head may take.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// A socket that listens.
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// The error says what can't be listened on and why.
    pub fn open(bind: &Bind) -> Result<Self, String> {
        match bind {
            Bind::Tcp(address) => {
                TcpListener::bind(address).map(Self::Tcp).map_err(|e| format!("can't listen on {address}: {e}"))
            }
            Bind::Unix(path) => {
                open_unix(path).map(Self::Unix).map_err(|e| format!("can't listen on {}: {e}", path.display()))
            }
        }
    }
}

/// Takes the place of a socket that nobody listens on any more.
fn open_unix(path: &Path) -> std::io::Result<UnixListener> {
    if std::os::unix::net::UnixStream::connect(path).is_err() && is_socket(path) {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

/// The two servers, running.
pub struct Servers {
    public: ServerHandle,
    admin: Option<ServerHandle>,
    ended: JoinHandle<std::io::Result<()>>,
}

impl Servers {
    /// Starts to serve; requests have `grace` to end once they are told to stop.
    pub fn start(app: Arc<App>, public: Listener, admin: Option<Listener>, grace: Duration) -> std::io::Result<Self> {
        let admin = admin.map(|listener| start_admin(app.clone(), listener)).transpose()?;
        let server = start(app, public, grace)?;
        Ok(Self { public: server.handle(), admin, ended: tokio::spawn(server) })
    }

    /// Returns when the public server has ended by itself, which it never should.
    pub async fn ended(&mut self) -> String {
        match (&mut self.ended).await {
            Ok(Err(error)) => error.to_string(),
            other => format!("{other:?}"),
        }
    }

    /// Accepts no more, and finishes what is in flight.
    pub async fn stop(self) {
        self.public.stop(true).await;
        if let Some(admin) = self.admin {
            admin.stop(false).await;
        }
    }
}

/// The public server, running once it is awaited or spawned.
pub fn start(app: Arc<App>, listener: Listener, grace: Duration) -> std::io::Result<actix_web::dev::Server> {
    let shared: Shared = Data::from(app);
    let server = HttpServer::new(move || {
        let guarded = Actix::new().app_data(shared.clone()).wrap(from_fn(guard::guard));
        guarded.configure(|table| app::routes(&shared, table))
    })
    .client_request_timeout(HEAD_PATIENCE)
    .keep_alive(KEEP_ALIVE)
    // `cli::serve` heeds them, for the workers as well.
    .disable_signals()
    .shutdown_timeout(grace.as_secs());
    let server = match listener {
        Listener::Tcp(tcp) => server.listen(tcp)?,
        Listener::Unix(unix) => server.listen_uds(unix)?,
    };
    Ok(server.run())
}

/// On a listener of its own.
fn start_admin(app: Arc<App>, listener: Listener) -> std::io::Result<ServerHandle> {
    let shared: Shared = Data::from(app);
    let server = HttpServer::new(move || Actix::new().app_data(shared.clone()).configure(admin::routes))
        .workers(1)
        .disable_signals();
    let server = match listener {
        Listener::Tcp(tcp) => server.listen(tcp)?,
        Listener::Unix(unix) => server.listen_uds(unix)?,
    };
    let running = server.run();
    let handle = running.handle();
    tokio::spawn(running);
    Ok(handle)
}
