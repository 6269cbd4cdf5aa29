//! Where people write: Telegram, Discord, Slack and signed webhooks.
//!
//! An [`Adapter`] translates one platform's protocol and decides nothing: what comes in becomes an
//! [`Incoming`] for the [`Intake`], what goes out comes from the gateway's outbox through
//! [`Platform`]. The platform hears that a message arrived only when the intake has it on disk, and
//! a cursor is kept only after the messages before it.
//!
//! Deliberately absent: sessions, the store, and any queue of messages in memory.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod adapter;
pub mod discord;
pub mod incoming;
pub mod intake;
#[cfg(test)]
mod linear;
pub mod live;
pub mod media;
pub mod pairing;
pub mod slack;
pub mod telegram;
#[cfg(test)]
mod test_doubles;
pub mod webhook;

pub use adapter::{Adapter, ListenEnded, StopSignal};
pub use incoming::{
    Attachment, DirectDelivery, Incoming, Intake, IntakeOutcome, Media, NotNow, Press, Quoted,
};
pub use intake::{AccountIntake, AccountSettings, Neighbour, Neighbours};
pub use live::Live;
pub use pairing::Pairings;
pub use telegram::Telegram;
pub use throughline_core::port::{Platform, SendError};
