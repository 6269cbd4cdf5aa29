//! Replies on their way out: each is a row that stays until the platform has it.
//!
//! One lane per chat keeps the order of replies. A reply is marked `attempting` on disk before it
//! is sent and `delivered` after; one found attempting from an earlier start may have arrived. A
//! platform that honours keys is simply asked again; any other gets it once more, visibly marked:
//! a reply that is seen twice and says so is better than one that is never seen.
//!
//! A reply with a preview becomes that message. Saying the same of a message twice is saying it once,
//! so there is nothing ambiguous about it; only a preview that may be there, and that cannot be found,
//! makes its reply one that may have been seen.

use crate::agent::{Home, Way};
use crate::chain;
use crate::committer::CommitError;
use crate::draft::{self, Preview};
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use throughline_core::Time;
use throughline_core::input::Destination;
use throughline_core::port::{Commit, DeliveryChange, Outgoing, Platform, SendError, StoreError};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::Instrument;

/// Shown before a reply that may have arrived already.
const MARK: &str = "♻️ (sent again; you may have seen this)";
/// After this many tries, over three quarters of an hour, of which the gateway cannot tell if they arrived, people may
/// have seen a reply often enough. Counted from each start.
const UNKNOWN_MAX: u32 = 12;
/// A platform that certainly took nothing (it is out, limits us, or does not know our token) is tried every
/// quarter of an hour, for about thirty days: an outage costs no reply, and a bot that is not repaired within a
/// month is not coming back.
const ATTEMPTS_MAX: u32 = 30 * 24 * 4;
/// So often a platform is believed that names a shorter pause than ours.
const BELIEVED_MAX: u32 = 12;
const BACKOFF_MAX: Duration = Duration::from_secs(900);
/// How long a word about a reply waits before it is tried on a full disk again.
const DISK_RETRY: Duration = Duration::from_secs(1);
/// How often the outbox checks whether an agent runs again whose bot a reply leaves by.
const LENDER_RETRY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Outbox {
    home: OnceLock<Weak<Home>>,
    lanes: Mutex<BTreeMap<Lane, mpsc::UnboundedSender<Outgoing>>>,
    /// Replies that no platform has yet.
    pending: AtomicUsize,
}

/// Where order matters: one chat of one account.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    platform: String,
    account: String,
    chat: String,
}

impl Lane {
    fn of(destination: &Destination) -> Self {
        let Destination { platform, account, chat, .. } = destination;
        Self { platform: platform.clone(), account: account.clone(), chat: chat.clone() }
    }
}

/// How one attempt ended.
enum Attempt {
    Over,
    Again(Duration),
}

impl Outbox {
    pub fn belongs_to(&self, home: &Arc<Home>) {
        let _ = self.home.set(Arc::downgrade(home));
    }

    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// The reply's row is committed: from here on it only has to leave.
    pub fn send(&self, outgoing: Outgoing) {
        let Some(home) = self.home.get().and_then(Weak::upgrade) else { return };
        self.pending.fetch_add(1, Ordering::Relaxed);
        let lane = Lane::of(&outgoing.destination);
        let mut lanes = self.lanes.lock().expect("nothing panics while it holds the lanes");
        let sender = lanes.entry(lane.clone()).or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let span = home.span.clone();
            tokio::spawn(run(home, lane, receiver).instrument(span));
            sender
        });
        let _ = sender.send(outgoing); // a lane leaves the map before it goes
    }

    /// A lane with nothing to do goes. Under the lock no task can send to it, so nothing is lost.
    fn retire(&self, lane: &Lane, receiver: &mpsc::UnboundedReceiver<Outgoing>) -> bool {
        let mut lanes = self.lanes.lock().expect("nothing panics while it holds the lanes");
        if !receiver.is_empty() {
            return false;
        }
        lanes.remove(lane);
        true
    }

    /// The home is closing: what is left is on disk.
    pub fn dismiss(&self) {
        self.lanes.lock().expect("nothing panics while it holds the lanes").clear();
    }
}

