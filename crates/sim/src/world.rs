//! One seeded world: the real gateway on a simulated disk, lived through one crash after another.
//!
//! Time is paused and moves only when everybody waits; one seed drives scheduling, the model, the
//! platforms, the people, the faults. A crash drops everything in memory at once and lets the disk
//! forget what was not synced; the next life begins from what is left, by the same code as always.

use crate::disk::{Disk, Image};
use crate::elicit;
use crate::engine::{SimEngine, expanded};
use crate::forgetting::{self, Forgot};
use crate::hooks::SimHooks;
use crate::judge;
use crate::ledger::{Pages, SimLedger};
use crate::log;
use crate::memory::SimMemory;
use crate::model::{SimModel, line};
use crate::mutant::Mutant;
use crate::owner;
use crate::past;
use crate::people::{self, Room};
use crate::plan::{Crash, LifecyclePlan, Plan, RECALL_PATIENCE};
use crate::platforms::{Forgetful, Post, SimPlatform};
use crate::records::{AgentLetter, ChatBook, Compressing, Question, Records};
use crate::remember::{self, SimProvider};
use crate::review;
use crate::seed::Seed;
use crate::story;
use crate::tools::{SimBriefing, SimTools};
use crate::watched::Watched;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::lifecycle::{Mode, Policies, Policy};
use throughline_core::port::{
    AgentApi, Past, Platform, Read, SessionFilter, SessionSummary, Store, StoreError, Wishes,
};
use throughline_core::session::Rules;
use throughline_core::{Message, RowId, SessionId, Time};
use throughline_gateway::{
    Agent, Agents, Bridge, Clock, Compressor, Defect, Delegation, GatewayTools, HandsSettings, Lifecycle,
    Memory, NoClerk, OneModel, Options, Parts, Reviewer,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// When every world begins: 2026-01-01T00:00:00Z.
pub const DAWN: i64 = 1_767_225_600_000_000;
/// When the day is over. A world that has not come to rest by the end of its night is stuck.
const DUSK: Duration = Duration::from_secs(3600);
/// What ends at dusk is handed over after it, with hooks that fail and that the gateway waits for.
const NIGHT: Duration = Duration::from_secs(3600);

/// Everything outside the gateway, and whether there is still power.
pub struct Outside {
    pub plan: Plan,
    records: Mutex<Records>,
    seed: Mutex<Seed>,
    /// One for each agent.
    pub disks: Vec<Disk>,
    pub mutant: Option<Mutant>,
    /// Beside every home, and on a disk of its own.
    pub ledger: Mutex<Pages>,
    dead: AtomicBool,
    /// A tool ended the process.
    killed: AtomicBool,
    pub died: Notify,
    /// Transactions since the last planned crash, and after which one the next comes.
    pub commits: AtomicU64,
    pub commits_max: AtomicU64,
    /// What was forgotten before this began.
    pub forgotten: Option<Forgot>,
    /// Time that passed in earlier lives, and when this one began.
    time: Mutex<(Duration, Option<Instant>)>,
}

/// How a world ended.
#[derive(Clone, Debug)]
pub struct Report {
    pub wrong: Vec<String>,
    pub lives: u32,
    pub trace: u64,
    /// How many of the planned crashes came.
    pub crashes: usize,
    /// How often what can happen did.
    pub tally: BTreeMap<&'static str, usize>,
    /// What was seen, in words, if the world was told to remember.
    pub story: Vec<String>,
    /// What models and engines were asked, in order.
    pub asked: Vec<Question>,
    pub compressing: Vec<Compressing>,
    /// What agents wrote to each other.
    pub letters: Vec<AgentLetter>,
    /// What was logged about compressions.
    pub log: Vec<String>,
    /// How many sessions each chat has had, as the stores know them: by agent and key of the chat.
    pub ids: BTreeMap<(usize, String), usize>,
    /// How often people said that they begin anew, the same way.
    pub resets: BTreeMap<(usize, String), usize>,
}

impl Outside {
    pub fn write<T>(&self, entry: impl FnOnce(&mut Records) -> T) -> T {
        entry(&mut self.records.lock().expect("nothing panics while it holds the records"))
    }

    pub fn draw<T>(&self, draw: impl FnOnce(&mut Seed) -> T) -> T {
        draw(&mut self.seed.lock().expect("nothing panics while it holds the seed"))
    }

    pub fn has_struck(&self) -> bool {
        self.disks.iter().any(Disk::has_struck)
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed) || self.has_struck()
    }

    pub fn die(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.died.notify_one();
    }

    /// A tool ends the process.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        self.die();
    }

    async fn death(&self) {
        while !self.is_dead() {
            self.died.notified().await; // perhaps the echo of an earlier death
        }
    }

    /// How long the world has been going on.
    pub fn now(&self) -> Duration {
        let (before, began) = *self.time.lock().expect("nothing panics while it holds the time");
        before + began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// What the clock on the wall says. It is never before 1970.
    pub fn wall(&self) -> Time {
        let (before, began) = *self.time.lock().expect("nothing panics while it holds the time");
        let lived = began.map_or(Duration::ZERO, |began| began.elapsed());
        let off = self.plan.clock.off_by(before + lived, lived);
        Time(Time(DAWN).plus(before + lived).0.saturating_add(off).max(0))
    }

    /// A seeded time, up to `most`.
    pub async fn pause(&self, most: Duration) {
        self.pause_between(Duration::ZERO, most).await;
    }

    /// A seeded time from `least` up to `most`.
    pub async fn pause_between(&self, least: Duration, most: Duration) {
        let micros = u64::try_from((most - least).as_micros()).unwrap_or(u64::MAX).max(1);
        let drawn = self.draw(|seed| seed.below(micros));
        self.wait(least + Duration::from_micros(drawn)).await;
    }

    pub async fn wait(&self, time: Duration) {
        self.live_or_never().await;
        sleep(time).await;
        self.live_or_never().await;
    }

    fn everybody_was_told(&self) -> bool {
        self.ledger.lock().expect("nothing panics while it holds the ledger").untold() == 0
    }

    /// Goes on only while there is power.
    pub async fn live_or_never(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }
}

