//! Where a message belongs: to the session its chat leads to, to the one it names, to the one it
//! continues, or to a new one.

use crate::id::{Seq, SessionId, TurnId};
use crate::input::Chat;
use crate::message::{Content, ToolCall};
use crate::prompt::Digest;

/// Where a surface says that an input belongs.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// To the session that this chat leads to.
    Chat(Chat),
    /// To this session, which is begun if it does not exist yet.
    Session(SessionId),
    /// To the session whose conversation, as its client sees it, ends in `before`.
    Thread { before: Digest },
    /// To this session, if this input is still the last it received.
    After { session: SessionId, seq: Seq },
    /// To a session of its own.
    Fresh,
}

/// One turn that a client's view of a conversation matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    pub session: SessionId,
    pub turn: TurnId,
    /// Nothing has been said in that session since.
    pub is_tip: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Continuation {
    Append(SessionId),
    /// The client's own copy of the history becomes the beginning of a new session.
    Import,
}

/// A client that names no session goes on where its history ends, if that is one place and the
/// end of it. Two people who both said "hi" match twice, and never share.
pub fn continuation(matches: &[Match]) -> Continuation {
    match matches {
        [only] if only.is_tip => Continuation::Append(only.session.clone()),
        _ => Continuation::Import,
    }
}

/// The conversation as a client sees it, as a rolling hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(Digest);

impl Thread {
    pub fn begin(principal: &str, system: Option<&str>) -> Self {
        let system = system.map_or([0].as_slice(), str::as_bytes);
        Self(Digest::of(&[b"thread", principal.as_bytes(), system]))
    }

    #[must_use]
    pub fn then(self, role: &str, content: &Content) -> Self {
        resume(self.0, role, content)
    }

    pub fn digest(self) -> Digest {
        self.0
    }
}

/// The calls of the message that was just followed. Clients write arguments anew when they repeat them, so a call
/// counts by its id and its name.
#[must_use]
pub fn with_calls<'a>(thread: Thread, calls: impl Iterator<Item = &'a ToolCall>) -> Thread {
    let fields: Vec<&[u8]> = calls.flat_map(|call| [call.id.as_bytes(), call.name.as_bytes()]).collect();
    match fields.is_empty() {
        true => thread,
        false => thread.then("calls", &Content::Text(Digest::of(&fields).to_hex())),
    }
}

/// Goes on from a stored digest.
pub fn resume(digest: Digest, role: &str, content: &Content) -> Thread {
    Thread(Digest::of(&[&digest.0, role.as_bytes(), fingerprint(content).as_bytes()]))
}

/// Text and a list of one text are the same to a reader, so they are the same here.
fn fingerprint(content: &Content) -> String {
    use crate::message::Part;
    match content {
        Content::Nothing => String::new(),
        Content::Text(text) => text.clone(),
        Content::Opaque(json) => format!("\u{0}{json}"),
        Content::Parts(parts) => match parts.as_slice() {
            [Part::Text(text)] => text.clone(),
            parts => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => format!("\u{0}t{text}"),
                    Part::Image { url, .. } => format!("\u{0}i{url}"),
                    Part::Opaque(json) => format!("\u{0}o{json}"),
                })
                .collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(session: &str, is_tip: bool) -> Match {
        Match { session: session.parse().expect("plain id"), turn: TurnId(Seq(1)), is_tip }
    }

    #[test]
    fn a_client_without_a_session_goes_on_only_where_it_is_certain() {
        let a = found("a", true);
        assert_eq!(continuation(std::slice::from_ref(&a)), Continuation::Append(a.session.clone()));
        assert_eq!(continuation(&[]), Continuation::Import);
        assert_eq!(continuation(&[found("a", false)]), Continuation::Import);
        assert_eq!(continuation(&[a, found("b", true)]), Continuation::Import);
    }

    #[test]
    fn principal_system_role_and_order_all_matter() {
        let hi = Content::text("hi");
        let base = Thread::begin("p", None).then("user", &hi);
        assert_eq!(base, Thread::begin("p", None).then("user", &hi));
        for other in [
            Thread::begin("q", None).then("user", &hi),
            Thread::begin("p", Some("")).then("user", &hi),
            Thread::begin("p", None).then("assistant", &hi),
            Thread::begin("p", None).then("user", &hi).then("user", &hi),
        ] {
            assert_ne!(base, other);
        }
    }
}
