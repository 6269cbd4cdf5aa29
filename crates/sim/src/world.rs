//! One seeded world: the real gateway on a simulated disk, lived through one crash after another.
//!
//! Time is paused and moves only when everybody waits; one seed drives scheduling, the model, the
//! platforms, the people, the faults. A crash drops everything in memory at once and lets the disk
//! forget what was not synced; the next life begins from what is left, by the same code as always.

use crate::books::Books;
use crate::disk::{Disk, Image};
use crate::judge;
use crate::mutant::Mutant;
use crate::outside::{SimModel, SimPlatform, SimTools};
use crate::people;
use crate::plan::{Crash, Plan};
use crate::seed::Seed;
use crate::watched::Watched;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::port::{Desk, Read, SessionFilter, Store, StoreError};
use throughline_core::session::Rules;
use throughline_core::{Message, SessionId, Time};
use throughline_gateway::{Agent, Clock, Options, Parts};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// When every world begins: 2026-01-01T00:00:00Z.
const DAWN: i64 = 1_767_225_600_000_000;
/// A world that has not come to rest by then is stuck.
const DUSK: Duration = Duration::from_secs(3600);

/// Everything outside the gateway, and whether there is still power.
pub struct Outside {
    pub plan: Plan,
    books: Mutex<Books>,
    seed: Mutex<Seed>,
    pub disk: Disk,
    pub mutant: Option<Mutant>,
    dead: AtomicBool,
    pub died: Notify,
    /// Transactions of this life, and after which one it ends.
    pub commits: AtomicU64,
    pub commits_max: AtomicU64,
    /// Time that passed in earlier lives.
    before: Mutex<Duration>,
}

/// How a world ended.
#[derive(Clone, Debug)]
pub struct Report {
    pub wrong: Vec<String>,
    pub lives: u32,
    pub trace: u64,
    /// How many transactions the last life made: a crash after a later one never happens.
    pub commits: u64,
}

impl Outside {
    pub fn write<T>(&self, entry: impl FnOnce(&mut Books) -> T) -> T {
        entry(&mut self.books.lock().expect("nothing panics while it holds the books"))
    }

    pub fn draw<T>(&self, draw: impl FnOnce(&mut Seed) -> T) -> T {
        draw(&mut self.seed.lock().expect("nothing panics while it holds the seed"))
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed) || self.disk.has_struck()
    }

    pub fn die(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.died.notify_one();
    }

    async fn death(&self) {
        while !self.is_dead() {
            self.died.notified().await; // perhaps the echo of an earlier death
        }
    }

    /// A seeded time, up to `most`.
    pub async fn pause(&self, most: Duration) {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
        let drawn = self.draw(|seed| seed.below(micros));
        self.wait(Duration::from_micros(drawn)).await;
    }

    pub async fn wait(&self, time: Duration) {
        self.live_or_never().await;
        sleep(time).await;
        self.live_or_never().await;
    }

    /// Goes on only while there is power.
    pub async fn live_or_never(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }
}

struct SimClock {
    outside: Arc<Outside>,
    began: Instant,
}

impl Clock for SimClock {
    fn now(&self) -> Time {
        let before = *self.outside.before.lock().expect("nothing panics while it holds the time");
        Time(DAWN).plus(before + self.began.elapsed())
    }

    fn chance(&self) -> u64 {
        self.outside.draw(Seed::next_u64)
    }
}

pub struct World {
    outside: Arc<Outside>,
}

impl World {
    pub fn new(number: u64, plan: Plan, template: &Image, mutant: Option<Mutant>) -> Self {
        let mut seed = Seed::new(number);
        let disk = Disk::from_image(template, seed.next_u64());
        let mut books = Books::default();
        books.chats.resize(plan.chats.len(), Default::default());
        books.clients.resize(plan.clients.len(), Default::default());
        let outside = Outside {
            plan,
            books: Mutex::new(books),
            seed: Mutex::new(seed),
            disk,
            mutant,
            dead: AtomicBool::new(false),
            died: Notify::new(),
            commits: AtomicU64::new(0),
            commits_max: AtomicU64::new(u64::MAX),
            before: Mutex::default(),
        };
        Self { outside: Arc::new(outside) }
    }

    /// Lives through every planned crash, and then to the end.
    pub fn play(self) -> Report {
        let crashes = self.outside.plan.crashes.clone();
        let mut ended = Ended::Died;
        for crash in crashes.into_iter().map(Some).chain([None]) {
            ended = self.live(crash);
            if !matches!(ended, Ended::Died) {
                break;
            }
        }
        let commits = self.outside.commits.load(Ordering::Relaxed);
        let (mut wrong, lives, trace) =
            self.outside.write(|books| (books.wrong.clone(), books.life, books.trace()));
        match ended {
            Ended::Finished => wrong = self.judge(),
            Ended::Died => wrong.push("the last life ended although nothing was planned to end it".into()),
            Ended::Stuck(why) => wrong.push(format!("stuck: {why}")),
        }
        Report { wrong, lives, trace, commits }
    }