struct SimClock(Arc<Outside>);

impl Clock for SimClock {
    fn now(&self) -> Time {
        self.0.wall()
    }

    fn chance(&self) -> u64 {
        self.0.draw(Seed::next_u64)
    }
}

pub struct World {
    outside: Arc<Outside>,
}

impl World {
    pub fn new(number: u64, plan: Plan, template: &Image, mutant: Option<Mutant>) -> Self {
        let mut seed = Seed::new(number);
        let agents = plan.agents;
        let disks: Vec<_> = (0..agents).map(|_| Disk::from_image(template, seed.next_u64())).collect();
        if mutant == Some(Mutant::MissReplacement) {
            disks.iter().for_each(Disk::hide_replacements);
        }
        let mut records = Records::default();
        records.chats =
            plan.chats.iter().map(|chat| ChatBook { agent: chat.agent, ..ChatBook::default() }).collect();
        records.clients.resize(plan.clients.len(), Default::default());
        records.silences.resize(agents, None);
        let outside = Outside {
            plan,
            records: Mutex::new(records),
            seed: Mutex::new(seed),
            disks,
            mutant,
            ledger: Mutex::default(),
            dead: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            died: Notify::new(),
            commits: AtomicU64::new(0),
            commits_max: AtomicU64::new(u64::MAX),
            forgotten: None,
            time: Mutex::default(),
        };
        Self { outside: Arc::new(outside) }
    }

    /// The same world by another plan, after something was forgotten in it.
    fn going_on(self, plan: Plan, forgotten: Forgot) -> Self {
        let before = &self.outside;
        let outside = Outside {
            plan,
            records: Mutex::new(before.write(std::mem::take)),
            seed: Mutex::new(before.draw(Seed::fork)),
            disks: before.disks.clone(),
            mutant: before.mutant,
            ledger: Mutex::new(std::mem::take(
                &mut *before.ledger.lock().expect("nothing panics while it holds the ledger"),
            )),
            dead: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            died: Notify::new(),
            commits: AtomicU64::new(0),
            commits_max: AtomicU64::new(u64::MAX),
            forgotten: Some(forgotten),
            time: Mutex::new(*before.time.lock().expect("nothing panics while it holds the time")),
        };
        Self { outside: Arc::new(outside) }
    }

    /// Remembers in words what is seen.
    #[must_use]
    pub fn telling(self) -> Self {
        self.outside.write(|records| records.story = Some(Vec::new()));
        self
    }

