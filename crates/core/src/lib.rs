//! The rules of a conversation, and nothing else.
//!
//! Everything here is a function of its arguments: what happened and when comes in, what to write
//! and what to do next comes out. The shell commits before it acts, so what this crate decides
//! survives a crash at any point.
//!
//! ```
//! use throughline_core::input::{DedupeKey, Input, Kind};
//! use throughline_core::session::{Act, Event, Rules, Session};
//! use throughline_core::{Content, Seq, SessionId, Time};
//!
//! let session = Session::new("20260528_093510_66bfaec7".parse::<SessionId>().unwrap());
//! let message = Input {
//!     seq: Seq(1),
//!     at: Time(0),
//!     key: DedupeKey::of(&["telegram", "42"]),
//!     kind: Kind::Chat(Content::text("hello")),
//!     reply_to: None,
//!     sender: None,
//!     platform_id: None,
//!     trace: Default::default(),
//!     left: None,
//! };
//! let (next, acts) = session.step(Event::Received(message.into()), Time(0), &Rules::default());
//! // The shell commits the new state and its acts in one transaction …
//! assert!(acts.iter().any(|act| matches!(act, Act::Accept(_))));
//! // … and then starts the jobs that the state implies: the model is asked.
//! assert!(session.jobs().is_empty() && !next.jobs().is_empty());
//! ```
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
