//! What an owner of a session is mailed, and what it answers.

use throughline_core::port::{CallId, Draft, Receipt, Refusal, Submission};
use throughline_core::session::Event;
use throughline_core::session::admit::Expected;
use throughline_core::tool::Verdict;
use throughline_core::{Seq, SessionId, TurnId};
use tokio::sync::oneshot;

pub(crate) enum Mail {
    Submit {
        submission: Box<Submission>,
        expected: Expected,
        answer: Answerer,
    },
    Follow {
        seq: Seq,
        answer: Answerer,
    },
    /// A client asks again for a turn that failed.
    Retry {
        turn: TurnId,
        seq: Seq,
        answer: Answerer,
    },
    Event(Event),
    /// A snapshot is to be the view again. Answered when that is on disk.
    Restore {
        snapshot: String,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    /// A preview of the answer to this input is about to be posted. Answered when that is on disk.
    Draft {
        seq: Seq,
        answer: oneshot::Sender<Option<Draft>>,
    },
    /// A person answered what a call asked.
    Decide {
        call: CallId,
        verdict: Verdict,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    /// A call that runs asks a person.
    Elicit {
        event: Event,
        call: CallId,
        answer: oneshot::Sender<Verdict>,
    },
    /// The operator silences the session. Answered with whether a turn ran, and how much waits.
    Halt {
        order: u64,
        answer: oneshot::Sender<(bool, usize)>,
    },
    /// And lets it go on. Answered when that is on disk.
    Release {
        answer: oneshot::Sender<()>,
    },
    /// The session's time may have come.
    Expire {
        platform: String,
        chat_type: String,
    },
    /// The client that waited for the answer to this input has gone, and wants its turn to end.
    Abandon(Seq),
    /// The answer to this input reached its client in full.
    Written(Seq),
    /// Another process wrote to this session.
    Foreign,
    Wake,
}

pub(crate) type Answerer = oneshot::Sender<Result<Receipt, Bounce>>;

/// Why a session did not take an input.
pub(crate) enum Bounce {
    /// It has ended: route again.
    Ended,
    /// It is not what the sender believed: another conversation got the same id, or this one went on.
    Unexpected,
    /// Known, in this session, under this number.
    Known {
        session: SessionId,
        seq: Seq,
    },
    Refused(Refusal),
}

/// Whether there is anything to load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Fresh,
    Stored,
}
