//! What a gateway works off beside the running conversations: after a start, in the outbox, at expiry, for memory.

use super::{Outgoing, Pending, StoreError};
use crate::id::SessionId;
use crate::memory::PendingRetention;
use crate::time::Time;

/// What recovery, outbox, expiry and retention work off.
pub trait WorkRead: Send {
    /// When this home was first taken over: what happened before is not ours to act on.
    fn baseline(&self) -> Result<Time, StoreError>;
    /// The operator silenced the home, and has not ended that.
    fn is_silenced(&self) -> Result<bool, StoreError>;
    /// Sessions that the operator has silenced.
    fn halted(&self) -> Result<Vec<SessionId>, StoreError>;
    /// Sessions with something to do after a start, oldest first.
    fn unfinished(&self) -> Result<Vec<SessionId>, StoreError>;
    /// Replies that have not been delivered, in the order in which they were written.
    fn undelivered(&self) -> Result<Vec<Outgoing>, StoreError>;
    /// Previews whose reply has not taken their place: its key, and the platform's id, where it is known.
    fn drafts(&self) -> Result<Vec<(String, Option<String>)>, StoreError>;
    /// Questions of tools that wait for a person, oldest first.
    fn asks(&self) -> Result<Vec<Pending>, StoreError>;
    /// Sessions at rest that chats lead to, without a message or an answer since, oldest first. Those
    /// without one in our time are not among them.
    fn resting(&self, since: Time) -> Result<Vec<Resting>, StoreError>;
    /// Turns that are to be handed to this memory provider, in order; a thousand at most.
    fn retentions(&self, provider: &str) -> Result<Vec<PendingRetention>, StoreError>;
    /// Turns that no memory provider has yet, in order, for any provider.
    fn unkept(&self) -> Result<Vec<PendingRetention>, StoreError>;
    fn cursor(&self, platform: &str, account: &str) -> Result<Option<String>, StoreError>;
}

/// A conversation at rest that a chat leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resting {
    pub session: SessionId,
    pub platform: String,
    pub chat_type: String,
    /// When a message or an answer last came in it.
    pub active: Time,
}
