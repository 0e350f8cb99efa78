//! A log line as text: `2026-11-30T14:17:00.123Z  INFO request status=200 route=/users/log-in`. Words are
//! written as they are and anything else quoted and escaped, so that a line stays one line whatever a
//! stranger wrote.
//!
//! A layer of our own, since every request has a line: one pass over the fields into a buffer that is
//! kept, where the ready-made formatter walks spans that we don't have.

use std::cell::RefCell;
use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::timer::Timer;
use super::writer::Lines;

thread_local! {
    static LINE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Writes each event as a line of text.
pub struct Text {
    lines: Lines,
    timer: Timer,
    /// Whether a person looks at it as it comes.
    coloured: bool,
}

impl Text {
    pub fn new(lines: Lines, coloured: bool) -> Self {
        Self { lines, timer: Timer::new(), coloured }
    }

    fn level(&self, level: Level) -> &'static str {
        match (level, self.coloured) {
            (Level::ERROR, false) => " ERROR ",
            (Level::WARN, false) => "  WARN ",
            (Level::INFO, false) => "  INFO ",
            (Level::DEBUG, false) => " DEBUG ",
            (Level::TRACE, false) => " TRACE ",
            (Level::ERROR, true) => " \x1b[31mERROR\x1b[0m ",
            (Level::WARN, true) => "  \x1b[33mWARN\x1b[0m ",
            (Level::INFO, true) => "  \x1b[32mINFO\x1b[0m ",
            (Level::DEBUG, true) => " \x1b[34mDEBUG\x1b[0m ",
            (Level::TRACE, true) => " \x1b[35mTRACE\x1b[0m ",
        }
    }
}

impl<S: Subscriber> Layer<S> for Text {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        LINE.with_borrow_mut(|line| {
            line.clear();
            // Writing to a String can't fail, here and below.
            let _ = self.timer.write(line);
            line.push_str(self.level(level));
            event.record(&mut Fields { line, first: true });
            line.push('\n');
            self.lines.add(line.as_bytes(), level <= Level::WARN);
        });
    }
}

struct Fields<'a> {
    line: &'a mut String,
    first: bool,
}

impl Fields<'_> {
    /// The message stands bare, any other field after its name.
    fn name(&mut self, field: &Field) {
        if !std::mem::take(&mut self.first) {
            self.line.push(' ');
        }
        if field.name() != "message" {
            self.line.push_str(field.name());
            self.line.push('=');
        }
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.name(field);
        let plain = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\' && b != b'=';
        if !value.is_empty() && value.bytes().all(plain) {
            self.line.push_str(value);
        } else {
            let _ = write!(self.line, "{value:?}");
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.name(field);
        self.line.push_str(itoa::Buffer::new().format(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "message" {
            return self.record_str(field, &format!("{value:?}"));
        }
        self.name(field);
        let start = self.line.len();
        let _ = write!(self.line, "{value:?}");
        // Log injection: the sentence may repeat another program's words.
        if self.line[start..].contains(char::is_control) {
            let sentence = self.line.split_off(start);
            self.line.extend(sentence.chars().flat_map(shown));
        }
    }
}

/// A control character as its escape, any other as it is.
fn shown(c: char) -> impl Iterator<Item = char> {
    let (escape, plain) = if c.is_control() { (Some(c.escape_default()), None) } else { (None, Some(c)) };
    escape.into_iter().flatten().chain(plain)
}
