//! One deadline at a time, for a loop that waits in a `select!`.

use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Rings once at the time it is set to; unset, never.
#[derive(Default)]
pub(crate) struct Alarm {
    at: Option<Instant>,
}

impl Alarm {
    pub fn set(&mut self, after: Duration) {
        self.at = Some(Instant::now() + after);
    }

    /// Safe to drop and call again: the deadline stays.
    pub async fn rings(&mut self) {
        match self.at {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.at = None;
    }
}
