//! The one writer of a home: many sessions, one fsync.
//!
//! A loop behind a channel. It takes all that is waiting, commits it as one batch, and answers each
//! when all of it is on disk; the fsync before is the window in which the next batch gathers, so
//! there is no timer. In production the loop has a thread of its own; in a simulation it is a task.
//! When nothing waits it tends the store: index, projections, what Hermes wrote beside us.
//!
//! A panic in the store ends the batch, not the home: the store is opened again, and a caller
//! that awaited an answer learns that the outcome is unknown, and loads afresh.

use crate::clock::Clock;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::Time;
use throughline_core::port::{Commit, Committed, Read, Store, StoreError, Tended};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

/// More than this in one transaction makes the first wait for the last without saving fsyncs.
const BATCH_MAX: usize = 256;
/// The store is tended when the writer has been idle this long.
const IDLE: Duration = Duration::from_millis(20);
/// However busy it is, the store is tended this often.
const TEND_AT_LEAST: Duration = Duration::from_secs(1);
/// How often Hermes' own writes are looked for while there is nothing else to do.
const WATCH: Duration = Duration::from_millis(500);
/// And once the home has been quiet for a while: many homes at rest share a process.
const WATCH_AT_REST: Duration = Duration::from_secs(8);
const AT_REST: Duration = Duration::from_secs(30);
/// How often a disk that refused a write is tried again.
const PROBE: Duration = Duration::from_secs(1);
/// So long a stop waits for the search index. What it has yet to take in is on disk, and the next start goes on with it.
const INDEXING_AT_STOP: Duration = Duration::from_secs(3);

pub type StoreFactory = Box<dyn Fn() -> Result<Box<dyn Store>, StoreError> + Send + Sync>;
pub type ReaderFactory = Box<dyn Fn() -> Result<Box<dyn Read>, StoreError> + Send + Sync>;
type Question = Box<dyn FnOnce(&dyn Read) + Send>;

enum Order {
    Commit(Commit, oneshot::Sender<Result<Committed, StoreError>>),
    /// No caller waits for it; it joins the next batch, or the next idle moment.
    Unawaited(Commit),
    Read(Question),
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// What happened in the store without being asked for.
pub(crate) enum News {
    Foreign(Tended),
    /// Why nothing can be written; None: it can be again.
    Unwritable(Option<String>),
}

/// How a commit ended, where the store could say.
#[derive(Debug)]
pub(crate) enum CommitError {
    Refused(StoreError),
    /// The writer went away in the middle. Load again to see.
    Unknown,
}

/// Writes and reads of one home.
#[derive(Clone)]
pub struct Library {
    orders: mpsc::UnboundedSender<Order>,
    readers: Option<Arc<Readers>>,
    pub(crate) meter: Arc<Meter>,
}

/// What the writer has done since the start.
#[derive(Default)]
pub(crate) struct Meter {
    pub commits: AtomicU64,
    pub batches: AtomicU64,
    pub tended: AtomicBool,
    /// Rises with every look at the queue: a writer that is stuck stands still.
    pub rounds: AtomicU64,
}

struct Readers {
    open: ReaderFactory,
    /// Connections at rest, opened on demand, and closed when no read has come for a while.
    idle: Mutex<Vec<Box<dyn Read>>>,
    asked: AtomicU64,
    /// Who may read now. A connection has its own cache and its own copy of the schema, and reading
    /// is work for a core: more at a time would only cost memory.
    places: Arc<Semaphore>,
}

const READERS_MAX: usize = 4;

impl Library {
    /// The writer's end is to be run by the caller: on a thread of its own, or as a task.
    pub(crate) fn new(readers: Option<ReaderFactory>) -> (Self, CommitQueue) {
        let (orders, inbox) = mpsc::unbounded_channel();
        let readers = readers.map(|open| {
            let places = Arc::new(Semaphore::new(READERS_MAX));
            Arc::new(Readers { open, idle: Mutex::default(), asked: AtomicU64::new(0), places })
        });
        (Self { orders, readers, meter: Arc::default() }, CommitQueue { orders: inbox })
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order::Commit(commit, answer)).map_err(|_| CommitError::Unknown)?;
        answered.await.map_err(|_| CommitError::Unknown)?.map_err(CommitError::Refused)
    }

