//! Turns on their way to the memory provider: each is a row that stays until the provider has it.
//!
//! - in order within one document, and never two of them at once; different documents go side by side
//! - a row is marked on disk before it is handed over; found so after a start, it may have arrived, and
//!   the provider is told to look first
//! - a provider that is down is asked again after a while, by one row at a time, however long it takes; each time by
//!   the document that has waited longest, so one that it never takes holds up no other
//! - a hand-over that hangs holds up its own document, and none beside it
//! - nothing is handed over once the gateway stops: what is due is on disk, and first at the next start
//!
//! Deliberately absent: a queue in memory. What is to be done is read from the store each time.

use crate::agent::Home;
use crate::committer::CommitError;
use crate::scope;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use throughline_core::Time;
use throughline_core::home_status::HomeStatus;
use throughline_core::memory::{MemoryError, PendingRetention, Progress, Provider, RetentionChange, Wanted};
use throughline_core::port::{Commit, Promise, Refusal, Remembering, StoreError};
use throughline_core::tool::{Call, Kit, Returned, Spec};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// What an agent remembers with, beyond its own files.
#[derive(Clone)]
pub struct Memory {
    pub provider: Arc<dyn Provider>,
    /// How long a turn waits for a reminder.
    pub patience: Duration,
    /// What Hermes would call the agent: its profile.
    pub profile: Arc<str>,
    home: Arc<OnceLock<Weak<Home>>>,
}

impl Memory {
    pub fn new(profile: &str, provider: Arc<dyn Provider>, patience: Duration) -> Self {
        Self { provider, patience, profile: profile.into(), home: Arc::default() }
    }

    /// How the provider is, and what it offers.
    pub(crate) fn remembering(&self, home: &Home) -> Remembering {
        let tools = self.provider.tools().into_iter().map(|spec| spec.name.to_string());
        Remembering {
            provider: self.provider.name().to_owned(),
            failures: home.retaining.failures.load(Ordering::Relaxed),
            tools: tools.collect(),
        }
    }

    /// Turns that it does not have yet, for a person who asks in a chat.
    pub async fn unkept(&self) -> Result<Vec<PendingRetention>, Refusal> {
        let home = self.at_home()?;
        home.library.read(|store| store.unkept()).await.map_err(|error| Refusal::Internal(error.in_full()))
    }

    /// Has them handed over again; only this one, if it is named.
    pub async fn retry(&self, turn: Option<String>) -> Result<usize, Refusal> {
        retry(&self.at_home()?, turn).await
    }

    /// Where the home stands, and how the provider is.
    pub async fn stands(&self) -> Result<(Remembering, HomeStatus), Refusal> {
        let home = self.at_home()?;
        let status = home.library.read(|store| store.home_status()).await;
        let status = status.map_err(|error| Refusal::Internal(error.in_full()))?;
        Ok((self.remembering(&home), status))
    }

    fn at_home(&self) -> Result<Arc<Home>, Refusal> {
        self.home.get().and_then(Weak::upgrade).ok_or(Refusal::Draining)
    }

    pub(crate) fn belongs_to(&self, home: &Arc<Home>) {
        let _ = self.home.set(Arc::downgrade(home));
    }
}

/// What the model may ask of its memory by itself.
impl Kit for Memory {
    fn specs(&self) -> Vec<Spec> {
        self.provider.tools()
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async move {
            let Some(home) = self.home.get().and_then(Weak::upgrade) else {
                return Returned::text("{\"error\":\"The gateway is stopping. Try again later.\"}");
            };
            if call.caller.task.is_some() {
                return Returned::text(
                    "{\"error\":\"Only the conversation itself has a memory. Hand back what is worth remembering.\"}",
                );
            }
            let scope = match scope::of_caller(&home, &call.caller).await {
                Ok(scope) => scope,
                Err(error) => {
                    tracing::warn!(%error, "could not find out whose memory is asked");
                    return Returned::text("{\"error\":\"The store cannot be read. Try again later.\"}");
                }
            };
            let wanted = Wanted { key: &call.key, name: &call.name, arguments: &call.arguments };
            Returned::text(self.provider.call(&scope, wanted).await)
        })
    }
}

/// So many documents are written to side by side.
const LANES_MAX: usize = 4;
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// As many documents make the longest pause.
const DOUBTS_MAX: usize = 10;
/// How long the outcome of an attempt that broke off is left open: what it wrote is there by then.
const UNKNOWN_FOR: Duration = Duration::from_secs(15);
const DISK_RETRY: Duration = Duration::from_secs(1);
/// A gateway that stops waits for a provider no longer than this.
pub(crate) const STOP_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Default)]
pub(crate) struct Retaining {
    due: Notify,
    open: AtomicUsize,
    /// How often in a row the provider could not be reached, and why, for the status.
    pub failures: AtomicUsize,
    doubt: Mutex<Doubt>,
}

