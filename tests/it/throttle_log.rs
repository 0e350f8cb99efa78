//! The sliding window against a model that remembers everything.

use std::time::Duration;

use doorpost::throttle::log::{HitLog, Verdict};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Never more than L in any W; `retry_after` exact; at that instant allowed, and not before.
    #[test]
    fn the_log_is_an_exact_sliding_window(
        limit in 1_u32..8,
        window in 1_u64..50,
        steps in prop::collection::vec(0_u64..30, 1..200),
    ) {
        let (mut log, mut allowed, mut now) = (HitLog::default(), Vec::<u64>::new(), 0);
        let span = Duration::from_micros(window);
        for step in steps {
            now += step;
            let inside = allowed.iter().filter(|at| **at + window > now).count();
            match log.hit(now, span, limit) {
                Verdict::Allow { count } => {
                    prop_assert!(inside < limit as usize, "one too many");
                    prop_assert_eq!(count as usize, inside + 1);
                    allowed.push(now);
                }
                Verdict::Deny { retry_after } => {
                    prop_assert_eq!(inside, limit as usize, "refused with room left");
                    let opens = now + retry_after.as_micros() as u64;
                    let at = |instant: u64| allowed.iter().filter(|hit| **hit + window > instant).count();
                    prop_assert!(at(opens) < limit as usize, "refused at the instant it named");
                    prop_assert_eq!(at(opens - 1), limit as usize, "could have opened earlier");
                }
            }
            for end in &allowed {
                let held = allowed.iter().filter(|hit| **hit <= *end && **hit + window > *end).count();
                prop_assert!(held <= limit as usize, "a window holds more than the limit");
            }
        }
        prop_assert!(log.len() <= limit as usize, "the log grows beyond its limit");
    }
}

/// Two threads' clocks may be read in another order than their hits arrive.
#[test]
fn a_hit_from_the_past_opens_no_window() {
    let mut log = HitLog::default();
    let minute = Duration::from_secs(60);
    assert_eq!(log.hit(100_000_000, minute, 1), Verdict::Allow { count: 1 });
    // Told in its own time, so that the instant it names is the right one.
    assert_eq!(log.hit(50_000_000, minute, 1), Verdict::Deny { retry_after: Duration::from_secs(110) });
    assert_eq!(log.hit(160_000_000, minute, 1), Verdict::Allow { count: 1 });
}
