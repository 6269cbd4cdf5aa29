//! One agent: a home, its store, its sessions, its way in. Several share a process and nothing else.

use crate::bridge::Agents;
use crate::chain;
use crate::clock::Clock;
use crate::committer::{CommitError, Library, News, ReaderFactory, StoreFactory, Writer};
use crate::compress::Compressor;
use crate::draft::Drafts;
use crate::expiry::{self, Lifecycle, Reckoning};
use crate::gateway_tools::GatewayTools;
use crate::ingress::Ingress;
use crate::outbox::Outbox;
use crate::owner::Owners;
use crate::retention::{self, Memory, Retaining};
use crate::review::Reviewer;
use crate::router::{self, Router};
use crate::session::{Mail, Origin};
use crate::silence::Silence;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use throughline_core::id::Boot;
use throughline_core::input::{Destination, Room};
use throughline_core::port::{
    AgentApi, Commit, DraftChange, Hooks, HostCommands, Ledger, Model, Models, Outgoing, Platform,
    StoreError, SystemPrompt,
};
use throughline_core::prompt::Digest;
use throughline_core::session::Rules;
use throughline_core::tool::Tools;
use throughline_core::{SessionId, Time};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, Span};

/// Encoded histories are kept in memory up to this much in all; beyond it, sessions at rest give theirs back.
const CACHE_BYTES_MAX: usize = 32 << 20;

/// Sessions whose falls are counted, and sessions whose place is kept until they are taken up. Beyond that one starts
/// over: it is tried again sooner than it should be, or its prompt says nothing of its place.
const COUNTED_MAX: usize = 4_096;

/// Makes a session id from the time, a random number and where the session comes from.
pub type Mint = Arc<dyn Fn(Time, u64, &str) -> SessionId + Send + Sync>;

/// What an agent is made of.
pub struct Parts {
    pub clock: Arc<dyn Clock>,
    pub model: Arc<dyn Model>,
    pub tools: Arc<dyn Tools>,
    /// The tools that act on the gateway itself. Part of `tools`, too, if the agent may use them.
    pub gateway_tools: Arc<GatewayTools>,
    pub prompts: Arc<dyn SystemPrompt>,
    pub compressor: Compressor,
    /// Where it remembers beyond its own files. None: nowhere.
    pub memory: Option<Memory>,
    pub reviewer: Reviewer,
    /// The user's own programs.
    pub hooks: Arc<dyn Hooks>,
    pub platforms: Vec<Arc<dyn Platform>>,
    /// What only the program around the gateway can do for people.
    pub host_commands: Arc<dyn HostCommands>,
    /// What people may choose from beside `model`.
    pub models: Arc<dyn Models>,
    /// What agents may spend on each other, in this process and in others.
    pub ledger: Arc<dyn Ledger>,
    pub mint: Mint,
    pub open: StoreFactory,
    /// None: questions go to the writer itself.
    pub readers: Option<ReaderFactory>,
}

pub struct Options {
    pub rules: Rules,
    pub lifecycle: Lifecycle,
    /// Whether the writer gets a thread of its own, or is a task among the others.
    pub writer_thread: bool,
    /// How much the model is to think, where a conversation says nothing else.
    pub reasoning: Option<String>,
    /// Without a memory provider: conversations that begin are reminded of earlier ones.
    pub recollects: bool,
    /// Whom the operator named as administrators in private: platform and user.
    pub administrators: Vec<(String, String)>,
    pub owners: Owners,
    /// What encoded histories weigh, of all agents that share this.
    pub cached: Arc<AtomicUsize>,
    /// None but in the simulator, whose judges have to find it.
    pub defect: Option<Defect>,
}

/// A deliberate bug of the owner of a session, which nothing outside it could play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// What the memory answers takes the place of the answer that the model still owes.
    RecallForgetsQuestion,
}

/// An owner who has looked at what is asked, or written at a terminal, looks again within this time.
const OWNER_STAYS: Duration = Duration::from_secs(120);

