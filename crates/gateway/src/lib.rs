//! The shell around the core: it alone spawns tasks and reads the clock.
//!
//! One [`Agent`] is one home: a store behind a committer, an actor per live session, an outbox, and
//! an ingress ([`throughline_core::port::AgentApi`]). Several agents share a process and nothing else.
//!
//! A message comes through the ingress, is mailed to its session's actor, stepped, committed, and only
//! then acknowledged. Jobs (asking the model, calling a tool, summarising, finalising) are implied by the state;
//! they report back by mail. Recovery is loading what is unfinished: the same path.
//!
//! Deliberately absent: SQL, HTTP, the format of anything, and every decision about a conversation,
//! which are `throughline_core::session`'s.

mod agent;
mod alarm;
mod bridge;
mod chain;
mod clock;
mod command_jobs;
mod committer;
mod compress;
mod draft;
mod elicit;
mod expiry;
mod finalise;
mod gateway_tools;
mod hooks;
mod ingress;
mod offer;
mod outbox;
mod owner;
mod recollect;
mod retention;
mod review;
mod router;
mod scope;
mod session;
mod silence;
mod stream;
mod turn;

pub use agent::{Agent, Defect, Mint, Options, Parts, Stopped};
pub use bridge::{Agents, Bridge};
pub use clock::{Clock, SystemClock};
pub use command_jobs::{NoClerk, OneModel};
pub use committer::{Library, ReaderFactory, StoreFactory};
pub use compress::{Compressor, Digester, EngineKit};
pub use expiry::{Lifecycle, Struck};
pub use gateway_tools::{AddressBook, Delegation, GatewayTools, HandsSettings, HomeChannels};
pub use owner::Owners;
pub use retention::Memory;
pub use review::{Fills, Notice, Notices, Reviewer};
pub use turn::NoTools;
