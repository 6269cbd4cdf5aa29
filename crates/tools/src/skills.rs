//! Skills: notes on how to do things, kept as files.

pub mod settings;
