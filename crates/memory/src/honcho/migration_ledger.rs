//! Which of a home's memory files went to whom, a line each: `memories/.throughline/honcho.jsonl`.
//!
//! A line is on disk before a file leaves, and another once the server has it. So the process after a crash knows
//! what may have arrived, and where to look for it; and what is over stays over, even if the file, the strategy or the
//! conversation changes.

use crate::entry_journal::DIRECTORY;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use throughline_core::memory::MemoryError;
use throughline_private_files as private_files;
use tokio::sync::Mutex;

const FILE: &str = "honcho.jsonl";

/// The ledger of one home. A conversation that brings files holds it until that is over: two conversations of one owner
/// do not bring the same file.
pub struct MigrationLedger {
    path: PathBuf,
    pub(super) known: Mutex<KnownMigrations>,
}

/// A file on its way to one peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct MigratedFile {
    pub server: String,
    pub workspace: String,
    pub peer: String,
    pub file: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MigrationStatus {
    /// It may have arrived in this session.
    #[serde(rename = "begun")]
    Begun { session: String },
    /// It is there, or there was nothing to bring, or the server does not take it.
    #[serde(rename = "over")]
    Over { how: String },
}

#[derive(Serialize, Deserialize)]
struct LedgerLine {
    #[serde(flatten)]
    parcel: MigratedFile,
    stand: MigrationStatus,
}

#[derive(Default)]
pub(super) struct KnownMigrations {
    is_read: bool,
    stands: BTreeMap<MigratedFile, MigrationStatus>,
}

impl MigrationLedger {
    /// Beside these memory files. Nothing is read yet.
    pub fn of(memories: &Path) -> Self {
        Self { path: memories.join(DIRECTORY).join(FILE), known: Mutex::default() }
    }

    pub(super) fn stand<'a>(
        &self,
        known: &'a mut KnownMigrations,
        parcel: &MigratedFile,
    ) -> Result<Option<&'a MigrationStatus>, MemoryError> {
        if !known.is_read {
            known.stands = self.read().map_err(|error| self.unusable("read", &error))?;
            known.is_read = true;
        }
        Ok(known.stands.get(parcel))
    }

    /// On disk when this returns.
    pub(super) fn write(
        &self,
        known: &mut KnownMigrations,
        parcel: &MigratedFile,
        stand: MigrationStatus,
    ) -> Result<(), MemoryError> {
        let line = LedgerLine { parcel: parcel.clone(), stand };
        let text = serde_json::to_string(&line).map_err(|error| self.unusable("written", &error.into()))?;
        self.append(&text).map_err(|error| self.unusable("written", &error))?;
        known.stands.insert(line.parcel, line.stand);
        Ok(())
    }

    fn read(&self) -> io::Result<BTreeMap<MigratedFile, MigrationStatus>> {
        let text = match std::fs::read(&self.path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        // A line that a crash cut short was never acted on.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<LedgerLine>(line).ok());
        Ok(lines.map(|line| (line.parcel, line.stand)).collect())
    }

    fn append(&self, text: &str) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new(""));
        private_files::create_directory(directory)?;
        let mut file = private_files::file_options().create(true).append(true).open(&self.path)?;
        // What a crash left of a line ends here, and harms no other.
        file.write_all(format!("\n{text}\n").as_bytes())?;
        file.sync_all()?;
        private_files::sync_directory(directory)
    }

    fn unusable(&self, what: &str, error: &io::Error) -> MemoryError {
        MemoryError::Later(format!(
            "{} cannot be {what} ({error}). It says which memory files Honcho has, so nothing goes there until it can.",
            self.path.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(file: &str) -> MigratedFile {
        MigratedFile { server: "s:1".into(), workspace: "w".into(), peer: "ann".into(), file: file.into() }
    }

    #[tokio::test]
    async fn what_is_written_outlives_the_process_and_a_line_that_was_cut_short_harms_none() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = MigrationLedger::of(directory.path());
        let begun = || MigrationStatus::Begun { session: "diary".into() };
        let over = || MigrationStatus::Over { how: "there".into() };
        {
            let mut known = ledger.known.lock().await;
            assert_eq!(ledger.stand(&mut known, &parcel("a")).unwrap(), None);
            ledger.write(&mut known, &parcel("a"), begun()).unwrap();
            ledger.write(&mut known, &parcel("a"), over()).unwrap();
            ledger.write(&mut known, &parcel("b"), begun()).unwrap();
        }
        let path = directory.path().join(DIRECTORY).join(FILE);
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"server\":\"s:1\",\"wor").unwrap();
        let later = MigrationLedger::of(directory.path());
        let mut known = later.known.lock().await;
        later.write(&mut known, &parcel("c"), begun()).unwrap();
        drop(known);
        let last = MigrationLedger::of(directory.path());
        let mut known = last.known.lock().await;
        for (file, stand) in [("a", Some(over())), ("b", Some(begun())), ("c", Some(begun())), ("d", None)] {
            assert_eq!(last.stand(&mut known, &parcel(file)).unwrap(), stand.as_ref(), "{file}");
        }
    }
}
