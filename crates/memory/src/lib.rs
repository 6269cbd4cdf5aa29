//! What an agent remembers across conversations.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod files;
pub mod settings;
