//! The ledger of chains between agents, for all agents of this process: one thread that writes what is asked of it,
//! many questions to a transaction, and looks a few times a second whether another process has written something
//! that concerns us. The file is the user's, below the state directory, outside every home.
//!
//! - what is granted is on disk; a ledger that cannot be opened grants nothing, and is tried again
//! - only this thread touches the file
//! - an order of silence reaches every agent of every process of the user, once

use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::Time;
use throughline_core::chain::{Share, Shared};
use throughline_core::input::{Root, Trace};
use throughline_core::port::{AgentApi, CutChain, Ledger, Post, Promise, StoreError, Unreachable};
use throughline_gateway::{Clock, SystemClock};
use throughline_home::config::Environment;
use throughline_home::home;
use throughline_store::{LedgerFile, LedgerPage, ProcessId, Silence, SilenceKind};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep};

/// How often it is looked whether another process has written. A stop of all agents takes as long.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often old rows are forgotten.
const TIDY_EVERY: Duration = Duration::from_secs(3600);
/// What is asked at once is answered in one transaction, up to so many questions.
const BATCH_MAX: usize = 256;
/// A message of one of our bots is on its way into the ledger for so long at most.
const POST_PATIENCE: Duration = Duration::from_secs(3);
const POST_RETRY: Duration = Duration::from_millis(50);

/// Where the ledger of this user is. None: it is not known where their state is kept.
pub fn path(environment: &Environment) -> Option<PathBuf> {
    let given =
        |name: &str| environment.get(name).filter(|value| !value.trim().is_empty()).map(PathBuf::from);
    let state = given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")))?;
    Some(state.join("throughline").join("chains.db"))
}

/// What a home is called in it: by its own path, however it was given.
pub fn name_of(home: &Path) -> String {
    home.canonicalize().unwrap_or_else(|_| home.to_owned()).display().to_string()
}

/// A command's way to it, for as long as it takes. None: no gateway of this user has made one, and a command makes none.
pub fn existing(environment: &Environment) -> Option<LedgerFile> {
    path(environment).filter(|path| path.is_file()).map(LedgerFile::at)
}

/// This process, as `process_runs` finds it again.
fn this_process() -> ProcessId {
    let pid = std::process::id();
    ProcessId { pid, started: home::process(pid).and_then(|process| process.start_time) }
}

/// Whether this very process runs. Another one that has got its number is not it.
pub fn process_runs(known: ProcessId) -> bool {
    let running = home::process(known.pid);
    running.is_some_and(|running| known.started.is_none() || running.start_time == known.started)
}

fn nowhere() -> StoreError {
    StoreError::Unwritable(
        "set HOME or XDG_STATE_HOME: without them there is no place for the ledger of chains".into(),
    )
}

fn prepare(path: &Path) -> Result<(), StoreError> {
    let directory = path.parent().unwrap_or(path);
    home::private_directory()
        .create(directory)
        .map_err(|error| StoreError::Unwritable(format!("{} cannot be made: {error}", directory.display())))
}

/// The process' one way to the ledger.
pub struct SharedLedger {
    orders: Sender<LedgerOrder>,
    /// Chains of our people that were cut, and of which they are not told yet.
    untold: watch::Receiver<Arc<Vec<CutChain>>>,
    gateways: Arc<Mutex<BTreeMap<String, KnownGateway>>>,
}

/// An agent that runs here, as orders of silence reach it.
#[derive(Clone)]
struct KnownGateway {
    name: String,
    api: Arc<dyn AgentApi>,
    runtime: tokio::runtime::Handle,
    orders: Sender<LedgerOrder>,
}

/// How what is asked is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lasting {
    Durably,
    /// No caller waits for it, and a power cut may lose it.
    Soon,
}

struct LedgerOrder {
    lasting: Lasting,
    asked: Box<dyn LedgerRequest>,
}

