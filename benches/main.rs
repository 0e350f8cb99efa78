//! The release build beside what it is compared with, in one run on one machine: `scripts/bench`.
//!
//! Requests a second say more about a machine than about a program, so every figure has a control
//! that does the same with nothing around it. The two take turns, so that whatever else the machine
//! does meets both. What travels is the ratio.

mod check;
mod client;
mod cohort;
mod commits;
mod control;
mod database;
mod http;
mod load;
mod postgres;
mod server;

/// The program's own, so that no ratio is the allocator's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PARTS: [(&str, fn()); 5] = [
    ("http", http::measure),
    ("check", check::measure),
    ("commits", commits::measure),
    ("cohort", cohort::measure),
    ("postgres", postgres::measure),
];

fn main() {
    // cargo adds a flag of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [http::CONTROL, address, answer] => http::control::serve(address, answer),
        [commits::CONTROL, address, answer] => commits::control::serve(address, answer),
        ref wanted => measure(wanted),
    }
}

/// The parts that are wanted, or all of them; `scripts/bench` knows their names too.
fn measure(wanted: &[&str]) {
    println!("The databases lie on {}.\n", server::disk());
    for (_, part) in PARTS.iter().filter(|(part, _)| wanted.is_empty() || wanted.contains(part)) {
        part();
        println!();
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
