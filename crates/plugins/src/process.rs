//! One life of a plugin's process, and the conversation with it.
//!
//! - it leads a process group, because what users write is often a launcher: they end together, with the
//!   conversation or with the gateway, and a process that ended is reaped
//! - an answer goes to the caller that asked under its number; one without a waiting caller is dropped
//! - a caller that stops waiting says so to the plugin
//! - the plugin is read as fast as it may talk: a flood waits in the pipe, not in memory
//!
//! Deliberately absent: whether there is another life after this one.

use crate::json_rpc::{self, LineReader, RateLimiter, RpcError, RpcIncoming};
use crate::log::{PluginLog, PluginRedactor};
use crate::orphaned_processes;
use crate::protocol::{AskModel, Cancel, LINE_MAX, Log as Said, ModelSaid, code, method};
use crate::sandbox::{self, Bounds};
use crate::scratch;
use crate::settings::PluginSettings;
#[cfg(windows)]
use process_wrap::tokio::JobObject;
#[cfg(unix)]
use process_wrap::tokio::ProcessGroup;
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use throughline_core::port::Promise;
use throughline_private_files as private_files;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Lines on their way to the plugin.
const OUTGOING_MAX: usize = 16;
/// What it may say unasked: at once, and each second after that.
const UNASKED: u32 = 1000;
const UNASKED_PER_SECOND: u32 = 200;
/// So much of a line weighs as much as a line.
const UNASKED_BYTES: usize = 64 << 10;
/// Questions of a plugin that are with the model at once.
const QUESTIONS_MAX: usize = 4;
/// How long a process may take to be seen dead, once its output has ended, or the reverse.
const AFTERMATH: Duration = Duration::from_millis(250);
/// One line about nonsense in so long a time.
const SELDOM: Duration = Duration::from_secs(10);

/// Answers a plugin's question to a model. The error is a sentence for the plugin.
pub type AnswerModel = Arc<dyn Fn(AskModel) -> Promise<'static, Result<ModelSaid, String>> + Send + Sync>;

/// What a plugin said that was of no use.
#[derive(Default)]
pub(crate) struct NonsenseCount {
    /// Lines that are no message.
    pub nonsense: AtomicU64,
    /// Answers that no caller waits for, or no more.
    pub strays: AtomicU64,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The question is longer than any message may be.
    TooLong,
    Late {
        sent: bool,
    },
    Lost {
        sent: bool,
        why: String,
    },
    Fault(RpcError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ProcessOrder {
    Live,
    /// Its input ends; it has so long to follow.
    Leave(Duration),
    Die(String),
}

#[derive(Default)]
struct WaitingQuestions {
    questions: HashMap<u64, oneshot::Sender<Result<Box<RawValue>, RpcError>>>,
    ended: Option<String>,
}

pub(crate) struct PluginProcess {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: Mutex<WaitingQuestions>,
    next: AtomicU64,
    orders: watch::Sender<ProcessOrder>,
    buried: watch::Sender<bool>,
    answered: AtomicBool,
    parting: AtomicBool,
    pub began: Instant,
    pub process: Option<u32>,
}

impl PluginProcess {
    fn waiting(&self) -> MutexGuard<'_, WaitingQuestions> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_over(&self) -> bool {
        self.waiting().ended.is_some()
    }

    /// It answered something beside its introduction.
    pub fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// It is about to be told to go: its end is no death.
    pub fn parts(&self) {
        self.parting.store(true, Ordering::Relaxed);
    }

    pub fn is_parting(&self) -> bool {
        self.parting.load(Ordering::Relaxed)
    }

    pub fn in_flight(&self) -> usize {
        self.waiting().questions.len()
    }

    pub fn die(&self, why: &str) {
        self.orders.send_if_modified(|order| match order {
            ProcessOrder::Die(_) => false,
            _ => {
                *order = ProcessOrder::Die(why.to_owned());
                true
            }
        });
    }

    /// Ends its input; what is left of it after `grace` is killed.
    pub fn leave(&self, grace: Duration) {
        self.orders.send_if_modified(|order| match order {
            ProcessOrder::Live => {
                *order = ProcessOrder::Leave(grace);
                true
            }
            _ => false,
        });
    }

    /// Once all of it has ended and is buried.
    pub async fn buried(&self) {
        let _ = self.buried.subscribe().wait_for(|buried| *buried).await;
    }

    /// After the end was counted: those who wait learn that nothing will come.
    pub fn bury(&self, why: &str) {
        let mut waiting = self.waiting();
        waiting.ended.get_or_insert(why.to_owned());
        waiting.questions.clear();
        drop(waiting);
        self.buried.send_replace(true);
    }

    pub async fn ask<T: Serialize>(
        &self,
        method: &str,
        params: &T,
        until: Instant,
    ) -> Result<Box<RawValue>, Unanswered> {
        if Instant::now() >= until {
            return Err(Unanswered::Late { sent: false }); // it would only be bothered
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let line = json_rpc::request(id, method, params).map_err(|error| {
            Unanswered::Fault(RpcError { code: code::FAILED, message: error.to_string() })
        })?;
        if line.len() > LINE_MAX {
            return Err(Unanswered::TooLong);
        }
        let (tell, told) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if let Some(why) = &waiting.ended {
                return Err(Unanswered::Lost { sent: false, why: why.clone() });
            }
            waiting.questions.insert(id, tell);
        }
        let mut ticket = PendingCall { link: self, id, sent: false };
        match timeout_at(until, self.outgoing.send(line)).await {
            Err(_) => return Err(Unanswered::Late { sent: false }),
            Ok(Err(_)) => return Err(Unanswered::Lost { sent: false, why: self.obituary() }),
            Ok(Ok(())) => ticket.sent = true,
        }
        match timeout_at(until, told).await {
            Err(_) => Err(Unanswered::Late { sent: true }),
            Ok(Err(_)) => Err(Unanswered::Lost { sent: true, why: self.obituary() }),
            Ok(Ok(said)) => {
                if method != method::INITIALIZE {
                    self.answered.store(true, Ordering::Relaxed);
                }
                said.map_err(Unanswered::Fault)
            }
        }
    }

    /// Tells it something, if it is listening.
    pub fn tell<T: Serialize>(&self, method: &str, params: &T) {
        if let Ok(line) = json_rpc::notification(method, params) {
            let _ = self.outgoing.try_send(line);
        }
    }

    /// Sends a line as it is.
    pub async fn write(&self, line: Vec<u8>) {
        let _ = self.outgoing.send(line).await;
    }

    fn obituary(&self) -> String {
        self.waiting().ended.clone().unwrap_or_else(|| "its process is ending".to_owned())
    }
}

/// A question on its way. Dropping it cancels it.
struct PendingCall<'a> {
    link: &'a PluginProcess,
    id: u64,
    sent: bool,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        let was_waiting = self.link.waiting().questions.remove(&self.id).is_some();
        if was_waiting && self.sent {
            self.link.tell(method::CANCEL, &Cancel { id: self.id });
        }
    }
}