/// Something to be done in a transaction, and told when that is over.
trait LedgerRequest: Send {
    fn run(&mut self, page: &LedgerPage<'_>) -> Result<(), StoreError>;
    fn answer(self: Box<Self>, failed: Option<&Unreachable>);
}

struct LedgerQuestion<T, W> {
    work: Option<W>,
    done: Option<T>,
    answer: oneshot::Sender<Result<T, Unreachable>>,
}

impl<T: Send, W: FnOnce(&LedgerPage<'_>) -> Result<T, StoreError> + Send> LedgerRequest
    for LedgerQuestion<T, W>
{
    fn run(&mut self, page: &LedgerPage<'_>) -> Result<(), StoreError> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(page)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<&Unreachable>) {
        let answer = match (failed, self.done) {
            (None, Some(done)) => Ok(done),
            (Some(failed), _) => Err(failed.clone()),
            (None, None) => Err(Unreachable("the ledger of chains was not asked".into())),
        };
        let _ = self.answer.send(answer); // the caller may have gone; what was taken is taken
    }
}

impl SharedLedger {
    pub fn new(environment: &Environment) -> Arc<Self> {
        let (orders, received) = channel();
        let (tell, untold) = watch::channel(Arc::default());
        let gateways: Arc<Mutex<BTreeMap<String, KnownGateway>>> = Arc::default();
        let keeper = LedgerKeeper {
            path: path(environment),
            file: None,
            gateways: gateways.clone(),
            untold: tell,
            version: None,
            tidied: None,
            obeyed: BTreeMap::new(),
            reported: false,
        };
        let thread = std::thread::Builder::new().name("ledger".into());
        if let Err(error) = thread.spawn(move || keeper.run(&received)) {
            tracing::error!(%error, "the ledger of chains has no thread: messages of bots will wait");
        }
        Arc::new(Self { orders, untold, gateways })
    }

    /// An agent runs on this home: orders of silence are for it, too.
    pub fn join(&self, home: &str, name: &str, api: Arc<dyn AgentApi>) {
        let orders = self.orders.clone();
        let runtime = tokio::runtime::Handle::current();
        let gateway = KnownGateway { name: name.to_owned(), api, runtime, orders };
        self.gateways
            .lock()
            .expect("nothing panics while it holds the gateways")
            .insert(home.to_owned(), gateway);
        let home = home.to_owned();
        drop(self.ask(Lasting::Durably, move |page| page.join(&home, this_process())));
    }

    pub async fn leave(&self, home: &str) {
        self.gateways.lock().expect("nothing panics while it holds the gateways").remove(home);
        let home = home.to_owned();
        let _ =
            self.told(self.ask(Lasting::Durably, move |page| page.leave(&home, std::process::id()))).await;
    }

    fn ask<T: Send + 'static>(
        &self,
        lasting: Lasting,
        work: impl FnOnce(&LedgerPage<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, Unreachable>> {
        ask(&self.orders, lasting, work)
    }

    async fn told<T>(&self, answer: oneshot::Receiver<Result<T, Unreachable>>) -> Result<T, Unreachable> {
        answer.await.unwrap_or_else(|_| Err(Unreachable("the ledger of chains has stopped".into())))
    }
}

fn ask<T: Send + 'static>(
    orders: &Sender<LedgerOrder>,
    lasting: Lasting,
    work: impl FnOnce(&LedgerPage<'_>) -> Result<T, StoreError> + Send + 'static,
) -> oneshot::Receiver<Result<T, Unreachable>> {
    let (answer, answered) = oneshot::channel();
    let asked = Box::new(LedgerQuestion { work: Some(work), done: None, answer });
    let _ = orders.send(LedgerOrder { lasting, asked }); // without its thread nothing is granted, and a caller hears so
    answered
}

impl Ledger for SharedLedger {
    fn take(&self, share: Share) -> Promise<'_, Result<Shared, Unreachable>> {
        Box::pin(self.told(self.ask(Lasting::Durably, move |page| page.take(&share))))
    }

    fn would_grant(&self, share: Share) -> Promise<'_, Result<bool, Unreachable>> {
        Box::pin(self.told(self.ask(Lasting::Soon, move |page| page.would_grant(&share))))
    }

    fn introduce(&self, platform: &str, account: &str) {
        let (platform, account) = (platform.to_owned(), account.to_owned());
        drop(self.ask(Lasting::Soon, move |page| page.introduce(&platform, &account)));
    }

    fn posted(&self, post: Post, trace: Trace) {
        drop(self.ask(Lasting::Soon, move |page| page.posted(&post, &trace)));
    }

    fn recognise(&self, post: Post) -> Promise<'_, Option<Trace>> {
        Box::pin(async move {
            let patient = Instant::now() + POST_PATIENCE;
            loop {
                let asked = post.clone();
                let found = self.ask(Lasting::Soon, move |page| {
                    Ok((page.post(&asked)?, page.is_ours(&asked.platform, &asked.author)?))
                });
                match self.told(found).await {
                    Ok((Some(trace), _)) => return Some(trace),
                    // One of our bots wrote it: what it follows from is being entered.
                    Ok((None, true)) if Instant::now() < patient => sleep(POST_RETRY).await,
                    Ok(_) | Err(_) => return None,
                }
            }
        })
    }

    fn reopen(&self, session: Root) -> Promise<'_, Result<(), Unreachable>> {
        Box::pin(self.told(self.ask(Lasting::Durably, move |page| page.reopen(&session))))
    }

    fn cut(&self, home: Arc<str>) -> Promise<'_, CutChain> {
        let mut untold = self.untold.clone();
        Box::pin(async move {
            let theirs = |cuts: &Arc<Vec<CutChain>>| cuts.iter().any(|cut| cut.root.home == home);
            let found = match untold.wait_for(theirs).await {
                Ok(cuts) => cuts.iter().find(|cut| cut.root.home == home).cloned(),
                Err(_) => None,
            };
            match found {
                Some(cut) => cut,
                None => std::future::pending().await, // its thread has ended: so does the process
            }
        })
    }

    fn announces(&self, cut: CutChain, place: String) -> Promise<'_, Result<bool, Unreachable>> {
        Box::pin(self.told(self.ask(Lasting::Durably, move |page| page.announces(&cut, &place))))
    }

    fn told(&self, cut: CutChain) -> Promise<'_, Result<(), Unreachable>> {
        Box::pin(self.told(self.ask(Lasting::Durably, move |page| page.told(&cut))))
    }

    fn cuts(&self, home: Arc<str>) -> Promise<'_, Result<Vec<CutChain>, Unreachable>> {
        Box::pin(self.told(self.ask(Lasting::Soon, move |page| page.cuts(&home))))
    }
}