    /// Lives through every planned crash, and what its tools do to it, and then to the end.
    pub fn play(self) -> Report {
        let outside = self.outside.clone();
        let mut report = log::kept(&outside, || self.lived());
        let Some(plan) = outside.plan.forgetting.clone().filter(|_| report.wrong.is_empty()) else {
            return report;
        };
        outside.write(|records| {
            records.asked = std::mem::take(&mut report.asked);
            records.compressing = std::mem::take(&mut report.compressing);
            records.letters = std::mem::take(&mut report.letters);
            records.log = std::mem::take(&mut report.log);
            records.story = Some(std::mem::take(&mut report.story)).filter(|story| !story.is_empty());
        });
        let mut interrupted = 0;
        match forgetting::carry_out(&outside, &plan, &mut interrupted) {
            Ok(forgotten) => {
                let before = report.crashes;
                let world = self.going_on(outside.plan.after_forgetting(), forgotten);
                report = log::kept(&world.outside.clone(), || world.lived());
                report.crashes += before;
            }
            Err(wrong) => report.wrong.push(wrong),
        }
        report.tally.insert(forgetting::INTERRUPTED, interrupted);
        report
    }

    fn lived(&self) -> Report {
        let outside = &self.outside;
        let mut crashes: VecDeque<_> = outside.plan.crashes.iter().copied().collect();
        let ended = loop {
            let crash = crashes.front().copied();
            let ended = self.live(crash);
            let killed = outside.killed.swap(false, Ordering::Relaxed);
            let struck = match crash {
                Some(Crash::AfterCommit(n)) => outside.commits.load(Ordering::Relaxed) >= n,
                Some(Crash::AtOperation(_) | Crash::At(_)) => !killed,
                None => false,
            };
            match ended {
                Ended::Died if struck => {
                    crashes.pop_front();
                    outside.commits.store(0, Ordering::Relaxed);
                }
                Ended::Died if killed => {}
                ended => break ended,
            }
        };
        let mut report = outside.write(|records| Report {
            wrong: records.wrong.clone(),
            lives: records.life,
            trace: records.trace(),
            crashes: outside.plan.crashes.len() - crashes.len(),
            tally: BTreeMap::new(),
            story: records.story.take().unwrap_or_default(),
            asked: Vec::new(),
            compressing: Vec::new(),
            letters: Vec::new(),
            log: Vec::new(),
            ids: BTreeMap::new(),
            resets: BTreeMap::new(),
        });
        match ended {
            Ended::Finished => {
                let Verdict { wrong, tally, ids } = self.judge();
                (report.wrong, report.tally, report.ids) = (wrong, tally, ids);
            }
            Ended::Died => {
                report.wrong.push("the last life ended although nothing was planned to end it".into());
            }
            Ended::Stuck(why) => report.wrong.push(format!("stuck: {why}")),
        }
        outside.write(|records| {
            report.asked = std::mem::take(&mut records.asked);
            report.compressing = std::mem::take(&mut records.compressing);
            report.letters = std::mem::take(&mut records.letters);
            report.log = std::mem::take(&mut records.log);
            for (chat, book) in records.chats.iter().enumerate() {
                let resets = book.said.iter().filter(|said| said.text == "/new").count();
                let key = people::chat_key(&outside.plan, chat);
                report.resets.insert((book.agent, key), resets);
            }
        });
        report
    }

