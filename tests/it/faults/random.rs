//! Rows 1 to 4 without knowing where: killed at any moment, again and again.

use std::time::Duration;

use doorpost::clock::os_random;

use super::{assert_all_mailed, drained, place};
use crate::support::load::Load;

const ROUNDS: usize = 5;

/// Numbers that look random and come again from the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[tokio::test]
async fn fault_01_to_04_killed_at_any_moment_under_load() {
    let mut seed = [0; 8];
    os_random(&mut seed);
    let seed = u64::from_ne_bytes(seed) | 1;
    let mut numbers = Numbers(seed);
    let (place, smtp) = place().await;
    let place = place.setting("MAIL_TIMEOUT_SECONDS", "2");
    let mut promised = Vec::new();
    for _ in 0..ROUNDS {
        let doorpost = place.start().await;
        let load = Load::start(doorpost.address, 3);
        tokio::time::sleep(Duration::from_millis(20 + numbers.below(400))).await;
        doorpost.kill();
        promised.extend(load.promised().await);
    }
    assert!(!promised.is_empty(), "seed {seed}: nobody was promised anything");
    let _doorpost = place.start().await;
    drained(&place, 60).await;
    assert_all_mailed(&promised, &smtp, &format!("seed {seed}"));
}
