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
