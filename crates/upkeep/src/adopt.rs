//! The move of agents from Hermes to us, and back.
//!
//! - looking changes nothing, and stops nothing
//! - the steps of a move are written down before they are taken ([`record`]): what a crash leaves is gone on with by
//!   the next `adopt`, and `--undo` goes back from anywhere
//! - nothing is changed before a backup is there that was read back
//! - Hermes' files stay where they are, and so do its units, which are only switched off
//! - going back takes no message away: what was said meanwhile lies where Hermes reads
//!
//! Deliberately absent: repairs. What is damaged is named; `throughline doctor` mends it.

pub mod record;
pub mod survey;
pub mod unit;

use crate::progress::Progress;
use anyhow::{Context, bail};
use record::{GatewayKeeper, MoveRecord, MoveStep};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use survey::Survey;
use throughline_hermes::profile;
use throughline_home::home::{Home, Occupied};
use throughline_home::text::one_line;
use unit::HermesUnit;

/// Hermes lets running turns finish, and so do we.
const QUIET_PATIENCE: Duration = Duration::from_secs(150);
/// From the start of a process to its first answer, with many agents on a slow disk.
const START_PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

/// What moves, and how it is done.
pub struct Move<'a> {
    /// The home whose record it is: the root if all of its profiles move together, else the one that moves.
    pub home: &'a Home,
    pub homes: Vec<Home>,
    /// Several in one process.
    pub together: bool,
    pub actions: &'a dyn MoveActions,
}

/// What a move has done by the commands that do it otherwise, too.
pub trait MoveActions {
    /// Makes a backup that was read back, and says where.
    fn back_up(&self, home: &Home) -> anyhow::Result<PathBuf>;
    /// How many messages there are in a home.
    fn messages(&self, home: &Path) -> anyhow::Result<u64>;
    /// Writes a unit of ours, enables it and starts it.
    fn install(
        &self,
        unit: OurUnit<'_>,
        home: &Home,
        together: bool,
        out: &mut dyn Write,
    ) -> anyhow::Result<()>;
    fn uninstall(&self, unit: OurUnit<'_>, home: &Home, out: &mut dyn Write) -> anyhow::Result<()>;
    /// Asks the gateway of a home, and looks its newest conversation up. None: it does not answer yet.
    fn ask(&self, home: &Home) -> anyhow::Result<Option<FirstAnswer>>;
    /// From now on this is what Ctrl-C says before the program ends.
    fn explain(&self, how_to_go_on: String);
}

/// A unit of systemd that keeps our gateway.
#[derive(Clone, Copy, Debug)]
pub struct OurUnit<'a> {
    pub name: &'a str,
    /// Of the machine, rather than of a user.
    pub system: bool,
}

/// What a gateway that has just started says.
#[derive(Clone, Debug)]
pub struct FirstAnswer {
    pub agent: String,
    /// None: no conversation was begun yet.
    pub newest_conversation: Option<String>,
}

