//! The release build beside a control, in one run and on one core: `scripts/bench`.
//!
//! Requests a second say more about a machine than about a program, so every figure has a control:
//! a bare actix-web server that answers the same bytes and does nothing for them. The two take
//! turns, so that whatever else the machine does meets both. What travels is the ratio.

mod client;
mod control;
mod flood;
mod load;
mod server;

use std::fs;
use std::time::Duration;

use load::Scenario;
use server::Server;

const OFF: &[(&str, &str)] = &[("THROTTLE_ANONYMOUS_LIMIT", "off")];
const HIGH: &[(&str, &str)] = &[("THROTTLE_ANONYMOUS_LIMIT", "1000000"), ("THROTTLE_ANONYMOUS_WINDOW_SECONDS", "1")];
const OPEN: &[(&str, &str)] = &[
    ("THROTTLE_IP_BURST_LIMIT", "100000"),
    ("THROTTLE_IP_BURST_WINDOW_SECONDS", "1"),
    ("THROTTLE_IP_HOURLY_LIMIT", "100000"),
    ("THROTTLE_IP_HOURLY_WINDOW_SECONDS", "1"),
    ("THROTTLE_EMAIL_LIMIT", "100000"),
    ("THROTTLE_EMAIL_WINDOW_SECONDS", "1"),
];

const SCENARIOS: [Scenario; 4] = [
    Scenario { name: "GET, counter off", posts: false, before: 0, status: 200, settings: OFF },
    Scenario { name: "GET, counted", posts: false, before: 0, status: 200, settings: HIGH },
    // The default ceilings: the fifth request for a link is the last one allowed.
    Scenario { name: "POST, refused", posts: true, before: 5, status: 429, settings: &[] },
    Scenario { name: "POST, accepted", posts: true, before: 0, status: 302, settings: OPEN },
];

/// How many client networks the flood comes from, in all and by the first reading.
const NETWORKS: [u32; 2] = [1_000_000, 2_000_000];
const STARTS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [mode, address, answer] if mode == "control" => control::serve(address, answer),
        _ => measure(),
    }
}

fn measure() {
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

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
