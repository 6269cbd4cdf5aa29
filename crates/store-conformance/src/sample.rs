//! Names, addresses, chats and inputs that every story uses.

use throughline_core::id::{ChatKey, Seq, SessionId};
use throughline_core::input::{
    AGENT_PLATFORM, Chat, DedupeKey, Destination, INLINE_BYTES_MAX, Input, Kind, Trace,
};
use throughline_core::message::{Content, JsonText};
use throughline_core::port::{Commit, Committed, Store, StoreError};
use throughline_core::session::Event;
use throughline_core::time::Time;

pub(crate) fn id(text: &str) -> SessionId {
    text.parse().expect("a plain id")
}

pub(crate) fn taken_up() -> Event {
    Event::Loaded { repeatable: Vec::new() }
}

/// Where letters go.
pub(crate) fn elsewhere() -> Destination {
    Destination {
        platform: AGENT_PLATFORM.into(),
        account: "other".into(),
        chat: "elsewhere".into(),
        thread: Some("thread".into()),
        reply_to: None,
    }
}

/// An input with nothing in it.
pub(crate) fn bare_input() -> Input {
    Input {
        seq: Seq(1),
        at: Time(0),
        key: DedupeKey::of(&[]),
        kind: Kind::Chat(Content::Nothing),
        reply_to: None,
        sender: None,
        platform_id: None,
        trace: Trace::default(),
        left: None,
    }
}

pub(crate) fn chat(place: usize) -> Chat {
    let key: ChatKey = format!("agent:main:test:dm:{place}").parse().expect("a plain key");
    let origin = format!("{{\"platform\": \"test\", \"chat_id\": \"{place}\", \"user_id\": \"u\"}}");
    Chat {
        key,
        platform: "test".into(),
        chat_type: "dm".into(),
        display_name: Some(format!("Chat {place}")),
        origin: Some(JsonText::from_valid(origin)),
    }
}

pub(crate) fn one(store: &mut dyn Store, commit: Commit) -> Result<Committed, StoreError> {
    let mut results = store.commit(&[commit]);
    assert_eq!(results.len(), 1, "one result for one commit");
    results.remove(0)
}

/// More than is kept in memory, and told apart from any other by its beginning and its end.
pub(crate) fn long(name: &str) -> String {
    format!("{name} {} {name}", "ü\n".repeat(INLINE_BYTES_MAX / 2))
}
