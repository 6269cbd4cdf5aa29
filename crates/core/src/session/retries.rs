//! Requests that a client could send again without a key of its own.
//!
//! A request with the same words counts as a retry for ten minutes, while its answer never reached a client in full. What
//! this owner has seen itself it knows; only after a start does the store have to be asked.

use crate::id::{Seq, TurnId};
use crate::input::{Input, Kind};
use crate::port::Implicit;
use crate::prompt::Digest;
use crate::session::Outcome;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A request with the same words counts as a client's retry for this long.
pub const IMPLICIT_KEY_HOLDS: Duration = Duration::from_secs(600);

/// The requests of the last minutes, by their words.
#[derive(Clone, Debug, Default)]
pub struct RecentRequests {
    seen: VecDeque<RecentRequest>,
    /// Since when `seen` holds all of them. None: since the session began.
    since: Option<Time>,
}

#[derive(Clone, Debug)]
struct RecentRequest {
    key: Digest,
    seq: Seq,
    at: Time,
    written: bool,
    failed: bool,
}

/// What is known of a request with these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// It is new.
    Nothing,
    This(Seq),
    /// Only the store knows.
    Unknown,
}

impl RecentRequests {
    /// Of a session that was loaded: earlier requests are in the store only.
    pub fn since(now: Time) -> Self {
        Self { seen: VecDeque::new(), since: Some(now) }
    }

    /// `failed` is the turn that can be tried again.
    pub fn find(&mut self, key: Digest, failed: Option<TurnId>, now: Time) -> Repeats {
        self.forget_old(now);
        if let Some(known) = self.seen.iter().rev().find(|request| request.key == key) {
            let over = known.written || (known.failed && failed != Some(TurnId(known.seq)));
            return if over { Repeats::Nothing } else { Repeats::This(known.seq) };
        }
        match self.since.is_none_or(|since| now.since(since) >= IMPLICIT_KEY_HOLDS) {
            true => Repeats::Nothing,
            false => Repeats::Unknown,
        }
    }

    pub fn remember(&mut self, input: &Input, now: Time) {
        if let Kind::Request(request) = &input.kind
            && let Some(key) = request.implicit_key
        {
            self.forget_old(now);
            self.seen.push_back(RecentRequest {
                key,
                seq: input.seq,
                at: now,
                written: false,
                failed: false,
            });
        }
    }

    /// Its answer reached the client in full.
    pub fn written(&mut self, seq: Seq) {
        self.seen.iter_mut().filter(|request| request.seq == seq).for_each(|request| request.written = true);
    }

    pub fn settled(&mut self, seq: Seq, outcome: &Outcome) {
        let failed = matches!(outcome, Outcome::Failed(..));
        self.seen.iter_mut().filter(|request| request.seq == seq).for_each(|request| request.failed = failed);
    }

    fn forget_old(&mut self, now: Time) {
        while self.seen.pop_front_if(|request| now.since(request.at) >= IMPLICIT_KEY_HOLDS).is_some() {}
    }
}

/// Whether something happened as lately as words are taken for a repetition. A date that lies further ahead was written by
/// a clock that has been set back since.
pub fn is_lately(at: Time, now: Time) -> bool {
    now.since(at) < IMPLICIT_KEY_HOLDS && at.since(now) < IMPLICIT_KEY_HOLDS
}

/// The message that a request repeats, by what the store has. One that failed is repeated only while nothing has been said
/// since; later the same words are new.
pub fn repeated(
    found: &Implicit,
    outcome: Option<&Outcome>,
    failed: Option<TurnId>,
    now: Time,
) -> Option<Seq> {
    let over = match outcome {
        Some(Outcome::Failed(turn, _)) => failed != Some(*turn),
        _ => false,
    };
    (!over && !found.written && is_lately(found.at, now)).then_some(found.seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Request;
    use crate::session::tests::request;
    use crate::session::{Event, Failure, FailureKind};
    use std::sync::Arc;

    const KEY: Digest = Digest([7; 32]);
    const NOW: Time = Time(1_000_000);

    fn asked(seq: u64) -> Arc<Input> {
        let Event::Received(input) = request(seq) else { unreachable!("it is received") };
        let kind = Kind::Request(Request { implicit_key: Some(KEY), ..Request::default() });
        Arc::new(Input { kind, ..Input::clone(&input) })
    }

    fn failed(turn: u64) -> Outcome {
        let failure = Failure { kind: FailureKind::Refused, message: "no".into() };
        Outcome::Failed(TurnId(Seq(turn)), failure)
    }

    #[test]
    fn p7_the_same_words_are_a_retry_until_their_answer_was_written() {
        let mut requests = RecentRequests::default();
        assert_eq!(requests.find(KEY, None, NOW), Repeats::Nothing);
        requests.remember(&asked(1), NOW);
        assert_eq!(requests.find(KEY, None, NOW), Repeats::This(Seq(1)));
        requests.settled(Seq(1), &failed(1));
        assert_eq!(requests.find(KEY, None, NOW), Repeats::Nothing, "something was said since");
        assert_eq!(
            requests.find(KEY, Some(TurnId(Seq(1))), NOW),
            Repeats::This(Seq(1)),
            "it can be tried again"
        );
        requests.written(Seq(1));
        assert_eq!(requests.find(KEY, Some(TurnId(Seq(1))), NOW), Repeats::Nothing);
    }

    #[test]
    fn p7_after_ten_minutes_the_same_words_are_new() {
        let mut requests = RecentRequests::default();
        requests.remember(&asked(1), NOW);
        assert_eq!(requests.find(KEY, None, NOW.plus(IMPLICIT_KEY_HOLDS)), Repeats::Nothing);
    }

    #[test]
    fn p7_a_new_owner_asks_the_store_about_what_it_has_not_seen() {
        let mut requests = RecentRequests::since(NOW);
        assert_eq!(requests.find(KEY, None, NOW), Repeats::Unknown);
        assert_eq!(requests.find(KEY, None, NOW.plus(IMPLICIT_KEY_HOLDS)), Repeats::Nothing);
        let found = |at, written| Implicit { session: "s".parse().expect("an id"), seq: Seq(3), at, written };
        for (found, outcome, known, expected) in [
            (found(NOW, false), None, None, Some(Seq(3))),
            (found(NOW, true), None, None, None),
            (found(Time(NOW.0 + 700_000_000), false), None, None, None), // the clock was set back
            (found(NOW, false), Some(failed(3)), None, None),
            (found(NOW, false), Some(failed(3)), Some(TurnId(Seq(3))), Some(Seq(3))),
        ] {
            assert_eq!(repeated(&found, outcome.as_ref(), known, NOW), expected, "{found:?} {outcome:?}");
        }
    }
}
