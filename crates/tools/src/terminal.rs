//! Commands and background processes.

pub mod judge;
pub mod settings;
