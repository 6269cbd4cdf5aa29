//! `throughline adopt`: an agent moves over from Hermes, or back.

use crate::adopt::record::{Record, Step};
use crate::adopt::survey::{Damage, Survey};
use crate::adopt::{self, Move};
use crate::archive::survey::Profiles;
use crate::cmd::backup;
use crate::config::Environment;
use crate::doctor;
use crate::home::{self, ChosenBy, Home};
use crate::interrupt;
use crate::out::{Page, write_json};
use anyhow::{Context, bail};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use throughline_core::Time;
use throughline_store::doctor::FindingKind;

/// Move an agent over from Hermes: look, back up, stop Hermes, start here; or back again
#[derive(Debug, clap::Args)]
pub struct Adopt {
    /// Where Hermes lives: $HERMES_HOME or ~/.hermes if not given
    #[arg(value_name = "DIRECTORY")]
    root: Option<PathBuf>,
    /// Only look, beside a running Hermes, and say what would happen
    #[arg(long)]
    dry_run: bool,
    /// Only this profile, in a process of its own; `default` is the root itself
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Give the agent back to Hermes, with what was said meanwhile
    #[arg(long, conflicts_with = "dry_run")]
    undo: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// What was found as JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
}

/// Where a home keeps what it can go back to.
const BACKUPS: &str = "backups";
/// Something is in the way.
const WITH_OBSTACLES: u8 = 2;

impl Adopt {
    pub fn run(
        self,
        environment: &Environment,
        now: Time,
        page: &Page,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let variable = |name: &str| environment.get(name);
        let root = self.root(&variable)?;
        let agents = self.agents(&root)?;
        let (home, together) = (agents[0].1.clone(), agents.len() > 1);
        if self.undo {
            return self.give_back(&root, &home, &variable, out);
        }
        if let Some(record) = Record::of(&home)?.filter(|record| record.step == Step::Done) {
            bail!(
                "{} was moved here on {}; `{}` gives it back to Hermes",
                home.path().display(),
                record.began,
                adopt::undo_command(&home)
            );
        }
        interrupt::explain("Nothing was changed.");
        let homes: Vec<Home> = agents.iter().map(|(_, home)| home.clone()).collect();
        let everybody: Vec<Home> = home::profiles(&root)?.into_iter().map(|(_, home)| home).collect();
        adopt::refuse_overlap(&home, &homes, &everybody)?;
        let damage = |home: &Home| damage(home, now);
        let surveys: Vec<Survey> = agents
            .iter()
            .map(|(name, home)| Survey::of(name, home, environment, &damage, page))
            .collect::<anyhow::Result<_>>()?;
        if self.json {
            write_json(&surveys.iter().map(Survey::to_json).collect(), out)?;
        } else {
            for survey in &surveys {
                survey.write(page, out)?;
                writeln!(out)?;
            }
        }
        let is_free = surveys.iter().all(|survey| survey.obstacles().next().is_none());
        if self.dry_run {
            return Ok(if is_free { ExitCode::SUCCESS } else { ExitCode::from(WITH_OBSTACLES) });
        }
        if !is_free {
            bail!("nothing was changed: put right what is in the way, and run this again");
        }
        self.consent(together, out)?;
        let back_up = |home: &Home| back_up(home, now);
        let totals = &messages;
        let moving = Move { home: &home, homes, together, variable: &variable, back_up: &back_up, totals };
        moving.go(&surveys, page.minute(now), out)?;
        writeln!(
            out,
            "moved. `throughline --home {} status` shows how it does; `{}` gives it back",
            home.path().display(),
            adopt::undo_command(&home)
        )?;
        Ok(ExitCode::SUCCESS)
    }

