//! Who was let in by a code: Hermes' pairing files, as values.
//!
//! A stranger who writes to an agent gets a code; the operator approves the code. Hermes 0.19 keeps
//! the salted hash of a code, 0.14 the code itself: the first is written, both are read.
//!
//! - a code holds for an hour; at most three wait on a platform, one request of a person in ten minutes
//! - five codes that were never issued close a platform's approvals for an hour
//! - entries that make no sense count for no one, and fields of a later Hermes stay
//! - codes and ids are compared in constant time
//!
//! Deliberately absent: files, the clock, and where randomness comes from ([`Chance`]).

use crate::access::{is_one_of, same};
use crate::json;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Without letters and digits that look alike.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CODE_SECONDS: f64 = 3600.0;
const REQUEST_SECONDS: f64 = 600.0;
const LOCKOUT_SECONDS: f64 = 3600.0;
const PENDING_MAX: usize = 3;
const FAILURES_MAX: u64 = 5;
/// So many strangers are remembered for having asked. An earlier one may ask again.
const ASKED_MAX: usize = 1_000;

/// What is shared by all platforms: when a stranger asked last, and how often an approval failed.
pub const LIMITS_FILE: &str = "_rate_limits.json";

pub fn pending_file(platform: &str) -> String {
    format!("{platform}-pending.json")
}

pub fn approved_file(platform: &str) -> String {
    format!("{platform}-approved.json")
}

/// The platform that a file is about.
pub fn platform_of(file: &str) -> Option<&str> {
    let platform = file.strip_suffix("-pending.json").or_else(|| file.strip_suffix("-approved.json"))?;
    (!platform.is_empty() && !platform.starts_with('_')).then_some(platform)
}

/// One of the files. Text that is no JSON object is an empty one, as in Hermes.
pub fn parse(text: &str) -> Map<String, Value> {
    match serde_json::from_str(text) {
        Ok(Value::Object(entries)) => entries,
        _ => Map::new(),
    }
}

/// As Hermes writes it.
pub fn text(entries: &Map<String, Value>) -> String {
    json::dumps_indented_unicode(&Value::Object(entries.clone()))
}

/// Random bytes, from an unpredictable source.
#[derive(Clone, Copy)]
pub struct Chance {
    pub code: [u8; 8],
    pub salt: [u8; 16],
    pub id: [u8; 8],
}

/// Everything about one platform, and the limits. Seconds since 1970 are `now`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairingBook {
    pub platform: String,
    pub pending: Map<String, Value>,
    pub approved: Map<String, Value>,
    pub limits: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Person {
    pub id: String,
    pub name: String,
    /// When the code was given, or approved.
    pub since: Option<f64>,
    /// What tells requests apart without giving a code away.
    pub hint: String,
}

/// Why a stranger gets no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCode {
    /// They asked a moment ago: not a word.
    TooSoon,
    /// Too many wait, or approvals are closed.
    TooMany,
}

/// Why a code is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoApproval {
    /// It was never issued, or it is too old.
    Unknown,
    /// Too many that were never issued: closed until then.
    Closed { until: f64 },
}

impl PairingBook {
    pub fn is_approved(&self, user: &str) -> bool {
        let user = user.trim();
        !user.is_empty() && is_one_of(user, self.approved.keys().map(|known| known.trim()))
    }

    /// A code for a stranger.
    pub fn request(&mut self, user: &str, name: &str, now: f64, chance: Chance) -> Result<String, NoCode> {
        self.expire(now);
        let user = user.trim();
        if self.is_limited(user, now) {
            return Err(NoCode::TooSoon);
        }
        // Also where no code follows: a stranger is told once that there is none.
        self.forget_asked(now);
        self.limits.insert(format!("{}:{user}", self.platform), json!(now));
        if self.closed_until(now).is_some() || self.pending.len() >= PENDING_MAX {
            return Err(NoCode::TooMany);
        }
        let code: String =
            chance.code.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
        let entry = json!({
            "hash": hash(&code, &chance.salt),
            "salt": hex(&chance.salt),
            "user_id": user,
            "user_name": name,
            "created_at": now,
        });
        self.pending.insert(hex(&chance.id), entry);
        Ok(code)
    }

