//! The HTTP surfaces against an agent API in memory: through the router, and over a real socket.

#![allow(clippy::unwrap_used)]

mod agent_api;
mod api;
mod approvals;
mod bodies;
mod chat;
mod client;
mod client_tools;
mod control;
mod refusals;
mod responses;
mod retries;
mod sessions;
mod socket;
mod stream;