/// What failed since the provider last took something.
#[derive(Default)]
struct Doubt {
    /// The documents that failed. One alone may be at fault itself; the more there are, the less it is worth to
    /// try another.
    documents: BTreeSet<String>,
    /// When the next one is tried.
    until: Option<Time>,
}

impl Retaining {
    /// The provider took something, or refused it: it is there.
    fn reached(&self) {
        self.failures.store(0, Ordering::Relaxed);
        *self.doubt() = Doubt::default();
    }

    fn failed(&self, document: &str, now: Time) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut doubt = self.doubt();
        if doubt.documents.len() < DOUBTS_MAX {
            doubt.documents.insert(document.to_owned());
        }
        let others = doubt.documents.len().saturating_sub(1);
        doubt.until = Some(now.plus(Duration::from_secs(1 << others).min(BACKOFF_MAX)));
    }

    fn doubt(&self) -> std::sync::MutexGuard<'_, Doubt> {
        // Each change leaves it whole, so a panic elsewhere leaves nothing to mend.
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something may be due.
    pub fn wake(&self) {
        self.due.notify_one();
    }

    /// Waits for what is being handed over, but not for long.
    pub async fn finish(&self) {
        let done = async {
            while self.open.load(Ordering::Relaxed) > 0 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = timeout(STOP_PATIENCE, done).await;
    }
}

pub(crate) async fn run(home: Weak<Home>, memory: Memory) {
    loop {
        let Some(home) = home.upgrade() else { return };
        home.silence.over().await;
        if home.draining.load(Ordering::Relaxed) {
            return;
        }
        let rest = match round(&home, &memory).await {
            Ok(rest) => rest,
            Err(error) => {
                tracing::warn!(%error, "could not look up what is to be remembered");
                Some(DISK_RETRY)
            }
        };
        let retaining = home.retaining.clone();
        drop(home); // while this waits, it does not keep the home alive
        match rest {
            Some(Duration::ZERO) => {}
            Some(rest) => drop(timeout(rest, retaining.due.notified()).await),
            None => retaining.due.notified().await,
        }
    }
}

/// Hands over what can be. Returns when there is nothing more, and when to look again: after a while, or when told to.
async fn round(home: &Arc<Home>, memory: &Memory) -> Result<Option<Duration>, StoreError> {
    let retaining = &home.retaining;
    let mut lanes = FuturesUnordered::new();
    let mut busy: BTreeSet<String> = BTreeSet::new();
    loop {
        let rest = match home.draining.load(Ordering::Relaxed) {
            true => None,
            false if home.is_halted() => Some(DISK_RETRY), // nothing new is begun in a silence
            false => {
                let provider = memory.provider.name().to_owned();
                let due = match home.library.read(move |store| store.retentions(&provider)).await {
                    Ok(due) => due,
                    Err(error) if lanes.is_empty() => return Err(error),
                    Err(_) => Vec::new(), // looked up again when a lane comes free
                };
                let (chosen, rest) = chosen(retaining, due, &busy, home.clock.now());
                for pending in chosen {
                    let document = pending.retention.document.clone();
                    busy.insert(document.clone());
                    lanes.push(async move { (document, hand_over(home, memory, pending).await) });
                }
                rest
            }
        };
        if lanes.is_empty() {
            return Ok(rest);
        }
        let (document, reached) = tokio::select! {
            biased; // a simulation must not depend on luck
            Some(done) = lanes.next() => done,
            () = retaining.due.notified() => continue,
            () = sleep(rest.unwrap_or(BACKOFF_MAX)) => continue,
        };
        busy.remove(&document);
        match reached {
            true => retaining.reached(),
            false => retaining.failed(&document, home.clock.now()),
        }
    }
}

/// What is handed over now, beside what is on its way, and when to look again.
fn chosen(
    retaining: &Retaining,
    due: Vec<PendingRetention>,
    busy: &BTreeSet<String>,
    now: Time,
) -> (Vec<PendingRetention>, Option<Duration>) {
    let firsts = first_of_each(due).into_iter().filter(|pending| !busy.contains(&pending.retention.document));
    let (mut ready, later): (Vec<_>, Vec<_>) = firsts.partition(|pending| is_ready(pending, now));
    let next = later.iter().map(|pending| pending.not_before.since(now)).min();
    if retaining.failures.load(Ordering::Relaxed) == 0 {
        ready.truncate(LANES_MAX.saturating_sub(busy.len()));
        return (ready, next);
    }
    // A provider that does not answer is asked by one row at a time, not by all that wait for it.
    let until = retaining.doubt().until.filter(|until| *until > now && until.since(now) <= BACKOFF_MAX);
    match until {
        Some(until) if !ready.is_empty() => (Vec::new(), Some(until.since(now))),
        _ if !busy.is_empty() => (Vec::new(), next),
        _ => {
            ready.sort_by_key(|pending| pending.not_before); // the order among equals stays
            ready.truncate(1);
            (ready, next)
        }
    }
}

