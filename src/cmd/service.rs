//! `throughline service`: the gateway as a service of systemd.
//!
//! A user's service by default, the system's with `--system`. The unit tells systemd when the gateway
//! is ready and that it lives, restarts it when it fails or asks to be, and gives it no more of the
//! machine than agents need. A unit that we did not write is not touched.

use anyhow::{Context, bail};
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use throughline_home::home::Home;

/// Run the gateway as a service of systemd
#[derive(Debug, clap::Subcommand)]
pub enum Service {
    /// Write the unit, enable it and start it
    Install(Unit),
    /// Stop it, disable it and remove the unit
    Uninstall(Unit),
    /// Show what systemd says of it
    Status(Unit),
    /// Write the unit to the standard output, and nothing anywhere else
    Print(Unit),
}

#[derive(Debug, clap::Args)]
pub struct Unit {
    /// For the whole system instead of for you
    #[arg(long)]
    system: bool,
    /// Whose the system's service is
    #[arg(long, value_name = "USER", requires = "system")]
    user: Option<String>,
    /// The name of the unit
    #[arg(long, default_value = "throughline")]
    name: String,
}

/// By this line we know our own.
const MARK: &str = "# Written by `throughline service install`.";
/// Longer than the usual drain, shorter than a person's patience.
const STOP_SECONDS: u32 = 90;
const WATCHDOG_SECONDS: u32 = 60;

impl Service {
    pub fn run(
        self,
        home: &Home,
        all_profiles: bool,
        variable: &dyn Fn(&str) -> Option<String>,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        if cfg!(windows) {
            bail!("units are systemd's; docs/operations.md says how this runs as a service on Windows");
        }
        let program = std::env::current_exe().context("could not tell where this program is")?;
        match self {
            Service::Print(unit) => {
                out.write_all(unit.text(&program, home, all_profiles, variable).as_bytes())?;
                Ok(ExitCode::SUCCESS)
            }
            Service::Install(unit) => {
                let path = unit.path(variable)?;
                unit.refuse_another_s(&path)?;
                let text = unit.text(&program, home, all_profiles, variable);
                let directory = path.parent().unwrap_or(Path::new("/"));
                // Whole or not at all: a unit that breaks off is not known for ours.
                let unfinished = path.with_extension("service.new");
                fs::create_dir_all(directory)
                    .and_then(|()| fs::write(&unfinished, text))
                    .and_then(|()| fs::rename(&unfinished, &path))
                    .with_context(|| format!("could not write {}", path.display()))?;
                writeln!(out, "wrote {}", path.display())?;
                unit.systemctl(&["daemon-reload"])?;
                unit.systemctl(&["enable", "--now", &unit.unit()])?;
                writeln!(out, "enabled and started {}; see `throughline service status`", unit.unit())?;
                if !unit.system {
                    writeln!(out, "to keep it running while you are logged out: loginctl enable-linger")?;
                }
                Ok(ExitCode::SUCCESS)
            }
            Service::Uninstall(unit) => {
                let path = unit.path(variable)?;
                unit.refuse_another_s(&path)?;
                // One that is not running, or not known, is as good as stopped.
                let _ = unit.systemctl(&["disable", "--now", &unit.unit()]);
                match fs::remove_file(&path) {
                    Ok(()) => writeln!(out, "removed {}", path.display())?,
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        writeln!(out, "there was no {}", path.display())?;
                    }
                    Err(error) => {
                        return Err(error).with_context(|| format!("could not remove {}", path.display()));
                    }
                }
                let _ = unit.systemctl(&["daemon-reload"]);
                Ok(ExitCode::SUCCESS)
            }
            Service::Status(unit) => {
                out.flush()?;
                let mut command = unit.command();
                let status = command.args(["status", "--no-pager", &unit.unit()]).status();
                let status = status.context("could not run systemctl; is systemd this machine's?")?;
                Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
        }
    }
}

impl Unit {
    pub fn new(name: &str, system: bool) -> Self {
        Self { system, user: None, name: name.to_owned() }
    }

    fn unit(&self) -> String {
        format!("{}.service", self.name.trim_end_matches(".service"))
    }

