//! On whose behalf, in the words of the protocol.

use crate::protocol::{Chat, Scope};
use throughline_core::SessionId;
use throughline_core::memory;
use throughline_core::tool::Caller;

/// All that is known where only the session is.
pub fn of_session(session: &SessionId) -> Scope {
    Scope { session: session.to_string(), ..Scope::default() }
}

pub fn of_memory(scope: &memory::Scope) -> Scope {
    Scope {
        session: scope.session.to_string(),
        parent: scope.parent.as_ref().map(ToString::to_string),
        chat_key: scope.chat.as_ref().map(ToString::to_string),
        generation: scope.generation.0,
        title: scope.title.clone(),
        platform: scope.platform.clone(),
        chat: Chat {
            id: scope.place.chat.clone(),
            name: scope.place.name.clone(),
            kind: scope.place.kind.clone(),
            thread: scope.place.thread.clone(),
        },
        user: scope.user.clone(),
        user_name: scope.user_name.clone(),
        document: scope.document.clone(),
    }
}

/// What a tool knows of its caller.
pub fn of_caller(caller: &Caller) -> Scope {
    let place = caller.reply_to.as_ref();
    Scope {
        platform: caller.source.clone(),
        user: caller.user.clone(),
        chat: Chat {
            id: place.map(|place| place.chat.clone()),
            thread: place.and_then(|place| place.thread.clone()),
            ..Chat::default()
        },
        ..of_session(&caller.session)
    }
}