    fn live(&self, crash: Option<Crash>) -> Ended {
        let outside = &self.outside;
        let life = outside.write(|records| {
            records.life += 1;
            records.log.push(log::BEGAN.to_owned());
            records.hanging.clear();
            records.life
        });
        outside.dead.store(false, Ordering::Relaxed);
        outside.disks.iter().for_each(Disk::free_space); // the operator who starts a gateway makes room for it
        outside.commits_max.store(u64::MAX, Ordering::Relaxed);
        let mut at = None;
        match crash {
            Some(Crash::AfterCommit(n)) => outside.commits_max.store(n, Ordering::Relaxed),
            Some(Crash::AtOperation(n)) => outside.disks[life as usize % outside.disks.len()].strike_at(n),
            Some(Crash::At(time)) => at = Some(time),
            None => {}
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without IO needs nothing that can be missing");
        let names = (0..outside.disks.len()).map(|agent| agent_name(agent).to_owned());
        let agents = Arc::new(Agents::expecting(names.collect()));
        let (ended, lived) = runtime.block_on(async {
            let began = Instant::now();
            outside.time.lock().expect("nothing panics while it holds the time").1 = Some(began);
            let ended = tokio::select! {
                biased;
                () = outside.death() => Ended::Died,
                () = strike(at) => Ended::Died,
                ended = timeout(DUSK + NIGHT, life_of(outside.clone(), agents.clone())) => {
                    ended.unwrap_or_else(|_| Ended::Stuck("it never came to rest".into()))
                }
            };
            (ended, began.elapsed())
        });
        let ended = if outside.is_dead() { Ended::Died } else { ended };
        if matches!(ended, Ended::Died) {
            outside.dead.store(true, Ordering::Relaxed); // a task that still stirs while it is dropped finds no power
            outside.disks.iter().for_each(Disk::crash);
        }
        agents.names().iter().for_each(|name| agents.leave(name));
        drop(runtime);
        let mut time = outside.time.lock().expect("nothing panics while it holds the time");
        *time = (time.0 + lived + Duration::from_secs(1), None);
        ended
    }

    fn judge(&self) -> Verdict {
        self.verdict().unwrap_or_else(|error| Verdict { wrong: vec![error], ..Verdict::default() })
    }

    fn verdict_on_the_past(&self) -> Result<Verdict, String> {
        let outside = &self.outside;
        let mut wrong = outside.write(|records| records.wrong.clone());
        for (agent, disk) in outside.disks.iter().enumerate() {
            let store = open(outside, disk).map_err(|error| format!("the store does not open: {error}"))?;
            wrong.extend(self.remembered(store.reader(), agent)?);
            let found = outside.write(|records| past::verdict(&outside.plan, records, store.reader(), agent));
            wrong.extend(found.map_err(|error| format!("the store cannot be read: {error}"))?);
        }
        let tally = outside.write(|records| judge::tally(records, &BTreeMap::new()));
        Ok(Verdict { wrong, tally, ..Verdict::default() })
    }

    fn remembered(&self, store: &dyn Read, agent: usize) -> Result<Vec<String>, String> {
        if self.outside.plan.remembering.is_none() {
            return Ok(Vec::new());
        }
        let unkept = store.unkept().map_err(|error| format!("the store cannot be read: {error}"))?;
        Ok(self.outside.write(|records| remember::verdict(&self.outside.plan, records, agent, &unkept)))
    }

    fn verdict(&self) -> Result<Verdict, String> {
        let outside = &self.outside;
        if let Some(forgotten) = &outside.forgotten {
            let (wrong, tally) = forgetting::verdict(outside, forgotten)?;
            return Ok(Verdict { wrong, tally, ..Verdict::default() });
        }
        if outside.plan.past {
            return self.verdict_on_the_past();
        }
        let mut transcripts = BTreeMap::new();
        let mut ended = BTreeSet::new();
        let mut open_reviews = Vec::new();
        let mut wrong = Vec::new();
        let mut ids = BTreeMap::new();
        for (agent, disk) in outside.disks.iter().enumerate() {
            let store = open(outside, disk).map_err(|error| format!("the store does not open: {error}"))?;
            // A session that works for another one is in no list, but was asked something.
            let asked =
                outside.write(|records| records.asked.iter().map(|asked| asked.session.clone()).collect());
            let unreadable = |error| format!("the store cannot be read: {error}");
            let (found, snapshots, violations) = read_all(store.reader(), asked).map_err(unreadable)?;
            wrong.extend(self.remembered(store.reader(), agent)?);
            let sessions = listed_in(store.reader()).map_err(unreadable)?;
            for chat in sessions.iter().filter_map(|summary| summary.chat.clone()) {
                *ids.entry((agent, chat)).or_insert(0) += 1;
            }
            let over = sessions.into_iter().filter(|summary| summary.ended.is_some());
            ended.extend(over.map(|summary| summary.id));
            open_reviews.extend(review::open_in(store.reader()).map_err(unreadable)?);
            let (found, snapshots) = outside.write(|records| {
                let expand = |rows: &Vec<String>| expanded(records, rows);
                let found: BTreeMap<_, _> =
                    found.iter().map(|(id, rows)| (id.clone(), expand(rows))).collect();
                let snapshots: Vec<_> = snapshots
                    .iter()
                    .map(|(id, name, rows)| (id.clone(), name.clone(), expand(rows)))
                    .collect();
                (found, snapshots)
            });
            // What a snapshot holds is what the conversation was: it has only grown since.
            for (session, name, rows) in snapshots {
                if !found.get(&session).is_some_and(|whole| whole.starts_with(&rows)) {
                    wrong.push(format!("{name} holds {rows:?}, and {session} is {:?}", found.get(&session)));
                }
            }
            let told = outside.write(|records| {
                story::verdict(&outside.plan, records, store.reader(), &found, outside.mutant)
            });
            wrong.extend(told.map_err(unreadable)?);
            transcripts.extend(found);
            wrong.extend(violations.into_iter().map(|violation| format!("check: {violation}")));
        }
        outside.write(|records| {
            wrong.extend(judge::verdict(&outside.plan, records, &transcripts));
            wrong.extend(judge::ends(&outside.plan, records, &ended));
            wrong.extend(review::verdict(&outside.plan, records, &transcripts, &open_reviews));
            wrong.extend(log::audited(&records.log));
            let tally = judge::tally(records, &transcripts);
            Ok(Verdict { wrong, tally, ids })
        })
    }
}

/// What the judges say of a world that has come to rest.
#[derive(Default)]
struct Verdict {
    wrong: Vec<String>,
    tally: BTreeMap<&'static str, usize>,
    ids: BTreeMap<(usize, String), usize>,
}

enum Ended {
    Finished,
    Died,
    Stuck(String),
}

async fn strike(at: Option<Duration>) {
    match at {
        Some(time) => sleep(time).await,
        None => std::future::pending().await,
    }
}

/// What each agent is called.
pub fn agent_name(agent: usize) -> &'static str {
    const NAMES: [&str; 13] = [
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
        "eleventh",
        "twelfth",
        "thirteenth",
    ];
    NAMES[agent]
}