    pub fn approve(&mut self, code: &str, now: f64) -> Result<Person, NoApproval> {
        self.expire(now);
        if let Some(until) = self.closed_until(now) {
            return Err(NoApproval::Closed { until });
        }
        let code = code.trim().to_uppercase();
        // Every entry is looked at, whichever it is.
        let mut found = None;
        for (key, entry) in &self.pending {
            if fits(key, entry, &code) {
                found = Some(key.clone());
            }
        }
        let Some(entry) = found.and_then(|key| self.pending.shift_remove(&key)) else {
            self.count_failure(now);
            return Err(NoApproval::Unknown);
        };
        let person = person(entry["user_id"].as_str().unwrap_or_default(), &entry, "created_at");
        self.approved.shift_remove(&person.id);
        self.approved.insert(person.id.clone(), json!({ "user_name": person.name, "approved_at": now }));
        Ok(person)
    }

    /// Whether there was a person to send away.
    pub fn revoke(&mut self, user: &str) -> bool {
        let before = self.approved.len();
        self.approved.retain(|known, _| known.trim() != user.trim());
        self.approved.len() < before
    }

    pub fn clear_pending(&mut self) -> usize {
        std::mem::take(&mut self.pending).len()
    }

    pub fn waiting(&self, now: f64) -> Vec<Person> {
        let entries = self.pending.iter().filter(|(_, entry)| !is_stale(entry, now));
        entries
            .map(|(_, entry)| person(entry["user_id"].as_str().unwrap_or_default(), entry, "created_at"))
            .collect()
    }

    pub fn known(&self) -> Vec<Person> {
        self.approved.iter().map(|(id, entry)| person(id, entry, "approved_at")).collect()
    }

    /// Codes go when they are old, or were never any.
    pub fn expire(&mut self, now: f64) {
        self.pending.retain(|_, entry| !is_stale(entry, now));
    }

    fn is_limited(&self, user: &str, now: f64) -> bool {
        let last = self.limits.get(&format!("{}:{user}", self.platform)).and_then(Value::as_f64);
        last.is_some_and(|last| now - last < REQUEST_SECONDS)
    }

    /// When a stranger asked matters for ten minutes. Hermes never forgets it, and strangers are many.
    fn forget_asked(&mut self, now: f64) {
        let asked = |key: &str, at: &Value| at.as_f64().filter(|_| !key.starts_with('_'));
        self.limits.retain(|key, at| asked(key, at).is_none_or(|at| now - at < REQUEST_SECONDS));
        let mut moments: Vec<f64> = self.limits.iter().filter_map(|(key, at)| asked(key, at)).collect();
        if moments.len() >= ASKED_MAX {
            moments.sort_by(f64::total_cmp);
            let keep_after = moments[moments.len() - ASKED_MAX];
            self.limits.retain(|key, at| asked(key, at).is_none_or(|at| at > keep_after));
        }
    }

    fn closed_until(&self, now: f64) -> Option<f64> {
        let until = self.limits.get(&format!("_lockout:{}", self.platform)).and_then(Value::as_f64);
        until.filter(|until| now < *until)
    }

    fn count_failure(&mut self, now: f64) {
        let key = format!("_failures:{}", self.platform);
        let failures = self.limits.get(&key).and_then(Value::as_u64).unwrap_or(0) + 1;
        let closes = failures >= FAILURES_MAX;
        self.limits.insert(key, json!(if closes { 0 } else { failures }));
        if closes {
            self.limits.insert(format!("_lockout:{}", self.platform), json!(now + LOCKOUT_SECONDS));
        }
    }
}

fn is_stale(entry: &Value, now: f64) -> bool {
    entry["created_at"].as_f64().is_none_or(|created| now - created > CODE_SECONDS)
}

fn fits(key: &str, entry: &Value, code: &str) -> bool {
    match (entry["salt"].as_str(), entry["hash"].as_str()) {
        (Some(salt), Some(hashed)) => match unhex(salt) {
            Some(salt) => same(&hash(code, &salt), hashed),
            None => false,
        },
        _ => same(key, code), // as 0.14 keeps them
    }
}

fn person(id: &str, entry: &Value, since: &str) -> Person {
    let hint = entry["hash"].as_str().and_then(|hash| hash.get(..8)).unwrap_or("legacy");
    Person {
        id: id.trim().to_owned(),
        name: entry["user_name"].as_str().unwrap_or_default().to_owned(),
        since: entry[since].as_f64(),
        hint: hint.to_owned(),
    }
}

