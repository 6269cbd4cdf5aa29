//! `sessions.json`: every route of a home, by chat key.
//!
//! Where there is no table `gateway_routing` it is the only copy; elsewhere it mirrors that, which wins.
//! An entry that cannot be used is left out with a warning, never at the cost of its neighbours.

use crate::entry::SessionEntry;
use crate::json;
use serde_json::{Map, Value};
use throughline_core::id::ChatKey;

/// The note that Hermes 0.19 puts first. To it, names that begin with `_` are no routes.
const README: &str = "LEGACY MIRROR of the gateway routing index (the primary copy lives in the gateway_routing table in ~/.hermes/state.db). Maps messaging session keys (agent:main:<platform>:...) to active session IDs. This is NOT the session list. ALL sessions (CLI, TUI, and gateway) live in ~/.hermes/state.db and are shown by `hermes sessions list` and `/sessions`. Disable this file with `gateway.write_sessions_json: false` in config.yaml.";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// In the order of the file.
    pub entries: Vec<(ChatKey, SessionEntry)>,
    /// A sentence for each entry that was left out.
    pub warnings: Vec<String>,
}

/// What the file is to its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The routes are in `gateway_routing`, too. The note says so.
    Mirror,
    /// The only copy, without a note: Hermes 0.14 would take that for an entry and stop reading.
    Only,
}

/// The file as a whole cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sessions.json cannot be read: {0}; repair it, or move it away to go by state.db alone")]
pub struct BrokenIndex(String);

impl Index {
    pub fn parse(text: &str) -> Result<Self, BrokenIndex> {
        let text = match json::read(text) {
            Some(text) => text,
            None => text.into(), // for its error, which knows line and column
        };
        let object: Value = serde_json::from_str(&text).map_err(|error| BrokenIndex(error.to_string()))?;
        let Value::Object(object) = object else {
            return Err(BrokenIndex("it is not a JSON object".to_owned()));
        };
        let mut index = Self::default();
        for (key, value) in object.iter().filter(|(key, _)| !key.starts_with('_')) {
            match (key.parse(), SessionEntry::from_json(value)) {
                (Ok(chat), Ok(entry)) => index.entries.push((chat, entry)),
                (Err(reason), _) => index.skip(key, &reason),
                (_, Err(reason)) => index.skip(key, &reason),
            }
        }
        Ok(index)
    }

    fn skip(&mut self, key: &str, reason: &dyn std::error::Error) {
        self.warnings.push(format!("sessions.json: the entry {key:?} is left out: {reason}"));
    }

    /// The file, as Hermes would write it.
    pub fn text<'a>(
        entries: impl IntoIterator<Item = (&'a ChatKey, &'a SessionEntry)>,
        standing: Standing,
    ) -> String {
        let note = (standing == Standing::Mirror).then(|| ("_README".to_owned(), Value::from(README)));
        let entries = entries.into_iter().map(|(key, entry)| (key.to_string(), entry.to_json()));
        json::dumps_indented(&Value::Object(note.into_iter().chain(entries).collect::<Map<_, _>>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Written by the `SessionStore` of Hermes 0.19.0.
    const WRITTEN_BY_HERMES: &str = include_str!("entry/sessions-0.19.json");

    fn text(index: &Index, standing: Standing) -> String {
        Index::text(index.entries.iter().map(|(key, entry)| (key, entry)), standing)
    }

    #[test]
    fn p15_the_file_comes_out_byte_for_byte() {
        let index = Index::parse(WRITTEN_BY_HERMES).unwrap();
        assert_eq!(index.warnings, [] as [String; 0]);
        let keys: Vec<_> = index.entries.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "agent:main:telegram:dm:8439114563",
                "agent:main:discord:group:123:alt",
                "agent:main:google_chat:group:spaces/AAA:spaces/AAA/threads/t",
                "agent:main:local:dm"
            ]
        );
        assert_eq!(text(&index, Standing::Mirror), WRITTEN_BY_HERMES);
    }

    #[test]
    fn p15_hermes_0_14_finds_nothing_but_entries() {
        let index = Index::parse(WRITTEN_BY_HERMES).unwrap();
        let only: Value = serde_json::from_str(&text(&index, Standing::Only)).unwrap();
        assert!(only.as_object().unwrap().values().all(Value::is_object));
        assert_eq!(Index::parse(&text(&index, Standing::Only)), Ok(index));
        assert_eq!(Index::text([], Standing::Only), "{}");
    }

    #[test]
    fn a_broken_entry_costs_no_other() {
        let good = |id: &str| json!({"session_key": "k", "session_id": id, "created_at": "2025-01-01T00:00:00", "updated_at": "2025-01-01T00:00:00"});
        let file = json!({
            "_README": "x", "_other": {"session_id": 1}, "a": good("first"), "b": true, "c": good("../x"), "d e": good("y"), "f": good("last"),
        });
        let index = Index::parse(&file.to_string()).unwrap();
        let ids: Vec<_> = index.entries.iter().map(|(_, entry)| entry.session_id.as_str()).collect();
        assert_eq!(ids, ["first", "last"]);
        for (warning, words) in index.warnings.iter().zip(["\"b\"", "\"c\"", "\"d e\""]) {
            assert!(warning.contains(words), "{warning}");
        }
        assert_eq!(index.warnings.len(), 3);
    }

    #[test]
    fn a_file_that_is_no_index_says_where_it_breaks() {
        let broken = Index::parse("{\n  \"a\": ,\n}").unwrap_err().to_string();
        assert!(broken.contains("line 2 column 8"), "{broken}");
        assert!(Index::parse("[]").unwrap_err().to_string().contains("not a JSON object"));
        assert_eq!(Index::parse("{}"), Ok(Index::default()));
    }
}
