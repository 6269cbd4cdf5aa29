//! Background processes: what runs, whose it is, what it wrote.
//!
//! - a process belongs to the session that began it; for every other session there is no such process
//! - it outlives turns, and the gateway: its output goes through a named pipe that the next gateway
//!   opens again, and `processes.json` tells that one what runs, by number and start time
//! - nothing of a process grows without bound: its output rolls, and the list forgets the oldest dead
//!
//! A notice carries a key of its own, so that one which is repeated after a crash is recognised.

mod checkpoint;
mod process;
mod process_tool;

use super::output::strip_ansi;
use super::output_watch::{INTERVAL, NoticeBreaker, STRIKES_MAX, WatchMoment, WatchResult};
use super::process_group::{Abort, ProcessIdentity};
use super::pty::PtyInput;
use checkpoint::Checkpoint;
pub use process::BackgroundProcess;
use process::ProcessEnd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use throughline_core::id::SessionId;
use throughline_core::input::Trace;
use throughline_core::redact::{Purpose, redacted_for};
use throughline_core::tool::Caller;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Running and ended ones together, as in Hermes. More cannot be started while all of them run.
const PROCESSES_MAX: usize = 64;

/// How long an ended process can be asked about.
const ENDED_KEPT: Duration = Duration::from_secs(1800);

/// How often a silent process is looked at, and how many looks its open pipe gets after its end.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const QUIET_LOOKS: u32 = 3;

/// A message from a process for the session it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessNotice {
    /// The same for the same event, even if it is told twice.
    pub key: String,
    pub session: SessionId,
    pub text: String,
    /// What the process was started for, one hop on.
    pub trace: Trace,
}

pub type NoticeSink = Arc<dyn Fn(ProcessNotice) + Send + Sync>;

/// From where a process's output comes. None: nothing can be read any more.
pub type OutputSource = Option<Receiver>;

/// A process that has just been started.
pub struct StartedProcess {
    pub id: String,
    pub child: Option<Child>,
    pub identity: ProcessIdentity,
    pub source: OutputSource,
    pub input: Option<PtyInput>,
    pub pipe: Option<PathBuf>,
    pub lease: Option<Arc<()>>,
}

/// What was asked for when it was started.
pub struct ProcessRequest {
    pub command: String,
    pub cwd: String,
    pub notify_on_complete: bool,
    pub watch_patterns: Vec<String>,
    /// The message it is started for.
    pub trace: Trace,
}

/// Makes what ends the part of a process that runs elsewhere, from the process's id.
pub type Aborts = Arc<dyn Fn(&str) -> Option<Abort> + Send + Sync>;

pub struct ProcessRegistry {
    notices: NoticeSink,
    aborts: Aborts,
    checkpoint: Checkpoint,
    term_grace: Duration,
    wait_max: Duration,
    redacts: bool,
    born: Instant,
    /// Tells the notices of this run from those of an earlier one, which counted from one, too.
    boot: u128,
    processes: Mutex<Vec<Arc<BackgroundProcess>>>,
    /// Recovered ones that no task follows yet: there was no runtime.
    unfollowed: Mutex<Vec<Arc<BackgroundProcess>>>,
    breaker: Mutex<NoticeBreaker>,
    /// Tasks that follow a process. They end with the registry: the next one reads on where they were.
    followers: Mutex<JoinSet<()>>,
}

/// What the registry is told of the settings.
pub struct RegistryLimits {
    pub term_grace: Duration,
    pub wait_max: Duration,
    pub redacts: bool,
}

