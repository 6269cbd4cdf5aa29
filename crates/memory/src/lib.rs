//! What an agent remembers across conversations: two small files that people can read and edit,
//! and the tool `memory` that changes them.
//!
//! Both belong to a Hermes home and stay usable by a Hermes that runs at the same time: its format,
//! its lock, its limits. A write is on disk before it is confirmed; a full store refuses and says
//! what to give up, and never drops anything by itself. [`Memory::blocks`] is what a prompt shows.
//!
//! Deliberately absent: a copy of the entries in memory. Every call reads the file under its lock.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod arguments;
mod change;
mod document;
mod failures;
pub mod files;
mod pending;
mod prompt;
pub mod settings;
mod size;
mod target;
mod text;
mod threats;
mod tool;

pub use settings::{MemorySettings, Owners};
pub use size::Size;
pub use tool::Memory;
