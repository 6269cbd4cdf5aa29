//! Commands and background processes.

pub mod confine;
pub mod group;
pub mod judge;
pub mod output;
pub mod settings;
