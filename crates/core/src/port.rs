//! The outside world, in plain data. Each trait states a promise; an adapter keeps it.
//!
//! Nothing here names a database, a vendor or a platform, and nothing decides: decisions are in
//! [`crate::session`]. Futures are boxed so that adapters can be chosen at run time.

mod agent_api;
mod browse;
mod engine;
mod hooks;
mod host;
mod ledger;
mod model;
mod platform;
mod store;
mod work;

pub use crate::call::CallId;
pub use agent_api::{
    AgentApi, Draft, Drafted, Halted, Hold, Progress, Question, Reading, Receipt, Refusal, Remembering,
    Running, Status, Submission, Update,
};
pub use browse::{
    Anchor, Backlog, BrowseRead, Excerpt, Hit, Order, Parked, ReviewRecord, Scope, SessionFilter,
    SessionSummary, Snapshot, SnapshotSummary, Trace,
};
pub use engine::{Condensed, ContextUsage, Engine, EngineError, Past, Takes, Wishes};
pub use hooks::{Fact, FactName, Happening, Hooks, NoHooks, Occasion};
pub use host::{Assignment, Expansion, HostCommands};
pub use ledger::{CutChain, Ledger, Post, Unreachable};
pub use model::{Asked, Delta, Model, ModelError, Models, Summariser, SystemPrompt, Written};
pub use platform::{Health, Outgoing, Pending, Platform, SendError};
pub use store::{
    Closed, Commit, Committed, DeliveryChange, DraftChange, Implicit, Loaded, Read, Reset, Resumable,
    ReviewView, Seen, SessionRead, Settled, Spoken, Store, StoreError, Tended, Titling,
};
pub use work::{Resting, WorkRead};

use std::future::Future;
use std::pin::Pin;

/// An answer that is waited for. Boxed, so that adapters are chosen at run time.
pub type Promise<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
