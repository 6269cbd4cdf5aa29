//! Forgetting: entries that the agent wrote in certain sessions go, with every record of them.
//!
//! - An entry goes if the journal says that one of these sessions wrote it last. What a person or Hermes wrote by hand
//!   has no recorded origin, and stays
//! - The file changes first, then the journal: after a kill in between, the journal says what is left to do.
//!   Lines of the journal become empty, because their numbers are names
//! - Unlike every other change this one is not recorded. That is its purpose

use crate::entry_history::{EntryEvent, EntryRecord};
use crate::entry_journal::JournalRecords;
use crate::files::FileError;
use crate::memory_text::MemoryText;
use crate::target::MemoryTarget;
use crate::tool::Memory;
use std::collections::BTreeSet;
use std::fs;
use throughline_core::id::SessionId;

/// Times a file is read anew because something that takes no lock wrote into it.
const SWAPS_MAX: usize = 4;

/// How much went, or would go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    pub entries: u64,
    pub records: u64,
    /// Writes that wait for approval.
    pub pending: u64,
}

impl Memory {
    /// What these sessions wrote, in the home's own files and in the notes of each person.
    pub fn written_by(&self, sessions: &BTreeSet<SessionId>) -> Result<Erased, FileError> {
        let mut found = Erased { pending: self.pending_of(sessions).len() as u64, ..Erased::default() };
        for memory in self.everybodys() {
            for target in MemoryTarget::ALL {
                let told = memory.told(target)?;
                let document = memory.document(target)?;
                let gone = entries_of(&told, &document, sessions);
                found.entries += gone.len() as u64;
                found.records += lines_of(&told, sessions, &gone).len() as u64;
            }
        }
        Ok(found)
    }

    /// Removes all of that. Done again it does the rest.
    pub fn erase(&self, sessions: &BTreeSet<SessionId>) -> Result<(), FileError> {
        for id in self.pending_of(sessions) {
            let _ = self.reject(&id); // one that cannot be taken away is told of by `memory pending`
        }
        for memory in self.everybodys() {
            for target in MemoryTarget::ALL {
                memory.erase_in(target, sessions)?;
            }
        }
        Ok(())
    }

    fn erase_in(&self, target: MemoryTarget, sessions: &BTreeSet<SessionId>) -> Result<(), FileError> {
        let told = self.told(target)?;
        let is_concerned = |(_, record): &(u64, EntryRecord)| is_of(record, sessions);
        if !told.records.iter().any(is_concerned) {
            return Ok(());
        }
        let file = target.file(self.settings());
        let locked = file.lock(|| false)?;
        let path = file.path().to_owned();
        let mut swaps = 0;
        // The journal is cleared only after the entries are gone: nothing else tells whose they are.
        let gone = loop {
            let held = locked.read()?;
            let document = MemoryText::parse(held.as_deref().unwrap_or_default());
            let gone = entries_of(&told, &document, sessions);
            if gone.is_empty() {
                break gone;
            }
            let mut draft = document.draft();
            for entry in &gone {
                while let Some(at) = draft.texts().iter().position(|text| text == entry) {
                    draft.remove(at);
                }
            }
            let text = document.render(&draft).ok_or_else(|| FileError::Unusable {
                path: path.clone(),
                why: "its other entries would read differently without those that are to go".to_owned(),
            })?;
            match locked.replace(&held, &text) {
                Err(FileError::Changed(_)) if swaps < SWAPS_MAX => swaps += 1,
                replaced => {
                    replaced?;
                    break gone;
                }
            }
        };
        let journal = target.journal(self.settings());
        let lines = lines_of(&told, sessions, &gone);
        journal.clear(&lines).map_err(|source| FileError::Write { path: journal.path().to_owned(), source })
    }

    /// The home's own files, and the notes of each person.
    fn everybodys(&self) -> Vec<Memory> {
        let people = self.settings().home.join("memories").join("people");
        let names = fs::read_dir(people).into_iter().flatten().flatten();
        let names = names.filter(|entry| entry.path().is_dir());
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        std::iter::once(None).chain(names.map(Some)).map(|person| self.with_person(person)).collect()
    }

