//! Load from core 1, by wrk over 32 connections.

use std::process::Command;

use crate::server::{NETWORK, Server};

/// A link for a new address each time, from one network.
pub const ONE: &str = "benches/post.lua";

/// One kind of request to the log-in page, and the one answer that counts.
pub struct Load {
    /// What wrk is to say each time, or else it asks for the page.
    pub script: Option<&'static str>,
    pub status: u16,
    pub seconds: u32,
}

/// What wrk saw.
pub struct Reading {
    /// Requests a second.
    pub rate: f64,
    /// What 99 of 100 answers took at most, in milliseconds.
    pub p99: f64,
}

impl Load {
    pub fn run(&self, server: &Server) -> Reading {
        let mut wrk = Command::new("taskset");
        wrk.args(["-c", "1", "wrk", "-t1", "-c32", "--latency", &format!("-d{}s", self.seconds)]);
        wrk.args(["-H", &format!("X-Forwarded-For: {NETWORK}")]);
        if let Some(script) = self.script {
            wrk.args(["-s", script]);
        }
        let output = wrk.arg(format!("http://{}/users/log-in", server.address)).output();
        let output = output.expect("taskset, from util-linux, starts wrk");
        let text = String::from_utf8_lossy(&output.stdout);
        self.check(&text);
        Reading::parse(&text).unwrap_or_else(|| panic!("wrk said: {text}"))
    }

    /// A figure of anything but the wanted answers would be worth nothing.
    fn check(&self, text: &str) {
        let all = text.lines().find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok());
        let errors = after(text, "Non-2xx or 3xx responses:").map_or(Some(0.0), |errors| errors.parse().ok());
        let wanted = if self.status < 400 { Some(0.0) } else { all };
        let sound = all > Some(0.0) && errors == wanted && !text.contains("Socket errors");
        assert!(sound, "instead of {} only, wrk said: {text}", self.status);
    }
}

impl Reading {
    fn parse(text: &str) -> Option<Self> {
        let rate = after(text, "Requests/sec:")?.parse().ok()?;
        Some(Self { rate, p99: milliseconds(after(text, "99%")?)? })
    }
}

/// The rest of the line that starts with `label`.
fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim)
}

/// "312.00us", "4.31ms" or "1.02s".
fn milliseconds(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(char::is_alphabetic)?);
    let factor = match unit {
        "us" => 0.001,
        "ms" => 1.0,
        "s" => 1000.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}
