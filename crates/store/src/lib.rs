//! The conversation store: SQLite on a Hermes home.
//!
//! This crate alone knows SQL. It is synchronous: the caller that opens a [`StoreWriter`] owns it, and hands in
//! the time with every call. Hermes' tables hold the transcript and are never altered; control
//! state lies beside them in tables named `tl_…` with their own migrations.
//!
//! - a batch is one transaction and one fsync; a commit that is refused leaves its neighbours standing
//! - what Hermes wrote while we were away, or writes beside us, is adopted, never overwritten
//! - search index and `sessions.json` follow behind. After a clean stop the file is whole, and the index if it could be
//!   brought up to date in a few seconds; what it lacks is found all the same
//!
//! Deliberately absent: threads, clocks, randomness, decisions about sessions (those are the
//! core's), the text of Hermes' formats (those are in `throughline-hermes`).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod birth;
mod call;
mod check;
mod column_variants;
mod commit;
mod compression;
mod copy;
pub mod doctor;
mod ending;
mod envelope;
mod excerpt;
mod fault;
mod filesystem;
mod foreign;
mod forget;
mod hermes_message;
mod home_status;
mod home_totals;
mod inbox;
mod index;
mod ledger;
mod lifecycle;
mod lineage;
mod list;
mod load;
mod matcher;
mod open;
mod outbox;
mod place;
mod projection;
mod prune;
mod read;
mod retention;
mod review;
mod rewind;
mod route;
mod search;
mod seen;
mod snapshot;
mod timeline;
mod trace;
mod transcript;
mod write;

pub use check::Breach;
pub use commit::StoreWriter;
pub use copy::{Copied, CopyError, copy, inspect};
pub use forget::{
    ForgetOrder, ForgetPlan, ForgetSubject, Forgetting, FoundSession, NotFound, Receipt, SubjectKind,
};
pub use home_totals::HomeTotals;
pub use ledger::{GatewayReport, LedgerFile, LedgerPage, ProcessId, Silence, SilenceKind};
pub use open::{Durability, FileSystem, Home, OpenError};
pub use place::FileId;
pub use prune::{Owed, Prunable};
pub use read::StoreReader;
