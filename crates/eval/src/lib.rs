//! How much of a conversation is left after compression.
//!
//! A [`EvalCase`] is a long conversation with questions about it. An engine condenses it ([`run_case`]),
//! and [`mod@score`] looks the answers up in what is left: what was said, what holds now, what is still
//! asked for, what was done, and that nothing was added. The same questions can be put to a language
//! model instead ([`judge`]). A [`EngineReport`] is a table or JSON, alone or beside another one.
//!
//! - scoring is deterministic and needs no network: the same view always gets the same score
//! - engines meet the same cases, the same window and the same summariser ([`ScriptedSummariser`])
//! - a view that is not much smaller than the conversation answers nothing: keeping all is no merit
//!
//! Deliberately absent: any knowledge of an engine in what scores it. What another program makes of a
//! case comes in through [`peer_compressor`] as messages, and is judged by the same code.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod case;
pub mod engines;
pub mod filler;
pub mod judge;
pub mod message_json;
pub mod peer_compressor;
pub mod report;
pub mod run;
pub mod score;
pub mod scripted_summariser;

pub use case::{CaseQuestion, Category, EvalCase, cases};
pub use engines::Measured;
pub use report::{EngineReport, ScoreTally};
pub use run::{CaseOutcome, outcome_of, run_case};
pub use score::{QuestionScore, score};
pub use scripted_summariser::ScriptedSummariser;
