//! Hindsight: a memory server that is told every turn and asked before the next one.
//!
//! - a turn is one document, named by its session and turn, and replaced when it is sent again: however
//!   often a try is repeated or killed in between, the turn is there once
//! - kept means that the server has finished the operation: its 200 only says that it was taken in
//! - what a document carries (lineage, chat, user, times) comes from the [`Retention`] alone, so that every
//!   try sends the same bytes
//! - in a bank that several people share, each person gets what was said to them and to no one else
//!   (see `bank::BankSharing`)
//!
//! Hermes' settings hold by their names ([`HindsightSettings`]). Differently from Hermes: documents are never appended
//! to (the server may append twice after a crash), `retain_async` has no effect (every retention is taken in at
//! once and then watched until it is done), and the time of a turn goes along, so that what is handed over ten
//! days late is not remembered as of today.
//!
//! Deliberately absent: starting a server, creating or describing banks, clocks, and any queue: what is not
//! kept yet is a row of the store.
//!
//! [`Retention`]: throughline_core::memory::Retention

mod api;
mod bank;
mod document;
mod provider;
mod settings;
#[cfg(test)]
mod tests;
mod tools;

pub use provider::Hindsight;
pub use settings::{HindsightSettings, MemoryMode, RecallMethod};
