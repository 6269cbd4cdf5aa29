//! What is wrong with a home as a whole: its database, as the store judges it, and what only files know.
//!
//! Nothing here changes a home but [`backup`], which writes below `backups` and puts back what it kept.

pub mod backup;
mod files;
pub mod holders;
#[cfg(test)]
mod linear;
mod transcripts;

use crate::progress::Progress;
use std::sync::{Arc, Mutex, MutexGuard};
use throughline_core::Time;
use throughline_core::lifecycle::{Mode, Policies, Policy, due};
use throughline_hermes::local;
use throughline_home::config::{Environment, Overrides, Written};
use throughline_home::home::Home;
use throughline_store::doctor::{Finding, Outside, Transcript};

/// Everything that is wrong with a home, worst first. Only reads.
pub fn examine(
    home: &Home,
    environment: &Environment,
    is_running: bool,
    now: Time,
) -> anyhow::Result<Vec<Finding>> {
    let store = throughline_store::Home::at(home.path());
    let examiner = store.examiner()?;
    // The store tells how far it is; while SQLite checks the file, only that it goes on.
    let progress = Arc::new(Mutex::new(Progress::new("checking the file", 0)));
    let beating = progress.clone();
    let examiner = examiner.beating(move || line(&beating).beats())?;
    let mut transcripts = transcripts::all(home.path());
    let outside =
        Outside { transcripts: &mut transcripts, is_running, is_due: &ends(home, environment, now) };
    let mut found = examiner
        .examine(outside, now, &mut |label, done, total| line(&progress).reach(label, done, total))?;
    found.extend(files::examine(home.path()));
    found.sort_by(|one, other| (one.kind, &one.sessions).cmp(&(other.kind, &other.sessions)));
    Ok(found)
}

/// When conversations of a home end by themselves, as its files say, or as Hermes 0.14 did it where they say nothing: what
/// has ended by either is not said to go on.
fn ends(home: &Home, environment: &Environment, now: Time) -> impl Fn(&str, &str, Time) -> bool {
    let written = Written::read(home, environment, Overrides::default());
    let policies =
        written.ok().and_then(Result::ok).map_or_else(Policies::default, |written| written.policies());
    let usual = Policy { mode: Mode::Both, ..Policy::default() };
    let zone = local::system_zone();
    move |platform, chat_type, active| {
        let is_due =
            |policy: &Policy| due(policy, active, now, local::last_struck(now, policy.at_hour, &zone));
        [policies.of(platform, chat_type), &usual].into_iter().any(|policy| is_due(policy).is_some())
    }
}

fn line(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().expect("nothing panics while it draws a line")
}

/// The file that a finding is about, read again.
pub fn transcript(home: &Home, finding: &Finding) -> Option<Transcript> {
    transcripts::read(home.path(), finding.sessions.get(1)?)
}
