//! A memory file as text: entries between separators, and edits that touch nothing else.
//!
//! Entries are read as Hermes reads them: split where a line holds only `§`, white space around an
//! entry dropped, empty entries ignored, an entry that comes twice counted once. Written is less:
//! [`MemoryText::render`] changes the characters of the entries that an edit names and leaves all
//! others as they stand, so that blank lines, line ends and duplicates a person put there survive.
//! For a file that only tools have written, the bytes are those Hermes would write.

use crate::python_text::{chars, is_space, strip, universal_newlines};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

pub const DELIMITER: &str = "\n§\n";
const MARK: char = '§';

/// The text of the entries as Hermes joins and counts them.
pub fn joined<T: AsRef<str>>(entries: &[T]) -> String {
    entries.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(DELIMITER)
}

#[derive(Debug, PartialEq)]
pub struct MemoryText {
    pieces: Vec<EntryText>,
    entries: Vec<String>,
}

/// What lies between two separators, as it is in the file.
#[derive(Clone, Debug, PartialEq)]
struct EntryText {
    lead: String,
    body: String,
    tail: String,
    /// What divides it from the next piece. Empty in the last.
    separator: String,
    /// Its place among the entries. None: there is only white space.
    entry: Option<usize>,
}

/// The entries while they are being edited.
#[derive(Clone, Debug)]
pub struct EntriesDraft {
    slots: Vec<DraftEntry>,
}

#[derive(Clone, Debug)]
struct DraftEntry {
    text: String,
    origin: DraftOrigin,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum DraftOrigin {
    Kept(usize),
    Replaced(usize),
    Added,
}

/// What an edit takes from a file and what it brings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntriesDifference {
    pub departed: Vec<DepartedEntry>,
    pub arrived: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DepartedEntry {
    pub entry: String,
    pub replaced_by: Option<String>,
}

impl MemoryText {
    pub fn parse(text: &str) -> Self {
        let mut document = Self { pieces: Vec::new(), entries: Vec::new() };
        let mut places = HashMap::new();
        let mut from = 0;
        for separator in separators(text) {
            document.push(&text[from..separator.start], &text[separator.clone()], &mut places);
            from = separator.end;
        }
        document.push(&text[from..], "", &mut places);
        document
    }

    fn push(&mut self, raw: &str, separator: &str, places: &mut HashMap<String, usize>) {
        let body = strip(raw);
        let (lead, tail) = match body.is_empty() {
            true => ("", raw),
            false => {
                let start = raw.len() - raw.trim_start_matches(is_space).len();
                (&raw[..start], &raw[start + body.len()..])
            }
        };
        let entry = (!body.is_empty()).then(|| self.place(&universal_newlines(body), places));
        self.pieces.push(EntryText {
            lead: lead.to_owned(),
            body: body.to_owned(),
            tail: tail.to_owned(),
            separator: separator.to_owned(),
            entry,
        });
    }

    fn place(&mut self, entry: &str, places: &mut HashMap<String, usize>) -> usize {
        *places.entry(entry.to_owned()).or_insert_with(|| {
            self.entries.push(entry.to_owned());
            self.entries.len() - 1
        })
    }

