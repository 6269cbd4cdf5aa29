//! `throughline adopt`: an agent moves over from Hermes, or back.

use crate::client::{Client, Page as Slice};
use crate::cmd::backup;
use crate::cmd::service::{Service, Unit};
use crate::interrupt;
use crate::out::{Page, Tint, write_json};
use crate::wire;
use anyhow::{Context, bail};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use throughline_app::equip::plugins;
use throughline_core::Time;
use throughline_home::config::{Environment, Settings};
use throughline_home::home::{self, ChosenBy, Home};
use throughline_store::doctor::FindingKind;
use throughline_upkeep::adopt::record::{MoveRecord, MoveStep};
use throughline_upkeep::adopt::survey::{Damage, PluginLookup, Survey, Surveyor};
use throughline_upkeep::adopt::{self, FirstAnswer, Move, MoveActions, OurUnit};
use throughline_upkeep::archive::survey::Profiles;
use throughline_upkeep::doctor;

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
            return self.give_back(&root, &home, &Actions::new(&variable, now)?, out);
        }
        if let Some(record) = MoveRecord::of(&home)?.filter(|record| record.step == MoveStep::Done) {
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
        let (damage, minute) = (|home: &Home| damage(home, now), |time: Time| page.minute(time));
        let surveyor = Surveyor { environment, damage: &damage, plugins: &InstalledPlugins, minute: &minute };
        let surveys: Vec<Survey> = agents
            .iter()
            .map(|(name, home)| Survey::of(name, home, &surveyor))
            .collect::<anyhow::Result<_>>()?;
        if self.json {
            write_json(&surveys.iter().map(Survey::to_json).collect(), out)?;
        } else {
            for survey in &surveys {
                write(survey, page, out)?;
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
        let actions = Actions::new(&variable, now)?;
        let moving = Move { home: &home, homes, together, actions: &actions };
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
        actions: &Actions<'_>,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let together = MoveRecord::of(root)?.filter(|record| record.homes.len() > 1);
        if let (Some(name), Some(record)) = (&self.profile, together)
            && record.homes.iter().any(|path| path == home.path())
        {
            bail!(
                "{name} moved together with {} others, in one process; leave out --profile to give all of them back",
                record.homes.len() - 1
            );
        }
        self.consent(false, out)?;
        adopt::undo(home, actions, out)?;
        Ok(ExitCode::SUCCESS)
    }

    fn consent(&self, together: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            bail!(
                "nothing was changed: there is no terminal to ask at; say --yes, or --dry-run to look only"
            );
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

fn write(survey: &Survey, page: &Page, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("{} in {}", survey.name, survey.home.path().display());
    writeln!(out, "{}", page.paint(Tint::Bold, &title))?;
    for (heading, lines) in survey.headings() {
        writeln!(out, "\n  {heading}")?;
        for line in lines {
            writeln!(out, "  - {}", line.replace('\n', "\n    "))?;
        }
    }
    Ok(())
}

/// A move acts by the other commands.
struct Actions<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    now: Time,
    runtime: tokio::runtime::Runtime,
}

impl<'a> Actions<'a> {
    fn new(variable: &'a dyn Fn(&str) -> Option<String>, now: Time) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { variable, now, runtime })
    }
}

impl MoveActions for Actions<'_> {
    fn back_up(&self, home: &Home) -> anyhow::Result<PathBuf> {
        back_up(home, self.now)
    }

    fn messages(&self, home: &Path) -> anyhow::Result<u64> {
        messages(home)
    }

    fn install(
        &self,
        unit: OurUnit<'_>,
        home: &Home,
        together: bool,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let service = Service::Install(Unit::new(unit.name, unit.system));
        service.run(home, together, self.variable, out).map(drop)
    }

    fn uninstall(&self, unit: OurUnit<'_>, home: &Home, out: &mut dyn Write) -> anyhow::Result<()> {
        let service = Service::Uninstall(Unit::new(unit.name, unit.system));
        service.run(home, false, self.variable, out).map(drop)
    }

    fn ask(&self, home: &Home) -> anyhow::Result<Option<FirstAnswer>> {
        let Some(client) = wire::gateway_of(home)? else { return Ok(None) };
        self.runtime.block_on(async {
            let Ok(status) = client.status().await else { return Ok(None) };
            let newest_conversation = newest_conversation(&client).await?;
            Ok(Some(FirstAnswer { agent: status.agent, newest_conversation }))
        })
    }

    fn explain(&self, how_to_go_on: String) {
        interrupt::explain(how_to_go_on);
    }
}

/// Looked up only: an order would begin a conversation, and this is a proof that leaves none.
async fn newest_conversation(client: &Client) -> anyhow::Result<Option<String>> {
    let newest = client.sessions(None, Slice { limit: 1, offset: 0 }).await?;
    let Some(listed) = newest.into_iter().next() else { return Ok(None) };
    let known = client.session(&listed.id).await?;
    Ok(known.map(|known| match known.title {
        Some(title) => format!("{} ({title})", known.id),
        None => known.id.to_string(),
    }))
}

/// Plugins as an agent of ours would find them.
struct InstalledPlugins;

impl PluginLookup for InstalledPlugins {
    fn configured(&self, home: &Home, settings: &Settings) -> (Vec<[String; 3]>, Vec<String>) {
        plugins::configured(home, settings)
    }

    fn without_python(&self, home: &Home, settings: &Settings) -> Option<(Vec<String>, String)> {
        plugins::without_python(home, settings)
    }

    fn hermes_version(
        &self,
        home: &Home,
        settings: Option<&Settings>,
        programs: &[PathBuf],
    ) -> Option<String> {
        plugins::hermes_version(home, settings, programs)
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
    let found = doctor::examine(home, &Environment::of_this_process(), home.owner().is_some(), now)?;
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
    let order = backup::BackupOrder { home, profiles: Profiles::Left, to, passphrase: None, replaces: true };
    backup::make(&order).map(|kept| kept.path)
}
