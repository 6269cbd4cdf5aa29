//! A plugin as the gateway sees it: something that can be asked.
//!
//! - nothing runs before it is needed, and nothing runs while it is not: no timer, no poll
//! - every call ends within its deadline: starting, waiting for others and being refused included
//! - a process that died is started again by the next call, at once the first time and ever later after
//!   that; one that does not answer is left alone, until it answers a [`ping`](method::PING)
//! - what a plugin can do is known from its first introduction on, and counts until it says otherwise;
//!   where it is remembered from an earlier process, nothing has to run for it to be known
//!
//! Deliberately absent: what an answer means. That is for those who ask: [`engine`](crate::engine),
//! [`provider`](crate::provider), [`kit`](crate::tools), [`hooks`](crate::hooks).

use crate::log::PluginRedactor;
use crate::process::{self, AnswerModel, Begun, LaunchSpec, NonsenseCount, PluginProcess, Unanswered};
use crate::protocol::{
    Close, CommandRun, GUARD, Initialize, Initialized, Nothing, Program, Scope, Scoped, Text, VERSION,
    VERSION_MIN, code, method,
};
use crate::settings::{Deadlines, PluginSettings};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// Why a call came to nothing, by what its caller can conclude. Each is a sentence, free of secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It has certainly not been asked.
    #[error("{0}")]
    Unasked(String),
    /// It was asked; whether it did it is unknown.
    #[error("{0}")]
    Unknown(String),
    /// It cannot be asked this, ever.
    #[error("{0}")]
    TooLong(String),
    /// It answered that it did not work.
    #[error("{message}")]
    Refused { code: i64, message: String },
}

