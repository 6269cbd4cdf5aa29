//! Previews of replies, while this process shows them.
//!
//! A task that changes a preview holds it, and the outbox waits: what was said so far must not come after
//! the reply and stand in its place. A preview that was being posted when a process ended may be
//! there or not, and its id is unknown: its reply says that something of it may have been seen.
//!
//! Deliberately absent: the words of a preview, and the platform it is on.

use crate::agent::Home;
use crate::chain;
use crate::committer::CommitError;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use throughline_core::input::{Destination, Trace};
use throughline_core::port::{Commit, DraftChange, Drafted, Hold};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Longer than any platform takes to refuse a message: a task that holds a preview for so long is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a preview stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Preview {
    /// It may be there or not.
    Unknown,
    Posted(String),
}

#[derive(Default)]
pub(crate) struct Drafts {
    known: Mutex<BTreeMap<String, Known>>,
    released: Notify,
}

struct Known {
    preview: Preview,
    /// Where it is, and what it follows from. None after a start: those who heard it have heard it by then.
    said: Option<(Destination, Trace)>,
    /// So many are at it.
    held: usize,
    /// The reply is on its way: no other task touches the preview.
    closed: bool,
}

impl Drafts {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().expect("nothing panics while it holds the previews")
    }

    /// What an earlier process left.
    pub fn recover(&self, drafts: Vec<(String, Option<String>)>) {
        let drafts = drafts.into_iter().map(|(key, id)| {
            let preview = id.map_or(Preview::Unknown, Preview::Posted);
            (key, Known { preview, said: None, held: 0, closed: false })
        });
        self.known().extend(drafts);
    }

    pub fn get(&self, key: &str) -> Option<Preview> {
        self.known().get(key).map(|known| known.preview.clone())
    }

    /// The caller is about to post it.
    pub fn begin(&self, key: &str, place: Destination, trace: Trace) {
        let said = Some((place, trace));
        let known = Known { preview: Preview::Unknown, said, held: 0, closed: false };
        self.known().insert(key.to_owned(), known);
    }

    fn posted(&self, key: &str, id: String) {
        if let Some(known) = self.known().get_mut(key) {
            known.preview = Preview::Posted(id);
        }
    }

    fn said(&self, key: &str) -> Option<(Destination, Trace)> {
        self.known().get(key)?.said.clone()
    }

    pub fn forget(&self, key: &str) {
        self.known().remove(key);
        self.released.notify_waiters();
    }

    fn try_hold(&self, key: &str) -> bool {
        match self.known().get_mut(key) {
            Some(known) if !known.closed => {
                known.held += 1;
                true
            }
            _ => false,
        }
    }

    fn release(&self, key: &str) {
        if let Some(known) = self.known().get_mut(key) {
            known.held = known.held.saturating_sub(1);
        }
        self.released.notify_waiters();
    }

    /// The reply is about to leave: from here on its preview does not change. Returns how it stands once
    /// no task holds it.
    pub async fn close(&self, key: &str) -> Option<Preview> {
        self.known().get_mut(key)?.closed = true;
        let free = async {
            loop {
                let released = self.released.notified();
                if self.known().get(key).is_none_or(|known| known.held == 0) {
                    return;
                }
                released.await;
            }
        };
        if timeout(PATIENCE, free).await.is_err() {
            tracing::warn!(key, "a preview is still being changed; its reply leaves all the same");
        }
        self.get(key)
    }
}

pub(crate) fn hold(home: &Arc<Home>, key: &str) -> Option<Hold> {
    (!home.is_halted() && home.drafts.try_hold(key)).then(|| {
        let (home, key) = (Arc::downgrade(home), key.to_owned());
        Hold::new(move || {
            if let Some(home) = home.upgrade() {
                home.drafts.release(&key);
            }
        })
    })
}

/// What became of a preview: on disk first, so that a start finds what the outbox relies on.
pub(crate) async fn drafted(home: &Arc<Home>, key: String, change: Drafted) {
    match change {
        Drafted::Posted { id } => {
            if let Some((place, trace)) = home.drafts.said(&key) {
                chain::posted(home, &place, &id, &trace);
            }
            write(home, key.clone(), DraftChange::Posted { id: id.clone() }).await;
            home.drafts.posted(&key, id); // also where the disk is full: this process knows it
        }
        Drafted::Lost => {} // as it was written down before it was posted
        Drafted::Left => leave(home, &key).await,
    }
}

pub(crate) async fn leave(home: &Arc<Home>, key: &str) {
    write(home, key.to_owned(), DraftChange::Left).await;
    home.drafts.forget(key);
}

async fn write(home: &Arc<Home>, key: String, change: DraftChange) {
    if let Err(CommitError::Refused(error)) = put(home, key.clone(), change).await {
        tracing::warn!(key, %error, "could not write down what became of a preview");
    }
}

pub(crate) async fn put(home: &Arc<Home>, key: String, change: DraftChange) -> Result<(), CommitError> {
    let commit = Commit::Draft { key, change, at: home.clock.now() };
    home.library.commit(commit).await.map(drop)
}
