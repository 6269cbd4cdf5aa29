//! Turns that a memory provider is to keep.

use throughline_core::id::{Generation, SessionId};
use throughline_core::memory::{Filing, Naming, Place, Scope as MemoryScope};
use throughline_core::session::Act;

pub(crate) const PROVIDER: &str = "elsewhere";

/// So many turns of a session are handed over together.
pub(crate) const EVERY: usize = 2;

/// Several sessions share each document.
pub(crate) fn document_of(session: &SessionId) -> String {
    let sum = session.as_str().bytes().map(u32::from).sum::<u32>();
    format!("document {}", sum % 2)
}

/// What is kept of a session is due, and before it all that was kept earlier in the same document.
pub(crate) fn hand_over(kept: &mut [(String, SessionId, bool)], id: &SessionId) {
    let Some(last) = kept.iter().rposition(|(_, session, _)| session == id) else { return };
    for (_, session, due) in &mut kept[..=last] {
        *due |= document_of(session) == document_of(id);
    }
}

/// Whom a turn concerns, as the shell would find out.
pub(crate) fn file(session: &SessionId, act: &mut Act) {
    if let Act::Retain(kept) = act {
        let scope = scope(session, None);
        let naming = Naming { name: document_of(session), otherwise: None };
        kept.filing = Some(Filing { provider: PROVIDER.into(), scope, naming, every: EVERY as u64 });
    }
}

pub(crate) fn scope(session: &SessionId, chat: Option<&str>) -> MemoryScope {
    MemoryScope {
        agent: "me".into(),
        chat: chat.map(|chat| chat.parse().expect("a key")),
        session: session.clone(),
        generation: Generation(0),
        parent: None,
        platform: "telegram".into(),
        user: Some("42".into()),
        user_name: Some("Ann \"quoted\"".into()),
        place: Place { chat: Some("42".into()), kind: Some("dm".into()), ..Place::default() },
        title: None,
        document: None,
        meant: None,
    }
}
