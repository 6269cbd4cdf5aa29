//! The upkeep of a home: backups, repairs, forgetting, and the move from Hermes and back.
//!
//! [`archive`] is the file that a backup is, [`doctor`] finds what is wrong with a home and keeps what a repair may have to
//! give back, [`forget`] takes a person out of its files, [`adopt`] moves an agent. All of it works on files, also while no
//! gateway runs.
//!
//! Deliberately absent: a running agent (`throughline-app`), the control API, argv. What a move needs of those the binary
//! hands in ([`adopt::MoveActions`], [`adopt::survey::PluginLookup`]).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod adopt;
pub mod archive;
pub mod doctor;
pub mod forget;
pub mod progress;
