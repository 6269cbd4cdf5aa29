//! The adapters against servers that speak their platforms' protocols.

mod letterbox;
mod slack;
mod webhook;