    fn root(&self, variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Home> {
        if let Some(root) = &self.root {
            return Ok(Home::new(root, ChosenBy::CommandLine));
        }
        if let Some(root) = variable("HERMES_HOME").filter(|root| !root.trim().is_empty()) {
            return Ok(Home::new(Path::new(root.trim()), ChosenBy::Variable("HERMES_HOME")));
        }
        let usual =
            home::hermes_directory(variable).context("cannot tell where Hermes lives; give its directory")?;
        Ok(Home::new(&usual, ChosenBy::Default))
    }

    /// Who moves: all profiles of a root, or the one that is named.
    fn agents(&self, root: &Home) -> anyhow::Result<Vec<(String, Home)>> {
        if !root.path().is_dir() {
            bail!("{} is no directory; give the one that Hermes lives in", root.path().display());
        }
        let mut all = home::profiles(root)?;
        let Some(wanted) = &self.profile else {
            // A profile that is given by its own directory moves alone.
            match all.iter().position(|(_, home)| home == root) {
                Some(0) | None => return Ok(all),
                Some(nth) => return Ok(vec![all.swap_remove(nth)]),
            }
        };
        match all.iter().position(|(name, _)| name == wanted) {
            Some(nth) => Ok(vec![all.swap_remove(nth)]),
            None => {
                let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
                bail!("{} has no profile {wanted}; it has {}", root.path().display(), names.join(", "))
            }
        }
    }

    fn give_back(
        &self,
        root: &Home,
        home: &Home,
        variable: &dyn Fn(&str) -> Option<String>,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let together = Record::of(root)?.filter(|record| record.homes.len() > 1);
        if let (Some(name), Some(record)) = (&self.profile, together)
            && record.homes.iter().any(|path| path == home.path())
        {
            bail!(
                "{name} moved together with {} others, in one process; leave out --profile to give all of them back",
                record.homes.len() - 1
            );
        }
        self.consent(false, out)?;
        adopt::undo(home, variable, &messages, out)?;
        Ok(ExitCode::SUCCESS)
    }

    fn consent(&self, together: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            bail!("nothing was changed: nobody can be asked here; say --yes, or --dry-run to look only");
        }
        let question = match (self.undo, together) {
            (true, _) => "Stop the gateway here and give the agent back to Hermes?",
            (false, true) => "Back all of them up, stop Hermes and start them here, in one process?",
            (false, false) => "Back it up, stop Hermes and start it here?",
        };
        write!(out, "{question} [y/N] ")?;
        out.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => bail!("nothing was changed"),
        }
    }
}

fn messages(path: &Path) -> anyhow::Result<u64> {
    let totals = throughline_store::Home::at(path).totals();
    let totals = totals.with_context(|| format!("could not look into {}", path.display()))?;
    Ok(totals.map_or(0, |totals| totals.messages))
}

/// What `throughline doctor` would say, counted by kind.
fn damage(home: &Home, now: Time) -> anyhow::Result<Damage> {
    if !home.path().join("state.db").exists() {
        return Ok(Damage::default());
    }
    let found = doctor::examine(home, home.owner().is_some(), now)?;
    let mut kinds: Vec<FindingKind> = found.iter().map(|finding| finding.kind).collect();
    kinds.dedup();
    let count = |kind: FindingKind| found.iter().filter(|finding| finding.kind == kind).count();
    let lines = kinds.into_iter().map(|kind| format!("{}: {} ({kind})", count(kind), kind.says()));
    let mut lines: Vec<String> = lines.collect();
    if !lines.is_empty() {
        lines.push(format!(
            "`throughline doctor --home {}` says more, and can repair it",
            home.path().display()
        ));
    }
    let in_the_way = found.iter().filter(|finding| finding.kind == FindingKind::Integrity);
    let in_the_way = in_the_way.map(|finding| {
        let database = home.path().join("state.db");
        let first = finding.evidence.first().map_or("", String::as_str);
        format!("{} is damaged ({first}): put it back from a backup first", database.display())
    });
    Ok(Damage { in_the_way: in_the_way.collect(), lines })
}

/// In the home's own `backups`, which no backup takes along.
fn back_up(home: &Home, now: Time) -> anyhow::Result<PathBuf> {
    let directory = home.path().join(BACKUPS);
    let doing = || format!("could not make {}", directory.display());
    home::private_directory().create(&directory).with_context(doing)?;
    let to = directory.join(format!("adopt-{}.tar.gz", now.compact()));
    let order = backup::Order { home, profiles: Profiles::Left, to, passphrase: None, replaces: true };
    backup::make(&order).map(|kept| kept.path)
}
