//! The commands: one, one file.

pub mod adopt;
pub mod audit;
pub mod backup;
pub mod chat;
pub mod config;
pub mod doctor;
pub mod eval;
pub mod forget;
pub mod jobs;
pub mod mcp;
pub mod memory;
pub mod pairing;
pub mod plugin;
pub mod prune;
pub mod restart;
pub mod restore;
pub mod run;
pub mod service;
pub mod sessions;
pub mod status;
pub mod stop;
pub mod why;

/// A port as people type it.
fn port(text: &str) -> Result<u16, String> {
    text.trim().parse().map_err(|_| "a port is a number from 1 to 65535, 8642 for example".to_owned())
}