pub(crate) struct Home {
    pub library: Library,
    pub clock: Arc<dyn Clock>,
    pub model: Arc<dyn Model>,
    pub tools: Arc<dyn Tools>,
    pub prompts: Arc<dyn SystemPrompt>,
    pub compressor: Compressor,
    pub memory: Option<Memory>,
    pub reasoning: Option<String>,
    pub reviewer: Reviewer,
    pub hooks: Arc<dyn Hooks>,
    pub lifecycle: Lifecycle,
    pub platforms: BTreeMap<String, Arc<dyn Platform>>,
    /// Whose bots may be answered through, beside its own.
    pub agents: Arc<Agents>,
    pub host_commands: Arc<dyn HostCommands>,
    pub administrators: Vec<(String, String)>,
    pub owners: Owners,
    pub models: Arc<dyn Models>,
    pub ledger: Arc<dyn Ledger>,
    pub mint: Mint,
    pub rules: Rules,
    pub boot: Boot,
    pub router: Router,
    pub outbox: Outbox,
    pub retaining: Arc<Retaining>,
    pub drafts: Drafts,
    pub gauges: Gauges,
    /// Something happened that a drain may have waited for.
    pub stirred: Notify,
    /// When an owner who can answer what tools ask was last heard of.
    pub owner_seen: Mutex<Option<Instant>>,
    pub reckoning: Mutex<Reckoning>,
    /// Sessions whose running turn no asker attends: what they have others do is not attended either.
    pub unattended: Mutex<BTreeSet<SessionId>>,
    pub draining: AtomicBool,
    pub recovered: AtomicBool,
    /// The store is about to be closed: no session is woken any more.
    pub closing: AtomicBool,
    pub silence: Silence,
    /// A deliberate bug, for the simulator.
    pub defect: Option<Defect>,
    pub in_flight: Mutex<BTreeMap<Digest, usize>>,
    pub in_flight_left: Notify,
    unwritable: Mutex<Option<String>>,
    /// Why the model did not answer when it was last asked.
    model_trouble: Mutex<Option<String>>,
    /// How often each session's actor has fallen over.
    falls: Mutex<BTreeMap<SessionId, u32>>,
    /// Around all that this agent does: its lines go to its own log.
    pub span: Span,
    /// What the place of a session that follows another adds to its prompt, until it is taken up.
    rooms: Mutex<BTreeMap<SessionId, Room>>,
}

/// How a reply leaves.
pub(crate) enum Way {
    By(Arc<dyn Platform>),
    /// By the bot of an agent that does not run now.
    Away,
    /// By a platform that is not connected.
    Off,
}

impl Way {
    pub fn found(self) -> Option<Arc<dyn Platform>> {
        match self {
            Way::By(platform) => Some(platform),
            Way::Away | Way::Off => None,
        }
    }
}

#[derive(Default)]
pub(crate) struct Gauges {
    pub running: AtomicUsize,
    /// Of the running turns, those that only wait for a person.
    pub asking: AtomicUsize,
    pub waiting: AtomicUsize,
    /// Ended sessions that are being handed over.
    pub finalising: AtomicUsize,
    pub cached: Arc<AtomicUsize>,
}

impl Home {
    pub fn unwritable(&self) -> Option<String> {
        self.unwritable.lock().expect("nothing panics while it holds this").clone()
    }

    pub fn model_trouble(&self) -> Option<String> {
        self.model_trouble.lock().expect("nothing panics while it holds this").clone()
    }

    /// How the model's latest answer went: None, well; else what went wrong.
    pub fn model_answered(&self, trouble: Option<&str>) {
        let mut known = self.model_trouble.lock().expect("nothing panics while it holds this");
        if known.as_deref() != trouble {
            *known = trouble.map(str::to_owned);
        }
    }

    /// Where it leaves: by its own account, or by the bot of the agent that was written to. Never by
    /// another one.
    pub fn platform(&self, destination: &Destination) -> Way {
        let name = &destination.platform;
        match destination.lender().filter(|lender| **lender != *self.rules.agent) {
            Some(lender) => self.agents.bot(lender, name).map_or(Way::Away, Way::By),
            None => self.platforms.get(name).cloned().map_or(Way::Off, Way::By),
        }
    }

    pub fn note(&self, session: Option<SessionId>, name: &'static str, detail: String) {
        let at = self.clock.now();
        self.library.commit_unawaited(Commit::Note { session, name, detail, at });
    }

    /// The operator wants silence: at once, even if the disk refuses. Returns the number of the order.
    pub async fn silence(&self) -> (u64, Result<(), StoreError>) {
        let order = self.silence.order();
        (order, self.write_silence(true).await)
    }

