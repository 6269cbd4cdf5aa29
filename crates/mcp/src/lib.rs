//! The Model Context Protocol, both ways: servers whose tools an agent uses, and a server of our own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod client;
pub mod login;
pub mod serve;
pub mod settings;