    pub(crate) fn commit_unawaited(&self, commit: Commit) {
        // Only fails when the home is closed; then no one is there to be told.
        let _ = self.orders.send(Order::Unawaited(commit));
    }

    /// Asks a reader; the writer itself where the home has no others.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Read) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let gone = || StoreError::Broken { doing: "read the store", source: "the home is closed".into() };
        match &self.readers {
            Some(readers) => {
                let readers = readers.clone();
                // Held by the work itself: the caller may go away before it is done.
                let place = readers.places.clone().acquire_owned().await.map_err(|_| gone())?;
                let asked = tokio::task::spawn_blocking(move || {
                    let answer = readers.ask(question);
                    drop(place);
                    answer
                });
                let asked = asked.await;
                asked.map_err(|_| gone())?
            }
            None => {
                let (answer, answered) = oneshot::channel();
                let ask: Question = Box::new(move |reader| drop(answer.send(question(reader))));
                self.orders.send(Order::Read(ask)).map_err(|_| gone())?;
                answered.await.map_err(|_| gone())?
            }
        }
    }

    /// The writer has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.orders.is_closed()
    }

    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        if self.orders.send(Order::Close(answer)).is_err() {
            return Ok(());
        }
        answered.await.unwrap_or(Ok(()))
    }
}

impl Readers {
    fn ask<T>(&self, question: impl FnOnce(&dyn Read) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let kept = self.idle.lock().expect("no reader panics holding the list").pop();
        let reader = kept.map_or_else(|| (self.open)(), Ok)?;
        let answer = question(reader.as_ref());
        let mut idle = self.idle.lock().expect("no reader panics holding the list");
        if answer.is_ok() {
            idle.push(reader);
        }
        answer
    }
}

/// The writer's side of the channel.
pub(crate) struct CommitQueue {
    orders: mpsc::UnboundedReceiver<Order>,
}

impl CommitQueue {
    /// Runs until it is told to close, or every other end of the channel is gone.
    pub async fn run(mut self, store: Box<dyn Store>, reopen: StoreFactory, mut writer: Writer) {
        let mut store = store;
        while let Some(orders) = self.gather(&mut writer, store.as_mut()).await {
            let served = match orders {
                Gathered::Orders(orders) => writer.serve(store.as_mut(), orders),
                Gathered::Panicked => Served::Panicked(None),
            };
            match served {
                Served::All => {}
                Served::Close(answer) => {
                    let closing = AssertUnwindSafe(|| close(store.as_mut(), writer.clock.now()));
                    let _ =
                        answer.send(std::panic::catch_unwind(closing).unwrap_or_else(|_| Err(panicked())));
                    return;
                }
                Served::Panicked(Some(answer)) => {
                    let _ = answer.send(Err(panicked()));
                    return;
                }
                Served::Panicked(None) => {
                    drop(store); // a new one must not find the old one's lock
                    match writer.reopened(&reopen).await {
                        Some(opened) => store = opened,
                        None => return,
                    }
                }
            }
        }
    }

    /// Waits for work, tending the store meanwhile. None: no caller is left.
    async fn gather(&mut self, writer: &mut Writer, store: &mut dyn Store) -> Option<Gathered> {
        let first = loop {
            writer.meter.rounds.fetch_add(1, Ordering::Relaxed);
            // Also while commits come without a pause, what was put off must get its turn.
            let overdue = writer.tended_at.elapsed() >= TEND_AT_LEAST;
            let waited = match overdue {
                true => None,
                false => timeout(writer.patience, self.orders.recv()).await.ok(),
            };
            match waited {
                Some(order) => break order?,
                None => {
                    if std::panic::catch_unwind(AssertUnwindSafe(|| writer.tend(store))).is_err() {
                        tracing::error!("the store panicked while it was tended; opening it again");
                        return Some(Gathered::Panicked);
                    }
                }
            }
        };
        let mut orders = vec![first];
        while orders.len() < BATCH_MAX
            && let Ok(order) = self.orders.try_recv()
        {
            orders.push(order);
        }
        Some(Gathered::Orders(orders))
    }
}

