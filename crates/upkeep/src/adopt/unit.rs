//! Hermes' units of systemd: which of them serve a home, and how they are switched off and on again.
//!
//! - a unit serves a home if it runs Hermes' gateway there; its name alone proves nothing
//! - it is disabled and stopped, never edited and never removed, and put back as it was found
//!
//! Deliberately absent: units of our own (`cmd::service`), and other service managers.

use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a unit of Hermes' gateway runs, in any of its ages.
const RUNS: [&str; 4] = ["hermes_cli.main", "hermes_cli/main.py", "gateway/run.py", "hermes gateway"];
/// The names that Hermes gives to the unit of the root, which older ones wrote without the home.
const NAMES: [&str; 2] = ["hermes-gateway.service", "hermes.service"];

/// One unit, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HermesUnit {
    pub name: String,
    /// Of the machine, rather than of a user.
    pub system: bool,
    pub is_enabled: bool,
    pub is_active: bool,
}

/// Where units are.
pub struct UnitDirectory {
    pub directory: PathBuf,
    pub system: bool,
}

/// Where Hermes puts its units.
pub fn unit_directories(variable: &dyn Fn(&str) -> Option<String>) -> Vec<UnitDirectory> {
    let user = variable("HOME").filter(|home| !home.is_empty());
    let user = user.map(|home| UnitDirectory {
        directory: Path::new(&home).join(".config/systemd/user"),
        system: false,
    });
    let system = UnitDirectory { directory: PathBuf::from("/etc/systemd/system"), system: true };
    user.into_iter().chain([system]).collect()
}

