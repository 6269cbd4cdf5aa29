//! Commands and background processes: the tools `terminal` and `process`.
//!
//! - a command runs only after the judge has let it
//! - no secret of the gateway's reaches it (`environment`), and nothing can ask a person: standard
//!   input is closed, and there is no terminal to prompt on
//! - dropped or too slow, it ends with everything it began (`process_group`), and no turn waits for that
//! - however much it writes, memory stays bounded and the whole can be read again ([`output`])
//! - a session has its own directory, exported variables and processes; no other session sees them
//!
//! Deliberately absent: other backends than local, docker and ssh. One that is configured and not
//! known switches both tools off ([`TerminalKit::refusal`]): a sandbox that was asked for is never
//! replaced by none.

mod advice;
mod background;
mod environment;
mod foreground;
#[cfg(test)]
mod linear;
pub mod output;
mod output_watch;
pub(crate) mod process_group;
mod process_registry;
mod pty;
mod request;
mod schema;
pub mod settings;
mod site;

use crate::approval::{CommandJudge, Judgement};
use crate::sandbox::Confine;
use environment::EnvironmentVariables;
use foreground::{ForegroundRun, run};
use output::{OutputDirectory, Spool, WholeOutput, strip_ansi, token};
pub use process_registry::{NoticeSink, ProcessNotice};
use process_registry::{ProcessRegistry, RegistryLimits};
use request::{InvalidRequest, TerminalRequest};
use serde_json::{Value, json};
pub use settings::{DockerSettings, HomeMode, SshSettings, TerminalBackend, TerminalSettings};
use site::{
    CommandSite, DockerSite, LocalSite, SessionScript, Shell, SshSite, find_program, nearest_directory,
    quoted,
};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use throughline_core::id::SessionId;
use throughline_core::port::Promise;
use throughline_core::redact::{Purpose, lists_environment, redacted_for};
use throughline_core::tool::{Call, Caller, Kit, Returned, Spec};
use throughline_hermes::file_policy;
use throughline_hermes::json::dumps_unicode;

/// A profile that takes longer is left out.
const BOOTSTRAP_TIMEOUT: Duration = Duration::from_secs(30);

/// Sessions whose directory and variables are remembered; the one that rested longest goes first.
const SESSIONS_MAX: usize = 4096;

/// The kit of `terminal` and `process`.
pub struct TerminalKit {
    settings: TerminalSettings,
    judge: Arc<dyn CommandJudge>,
    /// What to say where permission was denied, if commands are confined.
    hint: Option<String>,
    spool: Arc<dyn Spool>,
    /// Where commands run, or why none can.
    site: Result<Arc<dyn CommandSite>, String>,
    registry: Arc<ProcessRegistry>,
    pipes: PathBuf,
    sessions: Mutex<HashMap<SessionId, Arc<TerminalSession>>>,
    _scratch: Option<TempDir>,
}

/// What one session's commands share.
struct TerminalSession {
    script: SessionScript,
    /// Captured once; a command that comes meanwhile waits for it.
    snapshot: tokio::sync::Mutex<Option<ProfileSnapshot>>,
    inner: Mutex<TerminalSessionState>,
}

struct TerminalSessionState {
    cwd: Option<String>,
    /// Variables that the session's skills have declared.
    skills: BTreeSet<String>,
    last_used: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProfileSnapshot {
    Ready,
    /// The user's profile cannot be read: commands do without.
    Missing,
}

impl TerminalKit {
    /// Takes up the background processes that an earlier gateway left in this home. Notices may be
    /// given from any thread, also before this returns.
    pub fn new(
        settings: TerminalSettings,
        judge: Arc<dyn CommandJudge>,
        confine: Arc<dyn Confine>,
        notices: NoticeSink,
    ) -> Self {
        let scratch = tempfile::Builder::new().prefix("hermes-").tempdir();
        let place =
            scratch.as_ref().map_or_else(|_| std::env::temp_dir(), |scratch| scratch.path().to_owned());
        let hint = confine.hint().filter(|_| settings.backend == TerminalBackend::Local).map(str::to_owned);
        let site = site_of(&settings, confine, &place);
        let usual = || settings.home.join(file_policy::TOOL_RESULTS);
        let spool = Arc::new(OutputDirectory(settings.spool.clone().unwrap_or_else(usual)));
        let pipes = settings.home.join("throughline/pipes");
        let limits = RegistryLimits {
            term_grace: settings.term_grace,
            wait_max: settings.timeout,
            redacts: settings.redact_secrets,
        };
        let elsewhere = site.as_ref().ok().cloned();
        let aborts = Arc::new(move |id: &str| {
            elsewhere.as_ref().and_then(|site| site.abort(&background_pid_file(&**site, id)))
        });
        let registry = ProcessRegistry::open(settings.home.clone(), pipes.clone(), limits, notices, aborts);
        if tokio::runtime::Handle::try_current().is_ok() {
            registry.wake();
        }
        let sessions = Mutex::default();
        Self { settings, judge, hint, spool, site, registry, pipes, sessions, _scratch: scratch.ok() }
    }

