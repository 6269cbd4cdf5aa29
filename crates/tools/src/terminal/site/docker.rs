//! Commands in a container, through the docker command line (or podman's, which speaks the same).
//!
//! One long-lived container per profile, found again by its labels after a restart, as Hermes has
//! it: what an agent installs in it stays. It has no capabilities but those that package managers
//! need, cannot gain any, and has limits where the host can set them.

use super::super::environment::{EnvironmentVariables, passed};
use super::super::output::token;
use super::super::process_group::Abort;
use super::super::settings::{DockerSettings, TerminalSettings};
use super::script::ending;
use super::{CommandSite, Shell, ask, find_program, is_executable};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// An image may have to be fetched first.
const RUN_PATIENCE: Duration = Duration::from_secs(120);
const STEP_PATIENCE: Duration = Duration::from_secs(30);
const LOOK_PATIENCE: Duration = Duration::from_secs(15);

/// Fork bombs end here.
const PIDS_LIMIT: &str = "256";

/// All sessions of a profile share a container, under Hermes' name for it.
const TASK: &str = "default";

const HARDENING: [&str; 14] = [
    "--cap-drop",
    "ALL",
    "--cap-add",
    "DAC_OVERRIDE",
    "--cap-add",
    "CHOWN",
    "--cap-add",
    "FOWNER",
    "--security-opt",
    "no-new-privileges",
    "--tmpfs",
    "/tmp:rw,nosuid,size=512m",
    "--tmpfs",
    "/var/tmp:rw,noexec,nosuid,size=256m",
];

/// Under the home, and what Hermes called them before.
const CACHES: [(&str, &str); 7] = [
    ("cache/documents", "document_cache"),
    ("cache/images", "image_cache"),
    ("cache/audio", "audio_cache"),
    ("cache/videos", "video_cache"),
    ("cache/screenshots", "browser_screenshots"),
    ("cache/web", "web_cache"),
    ("cache/delegation", "delegation_cache"),
];

pub struct DockerSite {
    binary: PathBuf,
    settings: DockerSettings,
    home: PathBuf,
    profile: String,
    /// In the container.
    cwd: String,
    /// On the host, if it is mounted as `/workspace`.
    host_cwd: Option<PathBuf>,
    /// Values for what is forwarded by name.
    forwarded: BTreeMap<String, OsString>,
    lifetime: Duration,
    state: Mutex<ContainerState>,
    in_use: Arc<()>,
}

struct ContainerState {
    container: Option<String>,
    has_reaped: bool,
    can_limit: Option<bool>,
    can_limit_disk: Option<bool>,
    last_used: Instant,
}

impl DockerSite {
    pub fn new(settings: &TerminalSettings) -> Result<Arc<Self>, String> {
        let given = settings.docker.binary.clone().filter(|binary| is_executable(binary));
        let found = given.or_else(|| find_program("docker", None)).or_else(|| find_program("podman", None));
        let Some(binary) = found else {
            return Err(
                "Docker executable not found in PATH or known install locations. Install Docker and ensure \
                        the 'docker' command is available."
                    .to_owned(),
            );
        };
        let (cwd, host_cwd) = directories(settings);
        let site = Arc::new(Self {
            binary,
            settings: settings.docker.clone(),
            home: settings.home.clone(),
            profile: label(&settings.profile),
            cwd,
            host_cwd,
            forwarded: forwarded(settings),
            lifetime: settings.lifetime,
            state: Mutex::new(ContainerState {
                container: None,
                has_reaped: false,
                can_limit: None,
                can_limit_disk: None,
                last_used: Instant::now(),
            }),
            in_use: Arc::new(()),
        });
        if !site.settings.persist_across_processes {
            give_up_when_idle(Arc::downgrade(&site), site.lifetime);
        }
        Ok(site)
    }

    /// Whether commands in the container can reach the host's files: approvals then hold.
    pub fn has_host_access(settings: &TerminalSettings) -> bool {
        let is_host_path = |volume: &String| volume.trim().starts_with(['/', '~', '.']);
        directories(settings).1.is_some() || settings.docker.volumes.iter().any(is_host_path)
    }

