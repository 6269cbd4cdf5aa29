//! The process around the agents. Each agent has a keeper of its own: it starts the agent, sees to it
//! while it runs, and tries again, ever more slowly, when it cannot start or falls over. So a bad
//! setting, a locked home, a lost disk or a panic is the matter of one agent, and everybody is told:
//! the log, `throughline status`, `gateway_state.json`.
//!
//! - agents claim what only one may have (homes, tokens) in their order, and start side by side
//! - one heartbeat for all: it looks after writers, keeps Hermes' files up to date, and tells the
//!   service manager that we live. It falls silent when every writer stands still, not when one does
//!
//! Deliberately absent: what an agent is made of (`agent`), and any word about a conversation.

use crate::agent::{self, ApiListener, Claim, ProcessShared, Running};
use crate::hermes_state_files::{self, HermesStateFiles};
use crate::logs::Logs;
use crate::notify::{Notify, ServiceNews};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use throughline_core::Time;
use throughline_core::port::{AgentApi, Status};
use throughline_gateway::{Clock, SystemClock};
use throughline_hermes::state::Stage;
use throughline_home::config::{Remark, Settings};
use throughline_home::home::{Home, Occupied};
use throughline_server::{AgentCondition, HostedAgent, RestartOutcome, RestartScope};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tracing::Instrument;

/// An agent that does not start is tried again after this, and ever later up to that.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// So many start side by side: each opens a store and may wait for servers of its tools.
const STARTING_MAX: usize = 8;
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A writer at rest comes round every few seconds; one that has not for so long is stuck.
const STUCK: Duration = Duration::from_secs(30);
/// Orders to restart the process that are further apart than this do not belong together.
const ORDERS_WITHIN: Duration = Duration::from_secs(60);
/// As often as Hermes does.
const CHANNELS_EVERY: Duration = Duration::from_secs(300);

/// An agent that this process is to run.
#[derive(Clone)]
pub struct Candidate {
    pub name: String,
    pub home: Home,
}

/// What was written about a home, read when it is about to be used.
pub struct StartPlan {
    pub settings: Settings,
    pub warnings: Vec<Remark>,
}

/// How candidates become agents.
pub struct Host {
    pub hosted: Arc<HostedAgents>,
    pub shared: ProcessShared,
    pub logs: Arc<Logs>,
    read: Box<ReadPlan>,
    /// Where the API of an agent answers.
    api_listener: Box<ChooseListener>,
    starting: Semaphore,
    /// Those that cannot start are tried again. Else the process ends with the first of them, and says why.
    tries_again: bool,
}

/// Everybody's first attempt.
pub struct FirstAttempts(Vec<(Candidate, oneshot::Receiver<anyhow::Result<AgentIntroduction>>)>);

/// What became of the first attempt.
pub struct FirstAttempt {
    pub candidate: Candidate,
    pub result: anyhow::Result<AgentIntroduction>,
}

/// What a person should know of an agent that runs.
pub struct AgentIntroduction {
    pub plan: StartPlan,
    pub address: throughline_home::home::Address,
    pub key: throughline_core::redact::Secret,
    pub off: Vec<String>,
}

/// Agents that are kept running until they are told to stop.
pub struct KeptAgents {
    keepers: JoinSet<bool>,
    stop: watch::Sender<Option<Ending>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Stop,
    /// To begin anew.
    Restart,
}

type ReadPlan = dyn Fn(&Home) -> anyhow::Result<StartPlan> + Send + Sync;
type ChooseListener = dyn Fn(&Candidate, &Settings) -> ApiListener + Send + Sync;
type Claimed = anyhow::Result<(StartPlan, Claim)>;

impl Host {
    pub fn new(
        hosted: Arc<HostedAgents>,
        shared: ProcessShared,
        logs: Arc<Logs>,
        read: impl Fn(&Home) -> anyhow::Result<StartPlan> + Send + Sync + 'static,
        api_listener: impl Fn(&Candidate, &Settings) -> ApiListener + Send + Sync + 'static,
        tries_again: bool,
    ) -> Arc<Self> {
        let starting = Semaphore::new(STARTING_MAX);
        let (read, api_listener) = (Box::new(read), Box::new(api_listener));
        Arc::new(Self { hosted, shared, logs, read, api_listener, starting, tries_again })
    }