    /// Sends outputs that are too long to another place.
    pub fn with_spool(mut self, spool: Arc<dyn Spool>) -> Self {
        self.spool = spool;
        self
    }

    /// Why the tools are not offered, if they are not.
    pub fn refusal(&self) -> Option<&str> {
        self.site.as_ref().err().map(String::as_str)
    }

    /// Whether commands can reach this machine's files: locally always, in a container through its
    /// mounts.
    pub fn has_host_access(settings: &TerminalSettings) -> bool {
        match settings.backend {
            TerminalBackend::Local => true,
            TerminalBackend::Docker => DockerSite::has_host_access(settings),
            TerminalBackend::Ssh | TerminalBackend::Other(_) => false,
        }
    }

    /// Lets variables that a skill of this session declared reach its commands. What the gateway
    /// keeps to itself is not let through, even if a skill declares it: those names are returned.
    pub fn pass_variables(
        &self,
        session: &SessionId,
        names: impl IntoIterator<Item = String>,
    ) -> Vec<String> {
        let (refused, passed): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| environment::is_managed(name.trim()));
        if let Ok(site) = &self.site {
            self.state(&**site, session).inner().skills.extend(passed);
        }
        refused
    }

    /// Where the session's next command begins, if one has run: relative paths of other tools mean it.
    /// Where a session stands on this machine, for tools that share its directory.
    pub fn standing(&self, session: &SessionId) -> Option<PathBuf> {
        let is_local = self.site.as_ref().is_ok_and(|site| site.is_local());
        self.directory(session).filter(|_| is_local).map(PathBuf::from)
    }

    pub fn directory(&self, session: &SessionId) -> Option<String> {
        locked(&self.sessions).get(session).and_then(|state| state.inner().cwd.clone())
    }

    /// How many background processes run for this session.
    pub fn running(&self, session: &SessionId) -> usize {
        self.registry.running(session)
    }

    /// Ends the background processes of a session, or all of them. Returns how many there were.
    pub async fn end_processes(&self, session: Option<&SessionId>) -> usize {
        self.registry.end_all(session).await
    }

    fn state(&self, site: &dyn CommandSite, session: &SessionId) -> Arc<TerminalSession> {
        let mut sessions = locked(&self.sessions);
        if !sessions.contains_key(session) && sessions.len() >= SESSIONS_MAX {
            let rested =
                sessions.iter().min_by_key(|(_, state)| state.inner().last_used).map(|(id, _)| id.clone());
            rested.and_then(|id| sessions.remove(&id));
        }
        let fresh = || {
            let inner =
                TerminalSessionState { cwd: None, skills: BTreeSet::new(), last_used: Instant::now() };
            Arc::new(TerminalSession {
                script: SessionScript::new(&site.scratch()),
                snapshot: tokio::sync::Mutex::default(),
                inner: Mutex::new(inner),
            })
        };
        let state = sessions.entry(session.clone()).or_insert_with(fresh).clone();
        state.inner().last_used = Instant::now();
        state
    }
}

fn site_of(
    settings: &TerminalSettings,
    confine: Arc<dyn Confine>,
    scratch: &Path,
) -> Result<Arc<dyn CommandSite>, String> {
    let site: Result<Arc<dyn CommandSite>, String> = match &settings.backend {
        TerminalBackend::Local => Ok(Arc::new(LocalSite::new(settings, confine, scratch.to_owned()))),
        TerminalBackend::Docker => DockerSite::new(settings).map(|site| site as Arc<dyn CommandSite>),
        TerminalBackend::Ssh => {
            SshSite::new(settings, scratch).map(|site| Arc::new(site) as Arc<dyn CommandSite>)
        }
        TerminalBackend::Other(name) => Err(format!(
            "terminal.backend is '{name}', which is not available here; set it to local, docker or ssh"
        )),
    };
    site.map_err(|why| format!("The tools terminal and process are switched off: {why}."))
}