fn close(store: &mut dyn Store, now: Time) -> Result<(), StoreError> {
    let until = Instant::now() + INDEXING_AT_STOP;
    let closed = store.close_while(now, &mut || Instant::now() < until)?;
    if closed.unindexed > 0 {
        tracing::info!(
            messages = closed.unindexed,
            "stopped before the search index had all messages; the next start goes on with it"
        );
    }
    Ok(())
}

enum Gathered {
    Orders(Vec<Order>),
    Panicked,
}

fn panicked() -> StoreError {
    StoreError::Broken { doing: "close the store", source: "it panicked; the log has more".into() }
}

pub(crate) struct Writer {
    clock: Arc<dyn Clock>,
    news: mpsc::UnboundedSender<News>,
    meter: Arc<Meter>,
    unwritable: bool,
    /// How long to wait for work before tending.
    patience: Duration,
    tended_at: Instant,
    readers: Option<Arc<Readers>>,
    /// Since when no write and no question has come, and how many questions had come by then.
    quiet_since: Instant,
    asked: u64,
    at_rest: bool,
}

enum Served {
    All,
    Close(oneshot::Sender<Result<(), StoreError>>),
    /// And a caller that was about to close it waits for an answer.
    Panicked(Option<oneshot::Sender<Result<(), StoreError>>>),
}

type Answer = Option<oneshot::Sender<Result<Committed, StoreError>>>;

impl Writer {
    pub fn new(library: &Library, clock: Arc<dyn Clock>, news: mpsc::UnboundedSender<News>) -> Self {
        Self {
            clock,
            news,
            meter: library.meter.clone(),
            unwritable: false,
            patience: IDLE,
            tended_at: Instant::now(),
            readers: library.readers.clone(),
            quiet_since: Instant::now(),
            asked: 0,
            at_rest: false,
        }
    }

    /// In the order of arrival; a question sees every commit that was sent before it.
    fn serve(&mut self, store: &mut dyn Store, orders: Vec<Order>) -> Served {
        let mut commits = Vec::new();
        let mut answers: Vec<Answer> = Vec::new();
        let mut closing = None;
        for order in orders {
            match order {
                Order::Commit(commit, answer) => {
                    commits.push(commit);
                    answers.push(Some(answer));
                }
                Order::Unawaited(commit) => {
                    commits.push(commit);
                    answers.push(None);
                }
                Order::Read(question) => {
                    if !self.commit(store, &mut commits, &mut answers) {
                        return Served::Panicked(closing);
                    }
                    question(store.reader());
                }
                Order::Close(answer) => closing = Some(answer),
            }
        }
        if !self.commit(store, &mut commits, &mut answers) {
            return Served::Panicked(closing);
        }
        self.patience = if self.unwritable { PROBE } else { IDLE };
        self.quiet_since = Instant::now();
        closing.map_or(Served::All, Served::Close)
    }

    /// False: the store panicked. Dropping the answers tells everyone that the outcome is unknown.
    fn commit(
        &mut self,
        store: &mut dyn Store,
        commits: &mut Vec<Commit>,
        answers: &mut Vec<Answer>,
    ) -> bool {
        if commits.is_empty() {
            return true;
        }
        let batch = std::mem::take(commits);
        let answers = std::mem::take(answers);
        let Ok(results) = std::panic::catch_unwind(AssertUnwindSafe(|| store.commit(&batch))) else {
            tracing::error!("the store panicked in a commit; opening it again");
            return false;
        };
        debug_assert_eq!(results.len(), batch.len());
        self.meter.commits.fetch_add(batch.len() as u64, Ordering::Relaxed);
        self.meter.batches.fetch_add(1, Ordering::Relaxed);
        self.meter.tended.store(false, Ordering::Relaxed);
        self.note_writability(&results);
        for (answer, result) in answers.into_iter().zip(results) {
            match answer {
                Some(answer) => drop(answer.send(result)), // the caller may be gone
                None => {
                    if let Err(error) = result {
                        tracing::warn!(%error, "a commit that nobody waits for was refused");
                    }
                }
            }
        }
        true
    }

