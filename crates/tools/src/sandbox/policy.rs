//! What a command may do with each thing in an agent's home: [`file_policy`], as far as the kernel can keep it.
//!
//! No person can be asked while a command runs, so what is asked about is closed here.

use std::path::Path;
use throughline_hermes::file_policy::{self, Access, Owner};

/// From nothing to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxRights {
    Nothing,
    /// See the names of what is there.
    List,
    /// Read and run.
    Read,
    All,
}

/// `rest`: the path below the home. `opened`: names in it that its owner opened.
pub fn rights(rest: &Path, owner: Owner, opened: &[String]) -> SandboxRights {
    let rights = file_policy::rights(rest, owner, opened);
    match (rights.read, rights.write) {
        (Access::Open, Access::Open) => SandboxRights::All,
        (Access::Open, _) => SandboxRights::Read,
        _ => SandboxRights::Nothing,
    }
}
