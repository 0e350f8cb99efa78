//! The in-process counters, in bounded memory that a flood can't clear.
//!
//! Each counter has two rooms. `recent` holds every log that was hit lately, and a flood of new keys
//! may push the oldest out of it. `full` holds the logs that reached their ceiling, so that a victim
//! who was at the ceiling is still at the ceiling after any flood of partial ones. A log in both
//! rooms is the same log.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use super::key::Key;
use super::log::{HitLog, Verdict};
use super::{Counter, Hit};
use crate::clock::Micros;

/// What an entry takes besides its instants: moka's own node and queues, the Arc, the mutex and the
/// log's header. `docs/measurements.md` has the run that shows what it comes to.
const ENTRY_BYTES: usize = 400;

type SharedLog = Arc<Mutex<HitLog>>;

/// All in-process counters.
pub struct Memory {
    rooms: [Rooms; Counter::ALL.len()],
}

struct Rooms {
    recent: Cache<Key, SharedLog>,
    full: Cache<Key, SharedLog>,
}

/// A thread panicked while it held this key's log, which is forgotten: the next hit starts afresh.
#[derive(Debug)]
pub struct Poisoned;

impl Memory {
    /// Counters that together stay under `bytes`. `window` is how far each counter looks back.
    pub fn new(bytes: u64, window: impl Fn(Counter) -> Duration) -> Self {
        // Rooms of their own, so that keys of networks can't push out keys of inboxes.
        let rooms = Counter::ALL.map(|counter| {
            let share = bytes / 100 * counter.memory_percent();
            Rooms { recent: room(share / 100 * 60, window(counter)), full: room(share / 100 * 40, window(counter)) }
        });
        Self { rooms }
    }

    /// Records a hit if its counter allows it, in the manner of Hammer.
    pub fn hit(&self, hit: &Hit, now: Micros) -> Result<Verdict, Poisoned> {
        let rooms = &self.rooms[hit.counter as usize];
        let shared = rooms.log(hit.key);
        let Ok(mut log) = shared.lock() else {
            rooms.forget(hit.key);
            return Err(Poisoned);
        };
        let before = log.capacity();
        let verdict = log.hit(now, hit.window, hit.limit);
        let grown = log.capacity() > before;
        let full = log.len() as u32 >= hit.limit;
        drop(log);
        if let Verdict::Allow { .. } = verdict {
            rooms.keep(hit.key, shared, grown, full);
        }
        Ok(verdict)
    }
}

impl Rooms {
    fn log(&self, key: Key) -> SharedLog {
        if let Some(log) = self.recent.get(&key) {
            return log;
        }
        // One of many at the same instant makes the log; the others get the same one.
        self.recent.get_with(key, || self.full.get(&key).unwrap_or_default())
    }

    fn forget(&self, key: Key) {
        self.recent.invalidate(&key);
        self.full.invalidate(&key);
    }

    /// Weighs a log again when it grew, and puts a full one where no flood reaches it.
    fn keep(&self, key: Key, log: SharedLog, grown: bool, full: bool) {
        if full {
            self.full.insert(key, log.clone());
        }
        if full || grown {
            // Also when it is full: the flood may have pushed it out since we took hold of it.
            self.recent.insert(key, log);
        }
    }
}

fn room(bytes: u64, window: Duration) -> Cache<Key, SharedLog> {
    Cache::builder()
        .max_capacity(bytes)
        .weigher(|_, log: &SharedLog| {
            let instants = log.lock().map_or(0, |log| log.capacity()) * size_of::<Micros>();
            (ENTRY_BYTES + instants) as u32
        })
        // The default policy weighs popularity and silently refuses new keys.
        .eviction_policy(EvictionPolicy::lru())
        // Not time_to_live: that would drop a counter in the middle of its window.
        .time_to_idle(window)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_ip::Network;
    use crate::throttle::Keys;

    #[test]
    fn a_poisoned_lock_fails_once_and_heals() {
        let memory = Memory::new(8 << 20, |_| Duration::from_secs(60));
        let key = Keys::new(None).network(Network::of([203, 0, 113, 9].into(), 64));
        let hit = Hit { counter: Counter::IpBurst, key, window: Duration::from_secs(60), limit: 5 };
        let log = memory.rooms[Counter::IpBurst as usize].log(key);
        let poisoner = std::thread::spawn(move || {
            let _held = log.lock();
            panic!("while the log is held");
        });
        assert!(poisoner.join().is_err());
        assert!(memory.hit(&hit, 1).is_err());
        assert!(matches!(memory.hit(&hit, 1), Ok(Verdict::Allow { count: 1 })));
    }
}
