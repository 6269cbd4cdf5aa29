//! By what `/proc` says.

use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::time::{Duration, Instant};

/// So long a process that was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// What tells it from any other that had or will have its number: when it began, in this life of the machine. None: there
/// is none, or it only waits to be buried.
pub fn identity(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(") ")?; // a name may hold anything
    let fields: Vec<&str> = after.split(' ').collect();
    let (state, began) = (fields.first()?, fields.get(19)?);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    (*state != "Z").then(|| format!("{began} {}", boot.trim()))
}

/// The group that it leads.
pub fn end(process: u32, identity: &str) -> bool {
    let Some(group) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return false };
    if kill_process_group(group, Signal::KILL).is_err() {
        return false;
    }
    let began = Instant::now();
    while self::identity(process).is_some_and(|now| now == identity) && began.elapsed() < GONE_WITHIN {
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
