//! Commands on another machine, through the system's ssh and one connection that its commands share.

use super::super::environment::EnvironmentVariables;
use super::super::process_group::Abort;
use super::super::settings::{SshSettings, TerminalSettings};
use super::script::{ending, quoted};
use super::{CommandSite, Shell, ask, find_program};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

const CONNECT_PATIENCE: Duration = Duration::from_secs(15);

pub struct SshSite {
    settings: SshSettings,
    cwd: String,
    /// A short path: sockets have little room for one.
    socket: PathBuf,
    is_connected: Mutex<bool>,
}

impl SshSite {
    pub fn new(settings: &TerminalSettings, scratch: &Path) -> Result<Self, String> {
        if settings.ssh.host.is_empty() || settings.ssh.user.is_empty() {
            return Err(
                "the ssh backend needs both terminal.ssh_host and terminal.ssh_user; set them, or set \
                        terminal.backend to local"
                    .to_owned(),
            );
        }
        if find_program("ssh", None).is_none() {
            return Err(
                "SSH is not installed or not in PATH. Install OpenSSH client: apt install openssh-client"
                    .into(),
            );
        }
        Ok(Self {
            settings: settings.ssh.clone(),
            cwd: settings.cwd.trim().to_owned(),
            socket: scratch.join("ssh.sock"),
            is_connected: Mutex::new(false),
        })
    }

    /// Nothing here may ask anyone: keys only, and an unknown host is remembered.
    fn connection(&self) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-o", &format!("ControlPath={}", self.socket.display())]);
        for option in [
            "ControlMaster=auto",
            "ControlPersist=300",
            "BatchMode=yes",
            "StrictHostKeyChecking=accept-new",
            "ConnectTimeout=10",
        ] {
            command.args(["-o", option]);
        }
        if self.settings.port != 22 {
            command.args(["-p", &self.settings.port.to_string()]);
        }
        if !self.settings.key.is_empty() {
            command.args(["-i", &self.settings.key]);
        }
        command.arg(format!("{}@{}", self.settings.user, self.settings.host));
        command
    }
}

impl CommandSite for SshSite {
    /// The first connection is made by itself: its master stays behind and would hold a command's
    /// output open.
    fn ready(&self) -> Result<(), String> {
        let mut is_connected = self.is_connected.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *is_connected && self.socket.exists() {
            return Ok(());
        }
        let mut command = self.connection();
        command.arg("echo 'SSH connection established'").process_group(0);
        let said = ask(command, CONNECT_PATIENCE).map_err(|_| {
            format!("SSH connection to {}@{} timed out", self.settings.user, self.settings.host)
        })?;
        if !said.is_ok {
            let why = if said.err.is_empty() { said.out } else { said.err };
            return Err(format!("SSH connection failed: {why}"));
        }
        *is_connected = true;
        Ok(())
    }

    /// The far side has its own environment: none of ours is sent.
    fn command(
        &self,
        script: &str,
        shell: Shell,
        variables: &EnvironmentVariables,
        _directory: &Path,
    ) -> Command {
        let mut command = self.connection();
        let login: &[&str] = if shell == Shell::Login { &["-l"] } else { &[] };
        command.arg("bash").args(login).arg("-c").arg(quoted(script));
        command.env_clear().envs(variables).process_group(0);
        command
    }

    fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.spawn()
    }

    fn first_directory(&self) -> String {
        match self.cwd.as_str() {
            "" | "." | "auto" | "cwd" => "~".to_owned(),
            cwd => cwd.to_owned(),
        }
    }

    fn scratch(&self) -> String {
        "/tmp".to_owned()
    }

    fn abort(&self, pid_file: &str) -> Option<Abort> {
        let mut command = self.connection();
        command.arg(format!("bash -c {}", quoted(&ending(pid_file)))).process_group(0);
        Some(Box::new(move || drop(ask(command, CONNECT_PATIENCE))))
    }
}

impl Drop for SshSite {
    fn drop(&mut self) {
        if self.socket.exists() {
            let mut command = Command::new("ssh");
            command.args(["-o", &format!("ControlPath={}", self.socket.display()), "-O", "exit"]);
            command.arg(format!("{}@{}", self.settings.user, self.settings.host));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let _ = ask(command, Duration::from_secs(2)); // it ends by itself after five minutes
        }
    }
}
