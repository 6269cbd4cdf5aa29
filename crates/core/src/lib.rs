//! The rules of a conversation, and nothing else.
//!
//! Everything here is a function of its arguments: what happened and when comes in, what to write
//! and what to do next comes out. The shell commits before it acts, so what this crate decides
//! survives a crash at any point.
//!
//! Deliberately absent: IO, clocks, randomness, threads, an async runtime, serialisation formats,
//! SQL, and the name of any platform or model vendor. `tests/spec/tidy.rs` keeps it that way.

pub mod access;
pub mod audit;
pub mod call;
pub mod chain;
pub mod command;
pub mod compression;
pub mod guard;
pub mod history;
pub mod home_status;
pub mod id;
pub mod input;
pub mod lifecycle;
#[cfg(test)]
mod linear;
pub mod memory;
pub mod message;
pub mod port;
pub mod prompt;
pub mod redact;
pub mod route;
pub mod session;
pub mod time;
pub mod tool;
pub mod turn;

pub use id::{ChatKey, Generation, RowId, Seq, SessionId, TurnId, View};
pub use message::{Content, JsonText, Message};
pub use time::Time;