    /// Ends the silence, on disk first: what is said from then on must not be silenced by the next start.
    pub async fn lift(&self) -> Result<(), StoreError> {
        let order = self.silence.given();
        self.write_silence(false).await?;
        self.silence.lift(order);
        Ok(())
    }

    /// The operator ends it: for everyone, also for those who have not heard of it yet.
    pub async fn resume(&self) -> Result<(), StoreError> {
        let order = self.silence.given();
        self.lift().await?;
        self.silence.resume(order);
        Ok(())
    }

    async fn write_silence(&self, ordered: bool) -> Result<(), StoreError> {
        match self.library.commit(Commit::Silence { ordered }).await {
            Ok(_) => Ok(()),
            Err(CommitError::Refused(error)) => Err(error),
            Err(CommitError::Unknown) => Err(StoreError::Busy),
        }
    }

    pub fn is_halted(&self) -> bool {
        self.silence.is_on()
    }

    /// An owner who can answer what tools ask was here a moment ago.
    pub fn has_owner(&self) -> bool {
        let seen = *self.owner_seen.lock().expect("nothing panics while it holds the time");
        seen.is_some_and(|seen| seen.elapsed() < OWNER_STAYS)
    }

    /// The gateway looks at the clock, and at what it knows of it.
    pub fn reckoned<T>(&self, now: Time, read: impl FnOnce(&mut Reckoning) -> T) -> T {
        let mut reckoning = self.reckoning.lock().expect("nothing panics while it holds the time");
        reckoning.look(now);
        read(&mut reckoning)
    }

    pub fn set_unattended(&self, session: &SessionId, is_unattended: bool) {
        let mut unattended = self.unattended.lock().unwrap_or_else(PoisonError::into_inner);
        match is_unattended {
            true => unattended.insert(session.clone()),
            false => unattended.remove(session),
        };
    }

    /// None of those who asked for the session's running turn can answer what its tools ask.
    pub fn is_unattended(&self, session: &SessionId) -> bool {
        self.unattended.lock().unwrap_or_else(PoisonError::into_inner).contains(session)
    }

    pub fn is_cache_full(&self) -> bool {
        self.gauges.cached.load(Ordering::Relaxed) > CACHE_BYTES_MAX
    }

    /// How long to wait before a session whose actor fell over is loaded again.
    pub fn fallen(&self, session: &SessionId) -> Duration {
        let mut falls = self.falls.lock().expect("nothing panics while it holds this");
        let count = falls.remove(session).unwrap_or(0).saturating_add(1);
        insert_bounded(&mut falls, session.clone(), count);
        Duration::from_millis(50 << count.min(11))
    }

    /// A session that could write something down stands again.
    pub fn stands(&self, session: &SessionId) {
        self.falls.lock().expect("nothing panics while it holds this").remove(session);
    }

    /// A session that follows another is in the same place.
    pub fn bequeath(&self, successor: &SessionId, room: Room) {
        if !room.is_plain() {
            let mut rooms = self.rooms.lock().expect("nothing panics while it holds the rooms");
            insert_bounded(&mut rooms, successor.clone(), room);
        }
    }

    pub fn inherited(&self, session: &SessionId) -> Room {
        let mut rooms = self.rooms.lock().expect("nothing panics while it holds the rooms");
        rooms.remove(session).unwrap_or_default()
    }

    fn is_quiet(&self) -> bool {
        let gauges = &self.gauges;
        // A person may take days: what only waits for one goes on waiting after the next start.
        gauges.running.load(Ordering::Relaxed) == gauges.asking.load(Ordering::Relaxed)
            && (self.is_halted()
                || (gauges.waiting.load(Ordering::Relaxed) == 0 && self.outbox.pending() == 0))
    }
}

/// A running agent.
pub struct Agent {
    home: Arc<Home>,
    writer: Option<std::thread::JoinHandle<()>>,
}

/// What was left when an agent stopped. It is on disk, and goes on at the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub running_turns: usize,
    pub waiting_inputs: usize,
    pub undelivered: usize,
}

impl Stopped {
    pub fn is_clean(&self) -> bool {
        *self == Self { running_turns: 0, waiting_inputs: 0, undelivered: 0 }
    }
}

