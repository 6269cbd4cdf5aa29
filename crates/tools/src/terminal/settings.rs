//! What the user wrote about the terminal, as plain data.
//!
//! The names in backquotes are Hermes' keys in `config.yaml`; where Hermes reads an environment
//! variable as well, it is named, too. The caller has read and checked both: an explicit
//! variable wins over the file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use throughline_core::redact::Secret;

pub const DOCKER_IMAGE: &str = "nikolaik/python-nodejs:python3.11-nodejs20";

/// Where commands run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalBackend {
    Local,
    Docker,
    Ssh,
    /// Something Hermes knows and this program does not: the tools are not offered.
    Other(String),
}

impl TerminalBackend {
    /// `terminal.backend` as written. Case and blanks around it do not matter.
    pub fn named(name: &str) -> Self {
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "local" => Self::Local,
            "docker" => Self::Docker,
            "ssh" => Self::Ssh,
            _ => Self::Other(name.trim().to_owned()),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Local => "local",
            Self::Docker => "docker",
            Self::Ssh => "ssh",
            Self::Other(name) => name,
        }
    }
}

/// Which HOME a command sees (`terminal.home_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HomeMode {
    /// The user's own. Hermes' `auto` and `real` mean the same on a host.
    #[default]
    Real,
    /// `<home>/home`, where that directory exists.
    Profile,
}

/// Everything the tools `terminal` and `process` need to know.
///
/// | field | key | default |
/// |---|---|---|
/// | `backend` | `terminal.backend` (`TERMINAL_ENV`) | `local` |
/// | `cwd` | `terminal.cwd` (`TERMINAL_CWD`) | `.`: the directory of the process; ssh: `~`; docker: `/root` |
/// | `timeout` | `terminal.timeout` (`TERMINAL_TIMEOUT`), seconds | 180 |
/// | `foreground_max` | `TERMINAL_MAX_FOREGROUND_TIMEOUT`, seconds | 600 |
/// | `lifetime` | `terminal.lifetime_seconds` (`TERMINAL_LIFETIME_SECONDS`) | 300 |
/// | `term_grace` | `terminal.daemon_term_grace_seconds` | 2.0 |
/// | `output_max_chars` | `tool_output.max_bytes` | 50,000 |
/// | `env_passthrough` | `terminal.env_passthrough` | none |
/// | `home_mode` | `terminal.home_mode` | `auto` |
/// | `shell_init_files` | `terminal.shell_init_files` | none |
/// | `auto_source_bashrc` | `terminal.auto_source_bashrc` | true |
/// | `redact_secrets` | `security.redact_secrets` | true |
/// | `sudo_password` | `SUDO_PASSWORD` in `.env` | none |
/// | `docker` | `terminal.docker_*`, `terminal.container_*` | see [`DockerSettings`] |
/// | `ssh` | `terminal.ssh_*` (`TERMINAL_SSH_*`) | see [`SshSettings`] |
///
/// `terminal.persistent_shell` needs no field: directory and exported variables persist on every
/// backend. `terminal.modal_mode` and the images of other backends are for backends that are off.
#[derive(Clone, Debug)]
pub struct TerminalSettings {
    /// The Hermes home: `processes.json`, `skills/`, `cache/` and `sandboxes/` lie in it.
    pub home: PathBuf,
    /// The Hermes profile's name, by which containers are told apart.
    pub profile: String,
    pub backend: TerminalBackend,
    /// Empty or `.`: the backend's own default.
    pub cwd: String,
    pub timeout: Duration,
    /// A foreground command that asks for more is refused.
    pub foreground_max: Duration,
    /// A container that does not outlive the process is removed after this long without a command.
    pub lifetime: Duration,
    /// How long a background process has between SIGTERM and SIGKILL. Zero: no SIGKILL.
    pub term_grace: Duration,
    pub output_max_chars: usize,
    pub env_passthrough: Vec<String>,
    pub home_mode: HomeMode,
    pub shell_init_files: Vec<String>,
    pub auto_source_bashrc: bool,
    pub redact_secrets: bool,
    pub sudo_password: Option<Secret>,
    /// What `.env` defines. None of it reaches a command, unless a passthrough names it.
    pub dotenv: BTreeMap<String, Secret>,
    /// The environment to start from: that of this process.
    pub inherited: Vec<(OsString, OsString)>,
    /// Surfaces that cannot be told later that a process has ended.
    pub sources_without_notices: Vec<String>,
    /// Where the whole of an output goes that is too long for a result. None: the home's own place
    /// for results of tools.
    pub spool: Option<PathBuf>,
    pub docker: DockerSettings,
    pub ssh: SshSettings,
}

