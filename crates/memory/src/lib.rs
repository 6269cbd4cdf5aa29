//! What an agent remembers across conversations: two small files that people can read and edit,
//! and the tool `memory` that changes them.
//!
//! Both belong to a Hermes home and stay usable by a Hermes that runs at the same time: its format,
//! its lock, its limits. A write is on disk before it is confirmed; a full store refuses and says
//! what to give up, and never drops anything by itself. [`Memory::blocks`] is what a prompt shows.
//! Beside the files lies what happened to them: who wrote an entry, and every entry that went, which
//! [`Memory::restore`] brings back.
//!
//! Deliberately absent: a copy of the entries in memory. Every call reads the file under its lock.
//!
//! Beside the files, a home may be connected to a memory server: [`hindsight`] or [`honcho`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod arguments;
mod change;
mod document;
mod erase;
mod failures;
pub mod files;
pub mod hindsight;
pub mod honcho;
mod journal;
#[cfg(test)]
mod linear;
mod memory_edit;
mod origin;
mod pending;
mod person;
mod prompt;
pub mod settings;
mod size;
mod survey;
mod target;
mod text;
mod threats;
mod tool;

pub use erase::Erased;
pub use origin::{NoPastId, Origin, Past, PastId, REVIEW, Record, What, Writer};
pub use pending::{Pending, PendingError};
pub use settings::{MemorySettings, Notes, Owners};
pub use size::Size;
pub use survey::{Contents, Entry, RestoreError, Restored, Status};
pub use target::{NoTarget, Target};
pub use tool::Memory;