    /// From now on each of them is kept running; what became of their first attempts is told apart, so that they can
    /// be stopped in order before that is known.
    pub fn keep(self: &Arc<Self>, candidates: Vec<Candidate>) -> (KeptAgents, FirstAttempts) {
        let (stop, stopping) = watch::channel(None);
        let mut keepers = JoinSet::new();
        let mut first = Vec::new();
        for candidate in candidates {
            let claimed = self.claim(&candidate);
            let (told, hears) = oneshot::channel();
            first.push((candidate.clone(), hears));
            let keeper = AgentKeeper { host: self.clone(), candidate, stopping: stopping.clone() };
            keepers.spawn(keeper.run(claimed, told));
        }
        (KeptAgents { keepers, stop }, FirstAttempts(first))
    }

    fn claim(&self, candidate: &Candidate) -> Claimed {
        let plan = (self.read)(&candidate.home)?;
        let claim = agent::claim(&candidate.name, &candidate.home, &plan.settings, &self.shared)?;
        self.logs.keep(&candidate.name, candidate.home.path(), &plan.settings.logs);
        Ok((plan, claim))
    }
}

impl FirstAttempts {
    /// Returns when each of them runs, or has failed to for the first time.
    pub async fn all(self) -> Vec<FirstAttempt> {
        let mut started = Vec::new();
        for (candidate, hears) in self.0 {
            let gone = || Err(anyhow::anyhow!("its keeper fell over"));
            started.push(FirstAttempt { candidate, result: hears.await.unwrap_or_else(|_| gone()) });
        }
        started
    }
}

impl KeptAgents {
    /// Everyone finishes what can be finished in time. Whether all ended in order.
    pub async fn stop(mut self, ending: Ending) -> bool {
        let _ = self.stop.send(Some(ending));
        let mut clean = true;
        while let Some(ended) = self.keepers.join_next().await {
            clean &= ended.unwrap_or(false);
        }
        clean
    }
}

// -------------------------------------------------------------------------------------- one agent

/// Why an agent does not run any more.
enum AgentEnd {
    /// With its process.
    Stopped { in_order: bool },
    /// It was asked to begin anew, and the process goes on.
    ToBeginAnew,
    /// It has lost its writer.
    Lost,
}

/// What an agent is interrupted by.
struct AgentSignals {
    gone: Arc<tokio::sync::Notify>,
    anew: Arc<tokio::sync::Notify>,
}

struct AgentKeeper {
    host: Arc<Host>,
    candidate: Candidate,
    stopping: watch::Receiver<Option<Ending>>,
}

impl AgentKeeper {
    /// Whether it ended in order.
    async fn run(
        mut self,
        claimed: Claimed,
        told: oneshot::Sender<anyhow::Result<AgentIntroduction>>,
    ) -> bool {
        let mut claimed = Some(claimed);
        let mut told = Some(told);
        let mut failures = 0;
        let mut reported = String::new();
        loop {
            let claim = claimed.take().unwrap_or_else(|| self.host.claim(&self.candidate));
            let place = tokio::select! {
                place = self.host.starting.acquire() => place,
                _ = self.stopping.wait_for(Option::is_some) => return true,
            };
            let begun = self.begin(claim).await;
            drop(place);
            let why = match begun {
                Ok((running, plan)) => {
                    (failures, reported) = (0, String::new());
                    let introduction = running.introduction(plan);
                    if let Some(told) = told.take() {
                        let _ = told.send(Ok(introduction));
                    }
                    match self.while_running(running).await {
                        AgentEnd::Stopped { in_order } => return in_order,
                        AgentEnd::ToBeginAnew => continue,
                        AgentEnd::Lost => "its store was lost; the log has more".to_owned(),
                    }
                }
                Err(error) => {
                    let why = format!("{error:#}");
                    self.leave_word(&error, &why);
                    if let Some(told) = told.take() {
                        let _ = told.send(Err(error));
                        if !self.host.tries_again {
                            return true;
                        }
                    }
                    why
                }
            };
            let pause = RETRY_FIRST.saturating_mul(1 << failures.min(6)).min(RETRY_MAX);
            failures += 1;
            self.host.hosted.down(&self.candidate.name, &why, pause);
            // Once is enough for what stays as it is.
            if why != reported {
                tracing::error!(agent = %self.candidate.name, why, "the agent does not run; it is tried again");
                reported = why;
            }
            if self.stopped_within(pause).await {
                return true;
            }
        }
    }