fn hash(code: &str, salt: &[u8]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(salt);
    hasher.update(code.as_bytes());
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 1_800_000_000.5;

    fn chance(seed: u8) -> Chance {
        Chance { code: [seed; 8], salt: [seed; 16], id: [seed; 8] }
    }

    fn book() -> PairingBook {
        PairingBook { platform: "telegram".into(), ..PairingBook::default() }
    }

    #[test]
    fn p31_a_code_lets_its_owner_in_once() {
        let mut book = book();
        let code = book.request("42", "Ünal", NOW, chance(1)).unwrap();
        assert_eq!(code, "BBBBBBBB");
        assert!(!text(&book.pending).contains(&code), "a code is never written down");
        assert!(!book.is_approved("42"));
        let person = book.approve(" bbbbbbbb ", NOW + 60.0).unwrap();
        assert_eq!((person.id.as_str(), person.name.as_str()), ("42", "Ünal"));
        assert!(book.is_approved("42") && !book.is_approved("4") && !book.is_approved(""));
        assert_eq!(book.approve(&code, NOW + 61.0), Err(NoApproval::Unknown));
        assert!(book.revoke("42") && !book.revoke("42"));
        assert!(!book.is_approved("42"));
    }

    #[test]
    fn p31_a_stranger_is_told_at_most_once_in_ten_minutes() {
        let mut book = book();
        for (user, later, expected) in [
            ("1", 0.0, Ok(())),
            ("1", 1.0, Err(NoCode::TooSoon)),
            ("2", 2.0, Ok(())),
            ("3", 3.0, Ok(())),
            ("4", 4.0, Err(NoCode::TooMany)),
            ("4", 5.0, Err(NoCode::TooSoon)), // and no second word about it
            ("1", 600.0, Err(NoCode::TooMany)),
            ("5", 3601.0, Ok(())), // the first code is too old by then
        ] {
            let got = book.request(user, "", NOW + later, chance(user.as_bytes()[0])).map(drop);
            assert_eq!(got, expected, "{user} after {later}");
        }
    }

    #[test]
    fn p31_five_wrong_codes_close_approvals_for_an_hour() {
        let mut book = book();
        let code = book.request("42", "", NOW, chance(2)).unwrap();
        for _ in 0..5 {
            assert_eq!(book.approve("WRONG", NOW), Err(NoApproval::Unknown));
        }
        assert_eq!(book.approve(&code, NOW + 1.0), Err(NoApproval::Closed { until: NOW + 3600.0 }));
        assert_eq!(book.request("43", "", NOW + 1.0, chance(3)), Err(NoCode::TooMany));
        assert_eq!(book.approve(&code, NOW + 3600.0).map(drop), Ok(()), "its hour is not quite over");
    }

    #[test]
    fn strangers_who_asked_are_forgotten_in_time_and_never_too_many() {
        let mut book = book();
        book.limits = parse(
            r#"{"_failures:telegram": 2, "_lockout:slack": 9e9, "odd": "x", "discord:9": 1800000000.0}"#,
        );
        for stranger in 0..3 * ASKED_MAX {
            let _ = book.request(&format!("s{stranger}"), "", NOW + stranger as f64 / 1e4, chance(1));
            assert!(book.limits.len() <= ASKED_MAX + 3, "{}", book.limits.len());
        }
        assert!(book.limits.len() > ASKED_MAX / 2);
        let _ = book.request("last", "", NOW + 700.0, chance(1));
        let left: Vec<&str> = book.limits.keys().map(String::as_str).collect();
        assert_eq!(left, ["_failures:telegram", "_lockout:slack", "odd", "telegram:last"]);
    }

    #[test]
    fn what_hermes_0_14_wrote_is_read() {
        let mut book = book();
        book.pending = parse(
            r#"{"ABCD2345": {"user_id": "7", "user_name": "Old", "created_at": 1800000000.0}, "x": 3}"#,
        );
        book.approved = parse(r#"{"6": {"user_name": "Six", "approved_at": 1.5, "later": true}}"#);
        assert_eq!(book.waiting(NOW).len(), 1);
        assert_eq!(book.approve("abcd2345", NOW).unwrap().id, "7");
        assert!(book.is_approved("6") && book.is_approved("7") && book.pending.is_empty());
        assert!(text(&book.approved).contains("\"later\": true"), "what a later Hermes adds stays");
    }

    #[test]
    fn rubbish_is_nobody() {
        for text in ["", "[]", "{", "7", "null"] {
            assert!(parse(text).is_empty());
        }
        let mut book = book();
        book.pending =
            parse(r#"{"a": {"hash": "x", "salt": "zz", "created_at": 1800000000}, "b": {}, "c": null}"#);
        assert_eq!(book.approve("", NOW), Err(NoApproval::Unknown));
        assert_eq!(platform_of("telegram-pending.json"), Some("telegram"));
        assert_eq!((platform_of("_rate_limits.json"), platform_of("_x-approved.json")), (None, None));
    }
}