/// The thread that has the file.
struct LedgerKeeper {
    path: Option<PathBuf>,
    file: Option<LedgerFile>,
    gateways: Arc<Mutex<BTreeMap<String, KnownGateway>>>,
    untold: watch::Sender<Arc<Vec<CutChain>>>,
    /// As it was when it was last looked at.
    version: Option<i64>,
    tidied: Option<std::time::Instant>,
    /// The last order that was passed on to each home: its report may be on its way.
    obeyed: BTreeMap<String, i64>,
    /// That it cannot be reached is said once.
    reported: bool,
}

impl LedgerKeeper {
    fn run(mut self, orders: &Receiver<LedgerOrder>) {
        loop {
            let asked = match orders.recv_timeout(LOOK_EVERY) {
                Ok(first) => std::iter::once(first).chain(orders.try_iter().take(BATCH_MAX - 1)).collect(),
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return, // no caller is left
            };
            let wrote = !asked.is_empty();
            self.answer(asked);
            self.look(wrote);
        }
    }

    fn answer(&mut self, mut orders: Vec<LedgerOrder>) {
        if orders.is_empty() {
            return;
        }
        let durably = orders.iter().any(|order| order.lasting == Lasting::Durably);
        let done = self.file().and_then(|file| {
            let work = |page: &LedgerPage<'_>| orders.iter_mut().try_for_each(|order| order.asked.run(page));
            match durably {
                true => file.write(now(), work),
                false => file.note(now(), work),
            }
        });
        let failed = done.err().map(|error| Unreachable(error.in_full()));
        match &failed {
            Some(error) if !std::mem::replace(&mut self.reported, true) => {
                tracing::error!(%error, "the ledger of chains cannot be written; messages of bots wait until it can");
            }
            Some(_) => {}
            None => self.reported = false,
        }
        orders.into_iter().for_each(|order| order.asked.answer(failed.as_ref()));
    }

    fn file(&mut self) -> Result<&mut LedgerFile, StoreError> {
        if self.file.is_none() {
            let path = self.path.clone().ok_or_else(nowhere)?;
            prepare(&path)?;
            self.file = Some(LedgerFile::at(path));
        }
        Ok(self.file.as_mut().expect("it was set above"))
    }

    /// What concerns us and was written by us or by others since the last look.
    fn look(&mut self, wrote: bool) {
        let gateways = self.gateways.lock().expect("nothing panics while it holds the gateways").clone();
        if gateways.is_empty() {
            return;
        }
        let tidies = self.tidied.is_none_or(|last| last.elapsed() >= TIDY_EVERY);
        let before = self.version;
        let Ok(file) = self.file() else { return };
        let Ok(version) = file.version() else { return };
        if before == Some(version) && !wrote && !tidies {
            return;
        }
        if tidies {
            let _ = file.note(now(), |page| page.forget_old()); // there will be another hour
        }
        let looked = file.read(now(), |page| {
            let mut untold = Vec::new();
            let mut silences = Vec::new();
            for home in gateways.keys() {
                untold.extend(page.untold(home)?);
                silences.extend(page.pending(home)?.map(|order| (home.clone(), order)));
            }
            Ok((untold, silences))
        });
        let Ok((untold, silences)) = looked else { return };
        self.version = Some(version);
        self.tidied = if tidies { Some(std::time::Instant::now()) } else { self.tidied };
        self.untold.send_if_modified(|known| {
            let changed = **known != untold;
            *known = Arc::new(untold);
            changed
        });
        for (home, order) in silences {
            let is_new = self.obeyed.insert(home.clone(), order.number) != Some(order.number);
            if let Some(gateway) = gateways.get(&home).filter(|_| is_new) {
                gateway.obey(home, order);
            }
        }
    }
}

impl KnownGateway {
    fn obey(&self, home: String, order: Silence) {
        let KnownGateway { name, api, orders, runtime } = self.clone();
        runtime.spawn(async move {
            let done = match order.kind {
                SilenceKind::Stop => api.halt().await,
                SilenceKind::Resume => api.release().await.map(|()| Default::default()),
            };
            let report = match done {
                Ok(halted) => json!({"agent": name, "turns": halted.turns, "waiting": halted.waiting}),
                Err(error) => json!({"agent": name, "error": error.in_full()}),
            };
            drop(ask(&orders, Lasting::Durably, move |page| {
                page.carried_out(&home, order, &report.to_string())
            }));
        });
    }
}

fn now() -> Time {
    SystemClock::new().now()
}
