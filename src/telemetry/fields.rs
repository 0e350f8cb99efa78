//! The fields of a text log line: `status=200 route=/users/log-in`. Words are written as they are and
//! anything else quoted and escaped, so that a line stays one line whatever a stranger wrote.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Writes fields with one pass and without a detour over `Debug`: every request has a line.
pub struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, line: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = Visitor { line, first: true, outcome: Ok(()) };
        fields.record(&mut visitor);
        visitor.outcome
    }
}

struct Visitor<'w> {
    line: Writer<'w>,
    first: bool,
    outcome: fmt::Result,
}

impl Visitor<'_> {
    /// The message bare, any other field after its name.
    fn field(&mut self, field: &Field, write: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        let gap = if std::mem::take(&mut self.first) { "" } else { " " };
        let (name, equals) = if field.name() == "message" { ("", "") } else { (field.name(), "=") };
        let head = [gap, name, equals].iter().try_for_each(|part| self.line.write_str(part));
        self.outcome = self.outcome.and(head).and_then(|()| write(&mut self.line));
    }
}

impl Visit for Visitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let plain = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\' && b != b'=';
        if !value.is_empty() && value.bytes().all(plain) {
            self.field(field, |line| line.write_str(value));
        } else {
            self.field(field, |line| write!(line, "{value:?}"));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.field(field, |line| write!(line, "{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() != "message" {
            return self.record_str(field, &text);
        }
        // Log injection: the sentence may repeat another program's words.
        self.field(field, |line| {
            text.chars().try_for_each(|c| {
                if c.is_control() { write!(line, "{}", c.escape_default()) } else { line.write_char(c) }
            })
        });
    }
}
