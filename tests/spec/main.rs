//! The specification: a module per promise or peer. One binary, so that dependencies are built once.

mod simulation;
mod tidy;