/// Not for a clock that was set back.
fn is_ready(pending: &PendingRetention, now: Time) -> bool {
    pending.not_before <= now || pending.not_before.since(now) > BACKOFF_MAX
}

/// Of each document only the first: the others wait for it.
fn first_of_each(due: Vec<PendingRetention>) -> Vec<PendingRetention> {
    let mut documents = BTreeSet::new();
    due.into_iter().filter(|pending| documents.insert(pending.retention.document.clone())).collect()
}

/// Returns whether the provider could be reached.
async fn hand_over(home: &Arc<Home>, memory: &Memory, pending: PendingRetention) -> bool {
    let erasure = pending.erasure();
    let PendingRetention { retention, attempts, .. } = pending;
    let key = retention.key.clone();
    match put(home, &key, RetentionChange::Attempting).await {
        Ok(()) => {}
        Err(_) => {
            sleep(DISK_RETRY).await; // nothing was handed over, and the next round tries again
            return true;
        }
    }
    home.retaining.open.fetch_add(1, Ordering::Relaxed);
    let handing = AssertUnwindSafe(async {
        match &erasure {
            Some(erasure) => memory.provider.erase(erasure).await,
            None => memory.provider.retain(&retention).await,
        }
    })
    .catch_unwind();
    let handed = handing.await.unwrap_or_else(|_| {
        Err(MemoryError::Unknown("The memory provider failed inside the gateway; its log has more.".into()))
    });
    let now = home.clock.now();
    let backoff = Duration::from_secs(1 << attempts.min(9)).min(BACKOFF_MAX);
    let (change, reached) = match handed {
        Ok(()) => (RetentionChange::Kept, true),
        Err(MemoryError::Refused(error)) => {
            match &erasure {
                Some(_) => {
                    tracing::error!(key, error, "the memory provider deletes nothing of a forgotten session")
                }
                None => tracing::error!(key, error, "the memory provider refused a turn; it is kept here"),
            }
            home.note(Some(retention.scope.session.clone()), "retention_refused", format!("{key}: {error}"));
            (RetentionChange::Refused { error }, true)
        }
        Err(MemoryError::Later(error)) => {
            let until = now.plus(backoff);
            (RetentionChange::Postponed { until, error, arrived: retention.tried }, false)
        }
        Err(MemoryError::Busy { words: error, after }) => {
            let until = now.plus(after.max(backoff).min(BACKOFF_MAX));
            (RetentionChange::Postponed { until, error, arrived: retention.tried }, false)
        }
        Err(MemoryError::Unknown(error)) => {
            let until = now.plus(backoff.max(UNKNOWN_FOR));
            (RetentionChange::Postponed { until, error, arrived: true }, false)
        }
    };
    if let RetentionChange::Postponed { error, .. } = &change {
        tracing::warn!(
            key,
            error,
            attempts,
            "the memory provider did not do what it was asked; it is asked again"
        );
        if attempts == 0 {
            let session = Some(retention.scope.session.clone());
            home.note(session, "retention_postponed", format!("{key}: {error}"));
        }
    }
    // Until the outcome is on disk nothing else may go to the document. A store that is closed by then
    // leaves the row as tried.
    while let Err(NotWritten::NotNow) = put(home, &key, change.clone()).await {
        sleep(DISK_RETRY).await;
    }
    home.retaining.open.fetch_sub(1, Ordering::Relaxed);
    reached
}

enum NotWritten {
    NotNow,
    Never,
}

async fn put(home: &Arc<Home>, key: &str, change: RetentionChange) -> Result<(), NotWritten> {
    let commit = Commit::Retention { key: key.to_owned(), change, at: home.clock.now() };
    match home.library.commit(commit).await {
        Ok(_) => Ok(()),
        Err(CommitError::Refused(StoreError::Unwritable(_) | StoreError::Busy)) => Err(NotWritten::NotNow),
        Err(CommitError::Refused(_) | CommitError::Unknown) => Err(NotWritten::Never),
    }
}