impl CallError {
    /// The error's code, where the plugin itself gave one.
    pub fn code(&self) -> Option<i64> {
        match self {
            CallError::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// Hears what a plugin can do, each time it says so.
pub type Introduced = Arc<dyn Fn(&Initialized) + Send + Sync>;

/// What may take longer is not counted with what may not.
const SOON: Duration = Duration::from_secs(60);

/// How a plugin is doing, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginState {
    /// It does not run, and is not needed.
    Idle,
    Running,
    /// It died, and is not started again before this has passed.
    BackingOff(Duration),
    /// It does not answer, and is not asked before this has passed.
    Broken(Duration),
    /// It cannot be worked with as it is.
    Refused(String),
    /// It has not come to life the last time it was started, and is tried again.
    Failed,
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginStatus {
    /// What the user calls it.
    pub plugin: String,
    /// What it calls itself.
    pub name: String,
    pub version: String,
    pub state: PluginState,
    pub process: Option<u32>,
    pub calls: u64,
    /// Calls without a useful answer, those out of time among them.
    pub failures: u64,
    pub timeouts: u64,
    pub restarts: u64,
    /// Lines that were no message, and answers that no caller waited for.
    pub nonsense: u64,
    pub last_error: Option<String>,
    /// What the user should know of it, in sentences.
    pub notes: Vec<String>,
}

/// One plugin of one agent. Clones are the same plugin; with the last of them its process ends.
#[derive(Clone)]
pub struct Host(Arc<HostShared>);

struct HostShared {
    settings: PluginSettings,
    redactor: PluginRedactor,
    model: Option<AnswerModel>,
    /// For what is soon done, and for what takes its time: a slow tool must not hold up a turn.
    slots: [Semaphore; 2],
    standing: Mutex<HostStatus>,
    introduced: OnceLock<Introduced>,
    tally: Arc<NonsenseCount>,
    calls: AtomicU64,
    failures: AtomicU64,
    timeouts: AtomicU64,
    starts: AtomicU64,
    revision: AtomicU64,
}

type Starting = Shared<BoxFuture<'static, Result<Arc<PluginProcess>, CallError>>>;

#[derive(Default)]
struct HostStatus {
    link: Option<Arc<PluginProcess>>,
    starting: Option<Starting>,
    abilities: Option<Arc<Initialized>>,
    /// They stay as they are, even if it says otherwise later.
    settled: bool,
    /// Deaths one after the other.
    deaths: u32,
    /// Calls without an answer one after the other, and how often that was too much.
    unanswered: u32,
    trips: u32,
    pause: Option<Pause>,
    probing: bool,
    stopped: bool,
    /// The last start came to nothing.
    unstarted: bool,
    /// Questions that a turn waits for, and that had no answer in time.
    given_up: HashMap<&'static str, GivenUp>,
    last_error: Option<String>,
    notes: Vec<String>,
    /// What others have to say of it: it stays, however often it starts.
    remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct GivenUp {
    /// One after the other.
    times: u32,
    until: Instant,
}

#[derive(Clone, Debug)]
struct Pause {
    until: Instant,
    why: PauseReason,
}

#[derive(Clone, Debug)]
enum PauseReason {
    Died,
    Broken,
    Refused(String),
}

/// What a call may do now.
enum CallGate {
    Open,
    /// It goes ahead of all others, and finds out whether the plugin is well again.
    Probe,
}

impl Host {
    /// `model` answers what the plugin asks of a model; without it that is not offered.
    pub fn new(settings: PluginSettings, model: Option<AnswerModel>) -> Self {
        let inner = HostShared {
            redactor: PluginRedactor::new(&settings),
            slots: [(); 2].map(|()| Semaphore::new(settings.limits.at_once.max(1))),
            settings,
            model,
            standing: Mutex::default(),
            introduced: OnceLock::new(),
            tally: Arc::default(),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
            starts: AtomicU64::new(0),
            revision: AtomicU64::new(0),
        };
        Self(Arc::new(inner))
    }

    pub fn name(&self) -> &str {
        &self.0.settings.name
    }

    pub fn deadlines(&self) -> &Deadlines {
        &self.0.settings.deadlines
    }

    /// Starts it, if it does not run, and says what it can do.
    pub async fn start(&self) -> Result<Arc<Initialized>, CallError> {
        let until = Instant::now() + self.deadlines().start + self.deadlines().ping;
        self.ready(until).await?;
        self.abilities()
            .ok_or_else(|| CallError::Unasked(format!("{} has not introduced itself.", self.who())))
    }

    /// What it said it can do, the last time it was started.
    pub fn abilities(&self) -> Option<Arc<Initialized>> {
        self.0.standing().abilities.clone()
    }

    /// What it could do when it last ran, for as long as it has not introduced itself.
    pub fn remembered_as(&self, abilities: Initialized) {
        let mut standing = self.0.standing();
        if standing.abilities.is_none() {
            standing.abilities = Some(Arc::new(abilities));
            self.0.revision.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What it could do when it last ran, and counts for as long as this host does: a list of tools that
    /// changes in the middle of a conversation costs everything that was cached of it. What it says of itself later
    /// is for those who hear its introductions.
    pub fn settled_as(&self, abilities: Initialized) {
        let mut standing = self.0.standing();
        standing.settled = true;
        if standing.abilities.as_deref() != Some(&abilities) {
            standing.abilities = Some(Arc::new(abilities));
            self.0.revision.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whom it tells what it can do. The first one counts.
    pub fn introduces_itself_to(&self, introduced: Introduced) {
        let _ = self.0.introduced.set(introduced);
    }

    /// Changes whenever what it can do has changed.
    pub fn revision(&self) -> u64 {
        self.0.revision.load(Ordering::Relaxed)
    }

    /// Asks, and waits for no longer than `time` in all cases.
    pub async fn ask<P: Serialize, R: DeserializeOwned>(
        &self,
        method: &str,
        params: &P,
        time: Duration,
    ) -> Result<R, CallError> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let asked = self.asked(method, params, Instant::now() + time, time).await;
        if let Err(error) = &asked {
            self.0.failures.fetch_add(1, Ordering::Relaxed);
            self.0.standing().last_error = Some(error.to_string());
        }
        asked
    }

    async fn asked<P: Serialize, R: DeserializeOwned>(
        &self,
        method: &str,
        params: &P,
        until: Instant,
        time: Duration,
    ) -> Result<R, CallError> {
        let who = self.who();
        let busy = || {
            self.0.timeouts.fetch_add(1, Ordering::Relaxed);
            let seconds = time.as_secs_f32();
            CallError::Unasked(format!("{who} was too busy to be asked {method} within {seconds} s."))
        };
        self.0.gate_is_shut()?; // a call that is refused anyway does not wait
        self.0.is_given_up(method)?;
        let slots = &self.0.slots[usize::from(time > SOON)];
        let _slot = match timeout_at(until, slots.acquire()).await {
            Ok(Ok(slot)) => slot,
            Ok(Err(_)) | Err(_) => return Err(busy()),
        };
        let link = match timeout_at(until, self.ready(until)).await {
            Ok(link) => link?,
            Err(_) => return Err(busy()),
        };
        let awaited = Awaited::new(&self.0, method);
        let answer = link.ask(method, params, until).await;
        match answer {
            Err(Unanswered::Late { .. } | Unanswered::Lost { .. }) => awaited.over(),
            _ => awaited.answered(),
        }
        match answer {
            Ok(said) => {
                self.0.answered();
                serde_json::from_str(said.get()).map_err(|error| {
                    // What serde says quotes the answer.
                    let error = self.0.redactor.clean(&error.to_string());
                    let message = format!("{who} answered {method} with something else ({error}).");
                    CallError::Refused { code: code::FAILED, message }
                })
            }
            Err(Unanswered::Fault(fault)) => {
                self.0.answered();
                let said = self.0.redactor.clean(fault.message.trim());
                let message = match said.is_empty() {
                    true => format!("{who} could not do {method} (error {}).", fault.code),
                    false => format!("{who} could not do {method}: {said}"),
                };
                Err(CallError::Refused { code: fault.code, message })
            }
            Err(Unanswered::TooLong) => {
                Err(CallError::TooLong(format!("There is too much in this {method} for {who} to take.")))
            }
            Err(Unanswered::Late { sent }) => {
                self.0.timeouts.fetch_add(1, Ordering::Relaxed);
                self.0.unanswered();
                if time > self.deadlines().ping {
                    self.look_after(link);
                }
                let seconds = time.as_secs_f32();
                let message = format!("{who} did not answer {method} within {seconds} s.");
                Err(match sent {
                    true => CallError::Unknown(message),
                    false => CallError::Unasked(message),
                })
            }
            Err(Unanswered::Lost { sent, why }) => {
                self.0.unanswered();
                let message = format!("{who} was lost during {method}: {why}.");
                Err(match sent {
                    true => CallError::Unknown(message),
                    false => CallError::Unasked(message),
                })
            }
        }
    }

    /// A plugin that had much time for an answer and gave none is pinged: three such calls would take minutes before
    /// it counted as broken. One that does not answer the ping is left alone; it may still be at it, so it is not ended.
    fn look_after(&self, link: Arc<PluginProcess>) {
        let (inner, patience) = (Arc::downgrade(&self.0), self.deadlines().ping);
        tokio::spawn(async move {
            let said = link.ask(method::PING, &Nothing {}, Instant::now() + patience).await;
            if let Err(Unanswered::Late { .. }) = said
                && let Some(inner) = inner.upgrade()
            {
                inner.still_broken();
            }
        });
    }

    /// Something that the user should know of it, for its status: said once.
    pub fn note(&self, words: String) {
        let mut standing = self.0.standing();
        if !standing.remarks.contains(&words) {
            standing.remarks.push(words);
        }
    }

    /// Whether it decides about tools and its decisions are not known yet.
    pub fn is_unheard_guard(&self) -> bool {
        self.0.settings.guards && self.abilities().is_none()
    }

    /// Whether it decides about tools, as far as is known.
    pub fn is_guard(&self) -> bool {
        let declares = |known: Arc<Initialized>| known.hooks.iter().any(|hook| hook.event == GUARD);
        self.0.settings.guards || self.abilities().is_some_and(declares)
    }

    /// Tells it something, if it runs: one that does not has nothing to be told.
    pub fn tell<P: Serialize>(&self, method: &str, params: &P) {
        let link = self.0.standing().link.clone();
        if let Some(link) = link {
            link.tell(method, params);
        }
    }

    /// A session began, or goes on after a start. Only for those that want to know.
    pub fn opened(&self, scope: Scope) {
        if self.wants_scopes() {
            self.tell(method::OPENED, &Scoped { scope });
        }
    }

    /// A session is over: what the plugin has buffered for it is out once this is done.
    pub async fn close(&self, close: &Close) -> Result<(), CallError> {
        match self.wants_scopes() {
            true => {
                self.ask::<_, serde_json::Value>(method::CLOSE, close, self.deadlines().close).await.map(drop)
            }
            false => Ok(()),
        }
    }

    fn wants_scopes(&self) -> bool {
        let Some(abilities) = self.abilities() else { return false };
        let engine = abilities.engine.iter().flat_map(|engine| &engine.methods);
        let provider = abilities.provider.iter().flat_map(|provider| &provider.methods);
        engine.chain(provider).any(|method| method == "scope")
    }

    /// A person wrote `/name arguments`, and it is one of the plugin's.
    pub async fn command(&self, run: &CommandRun) -> Result<String, CallError> {
        let said: Option<Text> = self.ask(method::COMMAND, run, self.deadlines().command).await?;
        Ok(said.unwrap_or_default().text)
    }

    /// Ends it for good: it is told, its input ends, and what is left of it after its time is killed.
    pub async fn stop(&self) {
        let (link, starting) = {
            let mut standing = self.0.standing();
            standing.stopped = true;
            (standing.link.take(), standing.starting.take())
        };
        drop(starting);
        if let Some(link) = link {
            farewell(&link, self.deadlines().stop).await;
        }
    }

    /// Ends its process, unless a call waits for it. The next call starts another.
    pub async fn rest(&self) {
        let link = self.0.standing().link.take_if(|link| link.in_flight() == 0);
        if let Some(link) = link {
            farewell(&link, self.deadlines().stop).await;
        }
    }

    pub fn status(&self) -> PluginStatus {
        let inner = &self.0;
        let standing = inner.standing();
        let left = |pause: &Pause| pause.until.saturating_duration_since(Instant::now());
        let paused = standing.pause.as_ref().filter(|pause| !left(pause).is_zero());
        let state = match (&standing.link, paused) {
            _ if standing.stopped => PluginState::Stopped,
            (_, Some(Pause { why: PauseReason::Refused(why), .. })) => PluginState::Refused(why.clone()),
            (_, Some(pause @ Pause { why: PauseReason::Broken, .. })) => PluginState::Broken(left(pause)),
            (Some(_), _) => PluginState::Running,
            (None, Some(pause)) => PluginState::BackingOff(left(pause)),
            (None, None) if standing.unstarted => PluginState::Failed,
            (None, None) => PluginState::Idle,
        };
        let abilities = standing.abilities.as_ref();
        let mut notes = standing.notes.clone();
        notes.extend(standing.remarks.iter().cloned());
        notes.extend(abilities.iter().flat_map(|abilities| abilities.notes.clone()));
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PluginStatus {
            plugin: inner.settings.name.clone(),
            name: abilities.map(|abilities| abilities.name.clone()).unwrap_or_default(),
            version: abilities.map(|abilities| abilities.version.clone()).unwrap_or_default(),
            state,
            process: standing.link.as_ref().and_then(|link| link.process),
            calls: count(&inner.calls),
            failures: count(&inner.failures),
            timeouts: count(&inner.timeouts),
            restarts: count(&inner.starts).saturating_sub(1),
            nonsense: count(&inner.tally.nonsense) + count(&inner.tally.strays),
            last_error: standing.last_error.clone(),
            notes,
        }
    }

    fn who(&self) -> String {
        format!("The plugin {}", self.0.settings.name)
    }

    /// A process that has introduced itself, and answers.
    async fn ready(&self, until: Instant) -> Result<Arc<PluginProcess>, CallError> {
        match self.0.gate()? {
            CallGate::Open => self.running().await,
            CallGate::Probe => {
                let _probing = Probing(&self.0);
                let link = self.running().await?;
                let patience = until.min(Instant::now() + self.deadlines().ping);
                match link.ask(method::PING, &Nothing {}, patience).await {
                    Ok(_) | Err(Unanswered::Fault(_)) => {
                        self.0.answered();
                        Ok(link)
                    }
                    Err(_) => {
                        self.0.still_broken();
                        if link.in_flight() == 0 {
                            link.die("it did not answer any more");
                        }
                        Err(CallError::Unasked(format!("{} still does not answer.", self.who())))
                    }
                }
            }
        }
    }

    /// The first call that needs it starts it; others wait for the same start, which goes on if that call is dropped.
    async fn running(&self) -> Result<Arc<PluginProcess>, CallError> {
        let starting = {
            let mut standing = self.0.standing();
            if standing.stopped {
                return Err(CallError::Unasked(format!("{} has been stopped.", self.who())));
            }
            if let Some(link) = standing.link.as_ref().filter(|link| !link.is_over()) {
                return Ok(link.clone());
            }
            let host = Arc::downgrade(&self.0);
            standing.starting.get_or_insert_with(|| started(host)).clone()
        };
        starting.await
    }
}

fn started(host: Weak<HostShared>) -> Starting {
    let task = tokio::spawn(async move {
        let Some(inner) = host.upgrade() else { return Err(CallError::Unasked("it is gone".to_owned())) };
        let begun = inner.begin().await;
        let mut standing = inner.standing();
        standing.starting = None;
        match begun {
            Ok(link) if standing.stopped => {
                link.die("it has been stopped");
                Err(CallError::Unasked(format!("The plugin {} has been stopped.", inner.settings.name)))
            }
            Ok(link) if link.is_over() => {
                Err(CallError::Unasked(format!("The plugin {} ended at once.", inner.settings.name)))
            }
            Ok(link) => {
                standing.link = Some(link.clone());
                standing.unstarted = false;
                if matches!(
                    standing.pause,
                    Some(Pause { why: PauseReason::Died | PauseReason::Refused(_), .. })
                ) {
                    standing.pause = None;
                }
                Ok(link)
            }
            Err(error) => {
                standing.unstarted = true;
                standing.last_error = Some(error.to_string());
                Err(error)
            }
        }
    });
    let joined = async { task.await.unwrap_or_else(|_| Err(CallError::Unasked("it is gone".to_owned()))) };
    joined.boxed().shared()
}

async fn farewell(link: &PluginProcess, time: Duration) {
    link.parts();
    let _ = link.ask(method::SHUTDOWN, &Nothing {}, Instant::now() + time).await;
    link.leave(time);
    link.buried().await;
}

/// What a turn waits for, and for a shorter time than a plugin would be given otherwise: the caller may have gone
/// before there is an answer.
const HURRIED: [&str; 2] = [method::RECALL, method::SHOULD_COMPRESS];

/// A question that is with the plugin. A caller that drops it before the answer has given it up.
struct Awaited<'a> {
    inner: &'a HostShared,
    method: Option<&'static str>,
}

impl<'a> Awaited<'a> {
    fn new(inner: &'a HostShared, method: &str) -> Self {
        Self { inner, method: HURRIED.into_iter().find(|hurried| *hurried == method) }
    }

    /// The caller has waited to the end: what is made of that is for the plugin as a whole.
    fn over(mut self) {
        self.method = None;
    }

    fn answered(mut self) {
        if let Some(method) = self.method.take() {
            self.inner.standing().given_up.remove(method);
        }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if let Some(method) = self.method {
            self.inner.gives_up(method);
        }
    }
}

/// One call at a time finds out whether a plugin is well again.
struct Probing<'a>(&'a HostShared);

impl Drop for Probing<'_> {
    fn drop(&mut self) {
        self.0.standing().probing = false;
    }
}

impl HostShared {
    fn standing(&self) -> MutexGuard<'_, HostStatus> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate_is_shut(&self) -> Result<(), CallError> {
        let standing = self.standing();
        self.shut(&standing)
    }

    fn shut(&self, standing: &HostStatus) -> Result<(), CallError> {
        let name = &self.settings.name;
        if standing.stopped {
            return Err(CallError::Unasked(format!("The plugin {name} has been stopped.")));
        }
        let Some(pause) = &standing.pause else { return Ok(()) };
        let left = pause.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let seconds = left.as_secs() + 1;
        let last = standing.last_error.as_deref().unwrap_or("nothing is known of it");
        Err(CallError::Unasked(match &pause.why {
            PauseReason::Died => {
                format!(
                    "The plugin {name} died and is started again in {seconds} s at the earliest ({last})."
                )
            }
            PauseReason::Broken => {
                format!("The plugin {name} does not answer and is left alone for {seconds} s.")
            }
            PauseReason::Refused(why) => format!("The plugin {name} cannot be used: {why}"),
        }))
    }

    fn gate(&self) -> Result<CallGate, CallError> {
        let mut standing = self.standing();
        self.shut(&standing)?;
        match &standing.pause {
            Some(Pause { why: PauseReason::Broken, .. }) if standing.probing => {
                let message =
                    format!("The plugin {} does not answer; it is being tried.", self.settings.name);
                Err(CallError::Unasked(message))
            }
            Some(Pause { why: PauseReason::Broken, .. }) => {
                standing.probing = true;
                Ok(CallGate::Probe)
            }
            _ => Ok(CallGate::Open),
        }
    }

    fn answered(&self) {
        let mut standing = self.standing();
        standing.unanswered = 0;
        standing.trips = 0;
        if matches!(standing.pause, Some(Pause { why: PauseReason::Broken, .. })) {
            standing.pause = None;
        }
    }

    fn unanswered(&self) {
        let mut standing = self.standing();
        standing.unanswered = standing.unanswered.saturating_add(1);
        if standing.unanswered >= self.settings.limits.failures_max {
            self.trip(&mut standing);
        }
    }

    /// A plugin that is well but too slow for one question answers a ping. So that question has a pause of its own:
    /// otherwise every turn would wait for it in vain.
    fn gives_up(&self, method: &'static str) {
        let mut standing = self.standing();
        let times = standing.given_up.get(method).map_or(0, |before| before.times).saturating_add(1);
        let longer = times.saturating_sub(self.settings.limits.failures_max.saturating_sub(1));
        let pause = if longer == 0 { Duration::ZERO } else { self.pause(longer) };
        standing.given_up.insert(method, GivenUp { times, until: Instant::now() + pause });
        let name = &self.settings.name;
        standing.last_error = Some(format!("The plugin {name} did not answer {method} while a turn waited."));
        if longer > 0 {
            let seconds = pause.as_secs_f32();
            tracing::warn!(
                plugin = name,
                method,
                seconds,
                "a plugin is too slow for a turn and is not asked this"
            );
        }
    }

    fn is_given_up(&self, method: &str) -> Result<(), CallError> {
        let standing = self.standing();
        let Some(given_up) = standing.given_up.get(method) else { return Ok(()) };
        let left = given_up.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Ok(()),
            false => Err(CallError::Unasked(format!(
                "The plugin {} did not answer {method} in time {} times in a row and is not asked it for {} s.",
                self.settings.name,
                given_up.times,
                left.as_secs() + 1
            ))),
        }
    }

    fn still_broken(&self) {
        let mut standing = self.standing();
        self.trip(&mut standing);
    }

    fn trip(&self, standing: &mut HostStatus) {
        standing.trips = standing.trips.saturating_add(1);
        let until = Instant::now() + self.pause(standing.trips);
        if standing.pause.as_ref().is_none_or(|pause| pause.until < until) {
            let name = &self.settings.name;
            tracing::warn!(plugin = name, "a plugin does not answer and is left alone for a while");
            standing.pause = Some(Pause { until, why: PauseReason::Broken });
        }
    }

    /// Twice as long each time.
    fn pause(&self, times: u32) -> Duration {
        let limits = &self.settings.limits;
        let factor = 1_u32 << times.saturating_sub(1).min(16);
        limits.pause.saturating_mul(factor).min(limits.pause_max)
    }

    async fn begin(self: &Arc<Self>) -> Result<Arc<PluginProcess>, CallError> {
        let name = &self.settings.name;
        self.starts.fetch_add(1, Ordering::Relaxed);
        let cradle = LaunchSpec {
            settings: &self.settings,
            redactor: self.redactor.clone(),
            tally: self.tally.clone(),
            model: self.model.clone(),
        };
        let Begun { link, life, note } = process::begin(cradle).await.map_err(|error| {
            self.died(true, Duration::ZERO);
            let command = self.settings.command.first().map(String::as_str).unwrap_or_default();
            let message = format!("The plugin {name} could not be started: {command}: {error}.");
            CallError::Unasked(message)
        })?;
        let (host, living) = (Arc::downgrade(self), link.clone());
        tokio::spawn(async move {
            let why = life.await;
            if let Some(inner) = host.upgrade() {
                inner.ended(&living, &why);
            }
            living.bury(&why);
        });
        let cradled = Cradled(Some(link.clone()));
        let introduced = self.introduce(&link).await;
        match introduced {
            Ok(abilities) => {
                cradled.survived();
                self.remember(abilities, note);
                Ok(link)
            }
            Err(why) => {
                drop(cradled);
                link.buried().await;
                Err(CallError::Unasked(why))
            }
        }
    }

    async fn introduce(&self, link: &PluginProcess) -> Result<Initialized, String> {
        let settings = &self.settings;
        let name = &settings.name;
        let until = Instant::now() + settings.deadlines.start;
        let said = match link.ask(method::INITIALIZE, &self.introduction(), until).await {
            Ok(said) => said,
            Err(Unanswered::Late { .. }) => {
                let seconds = settings.deadlines.start.as_secs_f32();
                return Err(format!("The plugin {name} did not introduce itself within {seconds} s."));
            }
            Err(Unanswered::Lost { why, .. }) => {
                return Err(format!("The plugin {name} did not start: {why}."));
            }
            Err(Unanswered::TooLong) => {
                return Err(format!("The settings of the plugin {name} are too long to be told."));
            }
            Err(Unanswered::Fault(fault)) => {
                let why = self.redactor.clean(fault.message.trim());
                self.refuse(format!("it refused to start: {why}"));
                return Err(format!("The plugin {name} refused to start: {why}"));
            }
        };
        let abilities: Initialized = serde_json::from_str(said.get()).map_err(|error| {
            let error = self.redactor.clean(&error.to_string());
            let why = format!("its introduction cannot be read ({error}).");
            self.refuse(why.clone());
            format!("The plugin {name} cannot be used: {why}")
        })?;
        if !(VERSION_MIN..=VERSION).contains(&abilities.protocol) {
            let why = format!(
                "it speaks version {} of the protocol, and this gateway {VERSION_MIN} to {VERSION}. Install a \
                 version of the plugin that fits, or another one of the gateway.",
                abilities.protocol
            );
            self.refuse(why.clone());
            return Err(format!("The plugin {name} cannot be used: {why}"));
        }
        Ok(abilities)
    }

    fn introduction(&self) -> Initialize {
        let settings = &self.settings;
        let directory = settings.directory.canonicalize().unwrap_or_else(|_| settings.directory.clone());
        Initialize {
            protocol: VERSION,
            host: Program { name: "throughline".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
            agent: settings.agent.clone(),
            home: settings.home.to_string_lossy().into_owned(),
            directory: directory.to_string_lossy().into_owned(),
            settings: settings.settings.clone(),
            offers: self.model.iter().map(|_| method::ASK_MODEL.to_owned()).collect(),
        }
    }

    fn remember(&self, abilities: Initialized, note: Option<String>) {
        if let Some(introduced) = self.introduced.get() {
            introduced(&abilities);
        }
        let mut standing = self.standing();
        standing.notes.retain(|note| [CHANGED, LATER].contains(&note.as_str()));
        standing.notes.extend(note);
        let is_same = |known: &Arc<Initialized>| **known == abilities;
        if standing.settled {
            let is_news = !standing.abilities.as_ref().is_some_and(is_same);
            if is_news && !standing.notes.iter().any(|note| note == LATER) {
                standing.notes.push(LATER.to_owned());
            }
            return;
        }
        if standing.abilities.as_ref().is_some_and(|known| !is_same(known)) {
            tracing::warn!(
                plugin = self.settings.name,
                "a plugin that was started again can do something else"
            );
            if !standing.notes.iter().any(|note| note == CHANGED) {
                standing.notes.push(CHANGED.to_owned());
            }
        }
        if !standing.abilities.as_ref().is_some_and(is_same) {
            standing.abilities = Some(Arc::new(abilities));
            self.revision.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// No use to try again soon.
    fn refuse(&self, why: String) {
        let until = Instant::now() + self.settings.limits.pause_max;
        self.standing().pause = Some(Pause { until, why: PauseReason::Refused(why) });
    }

    fn ended(&self, link: &Arc<PluginProcess>, why: &str) {
        let mut standing = self.standing();
        let is_current = standing.link.as_ref().is_some_and(|current| Arc::ptr_eq(current, link));
        if is_current {
            standing.link = None;
        }
        if standing.stopped || link.is_parting() {
            return;
        }
        let why = self.redactor.clean(why);
        tracing::warn!(plugin = self.settings.name, why, "a plugin ended");
        standing.last_error = Some(why);
        drop(standing);
        self.died(!link.has_answered(), link.began.elapsed());
    }

    /// The first death after a healthy life costs no time.
    fn died(&self, was_useless: bool, lived: Duration) {
        let mut standing = self.standing();
        standing.deaths = match was_useless || lived < self.settings.limits.healthy {
            true => standing.deaths.saturating_add(1),
            false => 1,
        };
        if standing.deaths < 2 {
            return;
        }
        let until = Instant::now() + self.pause(standing.deaths - 1);
        if standing.pause.as_ref().is_none_or(|pause| pause.until < until) {
            standing.pause = Some(Pause { until, why: PauseReason::Died });
        }
    }
}

const CHANGED: &str = "It was started again and can do something else than before; what it says now counts.";

const LATER: &str = "It can do something else than what was remembered of it; that counts from the next start of the gateway on.";

/// A process that has not introduced itself yet: if no caller waits for that any more, it ends.
struct Cradled(Option<Arc<PluginProcess>>);

impl Cradled {
    fn survived(mut self) {
        self.0 = None;
    }
}

impl Drop for Cradled {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            link.die("it did not introduce itself");
        }
    }
}

impl Drop for HostShared {
    fn drop(&mut self) {
        if let Some(link) = self.standing().link.take() {
            link.die("nobody needs it any more");
        }
    }
}
