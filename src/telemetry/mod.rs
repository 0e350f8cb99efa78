//! Logs and metrics, and what may never stand in them: a token, a code, a cookie, an address.

mod metrics;
mod text;
mod timer;
mod writer;

use std::io::IsTerminal;

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::Config;
pub use metrics::{Counter, Metrics};
pub use writer::Lines;

/// Starts logging to standard output as `LOG_FORMAT` and `RUST_LOG` say. What is returned is to be
/// flushed at the end.
pub fn init(config: &Config) -> Lines {
    let lines = Lines::start();
    // One of the two.
    let (text, json) = if config.log_json {
        let json = tracing_subscriber::fmt::layer().json().flatten_event(true);
        (None, Some(json.with_timer(timer::Timer::new()).with_writer(lines.clone())))
    } else {
        (Some(text::Text::new(lines.clone(), std::io::stdout().is_terminal())), None)
    };
    let wanted = EnvFilter::new(&config.log_filter);
    tracing_subscriber::registry().with(text).with(json).with(filter_fn(may_be_shown)).with(wanted).init();
    lines
}

/// Other crates' lines below a warning may repeat what a client or a mail server wrote, tokens and
/// addresses included, so they are never shown, whatever `RUST_LOG` says.
fn may_be_shown(line: &Metadata<'_>) -> bool {
    // Nor may a stranger fill the log with errors: actix_http writes one for each malformed request.
    let foreign = *line.level() <= LevelFilter::WARN && !line.target().starts_with("actix_http");
    line.target().starts_with("doorpost") || foreign
}

/// Checks `RUST_LOG`.
pub fn check_filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|_| format!("{text:?} is not like info or doorpost=debug,warn"))
}

/// Another program's words, made fit for a log line: words that could be an address, a link or a
/// token are left out, and it stays one line.
pub fn redact(text: &str) -> String {
    let shown = |word: &str| {
        let longest = word.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max();
        let secret = word.contains('@') || word.contains("://") || longest > Some(20);
        if secret { "…".to_owned() } else { word.escape_debug().collect() }
    };
    text.split_whitespace().take(40).map(shown).collect::<Vec<String>>().join(" ")
}