/// One life of the process: start, let people write until they are done, stop in order.
async fn life_of(outside: Arc<Outside>, agents: Arc<Agents>) -> Ended {
    let mut running = Vec::new();
    for number in 0..outside.disks.len() {
        match start(&outside, &agents, number).await {
            Ok(agent) => {
                agents.join(agent_name(number), agent.api());
                running.push(agent);
            }
            Err(error) => {
                outside.live_or_never().await;
                return Ended::Stuck(format!("could not start: {}", chain(&error)));
            }
        }
    }
    let desks: Vec<_> = running.iter().map(Agent::api).collect();
    if let Err(error) = writing(&outside, &desks).await {
        return Ended::Stuck(format!("someone who writes fell over: {error}"));
    }
    review::rest(&outside).await;
    rest(&desks).await; // what has ended meanwhile is handed over
    for agent in running {
        match agent.stop(Duration::from_secs(600)).await {
            Ok(stopped) if stopped.is_clean() => {}
            Ok(stopped) => return Ended::Stuck(format!("stopped with work left: {stopped:?}")),
            Err(error) => {
                outside.live_or_never().await;
                return Ended::Stuck(format!("could not stop: {}", chain(&error)));
            }
        }
    }
    Ended::Finished
}

async fn start(outside: &Arc<Outside>, agents: &Arc<Agents>, number: usize) -> Result<Agent, StoreError> {
    let name: Arc<str> = agent_name(number).into();
    let settings = HandsSettings {
        clarify_patience: outside.plan.people.patience,
        delegation: Delegation { steps_max: 3, ..Delegation::default() },
    };
    let gateway_tools = Arc::new(GatewayTools::new(settings, agents.clone()));
    let bridge = Bridge::new(name.clone(), agents.clone());
    let way: Arc<dyn Platform> = match outside.mutant {
        Some(Mutant::ForgetChain) => Arc::new(Forgetful(bridge)),
        _ => Arc::new(bridge),
    };
    let mut platforms: Vec<Arc<dyn Platform>> =
        vec![Arc::new(Post { way, outside: outside.clone(), agent: number })];
    if number == 0 || outside.plan.chats.iter().any(|chat| chat.agent == number) {
        for keyed in [true, false] {
            platforms.push(Arc::new(SimPlatform { outside: outside.clone(), agent: number, keyed }));
        }
    }
    let opening = outside.clone();
    let parts = Parts {
        clock: Arc::new(SimClock(outside.clone())),
        model: Arc::new(SimModel { outside: outside.clone(), agent: number }),
        tools: Arc::new(SimTools {
            outside: outside.clone(),
            agent: number,
            gateway_tools: gateway_tools.clone(),
        }),
        gateway_tools,
        prompts: Arc::new(SimBriefing(outside.clone())),
        compressor: compressor(outside, number),
        memory: memory(outside, number),
        reviewer: Reviewer::default(),
        hooks: Arc::new(SimHooks(outside.clone())),
        platforms,
        host_commands: Arc::new(NoClerk),
        models: Arc::new(OneModel),
        ledger: Arc::new(SimLedger(outside.clone())),
        mint: Arc::new(|now, chance, _| mint(now, chance)),
        open: Box::new(move || {
            let store = open(&opening, &opening.disks[number])?;
            Ok(Box::new(Watched::new(store, opening.clone())) as Box<dyn Store>)
        }),
        readers: None,
    };
    let limits = outside.plan.limits.clone();
    let hard_tokens = outside.plan.compression.as_ref().map(|plan| plan.hard);
    let review = review::intervals(outside);
    let (busy, home) = (outside.plan.busy, name.clone());
    let rules = Rules { busy, hard_tokens, limits, agent: name, home, review, ..Rules::default() };
    let options = Options {
        rules,
        lifecycle: lifecycle(outside),
        reasoning: None,
        recollects: false,
        administrators: Vec::new(),
        owners: owner::owners(outside),
        writer_thread: false,
        cached: Arc::default(),
        defect: (outside.mutant == Some(Mutant::RecallForgetsQuestion))
            .then_some(Defect::RecallForgetsQuestion),
    };
    Agent::start(parts, options).await
}