/// A person has it tried again: what was refused, or postponed.
pub(crate) async fn retry(home: &Arc<Home>, turn: Option<String>) -> Result<usize, Refusal> {
    let internal = |error: StoreError| Refusal::Internal(error.in_full());
    let unkept = home.library.read(|store| store.unkept()).await.map_err(internal)?;
    let waits = unkept.into_iter().filter(|pending| pending.progress != Progress::Buffered);
    let keys = waits.map(|pending| pending.retention.key);
    let keys: Vec<String> = keys.filter(|key| turn.as_ref().is_none_or(|turn| turn == key)).collect();
    if let (true, Some(turn)) = (keys.is_empty(), &turn) {
        let why = format!(
            "no turn {turn} waits for the memory provider; `throughline memory jobs` lists those that do"
        );
        return Err(Refusal::Unknown(why));
    }
    for key in &keys {
        if put(home, key, RetentionChange::Retried).await.is_err() {
            return Err(Refusal::Internal("the store cannot be written; try again later".into()));
        }
    }
    home.retaining.reached();
    home.retaining.wake();
    Ok(keys.len())
}

/// The gateway stops: what waits for more of its kind is due, and nothing is handed over any more.
pub(crate) async fn stop(home: &Home) {
    if home.memory.is_none() {
        return;
    }
    let commit = Commit::HandOver { at: home.clock.now() };
    if home.library.commit(commit).await.is_err() {
        tracing::warn!("what is buffered for the memory provider could not be made due; it stays buffered");
    }
    home.retaining.wake();
    home.retaining.finish().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_core::memory::{Retention, Scope};
    use throughline_core::{Seq, SessionId, TurnId};

    fn pending(document: &str, number: u64, not_before: i64) -> PendingRetention {
        let session: SessionId = document.parse().expect("a plain id");
        let retention = Retention {
            key: format!("{document}/{number}"),
            document: document.into(),
            scope: Scope::of(session),
            turn: TurnId(Seq(number)),
            index: number,
            message_count: number,
            at: Time(0),
            said: Vec::new(),
            replied: String::new(),
            tried: false,
        };
        let (provider, progress) = ("p".to_owned(), Progress::Due);
        PendingRetention {
            retention,
            erases: false,
            provider,
            progress,
            attempts: 0,
            not_before: Time(not_before),
            error: None,
        }
    }

    fn keys(chosen: &[PendingRetention]) -> Vec<&str> {
        chosen.iter().map(|pending| pending.retention.key.as_str()).collect()
    }

    #[test]
    fn p26_a_turn_that_always_fails_holds_up_no_other_document() {
        let retaining = Retaining::default();
        let none = BTreeSet::new();
        let now = Time(1_000_000_000);
        let due = || {
            vec![pending("bad", 1, now.0), pending("bad", 2, 0), pending("good", 1, 0), pending("good", 2, 0)]
        };
        let (chosen_now, _) = chosen(&retaining, due(), &none, now);
        assert_eq!(keys(&chosen_now), ["bad/1", "good/1"]);
        retaining.failed("bad", now);
        // A while later it is another's turn, also if the one that failed may be tried again.
        let (early, rest) = chosen(&retaining, due(), &none, now);
        assert_eq!((keys(&early), rest), (vec![], Some(Duration::from_secs(1))));
        let later = now.plus(Duration::from_secs(1));
        assert_eq!(keys(&chosen(&retaining, due(), &none, later).0), ["good/1"]);
        // However often it fails by itself, the others wait no longer.
        (0..20).for_each(|_| retaining.failed("bad", now));
        assert_eq!(chosen(&retaining, due(), &none, now).1, Some(Duration::from_secs(1)));
        // A provider that takes no document at all is asked less and less often.
        (0..20).for_each(|number| retaining.failed(&format!("d{number}"), now));
        assert_eq!(chosen(&retaining, due(), &none, now).1, Some(BACKOFF_MAX));
        retaining.reached();
        assert_eq!(keys(&chosen(&retaining, due(), &none, now).0), ["bad/1", "good/1"]);
    }

    #[test]
    fn p26_a_lane_that_hangs_leaves_the_others_free() {
        let retaining = Retaining::default();
        let due = || ["a", "b", "c", "d", "e"].map(|document| pending(document, 1, 0)).to_vec();
        let busy = BTreeSet::from(["a".to_owned()]);
        assert_eq!(keys(&chosen(&retaining, due(), &busy, Time(0)).0), ["b/1", "c/1", "d/1"]);
        let full = ["a", "b", "c", "d"].map(str::to_owned).into();
        assert_eq!(keys(&chosen(&retaining, due(), &full, Time(0)).0), [""; 0]);
    }
}
