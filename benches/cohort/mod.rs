//! A cohort's mails leave over SMTP, beside a bare client that hands over the same mails through as
//! many connections: smtp-source, which comes with Postfix as does the server on core 1.

mod queue;
mod sample;
mod sink;

use std::path::Path;

use crate::median;
use crate::server::{now, pinned};
use queue::Queue;
use sink::Sink;

const MAILS: usize = 10_000;
/// How many connections at once, and turns of each.
const ROWS: [(usize, usize); 2] = [(4, 3), (1, 1)];

pub fn measure() {
    let mail = sample::record();
    println!("{:<26}{:>12}{:>12}{:>8}  wanted", format!("{MAILS} mails by SMTP"), "doorpost", "smtp-source", "ratio");
    for (connections, turns) in ROWS {
        let (real, bare) = take_turns(connections, turns, mail.path());
        let name = format!("{connections} at once");
        println!("{:<26}{real:>12.2}{bare:>12.2}{:>8.2}  2.00 or less", format!("{name}, s"), real / bare);
        let rate = |seconds| MAILS as f64 / seconds;
        println!("{:<26}{:>12.0}{:>12.0}", format!("{name}, mails/s"), rate(real), rate(bare));
    }
}

/// Seconds that doorpost and the bare client take, each the median of its turns.
fn take_turns(connections: usize, turns: usize, mail: &Path) -> (f64, f64) {
    let mut figures = (Vec::new(), Vec::new());
    for _ in 0..turns {
        figures.0.push(doorpost(connections));
        figures.1.push(bare(connections, mail));
    }
    (median(figures.0), median(figures.1))
}

/// From the start of the process, which finds the queue full, to the moment when it is empty.
fn doorpost(connections: usize) -> f64 {
    let sink = Sink::start(MAILS);
    let queue = Queue::fill(MAILS);
    let started = now();
    let (server, emptied) = queue.send(&sink.address, connections);
    emptied.wait(&server);
    let took = started.elapsed();
    sink.check();
    took.as_secs_f64()
}

fn bare(connections: usize, mail: &Path) -> f64 {
    let sink = Sink::start(MAILS);
    let mut client = pinned("smtp-source");
    // It keeps its connections, as the fastest client would.
    client.args(["-d", "-s", &connections.to_string(), "-m", &MAILS.to_string(), "-F"]).arg(mail);
    client.args(["-f", "login@school.example", "-t", "person@school.example", &sink.address]);
    let started = now();
    let status = client.status().expect("taskset, from util-linux, starts smtp-source");
    let took = started.elapsed();
    assert!(status.success(), "smtp-source failed");
    sink.check();
    took.as_secs_f64()
}