    /// Each once, in the order of the file.
    pub fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Whether it looks as if something other than a memory tool had written it (Hermes' test): more
    /// between the separators than entries, or an entry that no tool could have put into this space.
    /// Hermes changes nothing in such a file but to add to it.
    pub fn is_drifted(&self, limit: usize) -> bool {
        let (first, last) = (0, self.pieces.len() - 1);
        let is_loose = |(at, piece): (usize, &EntryText)| {
            let is_blank = piece.entry.is_none() && last > 0;
            is_blank || (at > first && !piece.lead.is_empty()) || (at < last && !piece.tail.is_empty())
        };
        self.pieces.iter().enumerate().any(is_loose) || self.entries.iter().any(|entry| chars(entry) > limit)
    }

    pub fn draft(&self) -> EntriesDraft {
        let slots = self.entries.iter().enumerate();
        EntriesDraft {
            slots: slots
                .map(|(at, text)| DraftEntry { text: text.clone(), origin: DraftOrigin::Kept(at) })
                .collect(),
        }
    }

    /// What a reader no longer finds in the file, and what was not in it before.
    pub fn difference(&self, draft: &EntriesDraft) -> EntriesDifference {
        let (fates, after) = (draft.fates(), draft.read_back());
        let (left, held): (HashSet<&String>, HashSet<&String>) =
            (after.iter().collect(), self.entries.iter().collect());
        let gone = self.entries.iter().enumerate().filter(|(_, entry)| !left.contains(entry));
        let departed = gone.map(|(at, entry)| DepartedEntry {
            entry: entry.clone(),
            replaced_by: fates.get(&at).map(|slot| slot.text.clone()),
        });
        EntriesDifference {
            departed: departed.collect(),
            arrived: after.iter().filter(|entry| !held.contains(entry)).cloned().collect(),
        }
    }

    /// The file after the edits. None: the text would not be read back as the entries it was made
    /// of, because a new one ends or begins where a separator could be seen.
    pub fn render(&self, draft: &EntriesDraft) -> Option<String> {
        let mut pieces = self.surviving(draft);
        for slot in draft.slots.iter().filter(|slot| slot.origin == DraftOrigin::Added) {
            self.append(&mut pieces, &slot.text);
        }
        let text: String = pieces.iter().flat_map(|p| [&*p.lead, &p.body, &p.tail, &p.separator]).collect();
        (Self::parse(&text).entries == draft.read_back()).then_some(text)
    }

    /// The pieces that stay, some with a new body. White space at both ends of the file stays there.
    fn surviving(&self, draft: &EntriesDraft) -> Vec<EntryText> {
        let mut fates = draft.fates();
        let mut kept = Vec::new();
        let (mut lacks_first, mut lacks_last) = (false, false);
        for (at, piece) in self.pieces.iter().enumerate() {
            match piece.entry.map(|entry| (entry, fates.get(&entry))) {
                None | Some((_, Some(DraftEntry { origin: DraftOrigin::Kept(_), .. }))) => {
                    kept.push(piece.clone())
                }
                Some((entry, Some(slot))) => {
                    kept.push(EntryText { body: self.in_its_line_ends(&slot.text), ..piece.clone() });
                    fates.remove(&entry); // the first of several copies takes the new text, the others go
                }
                Some((_, None)) => {
                    lacks_first |= at == 0;
                    lacks_last |= at + 1 == self.pieces.len();
                }
            }
        }
        if let (Some(first), Some(original), true) = (kept.first_mut(), self.pieces.first(), lacks_first) {
            first.lead.insert_str(0, &original.lead);
        }
        if let (Some(last), Some(original), true) = (kept.last_mut(), self.pieces.last(), lacks_last) {
            last.tail.push_str(&original.tail);
            last.separator.clear();
        }
        kept
    }

    /// Behind the last entry, but before the white space that ends the file: so the file stays one
    /// that Hermes takes for its own.
    fn append(&self, pieces: &mut Vec<EntryText>, text: &str) {
        let body = self.in_its_line_ends(text);
        let added = EntryText {
            lead: String::new(),
            body,
            tail: String::new(),
            separator: String::new(),
            entry: None,
        };
        match &mut pieces[..] {
            [.., before, last] if last.body.is_empty() => {
                if !before.separator.ends_with(['\n', '\r']) {
                    before.separator.push_str(&self.in_its_line_ends("\n")); // it ended the file
                }
                last.body = added.body;
            }
            [last] if last.body.is_empty() => last.body = added.body,
            [.., last] => {
                last.separator = self.separator();
                let tail = std::mem::take(&mut last.tail);
                pieces.push(EntryText { tail, ..added });
            }
            [] => pieces.push(added),
        }
    }

    fn uses_crlf(&self) -> bool {
        let texts = |piece: &EntryText| {
            [&piece.separator, &piece.body, &piece.tail].iter().any(|t| t.contains("\r\n"))
        };
        self.pieces.iter().any(texts)
    }

    fn separator(&self) -> String {
        self.in_its_line_ends(DELIMITER)
    }

    fn in_its_line_ends(&self, text: &str) -> String {
        if self.uses_crlf() { text.replace('\n', "\r\n") } else { text.to_owned() }
    }
}

impl EntriesDraft {
    pub fn texts(&self) -> Vec<String> {
        self.slots.iter().map(|slot| slot.text.clone()).collect()
    }