fn background_pid_file(site: &dyn CommandSite, id: &str) -> String {
    format!("{}/hermes_bg_{id}.pid", site.scratch().trim_end_matches('/'))
}

impl TerminalSession {
    fn inner(&self) -> MutexGuard<'_, TerminalSessionState> {
        locked(&self.inner)
    }
}

impl Drop for TerminalSession {
    /// Local ones; those of another machine lie in its temporary directory, readable by no other user.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.script.snapshot());
    }
}

impl Kit for TerminalKit {
    fn specs(&self) -> Vec<Spec> {
        match &self.site {
            Ok(_) => vec![
                schema::terminal(self.settings.timeout.as_secs(), self.settings.foreground_max.as_secs()),
                schema::process(),
            ],
            Err(_) => Vec::new(),
        }
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async move {
            let site = match &self.site {
                Ok(site) => site.clone(),
                Err(why) => {
                    return told(json!({"output": "", "exit_code": -1, "error": why, "status": "disabled"}));
                }
            };
            self.registry.wake();
            match call.name.as_str() {
                "terminal" => self.terminal(site, call).await,
                "process" => told(self.registry.call(&call.caller, &call.arguments).await),
                other => told(json!({"error": format!("Unknown tool: {other}")})),
            }
        })
    }

    fn is_busy(&self, session: &SessionId, age_max: Duration) -> bool {
        self.registry.is_busy(session, age_max)
    }

    fn forget(&self, session: &SessionId) {
        locked(&self.sessions).remove(session);
        self.registry.forget(session);
    }
}

/// As Hermes writes its results.
fn told(value: Value) -> Returned {
    Returned::text(dumps_unicode(&value))
}

fn refused(error: impl Into<String>, status: &str) -> Returned {
    told(json!({"output": "", "exit_code": -1, "error": error.into(), "status": status}))
}

impl TerminalKit {
    async fn terminal(&self, site: Arc<dyn CommandSite>, call: &Call) -> Returned {
        let request = match TerminalRequest::read(&call.arguments) {
            Ok(request) => request,
            Err(
                wrong @ (InvalidRequest::Command(_) | InvalidRequest::Argument(_) | InvalidRequest::Json(_)),
            ) => {
                return refused(wrong.sentence(), "error");
            }
        };
        if let Some(refusal) = self.refuse(&request) {
            return refusal;
        }
        let note = match self.judge.judge(call, &request.command).await {
            Judgement::Run { note } => note,
            Judgement::Ask { question, patience } => return Returned::Ask { question, patience },
            Judgement::Block(text) => return Returned::text(text),
        };
        let ready = {
            let site = site.clone();
            tokio::task::spawn_blocking(move || site.ready()).await
        };
        if let Err(why) = ready.unwrap_or_else(|error| Err(error.to_string())) {
            return refused(format!("Failed to execute command: {why}"), "error");
        }
        let state = self.state(&*site, &call.caller.session);
        let variables = environment::of_command(&self.settings, &state.inner().skills, &call.caller);
        let has_snapshot = self.bootstrap(&site, &state, &variables).await;
        let directory = self.directory_of(&*site, &state, &request);
        let place = RunPlace { site, state, variables, has_snapshot, directory };
        match request.background {
            true => self.background(place, call, request, note).await,
            false => self.foreground(place, call, request, note).await,
        }
    }

    /// What can be refused by looking, before anyone is asked.
    fn refuse(&self, request: &TerminalRequest) -> Option<Returned> {
        let longest = self.settings.foreground_max.as_secs();
        if let Some(seconds) =
            request.timeout_seconds.filter(|seconds| !request.background && *seconds > longest)
        {
            return Some(told(json!({"error": format!(
                "Foreground timeout {seconds}s exceeds the maximum of {longest}s. Use background=true with \
                 notify_on_complete=true for long-running commands."
            )})));
        }
        if let Some(advice) = advice::foreground(&request.command).filter(|_| !request.background) {
            return Some(refused(advice, "error"));
        }
        if advice::ends_gateway(&request.command) {
            let error = advice::LIFECYCLE_BLOCKED;
            return Some(told(json!({"output": "", "exit_code": 1, "error": error, "status": "error"})));
        }
        let workdir = request.workdir.as_deref().and_then(advice::workdir);
        workdir.map(|error| refused(error, "blocked"))
    }