/// A day of this world is as long as the plan says.
fn lifecycle(outside: &Outside) -> Lifecycle {
    let LifecyclePlan { idle, day, .. } = outside.plan.lifecycle.clone();
    let mode = match (idle, day) {
        (None, None) => Mode::Never,
        (Some(_), None) => Mode::Idle,
        (None, Some(_)) => Mode::Daily,
        (Some(_), Some(_)) => Mode::Both,
    };
    let common = Policy { mode, idle: idle.unwrap_or_default(), ..Policy::default() };
    let day = i64::try_from(day.unwrap_or(DUSK).as_micros()).unwrap_or(i64::MAX);
    Lifecycle {
        policies: Policies { common, ..Policies::default() },
        struck: Arc::new(move |now, _| Time(now.0 - (now.0 - DAWN).rem_euclid(day))),
        watch: Duration::from_secs(1),
    }
}

fn memory(outside: &Arc<Outside>, agent: usize) -> Option<Memory> {
    let plan = outside.plan.remembering.clone()?;
    let provider = Arc::new(SimProvider { outside: outside.clone(), agent, plan });
    Some(Memory::new(agent_name(agent), provider, RECALL_PATIENCE))
}

fn compressor(outside: &Arc<Outside>, agent: usize) -> Compressor {
    let automatic = outside.plan.compression.is_some();
    let plan = outside.plan.compressing();
    let memory = plan.memory.clone();
    let (patience, keep_last, digesting) = (plan.patience, plan.keep_last, outside.clone());
    Compressor {
        engine: Arc::new(SimEngine { outside: outside.clone(), agent, plan }),
        model: "sim".into(),
        automatic,
        digest: Arc::new(move |past: &Past, wishes: &Wishes| {
            SimEngine::condense(&digesting, past, wishes.keep_last.unwrap_or(keep_last))
        }),
        memory: memory.map(|plan| Arc::new(SimMemory { outside: outside.clone(), agent, plan }) as _),
        patience,
    }
}

/// All failures of a memory provider, one after the other, take less.
const MEMORY_REST: Duration = Duration::from_secs(900);

