//! What a local process may touch.
//!
//! A command that an agent runs here is the user's own process: it may read, write and run what the
//! user may, but for the agents' homes. There [`file_policy`](throughline_hermes::file_policy) decides, as
//! for every other tool: a command may not read secrets, transcripts and names that the policy does not know, and it
//! may write only what is meant to be worked in (`workspace/`, `skills/`, `scripts/`, caches). Rules and
//! state (`config.yaml`, hooks, plugins, memories, cron, locks) it may only read: memory has a tool, and
//! configuration an owner. In other agents' homes it may write nothing.
//!
//! Linux's Landlock keeps this, without privileges and for everything the command starts in turn. If
//! a confinement cannot be set up, the command does not run. As a gift, a confined process may not
//! look into processes outside (`/proc/<pid>/environ`, a debugger), so the gateway's environment
//! stays its own; only root with its right to profile (`CAP_PERFMON`) still may.
//!
//! # What it costs
//!
//! Landlock only grants, and a grant holds for all that lies beneath. So what surrounds a home is
//! granted piece by piece: all entries of `/`, of `/home` and of `/home/u`, except the way to the
//! home. Directly in those directories a command can create, rename and delete nothing, while
//! everything in the directories beside the home works: `~/project/new` is fine, `~/new` is refused
//! ("Permission denied"), and so are programs that replace a file in `~` itself through a temporary
//! one (`git config --global`). What another program creates there counts from the next command on.
//! A user who works in their home directory keeps the agent's home elsewhere (`HERMES_HOME=/srv/agent`),
//! where nothing is lost, or switches this off. [`Landlock::note`] says so where it applies, and
//! [`Confine::hint`] is the sentence for a result in which permission was denied.
//!
//! `sudo`, and any other program that gains rights by being started, cannot work: that is a condition
//! of confinement without privileges.
//!
//! In time: building the rules takes a millisecond or two (an open and a system call for each entry
//! of these directories), and about 20 µs while they have not changed; the thread takes 50 µs more.
//!
//! # What it does not keep
//!
//! It binds a command and its children, not what they can ask others to do: a service manager,
//! Docker, cron, a terminal multiplexer that is already running, `ssh localhost`. Nor does it bind
//! what a command plants for later in the user's own files. Such commands are the business of
//! [`crate::approval`]. The user's own secrets (`~/.ssh`, `~/.aws`) stay readable, as with Hermes:
//! agents push with these keys. Signals are not restricted, because a command may want to end what
//! an earlier one began. A second name (hard link) that a file had before is not known here.

#[cfg(target_os = "linux")]
mod grant_plan;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod policy;

#[cfg(target_os = "linux")]
pub use landlock::{Availability, Landlock};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;

/// Starts processes, and says what they may touch.
pub trait Confine: Send + Sync {
    fn spawn(&self, command: Command) -> io::Result<Child>;
    /// What to add to a result in which permission was denied.
    fn hint(&self) -> Option<&str> {
        None
    }
}

/// Everything the user may.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unconfined;

impl Confine for Unconfined {
    fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.spawn()
    }
}

#[derive(Clone, Debug)]
pub struct SandboxSettings {
    pub enabled: bool,
    /// The home of the agent whose commands these are.
    pub home: PathBuf,
    /// Other agents' homes. Profiles that lie in one of these homes, or beside this one, are found.
    pub others: Vec<PathBuf>,
    /// Where commands begin. Inside a home it may be written all the same; a directory that holds a
    /// home is not granted for that.
    pub workspace: Option<PathBuf>,
    /// Names in the homes that their owner opened (`throughline.open_in_home`).
    pub opened: Vec<String>,
}

#[cfg(not(target_os = "linux"))]
const NOT_HERE: &str = "Only Linux can confine commands (Landlock): what the agent runs in the terminal can read its \
    .env and change its config.yaml. Set terminal.backend: docker to keep them apart.";

/// How commands are started under these settings, and what the user should know of it. Without
/// confinement where it is switched off or cannot be had: a caller that insists asks [`Landlock::new`].
pub fn confine(settings: &SandboxSettings) -> (Arc<dyn Confine>, Option<String>) {
    if !settings.enabled {
        return (Arc::new(Unconfined), None);
    }
    #[cfg(target_os = "linux")]
    let confined = Landlock::new(settings).map(|landlock| (landlock.note(settings), landlock));
    #[cfg(not(target_os = "linux"))]
    let confined: Result<(_, Unconfined), _> = Err(NOT_HERE.to_owned());
    match confined {
        Ok((note, confined)) => (Arc::new(confined), note),
        Err(why) => (Arc::new(Unconfined), Some(why)),
    }
}
