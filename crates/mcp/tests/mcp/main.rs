//! The protocol, spoken with others: servers that are ours to call, and programs that call us.

#![allow(clippy::unwrap_used)]

mod common;
mod elicit;
mod hostile;
mod oauth;
mod peers;
mod serve;