/// What a life is begun with.
pub(crate) struct LaunchSpec<'a> {
    pub settings: &'a PluginSettings,
    pub redactor: PluginRedactor,
    pub tally: Arc<NonsenseCount>,
    pub model: Option<AnswerModel>,
}

/// A life that began, and what is left to do for it: it must be run to its end, and says why that came.
pub(crate) struct Begun {
    pub link: Arc<PluginProcess>,
    pub life: Promise<'static, String>,
    /// Something that the user should know about how it runs.
    pub note: Option<String>,
}

pub(crate) async fn begin(cradle: LaunchSpec<'_>) -> io::Result<Begun> {
    let settings = cradle.settings;
    private_files::restrict_directory(&settings.directory)?;
    let (mut child, note) = spawn(settings).await?;
    let taken = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let process = child.id();
    if let Some(Err(error)) = process.map(|process| orphaned_processes::note(&settings.directory, process)) {
        tracing::warn!(plugin = settings.name, %error, "it could not be written down which process a plugin has");
    }
    let group = ProcessTree { child, process, directory: settings.directory.clone() };
    let (Some(input), Some(output), Some(errors)) = taken else {
        return Err(io::Error::other("the process has no pipes"));
    };
    let (outgoing, lines) = mpsc::channel(OUTGOING_MAX);
    let (orders, heard) = watch::channel(ProcessOrder::Live);
    let link = Arc::new(PluginProcess {
        outgoing,
        waiting: Mutex::default(),
        next: AtomicU64::new(1),
        orders,
        buried: watch::Sender::new(false),
        answered: AtomicBool::new(false),
        parting: AtomicBool::new(false),
        began: Instant::now(),
        process,
    });
    let (log, waiting) = PluginLog::new(&settings.name, cradle.redactor);
    log.say(&format!("===== started: {} =====", settings.command.join(" ")));
    let mut tasks = JoinSet::new();
    tasks.spawn(log.clone().follow(settings.directory.clone(), errors, waiting));
    let ear = Ear {
        name: settings.name.clone(),
        link: link.clone(),
        log: log.clone(),
        tally: cradle.tally,
        model: cradle.model,
        free: Arc::new(Semaphore::new(QUESTIONS_MAX)),
        questions: JoinSet::new(),
        warned: None,
    };
    let life = supervise(group, heard, Pipes { input, lines, output }, ear, tasks);
    Ok(Begun { link, life: Box::pin(life), note })
}

