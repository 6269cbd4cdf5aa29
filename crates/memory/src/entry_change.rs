//! What a call does to the entries of one file: decided here, from the text alone.
//!
//! The rules and the words of the answers are Hermes'. A change that would push the entries over
//! the limit, or that names an entry it does not find, changes nothing and says what is there.

use crate::memory_text::{DELIMITER, EntriesDifference, EntriesDraft, MemoryText, joined};
use crate::python_text::{chars, grouped, preview, strip, universal_newlines};
use crate::threats;
use std::collections::HashSet;

/// Characters of an entry that are shown where several match.
const PREVIEW_CHARS: usize = 80;

#[derive(Clone, Debug, PartialEq)]
pub enum EntryChange {
    Add { content: String },
    Replace { old_text: String, content: String },
    Remove { old_text: String },
    Batch(Vec<BatchOperation>),
}

/// One operation of a batch, as it was written: what it lacks is found out in its turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchOperation {
    pub action: String,
    pub content: String,
    pub old_text: String,
}

/// The entries after a change.
#[derive(Debug, PartialEq)]
pub struct ChangedEntries {
    /// The whole file. None: it stays as it is.
    pub text: Option<String>,
    pub entries: Vec<String>,
    pub difference: EntriesDifference,
    pub message: String,
}

impl ChangedEntries {
    /// Whether it takes away what is larger than the whole store may be. No tool can have written
    /// that: it is a person's text that lies there, not an entry.
    pub fn takes_foreign_text(&self, limit: usize) -> bool {
        self.difference.departed.iter().any(|departed| chars(&departed.entry) > limit)
    }
}

#[derive(Debug, PartialEq)]
pub enum ChangeRefused {
    /// Nothing about the entries would help.
    Plain(String),
    /// Which of these was meant?
    Ambiguous { error: String, matches: Vec<String> },
    /// The entry is not there: see the entries.
    Unmatched(String),
    /// It does not fit, or not as it is: see the entries and their size.
    Unfit { error: String, over_chars: usize },
}

type ChangeOutcome = Result<ChangedEntries, ChangeRefused>;

impl EntryChange {
    /// What is wrong with it, no matter what the file holds.
    pub fn flaw(&self) -> Option<ChangeRefused> {
        let flaw = match self {
            Self::Add { content } => match strip(content) {
                "" => Some("Content cannot be empty.".to_owned()),
                content => threats::refusal(content).or_else(|| open_end(content)),
            },
            Self::Replace { old_text, content } => match (strip(old_text), strip(content)) {
                ("", _) => Some("old_text cannot be empty.".to_owned()),
                (_, "") => Some("new_content cannot be empty. Use 'remove' to delete entries.".to_owned()),
                (_, content) => threats::refusal(content).or_else(|| open_end(content)),
            },
            Self::Remove { old_text } => {
                strip(old_text).is_empty().then(|| "old_text cannot be empty.".to_owned())
            }
            Self::Batch(steps) => flaw_of_batch(steps),
        };
        flaw.map(ChangeRefused::Plain)
    }

    pub fn apply(&self, document: &MemoryText, limit: usize) -> ChangeOutcome {
        let edit = EntryEdit { document, draft: document.draft(), limit };
        match self {
            Self::Add { content } => edit.add(&entry(content)),
            Self::Replace { old_text, content } => edit.replace(&entry(old_text), &entry(content)),
            Self::Remove { old_text } => edit.remove(&entry(old_text)),
            Self::Batch(steps) => edit.batch(steps),
        }
    }
}

fn entry(text: &str) -> String {
    universal_newlines(strip(text)).into_owned()
}

/// An entry that ends with a separator would swallow the beginning of the next one.
fn open_end(content: &str) -> Option<String> {
    let is_open = content.ends_with("\n§") || content.ends_with("\r§");
    is_open.then(|| unreadable("The content"))
}

fn unreadable(what: &str) -> String {
    format!(
        "{what} would not be read back as it is: a line that holds only '§' divides entries. \
         Leave that line out."
    )
}