    /// In a task of its own: a panic in there is not ours.
    async fn begin(&self, claimed: Claimed) -> anyhow::Result<(Running, StartPlan)> {
        let (plan, claim) = claimed?;
        let name = &self.candidate.name;
        self.host.hosted.starts(name, &self.candidate.home, &self.host.shared);
        let span = tracing::error_span!("agent", agent = %name);
        let (host, candidate) = (self.host.clone(), self.candidate.clone());
        let starting = async move {
            let api_listener = (host.api_listener)(&candidate, &plan.settings);
            let running =
                agent::start(&candidate.name, claim, &plan.settings, api_listener, &host.shared).await?;
            anyhow::Ok((running, plan))
        };
        match tokio::spawn(starting.instrument(span)).await {
            Ok(started) => started,
            Err(panic) => Err(anyhow::anyhow!("it fell over while it started ({panic}); the log has more")),
        }
    }

    async fn while_running(&mut self, running: Running) -> AgentEnd {
        let name = &self.candidate.name;
        let AgentSignals { gone, anew } = self.host.hosted.runs(name, running.api());
        let listing = tokio::spawn(list_channels(self.candidate.home.clone(), running.api()));
        let mut begins_anew = false;
        let stopped = tokio::select! {
            ending = self.stopping.wait_for(Option::is_some) => ending.ok().and_then(|ending| *ending),
            () = gone.notified() => None,
            () = anew.notified() => {
                begins_anew = true;
                Some(Ending::Restart)
            }
        };
        listing.abort();
        let api = running.api();
        let draining = Status { draining: true, ..api.status() };
        self.host.hosted.tell(name, &draining);
        let left = running.stop().await;
        self.host.hosted.ended(name, stopped.unwrap_or(Ending::Stop));
        match (stopped, left) {
            (None, _) => AgentEnd::Lost,
            (Some(_), Ok(left)) => {
                if !left.is_clean() {
                    tracing::warn!(
                        agent = %name,
                        turns = left.running_turns,
                        waiting = left.waiting_inputs,
                        undelivered = left.undelivered,
                        "stopped with work left; it goes on at the next start"
                    );
                }
                if begins_anew { AgentEnd::ToBeginAnew } else { AgentEnd::Stopped { in_order: true } }
            }
            (Some(_), Err(error)) => {
                tracing::error!(agent = %name, "{error:#}");
                if begins_anew { AgentEnd::ToBeginAnew } else { AgentEnd::Stopped { in_order: false } }
            }
        }
    }

    /// Hermes' tools should hear why it does not run, unless they hear something else from its owner.
    fn leave_word(&self, error: &anyhow::Error, why: &str) {
        let home = &self.candidate.home;
        let is_ours = !error.is::<Occupied>() && home.path().is_dir() && home.owner().is_none();
        match self.host.hosted.presence(&self.candidate.name) {
            Some(presence) => presence.ends(Stage::Failed, Some(why.to_owned()), false, now()),
            None if is_ours => {
                HermesStateFiles::new(home, Vec::new(), now()).ends(
                    Stage::Failed,
                    Some(why.to_owned()),
                    false,
                    now(),
                );
            }
            None => {}
        }
    }

    async fn stopped_within(&mut self, pause: Duration) -> bool {
        tokio::time::timeout(pause, self.stopping.wait_for(Option::is_some)).await.is_ok()
    }
}

async fn list_channels(home: Home, api: Arc<dyn AgentApi>) {
    loop {
        hermes_state_files::list_channels(&home, api.as_ref()).await;
        tokio::time::sleep(CHANNELS_EVERY).await;
    }
}

fn now() -> Time {
    SystemClock::new().now()
}

// ------------------------------------------------------------------------------------ all of them

/// Everybody who belongs to this process, and how they are.
pub struct HostedAgents {
    instance: String,
    agents: Mutex<Vec<ManagedAgent>>,
    restart: watch::Sender<bool>,
}

struct ManagedAgent {
    name: String,
    home: Home,
    state: AgentState,
    presence: Arc<Mutex<Option<HermesStateFiles>>>,
    /// When a restart of the process was last ordered with this agent's key.
    ordered: Option<Instant>,
}

