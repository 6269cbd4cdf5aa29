//! Session id → mailbox. Wakes sessions on demand, lets idle ones rest, and brings back one whose
//! actor fell over. Chat key → session id, remembered until it changes.

use crate::agent::Home;
use crate::session::{Actor, Mail, Origin};
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use throughline_core::input::AGENT_PLATFORM;
use throughline_core::session::Event;
use throughline_core::{ChatKey, SessionId};
use tokio::sync::mpsc;
use tracing::Instrument;

/// A session whose actor keeps failing is tried again ever more slowly, but never given up: its
/// messages are on disk, and their senders wait.
const REVIVE_MAX: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Router {
    actors: Mutex<BTreeMap<SessionId, Entry>>,
    routes: Mutex<Routes>,
    /// Held while a chat without a known session gets one, so that two messages do not make two.
    pub resolving: tokio::sync::Mutex<()>,
}

/// Chats whose session is remembered. More are looked up in the store when a message comes there, which costs one read.
const ROUTES_MAX: usize = 10_000;

/// Where chats lead, as far as we have asked. `epoch` rises whenever something is forgotten, so that
/// an answer from before is not remembered after.
#[derive(Default)]
struct Routes {
    known: BTreeMap<ChatKey, SessionId>,
    epoch: u64,
}

struct Entry {
    mail: mpsc::UnboundedSender<Mail>,
    /// Tells this actor from one that took its place.
    number: u64,
}

impl Router {
    fn actors(&self) -> MutexGuard<'_, BTreeMap<SessionId, Entry>> {
        self.actors.lock().expect("nothing panics while it holds the actors")
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().expect("nothing panics while it holds the routes")
    }

    pub fn known(&self, chat: &ChatKey) -> Option<SessionId> {
        self.routes().known.get(chat).cloned()
    }

    pub fn epoch(&self) -> u64 {
        self.routes().epoch
    }

    /// Remembers what was asked in `epoch`, unless something has been forgotten since.
    pub fn remember(&self, chat: ChatKey, session: SessionId, epoch: u64) {
        let mut routes = self.routes();
        if routes.epoch == epoch {
            routes.known.insert(chat, session);
            while routes.known.len() > ROUTES_MAX {
                routes.known.pop_first();
            }
        }
    }

    /// The chats that led to this session are looked up again.
    pub fn forget(&self, session: &SessionId) {
        let mut routes = self.routes();
        routes.epoch += 1;
        routes.known.retain(|_, known| known != session);
    }

    pub fn forget_all(&self) {
        let mut routes = self.routes();
        routes.epoch += 1;
        routes.known.clear();
    }

    pub fn live(&self) -> usize {
        self.actors().len()
    }

    pub fn awake(&self) -> Vec<SessionId> {
        self.actors().keys().cloned().collect()
    }

    /// Mails to a session that is awake; does nothing for one that sleeps.
    pub fn mail_if_awake(&self, session: &SessionId, mail: Mail) {
        if let Some(entry) = self.actors().get(session) {
            let _ = entry.mail.send(mail);
        }
    }

    /// An idle actor asks to go. Under the lock no task can mail it, so nothing is lost.
    pub fn retire(&self, session: &SessionId, inbox: &mpsc::UnboundedReceiver<Mail>) -> bool {
        let mut actors = self.actors();
        if !inbox.is_empty() {
            return false;
        }
        actors.remove(session);
        true
    }

    /// Everyone is let go: the home is closing, and what they own is on disk.
    pub fn dismiss(&self) {
        self.actors().clear();
    }

    /// Another session has changed this one: the actor that owned it is let go, and the next one loads it.
    pub fn dismiss_one(&self, session: &SessionId) {
        self.actors().remove(session);
    }

    fn leave(&self, session: &SessionId, number: u64) {
        let mut actors = self.actors();
        if actors.get(session).is_some_and(|entry| entry.number == number) {
            actors.remove(session);
        }
    }
}

/// Mails to a session, waking it if it sleeps.
pub(crate) fn mail(home: &Arc<Home>, session: &SessionId, origin: Origin, mail: Mail) {
    let mut actors = home.router.actors();
    let entry = actors.entry(session.clone()).or_insert_with(|| spawn(home, session.clone(), origin));
    let _ = entry.mail.send(mail); // the receiver lives as long as the entry, but for a panic: then the sender learns
}

fn spawn(home: &Arc<Home>, session: SessionId, origin: Origin) -> Entry {
    let (sender, inbox) = mpsc::unbounded_channel();
    let number = home.clock.chance();
    // The actor's own address must not keep its mailbox open.
    let actor = Actor::new(home.clone(), session.clone(), origin, inbox, sender.downgrade());
    let home = home.clone();
    let span = home.span.clone();
    let task = async move {
        let ended = AssertUnwindSafe(actor.run()).catch_unwind().await;
        home.router.leave(&session, number);
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = error.in_full();
                tracing::warn!(%session, error, "the session's actor stopped; loading it again");
                revive(home, session);
            }
            Err(_) => {
                tracing::error!(%session, "the session's actor panicked; loading it again");
                revive(home, session);
            }
        }
    };
    tokio::spawn(task.instrument(span));
    Entry { mail: sender, number }
}

fn revive(home: Arc<Home>, session: SessionId) {
    if home.closing.load(Ordering::Relaxed) {
        return; // the next start takes it up
    }
    let delay = home.fallen(&session).min(REVIVE_MAX);
    tokio::spawn(async move {
        tokio::time::sleep(delay).await;
        mail(&home, &session, Origin::Stored, Mail::Wake);
    });
}

/// The home is no longer silent because a person spoke. Each session where people talk goes on when they
/// do; those that only agents write to have no person to wait for, and go on now.
pub(crate) fn release(home: &Arc<Home>) {
    let home = home.clone();
    tokio::spawn(async move {
        let halted = home.library.read(|store| {
            let mut found = Vec::new();
            for session in store.halted()? {
                let loaded = store.load(&session)?;
                if loaded.is_some_and(|loaded| loaded.source == AGENT_PLATFORM) {
                    found.push(session);
                }
            }
            Ok(found)
        });
        match halted.await {
            Ok(_) if home.is_halted() => {} // the operator was quicker
            Ok(halted) => halted.iter().for_each(|session| {
                mail(&home, session, Origin::Stored, Mail::Event(Event::Released));
            }),
            Err(error) => {
                tracing::error!(%error, "could not find who was silenced; say `throughline resume`")
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_routes_are_remembered_than_there_is_room_for() {
        let router = Router::default();
        let chat = |number: usize| format!("agent:main:telegram:dm:{number:06}").parse().expect("a key");
        for number in 0..ROUTES_MAX + 100 {
            router.remember(chat(number), "session".parse().expect("an id"), router.epoch());
        }
        assert_eq!(router.routes().known.len(), ROUTES_MAX);
        assert!(router.known(&chat(ROUTES_MAX + 99)).is_some(), "the latest is");
    }
}
