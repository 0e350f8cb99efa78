//! `doorpost outbox`: the mails that have not left, and another try for those that were set aside.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::clock::{Clock, Millis};
use crate::config::Config;
use crate::store::Store;
use crate::store::backlog::{State, Waiting};

/// Rows shown at most.
const MOST: i64 = 1000;
/// What can't be done when anything fails.
const FAILURE: &str = "can't look at the queue";

/// What can be done with the queue.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the mails that have not left, oldest first
    List {
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// Queue a mail that was set aside once more, as if it were asked for now
    Retry {
        /// Its id, from the list
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// Every mail that was set aside
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

/// Works on the database of `DATABASE_URL`, whether the server runs or not.
pub fn run(command: &Command) -> ExitCode {
    let config = match super::settings(FAILURE) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let runtime = tokio::runtime::Runtime::new().expect("the system gives threads");
    let done = runtime.block_on(async {
        let store = Store::open(&config.database_url.0).await.map_err(|e| e.to_string())?;
        match command {
            Command::List { json } => list(&store, *json).await,
            Command::Retry { id, .. } => retry(&store, id.as_deref(), &config).await,
        }
    });
    done.unwrap_or_else(|problem| {
        super::print_problems(FAILURE, &[problem]);
        ExitCode::FAILURE
    })
}

async fn list(store: &Store, as_json: bool) -> Result<ExitCode, String> {
    let mails = store.backlog(MOST).await.map_err(|e| e.to_string())?;
    let mut out = String::new();
    if as_json {
        let rows: Vec<_> = mails.iter().map(row).collect();
        out = serde_json::to_string_pretty(&rows).expect("strings make sound JSON") + "\n";
    } else if mails.is_empty() {
        out.push_str("No mail waits.\n");
    } else {
        out.push_str(&format!(
            "{:36}  {:9}  {:8}  {:20}  {:>5}  {}\n",
            "id", "state", "for", "asked for", "tries", "address"
        ));
        for mail in &mails {
            let (state, asked_at) = (state(mail.state), moment(mail.asked_at));
            let Waiting { id, email, tries, purpose, .. } = mail;
            out.push_str(&format!("{id:36}  {state:9}  {:8}  {asked_at:20}  {tries:>5}  {email}\n", purpose.text()));
        }
        if mails.len() as i64 == MOST {
            out.push_str(&format!("These are the oldest {MOST}; there may be more.\n"));
        }
    }
    super::print(&out);
    Ok(ExitCode::SUCCESS)
}

async fn retry(store: &Store, id: Option<&str>, config: &Config) -> Result<ExitCode, String> {
    let again = store.queue_again(id, Clock::system().now(), config.link_lifetime).await.map_err(|e| e.to_string())?;
    match (again, id) {
        (0, Some(id)) => Err(format!("no mail that was set aside has the id {id}; see doorpost outbox list")),
        (mails, _) => {
            super::print(&format!("{mails} queued again.\n"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn row(mail: &Waiting) -> serde_json::Value {
    json!({
        "id": mail.id,
        "state": state(mail.state),
        "for": mail.purpose.text(),
        "email": mail.email,
        "asked_at": moment(mail.asked_at),
        "due_at": moment(mail.due_at),
        "deadline_at": moment(mail.deadline_at),
        "tries": mail.tries,
    })
}

fn state(state: State) -> &'static str {
    match state {
        State::Queued => "queued",
        State::InHand => "in_hand",
        State::HeldBack => "held_back",
        State::SetAside => "set_aside",
    }
}

/// A time as operators read it, to the second.
fn moment(at: Millis) -> String {
    let at = OffsetDateTime::from_unix_timestamp(at.div_euclid(1000)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    at.format(&Rfc3339).unwrap_or_default()
}