/// The units that run Hermes' gateway in this home. `usual`: where Hermes lives by default.
pub fn of_home(home: &Path, usual: Option<&Path>, unit_directories: &[UnitDirectory]) -> Vec<HermesUnit> {
    let mut found = Vec::new();
    for unit_directory in unit_directories {
        let Ok(entries) = fs::read_dir(&unit_directory.directory) else { continue };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Ok(text) = fs::read_to_string(entry.path()) else { continue };
            if name.ends_with(".service") && serves(&name, &text).is_some_and(|by| by.is(home, usual)) {
                let system = unit_directory.system;
                let asked = |question| answers_yes(system, question, &name);
                let (is_enabled, is_active) = (asked("is-enabled"), asked("is-active"));
                found.push(HermesUnit { name, system, is_enabled, is_active });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// What these units run.
pub fn programs(units: &[HermesUnit], unit_directories: &[UnitDirectory]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for unit in units {
        for unit_directory in
            unit_directories.iter().filter(|unit_directory| unit_directory.system == unit.system)
        {
            let text = fs::read_to_string(unit_directory.directory.join(&unit.name)).unwrap_or_default();
            let command = text.lines().find_map(|line| line.trim().strip_prefix("ExecStart="));
            found.extend(command.and_then(|command| command.split_whitespace().next()).map(PathBuf::from));
        }
    }
    found
}

/// Whose gateway a unit runs.
#[derive(Debug, PartialEq, Eq)]
enum Serves {
    Home(PathBuf),
    Profile(String),
    /// The usual one.
    Usual,
}

impl Serves {
    fn is(&self, home: &Path, usual: Option<&Path>) -> bool {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let same = |path: &Path| real(path) == real(home);
        match self {
            Serves::Home(path) => same(path),
            Serves::Profile(name) => usual.is_some_and(|usual| same(&usual.join("profiles").join(name))),
            Serves::Usual => usual.is_some_and(same),
        }
    }
}

/// None: it is no unit of Hermes' gateway.
fn serves(name: &str, text: &str) -> Option<Serves> {
    let line =
        |start: &str| text.lines().filter_map(|line| line.trim().strip_prefix(start)).collect::<Vec<_>>();
    let runs = line("ExecStart=")
        .into_iter()
        .find(|command| RUNS.iter().any(|part| command.contains(part)) && command.contains("gateway"))?;
    let variables = line("Environment=");
    let home = variables.iter().find_map(|given| {
        let given = given.trim_matches(['"', '\'']);
        given.strip_prefix("HERMES_HOME=").map(|home| PathBuf::from(home.trim_matches(['"', '\''])))
    });
    let mut words = runs.split_whitespace();
    let profile = words.find(|word| *word == "--profile").and_then(|_| words.next());
    match (home, profile) {
        (Some(home), _) => Some(Serves::Home(home)),
        (None, Some(profile)) => Some(Serves::Profile(profile.to_owned())),
        (None, None) => NAMES.contains(&name).then_some(Serves::Usual),
    }
}

impl HermesUnit {
    /// Stops it and keeps it from coming back: it says `Restart=always`, and a boot would start it.
    pub fn switch_off(&self) -> anyhow::Result<()> {
        self.order(&["disable", "--now", &self.name])
    }

    /// As it was found.
    pub fn put_back(&self) -> anyhow::Result<()> {
        if self.is_enabled {
            self.order(&["enable", &self.name])?;
        }
        if self.is_active {
            self.order(&["start", &self.name])?;
        }
        Ok(())
    }

    fn order(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = systemctl(self.system).args(arguments).output();
        let output = output.context("could not run systemctl, which Hermes' unit is kept by")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let rights =
                if self.system { "; it is the machine's, so this needs its administrator" } else { "" };
            bail!("`systemctl {}` failed{rights}: {}", arguments.join(" "), said.trim());
        }
        Ok(())
    }

    pub fn emit(&self) -> Value {
        json!({"name": self.name, "system": self.system, "enabled": self.is_enabled, "active": self.is_active})
    }

    pub fn parse(value: &Value) -> Option<Self> {
        let says = |name: &str| value[name].as_bool();
        Some(Self {
            name: value["name"].as_str()?.to_owned(),
            system: says("system")?,
            is_enabled: says("enabled")?,
            is_active: says("active")?,
        })
    }
}

fn systemctl(system: bool) -> Command {
    let mut command = Command::new("systemctl");
    if !system {
        command.arg("--user");
    }
    command
}

/// No systemd, or one that does not answer, runs nothing.
fn answers_yes(system: bool, question: &str, unit: &str) -> bool {
    systemctl(system).args([question, "--quiet", unit]).output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_known_by_what_it_runs_and_where() {
        let of = |command: &str, variable: &str| {
            format!("[Service]\nExecStart={command}\n{variable}\nRestart=always\n")
        };
        let run = "/opt/venv/bin/python -m hermes_cli.main gateway run";
        let here = of(run, "Environment=\"HERMES_HOME=/home/ada/.hermes\"");
        assert_eq!(serves("x.service", &here), Some(Serves::Home("/home/ada/.hermes".into())));
        let profile = of("/opt/venv/bin/python -m hermes_cli.main --profile coder gateway run", "");
        assert_eq!(serves("x.service", &profile), Some(Serves::Profile("coder".into())));
        assert_eq!(serves("hermes-gateway.service", &of(run, "")), Some(Serves::Usual));
        assert_eq!(serves("x.service", &of(run, "")), None, "a name that proves nothing, and no home");
        assert_eq!(serves("hermes-gateway.service", &of("/bin/true", "")), None);
        assert_eq!(serves("hermes-web.service", &of("/opt/hermes web", "Environment=HERMES_HOME=/x")), None);
        assert_eq!(serves("hermes-gateway.service", "\u{0}\u{1}"), None);
    }

    #[test]
    fn a_home_finds_its_units_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let usual = root.path().join(".hermes");
        let coder = usual.join("profiles/coder");
        fs::create_dir_all(&coder).unwrap();
        let unit_directory = UnitDirectory { directory: root.path().join("units"), system: false };
        fs::create_dir_all(&unit_directory.directory).unwrap();
        let write = |name: &str, text: &str| fs::write(unit_directory.directory.join(name), text).unwrap();
        let run = "[Service]\nExecStart=/v/bin/python -m hermes_cli.main gateway run\n";
        write("hermes-gateway.service", run);
        write("other.service", &format!("{run}Environment=\"HERMES_HOME={}\"\n", coder.display()));
        write("notes.txt", run);
        let names = |home: &Path| {
            of_home(home, Some(&usual), std::slice::from_ref(&unit_directory))
                .into_iter()
                .map(|unit| unit.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&usual), ["hermes-gateway.service"]);
        assert_eq!(names(&coder), ["other.service"]);
        assert_eq!(names(root.path()), [""; 0]);
    }
}
