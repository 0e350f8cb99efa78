//! Time, handed in. Nothing else in the program reads a clock or the system's randomness.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch, as every time in the database is written.
pub type Millis = i64;

/// Microseconds on a clock that never goes back; comparable within one process only.
pub type Micros = u64;

/// Where the tests' clock starts: 2026-11-30 14:17:00 UTC.
const TEST_EPOCH: Millis = 1_796_048_220_000;

/// The system's clock, or one that a test moves by hand.
#[derive(Clone, Debug)]
pub enum Clock {
    System(Instant),
    Test(Arc<AtomicU64>),
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    pub fn system() -> Self {
        Self::System(Instant::now())
    }

    /// A clock that stands still until [`Clock::advance`] moves it.
    pub fn test() -> Self {
        Self::Test(Arc::default())
    }

    /// The time of day: what links, sessions and mails are dated by.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    pub fn now(&self) -> Millis {
        match self {
            Self::System(_) => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis)
            }
            Self::Test(micros) => TEST_EPOCH + (micros.load(Ordering::SeqCst) / 1000) as Millis,
        }
    }

    /// Time that only goes forward: what the in-process counters are measured by, so that a
    /// clock set back or forward locks nobody out.
    pub fn monotonic(&self) -> Micros {
        match self {
            Self::System(start) => start.elapsed().as_micros() as Micros,
            Self::Test(micros) => micros.load(Ordering::SeqCst),
        }
    }

    /// Moves a test's clock forward. The system's clock can't be moved.
    pub fn advance(&self, by: Duration) {
        if let Self::Test(micros) = self {
            micros.fetch_add(by.as_micros() as u64, Ordering::SeqCst);
        }
    }
}

/// A source of random bytes: the system's, or a test's.
pub type Random = fn(&mut [u8]);

/// The operating system's random bytes.
///
/// # Panics
/// When the system has none to give. Going on with a guessable token would be worse.
pub fn os_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives random bytes");
}
