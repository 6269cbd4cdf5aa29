//! The gateway closes conversations whose time has come, without waiting for a message.
//!
//! The watch only looks, now and then, and mails the sessions that may be due. The owner of the session decides
//! when it opens its mail: a message that came first has kept the conversation alive. Nothing here
//! asks a model anything.

use crate::agent::Home;
use crate::router;
use crate::session::{Mail, Origin};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use throughline_core::input::AGENT_PLATFORM;
use throughline_core::lifecycle::{Mode, Policies, Policy, Reason, due};
use throughline_core::port::{Resting, StoreError};
use throughline_core::{SessionId, Time};
use tokio::time::{Instant, sleep};

/// When an hour of the day last struck.
pub type Struck = Arc<dyn Fn(Time, u8) -> Time + Send + Sync>;

/// The gateway looks for expired sessions this often. A message does not wait: its session checks exactly.
const WATCH: Duration = Duration::from_secs(60);
/// So many are woken at a time, or a house full of chats would be, at once, at four in the morning.
const SLICE: usize = 64;
const SLICE_PAUSE: Duration = Duration::from_secs(1);

/// When conversations end by themselves.
#[derive(Clone)]
pub struct Lifecycle {
    pub policies: Policies,
    pub struck: Struck,
    pub watch: Duration,
}

impl Default for Lifecycle {
    /// They do not.
    fn default() -> Self {
        Self { policies: Policies::default(), struck: Arc::new(|now, _| now), watch: WATCH }
    }
}

impl Lifecycle {
    pub fn new(policies: Policies, struck: Struck) -> Self {
        Self { policies, struck, watch: WATCH }
    }

    /// The policy of a chat. What agents say to each other has none.
    pub(crate) fn policy(&self, platform: &str, chat_type: &str) -> Option<&Policy> {
        let policy = self.policies.of(platform, chat_type);
        (platform != AGENT_PLATFORM && policy.mode != Mode::Never).then_some(policy)
    }

    pub(crate) fn due(&self, policy: &Policy, active: Time, now: Time) -> Option<Reason> {
        due(policy, active, now, (self.struck)(now, policy.at_hour))
    }

    /// Anything that happened later than this keeps a conversation open under every policy.
    fn latest(&self, now: Time) -> Time {
        let latest = |policy: &Policy| {
            let idle = Time(now.0.saturating_sub(i64::try_from(policy.idle.as_micros()).unwrap_or(i64::MAX)));
            let struck = (self.struck)(now, policy.at_hour);
            match policy.mode {
                Mode::Never => Time(i64::MIN),
                Mode::Idle => idle,
                Mode::Daily => struck,
                Mode::Both => idle.max(struck),
            }
        };
        self.policies.all().map(latest).max().unwrap_or(Time(i64::MIN))
    }
}

/// A clock that is corrected a little at a time is not set back.
const SLACK: Duration = Duration::from_secs(1);

/// How dates that lie ahead are understood: the clock was set back since, or was wrong when they were written. What
/// happened then counts from when the clock was first seen behind, by the time that has passed since; so a conversation
/// ends neither early for that, nor never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reckoning {
    /// The date at the last look, and when that was.
    seen: (Time, Instant),
    /// Since when no date lies ahead that was written since.
    since: Instant,
    /// There may be conversations in which something happened at a date that lies ahead.
    knows_future: bool,
}

impl Reckoning {
    pub fn new(now: Time) -> Self {
        Self { seen: (now, Instant::now()), since: Instant::now(), knows_future: true }
    }

    /// The gateway looks at the clock again.
    pub fn look(&mut self, now: Time) {
        let (seen, at) = self.seen;
        match now.plus(SLACK) < seen.plus(at.elapsed()) {
            true => *self = Self::new(now),
            false => self.seen = (now, Instant::now()),
        }
    }

    /// When something last happened that is said to have happened at `active`.
    pub fn active(&self, active: Time, now: Time) -> Time {
        if active <= now.plus(SLACK) {
            return active;
        }
        let passed = i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX);
        Time(now.0.saturating_sub(passed))
    }
}

/// Looks until the home is closed.
pub(crate) async fn watch(home: Weak<Home>) {
    loop {
        let Some(pause) = home.upgrade().map(|home| home.lifecycle.watch) else { return };
        sleep(pause).await;
        let Some(home) = home.upgrade() else { return };
        if home.draining.load(Ordering::Relaxed) {
            return;
        }
        if home.is_halted() {
            continue; // silence: nothing begins, and nothing ends
        }
        if let Err(error) = look(&home).await {
            tracing::warn!(%error, "could not look for conversations whose time has come; trying again");
        }
    }
}