enum AgentState {
    Starting,
    Running {
        api: Arc<dyn AgentApi>,
        /// Rings when the agent has lost its writer.
        gone: Arc<tokio::sync::Notify>,
        /// Rings when it is to begin anew.
        anew: Arc<tokio::sync::Notify>,
        pulse: WriterPulse,
    },
    Down {
        why: String,
        since: Time,
        retry_at: Time,
    },
    Ended,
}

/// Whether a writer still comes round.
struct WriterPulse {
    rounds: u64,
    at: Instant,
    reported: bool,
}

impl HostedAgents {
    /// Names are labels of homes, and each is another's: see [`throughline_home::home::labels`].
    pub fn new(candidates: &[Candidate]) -> Arc<Self> {
        let agent = |candidate: &Candidate| ManagedAgent {
            name: candidate.name.clone(),
            home: candidate.home.clone(),
            state: AgentState::Starting,
            presence: Arc::default(),
            ordered: None,
        };
        Arc::new(Self {
            instance: format!("{}-{}", std::process::id(), now().0),
            agents: Mutex::new(candidates.iter().map(agent).collect()),
            restart: watch::Sender::new(false),
        })
    }

    fn agents(&self) -> MutexGuard<'_, Vec<ManagedAgent>> {
        self.agents.lock().expect("nothing panics while it holds the seats")
    }

    fn set(&self, name: &str, state: AgentState) {
        if let Some(agent) = self.agents().iter_mut().find(|agent| agent.name == name) {
            agent.state = state;
        }
    }

    fn starts(&self, name: &str, home: &Home, shared: &ProcessShared) {
        let profiles = match shared.shared_listener.is_some() && name == agent::FRONT {
            true => self.agents().iter().map(|agent| agent.name.clone()).collect(),
            false => Vec::new(),
        };
        let presence = HermesStateFiles::new(home, profiles, now());
        if let Some(agent) = self.agents().iter_mut().find(|agent| agent.name == name) {
            agent.state = AgentState::Starting;
            agent.presence = Arc::new(Mutex::new(Some(presence)));
        }
    }

    fn runs(&self, name: &str, api: Arc<dyn AgentApi>) -> AgentSignals {
        let [gone, anew] = [(); 2].map(|()| Arc::new(tokio::sync::Notify::new()));
        let pulse = WriterPulse { rounds: 0, at: Instant::now(), reported: false };
        let signals = AgentSignals { gone: gone.clone(), anew: anew.clone() };
        self.set(name, AgentState::Running { api: api.clone(), gone, anew, pulse });
        self.tell(name, &api.status());
        signals
    }

    fn down(&self, name: &str, why: &str, pause: Duration) {
        let mut agents = self.agents();
        let Some(agent) = agents.iter_mut().find(|agent| agent.name == name) else { return };
        let since = match &agent.state {
            AgentState::Down { since, .. } => *since,
            _ => now(),
        };
        agent.state = AgentState::Down { why: why.to_owned(), since, retry_at: now().plus(pause) };
    }

    fn ended(&self, name: &str, ending: Ending) {
        if let Some(presence) = self.presence(name) {
            presence.ends(Stage::Stopped, None, ending == Ending::Restart, now());
        }
        self.set(name, AgentState::Ended);
    }

    fn presence(&self, name: &str) -> Option<HermesStateFiles> {
        let presence = self.agents().iter().find(|agent| agent.name == name)?.presence.clone();
        presence.lock().expect("nothing panics while it holds this").take()
    }

    /// Leaves word for Hermes' tools, if there is news.
    fn tell(&self, name: &str, status: &Status) {
        let presence =
            self.agents().iter().find(|agent| agent.name == name).map(|agent| agent.presence.clone());
        let Some(presence) = presence else { return };
        if let Some(presence) = presence.lock().expect("nothing panics while it holds this").as_mut() {
            presence.runs(status, now());
        }
    }

    /// One look at everybody.
    fn beat(&self) -> HeartbeatReport {
        let mut running = Vec::new();
        let (mut moving, all) = (0, {
            let mut agents = self.agents();
            for agent in agents.iter_mut() {
                if let AgentState::Running { api, gone, pulse, .. } = &mut agent.state {
                    let presence = agent.presence.clone();
                    running.push((
                        agent.name.clone(),
                        api.clone(),
                        gone.clone(),
                        presence,
                        std::mem::take(pulse),
                    ));
                }
            }
            agents.len()
        });
        let count = running.len();
        let mut pulses = BTreeMap::new();
        for (name, api, gone, presence, mut pulse) in running {
            let status = api.status();
            if let Some(presence) = presence.lock().expect("nothing panics while it holds this").as_mut() {
                presence.runs(&status, now());
            }
            if status.writer_gone && !status.draining {
                gone.notify_one();
            }
            if status.writer_rounds != pulse.rounds {
                pulse = WriterPulse { rounds: status.writer_rounds, at: Instant::now(), reported: false };
            }
            let stuck = pulse.at.elapsed() > STUCK;
            if stuck && !pulse.reported {
                pulse.reported = true;
                tracing::error!(agent = %name, "the agent's disk has not answered for {} s", STUCK.as_secs());
            }
            moving += usize::from(!stuck);
            pulses.insert(name, pulse);
        }
        for agent in self.agents().iter_mut() {
            if let (AgentState::Running { pulse, .. }, Some(felt)) =
                (&mut agent.state, pulses.remove(&agent.name))
            {
                *pulse = felt;
            }
        }
        HeartbeatReport { lives: moving > 0 || count == 0, running: count, all }
    }

    /// Returns when the process is to begin anew.
    pub async fn restart_asked(&self) {
        let _ = self.restart.subscribe().wait_for(|asked| *asked).await;
    }
}

