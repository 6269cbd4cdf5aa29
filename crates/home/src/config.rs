//! What the user wrote, and what the program means by it.
//!
//! [`Written`] is everything that can say something about one home: `config.yaml`, `.env`, the
//! environment, the command line. [`Written::report`] turns it into [`Settings`], once, and says for
//! each value where it came from. What follows never looks at a file or a variable again.
//!
//! - `.env` wins over the environment, as in Hermes, and an empty value there hides the other
//! - where Hermes lets the file win over the environment (`agent`, `display`, `timezone`) so do we;
//!   for the API it is the other way round, in Hermes as here
//! - a setting that cannot be meant as it stands is an error with its place; one that Hermes would
//!   forgive is a warning
//! - no message and no row shows a secret
//!
//! Deliberately absent: writing anything, and choosing the home.

mod carried;
mod meaning;
mod model;
mod report;

pub use carried::{becomes, in_a_line};
pub use meaning::unresolved;
pub use model::{Endpoint, ModelChoice, ModelTimeouts};
pub use report::{Remark, Report, Row};

use crate::home::{Home, KEY_FILE};
use anyhow::Context;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::compression::boundary;
use throughline_core::lifecycle::{Mode, Policies, Policy};
use throughline_core::session::BusyInput;
use throughline_hermes::config::hooks::Hooks;
use throughline_hermes::config::platforms::Platforms;
use throughline_hermes::config::plugins::Plugins;
use throughline_hermes::config::{At, Config, MediaDelivery, Place, Secret, Tools, excerpt};
use throughline_hermes::env::Dotenv;
use throughline_hermes::log::Level;
use throughline_hermes::profile::ProfileRoutes;

const CONFIG_FILE: &str = "config.yaml";
const ENV_FILE: &str = ".env";
/// What Hermes read before `config.yaml` had it all.
const LEGACY_FILE: &str = "gateway.json";
/// Hermes' scheduled jobs.
const JOBS_FILE: &str = "cron/jobs.json";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// A default that depends on something: on what.
    Because(String),
    Config {
        line: usize,
    },
    Dotenv {
        line: usize,
    },
    Environment,
    CommandLine,
    /// The file in the home that holds the API's key.
    KeyFile,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => formatter.write_str("default"),
            Origin::Because(reason) => write!(formatter, "default: {reason}"),
            Origin::Config { line } => write!(formatter, "{CONFIG_FILE}:{line}"),
            Origin::Dotenv { line } => write!(formatter, "{ENV_FILE}:{line}"),
            Origin::Environment => formatter.write_str("environment"),
            Origin::CommandLine => formatter.write_str("command line"),
            Origin::KeyFile => formatter.write_str(KEY_FILE),
        }
    }
}

/// A value, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Sourced<T> {
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    fn map<U>(self, change: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced { value: change(self.value), origin: self.origin }
    }
}

impl<T> From<At<T>> for Sourced<T> {
    fn from(at: At<T>) -> Self {
        Sourced { value: at.value, origin: Origin::Config { line: at.place.line } }
    }
}

/// The variables that the process was started with.
#[derive(Clone, Default)]
pub struct Environment(HashMap<String, String>);

impl Environment {
    /// Names and values that are not Unicode are no settings.
    pub fn of_this_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let mut variables: HashMap<String, String> = std::env::vars_os().filter_map(text).collect();
        if cfg!(windows) {
            // `Path` and `PATH` are one there, and the user's directory has another name.
            variables = variables.into_iter().map(|(name, value)| (name.to_uppercase(), value)).collect();
            if let Some(user) = variables.get("USERPROFILE").cloned() {
                variables.entry("HOME".to_owned()).or_insert(user);
            }
        }
        Self(variables)
    }

    pub fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    /// Names of variables that have a value.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.as_str())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} variables", self.0.len()) // their values may be secret
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }
}

/// What the command line says, beside the home.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub model: Option<String>,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub log_level: Option<String>,
}

