//! The results of the tool, as JSON in Hermes' keys, order and spacing.
//!
//! What is ours comes after what is Hermes': above nine tenths of a limit a saved write also shows
//! the entries with their sizes and asks to consolidate, and a write that does not fit says how much
//! to free, where most of it lies and which entries say much the same. So the model never has to fail
//! on purpose to see what it could shorten, and one call with 'operations' gets it out.

use crate::entry_change::{ChangeRefused, ChangedEntries, SEPARATOR_CHARS, usage};
use crate::files::FileError;
use crate::memory_text::joined;
use crate::python_text::{chars, grouped, preview};
use crate::target::MemoryTarget;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::io;

/// After so many changes in a row that did not fit or match, a turn is told to leave it (Hermes').
pub const FAILURES_MAX: u32 = 3;
/// Entries named as worth shortening: the largest few hold most of a store.
const LARGEST: usize = 3;
const PREVIEW_CHARS: usize = 40;
/// Entries compared with each other: more than fit into the usual limits, and a bound for what grows
/// with their square.
const COMPARED_MAX: usize = 64;

/// What comes before anything is looked at: Hermes puts the error first.
pub fn invalid(error: &str) -> String {
    dumps(&json!({"error": error, "success": false}))
}

pub fn failed(error: &str) -> String {
    dumps(&json!({"success": false, "error": error}))
}

pub fn file_error(error: &FileError) -> String {
    failed(&error.to_string())
}

pub fn saved(target: MemoryTarget, limit: usize, changed: &ChangedEntries) -> String {
    let size = chars(&joined(&changed.entries));
    let mut answer = json!({
        "success": true,
        "done": true,
        "target": target.name(),
        "usage": percent_usage(size, limit),
        "entry_count": changed.entries.len(),
        "message": changed.message,
        "note": "Write saved. This update is complete — do not repeat it.",
    });
    if is_nearly_full(size, limit) {
        let note = format!(
            "Write saved. This update is complete — do not repeat it. {} is nearly full: {} of {} chars in \
             {} entries, {} left. Before the next add, consolidate in one call with 'operations': merge or \
             shorten what overlaps, remove what is stale. {}",
            target.file_name(),
            grouped(size),
            grouped(limit),
            changed.entries.len(),
            grouped(limit.saturating_sub(size)),
            advice(&changed.entries)
        );
        answer["note"] = note.into();
        answer["current_entries"] = changed.entries.clone().into();
        answer["entry_chars"] = sizes(&changed.entries).into();
    }
    dumps(&answer)
}

/// Why nothing was changed. `entries` is what the file holds.
pub fn refused(refused: &ChangeRefused, entries: &[String], limit: usize) -> String {
    let mut answer = Map::new();
    answer.insert("success".into(), false.into());
    let (error, note) = match refused {
        ChangeRefused::Plain(error)
        | ChangeRefused::Ambiguous { error, .. }
        | ChangeRefused::Unmatched(error) => (error, None),
        ChangeRefused::Unfit { error, over_chars } => (error, room(entries, limit, *over_chars)),
    };
    answer.insert("error".into(), error.clone().into());
    match refused {
        ChangeRefused::Plain(_) => {}
        ChangeRefused::Ambiguous { matches, .. } => {
            answer.insert("matches".into(), matches.clone().into());
        }
        ChangeRefused::Unmatched(_) | ChangeRefused::Unfit { .. } => {
            answer.insert("current_entries".into(), entries.into());
        }
    }
    if let ChangeRefused::Unfit { .. } = refused {
        answer.insert("usage".into(), usage(entries, limit).into());
    }
    let shows_entries = answer.contains_key("current_entries");
    if shows_entries && (note.is_some() || is_nearly_full(chars(&joined(entries)), limit)) {
        answer.insert("entry_chars".into(), sizes(entries).into());
    }
    if let Some(note) = note {
        answer.insert("note".into(), note.into());
    }
    dumps(&Value::Object(answer))
}

/// A replace or remove without the text that names its entry: shows what there is to name.
pub fn missing_old_text(action: &str, entries: &[String], limit: usize) -> String {
    let error = format!(
        "'{action}' needs old_text -- a short unique substring of the entry to {action}. None was provided. \
         Reissue the {action} with old_text set to part of one of the current_entries below."
    );
    dumps(&json!({
        "success": false,
        "error": error,
        "current_entries": entries,
        "usage": usage(entries, limit),
    }))
}

pub fn given_up(failures: u32) -> String {
    let error = format!(
        "Memory consolidation failed {failures} times this turn. Stop retrying memory calls — leave memory \
         unchanged for now and continue with your reply to the user. The fact can be saved in a later turn."
    );
    dumps(&json!({"success": false, "done": true, "error": error}))
}

pub fn drifted(file_name: &str, backup: &str) -> String {
    let error = format!(
        "Refusing to write {file_name}: file on disk has content that wouldn't round-trip through the memory \
         tool (likely added by the patch tool, a shell append, a manual edit, or a concurrent session). A \
         snapshot was saved to {backup}. Resolve the drift first — either rewrite the file as a clean \
         §-delimited list of entries, or move the extra content out — then retry. This guard exists to \
         prevent silent data loss (issue #26045)."
    );
    dumps(&json!({
        "success": false,
        "error": error,
        "drift_backup": backup,
        "remediation": "Open the .bak file, integrate the missing entries into the memory tool one at a time \
                        via memory(action=add, content=...), then remove or rewrite the original file to a \
                        clean state.",
    }))
}