async fn run(home: Arc<Home>, lane: Lane, mut receiver: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some(outgoing) = receiver.recv().await {
        let key = outgoing.key.clone();
        if AssertUnwindSafe(deliver(&home, outgoing)).catch_unwind().await.is_err() {
            tracing::error!(key, "a platform's adapter panicked; the reply is tried again at the next start");
            home.note(None, "delivery_panicked", key);
        }
        home.outbox.pending.fetch_sub(1, Ordering::Relaxed);
        home.stirred.notify_waiters();
        if home.outbox.retire(&lane, &receiver) {
            return;
        }
    }
}

async fn deliver(home: &Arc<Home>, mut outgoing: Outgoing) {
    let Some(mut platform) = way(home, &outgoing).await else { return };
    // Only a reply that was postponed waits, and not for a clock that was set back.
    if outgoing.attempts > 0 {
        sleep(outgoing.not_before.since(home.clock.now()).min(BACKOFF_MAX)).await;
    }
    let mut unknown = 0;
    loop {
        let preview = home.drafts.close(Outgoing::draft_key(&outgoing.key)).await;
        home.silence.over().await; // silence: what is written stays here until a person speaks
        match attempt(home, platform.as_ref(), &mut outgoing, preview, &mut unknown).await {
            Attempt::Again(delay) => {
                sleep(delay).await;
                let Some(now) = way(home, &outgoing).await else { return };
                platform = now; // its agent may have begun anew
            }
            Attempt::Over => return,
        }
    }
}

/// None: it has none until the next start.
async fn way(home: &Arc<Home>, outgoing: &Outgoing) -> Option<Arc<dyn Platform>> {
    let mut reported = false;
    loop {
        match home.platform(&outgoing.destination) {
            Way::By(platform) => return Some(platform),
            Way::Off => {
                let platform = &outgoing.destination.platform;
                let detail = format!("{} has a reply for {platform}, which is off", outgoing.key);
                home.note(Some(outgoing.session.clone()), "delivery_waits", detail);
                return None; // the row stays, and leaves when the platform is on again
            }
            Way::Away if home.draining.load(Ordering::Relaxed) => return None, // a stop does not wait for another agent
            Way::Away => {
                let account = &outgoing.destination.account;
                if !std::mem::replace(&mut reported, true) {
                    let detail = format!("{} leaves by {account}, whose agent does not run", outgoing.key);
                    home.note(Some(outgoing.session.clone()), "delivery_waits", detail);
                }
                sleep(LENDER_RETRY).await;
            }
        }
    }
}

