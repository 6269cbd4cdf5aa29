//! The agent's tools for files, processes and skills, and the rules about who may use them.
//!
//! Every tool has the name, the arguments and the result texts that Hermes gave it, because prompts
//! and skills cite them. For anything the model writes, a call ends in a result that it can act on.
//!
//! A terminal is Unix's: elsewhere there is none, and neither are the user's own programs run that
//! hear of calls ([`hooks`]). All else is the same everywhere.
//!
//! Deliberately absent: sessions, the store, the network. A tool is told on whose behalf it acts,
//! and what it wants sent it hands back.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod approval;
pub mod arguments;
pub mod files;
pub mod hooks;
pub mod paths;
#[cfg(unix)]
pub mod sandbox;
pub mod skills;
pub mod spill;
pub mod system_prompt;
#[cfg(unix)]
pub mod terminal;
pub mod todo;
pub mod toolbox;
