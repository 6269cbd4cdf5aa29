//! Writes that wait for a person's approval: `pending/memory/<id>.json`, as Hermes keeps them.
//!
//! A record holds all that is needed to do the write later. It is on disk before the model is told
//! that it is staged; if that fails, the model is told so instead. Approved, it is done as if the call
//! came now, and goes once it is done: what fails stays, for another try or a no.

use crate::entry_history::{EntryOrigin, EntryWriter};
use crate::files::{FileError, put_new};
use crate::memory_edit::{EditOutcome, MemoryEdit};
use crate::overview::in_words;
use crate::python_text::{head, strip};
use crate::tool::Memory;
use crate::tool_arguments::{self, MemoryRequest, RequestedChange};
use serde_json::{Value, json};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use throughline_core::time::Time;
use throughline_private_files as private_files;

/// Ids are eight hexadecimal digits by chance; among the few records of a home one retry is rare.
const IDS_TRIED_MAX: usize = 16;
const DETAIL_CHARS: usize = 120;

/// A write as a person is asked about it, and as it is done after a yes.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    pub summary: String,
    pub detail: String,
    pub payload: Value,
}

#[derive(Debug, thiserror::Error)]
#[error("The write could not be kept for approval in {}: {source}. Nothing was saved.", .directory.display())]
pub struct StagingError {
    directory: PathBuf,
    source: io::Error,
}

/// A write that waits, as a person is asked about it.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingWrite {
    pub id: String,
    pub summary: String,
    pub origin: EntryOrigin,
    /// Whose notes it is for. None: the home's own files.
    person: Option<String>,
    payload: Value,
}

#[derive(Debug, thiserror::Error)]
pub enum PendingError {
    #[error("No pending memory write with id '{0}'.")]
    Unknown(String),
    /// It waits on.
    #[error("{id}: {why} It still waits; nothing was changed.")]
    Refused { id: String, why: String },
    #[error("{id}: {source}")]
    File { id: String, source: FileError },
    /// It was done all the same, if it was approved.
    #[error("{} could not be taken away: {source}. Delete it yourself.", .path.display())]
    Stuck { path: PathBuf, source: io::Error },
}

impl Memory {
    /// What waits, the oldest first. What cannot be read is passed over, as Hermes does.
    pub fn pending(&self) -> Vec<PendingWrite> {
        let files = fs::read_dir(directory(&self.settings().home)).into_iter().flatten().flatten();
        let mut found: Vec<PendingWrite> = files.filter_map(|file| read(&file.path())).collect();
        found.sort_by(|one, other| (one.origin.at, &one.id).cmp(&(other.origin.at, &other.id)));
        found
    }

    /// Does what waits. The entry's origin is the conversation that asked for it.
    pub fn approve(&self, id: &str, now: Time) -> Result<(), PendingError> {
        let PendingWrite { origin, person, payload, .. } = self.waiting(id)?;
        let id = || id.to_owned();
        let unclear = || PendingError::Refused { id: id(), why: "The record cannot be understood.".into() };
        let request = tool_arguments::parse(&payload.to_string()).map_err(|_| unclear())?;
        let MemoryRequest { target, wish: RequestedChange::Change { change, .. } } = request else {
            return Err(unclear());
        };
        if let Some(flaw) = change.flaw() {
            return Err(PendingError::Refused { id: id(), why: in_words(flaw) });
        }
        let origin = EntryOrigin { at: now, ..origin };
        let whose = self.with_person(person);
        let ended = MemoryEdit::new(whose.settings(), &origin).change(target, &change);
        match ended.map_err(|source| PendingError::File { id: id(), source })? {
            EditOutcome::Saved(_) => self.discard(&id()),
            EditOutcome::Refused { refused, .. } => {
                Err(PendingError::Refused { id: id(), why: in_words(refused) })
            }
            EditOutcome::Drifted { backup } => {
                let why = format!("The file holds foreign text; a copy of it is {backup}.");
                Err(PendingError::Refused { id: id(), why })
            }
        }
    }

