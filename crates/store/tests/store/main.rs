//! The store from outside: on fresh homes, on homes that Hermes wrote, and beside Hermes.

#![allow(clippy::unwrap_used)]

mod adoption;
mod check;
mod conformance;
mod copy;
mod earlier_home;
mod home;
mod opening;
mod search;
mod snapshots;
