//! The commands: one, one file.

pub mod chat;
pub mod config;
pub mod mcp;
pub mod run;
pub mod sessions;
pub mod stop;
pub mod why;