/// Everything that says something about one home.
pub struct Written {
    home: Home,
    overrides: Overrides,
    environment: Environment,
    dotenv: Dotenv,
    config: Config,
    config_text: String,
    /// What `gateway.json` says.
    legacy: Option<String>,
    /// What Hermes has and we do not read.
    neighbours: Vec<Remark>,
    /// What `cron/jobs.json` says.
    jobs: Option<String>,
}

/// Hermes' levels of thinking.
pub const EFFORTS: [&str; 8] = ["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"];

/// What the program does. Validated: nothing here is looked at twice.
#[derive(Clone, Debug)]
pub struct Settings {
    pub model: ModelChoice,
    pub api: Api,
    pub busy_input: Sourced<BusyInput>,
    /// How long a stopping gateway waits for what is running.
    pub drain: Sourced<Duration>,
    /// The most steps of one turn.
    pub steps_max: Sourced<u64>,
    /// How much the model is to think, where a conversation says nothing else. None: as its provider likes.
    pub reasoning_effort: Option<Sourced<String>>,
    /// The most tokens of one turn.
    pub turn_tokens_max: Option<Sourced<u64>>,
    /// What one human message may cause among agents.
    pub chain: throughline_core::chain::Limits,
    /// Local commands are kept from the homes' secrets and policy.
    #[cfg_attr(not(unix), allow(dead_code))] // there are no commands to confine
    pub landlock: Sourced<bool>,
    /// Names in the home that its agent may read and write although they are unknown here.
    pub open_in_home: Vec<String>,
    /// Without a memory provider: conversations that begin are reminded of earlier ones.
    pub recollects: Sourced<bool>,
    /// Where several people can write, each has notes of their own.
    pub memory_per_person: Sourced<bool>,
    /// Features that the home asks for and that are not carried, for a line at the start.
    pub not_carried: Vec<String>,
    /// How long a turn waits for what its memory knows, in milliseconds.
    pub recall_patience: Sourced<u64>,
    /// How often the gateway looks for expired sessions, in seconds.
    pub expiry_watch: Sourced<u64>,
    pub tools: Tools,
    /// What `.env` defines: no command gets to see it.
    pub secrets: BTreeMap<String, Secret>,
    /// The variables that the process was started with.
    pub environment: Environment,
    /// The options that it was started with: they count for what is read later, too.
    pub overrides: Overrides,
    pub compression: Compression,
    pub review: Review,
    pub session_reset: SessionReset,
    pub hooks: Hooks,
    pub plugins: Plugins,
    /// Where people write.
    pub platforms: Platforms,
    pub timezone: Option<Sourced<String>>,
    /// A filter for `tracing`.
    pub log_level: Sourced<String>,
    /// The files in the home's `logs`.
    pub logs: Logs,
    /// The process that serves this home serves every profile below it.
    pub multiplex_profiles: Sourced<bool>,
    /// Which messages to this home's bots are for other profiles.
    pub profile_routes: ProfileRoutes,
    /// Which files a reply may send.
    pub media_delivery: MediaDelivery,
    /// The home may lie where a write-ahead log is not known to be safe.
    pub allow_unsafe_filesystem: Sourced<bool>,
}

#[derive(Clone, Debug)]
pub struct Api {
    pub host: Sourced<String>,
    /// 0: any that is free.
    pub port: Sourced<u16>,
    /// None: the key in the home's own file, which is made at the first start.
    pub key: Option<Sourced<Secret>>,
    pub body_limit_bytes: Sourced<u64>,
    /// Web pages of these origins may ask, if they have the key.
    pub cors_origins: Sourced<Vec<String>>,
    pub stop_on_disconnect: Sourced<bool>,
}

/// How the home's log files are kept.
#[derive(Clone, Debug)]
pub struct Logs {
    pub level: Level,
    /// A file that would become larger is put aside.
    pub bytes_max: u64,
    /// How many that were put aside stay.
    pub backups: u64,
}

/// When a conversation is reviewed.
#[derive(Clone, Debug)]
pub struct Review {
    /// After how many turns of people, and how many steps with calls. Zero: never.
    pub turns: Sourced<u64>,
    pub steps: Sourced<u64>,
    /// `off`, `on` or `verbose`, in general and by platform.
    pub notices: Sourced<String>,
    pub notices_of: Vec<(String, String)>,
    /// Who does, if not the model that answers.
    pub reviewer: Option<ModelChoice>,
}

