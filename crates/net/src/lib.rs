//! HTTP to the outside: one way to ask, with a bound on everything that can grow or hang; and [`listener`], for
//! callers of ours.
//!
//! - connecting, the first byte, silence and the whole exchange each have their own limit
//! - an answer is held up to a size, one event of a stream up to a smaller one
//! - what a server says in anger is trimmed, and carries none of the secrets it was asked with
//! - errors are told apart by what the caller can do about them
//!
//! Deliberately absent: retries (the caller knows what waiting costs), redirects (a key must not
//! follow one), clocks, and any knowledge of what is asked.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod endpoint;
mod error;
#[cfg(test)]
mod linear;
pub mod listener;
mod response;
mod retry;
mod server_sent_event;
mod tls;

pub use client::{Client, ClientSettings, Limits, Timeouts};
pub use endpoint::{Endpoint, InvalidEndpoint, tls_reason};
pub use error::{HttpRefusal, NetError, NetStage, UnreadableEvent, excerpt};
pub use response::{BodyShape, EventStream, HttpReply};
pub use retry::retry_after;
pub use server_sent_event::{Parser, ServerSentEvent};
pub use throughline_core::redact::Secret;
pub use tls::install_tls;
