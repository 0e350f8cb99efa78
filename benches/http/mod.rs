//! The log-in page beside a bare actix-web server that answers the same bytes and does nothing for
//! them; and what the process takes: its size, its start, its memory under a flood.

pub mod control;
mod flood;
mod scenario;

use std::fs;
use std::time::Duration;

use crate::load::{Load, ONE};
use crate::median;
use crate::server::{self, OPEN, Server};
use scenario::Scenario;

/// The mode in which this program is the control.
pub const CONTROL: &str = "http-control";

const OFF: &[(&str, &str)] = &[("THROTTLE_ANONYMOUS_LIMIT", "off")];
const HIGH: &[(&str, &str)] = &[("THROTTLE_ANONYMOUS_LIMIT", "1000000"), ("THROTTLE_ANONYMOUS_WINDOW_SECONDS", "1")];

const PAGE: Load = Load { script: None, status: 200, seconds: 2 };
const REFUSED: Load = Load { script: Some(ONE), status: 429, seconds: 2 };
const ACCEPTED: Load = Load { script: Some(ONE), status: 302, seconds: 2 };

const SCENARIOS: [Scenario; 4] = [
    Scenario { name: "GET, counter off", load: PAGE, before: 0, settings: OFF },
    Scenario { name: "GET, counted", load: PAGE, before: 0, settings: HIGH },
    // The default ceilings: the fifth request for a link is the last one allowed.
    Scenario { name: "POST, refused", load: REFUSED, before: 5, settings: &[] },
    Scenario { name: "POST, accepted", load: ACCEPTED, before: 0, settings: OPEN },
];

/// How many client networks the flood comes from, in all and by the first reading.
const NETWORKS: [u32; 2] = [1_000_000, 2_000_000];
const STARTS: usize = 5;

pub fn measure() {
    println!("{:<18}{:>12}{:>12}{:>8}", "/users/log-in", "doorpost/s", "control/s", "ratio");
    for scenario in &SCENARIOS {
        let (real, control) = scenario.measure();
        println!("{:<18}{real:>12.0}{control:>12.0}{:>8.2}", scenario.name, real / control);
    }
    let size = fs::metadata(server::DOORPOST).expect("the release build is there").len();
    println!("{:<34}{size:>16}", "binary, bytes");
    let starts = (0..STARTS).map(|_| Server::doorpost(&[]).first_answer.as_secs_f64() * 1000.0).collect();
    println!("{:<34}{:>16.1}", "spawn to first answer, ms", median(starts));
    memory();
}

fn memory() {
    let server = Server::doorpost(&[]);
    // What is made on the first requests belongs to the idle server too.
    std::thread::sleep(Duration::from_secs(1));
    println!("{:<34}{:>16}", "RSS idle, KiB", server.rss_kib());
    let mut sent = 0;
    for networks in NETWORKS {
        flood::send(&server.address, sent..networks);
        sent = networks;
        println!("{:<34}{:>16}", format!("RSS after {networks} networks, KiB"), server.rss_kib());
    }
}
