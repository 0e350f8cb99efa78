//! Doorpost: a magic-link authentication server. The modules in reading order:
//!
//! Two sentences carry the design. *The request path knows nothing it could leak*: it throttles,
//! writes one row, answers. *One statement decides*: validity and single use are settled by a single
//! SQL statement whose row count is the verdict.

/// Wiring: the route table and the order in which a request meets its guards, on one screen.
pub mod app;
/// Environment to typed settings, checked once; secrets never print.
pub mod config;
/// Each error's audience; the only place that knows status, code and log level.
pub mod error;

/// Which address a request is counted as.
pub mod client_ip;
/// The ceilings: exact sliding windows that fail open.
pub mod throttle;

/// Addresses, tokens, destinations: pure.
pub mod domain;
/// What mails say and how they leave.
pub mod mail;
/// The only SQL.
pub mod store;
/// What people and programs meet: pages, forms, JSON, headers.
pub mod web;
/// What goes on beside the requests.
pub mod worker;

/// The command line, one file a command.
pub mod cli;
/// Time and randomness, handed in.
pub mod clock;
/// Logs and metrics, and what may never stand in them.
pub mod telemetry;
