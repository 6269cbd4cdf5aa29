//! Kept by Landlock.
//!
//! Linux's Landlock binds the thread that asks for it and all that it starts, for good: so a plugin is
//! started by a thread of its own, which ends with that. It may write in its own directory, in those the
//! user has named, and to devices that keep nothing; it may read and run what the user may, but for the
//! homes of other agents, of which it can open no file.
//!
//! Landlock only grants, and a grant holds for all that lies beneath. So what surrounds those homes is granted
//! entry by entry, as it is when the process starts: files that are put later directly into a directory
//! above such a home (`/`, `/home`, `/home/u`) stay closed to it until its next start, and it can create
//! nothing directly there.
//!
//! Deliberately absent: names, which can be listed everywhere; the rest of the user's files, and the network. A
//! plugin runs as the user; to keep it from the user's files, run it as another user.

use super::Bounds;
use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus,
};
use process_wrap::tokio::{ChildWrapper, CommandWrap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The oldest that can keep a file from being emptied. Before it, this is done as far as it goes.
const WANTED: ABI = ABI::V3;

/// What is written to these is nowhere afterwards.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

/// Entries beside other homes that are granted at most, at about 10 µs each. What is beyond stays closed.
const ENTRIES_MAX: usize = 50_000;

/// Whether this kernel confines anything at all.
pub fn is_available() -> bool {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(ABI::V1));
    ruleset.and_then(Ruleset::create).is_ok()
}

/// Starts it within these bounds. Must be called where a runtime is.
pub fn spawn(mut command: CommandWrap, bounds: Bounds) -> io::Result<Box<dyn ChildWrapper>> {
    let runtime = tokio::runtime::Handle::current();
    let confined = std::thread::Builder::new().name("plugin-start".to_owned()).spawn(move || {
        let _entered = runtime.enter();
        restrict(&bounds)?;
        command.spawn()
    })?;
    confined.join().unwrap_or_else(|_| Err(io::Error::other("the process could not be started")))
}

fn restrict(bounds: &Bounds) -> io::Result<()> {
    let writes = AccessFs::from_write(WANTED);
    let reads: BitFlags<AccessFs> = AccessFs::ReadFile.into();
    let handled = if bounds.closed.is_empty() { writes } else { writes | reads };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let written = bounds.writable.iter().flatten().map(PathBuf::as_path);
    for place in written.chain(DEVICES.iter().map(Path::new)) {
        ruleset = granting(ruleset, place, handled)?;
    }
    if !bounds.closed.is_empty() {
        let open = if bounds.writable.is_some() { reads } else { handled };
        for place in beside(&bounds.closed).iter().chain(&bounds.kept) {
            ruleset = granting(ruleset, place, open)?;
        }
    }
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(io::Error::other("the kernel did not confine the process")),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

fn granting(ruleset: RulesetCreated, place: &Path, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let Ok(opened) = PathFd::new(place) else { return Ok(ruleset) }; // what is not there needs no grant
    let access = if place.is_dir() { access } else { access & AccessFs::from_file(WANTED) };
    ruleset.add_rule(PathBeneath::new(opened, access)).map_err(io::Error::other)
}

/// Everything but what is closed: the entries beside the ways there. A link is none of them, because a grant would
/// hold for what it leads to; that is granted where it lies.
fn beside(closed: &[PathBuf]) -> Vec<PathBuf> {
    let mut open = Vec::new();
    let mut ways = vec![PathBuf::from("/")];
    while let Some(way) = ways.pop() {
        for entry in fs::read_dir(&way).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link || closed.contains(&path) {
                continue;
            }
            match closed.iter().any(|home| home.starts_with(&path)) {
                true => ways.push(path),
                false if open.len() < ENTRIES_MAX => open.push(path),
                false => return open,
            }
        }
    }
    open
}
