//! Skills: notes on how to do things, kept as files.