impl ProcessRegistry {
    /// Takes up what an earlier process of this home left running.
    pub fn open(
        home: PathBuf,
        pipes: PathBuf,
        limits: RegistryLimits,
        notices: NoticeSink,
        aborts: Aborts,
    ) -> Arc<Self> {
        let checkpoint = Checkpoint::new(home.join("processes.json"), pipes);
        let found = checkpoint.recover();
        let registry = Arc::new(Self {
            notices,
            aborts,
            checkpoint,
            term_grace: limits.term_grace,
            wait_max: limits.wait_max,
            redacts: limits.redacts,
            born: Instant::now(),
            boot: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis()),
            processes: Mutex::new([found.alive.as_slice(), &found.lost].concat()),
            unfollowed: Mutex::new(found.alive),
            breaker: Mutex::default(),
            followers: Mutex::default(),
        });
        for process in found.lost {
            let ending = ProcessEnd { code: None, reason: "lost", source: "backend_lost" };
            registry.settle(&process, ending);
        }
        registry.checkpoint.write(&registry.all());
        registry
    }

    /// Follows what was recovered. Needs a runtime, which opening does not.
    pub fn wake(self: &Arc<Self>) {
        let waiting = std::mem::take(&mut *locked(&self.unfollowed));
        for process in waiting {
            let source = process
                .pipe
                .as_ref()
                .and_then(|path| tokio::net::unix::pipe::OpenOptions::new().open_receiver(path).ok());
            self.follow(process, source);
        }
    }

    /// There is room for one more.
    pub fn has_room(&self) -> bool {
        let mut processes = locked(&self.processes);
        processes.retain(|process| !process.is_over() || process.age() < ENDED_KEPT);
        while processes.len() >= PROCESSES_MAX {
            let Some(oldest) = processes.iter().position(|process| process.is_over()) else { return false };
            processes.remove(oldest);
        }
        true
    }

    pub async fn add(
        self: &Arc<Self>,
        caller: &Caller,
        started: StartedProcess,
        wish: ProcessRequest,
    ) -> Arc<BackgroundProcess> {
        let mut started = started;
        let source = started.source.take();
        let process = Arc::new(BackgroundProcess::new(caller.session.clone(), started, wish));
        locked(&self.processes).push(process.clone());
        self.write_checkpoint().await;
        self.follow(process.clone(), source);
        process
    }

    /// What still runs for this session.
    pub fn running(&self, session: &SessionId) -> usize {
        self.all().iter().filter(|process| process.session == *session && !process.is_over()).count()
    }

    /// Something younger than this still runs for the session.
    pub fn is_busy(&self, session: &SessionId, age_max: Duration) -> bool {
        let running = |process: &&Arc<BackgroundProcess>| process.session == *session && !process.is_over();
        self.all().iter().filter(running).any(|process| process.age() < age_max)
    }

    /// Ends everything of a session, or of all. Returns how many there were.
    pub async fn end_all(self: &Arc<Self>, session: Option<&SessionId>) -> usize {
        let mine =
            |process: &Arc<BackgroundProcess>| session.is_none_or(|session| process.session == *session);
        let running =
            self.all().into_iter().filter(|process| mine(process) && !process.is_over()).collect::<Vec<_>>();
        let count = running.len();
        let ends = running.into_iter().map(|process| {
            let registry = self.clone();
            async move { registry.kill(&process, "kill_all").await }
        });
        futures_util::future::join_all(ends).await;
        count
    }

    pub fn forget(&self, session: &SessionId) {
        locked(&self.processes).retain(|process| process.session != *session || !process.is_over());
    }

    fn all(&self) -> Vec<Arc<BackgroundProcess>> {
        locked(&self.processes).clone()
    }

    /// Another session's process is no process.
    fn find(&self, session: &SessionId, id: &str) -> Option<Arc<BackgroundProcess>> {
        locked(&self.processes)
            .iter()
            .find(|process| process.id == id && process.session == *session)
            .cloned()
    }

    async fn write_checkpoint(self: &Arc<Self>) {
        let registry = self.clone();
        let written = tokio::task::spawn_blocking(move || registry.checkpoint.write(&registry.all()));
        let _ = written.await; // a panic there is logged, and costs only the recovery
    }
}

// Following a process.
impl ProcessRegistry {
    fn follow(self: &Arc<Self>, process: Arc<BackgroundProcess>, source: OutputSource) {
        let registry = Arc::downgrade(self);
        let mut followers = locked(&self.followers);
        while followers.try_join_next().is_some() {}
        followers.spawn(async move {
            let status = read_to_end(&registry, &process, source).await;
            let code = match status {
                Some(code) => code,
                None => exit_of(&process).await,
            };
            if let Some(registry) = registry.upgrade() {
                let ending = ProcessEnd { code, reason: "exited", source: "" };
                if registry.settle(&process, ending) {
                    registry.write_checkpoint().await;
                }
            }
            process.remove_pipe();
        });
    }

