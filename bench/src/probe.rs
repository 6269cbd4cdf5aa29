//! How long an fsync takes on the same disk while a load runs.

use anyhow::Result;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub struct Fsync {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

pub struct Measured {
    pub p99_ms: f64,
}

impl Fsync {
    /// Appends and syncs 4 KiB twenty times a second: often enough to see, too rarely to disturb.
    pub fn start(directory: &Path) -> Result<Self> {
        let mut file = File::create(directory.join("probe"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut times = Vec::new();
            while !flag.load(Ordering::Relaxed) {
                let began = Instant::now();
                if file.write_all(&[0x5a; 4096]).and_then(|()| file.sync_all()).is_err() {
                    break;
                }
                times.push(began.elapsed());
                std::thread::sleep(Duration::from_millis(50));
            }
            times
        });
        Ok(Self { stop, thread })
    }

    pub fn stop(self) -> Measured {
        self.stop.store(true, Ordering::Relaxed);
        let mut times = self.thread.join().unwrap_or_default();
        times.sort();
        let p99 = times.get(times.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default();
        Measured { p99_ms: p99.as_secs_f64() * 1e3 }
    }
}
