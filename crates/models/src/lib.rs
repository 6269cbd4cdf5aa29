//! Language models behind one port: any OpenAI-compatible server, Anthropic, and the offline
//! rehearsal.
//!
//! - a message is encoded once, and the same message always gives the same bytes: requests are
//!   joined from those bytes and never serialised anew, so that a provider's cache holds
//! - an answer is whole or it is an error: a stream that breaks off is not half an answer
//! - an error is told by what the one who asked can do about it, in the provider's own words,
//!   without secrets
//!
//! Deliberately absent: environment variables and files (`src` reads them), retries and waiting
//! (the gateway knows what they cost), and any memory of earlier requests.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod anthropic;
pub mod openai;
pub mod rehearsal;
pub mod summariser;

mod call_id;
mod exchange;
mod json;
#[cfg(test)]
mod linear;
mod provider_error;
#[cfg(test)]
mod transcripts;

pub use anthropic::{Anthropic, AnthropicConfig};
pub use openai::{OpenAi, OpenAiConfig};
pub use rehearsal::{Recorder, Rehearsal, RehearsalScript};
pub use summariser::ModelSummariser;

use throughline_net::InvalidEndpoint;

/// Why a configured model cannot be used. An error, never a reason to use another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableModel {
    #[error("model {model} cannot be used: {reason}")]
    Endpoint { model: String, reason: InvalidEndpoint },
    #[error("model {model} cannot be used: its extra_body must be a JSON object")]
    ExtraBody { model: String },
}