fn flaw_of_batch(steps: &[BatchOperation]) -> Option<String> {
    steps.iter().enumerate().find_map(|(at, step)| {
        let writes = matches!(&*step.action, "add" | "replace");
        let flaw = || threats::refusal(&step.content).or_else(|| open_end(strip(&step.content)));
        let flaw = writes.then(flaw).flatten()?;
        Some(format!("Operation {}: {flaw}", at + 1))
    })
}

struct EntryEdit<'a> {
    document: &'a MemoryText,
    draft: EntriesDraft,
    limit: usize,
}

impl EntryEdit<'_> {
    fn add(mut self, content: &str) -> ChangeOutcome {
        if self.draft.contains(content) {
            let message = "Entry already exists (no duplicate added).".to_owned();
            let difference = EntriesDifference::default();
            return Ok(ChangedEntries { text: None, entries: self.draft.texts(), difference, message });
        }
        self.draft.add(content);
        self.within_limit(|edit| {
            format!(
                "Memory at {} chars. Adding this entry ({} chars) would exceed the limit. Consolidate now: \
                 use 'replace' to merge overlapping entries into shorter ones or 'remove' stale or less \
                 important entries (see current_entries below), then retry this add — all in this turn.",
                edit.usage(),
                chars(content)
            )
        })?;
        self.finish("Entry added.")
    }

    fn replace(mut self, old_text: &str, content: &str) -> ChangeOutcome {
        let at = self.one_match(old_text, "replace")?;
        self.draft.replace(at, content);
        self.within_limit(|edit| {
            format!(
                "Replacement would put memory at {}/{} chars. Shorten the new content, or 'remove' other \
                 stale or less important entries to make room (see current_entries below), then retry — \
                 all in this turn.",
                grouped(edit.draft.len_chars()),
                grouped(edit.limit)
            )
        })?;
        self.finish("Entry replaced.")
    }

    /// Needs no room, so it works in a store that is over its limit.
    fn remove(mut self, old_text: &str) -> ChangeOutcome {
        let at = self.one_match(old_text, "remove")?;
        self.draft.remove(at);
        self.finish("Entry removed.")
    }

    fn batch(mut self, steps: &[BatchOperation]) -> ChangeOutcome {
        for (at, step) in steps.iter().enumerate() {
            self.step(step).map_err(|error| {
                let action = if step.action.is_empty() { "unknown" } else { &step.action };
                let position = format!("Operation {} ({action})", at + 1);
                let error =
                    format!("{position}: {error} No operations were applied (batch is all-or-nothing).");
                ChangeRefused::Unfit { error, over_chars: 0 }
            })?;
        }
        self.within_limit(|edit| {
            format!(
                "After applying all {} operations, memory would be at {}/{} chars -- over the limit. Remove \
                 or shorten more entries in the same batch (see current_entries below), then retry.",
                steps.len(),
                grouped(edit.draft.len_chars()),
                grouped(edit.limit)
            )
        })?;
        self.finish(&format!("Applied {} operation(s).", steps.len()))
    }

    fn step(&mut self, step: &BatchOperation) -> Result<(), String> {
        let (content, old_text) = (entry(&step.content), entry(&step.old_text));
        let has_both = |wanted: bool| match (&*old_text, &*content) {
            ("", _) => Err("old_text is required.".to_owned()),
            (_, "") if wanted => Err("content is required (use action='remove' to delete).".to_owned()),
            _ => Ok(()),
        };
        match &*step.action {
            "add" if content.is_empty() => return Err("content is required.".to_owned()),
            "add" if self.draft.contains(&content) => {}
            "add" => self.draft.add(&content),
            "replace" => {
                has_both(true)?;
                let at = self.match_of_step(&old_text)?;
                self.draft.replace(at, &content);
            }
            "remove" => {
                has_both(false)?;
                let at = self.match_of_step(&old_text)?;
                self.draft.remove(at);
            }
            _ => return Err("unknown action. Use add, replace, or remove.".to_owned()),
        }
        Ok(())
    }

    fn match_of_step(&self, old_text: &str) -> Result<usize, String> {
        match self.distinct_matches(old_text)[..] {
            [] => Err(format!("no entry matched '{old_text}'.")),
            [(at, _)] => Ok(at),
            _ => Err(format!("'{old_text}' matched multiple distinct entries -- be more specific.")),
        }
    }

    fn one_match(&self, old_text: &str, action: &str) -> Result<usize, ChangeRefused> {
        match self.distinct_matches(old_text)[..] {
            [] => Err(ChangeRefused::Unmatched(format!(
                "No entry matched '{old_text}'. Check current_entries below and retry with the exact text of \
                 the entry you want to {action}."
            ))),
            [(at, _)] => Ok(at),
            ref several => Err(ChangeRefused::Ambiguous {
                error: format!("Multiple entries matched '{old_text}'. Be more specific."),
                matches: several.iter().map(|(_, text)| preview(text, PREVIEW_CHARS)).collect(),
            }),
        }
    }

    /// The first of those that are the same: a batch can make an entry equal to another.
    fn distinct_matches(&self, old_text: &str) -> Vec<(usize, &str)> {
        let mut seen = HashSet::new();
        let mut distinct = self.draft.matching(old_text);
        distinct.retain(|(_, text)| seen.insert(*text));
        distinct
    }

    fn within_limit(&self, error: impl Fn(&Self) -> String) -> Result<(), ChangeRefused> {
        match self.draft.len_chars().saturating_sub(self.limit) {
            0 => Ok(()),
            over_chars => Err(ChangeRefused::Unfit { error: error(self), over_chars }),
        }
    }

    fn usage(&self) -> String {
        usage(self.document.entries(), self.limit)
    }

    fn finish(self, message: &str) -> ChangeOutcome {
        let Some(text) = self.document.render(&self.draft) else {
            return Err(ChangeRefused::Plain(unreadable("The result")));
        };
        let difference = self.document.difference(&self.draft);
        let message = message.to_owned();
        Ok(ChangedEntries { text: Some(text), entries: self.draft.texts(), difference, message })
    }
}

