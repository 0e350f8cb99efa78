//! Several replicas on one real PostgreSQL: one limit, one outbox, one set of sessions. Everything else runs on
//! PostgreSQL from the same source as on SQLite.

mod counters;
mod failing;
mod opening;
mod replicas;
mod restarts;