impl Move<'_> {
    /// From where it stands to the end. What was done already is not done again.
    pub fn go(&self, surveys: &[Survey], now: String, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut record = match MoveRecord::of(self.home)? {
            Some(record)
                if !record.homes.iter().map(PathBuf::as_path).eq(self.homes.iter().map(Home::path)) =>
            {
                bail!(
                    "a move of {} was begun on {} and is not over; give the same profiles again to go on with it, or --undo to take it back",
                    listed(&record.homes),
                    record.began
                )
            }
            Some(record) => {
                writeln!(out, "going on with the move that was begun on {}", record.began)?;
                record
            }
            None => self.plan(surveys, now),
        };
        self.actions.explain(format!(
            "The move is begun and not over. The same command again goes on with it, `{}` takes it back.",
            undo_command(self.home)
        ));
        record.keep(self.home)?;
        if record.step == MoveStep::BackingUp {
            for home in &self.homes {
                let backup = self.actions.back_up(home)?;
                writeln!(out, "backed up {} to {}", home.path().display(), backup.display())?;
                record.backups.push(backup);
            }
            record.step = MoveStep::Silencing;
            record.keep(self.home)?;
        }
        if record.step == MoveStep::Silencing {
            self.silence(&mut record, out)?;
            record.step = MoveStep::Starting;
            record.keep(self.home)?;
        }
        if record.step == MoveStep::Starting {
            if let Err(error) = self.start(&record, out).and_then(|started| self.prove(started, out)) {
                writeln!(out, "it does not run here, so it goes back to Hermes")?;
                undo(self.home, self.actions, out).with_context(|| {
                    format!(
                        "it does not run here ({error:#}), and could not be given back; `{}` tries that again",
                        undo_command(self.home)
                    )
                })?;
                return Err(error.context("it was given back to Hermes"));
            }
            record.step = MoveStep::Done;
            record.keep(self.home)?;
        }
        Ok(())
    }

    fn plan(&self, surveys: &[Survey], now: String) -> MoveRecord {
        let units: Vec<HermesUnit> = surveys.iter().flat_map(|survey| survey.units.clone()).collect();
        // A user who has Hermes kept by systemd wants us kept by it, too.
        let keeper = match units.iter().find(|unit| unit.is_enabled || unit.is_active) {
            Some(unit) => GatewayKeeper::Unit { name: self.unit_name(), system: unit.system },
            None => GatewayKeeper::None,
        };
        let messages =
            surveys.iter().filter_map(|survey| survey.totals.as_ref()).map(|totals| totals.messages).sum();
        MoveRecord {
            step: MoveStep::BackingUp,
            began: now,
            homes: self.homes.iter().map(|home| home.path().to_owned()).collect(),
            units,
            by_hand: Vec::new(),
            backups: Vec::new(),
            keeper,
            messages,
        }
    }

    fn unit_name(&self) -> String {
        let is_profile = self.home.path().parent().is_some_and(|above| above.ends_with(profile::DIRECTORY));
        match is_profile && !self.together {
            true => format!("throughline-{}", self.home.name()),
            false => "throughline".to_owned(),
        }
    }

    /// Hermes stops, and does not come back by itself.
    fn silence(&self, record: &mut MoveRecord, out: &mut dyn Write) -> anyhow::Result<()> {
        for unit in &record.units {
            unit.switch_off()?;
            writeln!(out, "stopped and disabled {}", unit.name)?;
        }
        for home in &self.homes {
            if let Some(Occupied { owner: Some(owner), .. }) = home.owner().filter(is_hermes) {
                if !record.by_hand.iter().any(|path| path == home.path()) {
                    record.by_hand.push(home.path().to_owned());
                    record.keep(self.home)?;
                }
                terminate(owner.pid)?;
                writeln!(out, "asked Hermes in {} (pid {}) to stop", home.path().display(), owner.pid)?;
            }
            out.flush()?;
            wait_until_free(home, is_hermes)?;
        }
        Ok(())
    }

    /// The process, if no unit keeps it.
    fn start(&self, record: &MoveRecord, out: &mut dyn Write) -> anyhow::Result<Option<Child>> {
        if self.homes.iter().all(|home| home.owner().as_ref().is_some_and(is_ours)) {
            return Ok(None); // by an earlier attempt
        }
        match &record.keeper {
            GatewayKeeper::Unit { name, system } => {
                let unit = OurUnit { name, system: *system };
                self.actions.install(unit, self.home, self.together, out)?;
                Ok(None)
            }
            GatewayKeeper::None => {
                let program = std::env::current_exe().context("could not tell where this program is")?;
                let mut command = Command::new(&program);
                command.arg("--home").arg(self.home.path()).args(self.together.then_some("--all-profiles"));
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                #[cfg(unix)]
                std::os::unix::process::CommandExt::process_group(&mut command, 0); // Ctrl-C is for us, not for it
                let child = command.spawn();
                let child = child.with_context(|| format!("could not start {}", program.display()))?;
                writeln!(
                    out,
                    "started; no systemd keeps it, so after a boot start it with `throughline --home {}`",
                    self.home.path().display()
                )?;
                Ok(Some(child))
            }
        }
    }

    /// Each agent answers, without a model and without being changed: a conversation of its own is looked up.
    fn prove(&self, mut started: Option<Child>, out: &mut dyn Write) -> anyhow::Result<()> {
        for home in &self.homes {
            out.flush()?;
            let said = round_trip(home, self.actions, &mut started)?;
            writeln!(out, "{} answers: {said}", home.name())?;
        }
        Ok(())
    }
}

/// Gives the agents back to Hermes, from wherever the move stands.
pub fn undo(home: &Home, actions: &dyn MoveActions, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(record) = MoveRecord::of(home)? else {
        bail!(
            "{} was not moved here by `throughline adopt`, or was given back already",
            home.path().display()
        );
    };
    actions.explain(format!("It is not given back yet. `{}` again goes on with it.", undo_command(home)));
    let homes: Vec<Home> = record.homes.iter().map(|path| Home::new(path, home.chosen_by)).collect();
    if record.step >= MoveStep::Starting {
        if let GatewayKeeper::Unit { name, system } = &record.keeper {
            actions.uninstall(OurUnit { name, system: *system }, home, out)?;
        }
        for home in &homes {
            if let Some(Occupied { owner: Some(owner), .. }) = home.owner().filter(is_ours) {
                terminate(owner.pid)?;
                writeln!(out, "asked the gateway in {} (pid {}) to stop", home.path().display(), owner.pid)?;
            }
            out.flush()?;
            wait_until_free(home, is_ours)?;
        }
    }
    // Hermes gets its units back even if the count fails: a home that cannot be read is no reason to keep it.
    let counted: anyhow::Result<Vec<u64>> = homes.iter().map(|home| actions.messages(home.path())).collect();
    for unit in &record.units {
        unit.put_back()?;
        writeln!(out, "{} is as it was", unit.name)?;
    }
    for path in &record.by_hand {
        let path = path.display();
        writeln!(
            out,
            "Hermes ran without a unit in {path}; start it with `HERMES_HOME={path} hermes gateway run`"
        )?;
    }
    MoveRecord::forget(home)?;
    match counted.map(|counts| counts.iter().sum::<u64>().saturating_sub(record.messages)) {
        Err(error) => writeln!(out, "what was said meanwhile could not be counted: {error:#}")?,
        Ok(0) => writeln!(out, "nothing was said meanwhile")?,
        Ok(said) => {
            writeln!(out, "{said} messages were added meanwhile; Hermes finds them in its own tables")?
        }
    }
    for backup in &record.backups {
        writeln!(out, "the backup of before stays in {}", backup.display())?;
    }
    Ok(())
}