    fn state(&self) -> MutexGuard<'_, ContainerState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn docker(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).process_group(0);
        command
    }

    fn said(&self, arguments: &[&str], patience: Duration) -> Option<String> {
        ask(self.docker(arguments), patience).ok().filter(|said| said.is_ok).map(|said| said.out)
    }

    /// A container of an earlier process, running ones first.
    fn found(&self) -> Option<(String, String)> {
        let (task, profile) =
            (format!("label=hermes-task-id={TASK}"), format!("label=hermes-profile={}", self.profile));
        let filters = ["--filter", "label=hermes-agent=1", "--filter", &task, "--filter", &profile];
        let listing = [&["ps", "-a"], filters.as_slice(), &["--format", "{{.ID}}\t{{.State}}"]].concat();
        let lines = self.said(&listing, LOOK_PATIENCE)?;
        let parse =
            |line: &str| line.split_once('\t').map(|(id, state)| (id.to_owned(), state.to_lowercase()));
        let all = lines.lines().filter_map(parse).collect::<Vec<_>>();
        all.iter().find(|(_, state)| state == "running").or(all.first()).cloned()
    }

    /// One that may still reach the network although it no longer should is not taken up.
    fn reused(&self) -> Option<String> {
        let (id, state) = self.found().filter(|_| self.settings.persist_across_processes)?;
        let mode = || self.said(&["inspect", "--format", "{{.HostConfig.NetworkMode}}", &id], LOOK_PATIENCE);
        if !self.settings.network && mode().as_deref() != Some("none") {
            self.said(&["rm", "-f", &id], STEP_PATIENCE);
            return None;
        }
        if state != "running" {
            self.said(&["start", &id], STEP_PATIENCE)?;
        }
        Some(id)
    }

    fn started(&self, state: &mut ContainerState) -> Result<String, String> {
        let name = format!("hermes-{}", &token()[..8]);
        let image = self.settings.image.as_str();
        let has_init = self.image_has_init();
        let mut arguments = vec!["run".to_owned(), "-d".to_owned()];
        if !has_init {
            arguments.push("--init".to_owned());
        }
        arguments.extend(["--name".to_owned(), name.clone()]);
        for label in [
            "hermes-agent=1".to_owned(),
            format!("hermes-task-id={TASK}"),
            format!("hermes-profile={}", self.profile),
        ] {
            arguments.extend(["--label".to_owned(), label]);
        }
        arguments.extend(["-w".to_owned(), self.cwd.clone()]);
        arguments.extend(self.security(has_init));
        arguments.extend(self.writable()?);
        arguments.extend(self.limits(state));
        arguments.extend(self.volumes());
        for (name, value) in self.settings.env.iter().filter(|(name, _)| is_name(name)) {
            arguments.extend(["-e".to_owned(), format!("{name}={value}")]);
        }
        arguments.extend(self.settings.extra_args.iter().cloned());
        arguments.extend([image, "sleep", "infinity"].map(String::from));
        let words = arguments.iter().map(String::as_str).collect::<Vec<_>>();
        let outcome = ask(self.docker(&words), RUN_PATIENCE);
        match outcome {
            Ok(said) if said.is_ok => Ok(said.out.lines().last().unwrap_or_default().trim().to_owned()),
            failed => {
                // Docker may have made it before it failed to start: nothing else would remove it.
                self.said(&["rm", "-f", &name], STEP_PATIENCE);
                let why = failed
                    .map_or_else(|error| error, |said| if said.err.is_empty() { said.out } else { said.err });
                Err(format!("docker run failed for image {image}: {why}"))
            }
        }
    }

    /// Images built on s6-overlay bring their own init, which needs an executable `/run`.
    fn image_has_init(&self) -> bool {
        let arguments = ["image", "inspect", &self.settings.image, "--format", "{{json .Config.Entrypoint}}"];
        let entry = self.said(&arguments, LOOK_PATIENCE).unwrap_or_default();
        let first = match serde_json::from_str::<serde_json::Value>(&entry) {
            Ok(serde_json::Value::String(first)) => first,
            Ok(serde_json::Value::Array(list)) => {
                list.first().and_then(|first| first.as_str()).unwrap_or_default().to_owned()
            }
            _ => return false,
        };
        matches!(first.trim(), "/init" | "/package/admin/s6-overlay/command/init")
    }

    fn security(&self, has_init: bool) -> Vec<String> {
        let mut arguments = HARDENING.map(String::from).to_vec();
        let exec = if has_init { "exec" } else { "noexec" };
        arguments.extend(["--tmpfs".to_owned(), format!("/run:rw,{exec},nosuid,size=64m")]);
        match self.settings.run_as_host_user {
            true => {
                let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
                arguments.extend(["--user".to_owned(), format!("{user}:{group}")]);
            }
            // An image's init may have to step down from root.
            false => arguments.extend(["--cap-add", "SETUID", "--cap-add", "SETGID"].map(String::from)),
        }
        arguments
    }

    fn writable(&self) -> Result<Vec<String>, String> {
        let is_workspace_taken =
            self.host_cwd.is_some() || self.settings.volumes.iter().any(|v| v.contains(":/workspace"));
        let mut arguments = Vec::new();
        if self.settings.persistent {
            let sandbox = self.home.join("sandboxes/docker").join(TASK);
            let mut places = vec![("home", "/root")];
            if !is_workspace_taken {
                places.push(("workspace", "/workspace"));
            }
            for (name, place) in places {
                let path = sandbox.join(name);
                std::fs::create_dir_all(&path)
                    .map_err(|error| format!("could not create {}: {error}", path.display()))?;
                arguments.extend(["-v".to_owned(), format!("{}:{place}", path.display())]);
            }
        } else {
            let workspace = (!is_workspace_taken).then_some("/workspace:rw,exec,size=10g");
            for mount in workspace.into_iter().chain(["/home:rw,exec,size=1g", "/root:rw,exec,size=1g"]) {
                arguments.extend(["--tmpfs".to_owned(), mount.to_owned()]);
            }
        }
        Ok(arguments)
    }

    /// Where the host cannot set limits every start would fail: tried once, with the image at hand.
    fn limits(&self, state: &mut ContainerState) -> Vec<String> {
        let probe = ["run", "--rm", "--cpus", "0.5", "--memory", "64m", "--pids-limit", "32"];
        let probe = [probe.as_slice(), &[&self.settings.image, "sleep", "0"]].concat();
        let can_limit = *state.can_limit.get_or_insert_with(|| {
            let can = self.said(&probe, Duration::from_secs(60)).is_some();
            if !can {
                tracing::warn!(
                    "the container runs without CPU, memory and process limits: this host cannot set them"
                );
            }
            can
        });
        let mut arguments = Vec::new();
        if can_limit {
            if self.settings.cpu > 0.0 {
                arguments.extend(["--cpus".to_owned(), self.settings.cpu.to_string()]);
            }
            if self.settings.memory_mb > 0 {
                arguments.extend(["--memory".to_owned(), format!("{}m", self.settings.memory_mb)]);
            }
            arguments.extend(["--pids-limit".to_owned(), PIDS_LIMIT.to_owned()]);
        }
        if self.settings.disk_mb > 0 && *state.can_limit_disk.get_or_insert_with(|| self.can_limit_disk()) {
            arguments.extend(["--storage-opt".to_owned(), format!("size={}m", self.settings.disk_mb)]);
        }
        if !self.settings.network {
            arguments.push("--network=none".to_owned());
        }
        arguments
    }

    /// Only overlay2 on XFS with project quotas can.
    fn can_limit_disk(&self) -> bool {
        let driver = self.said(&["info", "--format", "{{.Driver}}"], LOOK_PATIENCE).unwrap_or_default();
        if !driver.eq_ignore_ascii_case("overlay2") {
            return false;
        }
        let Some(id) =
            self.said(&["create", "--storage-opt", "size=1m", &self.settings.image], LOOK_PATIENCE)
        else {
            return false;
        };
        self.said(&["rm", &id], STEP_PATIENCE);
        true
    }

    fn volumes(&self) -> Vec<String> {
        let mut mounts = Vec::new();
        mounts.extend(self.host_cwd.iter().map(|cwd| format!("{}:/workspace", cwd.display())));
        mounts.extend(
            self.settings
                .volumes
                .iter()
                .map(|volume| volume.trim())
                .filter(|v| v.contains(':'))
                .map(String::from),
        );
        for file in &self.settings.credential_files {
            mounts.extend(self.credential(file));
        }
        let skills = self.home.join("skills");
        if skills.is_dir() {
            mounts.push(format!("{}:/root/.hermes/skills:ro", skills.display()));
        }
        for (name, old) in CACHES {
            let found = [old, name].map(|name| self.home.join(name)).into_iter().find(|path| path.is_dir());
            mounts.extend(found.map(|path| format!("{}:/root/.hermes/{name}:ro", path.display())));
        }
        mounts.into_iter().flat_map(|mount| ["-v".to_owned(), mount]).collect()
    }

    /// Only what lies within the home, wherever its links lead; never the gateway's own secrets.
    fn credential(&self, relative: &str) -> Option<String> {
        let home = self.home.canonicalize().ok()?;
        let path = home.join(relative).canonicalize().ok()?;
        let below = path.strip_prefix(&home).ok()?.to_str()?;
        let is_own = matches!(below, ".env" | "auth.json" | "config.yaml" | "state.db");
        (Path::new(relative).is_relative() && path.is_file() && !is_own)
            .then(|| format!("{}:/root/.hermes/{below}:ro", path.display()))
    }

    /// Containers of processes that were killed. Running ones may be another process's.
    fn reap_orphans(&self) {
        let profile = format!("label=hermes-profile={}", self.profile);
        let filters = ["--filter", "label=hermes-agent=1", "--filter", "status=exited", "--filter", &profile];
        let listing = [&["ps", "-a"], filters.as_slice(), &["--format", "{{.ID}}"]].concat();
        let Some(ids) = self.said(&listing, LOOK_PATIENCE) else { return };
        for id in ids.lines().map(str::trim).filter(|id| !id.is_empty()) {
            let ended = self.said(&["inspect", "--format", "{{.State.FinishedAt}}", id], LOOK_PATIENCE);
            let ended =
                ended.filter(|at| !at.starts_with("0001-")).and_then(|at| at.parse::<jiff::Timestamp>().ok());
            let Some(ended) = ended else { continue };
            if jiff::Timestamp::now().duration_since(ended).unsigned_abs() > self.lifetime * 2 {
                self.said(&["rm", "-f", id], STEP_PATIENCE);
            }
        }
    }

    fn is_running(&self, id: &str) -> bool {
        self.said(&["inspect", "--format", "{{.State.Running}}", id], LOOK_PATIENCE).as_deref()
            == Some("true")
    }

    fn give_up(&self) {
        if let Some(id) = self.state().container.take() {
            self.said(&["stop", "-t", "10", &id], STEP_PATIENCE);
            self.said(&["rm", "-f", &id], STEP_PATIENCE);
        }
    }
}

