//! A real gateway, Caddy or nginx, before one Doorpost, or two that share a PostgreSQL, and an app behind them.

mod chain;
mod settings;
mod tls;
mod upstream;

pub use chain::{APP, Chain, Kind};
pub use tls::Tls;
pub use upstream::Upstream;
