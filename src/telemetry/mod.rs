//! Logs and metrics, and what may never stand in them: a token, a code, a cookie, an address.

mod fields;
mod metrics;
mod timer;
mod writer;

use std::io::IsTerminal;

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::Config;
pub use metrics::Metrics;
pub use writer::Lines;

/// Starts logging to standard output as `LOG_FORMAT` and `RUST_LOG` say. What is returned is to be
/// flushed at the end.
pub fn init(config: &Config) -> Lines {
    let lines = Lines::start();
    let wanted = EnvFilter::new(&config.log_filter).and(filter_fn(may_be_shown));
    let layer = tracing_subscriber::fmt::layer().with_timer(timer::Timer::new()).with_writer(lines.clone());
    if config.log_json {
        tracing_subscriber::registry().with(layer.json().flatten_event(true).with_filter(wanted)).init();
    } else {
        let layer = layer.fmt_fields(fields::Fields).with_target(false).with_ansi(std::io::stdout().is_terminal());
        tracing_subscriber::registry().with(layer.with_filter(wanted)).init();
    }
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