#[derive(Clone, Debug)]
pub struct Compression {
    pub enabled: Sourced<bool>,
    /// How much the model that answers can read and write in all, in tokens.
    pub window: Sourced<u64>,
    /// The part of the window at which a compression begins.
    pub threshold: Sourced<f64>,
    /// How much of what precedes the cut stays as it is.
    pub target_ratio: Sourced<f64>,
    pub protect_first: Sourced<u64>,
    pub protect_last: Sourced<u64>,
    /// Nothing is compressed ahead of time below this, where the window is large enough.
    pub floor: Sourced<u64>,
    /// Who writes summaries, if not the model that answers.
    pub summariser: Option<ModelChoice>,
    /// How long one summary may take.
    pub timeout: Sourced<Duration>,
}

impl Compression {
    /// What becomes of it in the window of the model that answers.
    pub fn shares(&self, model: Option<&ModelChoice>) -> boundary::Settings {
        let small = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let reserve = match model {
            Some(ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint)) => {
                endpoint.max_tokens.as_ref().map_or(0, |max| max.value)
            }
            Some(ModelChoice::Rehearsal) | None => 0,
        };
        boundary::Settings {
            window: self.window.value,
            output_reserve: reserve,
            threshold: self.threshold.value,
            target_ratio: self.target_ratio.value,
            protect_first: small(self.protect_first.value),
            protect_last: small(self.protect_last.value),
            floor: self.floor.value,
        }
    }
}

impl Settings {
    /// What a variable says, in `.env` or else in the environment.
    pub fn variable(&self, name: &str) -> Option<String> {
        match self.secrets.get(name) {
            Some(secret) => Some(secret.expose().to_owned()),
            None => self.environment.get(name),
        }
    }
}

#[derive(Clone, Debug)]
pub struct SessionReset {
    pub mode: Sourced<ResetMode>,
    pub at_hour: Sourced<u64>,
    pub idle_minutes: Sourced<u64>,
    /// With what holds instead on some platforms and in some kinds of chat.
    pub policies: Policies,
}

/// When a conversation ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetMode {
    Never,
    Daily,
    Idle,
    Both,
}

impl Home {
    /// What this home's files and the environment mean, for a command: parsed at the first call, and the same for
    /// every later one. A gateway lives on while people edit the files; it asks [`Home::settings_now`].
    pub fn settings(&self, environment: &Environment) -> anyhow::Result<Arc<Settings>> {
        if let Some(known) = self.settings.get() {
            return Ok(known.clone());
        }
        let (settings, _) = self.settings_now(environment, Overrides::default())?;
        Ok(self.settings.get_or_init(|| Arc::new(settings)).clone())
    }

    /// The settings as the files stand now, with the warnings about them.
    pub fn settings_now(
        &self,
        environment: &Environment,
        overrides: Overrides,
    ) -> anyhow::Result<(Settings, Vec<Remark>)> {
        self.report(environment, overrides)?.into_settings()
    }

    /// Everything there is to say about the files as they stand now. The error: a file is there and cannot be read.
    pub fn report(&self, environment: &Environment, overrides: Overrides) -> anyhow::Result<Report> {
        let written = Written::read(self, environment, overrides)?;
        Ok(written.map_or_else(|refusal| refusal, |written| written.report()))
    }

    /// What `.env`, or else the environment, says of a variable; also where `config.yaml` is no settings file.
    pub fn variables(&self, environment: &Environment) -> impl Fn(&str) -> Option<String> {
        let dotenv = fs::read(self.path().join(ENV_FILE)).unwrap_or_default();
        let dotenv = Dotenv::parse(&dotenv, &|name| environment.get(name));
        let environment = environment.clone();
        move |name| match dotenv.get(name) {
            Some(variable) => Some(variable.value.expose().to_owned()),
            None => environment.get(name),
        }
    }
}

