//! Honcho: a memory that models the people an agent talks to.
//!
//! Every call names its scope; there is no current session. What was said lies in Honcho's sessions,
//! one for a chat ([`session_name`]), said by peers, one for a person and one for the agent ([`peer`]).
//!
//! - a turn is one request, and each of its messages carries the turn's key: the server recognises no
//!   repetition and can take nothing back, so a turn that may have arrived is looked for before it
//!   is sent again
//! - reading creates nothing; a session begins with its first message
//! - no one reads what another person told the agent ([`Audience`])
//!
//! Deliberately absent: retries (the store hands a turn over again), Honcho's `queryRewrite` (it would
//! ask a model before each turn), the renewal of OAuth grants, and waiting for a slow answer: Honcho's
//! reasoning is asked beside one turn and shown in the next.

mod api;
mod conclusions;
mod dialectic;
#[cfg(test)]
mod linear;
pub mod migration;
mod migration_ledger;
pub mod peer;
mod provider;
mod recall;
mod scrub;
pub mod session_name;
pub mod settings;
mod tools;
mod turn_messages;

pub use conclusions::{ProfileAddition, additions};
pub use migration::{FILES, FileUpload, Role, migration};
pub use migration_ledger::MigrationLedger;
pub use provider::Honcho;
pub use settings::{HonchoSettings, InvalidSettings};

/// Where the agent works, and who can reach it: what the settings do not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HonchoSurroundings {
    /// The working directory, absolute.
    pub directory: String,
    /// The name of the directory at the root of its repository. None: it lies in none.
    pub repository: Option<String>,
    pub audience: Audience,
}

/// How many people talk to this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// One, wherever they write from: everything that Honcho knows is theirs.
    One,
    /// More than one, or unknown. The agent's own peer has heard all of them, so what it knows is shown
    /// only at the terminal, on request.
    Many,
}
