//! Commands that the kernel confines: Linux's Landlock.

#[cfg(test)]
mod tests;

use super::grant_plan::{GrantPlan, PathGrant};
use super::policy::SandboxRights;
use super::{Confine, SandboxSettings};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus,
};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Whether this kernel can confine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    Here,
    /// Why not, for the user.
    Absent(String),
}

/// The oldest version that can keep a file from being emptied (Linux 6.2). Before it, a command that
/// may not write `config.yaml` could still cut it to nothing.
const OLDEST: ABI = ABI::V3;
/// The newest one this was tried with. Older kernels do without its additions.
const NEWEST: ABI = ABI::V7;

/// A listing is trusted until its directory changes. Within this time of a change the clock of the
/// file system could not tell the next one apart.
const CLOCK_GRAIN: Duration = Duration::from_millis(100);

/// Confined by the kernel.
pub struct Landlock {
    plan: GrantPlan,
    hint: String,
    built: Mutex<Option<Built>>,
}

/// A ruleset, and the directories whose entries it rests on.
struct Built {
    ruleset: RulesetCreated,
    at: SystemTime,
    listed: Vec<(PathBuf, DirectoryStamp)>,
}

type DirectoryStamp = (u64, i64, i64);

impl Landlock {
    pub fn availability() -> Availability {
        match handled() {
            Ok(_) => Availability::Here,
            Err(_) => Availability::Absent(
                "This kernel cannot confine commands (Landlock of Linux 6.2 or later is not there or not \
                 switched on): what the agent runs in the terminal can read its .env and change its \
                 config.yaml. Use a newer kernel, add landlock to the lsm= boot parameter, or set \
                 terminal.backend: docker."
                    .to_owned(),
            ),
        }
    }

    /// Err says why commands cannot be confined here; the caller decides what follows.
    pub fn new(settings: &SandboxSettings) -> Result<Self, String> {
        if let Availability::Absent(why) = Self::availability() {
            return Err(why);
        }
        let plan = GrantPlan::new(settings);
        let hint = hint(&plan);
        Ok(Self { plan, hint, built: Mutex::default() })
    }

    /// What a user should know of this arrangement, if anything.
    pub fn note(&self, settings: &SandboxSettings) -> Option<String> {
        let workspace = settings.workspace.as_ref()?;
        let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.clone());
        self.plan.passages().contains(&workspace).then(|| {
            format!(
                "The agent's home lies in its working directory {}: commands cannot create, rename or delete \
                 files directly there, only in directories below. Set terminal.cwd to one of those, or move the \
                 home (HERMES_HOME) elsewhere.",
                workspace.display()
            )
        })
    }

    fn ruleset(&self) -> io::Result<RulesetCreated> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fresh) = built.as_ref().filter(|built| built.is_fresh()) {
            return fresh.ruleset.try_clone();
        }
        let fresh = self.build()?;
        let ruleset = fresh.ruleset.try_clone();
        *built = Some(fresh);
        ruleset
    }

    fn build(&self) -> io::Result<Built> {
        let at = SystemTime::now();
        let survey = self.plan.survey();
        let listed = survey.listed.into_iter().filter_map(|path| Some((stamp(&path)?, path)));
        let listed = listed.map(|(stamp, path)| (path, stamp)).collect();
        let mut ruleset = handled().map_err(io::Error::other)?;
        for grant in &survey.grants {
            ruleset = granting(ruleset, grant)?;
        }
        Ok(Built { ruleset, at, listed })
    }
}

impl Confine for Landlock {
    /// The restriction binds the thread that asks for it and what it starts, for good: so it is a
    /// thread of its own, which ends with this.
    fn spawn(&self, mut command: Command) -> io::Result<Child> {
        let ruleset = self.ruleset()?;
        let confined = std::thread::Builder::new().name("confined".to_owned()).spawn(move || {
            let status = ruleset.restrict_self().map_err(io::Error::other)?;
            if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
                return Err(io::Error::other("the kernel did not confine the command; it was not started"));
            }
            command.spawn()
        })?;
        confined.join().unwrap_or_else(|_| Err(io::Error::other("the command could not be started")))
    }

    fn hint(&self) -> Option<&str> {
        Some(&self.hint)
    }
}

impl Built {
    fn is_fresh(&self) -> bool {
        self.listed.iter().all(|(path, then)| stamp(path).as_ref() == Some(then) && self.is_settled(then))
    }

    fn is_settled(&self, (_, seconds, nanoseconds): &DirectoryStamp) -> bool {
        let changed = Duration::new((*seconds).max(0) as u64, (*nanoseconds).max(0) as u32);
        let built = self.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        built.saturating_sub(changed) > CLOCK_GRAIN
    }
}

fn stamp(path: &Path) -> Option<DirectoryStamp> {
    let metadata = path.symlink_metadata().ok()?;
    Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
}

fn handled() -> Result<RulesetCreated, landlock::RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(OLDEST))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .create()
}

/// What has gone in the meantime needs no grant.
fn granting(ruleset: RulesetCreated, grant: &PathGrant) -> io::Result<RulesetCreated> {
    let Ok(place) = opened(&grant.path) else { return Ok(ruleset) };
    let Ok(metadata) = place.metadata() else { return Ok(ruleset) };
    let mut access: BitFlags<AccessFs> = match grant.rights {
        SandboxRights::All => AccessFs::from_all(NEWEST),
        SandboxRights::Read => AccessFs::from_read(NEWEST),
        SandboxRights::List => AccessFs::ReadDir.into(),
        SandboxRights::Nothing => return Ok(ruleset),
    };
    if !metadata.is_dir() {
        access &= AccessFs::from_file(NEWEST);
    }
    ruleset.add_rule(PathBeneath::new(place, access)).map_err(io::Error::other)
}

/// The thing itself, not what a link leads to: otherwise a link to the home, put somewhere,
/// would have the home granted.
fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC).open(path)
}

fn hint(plan: &GrantPlan) -> String {
    let places: Vec<String> = plan.passages().iter().map(|path| path.display().to_string()).collect();
    format!(
        "Commands are confined (Landlock): the agents' secrets cannot be read, their configuration and stores \
         cannot be changed, and nothing can be created, renamed or deleted directly in {} (directories below \
         are fine). sudo does not work.",
        places.join(", ")
    )
}