/// Everybody writes what they have to write, and reacts to what they read, until all is quiet.
async fn writing(outside: &Arc<Outside>, desks: &[Arc<dyn AgentApi>]) -> Result<(), tokio::task::JoinError> {
    let api = &desks[0];
    let chats = outside.plan.chats.iter().enumerate();
    let rooms: Vec<_> =
        chats.map(|(chat, plan)| Room::new(outside.clone(), desks[plan.agent].clone(), chat)).collect();
    let mut writing: Vec<_> = rooms.iter().map(|room| tokio::spawn(room.clone().write())).collect();
    for client in 0..outside.plan.clients.len() {
        writing.push(tokio::spawn(people::client(outside.clone(), api.clone(), client)));
    }
    writing.push(tokio::spawn(people::operator(outside.clone(), desks.to_vec())));
    let mut watching: Vec<_> = rooms.iter().map(|room| tokio::spawn(room.clone().react())).collect();
    for api in desks {
        watching.push(tokio::spawn(people::decide(outside.clone(), api.clone())));
        watching.push(tokio::spawn(elicit::answer(outside.clone(), api.clone())));
    }
    if let Some((from, long)) = outside.plan.disk.full {
        tokio::spawn(fill_up(outside.clone(), from, long));
    }
    if let (Some(at), 1) = (outside.plan.disk.replaced, outside.write(|records| records.life)) {
        tokio::spawn(replace_files(outside.clone(), api.clone(), at));
    }
    for writer in writing {
        writer.await?;
    }
    loop {
        rest(desks).await;
        for room in &rooms {
            room.is_silent().await;
        }
        if desks.iter().all(is_at_rest) && outside.everybody_was_told() {
            watching.iter().for_each(|watcher| watcher.abort());
            if outside.plan.remembering.is_some() {
                sleep(MEMORY_REST).await; // what is due arrives, also what is tried again
            }
            return Ok(());
        }
        sleep(Duration::from_millis(250)).await;
    }
}

async fn fill_up(outside: Arc<Outside>, from: Duration, long: Duration) {
    sleep(from).await;
    outside.disks[0].fill();
    sleep(long).await;
    outside.disks[0].free_space();
}

/// The operator who restored the backup looks whether the gateway noticed, and begins anew if it did.
async fn replace_files(outside: Arc<Outside>, api: Arc<dyn AgentApi>, at: Duration) {
    sleep(at).await;
    outside.disks[0].replace_files();
    outside.write(|records| records.saw(("replaced", 0)));
    while api.status().unwritable.is_none() {
        sleep(Duration::from_millis(250)).await;
    }
    outside.kill();
}

/// An error and what is behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

/// People write no more; what is on its way arrives.
async fn rest(desks: &[Arc<dyn AgentApi>]) {
    while !desks.iter().all(is_at_rest) {
        sleep(Duration::from_millis(250)).await;
    }
}

fn is_at_rest(api: &Arc<dyn AgentApi>) -> bool {
    let status = api.status();
    let left = status.running_turns + status.waiting_inputs + status.undelivered + status.finalising;
    left == 0 && status.unwritable.is_none()
}

fn mint(now: Time, chance: u64) -> SessionId {
    format!("sim_{}_{:08x}", now.whole_seconds(), chance >> 32).parse().expect("a plain id")
}

/// The real store on a simulated disk.
fn open(outside: &Outside, disk: &Disk) -> Result<Box<dyn Store>, StoreError> {
    crate::watched::open_on(disk, outside.mutant, Time(DAWN))
}

/// Every session that is in a list.
fn listed_in(store: &dyn Read) -> Result<Vec<SessionSummary>, StoreError> {
    store.sessions(&SessionFilter { limit: usize::MAX >> 1, ..SessionFilter::default() })
}

type Findings = (BTreeMap<SessionId, Vec<String>>, Vec<(SessionId, String, Vec<String>)>, Vec<String>);

fn read_all(store: &dyn Read, mut sessions: BTreeSet<SessionId>) -> Result<Findings, StoreError> {
    let mut transcripts = BTreeMap::new();
    sessions.extend(listed_in(store)?.into_iter().map(|summary| summary.id));
    let mut snapshots = Vec::new();
    let lines = |rows: &[(RowId, Message)]| rows.iter().map(|(_, message)| line(message)).collect::<Vec<_>>();
    for session in sessions {
        for summary in store.snapshots(&session)? {
            if let Some(snapshot) = store.snapshot(&summary.name)? {
                snapshots.push((session.clone(), summary.name, lines(&snapshot.rows)));
            }
        }
        let rows = store.history(&session)?;
        if !rows.is_empty() {
            transcripts.insert(session, lines(&rows));
        }
    }
    Ok((transcripts, snapshots, store.check()?))
}
