//! Memory as a person looks at it: how full, what is in it and where that comes from, what was in it.
//!
//! Reads the files when it is asked and blocks meanwhile. Whoever calls has made sure that it is shown
//! to nobody but the owner ([`Memory::belongs_to`]).

use crate::answer;
use crate::change::{Change, Refused};
use crate::document::{Document, joined};
use crate::files::FileError;
use crate::journal::Told;
use crate::memory_edit::{Ended, MemoryEdit};
use crate::origin::{Origin, Past, PastId, Record};
use crate::target::Target;
use crate::text::{chars, grouped};
use crate::threats;
use crate::tool::Memory;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;
use throughline_core::time::Time;

/// How one of the two files is.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub target: Target,
    pub path: PathBuf,
    pub is_enabled: bool,
    pub chars_max: usize,
    /// The error says why the file cannot be used, and what to do.
    pub contents: Result<Contents, String>,
    /// When the file was last written, by whomever.
    pub modified: Option<Time>,
    /// The last change that was recorded.
    pub last: Option<Past>,
    /// Lines of the journal that cannot be read.
    pub unreadable_records: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub entries: usize,
    /// With their separators, as the limit counts them.
    pub chars: usize,
    pub percent: u32,
    /// Above nine tenths: the agent is asked to consolidate.
    pub is_nearly_full: bool,
    /// Something other than a memory tool formatted it. Nothing is lost, but Hermes would refuse to
    /// replace or remove entries here.
    pub is_drifted: bool,
    /// Entries that are kept from prompts because they read like an attack.
    pub blocked: usize,
    /// Entries of which nobody knows who wrote them: a person by hand, or Hermes.
    pub unattributed: usize,
}

/// One entry as it is in its file now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub text: String,
    pub chars: usize,
    /// None: written by hand or by Hermes.
    pub origin: Option<Origin>,
    /// What it reads like, if it is kept from prompts.
    pub threats: Vec<String>,
}

/// An entry is back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub target: Target,
    pub entry: String,
    /// `93% — 2,046/2,200 chars`.
    pub usage: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("There is no {0} in the history. Nothing was changed.")]
    Unknown(PastId),
    #[error("The entry of {id} is in {} already. Nothing was changed.", .id.target.file_name())]
    There { id: PastId },
    #[error(
        "The entry of {id} does not fit into {}: {} more characters would have to be free ({usage} are in use). \
         Nothing was changed; shorten or remove other entries first.",
        .id.target.file_name(),
        grouped(*.over_chars)
    )]
    Full { id: PastId, over_chars: usize, usage: String },
    #[error("The entry of {id} was not put back: {why}")]
    Refused { id: PastId, why: String },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Status {
    /// `93% — 2,046/2,200 chars`. None: the file cannot be used.
    pub fn usage(&self) -> Option<String> {
        let contents = self.contents.as_ref().ok()?;
        Some(answer::percent_usage(contents.chars, self.chars_max))
    }
}

impl Memory {
    /// The notes, then the profile.
    pub fn status(&self) -> [Status; 2] {
        Target::ALL.map(|target| self.status_of(target))
    }

    fn status_of(&self, target: Target) -> Status {
        let (settings, file) = (self.settings(), target.file(self.settings()));
        let read = self.document(target).map_err(|error| error.to_string());
        let told = self.told(target).unwrap_or_default(); // `history` says why it cannot be read
        let entries: &[String] = read.as_ref().map(Document::entries).unwrap_or_default();
        let last = told.records.last().map(|(number, record)| past(target, *number, record, &held(entries)));
        let modified = std::fs::metadata(file.path()).and_then(|found| found.modified()).ok();
        let limit = target.limit(settings);
        Status {
            target,
            path: file.path().to_owned(),
            is_enabled: target.is_enabled(settings),
            chars_max: limit,
            modified: modified
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                .map(|since| Time::default().plus(since)),
            last,
            unreadable_records: told.unreadable,
            contents: read.map(|document| contents(&document, &told, limit)),
        }
    }

