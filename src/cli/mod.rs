//! The command line, one file a command. Exit status 0, 1 failed, 2 usage.

pub mod config;
pub mod outbox;
pub mod serve;
pub mod user;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

use crate::config::Config;

/// What `doorpost` can be told to do besides serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print every setting with its value and default, secrets hidden
    Config {
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// The mails that have not left
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// Accounts
    #[command(subcommand)]
    User(user::Command),
}

/// The process's environment. A value that isn't UTF-8 keeps a mark that the settings refuse.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
}

/// The settings; or, when they are wrong, their problems printed and the exit status. `what` is what can't
/// be done without them.
fn settings(what: &str) -> Result<Config, ExitCode> {
    Config::load(environment(), Path::new(".")).map_err(|problems| {
        print_problems(what, &problems);
        ExitCode::from(2)
    })
}

/// Prints for a person or a script. Whoever reads may have seen enough: `doorpost config | head`.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Prints the operator's mistakes, all at once. `what` is what can't be done.
fn print_problems(what: &str, problems: &[String]) {
    eprintln!("doorpost {what}; {} to mend:", if problems.len() == 1 { "one thing" } else { "these things" });
    for problem in problems {
        eprintln!("  {problem}");
    }
}
