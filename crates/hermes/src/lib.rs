//! Hermes Agent's formats, and nothing else: how it writes messages, sessions, routes, keys and
//! ids, so that a home written by either program is read by the other.
//!
//! Everything here is a function of its arguments. Deliberately absent: SQL that runs, files,
//! clocks, randomness, network. The caller hands in what was read and when.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod access;
mod call;
pub mod config;
mod content;
pub mod entry;
pub mod env;
mod fields;
pub mod file_policy;
pub mod hook_facts;
pub mod id;
pub mod json;
pub mod key;
#[cfg(test)]
mod linear;
pub mod local;
pub mod lock;
pub mod log;
mod message;
pub mod pairing;
#[cfg(test)]
mod peer;
pub mod profile;
pub mod row;
pub mod schema;
pub mod sessions_json;
pub mod source;
pub mod state;
pub mod title;
pub mod toolset;
pub mod unsupported;
