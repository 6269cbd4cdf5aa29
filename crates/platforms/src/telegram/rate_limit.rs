//! How fast Telegram may be written to.
//!
//! About one message a second in a chat, twenty a minute in a group, thirty a second in all. Who
//! keeps to that is not told to wait. A change of a message counts as well, but leaves room: what is
//! shown while a turn runs must not hold up its reply.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Of a chat.
const GAP: Duration = Duration::from_secs(1);
/// Of a group.
const GROUP_WINDOW: Duration = Duration::from_secs(60);
const GROUP_MAX: usize = 20;
/// Of those twenty, what changes of messages may use.
const GROUP_COURTESY_MAX: usize = 12;
/// Of the account.
const ALL_WINDOW: Duration = Duration::from_secs(1);
const ALL_MAX: usize = 30;
/// Chats that have been quiet are forgotten when there are more than this.
const CHATS_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendPurpose {
    Reply,
    /// A preview, a sign of progress: one of them may be left out.
    Courtesy,
}

#[derive(Default)]
pub(crate) struct RateLimit(Mutex<RateState>);

#[derive(Default)]
struct RateState {
    all: VecDeque<Instant>,
    chats: HashMap<String, ChatRate>,
}

#[derive(Default)]
struct ChatRate {
    sent: VecDeque<Instant>,
    /// Telegram asked to be left alone until then.
    not_before: Option<Instant>,
}

impl RateLimit {
    /// Takes a place if there is one now; says how long to wait otherwise.
    pub fn take(&self, chat: &str, purpose: SendPurpose, now: Instant) -> Result<(), Duration> {
        let mut state = self.0.lock().expect("nothing panics while it holds the pace");
        let RateState { all, chats } = &mut *state;
        if chats.len() > CHATS_MAX {
            chats.retain(|_, chat| !chat.is_quiet(now));
        }
        forget(all, ALL_WINDOW, now);
        let chat_state = chats.entry(chat.to_owned()).or_default();
        forget(&mut chat_state.sent, GROUP_WINDOW, now);
        let most = match (is_group(chat), purpose) {
            (false, _) => usize::MAX,
            (true, SendPurpose::Reply) => GROUP_MAX,
            (true, SendPurpose::Courtesy) => GROUP_COURTESY_MAX,
        };
        let until = [
            chat_state.not_before,
            chat_state.sent.back().map(|last| *last + GAP),
            nth_last(&chat_state.sent, most).map(|first| first + GROUP_WINDOW),
            nth_last(all, ALL_MAX).map(|first| first + ALL_WINDOW),
        ];
        match until.into_iter().flatten().max().filter(|until| *until > now) {
            Some(until) => Err(until - now),
            None => {
                all.push_back(now);
                chat_state.sent.push_back(now);
                Ok(())
            }
        }
    }

    /// Telegram said how long it wants to be left alone in this chat.
    pub fn rest(&self, chat: &str, wait: Duration, now: Instant) {
        let mut state = self.0.lock().expect("nothing panics while it holds the pace");
        let chat = state.chats.entry(chat.to_owned()).or_default();
        chat.not_before = chat.not_before.max(Some(now + wait));
    }

    /// It still wants to be.
    pub fn is_resting(&self, chat: &str, now: Instant) -> bool {
        let state = self.0.lock().expect("nothing panics while it holds the pace");
        state.chats.get(chat).and_then(|chat| chat.not_before).is_some_and(|until| until > now)
    }
}

impl ChatRate {
    fn is_quiet(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|until| until <= now)
            && self.sent.back().is_none_or(|last| *last + GROUP_WINDOW <= now)
    }
}

/// Groups and channels have negative ids, and public ones may go by name.
fn is_group(chat: &str) -> bool {
    chat.starts_with(['-', '@'])
}

fn forget(sent: &mut VecDeque<Instant>, window: Duration, now: Instant) {
    while sent.front().is_some_and(|first| *first + window <= now) {
        sent.pop_front();
    }
}

/// The one that must leave the window before another enters.
fn nth_last(sent: &VecDeque<Instant>, most: usize) -> Option<Instant> {
    sent.len().checked_sub(most).and_then(|place| sent.get(place)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many get through in a minute of eager tries, ten a second.
    fn in_a_minute(chat: &str, purpose: SendPurpose) -> usize {
        let (pace, start) = (RateLimit::default(), Instant::now());
        let tries = (0..600).map(|tick| start + Duration::from_millis(100 * tick));
        tries.filter(|now| pace.take(chat, purpose, *now).is_ok()).count()
    }

    #[test]
    fn a_chat_gets_one_a_second_and_a_group_twenty_a_minute() {
        assert_eq!(in_a_minute("42", SendPurpose::Reply), 60);
        assert_eq!(in_a_minute("-100", SendPurpose::Reply), 20);
        assert_eq!(in_a_minute("-100", SendPurpose::Courtesy), 12);
    }

    #[test]
    fn all_chats_together_get_thirty_a_second() {
        let (pace, now) = (RateLimit::default(), Instant::now());
        let taken =
            (0..100).filter(|chat| pace.take(&chat.to_string(), SendPurpose::Reply, now).is_ok()).count();
        assert_eq!(taken, 30);
        assert_eq!(pace.take("x", SendPurpose::Reply, now), Err(Duration::from_secs(1)));
        assert_eq!(pace.take("x", SendPurpose::Reply, now + Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn a_wish_to_be_left_alone_holds_for_its_chat_only() {
        let (pace, now) = (RateLimit::default(), Instant::now());
        pace.rest("1", Duration::from_secs(30), now);
        assert_eq!(pace.take("1", SendPurpose::Reply, now), Err(Duration::from_secs(30)));
        assert_eq!(pace.take("2", SendPurpose::Reply, now), Ok(()));
        assert_eq!(pace.take("1", SendPurpose::Reply, now + Duration::from_secs(30)), Ok(()));
    }

    #[test]
    fn quiet_chats_are_forgotten() {
        let (pace, now) = (RateLimit::default(), Instant::now());
        for chat in 0..5000u32 {
            let _ = pace.take(&chat.to_string(), SendPurpose::Reply, now + Duration::from_secs(chat.into()));
        }
        assert!(pace.0.lock().unwrap().chats.len() <= CHATS_MAX + 1);
    }
}