async fn look(home: &Arc<Home>) -> Result<(), StoreError> {
    let now = home.clock.now();
    let knows_future = home.reckoned(now, |reckoning| std::mem::take(&mut reckoning.knows_future));
    let latest = if knows_future { Time(i64::MAX) } else { home.lifecycle.latest(now) };
    let mut resting = home.library.read(move |store| store.resting(latest)).await?;
    home.reckoned(now, |reckoning| {
        reckoning.knows_future |= resting.iter().any(|resting| resting.active > now);
        resting.iter_mut().for_each(|resting| resting.active = reckoning.active(resting.active, now));
    });
    let due = due_among(&home.lifecycle, resting, now);
    tracing::debug!(due = due.len(), "looked for conversations whose time has come");
    for slice in due.chunks(SLICE) {
        for Resting { session, platform, chat_type, .. } in slice {
            let mail = Mail::Expire { platform: platform.clone(), chat_type: chat_type.clone() };
            router::mail(home, session, Origin::Stored, mail);
        }
        if slice.len() == SLICE {
            sleep(SLICE_PAUSE).await;
        }
    }
    Ok(())
}

/// A session that several chats lead to is over when it is over for all of them.
fn due_among(lifecycle: &Lifecycle, resting: Vec<Resting>, now: Time) -> Vec<Resting> {
    let is_due = |resting: &Resting| {
        let policy = lifecycle.policy(&resting.platform, &resting.chat_type);
        policy.and_then(|policy| lifecycle.due(policy, resting.active, now)).is_some()
    };
    let mut chats: BTreeMap<SessionId, (usize, usize)> = BTreeMap::new();
    for chat in &resting {
        let (all, due) = chats.entry(chat.session.clone()).or_default();
        *all += 1;
        *due += usize::from(is_due(chat));
    }
    let mut found = resting;
    found.retain(|chat| chats.get(&chat.session).is_some_and(|(all, due)| all == due));
    found.dedup_by(|one, other| one.session == other.session);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    /// As seen by a gateway that began half an hour ago and has looked at its clock since.
    fn half_an_hour_old(now: Time) -> Reckoning {
        let before = Instant::now() - Duration::from_secs(1800);
        Reckoning { seen: (now, Instant::now()), since: before, knows_future: false }
    }

    #[test]
    fn p20_a_clock_that_is_set_back_ends_no_conversation_early_and_keeps_none_for_ever() {
        let now = Time(1000 * HOUR);
        let mut reckoning = half_an_hour_old(now);
        assert_eq!(reckoning.active(Time(now.0 - 5), now), Time(now.0 - 5), "what is past is as it was");
        // What was written by the clock of a process before this one counts from this one's beginning.
        let ahead = reckoning.active(Time(now.0 + 20 * HOUR), now);
        assert!(ahead <= Time(now.0 - HOUR / 2) && ahead > Time(now.0 - HOUR), "{ahead}");
        // A moment after a person wrote the clock is set back by a day: that is when they wrote.
        let back = Time(now.0 - 24 * HOUR);
        reckoning.look(back);
        assert!(reckoning.knows_future);
        let active = reckoning.active(now, back);
        assert!(active <= back && active > Time(back.0 - HOUR / 60), "{active}");
    }

    #[test]
    fn p20_a_clock_that_is_a_little_behind_was_not_set_back() {
        let now = Time(1000 * HOUR);
        let mut reckoning = half_an_hour_old(now);
        reckoning.look(Time(now.0 - 300_000));
        assert!(!reckoning.knows_future);
        assert_eq!(reckoning.active(now, Time(now.0 - 300_000)), now, "and nobody has waited");
    }

    #[test]
    fn a_session_is_over_when_it_is_over_for_every_chat_that_leads_to_it() {
        let idle = Policy { mode: Mode::Idle, idle: Duration::from_secs(10), ..Policy::default() };
        let policies = Policies { by_platform: vec![("here".into(), idle)], ..Policies::default() };
        let lifecycle = Lifecycle { policies, ..Lifecycle::default() };
        let chat = |session: &str, platform: &str, active: i64| Resting {
            session: session.parse().expect("a plain id"),
            platform: platform.into(),
            chat_type: "dm".into(),
            active: Time(active * 1_000_000),
        };
        let now = Time(100_000_000);
        let resting = vec![
            chat("a", "here", 1),
            chat("b", "here", 2),
            chat("b", "there", 2),
            chat("c", "agent", 3),
            chat("d", "here", 95),
        ];
        let due: Vec<_> = due_among(&lifecycle, resting, now).into_iter().map(|chat| chat.session).collect();
        assert_eq!(due.iter().map(SessionId::as_str).collect::<Vec<_>>(), ["a"]);
        assert_eq!(lifecycle.latest(now), Time(90_000_000));
    }
}
