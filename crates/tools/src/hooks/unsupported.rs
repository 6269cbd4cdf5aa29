//! Systems on which hooks are not run: the caller gets that as the reason.

use super::{HookOutcome, HookSurroundings};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const WHY: &str = "hooks are run on Linux and macOS only";

/// Takes the place of a run that is waited for.
pub fn run(
    _words: &[String],
    _surroundings: &HookSurroundings,
    _input: &str,
    _timeout: Duration,
) -> HookOutcome {
    HookOutcome::NotAtAll(WHY.to_owned())
}

/// Takes the place of runs that outlive this process.
pub struct DetachedRuns;

impl DetachedRuns {
    pub fn new(_runs: PathBuf, _surroundings: Arc<HookSurroundings>) -> Self {
        Self
    }

    pub async fn run(
        &self,
        _name: &str,
        _key: &str,
        _words: &[String],
        _input: &str,
        _timeout: Duration,
    ) -> Result<(), String> {
        Err(WHY.to_owned())
    }

    pub fn forget(&self, _name: &str, _key: &str) {}
}
