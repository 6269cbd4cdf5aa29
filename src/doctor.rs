//! What is wrong with a home as a whole: its database, as the store judges it, and what only files know.
//!
//! Nothing here changes a home but [`backup`], which writes below `backups` and puts back what it kept.

pub mod backup;
mod files;
pub mod holders;
mod transcripts;

use crate::home::Home;
use crate::progress::Progress;
use std::sync::{Arc, Mutex, MutexGuard};
use throughline_core::Time;
use throughline_store::doctor::{Finding, Outside, Transcript};

/// Everything that is wrong with a home, worst first. Only reads.
pub fn examine(home: &Home, is_running: bool, now: Time) -> anyhow::Result<Vec<Finding>> {
    let store = throughline_store::Home::at(home.path());
    let examiner = store.examiner()?;
    // The store tells how far it is; while SQLite checks the file, only that it goes on.
    let progress = Arc::new(Mutex::new(Progress::new("checking the file", 0)));
    let beating = progress.clone();
    let examiner = examiner.beating(move || line(&beating).beats())?;
    let mut transcripts = transcripts::all(home.path());
    let outside = Outside { transcripts: &mut transcripts, is_running };
    let mut found = examiner
        .examine(outside, now, &mut |label, done, total| line(&progress).reach(label, done, total))?;
    found.extend(files::examine(home.path()));
    found.sort_by(|one, other| (one.kind, &one.sessions).cmp(&(other.kind, &other.sessions)));
    Ok(found)
}

fn line(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().expect("nothing panics while it draws a line")
}

/// The file that a finding is about, read again.
pub fn transcript(home: &Home, finding: &Finding) -> Option<Transcript> {
    transcripts::read(home.path(), finding.sessions.get(1)?)
}
