//! Where programs are not run: whoever would run one is told so.

use super::{Ran, Surroundings};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const WHY: &str = "hooks are run on Linux and macOS only";

/// Takes the place of a run that is waited for.
pub fn run(_words: &[String], _surroundings: &Surroundings, _input: &str, _timeout: Duration) -> Ran {
    Ran::NotAtAll(WHY.to_owned())
}

/// Takes the place of runs that outlive this process.
pub struct Apart;

impl Apart {
    pub fn new(_runs: PathBuf, _surroundings: Arc<Surroundings>) -> Self {
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
