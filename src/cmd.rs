//! The commands: one, one file.

pub mod config;
pub mod run;
