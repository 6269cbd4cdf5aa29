//! Context engines, memory providers, tools and hooks in processes of their own.
//!
//! A plugin speaks JSON-RPC 2.0 over its standard input and output, one message a line. What is said is
//! in [`protocol`]; a plugin in Rust implements one trait of [`sdk`].
//!
//! - every call names its scope: a plugin has no current session
//! - nothing is asked that the plugin did not declare
//! - a plugin that hangs, dies, floods or talks nonsense costs its callers the deadlines of a few calls,
//!   and then nothing until it is well again
//!
//! Deliberately absent: trust. What a plugin returns is data, checked where it is used.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod conformance;
pub mod engine;
pub mod hooks;
pub mod host;
pub mod json_rpc;
#[cfg(test)]
mod linear;
mod log;
mod messages;
pub mod orphaned_processes;
mod process;
pub mod protocol;
pub mod provider;
mod sandbox;
pub mod schema;
pub mod scope;
mod scratch;
pub mod sdk;
pub mod settings;
pub mod tools;

pub use engine::PluginEngine;
pub use hooks::PluginHooks;
pub use host::{CallError, Host, Introduced, PluginState, PluginStatus};
pub use log::{FILE as LOG_FILE, PluginRedactor};
pub use process::AnswerModel;
pub use provider::PluginProvider;
pub use settings::{Deadlines, PluginLimits, PluginSettings};
pub use tools::PluginKit;
