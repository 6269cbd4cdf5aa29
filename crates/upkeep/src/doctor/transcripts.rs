//! Transcripts that Hermes keeps beside its database: `sessions/<id>.jsonl`, a message per line, and
//! `sessions/session_<id>.json`, the list as it was last shown to a model.
//!
//! What cannot be read is skipped: the database is the transcript, these are only asked what it may have lost.

use std::fs;
use std::path::Path;
use throughline_core::Message;
use throughline_hermes::row::message_from_json;
use throughline_store::doctor::Transcript;

const DIRECTORY: &str = "sessions";
/// Larger ones are of no conversation.
const SIZE_MAX: u64 = 64 << 20;

/// One after the other.
pub fn all(home: &Path) -> impl Iterator<Item = Transcript> {
    let mut names: Vec<String> = fs::read_dir(home.join(DIRECTORY))
        .map(|entries| entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        .unwrap_or_default();
    names.retain(|name| session_of(name).is_some());
    names.sort();
    let home = home.to_owned();
    names.into_iter().filter_map(move |name| read(&home, &format!("{DIRECTORY}/{name}")))
}

pub fn read(home: &Path, file: &str) -> Option<Transcript> {
    let session = session_of(file.strip_prefix(DIRECTORY)?.strip_prefix('/')?)?.to_owned();
    let path = home.join(file);
    if fs::metadata(&path).ok()?.len() > SIZE_MAX {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let messages = match file.ends_with(".jsonl") {
        true => text.lines().filter_map(|line| message_from_json(line).ok()).collect(),
        false => list(&text)?,
    };
    Some(Transcript { session, file: file.to_owned(), messages })
}

pub fn list(text: &str) -> Option<Vec<Message>> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let messages = value.get("messages").or(Some(&value))?.as_array()?;
    Some(messages.iter().filter_map(|message| message_from_json(&message.to_string()).ok()).collect())
}

/// The session that a file of this name is about.
fn session_of(name: &str) -> Option<&str> {
    let session = match name.strip_suffix(".jsonl") {
        Some(session) => session,
        None => name.strip_prefix("session_")?.strip_suffix(".json")?,
    };
    (!session.is_empty() && !session.contains(['/', '\\'])).then_some(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names() {
        assert_eq!(session_of("20260528_093510_66bfaec7.jsonl"), Some("20260528_093510_66bfaec7"));
        assert_eq!(session_of("session_20260528_093510_66bfaec7.json"), Some("20260528_093510_66bfaec7"));
        for other in ["sessions.json", "request_dump_x_1.json", "session_.json", ".jsonl", "../x.jsonl"] {
            assert_eq!(session_of(other), None, "{other}");
        }
    }
}
