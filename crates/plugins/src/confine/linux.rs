//! Kept by Landlock.
//!
//! Linux's Landlock binds the thread that asks for it and whatever it starts, for good: so a plugin is
//! started by a thread of its own, which ends with that. It may write in its own directory, in those the
//! user has named, and to devices that keep nothing; it may read and run what the user may.
//!
//! Deliberately absent: reading, and the network. A plugin runs as the user; whoever must not read his
//! files is to be run as somebody else.

use landlock::{
    ABI, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus,
};
use process_wrap::tokio::{ChildWrapper, CommandWrap};
use std::io;
use std::path::{Path, PathBuf};

/// The oldest that can keep a file from being emptied. Before it, this is done as far as it goes.
const WANTED: ABI = ABI::V3;

/// What is written to these is nowhere afterwards.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

/// Whether this kernel confines anything at all.
pub fn is_available() -> bool {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(ABI::V1));
    ruleset.and_then(Ruleset::create).is_ok()
}

/// Starts it so that it can write only below `writable`. Must be called where a runtime is.
pub fn spawn(mut command: CommandWrap, writable: Vec<PathBuf>) -> io::Result<Box<dyn ChildWrapper>> {
    let runtime = tokio::runtime::Handle::current();
    let confined = std::thread::Builder::new().name("plugin-start".to_owned()).spawn(move || {
        let _entered = runtime.enter();
        restrict(&writable)?;
        command.spawn()
    })?;
    confined.join().unwrap_or_else(|_| Err(io::Error::other("the process could not be started")))
}

fn restrict(writable: &[PathBuf]) -> io::Result<()> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(WANTED))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let places = writable.iter().map(PathBuf::as_path).chain(DEVICES.iter().map(Path::new));
    for place in places {
        let Ok(opened) = PathFd::new(place) else { continue }; // what is not there needs no grant
        let access = match place.is_dir() {
            true => AccessFs::from_write(WANTED),
            false => AccessFs::from_write(WANTED) & AccessFs::from_file(WANTED),
        };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, access)).map_err(io::Error::other)?;
    }
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(io::Error::other("the kernel did not confine the process")),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}