    /// Captures the user's shell once for a session. Whether there is something to take up.
    async fn bootstrap(
        &self,
        site: &Arc<dyn CommandSite>,
        state: &TerminalSession,
        variables: &EnvironmentVariables,
    ) -> bool {
        let mut snapshot = state.snapshot.lock().await;
        if let Some(snapshot) = *snapshot {
            return snapshot == ProfileSnapshot::Ready;
        }
        let directory = site.first_directory();
        let script = state.script.bootstrap(&directory);
        let started_in = nearest_directory(Path::new(&directory));
        let job = ForegroundRun {
            command: site.command(&script, Shell::Login, variables, &started_in),
            stdin: None,
            abort: None,
            timeout: BOOTSTRAP_TIMEOUT,
            output_max_chars: 16 * 1024,
            key: String::new(),
            marker: state.script.marker().to_owned(),
        };
        let finished = run(site.clone(), self.spool.clone(), job).await;
        let outcome = match finished {
            Ok(finished) if finished.code == 0 => {
                let mut inner = state.inner();
                inner.cwd = inner.cwd.take().or(finished.output.cwd);
                ProfileSnapshot::Ready
            }
            _ => {
                tracing::warn!("the login shell failed: commands run without the user's profile");
                ProfileSnapshot::Missing
            }
        };
        *snapshot = Some(outcome);
        outcome == ProfileSnapshot::Ready
    }

    /// What the request names, else where the session is. A directory that is gone is left for the
    /// nearest one above it.
    fn directory_of(
        &self,
        site: &dyn CommandSite,
        state: &TerminalSession,
        request: &TerminalRequest,
    ) -> String {
        if let Some(workdir) = &request.workdir {
            return workdir.clone();
        }
        let known = state.inner().cwd.clone().unwrap_or_else(|| site.first_directory());
        match site.is_local() && !Path::new(&known).is_dir() {
            true => nearest_directory(Path::new(&known)).to_string_lossy().into_owned(),
            false => known,
        }
    }

    async fn foreground(
        &self,
        place: RunPlace,
        call: &Call,
        request: TerminalRequest,
        note: Option<String>,
    ) -> Returned {
        let timeout = request.timeout_seconds.map_or(self.settings.timeout, Duration::from_secs);
        let (command, stdin) = self.with_password(&request.command);
        let pid_file = (!place.site.is_local()).then(|| place.state.script.pid_file(&token()));
        let script =
            place.state.script.wrapped(&command, &place.directory, place.has_snapshot, pid_file.as_deref());
        let started_in = nearest_directory(Path::new(&place.directory));
        let _lease = place.site.lease();
        let job = ForegroundRun {
            command: place.site.command(&script, Shell::Plain, &place.variables, &started_in),
            stdin,
            abort: pid_file.as_deref().and_then(|file| place.site.abort(file)),
            timeout,
            output_max_chars: self.settings.output_max_chars,
            key: call.key.clone(),
            marker: place.state.script.marker().to_owned(),
        };
        match run(place.site.clone(), self.spool.clone(), job).await {
            Ok(finished) => {
                place.arrived(finished.output.cwd.as_deref(), request.workdir.is_some());
                self.result(finished, &request.command, note, &call.caller)
            }
            Err(error) => told(json!({
                "output": "",
                "exit_code": -1,
                "error": format!("Command execution failed: OSError: {error}"),
            })),
        }
    }

    /// sudo reads one line per call, and nothing else waits on standard input.
    fn with_password(&self, command: &str) -> (String, Option<String>) {
        let Some(password) = &self.settings.sudo_password else { return (command.to_owned(), None) };
        match advice::piped_sudo(command) {
            (_, 0) => (command.to_owned(), None),
            (piped, calls) => (piped, Some(format!("{}\n", password.expose()).repeat(calls))),
        }
    }

