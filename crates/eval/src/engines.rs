//! The engines that come along, and any other, each set up for the window of a case.

use crate::case::EvalCase;
use crate::report::EngineReport;
use crate::run::{CaseOutcome, run_case};
use std::sync::Arc;
use throughline_core::compression::boundary::Settings;
use throughline_core::compression::engine::{Builtin, digest, is_full};
use throughline_core::memory::Scope;
use throughline_core::port::{
    Condensed, ContextUsage, Engine, EngineError, Past, Promise, Summariser, Wishes,
};

/// What is being measured.
#[derive(Clone)]
pub enum Measured {
    /// The built-in engine, with the summariser that writes its summaries.
    Builtin(Arc<dyn Summariser>),
    /// What stands in when there is no summary.
    Digest,
    /// One from elsewhere.
    Other { name: String, summariser: String, engine: ForWindow },
}

/// Sets an engine up for a model of this window.
pub type ForWindow = Arc<dyn Fn(u64) -> Box<dyn Engine> + Send + Sync>;

impl Measured {
    pub fn name(&self) -> &str {
        match self {
            Measured::Builtin(_) => "builtin",
            Measured::Digest => "digest",
            Measured::Other { name, .. } => name,
        }
    }

    pub fn summariser(&self) -> &str {
        match self {
            Measured::Builtin(summariser) => summariser.name(),
            Measured::Digest => "none",
            Measured::Other { summariser, .. } => summariser,
        }
    }

    /// As it would be in a session with a model of this window, all else as it is by default.
    pub fn engine(&self, window: u64) -> Box<dyn Engine> {
        let settings = Settings::of_window(window);
        match self {
            Measured::Builtin(summariser) => Box::new(Builtin::new(settings, vec![summariser.clone()])),
            Measured::Digest => Box::new(DigestEngine(settings)),
            Measured::Other { engine, .. } => engine(window),
        }
    }

    pub async fn run(&self, cases: &[EvalCase]) -> Vec<CaseOutcome> {
        let mut outcomes = Vec::with_capacity(cases.len());
        for case in cases {
            outcomes.push(run_case(self.engine(case.window).as_ref(), case).await);
        }
        outcomes
    }

    pub fn report(&self, judge: &str, outcomes: &[CaseOutcome]) -> EngineReport {
        EngineReport::new(self.name(), self.summariser(), judge, outcomes)
    }
}

/// The digest as if it were an engine of its own.
struct DigestEngine(Settings);

impl Engine for DigestEngine {
    fn name(&self) -> &str {
        "digest"
    }

    fn should_compress<'a>(&'a self, _: &'a Scope, usage: &'a ContextUsage) -> Promise<'a, bool> {
        let is_full = is_full(&self.0, usage);
        Box::pin(async move { is_full })
    }

    fn compress<'a>(&'a self, past: &'a Past, _: &'a Wishes) -> Promise<'a, Result<Condensed, EngineError>> {
        let condensed = digest(past, &self.0);
        Box::pin(async move {
            match condensed.messages.is_empty() {
                true => Err(EngineError::Nothing),
                false => Ok(condensed),
            }
        })
    }
}
