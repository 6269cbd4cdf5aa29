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

mod entry_change;
mod entry_history;
mod entry_journal;
pub mod files;
mod forget;
pub mod hindsight;
pub mod honcho;
#[cfg(test)]
mod linear;
mod memory_edit;
mod memory_text;
mod overview;
mod pending_writes;
mod person_name;
mod prompt;
mod python_text;
pub mod settings;
mod store_size;
mod target;
mod threats;
mod tool;
mod tool_arguments;
mod tool_result;
mod write_failures;

pub use entry_history::{
    EntryEvent, EntryOrigin, EntryRecord, EntryWriter, NoPastId, PastEntry, PastId, REVIEW,
};
pub use forget::Erased;
pub use overview::{MemoryContents, MemoryEntry, MemoryStatus, RestoreError, RestoredEntry};
pub use pending_writes::{PendingError, PendingWrite};
pub use settings::{MemoryOwners, MemorySettings, NotesSharing};
pub use store_size::StoreSize;
pub use target::{MemoryTarget, NoTarget};
pub use tool::Memory;
