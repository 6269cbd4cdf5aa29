//! What happened to the entries of one file, a line each: `memories/.throughline/<target>.jsonl`.
//!
//! - Written under the lock of the file it tells of, and on disk before that file changes: what is
//!   about to go is kept first. A crash between the two leaves a record of something that did not
//!   happen, so whether an entry is there is always asked of the file, never of this.
//! - Only appended to. The number of a line is its name for good. A line that a crash cut short is
//!   passed over, and the next one begins on a line of its own.
//! - 0600, like the files. Deliberately absent: a bound. An archive that forgets is none, and its lines
//!   are as short as what fits into a prompt.

use crate::entry_history::{EntryEvent, EntryOrigin, EntryRecord, EntryWriter};
use crate::target::MemoryTarget;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use throughline_core::time::Time;
use throughline_private_files as private_files;

pub const DIRECTORY: &str = ".throughline";

#[derive(Clone, Debug)]
pub struct MemoryJournal {
    path: PathBuf,
}

/// All that was ever recorded.
#[derive(Debug, Default)]
pub struct JournalRecords {
    /// By the number of the line, from 1.
    pub records: Vec<(u64, EntryRecord)>,
    /// Lines that say nothing.
    pub unreadable: usize,
}

impl MemoryJournal {
    /// `memories` is the directory that the files lie in.
    pub fn of(memories: &Path, target: MemoryTarget) -> Self {
        Self { path: memories.join(DIRECTORY).join(format!("{}.jsonl", target.name())) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// On disk when this returns; if it fails, as good as not written. The caller holds the lock.
    pub fn append(&self, records: &[EntryRecord]) -> io::Result<()> {
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, &JournalLine::of(record))?;
            lines.push(b'\n');
        }
        let directory = self.path.parent().expect("it lies in a directory of its own");
        private_files::create_directory(directory)?;
        if fs::metadata(&self.path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut file = private_files::file_options().create(true).append(true).read(true).open(&self.path)?;
        let length = file.metadata()?.len();
        if has_open_end(&mut file, length)? {
            lines.insert(0, b'\n');
        }
        let written = file.write_all(&lines).and_then(|()| file.sync_all());
        if written.is_err() {
            let _ = file.set_len(length); // a part of a line would be passed over anyway
        }
        written?;
        private_files::sync_directory(directory)?;
        // The directory itself is new with the first line.
        if length == 0 { directory.parent().map_or(Ok(()), private_files::sync_directory) } else { Ok(()) }
    }

    /// Empties these lines: whose they were is to be forgotten. The caller holds the lock.
    pub fn clear(&self, lines: &BTreeSet<u64>) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let bytes = fs::read(&self.path)?;
        let kept: Vec<&[u8]> = (1..)
            .zip(bytes.split(|byte| *byte == b'\n'))
            .map(|(number, line)| if lines.contains(&number) { &[] } else { line })
            .collect();
        let directory = self.path.parent().expect("it lies in a directory of its own");
        // 0600, like all temporary files.
        let mut temporary = tempfile::Builder::new().prefix(".mem_").suffix(".tmp").tempfile_in(directory)?;
        temporary.write_all(&kept.join(&b'\n'))?;
        temporary.as_file().sync_all()?;
        temporary.persist(&self.path).map_err(|failed| failed.error)?;
        private_files::sync_directory(directory)
    }

    pub fn read(&self) -> io::Result<JournalRecords> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(JournalRecords::default()),
            Err(error) => return Err(error),
        };
        let mut told = JournalRecords::default();
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let record = serde_json::from_slice::<JournalLine>(line).ok().and_then(JournalLine::read);
            match record {
                Some(record) => told.records.push((number, record)),
                None if line.is_empty() => {}
                None => told.unreadable += 1,
            }
        }
        Ok(told)
    }
}

impl JournalRecords {
    /// Who last wrote this entry. None: a person did by hand, or Hermes, or it was not recorded.
    pub fn origin(&self, entry: &str) -> Option<&EntryOrigin> {
        let arrivals = self.records.iter().rev().map(|(_, record)| record);
        arrivals
            .filter(|record| !record.what.is_departure())
            .find(|record| record.entry == entry)
            .map(|record| &record.origin)
    }
}

fn has_open_end(file: &mut File, length: u64) -> io::Result<bool> {
    if length == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[derive(Serialize, Deserialize)]
struct JournalLine {
    at_us: i64,
    event: String,
    entry: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_by: Option<String>,
    writer: String,
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
}

impl JournalLine {
    fn of(record: &EntryRecord) -> Self {
        let EntryRecord { what, entry, origin } = record;
        let (event, replaced_by) = match what {
            EntryEvent::Added => ("added", None),
            EntryEvent::Restored => ("restored", None),
            EntryEvent::Removed => ("removed", None),
            EntryEvent::Replaced { by } => ("replaced", Some(by.clone())),
        };
        Self {
            at_us: origin.at.0,
            event: event.to_owned(),
            entry: entry.clone(),
            replaced_by,
            writer: origin.writer.name().to_owned(),
            source: origin.source.clone(),
            session: origin.session.as_ref().map(ToString::to_string),
            call: origin.call.clone(),
        }
    }

    fn read(self) -> Option<EntryRecord> {
        let what = match (&*self.event, self.replaced_by) {
            ("added", _) => EntryEvent::Added,
            ("restored", _) => EntryEvent::Restored,
            ("removed", _) => EntryEvent::Removed,
            ("replaced", Some(by)) => EntryEvent::Replaced { by },
            _ => return None,
        };
        let origin = EntryOrigin {
            writer: EntryWriter::of_name(&self.writer)?,
            source: self.source,
            session: self.session.and_then(|session| session.parse().ok()),
            call: self.call,
            at: Time(self.at_us),
        };
        Some(EntryRecord { what, entry: self.entry, origin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn record(what: EntryEvent, entry: &str) -> EntryRecord {
        EntryRecord { what, entry: entry.to_owned(), origin: EntryOrigin::person("cli", Time(7)) }
    }

    #[test]
    fn what_was_written_is_read_under_the_number_of_its_line() {
        let home = tempfile::tempdir().unwrap();
        let journal = MemoryJournal::of(home.path(), MemoryTarget::User);
        let lines = [
            record(EntryEvent::Added, "a\n\"b\" ü"),
            record(EntryEvent::Replaced { by: "c".into() }, "a\n\"b\" ü"),
            record(EntryEvent::Removed, "c"),
        ];
        journal.append(&lines[..2]).unwrap();
        journal.append(&lines[2..]).unwrap();
        let told = journal.read().unwrap();
        assert_eq!(told.records, (1..).zip(lines).collect::<Vec<_>>());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(journal.path()), mode(&home.path().join(DIRECTORY))), (0o600, 0o700));
    }

    #[test]
    fn a_line_that_a_crash_cut_short_harms_no_other() {
        let home = tempfile::tempdir().unwrap();
        let journal = MemoryJournal::of(home.path(), MemoryTarget::Memory);
        let (first, second) = (record(EntryEvent::Removed, "first"), record(EntryEvent::Removed, "second"));
        journal.append(std::slice::from_ref(&first)).unwrap();
        let mut torn = fs::read(journal.path()).unwrap();
        torn.extend_from_slice(b"{\"at_us\": 7, \"ent\xff");
        fs::write(journal.path(), torn).unwrap();
        journal.append(std::slice::from_ref(&second)).unwrap();
        let told = journal.read().unwrap();
        assert_eq!(told.records, [(1, first), (3, second)]);
        assert_eq!(told.unreadable, 1);
    }
}