async fn spawn(settings: &PluginSettings) -> io::Result<(Box<dyn ChildWrapper>, Option<String>)> {
    let Some((program, arguments)) = settings.command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no command"));
    };
    let directory = settings.directory.canonicalize()?;
    let unstarted =
        |error: io::Error| io::Error::new(error.kind(), format!("{program} could not be started: {error}"));
    let mut command = Command::new(program);
    let scratch = scratch::directory(&directory)?;
    command.args(arguments).env_clear().env("TMPDIR", &scratch).envs(&settings.environment);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).current_dir(&directory);
    let mut wrapped = CommandWrap::from(command);
    #[cfg(unix)]
    wrapped.wrap(ProcessGroup::leader());
    #[cfg(windows)]
    wrapped.wrap(JobObject);
    wrapped.wrap(KillOnDrop);
    let (bounds, open) = bounds(settings, &directory, &scratch);
    if !bounds.are_any() {
        return Ok((wrapped.spawn().map_err(unstarted)?, open));
    }
    if !sandbox::is_available() {
        let reach = match (&bounds.writable, bounds.closed.is_empty()) {
            (Some(_), true) => "it can write wherever you can",
            (Some(_), false) => {
                "it can write wherever you can, and open your keys and the homes of other agents"
            }
            (None, _) => "it can open the homes of other agents",
        };
        let note =
            format!("This kernel cannot confine it (Landlock is not there or not switched on): {reach}.");
        return Ok((wrapped.spawn().map_err(unstarted)?, Some(note)));
    }
    Ok((sandbox::spawn(wrapped, bounds).map_err(unstarted)?, open))
}

/// What it may touch, and what there is to say about homes that cannot be closed to it.
fn bounds(settings: &PluginSettings, directory: &Path, scratch: &Path) -> (Bounds, Option<String>) {
    let (closed, open) = sandbox::closable(&settings.home, &settings.foreign);
    let writable = settings.confined.then(|| {
        let own = [directory.to_owned(), scratch.to_owned()];
        settings.writable.iter().cloned().chain(own).collect()
    });
    // What the user has it run is meant to be read, wherever it lies.
    let command = settings.command.iter().map(PathBuf::from).filter(|word| word.is_absolute());
    let kept = command.chain([settings.home.clone()]).chain(settings.readable.clone());
    let kept = kept.chain(settings.writable.clone()).collect();
    let note = (!open.is_empty()).then(|| {
        let homes: Vec<String> = open.iter().map(|home| home.display().to_string()).collect();
        format!(
            "It can open the homes that lie inside its own: {}. Keep agents that must not know of each other in homes \
             beside each other.",
            homes.join(", ")
        )
    });
    (Bounds { writable, closed, kept }, note)
}

struct ProcessTree {
    child: Box<dyn ChildWrapper>,
    process: Option<u32>,
    directory: PathBuf,
}

impl ProcessTree {
    async fn leader_ended(&mut self) -> String {
        match self.child.inner_mut().wait().await {
            Ok(status) => format!("its process ended ({status})"),
            Err(error) => format!("its process could not be waited for: {error}"),
        }
    }

    fn end(&mut self) {
        let _ = self.child.start_kill(); // the whole group; an error says that none of it is left
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        self.end();
        if let Some(process) = self.process {
            orphaned_processes::strike(&self.directory, process);
        }
    }
}

struct Pipes {
    input: ChildStdin,
    lines: mpsc::Receiver<Vec<u8>>,
    output: ChildStdout,
}

/// Runs one life to its end, and says what ended it.
async fn supervise(
    mut group: ProcessTree,
    mut orders: watch::Receiver<ProcessOrder>,
    pipes: Pipes,
    ear: Ear,
    mut tasks: JoinSet<()>,
) -> String {
    let log = ear.log.clone();
    let speaking = tokio::spawn(speak(pipes.input, pipes.lines));
    let mut hearing = tokio::spawn(ear.hear(LineReader::new(pipes.output, LINE_MAX)));
    let mut why = None;
    loop {
        tokio::select! {
            heard = &mut hearing => {
                why = Some(heard.unwrap_or_else(|_| "it could not be listened to".to_owned()));
                if why.as_deref() == Some(ENDED) {
                    // The two come at once where a process dies, and how it died is the better reason.
                    why = timeout(AFTERMATH, group.leader_ended()).await.ok().or(why);
                }
                break;
            }
            ended = group.leader_ended() => {
                let _ = timeout(AFTERMATH, &mut hearing).await; // its last words
                why = Some(ended);
                break;
            }
            _ = orders.changed() => {}
        }
        let order = orders.borrow_and_update().clone();
        match order {
            ProcessOrder::Live => {}
            ProcessOrder::Die(reason) => why = Some(reason),
            ProcessOrder::Leave(grace) => {
                speaking.abort();
                let _ = timeout(grace, group.leader_ended()).await;
                why = Some("it was told to leave".to_owned());
            }
        }
        if why.is_some() {
            break;
        }
    }
    speaking.abort();
    hearing.abort();
    group.end();
    let _ = group.leader_ended().await; // buried
    let _ = timeout(AFTERMATH, tasks.join_next()).await; // the end of its standard error
    tasks.abort_all();
    let why = why.unwrap_or_else(|| ENDED.to_owned());
    match log.last().filter(|_| why.contains("process ended")) {
        Some(last) => format!("{why}; its last words: {last}"),
        None => why,
    }
}

