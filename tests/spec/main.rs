//! The specification: a module per promise or peer. One binary, so that dependencies are built once.

#![allow(clippy::unwrap_used)]

mod adopt;
mod api_clients;
mod audit;
mod backlog;
mod backup;
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
mod forget;
mod gateway;
mod hindsight;
mod hindsight_server;
mod homes;
mod host;
mod interop;
#[cfg(target_os = "linux")]
mod killed;
mod large_messages;
mod lifecycle;
mod memory;
mod memory_switches;
mod model;
mod nine_compress;
mod no_key;
mod openai_sdk;
mod owner_chat;
mod owners;
mod pairing;
mod peers;
mod platform_failures;
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
#[cfg(target_os = "linux")]
mod terminal;
mod texts;
mod tidy;
mod tool_calls;
mod torture;
mod wire;
