//! The command line: serve, or one of the tools.

use std::process::ExitCode;

use clap::Parser;
use doorpost::cli::{Command, config, outbox, serve, user};

/// The system's own costs a mail a fifth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(version, about = "A magic-link authentication server. Without a command it serves.")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        None => serve::run(),
        Some(Command::Config { json }) => config::run(json),
        Some(Command::Outbox(command)) => outbox::run(&command),
        Some(Command::User(command)) => user::run(&command),
    }
}
