//! The adapters against servers that speak their platforms' protocols.

#![allow(clippy::unwrap_used)]

mod letterbox;
mod slack;
mod webhook;
