//! The time at the head of a log line. A second's date and time are written once and not for each line.

use std::cell::RefCell;
use std::fmt;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::clock::Clock;

thread_local! {
    /// The last second written by this thread, and its text without the `Z`.
    static SECOND: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
}

/// `2026-11-30T14:17:00.123Z`.
pub struct Timer(Clock);

impl Timer {
    pub fn new() -> Self {
        Self(Clock::system())
    }

    /// Appends the time of this moment.
    pub fn write(&self, line: &mut impl fmt::Write) -> fmt::Result {
        let now = self.0.now();
        let (second, millis) = (now.div_euclid(1000), now.rem_euclid(1000));
        SECOND.with_borrow_mut(|kept| {
            if kept.0 != second {
                *kept = (second, written(second));
            }
            write!(line, "{}.{millis:03}Z", kept.1)
        })
    }
}

impl FormatTime for Timer {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        self.write(line)
    }
}

fn written(second: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp(second).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    at.format(&Rfc3339).unwrap_or_default().trim_end_matches('Z').to_owned()
}