async fn attempt(
    home: &Arc<Home>,
    platform: &dyn Platform,
    outgoing: &mut Outgoing,
    preview: Option<Preview>,
    unknown: &mut u32,
) -> Attempt {
    let now = home.clock.now();
    outgoing.draft = match &preview {
        Some(Preview::Posted(id)) => Some(id.clone()),
        Some(Preview::Unknown) | None => None,
    };
    let repeated =
        outgoing.attempting.is_some() && outgoing.draft.is_none() && !recognises(platform, outgoing, now);
    if (repeated || preview == Some(Preview::Unknown)) && !outgoing.marked {
        outgoing.marked = true;
        home.note(Some(outgoing.session.clone()), "delivery_resent_marked", outgoing.key.clone());
    }
    match change(home, outgoing, DeliveryChange::Attempting { marked: outgoing.marked }).await {
        Changed::Written => {}
        Changed::NotNow => return Attempt::Again(DISK_RETRY), // and silence may have been ordered by then
        Changed::Before => return Attempt::Over,
    }
    let earlier = (outgoing.attempting, outgoing.attempted);
    outgoing.attempting = Some(home.boot);
    outgoing.attempted = outgoing.attempted.or(Some(now));
    outgoing.attempts += 1;
    let mark = outgoing.marked.then_some(MARK);
    let sent = match &outgoing.question {
        Some(question) => platform.ask(outgoing, question, mark).await,
        None => platform.send(outgoing, mark).await,
    };
    let is_over = sent.as_ref().err().is_some_and(|error| gives_up(error, outgoing.attempts, *unknown));
    match sent {
        Ok(platform_id) => {
            if let Some(id) = &platform_id {
                chain::posted(home, &outgoing.destination, id, &outgoing.trace);
            }
            settle(home, outgoing, DeliveryChange::Delivered { platform_id }).await
        }
        // A person took the preview away, or it is too old to change: the reply is a message of its own.
        Err(SendError::Never { message }) if outgoing.draft.is_some() => {
            home.note(Some(outgoing.session.clone()), "preview_gone", format!("{}: {message}", outgoing.key));
            draft::leave(home, Outgoing::draft_key(&outgoing.key)).await;
            // This attempt did nothing; an earlier one may have been seen before that.
            (outgoing.attempting, outgoing.attempted) = earlier;
            Attempt::Again(Duration::ZERO)
        }
        Err(SendError::Unknown { message }) if !is_over => {
            *unknown += 1;
            tracing::warn!(key = outgoing.key, message, "unknown whether a reply arrived");
            let delay = backoff(outgoing.attempts);
            let (until, unknown_since) = (home.clock.now().plus(delay), outgoing.attempted);
            // Those who ask meanwhile are told what the platform said.
            settle(home, outgoing, DeliveryChange::Postponed { until, error: message, unknown_since }).await;
            Attempt::Again(delay)
        }
        Err(SendError::Later { after, message }) if !is_over => {
            let delay = pause(after, outgoing.attempts);
            let until = home.clock.now().plus(delay);
            // This attempt certainly did not arrive; an earlier one may have.
            (outgoing.attempting, outgoing.attempted) = earlier;
            let unknown_since = outgoing.attempted;
            settle(home, outgoing, DeliveryChange::Postponed { until, error: message, unknown_since }).await;
            Attempt::Again(delay)
        }
        Err(
            SendError::Later { message, .. } | SendError::Unknown { message } | SendError::Never { message },
        ) => {
            home.note(
                Some(outgoing.session.clone()),
                "delivery_refused",
                format!("{}: {message}", outgoing.key),
            );
            settle(home, outgoing, DeliveryChange::Refused { error: message }).await
        }
    }
}

/// Whether a reply is tried no more. `attempts`: all of them, `unknown`: those with an unknown outcome, before this one.
fn gives_up(error: &SendError, attempts: u32, unknown: u32) -> bool {
    match error {
        SendError::Never { .. } => true,
        SendError::Unknown { .. } => unknown + 1 >= UNKNOWN_MAX,
        SendError::Later { .. } => attempts >= ATTEMPTS_MAX,
    }
}

/// Whether an attempt that may have arrived, and this one, would be one message. What may have been
/// forgotten is not relied on: it was attempted too long ago, or a clock was set back since.
fn recognises(platform: &dyn Platform, outgoing: &Outgoing, now: Time) -> bool {
    let in_time = match (platform.key_memory(), outgoing.attempted) {
        (None, _) => true,
        (Some(memory), Some(attempted)) => attempted <= now && now.since(attempted) < memory,
        (Some(_), None) => false,
    };
    platform.is_idempotent() && in_time
}

async fn settle(home: &Arc<Home>, outgoing: &Outgoing, to: DeliveryChange) -> Attempt {
    while matches!(change(home, outgoing, to.clone()).await, Changed::NotNow) {
        sleep(DISK_RETRY).await;
    }
    if matches!(to, DeliveryChange::Delivered { .. } | DeliveryChange::Refused { .. }) {
        home.drafts.forget(Outgoing::draft_key(&outgoing.key)); // as the store does
    }
    Attempt::Over
}

/// What became of a word about a reply.
enum Changed {
    Written,
    /// The disk is full, or the writer fell over. An attempt that is not on disk must not begin.
    NotNow,
    /// The row says that it was settled before.
    Before,
}

