//! Accepted requests for a link beside a bare actix-web server that makes the same row just as
//! durable, in commits shared the same way, and does nothing else.

pub mod control;
mod gather;

use crate::client::post;
use crate::load::{Load, ONE, Reading};
use crate::median;
use crate::server::{NETWORK, OPEN, Server};

/// The mode in which this program is the control.
pub const CONTROL: &str = "commits-control";
/// Turns of each.
const TURNS: usize = 7;
const ACCEPTED: Load = Load { script: Some(ONE), status: 302, seconds: 4 };

pub fn measure() {
    let (real, control) = take_turns();
    println!("{:<26}{:>12}{:>12}{:>8}  wanted", "POST /users/log-in, 302", "doorpost", "control", "ratio");
    let ratio = real.rate / control.rate;
    println!("{:<26}{:>12.0}{:>12.0}{ratio:>8.2}  0.50 or more", "durable requests/s", real.rate, control.rate);
    println!("{:<26}{:>12.1}{:>12.1}{:>8}  under 20", "p99 of 32 connections, ms", real.p99, control.p99, "");
}

/// Doorpost's reading and its control's, each the median of its turns.
fn take_turns() -> (Reading, Reading) {
    let mut readings = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let real = Server::doorpost(OPEN);
        let answer = real.ask(&post("person1000000@school.example", NETWORK));
        readings.0.push(ACCEPTED.run(&real));
        drop(real);
        readings.1.push(ACCEPTED.run(&Server::control(CONTROL, &answer)));
    }
    (middle(&readings.0), middle(&readings.1))
}

fn middle(readings: &[Reading]) -> Reading {
    let of = |figure: fn(&Reading) -> f64| median(readings.iter().map(figure).collect());
    Reading { rate: of(|reading| reading.rate), p99: of(|reading| reading.p99) }
}
