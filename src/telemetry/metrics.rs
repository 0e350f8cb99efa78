//! Counters for dashboards, named so that these outlive releases.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
pub use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// Upper bounds of `doorpost_request_seconds`.
const REQUEST_BUCKETS: [f64; 9] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];
/// Upper bounds of `doorpost_smtp_seconds`.
const SMTP_BUCKETS: [f64; 7] = [0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decision {
    counter: &'static str,
    decision: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Store {
    store: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct By {
    by: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckResult {
    result: &'static str,
}

/// Everything that is counted. One for the whole process, handed to whoever counts.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    request_seconds: Histogram,
    decisions: Family<Decision, Counter>,
    store_failures: Family<Store, Counter>,
    client_ip: Family<Reason, Counter>,
    mails: Family<Outcome, Counter>,
    smtp_seconds: Histogram,
    sign_ins: Family<By, Counter>,
    session_checks: Family<CheckResult, Counter>,
    sessions: Gauge,
    outbox_pending: Gauge,
    outbox_oldest: Gauge<f64, AtomicU64>,
    quota_remaining: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("doorpost"),
            requests: Family::default(),
            request_seconds: Histogram::new(REQUEST_BUCKETS),
            decisions: Family::default(),
            store_failures: Family::default(),
            client_ip: Family::default(),
            mails: Family::default(),
            smtp_seconds: Histogram::new(SMTP_BUCKETS),
            sign_ins: Family::default(),
            session_checks: Family::default(),
            sessions: Gauge::default(),
            outbox_pending: Gauge::default(),
            outbox_oldest: Gauge::default(),
            quota_remaining: Gauge::default(),
        };
        // Without a limit there is no end.
        metrics.quota_remaining.set(f64::INFINITY);
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let r = &mut self.registry;
        r.register("requests", "Answered requests", self.requests.clone());
        r.register("request_seconds", "Time to answer", self.request_seconds.clone());
        r.register("throttle_decisions", "What the counters said", self.decisions.clone());
        r.register("throttle_store_failures", "Counters that failed", self.store_failures.clone());
        r.register("client_ip", "Why requests were counted as their address", self.client_ip.clone());
        r.register("mails", "What became of the mails", self.mails.clone());
        r.register("smtp_seconds", "Time to hand over one mail", self.smtp_seconds.clone());
        r.register("sign_ins", "Sessions started", self.sign_ins.clone());
        r.register("session_checks", "Answers to gateways", self.session_checks.clone());
        r.register("sessions", "Sessions that live", self.sessions.clone());
        r.register("outbox_pending", "Mails waiting to leave", self.outbox_pending.clone());
        r.register("outbox_oldest_seconds", "How long the first of them has waited", self.outbox_oldest.clone());
        r.register("mail_quota_remaining", "Mails that the daily limit still allows", self.quota_remaining.clone());
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        r.register("build", "The running version", build);
    }

    pub fn answered(&self, route: String, status: u16, took: Duration) {
        self.requests.get_or_create(&Request { route, status }).inc();
        self.request_seconds.observe(took.as_secs_f64());
    }

    /// Where one counter's decisions of one kind are counted. Kept by whoever counts for each request.
    pub fn decisions(&self, counter: &'static str, decision: &'static str) -> Counter {
        self.decisions.get_or_create_owned(&Decision { counter, decision })
    }

    pub fn store_failed(&self, store: &'static str) {
        self.store_failures.get_or_create(&Store { store }).inc();
    }

    /// Where requests counted as their address for one reason are counted.
    pub fn clients(&self, reason: &'static str) -> Counter {
        self.client_ip.get_or_create_owned(&Reason { reason })
    }

    /// So many mails had this outcome.
    pub fn mails(&self, outcome: &'static str, count: u64) {
        if count > 0 {
            self.mails.get_or_create(&Outcome { outcome }).inc_by(count);
        }
    }

    pub fn smtp_took(&self, took: Duration) {
        self.smtp_seconds.observe(took.as_secs_f64());
    }

    pub fn signed_in(&self, by: &'static str) {
        self.sign_ins.get_or_create(&By { by }).inc();
    }

    /// Where answers of one kind to gateways are counted.
    pub fn session_checks(&self, result: &'static str) -> Counter {
        self.session_checks.get_or_create_owned(&CheckResult { result })
    }

    pub fn sessions(&self, live: i64) {
        self.sessions.set(live);
    }

    /// How many mails wait to leave, and how long the first of them has been waiting.
    pub fn outbox(&self, pending: i64, oldest: Duration) {
        self.outbox_pending.set(pending);
        self.outbox_oldest.set(oldest.as_secs_f64());
    }

    /// How many mails the daily limit still allows.
    pub fn quota_remaining(&self, mails: i64) {
        self.quota_remaining.set(mails as f64);
    }

    /// The Prometheus text format.
    pub fn render(&self) -> String {
        let mut out = String::new();
        text::encode(&mut out, &self.registry).expect("a String takes any text");
        out
    }
}
