//! What any implementation of the store's port must do, as tests that each of them runs.
//!
//! A [`StoreWorld`] drives the real session machine and keeps its own plain books of what was committed.
//! After every batch the store must tell the same story: every session exactly as the machine left
//! it, every row, outcome, key, route and reply. The books are what the port promises, not how
//! tables are made.
//!
//! A failure panics with what differs, as an assertion does.
//!
//! Deliberately absent: any store. An implementation names this crate among its dev-dependencies, and no program
//! links it.

mod book;
mod promises;
mod sample;
mod story;
mod world;

pub use promises::suite;
pub use story::StoryMove;
pub use world::{StoreWorld, busy_rules};

use throughline_core::message::Message;
use throughline_core::port::Store;

/// One home for a store, which can be opened again, and by two at once.
pub trait StoreSite {
    fn open(&self) -> Box<dyn Store>;

    /// What comes back of a message. Homes of old schemas have no place for some of its fields.
    fn kept(&self, message: &Message) -> Message {
        message.clone()
    }
}

/// Makes an empty home of its own for each test.
pub type StoreSites<'a> = &'a dyn Fn() -> Box<dyn StoreSite>;
