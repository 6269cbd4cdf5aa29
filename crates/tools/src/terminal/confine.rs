//! How a local process is started: as it is, or shut in.

use std::io;
use std::process::{Child, Command};

/// Starts a command within what it may touch. Returns without waiting for it.
pub trait Confine: Send + Sync {
    fn spawn(&self, command: Command) -> io::Result<Child>;
}

/// No limits but the user's own rights.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unconfined;

impl Confine for Unconfined {
    fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.spawn()
    }
}
