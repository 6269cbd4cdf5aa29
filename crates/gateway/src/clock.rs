//! Time and chance, in one place so that a simulation can own both.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use throughline_core::Time;

pub trait Clock: Send + Sync {
    fn now(&self) -> Time;
    /// A number that cannot be guessed from the ones before.
    fn chance(&self) -> u64;
}

/// The machine's own clock and randomness.
pub struct SystemClock {
    keys: RandomState,
    drawn: AtomicU64,
}

impl SystemClock {
    pub fn new() -> Self {
        Self { keys: RandomState::new(), drawn: AtomicU64::new(0) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn chance(&self) -> u64 {
        // SipHash under a random key, over a counter and the time: unique, and unguessable without the key.
        let mut hasher = self.keys.build_hasher();
        hasher.write_u64(self.drawn.fetch_add(1, Ordering::Relaxed));
        hasher.write_i64(self.now().0);
        hasher.finish()
    }
}