    pub fn contains(&self, text: &str) -> bool {
        self.slots.iter().any(|slot| slot.text == text)
    }

    /// The entries in which this occurs, by their place.
    pub fn matching(&self, old_text: &str) -> Vec<(usize, &str)> {
        let all = self.slots.iter().enumerate().map(|(at, slot)| (at, &*slot.text));
        all.filter(|(_, text)| text.contains(old_text)).collect()
    }

    pub fn add(&mut self, text: &str) {
        self.slots.push(DraftEntry { text: text.to_owned(), origin: DraftOrigin::Added });
    }

    pub fn replace(&mut self, at: usize, text: &str) {
        let slot = &mut self.slots[at];
        text.clone_into(&mut slot.text);
        slot.origin = match slot.origin {
            DraftOrigin::Kept(entry) | DraftOrigin::Replaced(entry) => DraftOrigin::Replaced(entry),
            DraftOrigin::Added => DraftOrigin::Added,
        };
    }

    pub fn remove(&mut self, at: usize) {
        self.slots.remove(at);
    }

    pub fn len_chars(&self) -> usize {
        chars(&joined(&self.texts()))
    }

    /// What became of each entry of the file, by its place. Absent: it was removed.
    fn fates(&self) -> HashMap<usize, &DraftEntry> {
        let of_the_file = self.slots.iter().filter_map(|slot| match slot.origin {
            DraftOrigin::Kept(entry) | DraftOrigin::Replaced(entry) => Some((entry, slot)),
            DraftOrigin::Added => None,
        });
        of_the_file.collect()
    }

