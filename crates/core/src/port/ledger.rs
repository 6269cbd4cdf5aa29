//! One account of what agents spend on each other, for all processes of a user.

use super::Promise;
use crate::chain::{Exceeded, Share, Shared};
use crate::input::Root;
use crate::time::Time;
use std::sync::Arc;

/// One account of what follows from human messages, for every agent of a user of the machine, in whichever process
/// it runs. See [`crate::chain`].
pub trait Ledger: Send + Sync {
    /// Takes a share of an origin's budget. On disk when this returns.
    fn take(&self, share: Share) -> Promise<'_, Result<Shared, Unreachable>>;
    /// Whether it would be granted now. Nothing is taken, and nothing is announced.
    fn would_grant(&self, share: Share) -> Promise<'_, Result<bool, Unreachable>>;
    /// This bot is one of ours: what it says is waited for.
    fn introduce(&self, platform: &str, account: &str);
    /// A message of ours is in a chat: an agent that hears it there finds what it follows from. The caller does not wait.
    fn posted(&self, post: Post, trace: crate::input::Trace);
    /// What a message in a chat follows from, if one of our agents wrote it. One that was posted a moment ago is
    /// waited for, if its author is one of our bots.
    fn recognise(&self, post: Post) -> Promise<'_, Option<crate::input::Trace>>;
    /// A person opens the chains again that began in this session, or were cut in it.
    fn reopen(&self, session: Root) -> Promise<'_, Result<(), Unreachable>>;
    /// Returns when a chain that people of this home began was cut, and they have not been told.
    fn cut(&self, home: Arc<str>) -> Promise<'_, CutChain>;
    /// Whether the session that began the chain announces its cut in this place. The session that asks first does, in
    /// each place, also if it asks again; no other one.
    fn announces(&self, cut: CutChain, place: String) -> Promise<'_, Result<bool, Unreachable>>;
    /// They have been told.
    fn told(&self, cut: CutChain) -> Promise<'_, Result<(), Unreachable>>;
    /// The last of this home's people's chains that were cut, and are not open again, newest first.
    fn cuts(&self, home: Arc<str>) -> Promise<'_, Result<Vec<CutChain>, Unreachable>>;
}

/// The ledger cannot be read or written. It grants nothing meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// A message in a chat, as everybody in it knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Post {
    pub platform: String,
    pub chat: String,
    pub message: String,
    /// The bot that wrote it.
    pub author: String,
}

/// A chain that was cut, and the people who began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutChain {
    pub origin: Arc<str>,
    pub number: u32,
    pub root: Root,
    pub why: Exceeded,
    pub at: Time,
}