impl Agent {
    /// Opens the home and takes up all that was unfinished. When this returns, messages may come in.
    pub async fn start(parts: Parts, options: Options) -> Result<Self, StoreError> {
        let Parts {
            clock, model, tools, gateway_tools, prompts, compressor, memory, hooks, platforms, ..
        } = parts;
        let Parts { host_commands, models, ledger, mint, open, readers, reviewer, .. } = parts;
        let mut store = open()?;
        let began = clock.now();
        let boot = store.boot(began)?;
        let unfinished = store.reader().unfinished()?;
        let baseline = store.reader().baseline()?;
        let mut undelivered = store.reader().undelivered()?;
        let asks = store.reader().asks()?;
        for outgoing in &mut undelivered {
            let call = Outgoing::asked_by(&outgoing.key);
            outgoing.question = asks.iter().find(|pending| Some(&pending.call) == call.as_ref()).cloned();
        }
        let drafts = store.reader().drafts()?;
        let halted = store.reader().is_silenced()?;

        // At the gravest level, so that it is there at every log level.
        let span = tracing::error_span!("agent", agent = %options.rules.agent);
        let (library, api) = Library::new(readers);
        let (news, newsstand) = mpsc::unbounded_channel();
        let writer = Writer::new(&library, clock.clone(), news);
        let writing = api.run(store, open, writer).instrument(span.clone());
        let writer = match options.writer_thread {
            true => Some(on_a_thread(writing)?),
            false => {
                tokio::spawn(writing);
                None
            }
        };

        let remembers = memory.as_ref().is_some_and(|memory| memory.provider.every().is_some());
        let recollects = options.recollects && memory.is_none();
        let home = Arc::new(Home {
            library,
            clock,
            model,
            tools,
            prompts,
            compressor,
            reasoning: options.reasoning,
            memory: memory.clone(),
            retaining: Arc::default(),
            reviewer,
            hooks,
            lifecycle: options.lifecycle,
            platforms: platforms.into_iter().map(|platform| (platform.name().to_owned(), platform)).collect(),
            agents: gateway_tools.agents.clone(),
            host_commands,
            administrators: options.administrators,
            owners: options.owners,
            models,
            ledger,
            mint,
            rules: Rules {
                baseline: Some(baseline),
                remembers,
                recalls: memory.is_some(),
                recollects,
                ..options.rules
            },
            boot,
            router: Router::default(),
            outbox: Outbox::default(),
            drafts: Drafts::default(),
            gauges: Gauges { cached: options.cached, ..Gauges::default() },
            stirred: Notify::new(),
            owner_seen: Mutex::new(None),
            reckoning: Mutex::new(Reckoning::new(began)),
            unattended: Mutex::default(),
            draining: AtomicBool::new(false),
            recovered: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            silence: Silence::found(halted),
            defect: options.defect,
            in_flight: Mutex::default(),
            in_flight_left: Notify::new(),
            unwritable: Mutex::default(),
            model_trouble: Mutex::default(),
            falls: Mutex::default(),
            span: span.clone(),
            rooms: Mutex::default(),
        });
        home.outbox.belongs_to(&home);
        gateway_tools.belong_to(&home);
        let waits = |key: &str| is_awaited(key, &unfinished, &undelivered);
        let (awaited, abandoned): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|(key, _)| waits(key));
        home.drafts.recover(awaited);
        for (key, _) in abandoned {
            let commit = Commit::Draft { key, change: DraftChange::Left, at: home.clock.now() };
            home.library.commit_unawaited(commit);
        }
        tokio::spawn(read_news(Arc::downgrade(&home), newsstand).instrument(span));
        undelivered.into_iter().for_each(|outgoing| home.outbox.send(outgoing));
        for session in unfinished {
            router::mail(&home, &session, Origin::Stored, Mail::Wake);
        }
        if !halted {
            router::release(&home); // the last process may have ended the silence, and died before it told everybody
        }
        if !home.lifecycle.policies.are_never() {
            tokio::spawn(expiry::watch(Arc::downgrade(&home)).instrument(home.span.clone()));
        }
        tokio::spawn(chain::watch(Arc::downgrade(&home)).instrument(home.span.clone()));
        if let Some(memory) = memory {
            memory.belongs_to(&home);
            tokio::spawn(retention::run(Arc::downgrade(&home), memory).instrument(home.span.clone()));
        }
        home.recovered.store(true, Ordering::Relaxed);
        Ok(Self { home, writer })
    }

    pub fn api(&self) -> Arc<dyn AgentApi> {
        Arc::new(Ingress(self.home.clone()))
    }

    /// Accepts nothing new, finishes what runs, waits and has to be delivered, and closes the store.
    /// What is not done by `deadline` stays on disk.
    pub async fn stop(self, deadline: Duration) -> Result<Stopped, StoreError> {
        let home = self.home;
        home.draining.store(true, Ordering::Relaxed);
        home.stirred.notify_waiters(); // a turn waits for a memory no longer than a stop may take
        let _ = timeout(deadline, quiet(&home)).await;
        let left = Stopped {
            running_turns: home.gauges.running.load(Ordering::Relaxed),
            waiting_inputs: home.gauges.waiting.load(Ordering::Relaxed),
            undelivered: home.outbox.pending(),
        };
        retention::stop(&home).await;
        home.closing.store(true, Ordering::Relaxed);
        home.router.dismiss();
        home.outbox.dismiss();
        match home.library.close().await {
            // What was accepted is on disk; only the index and the projections are behind.
            Err(error @ (StoreError::Unwritable(_) | StoreError::Busy)) => {
                tracing::warn!(%error, "stopped without tidying up; the next start does it");
            }
            closed => closed?,
        }
        if let Some(writer) = self.writer {
            let _ = tokio::task::spawn_blocking(move || writer.join()).await; // it has answered; this waits for its exit
        }
        Ok(left)
    }
}

