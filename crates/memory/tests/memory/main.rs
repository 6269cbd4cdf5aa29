//! What an agent remembers, tried from outside. One program for all of it: each one more is linked anew.

#![allow(clippy::unwrap_used)]

mod common;
mod durable;
mod full;
mod golden;
mod hindsight;
mod history;
mod honcho;
mod never_lost;
mod rules;