    fn result(
        &self,
        finished: foreground::FinishedRun,
        command: &str,
        note: Option<String>,
        caller: &Caller,
    ) -> Returned {
        let mut output = finished.output.text;
        if caller.source != "cli" && advice::sudo_asked(&output) {
            let home = self.settings.home.display();
            output.push_str(&format!(
                "\n\n💡 Tip: To enable sudo over messaging, add SUDO_PASSWORD to {home}/.env on the agent machine."
            ));
        }
        let is_sudo_refused = advice::sudo_refused(&output);
        let mut shown = strip_ansi(&output).trim().to_owned();
        if let Some(password) =
            self.settings.sudo_password.as_ref().filter(|password| !password.expose().is_empty())
        {
            // sudo leaves it on the input when it does not ask, and the next command may print it.
            shown = shown.replace(password.expose(), "[REDACTED]");
        }
        if self.settings.redact_secrets {
            let purpose = if lists_environment(command) { Purpose::Environment } else { Purpose::Output };
            shown = redacted_for(purpose, &shown);
        }
        let is_denied = shown.contains("Permission denied") || shown.contains("Operation not permitted");
        if let (true, Some(hint)) = (is_denied, self.hint.as_deref()) {
            shown.push_str(&format!("\n\n💡 {hint}"));
        }
        let mut result = json!({"output": shown, "exit_code": finished.code, "error": null});
        match finished.output.whole {
            Some(WholeOutput::At { path, bytes, is_cut }) => {
                result["full_output"] = json!(path);
                result["full_output_bytes"] = json!(bytes);
                if is_cut {
                    result["full_output_note"] =
                        json!("The file holds the beginning only: the output was longer.");
                }
            }
            Some(WholeOutput::Lost(why)) => {
                result["full_output_note"] = json!(format!("The whole output could not be kept: {why}"));
            }
            None => {}
        }
        if let Some(note) = note {
            result["approval"] = json!(note);
        }
        if let Some(meaning) = advice::exit_code(command, finished.code) {
            result["exit_code_meaning"] = json!(meaning);
        }
        if is_sudo_refused {
            result["sudo_auth_failed"] = json!(true);
        }
        told(result)
    }
}

/// Everything about where one command runs.
struct RunPlace {
    site: Arc<dyn CommandSite>,
    state: Arc<TerminalSession>,
    variables: EnvironmentVariables,
    has_snapshot: bool,
    directory: String,
}

impl RunPlace {
    /// The session goes where its command went. A directory that was meant for one command stays
    /// that command's, unless it went elsewhere itself.
    fn arrived(&self, cwd: Option<&str>, was_named: bool) {
        let Some(cwd) = cwd else { return };
        let started =
            std::fs::canonicalize(&self.directory).unwrap_or_else(|_| PathBuf::from(&self.directory));
        let has_moved = Path::new(cwd) != started;
        let exists = !self.site.is_local() || Path::new(cwd).is_dir();
        if exists && (!was_named || has_moved) {
            self.state.inner().cwd = Some(cwd.to_owned());
        }
    }
}

impl RunPlace {
    /// The user's own login shell, interactive, as Hermes starts background commands: what their
    /// terminals know is known here.
    fn local(&self, command: &str, session: impl Fn(&Path, Option<&std::ffi::OsStr>) -> Command) -> Command {
        let variable =
            |name: &str| self.variables.get(std::ffi::OsStr::new(name)).map(|value| value.as_os_str());
        let path = variable("PATH");
        let own = variable("SHELL").map(PathBuf::from).filter(|shell| {
            let name = shell.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            shell.is_file() && ["bash", "zsh", "sh", "dash", "ksh", "mksh"].contains(&name)
        });
        let shell = own.or_else(|| find_program("bash", path)).unwrap_or_else(|| "/bin/sh".into());
        let is_bash = shell.file_name().is_some_and(|name| name == "bash");
        let exports = match self.has_snapshot && is_bash {
            true => format!(". {} >/dev/null 2>&1; ", quoted(self.state.script.snapshot())),
            false => String::new(),
        };
        let mut prepared = session(&shell, path);
        prepared.arg("-lic").arg(format!("set +m; {exports}{command}"));
        prepared.env_clear().envs(&self.variables).env("PYTHONUNBUFFERED", "1");
        prepared.current_dir(nearest_directory(Path::new(&self.directory)));
        prepared
    }
}

const SILENT: &str = "background=true without notify_on_complete=true means this process runs SILENTLY — you will not \
    be told when it exits. If this is a bounded task (test suite, build, CI poller, deploy, anything with a defined \
    end), you almost certainly wanted notify_on_complete=true so the system pings you on exit. Re-launch with \
    notify_on_complete=true, or call process(action='poll') / process(action='wait') yourself to learn the outcome. \
    Only ignore this hint for genuine long-lived processes that never exit (servers, watchers, daemons).";

const NO_NOTICES: &str = "notify_on_complete / watch_patterns are not available in this session — it cannot receive an \
    async completion after the turn ends (a one-shot runner such as `hermes -z` or a cron job, or a stateless HTTP \
    endpoint). The process is running in the background; retrieve its result with process(action='poll') or \
    process(action='wait').";

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests;