    fn note_writability(&mut self, results: &[Result<Committed, StoreError>]) {
        let refused = results.iter().find_map(|result| match result {
            Err(StoreError::Unwritable(why)) => Some(why.clone()),
            _ => None,
        });
        match refused {
            Some(why) if !self.unwritable => {
                self.unwritable = true;
                let _ = self.news.send(News::Unwritable(Some(why)));
            }
            None if self.unwritable && results.iter().any(Result::is_ok) => {
                self.unwritable = false;
                let _ = self.news.send(News::Unwritable(None));
            }
            _ => {}
        }
    }

    fn tend(&mut self, store: &mut dyn Store) {
        self.tended_at = Instant::now();
        let now = self.clock.now();
        if self.unwritable {
            let detail = "the store can be written again".to_owned();
            let probe = Commit::Note { session: None, name: "disk_recovered", detail, at: now };
            self.note_writability(&store.commit(&[probe]));
            self.patience = if self.unwritable { PROBE } else { IDLE };
            return;
        }
        match store.tend(now) {
            Ok(tended) => {
                let at_rest = self.is_at_rest() && !tended.more;
                if at_rest && !self.at_rest {
                    store.rest();
                }
                self.at_rest = at_rest;
                self.patience = match (tended.more, at_rest) {
                    (true, _) => Duration::ZERO,
                    (false, true) => WATCH_AT_REST,
                    (false, false) => WATCH,
                };
                self.meter.tended.store(!tended.more, Ordering::Relaxed);
                for trouble in &tended.trouble {
                    tracing::warn!(trouble, "could not tend to everything; trying again");
                    self.patience = PROBE;
                }
                if !tended.foreign.is_empty() || tended.routes {
                    let _ = self.news.send(News::Foreign(tended));
                }
            }
            Err(StoreError::Unwritable(why)) => {
                self.note_writability(&[Err(StoreError::Unwritable(why))]);
                self.patience = PROBE;
            }
            Err(error) => {
                tracing::warn!(%error, "could not tend the store; trying again");
                self.patience = PROBE;
            }
        }
    }

    /// This home has not been used for a while. What its readers hold is given back.
    fn is_at_rest(&mut self) -> bool {
        let asked = self.readers.as_ref().map_or(0, |readers| readers.asked.load(Ordering::Relaxed));
        if asked != self.asked {
            (self.asked, self.quiet_since) = (asked, Instant::now());
        }
        let at_rest = self.quiet_since.elapsed() >= AT_REST;
        if let (true, Some(readers)) = (at_rest, &self.readers) {
            readers.idle.lock().expect("no reader panics holding the list").clear();
        }
        at_rest
    }

    async fn reopened(&self, reopen: &StoreFactory) -> Option<Box<dyn Store>> {
        for _ in 0..REOPEN_MAX {
            match reopen() {
                Ok(store) => {
                    // What it took over while it was opened has not been told.
                    let _ = self.news.send(News::Foreign(Tended { routes: true, ..Tended::default() }));
                    return Some(store);
                }
                Err(error) => tracing::error!(%error, "could not open the store again"),
            }
            sleep(PROBE).await;
        }
        let why =
            "the store could not be opened again; restart the gateway after looking at the log".to_owned();
        let _ = self.news.send(News::Unwritable(Some(why)));
        None
    }
}

/// After a minute of trying, a person must look.
const REOPEN_MAX: u32 = 60;