    fn live(&self, crash: Option<Crash>) -> Ended {
        let outside = &self.outside;
        outside.write(|books| books.life += 1);
        outside.dead.store(false, Ordering::Relaxed);
        outside.disk.free_space(); // whoever starts a gateway makes room for it
        outside.commits.store(0, Ordering::Relaxed);
        outside.commits_max.store(u64::MAX, Ordering::Relaxed);
        let mut at = None;
        match crash {
            Some(Crash::AfterCommit(n)) => outside.commits_max.store(n, Ordering::Relaxed),
            Some(Crash::AtOperation(n)) => outside.disk.strike_at(n),
            Some(Crash::At(time)) => at = Some(time),
            None => {}
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without IO needs nothing that can be missing");
        let (ended, lived) = runtime.block_on(async {
            let began = Instant::now();
            let ended = tokio::select! {
                biased;
                () = outside.death() => Ended::Died,
                () = strike(at) => Ended::Died,
                ended = timeout(DUSK, life(outside.clone(), began)) => {
                    ended.unwrap_or_else(|_| Ended::Stuck("it never came to rest".into()))
                }
            };
            (ended, began.elapsed())
        });
        let ended = if outside.is_dead() { Ended::Died } else { ended };
        if matches!(ended, Ended::Died) {
            outside.dead.store(true, Ordering::Relaxed); // whatever still stirs while it is dropped finds no power
            outside.disk.crash();
        }
        drop(runtime);
        *outside.before.lock().expect("nothing panics while it holds the time") +=
            lived + Duration::from_secs(1);
        ended
    }

    fn judge(&self) -> Vec<String> {
        let outside = &self.outside;
        let store = match open(outside) {
            Ok(store) => store,
            Err(error) => return vec![format!("the store does not open: {error}")],
        };
        match read_all(store.reader()) {
            Ok((transcripts, violations)) => {
                let mut wrong = outside.write(|books| judge::verdict(&outside.plan, books, &transcripts));
                wrong.extend(violations.into_iter().map(|violation| format!("check: {violation}")));
                wrong
            }
            Err(error) => vec![format!("the store cannot be read: {error}")],
        }
    }
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

/// One life of the process: start, let people write until they are done, stop in order.
async fn life(outside: Arc<Outside>, began: Instant) -> Ended {
    let clock = Arc::new(SimClock { outside: outside.clone(), began });
    let opening = outside.clone();
    let parts = Parts {
        clock,
        model: Arc::new(SimModel(outside.clone())),
        tools: Arc::new(SimTools(outside.clone())),
        platforms: vec![
            Arc::new(SimPlatform { outside: outside.clone(), keyed: true }),
            Arc::new(SimPlatform { outside: outside.clone(), keyed: false }),
        ],
        mint: Arc::new(|now, chance, _| mint(now, chance)),
        open: Box::new(
            move || Ok(Box::new(Watched::new(open(&opening)?, opening.clone())) as Box<dyn Store>),
        ),
        readers: None,
    };
    let rules = Rules { busy: outside.plan.busy, soft_tokens: None };
    let options = Options { rules, persona: "You are simulated.".into(), writer_thread: false };
    let agent = match Agent::start(parts, options).await {
        Ok(agent) => agent,
        Err(error) => {
            outside.live_or_never().await;
            return Ended::Stuck(format!("could not start: {}", chain(&error)));
        }
    };
    let desk = agent.desk();
    let mut writing = Vec::new();
    for chat in 0..outside.plan.chats.len() {
        writing.push(tokio::spawn(people::chat(outside.clone(), desk.clone(), chat)));
    }
    for client in 0..outside.plan.clients.len() {
        writing.push(tokio::spawn(people::client(outside.clone(), desk.clone(), client)));
    }
    if let Some((from, long)) = outside.plan.disk.full {
        tokio::spawn(fill_up(outside.clone(), from, long));
    }
    for writer in writing {
        if let Err(error) = writer.await {
            return Ended::Stuck(format!("someone who writes fell over: {error}"));
        }
    }
    rest(&desk).await;
    match agent.stop(Duration::from_secs(600)).await {
        Ok(stopped) if stopped.is_clean() => Ended::Finished,
        Ok(stopped) => Ended::Stuck(format!("stopped with work left: {stopped:?}")),
        Err(error) => {
            outside.live_or_never().await;
            Ended::Stuck(format!("could not stop: {}", chain(&error)))
        }
    }
}

async fn fill_up(outside: Arc<Outside>, from: Duration, long: Duration) {
    sleep(from).await;
    outside.disk.fill();
    sleep(long).await;
    outside.disk.free_space();
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

/// Nobody writes any more; what is on its way arrives.
async fn rest(desk: &Arc<dyn Desk>) {
    loop {
        let status = desk.status();
        if status.running_turns + status.waiting_inputs + status.undelivered == 0
            && status.unwritable.is_none()
        {
            return;
        }
        sleep(Duration::from_millis(250)).await;
    }
}

fn mint(now: Time, chance: u64) -> SessionId {
    format!("sim_{}_{:08x}", now.whole_seconds(), chance >> 32).parse().expect("a plain id")
}

/// The real store on the simulated disk.
pub fn open(outside: &Outside) -> Result<Box<dyn Store>, StoreError> {
    crate::watched::open_on(&outside.disk, outside.mutant, Time(DAWN))
}

type Findings = (BTreeMap<SessionId, Vec<String>>, Vec<String>);

fn read_all(store: &dyn Read) -> Result<Findings, StoreError> {
    let filter = SessionFilter { limit: usize::MAX >> 1, ..SessionFilter::default() };
    let mut transcripts = BTreeMap::new();
    for summary in store.sessions(&filter)? {
        let rows = store.history(&summary.id)?;
        transcripts.insert(summary.id, rows.iter().map(|(_, message)| row(message)).collect());
    }
    Ok((transcripts, store.check()?))
}

fn row(message: &Message) -> String {
    format!("{}:{}", message.role(), message.content().plain())
}