impl TerminalSettings {
    /// Hermes' defaults for a home, with the environment of this process.
    pub fn of_home(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            profile: "default".to_owned(),
            backend: TerminalBackend::Local,
            cwd: String::new(),
            timeout: Duration::from_secs(180),
            foreground_max: Duration::from_secs(600),
            lifetime: Duration::from_secs(300),
            term_grace: Duration::from_secs(2),
            output_max_chars: 50_000,
            env_passthrough: Vec::new(),
            home_mode: HomeMode::Real,
            shell_init_files: Vec::new(),
            auto_source_bashrc: true,
            redact_secrets: true,
            sudo_password: None,
            dotenv: BTreeMap::new(),
            inherited: std::env::vars_os().collect(),
            sources_without_notices: vec!["api_server".to_owned()],
            spool: None,
            docker: DockerSettings::default(),
            ssh: SshSettings::default(),
        }
    }
}

/// | field | key | default |
/// |---|---|---|
/// | `image` | `terminal.docker_image` | [`DOCKER_IMAGE`] |
/// | `volumes` | `terminal.docker_volumes` | none |
/// | `forward_env` | `terminal.docker_forward_env` | none |
/// | `env` | `terminal.docker_env` | none |
/// | `extra_args` | `terminal.docker_extra_args` | none |
/// | `network` | `terminal.docker_network` | true |
/// | `run_as_host_user` | `terminal.docker_run_as_host_user` | false |
/// | `mount_cwd_to_workspace` | `terminal.docker_mount_cwd_to_workspace` | false |
/// | `persist_across_processes` | `terminal.docker_persist_across_processes` | true |
/// | `orphan_reaper` | `terminal.docker_orphan_reaper` | true |
/// | `cpu` | `terminal.container_cpu` | 1 |
/// | `memory_mb` | `terminal.container_memory` | 5120 |
/// | `disk_mb` | `terminal.container_disk` | 51200 |
/// | `persistent` | `terminal.container_persistent` | true |
/// | `credential_files` | `terminal.credential_files`, and what skills declare | none |
/// | `binary` | `HERMES_DOCKER_BINARY` | `docker`, else `podman`, from PATH |
#[derive(Clone, Debug)]
pub struct DockerSettings {
    pub image: String,
    pub volumes: Vec<String>,
    /// Named here, a variable of the host or of `.env` goes into the container, secret or not.
    pub forward_env: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub extra_args: Vec<String>,
    pub network: bool,
    pub run_as_host_user: bool,
    pub mount_cwd_to_workspace: bool,
    pub persist_across_processes: bool,
    pub orphan_reaper: bool,
    pub cpu: f64,
    pub memory_mb: u64,
    pub disk_mb: u64,
    pub persistent: bool,
    /// Relative to the home; mounted read-only under `/root/.hermes`.
    pub credential_files: Vec<String>,
    pub binary: Option<PathBuf>,
}

impl Default for DockerSettings {
    fn default() -> Self {
        Self {
            image: DOCKER_IMAGE.to_owned(),
            volumes: Vec::new(),
            forward_env: Vec::new(),
            env: BTreeMap::new(),
            extra_args: Vec::new(),
            network: true,
            run_as_host_user: false,
            mount_cwd_to_workspace: false,
            persist_across_processes: true,
            orphan_reaper: true,
            cpu: 1.0,
            memory_mb: 5120,
            disk_mb: 51_200,
            persistent: true,
            credential_files: Vec::new(),
            binary: None,
        }
    }
}

/// | field | key | default |
/// |---|---|---|
/// | `host` | `terminal.ssh_host` (`TERMINAL_SSH_HOST`) | none: needed |
/// | `user` | `terminal.ssh_user` (`TERMINAL_SSH_USER`) | none: needed |
/// | `port` | `terminal.ssh_port` (`TERMINAL_SSH_PORT`) | 22 |
/// | `key` | `terminal.ssh_key` (`TERMINAL_SSH_KEY`) | none: the agent's or the default keys |
#[derive(Clone, Debug)]
pub struct SshSettings {
    pub host: String,
    pub user: String,
    pub port: u16,
    pub key: String,
}

impl Default for SshSettings {
    fn default() -> Self {
        Self { host: String::new(), user: String::new(), port: 22, key: String::new() }
    }
}