    fn pending_of(&self, sessions: &BTreeSet<SessionId>) -> Vec<String> {
        let is_of = |session: &Option<SessionId>| session.as_ref().is_some_and(|id| sessions.contains(id));
        self.pending()
            .into_iter()
            .filter(|found| is_of(&found.origin.session))
            .map(|found| found.id)
            .collect()
    }
}

/// Entries of the file that one of these sessions wrote last.
fn entries_of(
    told: &JournalRecords,
    document: &MemoryText,
    sessions: &BTreeSet<SessionId>,
) -> BTreeSet<String> {
    let wrote = |entry: &&String| {
        let session = told.origin(entry).and_then(|origin| origin.session.as_ref());
        session.is_some_and(|session| sessions.contains(session))
    };
    document.entries().iter().filter(wrote).cloned().collect()
}

/// Lines that tell what these sessions did, and all others that repeat what they wrote.
fn lines_of(told: &JournalRecords, sessions: &BTreeSet<SessionId>, gone: &BTreeSet<String>) -> BTreeSet<u64> {
    let mut words = gone.clone();
    for (_, record) in told.records.iter().filter(|(_, record)| is_of(record, sessions)) {
        match &record.what {
            EntryEvent::Added => drop(words.insert(record.entry.clone())),
            EntryEvent::Replaced { by } => drop(words.insert(by.clone())),
            EntryEvent::Restored | EntryEvent::Removed => {}
        }
    }
    let repeats = |record: &EntryRecord| match &record.what {
        EntryEvent::Replaced { by } => words.contains(by) || words.contains(&record.entry),
        _ => words.contains(&record.entry),
    };
    let lines = told.records.iter().filter(|(_, record)| is_of(record, sessions) || repeats(record));
    lines.map(|(number, _)| *number).collect()
}

fn is_of(record: &EntryRecord, sessions: &BTreeSet<SessionId>) -> bool {
    record.origin.session.as_ref().is_some_and(|session| sessions.contains(session))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry_change::EntryChange;
    use crate::entry_history::{EntryOrigin, EntryWriter};
    use crate::memory_edit::MemoryEdit;
    use crate::settings::MemorySettings;
    use throughline_core::time::Time;

    fn add(memory: &Memory, session: &str, content: &str) {
        let origin = EntryOrigin {
            writer: EntryWriter::Chat,
            source: "telegram".to_owned(),
            session: Some(session.parse().unwrap()),
            call: None,
            at: Time(1),
        };
        let change = EntryChange::Add { content: content.to_owned() };
        MemoryEdit::new(memory.settings(), &origin).change(MemoryTarget::Memory, &change).unwrap();
    }

    fn bytes(home: &std::path::Path) -> String {
        let read = |name: &str| fs::read_to_string(home.join("memories").join(name)).unwrap_or_default();
        read("MEMORY.md") + &read(".throughline/memory.jsonl")
    }

    #[test]
    fn p31_what_a_forgotten_session_wrote_is_in_no_file_of_memory() {
        let home = tempfile::tempdir().unwrap();
        let memory = Memory::new(MemorySettings::new(home.path()));
        add(&memory, "ann", "Ann likes quokkas.");
        add(&memory, "bob", "Bob likes tea.");
        let sessions = BTreeSet::from(["ann".parse().unwrap()]);
        assert_eq!(memory.written_by(&sessions).unwrap(), Erased { entries: 1, records: 1, pending: 0 });
        memory.erase(&sessions).unwrap();
        let left = bytes(home.path());
        assert!(!left.contains("quokka") && left.contains("Bob likes tea."), "{left}");
        assert_eq!(memory.show(MemoryTarget::Memory).unwrap().len(), 1);
        let told = memory.history(MemoryTarget::Memory).unwrap();
        assert_eq!(told[0].id.number, 2, "the names of records stay");
        memory.erase(&sessions).unwrap();
        assert_eq!(bytes(home.path()), left, "twice as once");
    }
}