/// What there is no room for any more goes, but not what was just put there.
fn insert_bounded<T>(map: &mut BTreeMap<SessionId, T>, key: SessionId, value: T) {
    while map.len() >= COUNTED_MAX {
        map.pop_first();
    }
    map.insert(key, value);
}

/// Whether a reply may still take the place of a preview: its turn goes on, or it is on its way. The
/// preview of a turn that was ended stays as it is.
fn is_awaited(key: &str, unfinished: &[SessionId], undelivered: &[Outgoing]) -> bool {
    let is_of =
        |session: &SessionId| key.strip_prefix(session.as_str()).is_some_and(|rest| rest.starts_with('/'));
    unfinished.iter().any(is_of)
        || undelivered.iter().any(|outgoing| Outgoing::draft_key(&outgoing.key) == key)
}

/// When the gateway begins to stop.
pub(crate) async fn stopping(home: &Home) {
    loop {
        let stirred = home.stirred.notified();
        if home.draining.load(Ordering::Relaxed) {
            return;
        }
        stirred.await;
    }
}

async fn quiet(home: &Home) {
    loop {
        let stirred = home.stirred.notified();
        if home.is_quiet() {
            return;
        }
        // Not every change stirs; a short nap costs nothing here.
        let _ = timeout(Duration::from_millis(50), stirred).await;
    }
}

fn on_a_thread(
    writing: impl Future<Output = ()> + Send + 'static,
) -> Result<std::thread::JoinHandle<()>, StoreError> {
    let broken =
        |source: std::io::Error| StoreError::Broken { doing: "start the writer", source: source.into() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(broken)?;
    let thread = std::thread::Builder::new().name("committer".into());
    thread.spawn(move || runtime.block_on(writing)).map_err(broken)
}

async fn read_news(home: std::sync::Weak<Home>, mut news: mpsc::UnboundedReceiver<News>) {
    while let Some(item) = news.recv().await {
        let Some(home) = home.upgrade() else { return };
        match item {
            News::Foreign(tended) => {
                if tended.routes {
                    home.router.forget_all();
                }
                for session in &tended.foreign {
                    home.router.mail_if_awake(session, Mail::Foreign);
                }
            }
            News::Unwritable(why) => {
                match &why {
                    Some(why) => tracing::error!(
                        why,
                        "the store cannot be written: nothing more is accepted until it can be"
                    ),
                    None => tracing::info!("the store can be written again"),
                }
                *home.unwritable.lock().expect("nothing panics while it holds this") = why;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_for_each_session_is_bounded() {
        let mut map = BTreeMap::new();
        for number in 0..COUNTED_MAX + 100 {
            let key: SessionId = format!("s{:06}", COUNTED_MAX + 100 - number).parse().expect("an id");
            insert_bounded(&mut map, key.clone(), number);
            assert!(map.len() <= COUNTED_MAX && map.contains_key(&key));
        }
        assert_eq!(map.len(), COUNTED_MAX);
    }
}
