//! What every platform's adapter can do, beyond sending a reply once.

use crate::incoming::{Attachment, Intake};
use std::sync::Arc;
use throughline_core::input::Destination;
use throughline_core::port::{Outgoing, Pending, Platform, Promise, SendError};
use tokio::sync::watch;

/// One account on one platform.
///
/// Only [`Platform::send`] and [`Adapter::listen`] carry what must not be lost. The rest is courtesy
/// while a turn runs: it may fail, and nothing waits for it.
pub trait Adapter: Platform {
    /// The platform's own id of this account: stable, and free of secrets.
    fn account(&self) -> &str;

    /// Takes in what people write until `stop` says so: connects, resumes, waits and connects again.
    /// Returns early only when it is no use to go on (a token that was revoked, another poller that
    /// will not leave): then the account is off, and [`Platform::health`] says why.
    fn listen<'a>(&'a self, intake: Arc<dyn Intake>, stop: StopSignal) -> Promise<'a, ListenEnded>;

    /// "… is typing", for as long as the platform shows it, which is a few seconds.
    fn typing<'a>(&'a self, place: &'a Destination) -> Promise<'a, ()> {
        let _ = place;
        Box::pin(async {})
    }

    /// A message that may change later, outside the outbox. Returns the platform's id of it.
    fn post<'a>(&'a self, place: &'a Destination, text: &'a str) -> Promise<'a, Result<String, SendError>>;

    /// Replaces what a message of ours says. Whether the platform can: [`Adapter::can_edit`].
    fn edit<'a>(
        &'a self,
        place: &'a Destination,
        id: &'a str,
        text: &'a str,
    ) -> Promise<'a, Result<(), SendError>>;

    fn can_edit(&self) -> bool {
        true
    }

    fn remove<'a>(&'a self, place: &'a Destination, id: &'a str) -> Promise<'a, Result<(), SendError>>;

    /// Puts a tool's question to a person, with buttons where there are some. What is pressed comes
    /// back through [`Intake::press`].
    fn put<'a>(
        &'a self,
        place: &'a Destination,
        question: &'a Pending,
    ) -> Promise<'a, Result<String, SendError>>;

    /// A small sign on a person's message; an empty one takes it away.
    fn react<'a>(&'a self, place: &'a Destination, message: &'a str, sign: &'a str) -> Promise<'a, ()> {
        let _ = (place, message, sign);
        Box::pin(async {})
    }

    /// What an attachment holds, unless it is larger than `limit`. The error is a sentence.
    fn fetch<'a>(&'a self, attachment: &'a Attachment, limit: usize) -> Promise<'a, Result<Vec<u8>, String>>;
}

/// A question with something to press, for [`Platform::ask`] of a platform that takes no key.
pub async fn ask(
    adapter: &dyn Adapter,
    outgoing: &Outgoing,
    question: &Pending,
    mark: Option<&str>,
) -> Result<Option<String>, SendError> {
    if mark.is_some() {
        return adapter.send(outgoing, mark).await; // in words, which can say that it comes again
    }
    match adapter.put(&outgoing.destination, question).await {
        Ok(id) => Ok(Some(id)),
        // Without buttons, then: the words say how to answer.
        Err(SendError::Never { .. }) => adapter.send(outgoing, mark).await,
        Err(error) => Err(error),
    }
}

/// Why an adapter returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenEnded {
    Stopped,
    /// It is no use to go on. A sentence, free of secrets, with what to do next.
    Refused(String),
}

/// Tells an adapter to stop: once, for all clones.
#[derive(Clone, Debug)]
pub struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    /// The sender that asks to stop, and the receiver.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (rope, bell) = watch::channel(false);
        (rope, Self(bell))
    }

    /// Returns when the adapter is to stop, or when the sender is gone.
    pub async fn rung(&mut self) {
        let _ = self.0.wait_for(|rung| *rung).await;
    }

    pub fn has_rung(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