async fn change(home: &Arc<Home>, outgoing: &Outgoing, change: DeliveryChange) -> Changed {
    let (key, at) = (outgoing.key.clone(), home.clock.now());
    match home.library.commit(Commit::Delivery { key, boot: home.boot, change, at }).await {
        Ok(_) => Changed::Written,
        Err(CommitError::Unknown | CommitError::Refused(StoreError::Unwritable(_) | StoreError::Busy)) => {
            Changed::NotNow
        }
        Err(CommitError::Refused(error)) => {
            tracing::error!(key = outgoing.key, %error, "could not record a delivery");
            Changed::Before
        }
    }
}

/// How long a platform is left alone that wants a reply later, and may have said when.
fn pause(after: Option<Duration>, attempts: u32) -> Duration {
    match after {
        Some(after) if attempts <= BELIEVED_MAX => after,
        after => after.unwrap_or_default().max(backoff(attempts)),
    }
}

fn backoff(attempts: u32) -> Duration {
    Duration::from_secs(1 << attempts.min(10)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_core::port::Promise;

    struct Shop {
        honours: bool,
        memory: Option<Duration>,
    }

    impl Platform for Shop {
        fn name(&self) -> &str {
            "shop"
        }

        fn is_idempotent(&self) -> bool {
            self.honours
        }

        fn key_memory(&self) -> Option<Duration> {
            self.memory
        }

        fn send<'a>(
            &'a self,
            _: &'a Outgoing,
            _: Option<&'a str>,
        ) -> Promise<'a, Result<Option<String>, SendError>> {
            Box::pin(async { Ok(None) })
        }
    }

    #[test]
    fn p10_an_outage_costs_no_reply_and_only_what_may_have_arrived_is_given_up_early() {
        let later = |after| SendError::Later { after, message: String::new() };
        let unknown = SendError::Unknown { message: String::new() };
        let a_month = (1..).scan(0, |lasted: &mut u64, attempts| {
            *lasted += backoff(attempts).as_secs();
            (!gives_up(&later(None), attempts, 0)).then_some(*lasted)
        });
        let days = a_month.last().expect("it is tried at least once") / 86_400;
        assert!((28..=31).contains(&days), "{days}");
        assert!(!gives_up(&unknown, 500, 0), "what certainly did not arrive does not count");
        assert!(gives_up(&unknown, 12, 11));
        assert!(gives_up(&SendError::Never { message: String::new() }, 1, 0));
        // A platform that always says "in a second" is not asked every second for ever.
        assert_eq!(pause(Some(Duration::from_secs(1)), 3), Duration::from_secs(1));
        assert_eq!(pause(Some(Duration::from_secs(1)), 40), BACKOFF_MAX);
        assert_eq!(pause(Some(Duration::from_secs(7_200)), 40), Duration::from_secs(7_200));
    }

    #[test]
    fn a_key_is_relied_on_only_while_the_platform_is_sure_to_know_it() {
        let minute = Some(Duration::from_secs(60));
        let now = Time(1_000_000_000);
        let ago = |seconds: i64| Some(Time(now.0 - seconds * 1_000_000));
        for (honours, memory, attempted, recognised) in [
            (true, None, ago(1_000), true),
            (true, None, None, true),
            (true, minute, ago(59), true),
            (true, minute, ago(60), false),
            (true, minute, ago(-5), false), // a clock was set back: how long ago it was is unknown
            (true, minute, None, false),
            (false, minute, ago(1), false),
            (false, None, ago(1), false),
        ] {
            let destination = Destination {
                platform: "shop".into(),
                account: "1".into(),
                chat: "1".into(),
                thread: None,
                reply_to: None,
            };
            let outgoing = Outgoing {
                draft: None,
                question: None,
                key: "k".into(),
                session: "s".parse().expect("an id"),
                destination,
                text: "x".into(),
                trace: Default::default(),
                attempts: 1,
                attempting: None,
                attempted,
                marked: false,
                not_before: now,
            };
            let shop = Shop { honours, memory };
            assert_eq!(recognises(&shop, &outgoing, now), recognised, "{honours} {memory:?} {attempted:?}");
        }
    }
}