impl CommandSite for DockerSite {
    /// Looks before every command: one that finds no container must not be tried twice, because
    /// it is unknown whether it ran.
    fn ready(&self) -> Result<(), String> {
        let mut state = self.state();
        state.last_used = Instant::now();
        if let Some(id) = &state.container
            && self.is_running(id)
        {
            return Ok(());
        }
        match ask(self.docker(&["version"]), Duration::from_secs(5)) {
            Ok(said) if said.is_ok => {}
            Ok(said) => {
                let why = said.err.lines().last().unwrap_or_default().to_owned();
                return Err(format!("Docker command is available but 'docker version' failed. Check your Docker installation. {why}").trim().to_owned());
            }
            Err(_) => {
                return Err(
                    "Docker daemon is not responding. Ensure Docker is running and try again.".to_owned()
                );
            }
        }
        if self.settings.orphan_reaper && !std::mem::replace(&mut state.has_reaped, true) {
            self.reap_orphans();
        }
        state.container = None;
        let container = match self.reused() {
            Some(id) => id,
            None => self.started(&mut state)?,
        };
        state.container = Some(container);
        Ok(())
    }

    /// Variables go in with the first shell of a session, by name: their values stand in no list of
    /// processes.
    fn command(
        &self,
        script: &str,
        shell: Shell,
        variables: &EnvironmentVariables,
        _directory: &Path,
    ) -> Command {
        let container = self.state().container.clone().unwrap_or_default();
        let mut command = self.docker(&["exec"]);
        command.env_clear().envs(variables);
        if shell == Shell::Login {
            for (name, value) in &self.forwarded {
                command.arg("-e").arg(name).env(name, value);
            }
        }
        command.arg(container).arg("bash");
        if shell == Shell::Login {
            command.arg("-l");
        }
        command.arg("-c").arg(script);
        command
    }

    fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.spawn()
    }

    fn first_directory(&self) -> String {
        self.cwd.clone()
    }

    fn scratch(&self) -> String {
        "/tmp".to_owned()
    }

    /// Ending `docker exec` ends only the client.
    fn abort(&self, pid_file: &str) -> Option<Abort> {
        let container = self.state().container.clone()?;
        let command = self.docker(&["exec", &container, "bash", "-c", &ending(pid_file)]);
        Some(Box::new(move || drop(ask(command, LOOK_PATIENCE))))
    }

    fn lease(&self) -> Option<Arc<()>> {
        Some(self.in_use.clone())
    }
}

impl Drop for DockerSite {
    /// A container that is to outlive us stays as it is, with all that runs in it.
    fn drop(&mut self) {
        if !self.settings.persist_across_processes {
            self.give_up();
        }
    }
}

fn give_up_when_idle(site: Weak<DockerSite>, lifetime: Duration) {
    let watch = move || {
        loop {
            thread::sleep((lifetime / 4).clamp(Duration::from_millis(50), Duration::from_secs(60)));
            let Some(site) = site.upgrade() else { return };
            let is_idle = site.state().last_used.elapsed() > lifetime && Arc::strong_count(&site.in_use) == 1;
            if is_idle {
                site.give_up();
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("terminal-idle".into()).spawn(watch) {
        tracing::warn!(%error, "the container stays until the process ends");
    }
}

/// The directory in the container, and the host's if that is mounted there. A path of the host
/// means nothing in a container.
fn directories(settings: &TerminalSettings) -> (String, Option<PathBuf>) {
    let cwd = settings.cwd.trim();
    if settings.docker.mount_cwd_to_workspace {
        let here = std::env::current_dir().unwrap_or_default();
        let host = here.join(if matches!(cwd, "" | "auto" | "cwd") { "." } else { cwd });
        let is_inside = host.starts_with("/workspace") || host.starts_with("/root");
        if let Some(host) = host.canonicalize().ok().filter(|host| host.is_dir() && !is_inside) {
            return ("/workspace".to_owned(), Some(host));
        }
    }
    let is_host = !cwd.starts_with('/') || cwd.starts_with("/home/") || cwd.starts_with("/Users/");
    (if is_host { "/root" } else { cwd }.to_owned(), None)
}

/// What goes in by name, from the host's environment or from `.env`. Named for docker, anything
/// does; named as a passthrough, only what is not managed.
fn forwarded(settings: &TerminalSettings) -> BTreeMap<String, OsString> {
    let none = BTreeSet::new();
    let explicit = settings.docker.forward_env.iter().map(|name| name.trim());
    let names = explicit.chain(passed(settings, &none)).filter(|name| is_name(name));
    let value = |name: &str| {
        let inherited = settings.inherited.iter().find(|(given, _)| given.as_os_str() == OsStr::new(name));
        let inherited = inherited.map(|(_, value)| value.clone()).filter(|value| !value.is_empty());
        inherited.or_else(|| settings.dotenv.get(name).map(|value| value.expose().into()))
    };
    names.filter_map(|name| Some((name.to_owned(), value(name)?))).collect()
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A value that can be asked for as a filter.
fn label(value: &str) -> String {
    let safe = value.chars().map(|c| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' });
    let safe = safe.take(63).collect::<String>();
    if safe.is_empty() { "unknown".to_owned() } else { safe }
}
