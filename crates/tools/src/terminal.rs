//! Commands and background processes.
