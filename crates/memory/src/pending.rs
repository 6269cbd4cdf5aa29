//! Writes that wait for a person's approval: `pending/memory/<id>.json`, as Hermes keeps them.
//!
//! A record holds all that is needed to do the write later. It is on disk before the model is told
//! that it is staged; if that fails, the model is told so instead.

use crate::files::{create_directory, put_new};
use crate::text::{head, strip};
use serde_json::{Value, json};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use throughline_core::time::Time;

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

/// Keeps it and returns its id.
pub fn stage(home: &Path, proposal: &Proposal, now: Time) -> Result<String, StagingError> {
    let directory = home.join("pending").join("memory");
    put(&directory, proposal, now).map_err(|source| StagingError { directory, source })
}

fn put(directory: &Path, proposal: &Proposal, now: Time) -> io::Result<String> {
    create_directory(directory)?;
    let mut tried = Err(io::Error::from(io::ErrorKind::AlreadyExists));
    for _ in 0..IDS_TRIED_MAX {
        let id = new_id();
        let record = serde_json::to_vec_pretty(&record(&id, proposal, now))?;
        tried = put_new(&directory.join(format!("{id}.json")), &record).map(|()| id);
        if !matches!(&tried, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            break;
        }
    }
    tried
}

fn record(id: &str, proposal: &Proposal, now: Time) -> Value {
    let summary = format!("{}: {}", proposal.summary, head(&proposal.detail, DETAIL_CHARS));
    json!({
        "id": id,
        "subsystem": "memory",
        "action": proposal.payload["action"],
        "summary": strip(&summary),
        "origin": "foreground",
        "created_at": now.as_seconds(),
        "payload": proposal.payload,
    })
}

fn new_id() -> String {
    format!("{:08x}", RandomState::new().build_hasher().finish() as u32)
}