pub fn staged(pending_id: &str) -> String {
    dumps(&json!({
        "success": true,
        "staged": true,
        "pending_id": pending_id,
        "message": "Staged for approval (memory.write_approval is on). Not yet saved — review with \
                    /memory pending.",
    }))
}

/// `93% — 2,046/2,200 chars`.
pub fn percent_usage(size: usize, limit: usize) -> String {
    format!("{}% — {}/{} chars", percent(size, limit), grouped(size), grouped(limit))
}

/// Rounded down as Python rounds it, and never more than all.
pub fn percent(size: usize, limit: usize) -> u32 {
    match limit {
        0 => 0,
        _ => ((size as f64 / limit as f64) * 100.0).min(100.0) as u32,
    }
}

/// Above nine tenths.
pub fn is_nearly_full(size: usize, limit: usize) -> bool {
    size.saturating_mul(10) > limit.saturating_mul(9)
}

fn room(entries: &[String], limit: usize, over_chars: usize) -> Option<String> {
    if over_chars == 0 {
        return None;
    }
    if entries.is_empty() {
        return Some(format!("Shorten it by at least {} chars.", grouped(over_chars)));
    }
    let size = chars(&joined(entries));
    Some(format!(
        "At least {} chars must go ({} of {} are in use; each entry also takes {SEPARATOR_CHARS} for its \
         separator). {} One call with 'operations' can shorten or remove old entries and add the new one.",
        grouped(over_chars),
        grouped(size),
        grouped(limit),
        advice(entries)
    ))
}

/// Of each entry, in the order in which they are shown.
fn sizes(entries: &[String]) -> Vec<usize> {
    entries.iter().map(|entry| chars(entry)).collect()
}

/// What to begin with.
fn advice(entries: &[String]) -> String {
    let largest = largest(entries);
    match alike(entries) {
        Some((one, other)) => format!("{largest} Much the same: {} and {}.", named(one), named(other)),
        None => largest,
    }
}

/// The two entries that share most of their words, if they share half of them.
fn alike(entries: &[String]) -> Option<(&str, &str)> {
    let compared = &entries[..entries.len().min(COMPARED_MAX)];
    let words: Vec<HashSet<String>> = compared.iter().map(|entry| words(entry)).collect();
    let mut best = None;
    for (at, one) in words.iter().enumerate() {
        for (other_at, other) in words.iter().enumerate().skip(at + 1) {
            let shared = one.intersection(other).count();
            let all = one.len() + other.len() - shared;
            // Of equals the first: the answer to the same call stays the same.
            let is_better = best.is_none_or(|(_, _, most, of)| shared * of > most * all);
            if shared * 2 >= all && shared > 0 && is_better {
                best = Some((at, other_at, shared, all));
            }
        }
    }
    best.map(|(at, other, ..)| (&*entries[at], &*entries[other]))
}

fn words(entry: &str) -> HashSet<String> {
    let words = entry.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn named(entry: &str) -> String {
    format!("\"{}\" ({} chars)", preview(entry, PREVIEW_CHARS).replace('\n', " "), grouped(chars(entry)))
}

fn largest(entries: &[String]) -> String {
    let mut sizes: Vec<(usize, &String)> = entries.iter().map(|entry| (chars(entry), entry)).collect();
    sizes.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let largest = sizes.iter().take(LARGEST).map(|(_, entry)| named(entry));
    format!("Largest: {}.", largest.collect::<Vec<_>>().join(", "))
}

/// As Python's `json.dumps(…, ensure_ascii=False)`: a space after each comma and colon.
fn dumps(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, SpacedFormatter);
    value.serialize(&mut serializer).expect("a Value has string keys, and a Vec takes every byte");
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

struct SpacedFormatter;

impl Formatter for SpacedFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_spaced_and_escaped_as_python_does() {
        let value = json!({"a": [1, "é\n\u{1}\u{7f}\"\\/"], "b": {}});
        assert_eq!(dumps(&value), "{\"a\": [1, \"é\\n\\u0001\u{7f}\\\"\\\\/\"], \"b\": {}}");
    }

    #[test]
    fn entries_that_say_much_the_same_are_named() {
        let entries = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let like = entries(&["uses vim", "Likes green tea", "likes black tea, green tea"]);
        assert_eq!(alike(&like), Some(("Likes green tea", "likes black tea, green tea")));
        assert_eq!(alike(&entries(&["uses vim", "likes tea", "---", "..."])), None);
        assert!(advice(&like).ends_with(
            "Much the same: \"Likes green tea\" (15 chars) and \"likes black tea, green tea\" (26 chars)."
        ));
    }

    #[test]
    fn percent_is_rounded_down_as_python_rounds() {
        assert_eq!(percent_usage(29, 100), "28% — 29/100 chars"); // 0.29 * 100 is 28.999…
        assert_eq!(percent_usage(3000, 2200), "100% — 3,000/2,200 chars");
        assert_eq!(percent_usage(0, 0), "0% — 0/0 chars");
    }
}
