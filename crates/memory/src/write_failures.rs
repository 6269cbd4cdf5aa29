//! Counts the failed writes of a turn: a fact that does not fit must not cost the user the reply.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use throughline_core::id::SessionId;

/// Sessions whose count is kept: more than run turns at one time. Who falls out starts at zero,
/// which costs a few more attempts.
const SESSIONS_MAX: usize = 1024;

/// One turn, as the key of a call names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTurn {
    session: SessionId,
    /// The call's key without its step and position.
    key: String,
}

impl FailedTurn {
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    pub fn of(session: &SessionId, call_key: &str) -> Self {
        let key = call_key.rsplitn(3, '/').nth(2).unwrap_or(call_key);
        Self { session: session.clone(), key: key.to_owned() }
    }
}

/// The last failures in a row of each session's latest turn.
#[derive(Debug, Default)]
pub struct WriteFailures(Mutex<VecDeque<(FailedTurn, u32)>>);

impl WriteFailures {
    /// Counts one more and says the sum.
    pub fn count(&self, turn: &FailedTurn) -> u32 {
        let mut counts = self.counts();
        let known = counts.iter().position(|(other, _)| other == turn);
        let before = known.and_then(|at| counts.remove(at)).map_or(0, |(_, failures)| failures);
        counts.retain(|(other, _)| other.session != turn.session);
        counts.push_back((turn.clone(), before + 1));
        if counts.len() > SESSIONS_MAX {
            counts.pop_front();
        }
        before + 1
    }

    /// A write succeeded, or the session is gone.
    pub fn forget(&self, session: &SessionId) {
        self.counts().retain(|(turn, _)| turn.session != *session);
    }

    fn counts(&self) -> MutexGuard<'_, VecDeque<(FailedTurn, u32)>> {
        // A count is whole after each statement, so a panic elsewhere leaves nothing to mend.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(session: &str, key: &str) -> FailedTurn {
        FailedTurn::of(&session.parse().unwrap(), key)
    }

    #[test]
    fn failures_count_per_turn_across_its_steps() {
        let failures = WriteFailures::default();
        assert_eq!(failures.count(&turn("s", "s/1/1/0")), 1);
        assert_eq!(failures.count(&turn("s", "s/1/2/3")), 2);
        assert_eq!(failures.count(&turn("t", "t/1/1/0")), 1);
        assert_eq!(failures.count(&turn("s", "s/2/1/0")), 1); // the next turn
        failures.forget(&"s".parse().unwrap());
        assert_eq!(failures.count(&turn("s", "s/2/2/0")), 1);
        assert_eq!(failures.count(&turn("t", "t/1/2/0")), 2);
    }

    #[test]
    fn the_number_of_counts_is_bounded() {
        let failures = WriteFailures::default();
        for session in 0..SESSIONS_MAX + 10 {
            failures.count(&turn(&format!("s{session}"), "s/1/1/1"));
        }
        assert_eq!(failures.counts().len(), SESSIONS_MAX);
    }
}