    fn path(&self, variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<PathBuf> {
        if self.name.contains('/') || self.name.is_empty() {
            bail!("{:?} is no name for a unit", self.name);
        }
        let given = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = match self.system {
            true => PathBuf::from("/etc/systemd/system"),
            false => {
                let user = || Some(given("HOME")?.join(".config"));
                let config = given("XDG_CONFIG_HOME").or_else(user);
                config.context("cannot tell where your units are: $HOME is not set")?.join("systemd/user")
            }
        };
        Ok(directory.join(self.unit()))
    }

    fn refuse_another_s(&self, path: &Path) -> anyhow::Result<()> {
        match fs::read_to_string(path) {
            Ok(text) if !text.contains(MARK) => bail!(
                "{} is there and was not written by `throughline service install`; remove it, or choose another --name",
                path.display()
            ),
            _ => Ok(()),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("systemctl");
        if !self.system {
            command.arg("--user");
        }
        command
    }

    fn systemctl(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let status = self.command().args(arguments).status();
        let status = status.context("could not run systemctl; is systemd this machine's?")?;
        if !status.success() {
            bail!("`systemctl {}` failed; what it said stands above", arguments.join(" "));
        }
        Ok(())
    }

    fn text(
        &self,
        program: &Path,
        home: &Home,
        all_profiles: bool,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> String {
        let mut command = format!("{} --home {}", quoted(program), quoted(home.path()));
        if all_profiles {
            command.push_str(" --all-profiles");
        }
        let user = match (&self.user, self.system) {
            (Some(user), _) => format!("User={user}\n"),
            (None, true) => variable("SUDO_USER").map(|user| format!("User={user}\n")).unwrap_or_default(),
            (None, false) => String::new(),
        };
        let wanted_by = if self.system { "multi-user.target" } else { "default.target" };
        // What tools of agents need stays: the home directory, the network, other programs. What no agent
        // needs goes. Restrictions that need privileges are for the system's service alone.
        let system = "ProtectSystem=full\nProtectKernelTunables=yes\nProtectKernelModules=yes\nProtectControlGroups=yes\n\
                      ProtectClock=yes\nProtectHostname=yes\n";
        let hardening = if self.system { system } else { "" };
        format!(
            "{MARK}\n\
             [Unit]\n\
             Description=Throughline gateway ({home})\n\
             Documentation=man:throughline(1)\n\
             After=network-online.target\n\
             Wants=network-online.target\n\
             StartLimitIntervalSec=0\n\
             \n\
             [Service]\n\
             Type=notify\n\
             NotifyAccess=main\n\
             ExecStart={command}\n\
             {user}\
             Restart=on-failure\n\
             RestartForceExitStatus=75\n\
             RestartSec=2\n\
             WatchdogSec={WATCHDOG_SECONDS}\n\
             TimeoutStartSec=300\n\
             TimeoutStopSec={STOP_SECONDS}\n\
             KillMode=mixed\n\
             UMask=0077\n\
             LimitNOFILE=65536\n\
             NoNewPrivileges=yes\n\
             RestrictSUIDSGID=yes\n\
             LockPersonality=yes\n\
             {hardening}\
             \n\
             [Install]\n\
             WantedBy={wanted_by}\n",
            home = home.path().display(),
        )
    }
}

/// As systemd reads a command line.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string().replace('%', "%%").replace('$', "$$");
    match text.contains([' ', '\t', '"', '\'', '\\', ';']) {
        true => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_home::home::ChosenBy;

    fn text(unit: &Unit, home: &str, all_profiles: bool) -> String {
        unit.text(
            Path::new("/opt/throughline"),
            &Home::new(Path::new(home), ChosenBy::Default),
            all_profiles,
            &|_| None,
        )
    }

    fn unit(system: bool) -> Unit {
        Unit { system, user: None, name: "throughline".into() }
    }

    #[test]
    fn a_unit_says_how_to_start_to_watch_and_to_restart() {
        let text = text(&unit(false), "/home/ada/.hermes", true);
        for line in [
            "ExecStart=/opt/throughline --home /home/ada/.hermes --all-profiles",
            "Type=notify",
            "WatchdogSec=60",
            "Restart=on-failure",
            "RestartForceExitStatus=75",
            "UMask=0077",
            "WantedBy=default.target",
        ] {
            assert!(text.lines().any(|known| known == line), "no {line} in\n{text}");
        }
        assert!(!text.contains("ProtectSystem"), "a user's manager may not have the rights for it");
    }

    #[test]
    fn paths_are_quoted_as_systemd_reads_them() {
        let text = text(&unit(true), "/srv/my agents/50%", false);
        assert!(text.contains("--home \"/srv/my agents/50%%\"\n"), "{text}");
        assert!(text.contains("WantedBy=multi-user.target") && text.contains("ProtectSystem=full"));
    }

    #[test]
    fn a_unit_that_somebody_else_wrote_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("throughline.service");
        assert!(unit(false).refuse_another_s(&path).is_ok());
        fs::write(&path, "[Service]\nExecStart=/bin/true\n").unwrap();
        assert!(unit(false).refuse_another_s(&path).is_err());
        fs::write(&path, text(&unit(false), "/x", false)).unwrap();
        assert!(unit(false).refuse_another_s(&path).is_ok());
    }
}
