//! A flood from ever new client networks: what the counters' memory has to withstand.

use std::net::Ipv4Addr;
use std::ops::Range;

use crate::client::{Connection, get, post};

const CONNECTIONS: u32 = 64;
/// Requests on their way at once on a connection; actix-web takes as many.
const PIPELINED: u32 = 16;
/// One request in so many asks for a link, and so fills the other three counters. It waits for the disk.
const POSTS: u32 = 40;

/// One request from each network. The networks are spread evenly over the connections.
pub fn send(address: &str, networks: Range<u32>) {
    let share = networks.len() as u32 / CONNECTIONS;
    std::thread::scope(|scope| {
        for at in 0..CONNECTIONS {
            let first = networks.start + at * share;
            scope.spawn(move || send_over_one(address, first..first + share));
        }
    });
}

fn send_over_one(address: &str, mut networks: Range<u32>) {
    let mut connection = Connection::open(address).expect("the server listens");
    while !networks.is_empty() {
        let batch: Vec<String> = networks.by_ref().take(PIPELINED as usize).map(request).collect();
        connection.send(&batch.concat()).expect("the server reads");
        for _ in batch {
            let status = connection.receive().expect("the server answers").status;
            assert!(matches!(status, 200 | 302), "a first request was answered with {status}");
        }
    }
}

fn request(number: u32) -> String {
    let network = Ipv4Addr::from_bits(0x0100_0000 + number).to_string();
    match number % POSTS {
        0 => post(&format!("person{number}@school.example"), &network),
        _ => get("/users/log-in", &network),
    }
}
