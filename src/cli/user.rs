//! `doorpost user`: accounts, for the operator.

use std::process::ExitCode;

use clap::Subcommand;

use crate::domain::email::Email;
use crate::domain::group::Group;
use crate::store::Store;
use crate::store::users::NoChange;

/// What can't be done when anything fails.
const FAILURE: &str = "can't change the account";

/// What can be done with accounts.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Groups of an account, which Remote-Groups tells to apps
    #[command(subcommand)]
    Group(GroupCommand),
}

#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// Put an account into a group
    Add {
        /// The account's address
        email: String,
        /// 1 to 32 of a-z, 0-9, dash, dot, underscore
        group: String,
    },
    /// Take it out of one
    Remove { email: String, group: String },
}

/// Works on the database of `DATABASE_URL`, whether the server runs or not: a running one knows within five
/// seconds.
pub fn run(command: &Command) -> ExitCode {
    let Command::Group(command) = command;
    let (email, group, within) = match command {
        GroupCommand::Add { email, group } => (email, group, true),
        GroupCommand::Remove { email, group } => (email, group, false),
    };
    let (Ok(address), Some(group)) = (Email::parse(email), Group::parse(group)) else {
        super::print_problems(FAILURE, &[unreadable(email, group)]);
        return ExitCode::from(2);
    };
    let config = match super::settings(FAILURE) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let runtime = tokio::runtime::Runtime::new().expect("the system gives threads");
    match runtime.block_on(set_group(&config.database_url.0, &address, &group, within)) {
        Ok(changed) => {
            let word = if within { "in" } else { "not in" };
            let already = if changed { "" } else { " already" };
            super::print(&format!("{} is{already} {word} {}.\n", address.as_str(), group.as_str()));
            ExitCode::SUCCESS
        }
        Err(problem) => {
            super::print_problems(FAILURE, &[problem]);
            ExitCode::FAILURE
        }
    }
}

fn unreadable(email: &str, group: &str) -> String {
    match Email::parse(email) {
        Err(_) => format!("{email:?} is not an address like ada@school.example"),
        Ok(_) => format!("{group:?} is not a group: 1 to 32 of a-z, 0-9, dash, dot, underscore"),
    }
}

async fn set_group(url: &str, email: &Email, group: &Group, within: bool) -> Result<bool, String> {
    let store = Store::open(url).await.map_err(|e| e.to_string())?;
    store.set_group(email.as_str(), group.as_str(), within).await.map_err(|problem| match problem {
        NoChange::NoAccount => format!("there is no account {}", email.as_str()),
        NoChange::Failed(error) => error.to_string(),
    })
}