    /// Forgets what waits.
    pub fn reject(&self, id: &str) -> Result<(), PendingError> {
        self.waiting(id).and_then(|found| self.discard(&found.id))
    }

    fn waiting(&self, id: &str) -> Result<PendingWrite, PendingError> {
        // It becomes part of a path.
        let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let found = is_plain.then(|| read(&file(&self.settings().home, id))).flatten();
        found.ok_or_else(|| PendingError::Unknown(id.to_owned()))
    }

    fn discard(&self, id: &str) -> Result<(), PendingError> {
        let path = file(&self.settings().home, id);
        fs::remove_file(&path).map_err(|source| PendingError::Stuck { path, source })
    }
}

fn directory(home: &Path) -> PathBuf {
    home.join("pending").join("memory")
}

fn file(home: &Path, id: &str) -> PathBuf {
    directory(home).join(format!("{id}.json"))
}

fn read(path: &Path) -> Option<PendingWrite> {
    let id = path.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
    let record: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let ours = &record[OURS];
    let origin = EntryOrigin {
        writer: if record["origin"] == BACKGROUND { EntryWriter::Review } else { EntryWriter::Chat },
        source: text(&ours["source"]).unwrap_or_default(),
        session: ours["session"].as_str().and_then(|session| session.parse().ok()),
        call: text(&ours["call"]),
        at: Time::from_seconds(record["created_at"].as_f64().unwrap_or_default()),
    };
    let summary = text(&record["summary"]).unwrap_or_default();
    // It becomes part of a path, and any program may have written the file.
    let is_digest = |name: &String| name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let person = match text(&ours["person"]) {
        Some(name) => Some(Some(name).filter(is_digest)?),
        None => None,
    };
    Some(PendingWrite { id, summary, origin, person, payload: record.get("payload")?.clone() })
}

/// Hermes' name for a review.
const BACKGROUND: &str = "background_review";
/// What Hermes does not read lies under this key.
const OURS: &str = "throughline";

/// Keeps it and returns its id.
pub fn stage(
    home: &Path,
    proposal: &Proposal,
    origin: &EntryOrigin,
    person: Option<&str>,
) -> Result<String, StagingError> {
    let directory = directory(home);
    put(&directory, proposal, origin, person).map_err(|source| StagingError { directory, source })
}

fn put(
    directory: &Path,
    proposal: &Proposal,
    origin: &EntryOrigin,
    person: Option<&str>,
) -> io::Result<String> {
    private_files::create_directory(directory)?;
    let mut tried = Err(io::Error::from(io::ErrorKind::AlreadyExists));
    for _ in 0..IDS_TRIED_MAX {
        let id = new_id();
        let record = serde_json::to_vec_pretty(&record(&id, proposal, origin, person))?;
        tried = put_new(&directory.join(format!("{id}.json")), &record).map(|()| id);
        if !matches!(&tried, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            break;
        }
    }
    tried
}

fn record(id: &str, proposal: &Proposal, origin: &EntryOrigin, person: Option<&str>) -> Value {
    let summary = format!("{}: {}", proposal.summary, head(&proposal.detail, DETAIL_CHARS));
    let mut record = json!({
        "id": id,
        "subsystem": "memory",
        "action": proposal.payload["action"],
        "summary": strip(&summary),
        "origin": if origin.writer == EntryWriter::Review { BACKGROUND } else { "foreground" },
        "created_at": origin.at.as_seconds(),
        "payload": proposal.payload,
        OURS: {
            "source": origin.source,
            "session": origin.session.as_ref().map(ToString::to_string),
            "call": origin.call,
        },
    });
    if let Some(person) = person {
        record[OURS]["person"] = person.into();
    }
    record
}

fn new_id() -> String {
    format!("{:08x}", RandomState::new().build_hasher().finish() as u32)
}