    fn heard(&self, process: &BackgroundProcess, bytes: &[u8]) {
        let (seen, notice) = {
            let mut life = process.life();
            let text = life.push(bytes);
            let now = self.now();
            let seen = if life.ending.is_some() { WatchResult::Nothing } else { life.watch.see(&text, now) };
            if seen == WatchResult::Disabled {
                life.notify_on_complete = true;
            }
            let number = life.watch.hits;
            (seen, number)
        };
        let id = &process.id;
        match seen {
            WatchResult::Nothing => {}
            WatchResult::Disabled => self.tell(process, "watch-disabled", format!(
                "[IMPORTANT: Watch patterns disabled for process {id} — {STRIKES_MAX} consecutive rate-limit windows \
                 triggered (min spacing {}s). Falling back to notify_on_complete semantics; you'll get exactly one \
                 notification when the process exits.]",
                INTERVAL.as_secs()
            )),
            WatchResult::Match { pattern, output, suppressed } => {
                let admission = locked(&self.breaker).admit(self.now());
                if let Some(remark) = admission.remark {
                    self.tell(process, &format!("watch-flood-{}-{notice}", self.boot), format!("[IMPORTANT: {remark}]"));
                }
                if admission.is_admitted {
                    let dropped = match suppressed {
                        0 => String::new(),
                        _ => format!("\n({suppressed} earlier matches were suppressed by rate limit)"),
                    };
                    let text = format!(
                        "[IMPORTANT: Background process {id} matched watch pattern \"{pattern}\".\n\
                         Command: {}\nMatched output:\n{}{dropped}]",
                        self.clean(&process.command),
                        self.clean(&strip_ansi(&output)),
                    );
                    self.tell(process, &format!("watch-{}-{notice}", self.boot), text);
                }
            }
        }
    }

    fn now(&self) -> WatchMoment {
        // Beyond the breaker's first window, so that the first match is not its end.
        self.born.elapsed() + Duration::from_secs(3600)
    }

    fn tell(&self, process: &BackgroundProcess, event: &str, text: String) {
        let key = format!("{}/{event}", process.id);
        let trace = process.trace.onward();
        (self.notices)(ProcessNotice { key, session: process.session.clone(), text, trace });
    }

    /// Marks the end, once: a later call changes nothing. The notice goes out before the
    /// checkpoint forgets the process.
    fn settle(&self, process: &BackgroundProcess, ending: ProcessEnd) -> bool {
        let is_told = {
            let mut life = process.life();
            if life.ending.is_some() {
                return false;
            }
            life.ending = Some(match life.killed_by {
                Some(source) => ProcessEnd { code: Some(-15), reason: "killed", source },
                None => ending,
            });
            life.takes_notice()
        };
        process.ended.send_replace(true);
        if is_told {
            self.tell_end(process);
        }
        true
    }

    fn tell_end(&self, process: &BackgroundProcess) {
        let text = {
            let life = process.life();
            let ending = life.ending.unwrap_or_default();
            let code = ending.code.map_or_else(|| "None".to_owned(), |code| code.to_string());
            let signal = if matches!(ending.code, Some(-15 | 143)) { ", SIGTERM" } else { "" };
            let status = match (ending.reason, ending.code) {
                ("killed", _) => format!("terminated by {}", ending.source),
                ("lost", _) => "marked lost because the process backend disappeared".to_owned(),
                ("failed_start", _) => "failed to start".to_owned(),
                (_, Some(0)) => "completed normally".to_owned(),
                _ => "exited".to_owned(),
            };
            format!(
                "[IMPORTANT: Background process {} {status} (exit code {code}{signal}).\nCommand: {}\nOutput:\n{}]",
                process.id,
                self.clean(&process.command),
                self.clean(&life.tail(2000)),
            )
        };
        self.tell(process, "completion", text);
    }

    fn clean(&self, text: &str) -> String {
        if self.redacts { redacted_for(Purpose::Output, text) } else { text.to_owned() }
    }
}

/// Reads until no process writes any more. A process that has ended may have left its pipe to another
/// one that goes on: it is not waited for. The code, if it was learnt on the way.
async fn read_to_end(
    registry: &Weak<ProcessRegistry>,
    process: &BackgroundProcess,
    mut source: OutputSource,
) -> Option<Option<i32>> {
    let mut buffer = vec![0; super::foreground::CHUNK_BYTES];
    let (mut quiet, mut over) = (0, None);
    let mut looked = Instant::now();
    loop {
        let read = async {
            match &mut source {
                Some(receiver) => receiver.read(&mut buffer).await,
                None => Ok(0),
            }
        };
        tokio::select! {
            biased;
            read = read => match read {
                Ok(0) | Err(_) => return over,
                Ok(count) => {
                    quiet = 0;
                    registry.upgrade()?.heard(process, &buffer[..count]);
                }
            },
            () = sleep(LOOK_EVERY) => quiet += 1,
        }
        if over.is_none() && looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            over = process.try_wait();
            quiet = 0;
        }
        if over.is_some() && quiet >= QUIET_LOOKS {
            return over;
        }
    }
}

async fn exit_of(process: &BackgroundProcess) -> Option<i32> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(code) = process.try_wait() {
            return code;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LOOK_EVERY);
    }
}

const NO_INPUT: &str = "Process stdin not available (non-local backend or stdin closed)";

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests;
