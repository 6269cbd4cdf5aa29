//! Each adapter against a local server that speaks its platform's protocol, and fails on request.

#![allow(clippy::unwrap_used)]

mod discord;
