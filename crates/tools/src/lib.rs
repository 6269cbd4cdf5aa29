//! The agent's hands: what touches files, processes and skills, and the rules about who may.
//!
//! Every tool has the name, the arguments and the result texts that Hermes gave it, because prompts
//! and skills cite them. Whatever the model writes, a call ends in a result that it can act on.
//!
//! Deliberately absent: sessions, the store, the network. A tool is told on whose behalf it acts,
//! and what it wants sent it hands back.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod approval;
pub mod arguments;
pub mod brief;
pub mod files;
pub mod hooks;
pub mod paths;
pub mod sandbox;
pub mod skills;
pub mod spill;
pub mod terminal;
pub mod todo;
pub mod toolbox;