fn listed(homes: &[PathBuf]) -> String {
    let shown: Vec<String> = homes.iter().map(|home| home.display().to_string()).collect();
    shown.join(", ")
}

fn is_ours(occupied: &Occupied) -> bool {
    occupied.owner.as_ref().is_some_and(|owner| owner.throughline.is_some())
}

fn is_hermes(occupied: &Occupied) -> bool {
    !is_ours(occupied)
}

fn wait_until_free(home: &Home, by: fn(&Occupied) -> bool) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut progress = Progress::seconds("waiting until running turns are finished");
    while let Some(occupied) = home.owner().filter(by) {
        if began.elapsed() > QUIET_PATIENCE {
            bail!(
                "{occupied}\nIt did not stop within {} s; run this again when it has",
                QUIET_PATIENCE.as_secs()
            );
        }
        progress.stands_at(began.elapsed().as_secs(), QUIET_PATIENCE.as_secs());
        sleep(PAUSE);
    }
    Ok(())
}

fn round_trip(home: &Home, actions: &dyn MoveActions, started: &mut Option<Child>) -> anyhow::Result<String> {
    let began = Instant::now();
    let mut progress = Progress::seconds("waiting for its first answer");
    let answer = loop {
        if let Some(answer) = actions.ask(home)? {
            break answer;
        }
        if let Some(child) = started
            && let Some(status) = child.try_wait()?
        {
            bail!(
                "the gateway in {} ended at once ({status}); its logs/errors.log says why",
                home.path().display()
            );
        }
        progress.stands_at(began.elapsed().as_secs(), START_PATIENCE.as_secs());
        if began.elapsed() > START_PATIENCE {
            bail!(
                "the gateway in {} did not answer within {} s; its logs/errors.log says why",
                home.path().display(),
                START_PATIENCE.as_secs()
            );
        }
        sleep(PAUSE);
    };
    Ok(match answer.newest_conversation {
        Some(known) => format!("its newest conversation is {}", one_line(&known)),
        None => format!("{} is there; no conversation was begun yet", answer.agent),
    })
}

/// How this move is taken back. The home's own directory says which profile it is.
pub fn undo_command(home: &Home) -> String {
    let path = home.path().display().to_string();
    match path.contains(|letter: char| letter.is_whitespace() || letter == '\'') {
        true => format!("throughline adopt --undo {path:?}"),
        false => format!("throughline adopt --undo {path}"),
    }
}

/// Moves that were begun from elsewhere and have one of these homes: of the root with all its profiles, or of one of them.
pub fn refuse_overlap(home: &Home, homes: &[Home], everybody: &[Home]) -> anyhow::Result<()> {
    for other in everybody.iter().filter(|other| *other != home) {
        let Some(record) = MoveRecord::of(other)? else { continue };
        if let Some(shared) = homes.iter().find(|mine| record.homes.iter().any(|path| path == mine.path())) {
            bail!(
                "{} was moved on {} by a move that is kept in {}: nothing was changed. `{}` takes that one back",
                shared.path().display(),
                record.began,
                other.path().display(),
                undo_command(other)
            );
        }
    }
    Ok(())
}

#[cfg(unix)]
fn terminate(pid: u32) -> anyhow::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let known = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let known = known.with_context(|| format!("{pid} is no process"))?;
    match kill_process(known, Signal::TERM) {
        Err(error) if error != rustix::io::Errno::SRCH => {
            Err(error).with_context(|| format!("could not ask the process {pid} to stop"))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn terminate(pid: u32) -> anyhow::Result<()> {
    bail!("stop the process {pid} and run this again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_home::home::ChosenBy;

    #[test]
    fn a_home_is_in_one_move_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Home::new(&path, ChosenBy::CommandLine)
        };
        let everybody = [at("root"), at("root/profiles/coder"), at("root/profiles/work")];
        let [root, coder, work] = &everybody;
        let record = MoveRecord {
            step: MoveStep::Done,
            began: "2026-05-28".into(),
            homes: vec![coder.path().to_owned()],
            units: Vec::new(),
            by_hand: Vec::new(),
            backups: Vec::new(),
            keeper: GatewayKeeper::None,
            messages: 0,
        };
        record.keep(coder).unwrap();
        let refused = refuse_overlap(root, &everybody, &everybody).unwrap_err().to_string();
        assert!(refused.contains(&undo_command(coder)), "{refused}");
        refuse_overlap(work, std::slice::from_ref(work), &everybody).unwrap();
        refuse_overlap(coder, std::slice::from_ref(coder), &everybody).unwrap();
    }
}