const ENDED: &str = "its output ended";

async fn speak(mut input: ChildStdin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if input.write_all(&line).await.is_err() {
            return; // the task that reads its output learns why
        }
    }
}

struct Ear {
    name: String,
    link: Arc<PluginProcess>,
    log: PluginLog,
    tally: Arc<NonsenseCount>,
    model: Option<AnswerModel>,
    free: Arc<Semaphore>,
    questions: JoinSet<()>,
    warned: Option<Instant>,
}

impl Ear {
    async fn hear(mut self, mut lines: LineReader<ChildStdout>) -> String {
        let mut pace = RateLimiter::new(UNASKED, UNASKED_PER_SECOND);
        loop {
            let line = match lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => return ENDED.to_owned(),
                Err(error) => return error.to_string(),
            };
            let weight = u32::try_from(1 + line.len() / UNASKED_BYTES).unwrap_or(u32::MAX);
            let was_asked_for = match json_rpc::read(line) {
                Ok(RpcIncoming::Answer { id, said }) => self.answered(id, said),
                Ok(RpcIncoming::Asked { id, method, params }) => {
                    self.asked(id, &method, params);
                    false
                }
                Ok(RpcIncoming::Told { method, params }) => {
                    self.told(&method, params);
                    false
                }
                Err(nonsense) => {
                    self.tally.nonsense.fetch_add(1, Ordering::Relaxed);
                    self.warn(&format!("it sent a line that is no message: {nonsense}"));
                    false
                }
            };
            if !was_asked_for && let Some(wait) = pace.spend(weight, std::time::Instant::now()) {
                sleep(wait).await;
            }
        }
    }

    fn answered(&mut self, id: u64, said: Result<Box<RawValue>, RpcError>) -> bool {
        let waiting = self.link.waiting().questions.remove(&id);
        let Some(tell) = waiting else {
            self.tally.strays.fetch_add(1, Ordering::Relaxed);
            self.warn("it answered what nobody asks, or no more");
            return false;
        };
        let _ = tell.send(said);
        true
    }

    fn asked(&mut self, id: Box<RawValue>, method: &str, params: Option<Box<RawValue>>) {
        while self.questions.try_join_next().is_some() {}
        let refuse = |code, message: &str| {
            let fault = RpcError { code, message: message.to_owned() };
            if let Ok(line) = json_rpc::fault(&id, &fault) {
                let _ = self.link.outgoing.try_send(line);
            }
        };
        let Some(model) = self.model.clone().filter(|_| method == method::ASK_MODEL) else {
            return refuse(code::NO_SUCH_METHOD, "this host does not offer that");
        };
        let question = params.as_deref().map(|params| serde_json::from_str::<AskModel>(params.get()));
        let Some(Ok(question)) = question else {
            return refuse(code::UNKNOWN_PARAMETERS, "a question to a model has a prompt");
        };
        let Ok(permit) = self.free.clone().try_acquire_owned() else {
            return refuse(code::FAILED, "too many questions at once; wait for an answer");
        };
        let link = self.link.clone();
        self.questions.spawn(async move {
            let line = match model(question).await {
                Ok(said) => json_rpc::answer(&id, &said),
                Err(message) => json_rpc::fault(&id, &RpcError { code: code::FAILED, message }),
            };
            if let Ok(line) = line {
                link.write(line).await;
            }
            drop(permit);
        });
    }

    fn told(&mut self, method: &str, params: Option<Box<RawValue>>) {
        let said = params.as_deref().map(|params| serde_json::from_str::<Said>(params.get()));
        match said {
            Some(Ok(said)) if method == method::LOG => {
                let level = if said.level.is_empty() { "info" } else { said.level.as_str() };
                tracing::debug!(plugin = self.name, level, "the plugin wrote to its log");
                self.log.say(&format!("{level}: {}", said.message));
            }
            _ => {} // a word of a later version
        }
    }

    fn warn(&mut self, what: &str) {
        if self.warned.is_none_or(|at| at.elapsed() > SELDOM) {
            self.warned = Some(Instant::now());
            tracing::warn!(plugin = self.name, "a plugin talks nonsense: {what}");
            self.log.say(&format!("host: {what}"));
        }
    }
}
