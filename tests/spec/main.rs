//! The specification: a module per promise or peer. One binary, so that dependencies are built once.

#![allow(clippy::unwrap_used)]

mod adopt;
mod api_clients;
mod audit;
mod backlog;
mod bank;
mod canary;
mod chats;
mod commands;
mod compression;
mod doctor;
mod drain;
mod elicitation;
mod evaluation;
#[cfg(target_os = "linux")]
mod faults;
mod flood;
mod forget;
mod gateway;
mod hands;
mod hindsight;
mod homes;
mod host;
mod interop;
mod keep;
#[cfg(target_os = "linux")]
mod killed;
mod lifecycle;
mod memory;
mod model;
mod nine_compress;
mod openai_sdk;
mod owner_chat;
mod owners;
mod pairing;
mod peers;
mod platforms;
mod plugins;
mod promises;
mod prompts;
mod refusals;
mod retries;
mod reviews;
mod servers;
mod settings;
mod simulation;
mod snapshots;
mod strangers;
mod switches;
#[cfg(target_os = "linux")]
mod terminal;
mod texts;
mod tidy;
mod torture;
mod troubles;
mod wire;
