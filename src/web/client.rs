//! Who asks: the adaptor that reads [`client_ip`](crate::client_ip) off a request.

use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use actix_web::dev::{Payload, ServiceRequest};
use actix_web::http::header::HeaderName;
use actix_web::{FromRequest, HttpMessage, HttpRequest};

use crate::app::App;
use crate::client_ip::{Network, Reason};
use crate::clock::Micros;
use crate::error::Error;
use crate::telemetry::{Counter, Metrics};
use crate::throttle::Key;

/// The address a request is counted as, worked out once by the guard.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub address: IpAddr,
    pub network: Network,
    pub key: Key,
    pub reason: Reason,
}

impl Client {
    /// Reads the peer and `X-Forwarded-For`; counts the reason and warns where it must not be silent.
    pub fn of(request: &ServiceRequest, app: &App) -> Self {
        let forwarded = HeaderName::from_static("x-forwarded-for");
        let lines = request.headers().get_all(forwarded).map(|line| line.as_bytes());
        let peer = request.request().peer_addr().map(|peer| peer.ip());
        let (address, reason) = app.trust.client_ip(peer, lines);
        let network = Network::of(address, app.config.throttle.ipv6_prefix);
        // A monitor asks directly, past the proxy; its requests say nothing of how people come in.
        if request.path() != "/health" {
            app.watch.look(reason, app);
        }
        Self { address, network, key: app.throttle.keys().network(network), reason }
    }
}

impl FromRequest for Client {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let client = request.extensions().get::<Self>().copied();
        ready(Ok(client.expect("the guard put it there")))
    }
}

/// Sees to it that a wrong proxy setting never fails silently.
#[derive(Debug)]
pub struct Watch {
    /// How many requests had each reason.
    counted: [Counter; Reason::ALL.len()],
    /// When each reason may be warned of again.
    quiet_until: [AtomicU64; Reason::ALL.len()],
    /// Requests for a link in a row that were counted as a proxy's own address.
    as_proxy: AtomicU32,
}

/// At most one warning a minute per reason.
const QUIET: Micros = 60_000_000;
/// Requests for a link in a row counted as a proxy that mean everybody shares one bucket.
const SUSPICIOUS: u32 = 20;

impl Watch {
    pub fn new(metrics: &Metrics) -> Self {
        let counted = Reason::ALL.map(|reason| metrics.clients(reason.label()));
        Self { counted, quiet_until: Default::default(), as_proxy: AtomicU32::default() }
    }

    fn look(&self, reason: Reason, app: &App) {
        self.counted[reason as usize].inc();
        // With a loopback BASE_URL there is no proxy to speak of: a person is trying it out.
        let trying_out = reason == Reason::Missing && app.config.is_local();
        let Some(advice) = reason.advice().filter(|_| !trying_out) else { return };
        if self.may_warn(&self.quiet_until[reason as usize], app.clock.monotonic()) {
            tracing::warn!(reason = reason.label(), "client address: {advice}");
        }
    }

    fn may_warn(&self, quiet_until: &AtomicU64, now: Micros) -> bool {
        let until = quiet_until.load(Ordering::Relaxed);
        let next = (now + QUIET).max(1);
        now >= until && quiet_until.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Called for each request for a link.
    pub fn asked(&self, client: Client, app: &App) {
        let trying_out = app.config.is_local() && matches!(client.reason, Reason::Missing | Reason::Peer);
        if trying_out || !app.trust.is_proxy(client.address) {
            self.as_proxy.store(0, Ordering::Relaxed);
        } else if self.as_proxy.fetch_add(1, Ordering::Relaxed) + 1 == SUSPICIOUS {
            self.as_proxy.store(0, Ordering::Relaxed);
            tracing::warn!(
                "the last {SUSPICIOUS} requests for a link were counted as a proxy's own address: everybody shares one \
                 bucket; check TRUSTED_PROXIES and TRUSTED_PROXY_HOPS"
            );
        }
    }
}