/// `1,980/2,200`.
pub fn usage(entries: &[String], limit: usize) -> String {
    format!("{}/{}", grouped(chars(&joined(entries))), grouped(limit))
}

/// What one more entry costs beside its own text.
pub const SEPARATOR_CHARS: usize = 3;
const _: () = assert!(DELIMITER.len() == SEPARATOR_CHARS + 1); // § has two bytes

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(text: &str, limit: usize, change: &EntryChange) -> ChangeOutcome {
        change.apply(&MemoryText::parse(text), limit)
    }

    fn step(action: &str, content: &str, old_text: &str) -> BatchOperation {
        BatchOperation { action: action.into(), content: content.into(), old_text: old_text.into() }
    }

    #[test]
    fn a_batch_counts_only_its_end_and_is_all_or_nothing() {
        let swap = EntryChange::Batch(vec![step("add", "dddd", ""), step("remove", "", "aaaa")]);
        assert_eq!(apply("aaaa\n§\nbbbb", 11, &swap).unwrap().text.unwrap(), "bbbb\n§\ndddd");
        let half = EntryChange::Batch(vec![step("remove", "", "aaaa"), step("remove", "", "zzzz")]);
        assert!(matches!(apply("aaaa\n§\nbbbb", 11, &half), Err(ChangeRefused::Unfit { .. })));
    }

    #[test]
    fn the_limit_counts_characters_and_is_reached_exactly() {
        let add = EntryChange::Add { content: "üüü".into() };
        assert!(apply("äää", 9, &add).is_ok());
        assert!(matches!(apply("äää", 8, &add), Err(ChangeRefused::Unfit { over_chars: 1, .. })));
    }

    #[test]
    fn an_entry_that_ends_with_a_separator_is_refused_before_the_file_is_touched() {
        let add = EntryChange::Add { content: "fact\n§ \n".into() };
        assert!(matches!(add.flaw(), Some(ChangeRefused::Plain(error)) if error.contains("'§'")));
    }
}