impl Written {
    /// Reads the files of a home, which need not exist. The outer error: a file is there and cannot
    /// be read. The inner one: `config.yaml` is no settings file at all.
    pub fn read(
        home: &Home,
        environment: &Environment,
        overrides: Overrides,
    ) -> anyhow::Result<Result<Written, Report>> {
        home.refuse_other_than_directory()?;
        let dotenv = file(&home.path().join(ENV_FILE))?.unwrap_or_default();
        let dotenv = Dotenv::parse(&dotenv, &|name| environment.get(name));
        let bytes = file(&home.path().join(CONFIG_FILE))?.unwrap_or_default();
        let config_text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let refusal = Report::refusal(not_utf8(error.as_bytes(), error.utf8_error().valid_up_to()));
                return Ok(Err(refusal.locate(home.path())));
            }
        };
        let variable = |name: &str| match dotenv.get(name) {
            Some(variable) => Some(variable.value.expose().to_owned()),
            None => environment.get(name),
        };
        let config = match Config::parse(&config_text, &variable) {
            Ok(config) => config,
            Err(error) => {
                let remark = malformed(error.place, error.message, &config_text);
                return Ok(Err(Report::refusal(remark).locate(home.path())));
            }
        };
        let neighbours = neighbours(home.path(), &variable);
        let (home, environment) = (home.clone(), environment.clone());
        let legacy = file(&home.path().join(LEGACY_FILE))?;
        let legacy = legacy.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let jobs = file(&home.path().join(JOBS_FILE))?;
        let jobs = jobs.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(Ok(Written {
            home,
            overrides,
            environment,
            dotenv,
            config,
            config_text,
            legacy,
            neighbours,
            jobs,
        }))
    }

    /// A variable that is set to something: in `.env`, else in the environment, else at the top of
    /// `config.yaml`, where Hermes looks for them, too.
    fn variable(&self, name: &str) -> Option<Sourced<Secret>> {
        let found = match self.dotenv.get(name) {
            Some(variable) => Sourced::new(variable.value.clone(), Origin::Dotenv { line: variable.line }),
            None => match self.environment.get(name) {
                Some(value) => Sourced::new(Secret::new(value), Origin::Environment),
                None => {
                    let (_, at) = self.config.settings.variables.iter().find(|(known, _)| known == name)?;
                    at.clone().into()
                }
            },
        };
        (!found.value.expose().trim().is_empty()).then_some(found)
    }

    /// An error in `config.yaml`, with the line itself.
    fn at(&self, place: Place, text: &str) -> Remark {
        malformed(place, text.to_owned(), &self.config_text)
    }
}

fn file(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("could not read {}", path.display())),
    }
}

fn malformed(place: Place, text: String, source: &str) -> Remark {
    Remark { place: Some(place_in(CONFIG_FILE, place)), text, excerpt: Some(excerpt(source, place)) }
}

fn place_in(file: &str, place: Place) -> String {
    format!("{file}:{}:{}", place.line, place.column)
}

fn not_utf8(bytes: &[u8], at: usize) -> Remark {
    let before = String::from_utf8_lossy(&bytes[..at]);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Remark {
        place: Some(place_in(CONFIG_FILE, Place { line, column })),
        text: "this is not UTF-8; save the file in that encoding".to_owned(),
        excerpt: None,
    }
}

/// Files that Hermes would read as well. That we do not must not go unsaid.
fn neighbours(home: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Vec<Remark> {
    let managed = variable("HERMES_MANAGED_DIR").filter(|path| !path.trim().is_empty());
    let managed = Path::new(managed.as_deref().unwrap_or("/etc/hermes")).join(CONFIG_FILE);
    let legacy = home.join("gateway.json");
    let partly = |path: &Path| Remark {
        place: None,
        text: format!(
            "of {} only platforms and reset policies are read; move the rest to config.yaml, where Hermes looks first",
            path.display()
        ),
        excerpt: None,
    };
    let unread = |path: &Path, instead: &str| Remark {
        place: None,
        text: format!("{} is not read; {instead}", path.display()),
        excerpt: None,
    };
    let mut remarks = Vec::new();
    if legacy.exists() {
        remarks.push(partly(&legacy));
    }
    if managed.exists() {
        remarks
            .push(unread(&managed, "what an administrator set there for Hermes does not bind Throughline"));
    }
    remarks
}

#[cfg(test)]
mod tests;
