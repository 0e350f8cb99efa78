//! Standard output, written in batches: a system call for many lines and not for each. A warning goes
//! out at once, with whatever waits before it; the rest within a tenth of a second.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line may wait.
const WAIT: Duration = Duration::from_millis(100);
/// How many bytes may.
const FULL: usize = 32 * 1024;

/// The waiting lines.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Starts the thread that writes them out.
    pub fn start() -> Self {
        let lines = Self::default();
        let waiting = lines.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(WAIT);
                waiting.flush();
            }
        });
        lines
    }

    /// Writes out what waits. Nobody is told when standard output is gone: there is nowhere to tell it.
    pub fn flush(&self) {
        self.add(&[], true);
    }

    /// Adds whole lines, to be written out at once if `now`.
    pub fn add(&self, line: &[u8], now: bool) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend_from_slice(line);
        if (now || waiting.len() > FULL) && !waiting.is_empty() {
            let mut out = io::stdout().lock();
            let _ = out.write_all(&waiting).and_then(|()| out.flush());
            waiting.clear();
        }
    }
}

/// Takes one line.
pub struct Line<'a> {
    lines: &'a Lines,
    urgent: bool,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, urgent: true }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        Line { lines: self, urgent: *meta.level() <= Level::WARN }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lines.add(line, self.urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
