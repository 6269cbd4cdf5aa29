//! Every adapter against a local server that speaks its protocol. One binary, so that dependencies are
//! linked once.

#![allow(clippy::unwrap_used)]

mod discord;
mod letterbox;
mod slack;
mod telegram;
mod webhook;
