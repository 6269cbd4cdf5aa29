//! Who decides whether a command may run.

use std::time::Duration;
use throughline_core::port::Promise;
use throughline_core::tool::{Call, Question};

/// What becomes of a command before anything has happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// It runs. The note, if any, stands in the result: who allowed it, and why it was asked.
    Run { note: Option<String> },
    /// A person must answer first.
    Ask { question: Question, patience: Duration },
    /// It does not run: this is the call's result.
    Block(String),
}

/// Asked once for every command, after its arguments were read and before it runs. A call that a
/// person has answered carries the grant.
pub trait CommandJudge: Send + Sync {
    fn judge<'a>(&'a self, call: &'a Call, command: &'a str) -> Promise<'a, Judgement>;
}
