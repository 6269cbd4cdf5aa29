//! Context engines, memory providers, tools and hooks in processes of their own.
//!
//! A plugin speaks JSON-RPC 2.0 over its standard input and output, one message a line. What is said is
//! in [`protocol`]; whoever writes a plugin in Rust implements a trait of [`serve`] and is done.
//!
//! - every call names its scope: a plugin has no current session
//! - nothing is asked that the plugin did not declare
//! - a plugin that hangs, dies, floods or talks nonsense costs its callers the deadlines of a few calls,
//!   and then nothing until it is well again
//!
//! Deliberately absent: trust. What a plugin returns is data, checked where it is used.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod check;
mod confine;
pub mod engine;
pub mod hooks;
pub mod host;
pub mod kit;
pub mod leftover;
#[cfg(test)]
mod linear;
mod link;
mod log;
pub mod protocol;
pub mod provider;
pub mod schema;
pub mod scope;
mod scratch;
pub mod serve;
pub mod settings;
pub mod wire;
mod words;

pub use engine::PluginEngine;
pub use hooks::PluginHooks;
pub use host::{CallError, Host, Introduced, State, Status};
pub use kit::PluginKit;
pub use link::AnswerModel;
pub use log::{FILE as LOG_FILE, Redactor};
pub use provider::PluginProvider;
pub use settings::{Deadlines, Limits, PluginSettings};