    /// What a reader of the file is to find: a new text may itself hold several entries.
    fn read_back(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let entries = self.slots.iter().flat_map(|slot| MemoryText::parse(&slot.text).entries);
        entries.filter(|entry| seen.insert(entry.clone())).collect()
    }
}

/// Where a line holds only the mark: with the line end before it and the one after it, or with the
/// white space that ends the text, as someone leaves it who deletes the last entry.
fn separators(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.match_indices(MARK) {
        let from = found.last().map_or(0, |last| last.end);
        let before = ["\r\n", "\n", "\r"].iter().find(|end| at >= from && text[from..at].ends_with(**end));
        let rest = &text[at + MARK.len_utf8()..];
        let after = ["\r\n", "\n", "\r"].iter().find(|end| rest.starts_with(**end)).map(|end| end.len());
        let after = after.or_else(|| strip(rest).is_empty().then_some(0));
        if let (Some(before), Some(after)) = (before, after) {
            found.push(at - before.len()..at + MARK.len_utf8() + after);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<String> {
        MemoryText::parse(text).entries
    }

    fn edited(text: &str, edit: impl Fn(&mut EntriesDraft)) -> Option<String> {
        let document = MemoryText::parse(text);
        let mut draft = document.draft();
        edit(&mut draft);
        document.render(&draft)
    }

    fn with(text: &str, entry: &str) -> String {
        edited(text, |draft| draft.add(entry)).unwrap()
    }

    #[test]
    fn a_line_with_only_the_mark_divides_entries() {
        for (text, expected) in [
            ("", vec![]),
            (" \n\n", vec![]),
            ("a", vec!["a"]),
            ("a\n§\nb", vec!["a", "b"]),
            ("a § b\n§\n§c", vec!["a § b", "§c"]),
            ("\n a \n\n§\n\n b\n", vec!["a", "b"]),
            ("a\n§\n§\nb", vec!["a", "§\nb"]), // as Hermes: one line end cannot serve two marks
            ("a\r\n§\r\nb\rc", vec!["a", "b\nc"]),
            ("a\n§\nb\n§\na", vec!["a", "b"]),
            ("a\n§", vec!["a"]),
            ("a\n§\n\n§\n", vec!["a"]),
            ("§", vec!["§"]),
        ] {
            assert_eq!(entries(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_untouched_text_renders_as_it_was() {
        for text in ["", "\n", "a", " a \r\n§\r\n\r\n§\n b\n§\nb\n\n", "a\n§", "§\n§\n§"] {
            assert_eq!(edited(text, |_| ()), Some(text.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn add_leaves_every_character_a_person_wrote() {
        for (text, expected) in [
            ("", "x"),
            ("a", "a\n§\nx"),
            ("a\n", "a\n§\nx\n"), // before the final line end: Hermes sees no drift
            ("# mine\n\n\na\n§\n\n§\na\n", "# mine\n\n\na\n§\n\n§\na\n§\nx\n"),
            ("a\n§\n", "a\n§\nx"),
            ("a\n§", "a\n§\nx"),
            ("a\r\n§\r\nb\r\n", "a\r\n§\r\nb\r\n§\r\nx\r\n"),
        ] {
            assert_eq!(with(text, "x"), expected, "{text:?}");
        }
    }

    #[test]
    fn replace_and_remove_change_only_what_they_name() {
        let text = "\na\n§\nb\n§\nc\n§\nb\n";
        assert_eq!(edited(text, |draft| draft.replace(1, "x")).unwrap(), "\na\n§\nx\n§\nc\n");
        assert_eq!(edited(text, |draft| draft.replace(2, "x")).unwrap(), "\na\n§\nb\n§\nx\n§\nb\n");
        assert_eq!(edited(text, |draft| draft.remove(0)).unwrap(), "\nb\n§\nc\n§\nb\n");
        assert_eq!(edited(text, |draft| draft.remove(1)).unwrap(), "\na\n§\nc\n");
        assert_eq!(edited("a\n", |draft| draft.remove(0)).unwrap(), "");
    }

    #[test]
    fn what_goes_is_named_with_what_takes_its_place() {
        let difference = |edit: fn(&mut EntriesDraft)| {
            let document = MemoryText::parse("a\n§\nb\n§\na\n§\nc");
            let mut draft = document.draft();
            edit(&mut draft);
            document.difference(&draft)
        };
        let departed = |entry: &str, by: Option<&str>| DepartedEntry {
            entry: entry.to_owned(),
            replaced_by: by.map(str::to_owned),
        };
        assert_eq!(difference(|_| ()), EntriesDifference::default());
        let swapped = difference(|draft| {
            draft.replace(0, "x\n§\ny"); // two entries to its next reader
            draft.remove(1);
            draft.add("z");
        });
        assert_eq!(swapped.departed, [departed("a", Some("x\n§\ny")), departed("b", None)]);
        assert_eq!(swapped.arrived, ["x", "y", "z"]);
        let renewed = difference(|draft| {
            draft.remove(0);
            draft.add("a");
        });
        assert_eq!(renewed, EntriesDifference::default()); // it is still there
    }

    #[test]
    fn an_entry_that_would_be_read_as_something_else_is_not_rendered() {
        assert_eq!(edited("a\n§\nb", |draft| draft.replace(0, "x\n§")), None);
        assert_eq!(edited("\na", |draft| draft.replace(0, "§\nx")), None);
        assert_eq!(with("a", "x\n§\ny"), "a\n§\nx\n§\ny"); // two entries, and both are there
    }

    #[test]
    fn drift_is_what_hermes_calls_so() {
        for (text, drifted) in [
            ("a\n§\nb\n", false),
            ("\n\na\n§\nb", false),
            ("a\n§\na", false),
            ("", false),
            ("\n", false),
            ("a \n§\nb", true),
            ("a\n§\n\nb", true),
            ("a\n§\n\n§\nb", true),
            ("a\n§\n", true),
            ("0123456789+", true),
            ("0123456789", false),
        ] {
            assert_eq!(MemoryText::parse(text).is_drifted(10), drifted, "{text:?}");
        }
    }
}
