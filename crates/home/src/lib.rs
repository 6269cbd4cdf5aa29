//! A home and what its user wrote about it: the directory of one agent, its lock, its key, and its settings.
//!
//! The gateway, every command and the upkeep of a home begin here, so it is a crate of its own: [`home`] says which
//! directory is meant and who has it, [`config`] what the files in it mean.
//!
//! Deliberately absent: what an agent is made of, and the database.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod config;
pub mod home;
pub mod text;

pub use config::{Environment, Overrides, Settings};
pub use home::Home;