    /// What is in the file, in its order.
    pub fn show(&self, target: Target) -> Result<Vec<Entry>, FileError> {
        let (document, told) = (self.document(target)?, self.told(target)?);
        let entries = document.entries().iter().map(|entry| Entry {
            text: entry.clone(),
            chars: chars(entry),
            origin: told.origin(entry).cloned(),
            threats: threats::findings(entry),
        });
        Ok(entries.collect())
    }

    /// The file as it is, to the byte. None: there is none.
    pub fn text(&self, target: Target) -> Result<Option<String>, FileError> {
        target.file(self.settings()).read()
    }

    /// All that was recorded, the latest last.
    pub fn history(&self, target: Target) -> Result<Vec<Past>, FileError> {
        let (document, told) = (self.document(target)?, self.told(target)?);
        let held = held(document.entries());
        Ok(told.records.iter().map(|(number, record)| past(target, *number, record, &held)).collect())
    }

    /// Puts the entry of a record back, behind all others.
    pub fn restore(&self, id: PastId, origin: &Origin) -> Result<Restored, RestoreError> {
        let target = id.target;
        let told = self.told(target)?;
        let found = told.records.into_iter().find(|(number, _)| *number == id.number);
        let Some((_, Record { entry, .. })) = found else { return Err(RestoreError::Unknown(id)) };
        let add = Change::Add { content: entry.clone() };
        if let Some(flaw) = add.flaw() {
            return Err(RestoreError::Refused { id, why: in_words(flaw) });
        }
        let limit = target.limit(self.settings());
        match MemoryEdit::new(self.settings(), origin).restoring().change(target, &add)? {
            Ended::Saved(changed) if changed.text.is_none() => Err(RestoreError::There { id }),
            Ended::Saved(changed) => {
                let usage = answer::percent_usage(chars(&joined(&changed.entries)), limit);
                Ok(Restored { target, entry, usage })
            }
            Ended::Refused { refused: Refused::Unfit { over_chars, .. }, entries } => {
                Err(RestoreError::Full { id, over_chars, usage: crate::change::usage(&entries, limit) })
            }
            Ended::Refused { refused, .. } => Err(RestoreError::Refused { id, why: in_words(refused) }),
            Ended::Drifted { backup } => {
                let why = format!("the file holds foreign text; a copy of it is {backup}.");
                Err(RestoreError::Refused { id, why })
            }
        }
    }

    pub(crate) fn document(&self, target: Target) -> Result<Document, FileError> {
        Ok(Document::parse(&self.text(target)?.unwrap_or_default()))
    }

    pub(crate) fn told(&self, target: Target) -> Result<Told, FileError> {
        let journal = target.journal(self.settings());
        journal
            .read()
            .map_err(|error| FileError::Unusable { path: journal.path().to_owned(), why: error.to_string() })
    }
}

fn contents(document: &Document, told: &Told, limit: usize) -> Contents {
    let entries = document.entries();
    let size = chars(&joined(entries));
    Contents {
        entries: entries.len(),
        chars: size,
        percent: answer::percent(size, limit),
        is_nearly_full: answer::is_nearly_full(size, limit),
        is_drifted: document.is_drifted(limit),
        blocked: entries.iter().filter(|entry| !threats::findings(entry).is_empty()).count(),
        unattributed: entries.iter().filter(|entry| told.origin(entry).is_none()).count(),
    }
}

fn held(entries: &[String]) -> HashSet<&str> {
    entries.iter().map(String::as_str).collect()
}

fn past(target: Target, number: u64, record: &Record, held: &HashSet<&str>) -> Past {
    let is_there = held.contains(&*record.entry);
    Past { id: PastId { target, number }, record: record.clone(), is_there }
}

pub(crate) fn in_words(refused: Refused) -> String {
    match refused {
        Refused::Plain(error)
        | Refused::Unmatched(error)
        | Refused::Ambiguous { error, .. }
        | Refused::Unfit { error, .. } => error,
    }
}
