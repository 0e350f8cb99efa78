//! One test binary. Each test starts the real app on a free port with a database of its own, and
//! goes in through the front door.

mod support;

mod addresses;
mod attacks;
mod bad_input;
mod binary;
mod browser;
mod check;
mod check_email;
mod client_ip;
mod code;
mod enter;
mod faults;
mod gateway;
mod house;
mod link_pages;
mod mail;
mod postgres;
mod settings;
mod throttle;
mod throttle_log;
mod words;
