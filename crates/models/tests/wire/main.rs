//! The adapters against real servers on loopback, which answer as providers do on good days and bad.

#![allow(clippy::unwrap_used)]

mod anthropic;
mod faults;
mod grammar;
mod openai;
mod server;