/// What one look at everybody shows.
struct HeartbeatReport {
    lives: bool,
    running: usize,
    all: usize,
}

impl Default for WriterPulse {
    fn default() -> Self {
        Self { rounds: 0, at: Instant::now(), reported: false }
    }
}

impl throughline_server::ProcessHost for HostedAgents {
    fn instance(&self) -> String {
        self.instance.clone()
    }

    fn hosted_agents(&self) -> Vec<HostedAgent> {
        let member = |agent: &ManagedAgent| HostedAgent {
            name: agent.name.clone(),
            home: agent.home.identity(),
            condition: match &agent.state {
                AgentState::Running { api, .. } => AgentCondition::Running(api.clone()),
                AgentState::Starting => AgentCondition::Starting,
                AgentState::Down { why, since, retry_at } => {
                    AgentCondition::Down { why: why.clone(), since: *since, retry_at: Some(*retry_at) }
                }
                AgentState::Ended => {
                    AgentCondition::Down { why: "it was stopped".into(), since: now(), retry_at: None }
                }
            },
        };
        self.agents().iter().map(member).collect()
    }

    /// A key moves its own agent. So the process begins anew when all its agents that run were asked to, or the only one.
    fn restart(&self, home: &str, scope: RestartScope) -> Result<RestartOutcome, String> {
        let mut agents = self.agents();
        let is_alone = agents.len() == 1;
        let Some(agent) = agents.iter_mut().find(|agent| agent.home.identity() == home) else {
            return Err("its agent does not belong to this process any more".to_owned());
        };
        if scope == RestartScope::Agent && !is_alone {
            return match &agent.state {
                AgentState::Running { anew, .. } => {
                    anew.notify_one();
                    Ok(RestartOutcome::Agent)
                }
                _ => Err("its agent is not running; it is tried again by itself".to_owned()),
            };
        }
        agent.ordered = Some(Instant::now());
        let is_missing = |agent: &&ManagedAgent| {
            let runs = matches!(agent.state, AgentState::Running { .. });
            runs && agent.ordered.is_none_or(|at| at.elapsed() >= ORDERS_WITHIN)
        };
        let missing: Vec<String> =
            agents.iter().filter(is_missing).map(|agent| agent.home.identity()).collect();
        if missing.is_empty() {
            self.restart.send_replace(true);
            return Ok(RestartOutcome::Process);
        }
        Ok(RestartOutcome::Awaits(missing))
    }
}

/// Looks after everybody until it is dropped.
pub async fn heartbeat(hosted: Arc<HostedAgents>, notify: Arc<Notify>) {
    let mut ticks = tokio::time::interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut told = (0, 0);
    loop {
        ticks.tick().await;
        let looked = hosted.clone();
        let Ok(beat) = tokio::task::spawn_blocking(move || looked.beat()).await else { continue };
        let HeartbeatReport { lives, running, all } = beat;
        if (running, all) != told {
            told = (running, all);
            notify.say(&ServiceNews::Status(format!("{running} of {all} agents run")));
        }
        if lives && notify.watchdog.is_some() {
            notify.say(&ServiceNews::Alive);
        }
    }
}
