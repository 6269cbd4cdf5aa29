//! Plugins as processes: what they may do to us, and what not.

#![allow(clippy::unwrap_used)]

mod chaos;
mod conformance;
mod cost;
mod life;
mod world;
