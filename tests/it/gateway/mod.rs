//! Doorpost as it is used: behind a real Caddy, Debian's and the newest, and behind a real nginx, in front of an
//! app. On SQLite there is one Doorpost, on PostgreSQL there are two.

mod identity;
mod limits;
mod return_to;
mod ways;
