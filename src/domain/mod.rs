//! What an address, a token and a destination are. Pure: no web, no database, no clock.

pub mod agent;
pub mod code;
pub mod email;
pub mod group;
pub mod host;
pub mod provider;
pub mod return_to;
pub mod token;
