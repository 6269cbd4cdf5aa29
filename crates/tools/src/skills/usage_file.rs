//! How often each skill was used: `skills/.usage.json`, which Hermes' curator reads.
//!
//! Counting never fails a call. A file that cannot be read is left as it is rather than begun
//! anew: it also holds which skills a user has pinned.

use serde_json::{Map, Value, json};
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use throughline_core::time::Time;

/// Another process holds the lock for as long as one rewrite takes; beyond that it hangs.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// A record is some 300 bytes: room for ten thousand skills.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

pub struct SkillUsage {
    file: PathBuf,
}

#[derive(Clone, Copy)]
pub enum UsageCount {
    /// Seen, and by that used.
    Viewed,
    Patched,
}

impl SkillUsage {
    pub fn of(skills_dir: &Path) -> Self {
        Self { file: skills_dir.join(".usage.json") }
    }

    pub fn count(&self, skill: &str, count: UsageCount, now: Time) {
        let at = Value::String(timestamp(now));
        self.change(|records| {
            let record = records.entry(skill).or_insert(Value::Null);
            if !record.is_object() {
                *record = fresh(&at);
            }
            let counters: &[(&str, &str)] = match count {
                UsageCount::Viewed => &[("view_count", "last_viewed_at"), ("use_count", "last_used_at")],
                UsageCount::Patched => &[("patch_count", "last_patched_at")],
            };
            for (counter, time) in counters {
                record[counter] = json!(record[counter].as_i64().unwrap_or(0) + 1);
                record[time] = at.clone();
            }
        });
    }

    pub fn forget(&self, skill: &str) {
        self.change(|records| {
            records.shift_remove(skill);
        });
    }

    pub fn is_pinned(&self, skill: &str) -> bool {
        let records = self.read().unwrap_or_default();
        records.get(skill).is_some_and(|record| record["pinned"] == true)
    }

    fn change(&self, change: impl FnOnce(&mut Map<String, Value>)) {
        if let Err(error) = self.try_change(change) {
            tracing::debug!(file = %self.file.display(), %error, "the use of a skill was not counted");
        }
    }

    fn try_change(&self, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), String> {
        let _lock = self.lock()?;
        let mut records = self.read()?;
        let before = records.clone();
        change(&mut records);
        if records == before {
            return Ok(());
        }
        let text =
            serde_json::to_string_pretty(&sorted(Value::Object(records))).map_err(|e| e.to_string())?;
        let dir = self.file.parent().ok_or("it has no directory")?;
        let mut new = tempfile::Builder::new()
            .prefix(".usage_")
            .suffix(".tmp")
            .tempfile_in(dir)
            .map_err(|e| e.to_string())?;
        new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(|e| e.to_string())?;
        new.persist(&self.file).map(drop).map_err(|e| e.to_string())
    }

    /// As Hermes takes it: `flock` on a file beside it.
    fn lock(&self) -> Result<File, String> {
        let dir = self.file.parent().ok_or("it has no directory")?;
        std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        let lock = File::options()
            .append(true)
            .read(true)
            .create(true)
            .open(dir.join(".usage.json.lock"))
            .map_err(|error| error.to_string())?;
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::Error(error)) => return Err(error.to_string()),
                Err(TryLockError::WouldBlock) if begun.elapsed() > LOCK_WAIT => {
                    return Err("another process holds its lock".to_owned());
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn read(&self) -> Result<Map<String, Value>, String> {
        match std::fs::metadata(&self.file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
            Ok(known) if known.len() > FILE_BYTES_MAX => return Err("it is too large".to_owned()),
            _ => {}
        }
        let text = std::fs::read_to_string(&self.file).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }
}

fn fresh(at: &Value) -> Value {
    json!({
        "created_by": null,
        "use_count": 0,
        "view_count": 0,
        "last_used_at": null,
        "last_viewed_at": null,
        "patch_count": 0,
        "last_patched_at": null,
        "created_at": at,
        "state": "active",
        "pinned": false,
        "archived_at": null,
    })
}

/// As Python's `datetime.now(timezone.utc).isoformat()`.
fn timestamp(now: Time) -> String {
    let at = jiff::Timestamp::from_microsecond(now.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let form = if now.0.rem_euclid(1_000_000) == 0 {
        "%Y-%m-%dT%H:%M:%S+00:00"
    } else {
        "%Y-%m-%dT%H:%M:%S.%6f+00:00"
    };
    at.strftime(form).to_string()
}

/// Keys in order, at every depth.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(members.into_iter().collect())
        }
        other => other,
    }
}
