//! The program around the gateway: it hosts agents and gives each its equipment.
//!
//! [`host`] keeps the agents of a process running, [`agent`] puts one together from its settings, [`equip`] gives it
//! tools, memory and plugins, [`platform_accounts`] its bots, and [`host_commands`] carries out what people ask of the
//! process in a chat.
//!
//! Deliberately absent: argv, the environment of the process, the terminal, and the upkeep of a home
//! (`throughline-upkeep`): backups, repairs, moves. What an agent needs of those the binary hands in ([`agent::Upkeep`],
//! [`host_commands::MemoryCommands`]).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod agent;
pub mod descriptors;
pub mod equip;
pub mod hermes_state_files;
pub mod host;
pub mod host_commands;
pub mod http_listener;
pub mod ledger;
pub mod logs;
pub mod models;
pub mod notify;
pub mod platform_accounts;
pub mod restart_notice;
pub mod token;
