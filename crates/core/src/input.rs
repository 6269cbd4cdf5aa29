//! What comes in: one inbox row, from any surface.

use crate::command::Command;
use crate::compression::{estimate_said, estimate_words};
use crate::id::{Seq, SessionId};
use crate::message::{Content, JsonText, Message, ToolResult};
use crate::prompt::Digest;
use crate::time::Time;
use std::fmt;
use std::sync::Arc;

/// What makes two deliveries the same message, for ever: platform, account, chat, thread and
/// message id, or a client's idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DedupeKey(Arc<str>);

impl DedupeKey {
    /// Fields are joined so that no two lists of fields make the same key.
    pub fn of(fields: &[&str]) -> Self {
        let mut key = String::new();
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                key.push('|');
            }
            for c in field.chars() {
                if matches!(c, '|' | '\\') {
                    key.push('\\');
                }
                key.push(c);
            }
        }
        Self(key.into())
    }

    /// What it was made of.
    pub fn fields(&self) -> Vec<String> {
        let mut fields = vec![String::new()];
        let mut characters = self.0.chars();
        while let Some(c) = characters.next() {
            let field = fields.last_mut().expect("there is always one");
            match c {
                '|' => fields.push(String::new()),
                '\\' => field.extend(characters.next()),
                c => field.push(c),
            }
        }
        fields
    }

    /// A key read back from the store.
    pub fn stored(text: &str) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DedupeKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One thing a user, a client or another program asked of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub seq: Seq,
    pub at: Time,
    pub key: DedupeKey,
    pub kind: Kind,
    /// Where the reply goes. None for a client that waits for the turn itself.
    pub reply_to: Option<Destination>,
    pub sender: Option<Sender>,
    pub platform_id: Option<String>,
    pub trace: Trace,
    /// Set while it waits with its texts on disk only: see [`Input::light`].
    pub left: Option<Left>,
}

/// An input that waits is kept in memory with its texts up to so many bytes of them. Nearly every chat message is
/// shorter; and however many wait, and however long they are, each takes one or two kilobytes.
pub const INLINE_BYTES_MAX: usize = 1024;

/// What is known of texts that are on disk only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// What its row of the transcript will weigh.
    pub tokens: u64,
}

impl Input {
    /// As it waits: with all that decides what becomes of it, and without its texts if they are long. Those are in its
    /// inbox row, and are read when it is taken up. It depends on the input alone, so that a process that
    /// loads a session finds it as its owner has it.
    #[must_use]
    pub fn light(self: &Arc<Self>) -> Arc<Self> {
        let bytes = match &self.kind {
            Kind::Chat(content) => content.bytes(),
            Kind::Request(request) => request.bytes(),
            Kind::Command(command) => command.bytes(),
        };
        // What a client's tools returned closes calls in the step that takes it up: it is not left on disk.
        let brings_results = matches!(&self.kind, Kind::Request(request) if !request.results.is_empty());
        if self.left.is_some() || bytes <= INLINE_BYTES_MAX || brings_results {
            return self.clone();
        }
        let tokens = match &self.kind {
            Kind::Chat(content) => estimate_said(content),
            Kind::Request(request) => estimate_said(&request.content),
            Kind::Command(command) => command.words().map_or(0, estimate_words),
        };
        let kind = match &self.kind {
            Kind::Chat(_) => Kind::Chat(Content::Nothing),
            Kind::Request(request) => Kind::Request(request.light()),
            Kind::Command(command) => Kind::Command(command.light()),
        };
        let Self { seq, at, key, reply_to, sender, platform_id, trace, .. } = &**self;
        Arc::new(Self {
            seq: *seq,
            at: *at,
            key: key.clone(),
            kind,
            reply_to: reply_to.clone(),
            sender: sender.clone(),
            platform_id: platform_id.clone(),
            trace: trace.clone(),
            left: Some(Left { tokens }),
        })
    }

    /// What it says, as a row of the transcript. Not to be asked of one whose texts are on disk only.
    pub fn row(&self) -> Option<Message> {
        debug_assert!(self.left.is_none(), "the texts of input {} have not been read", self.seq);
        let content = match &self.kind {
            Kind::Chat(content) => content.clone(),
            // What the client's tools returned is all that it says.
            Kind::Request(request) if request.content == Content::Nothing && !request.results.is_empty() => {
                return None;
            }
            Kind::Request(request) => request.content.clone(),
            Kind::Command(command) => Content::text(command.words()?),
        };
        let mut message = Message::user(self.at, content);
        message.platform_id.clone_from(&self.platform_id);
        Some(message)
    }
}

/// The platform on which the agents of one process write to each other: the account is an agent,
/// the chat one of its sessions.
pub const AGENT_PLATFORM: &str = "agent";

/// What a message follows from, and how far it has come since. All that an agent says because of it
/// carries it on: see [`crate::chain`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Names the human message (or schedule, or webhook) that began it, among all agents of a user. Empty on a
    /// message of a person: it begins its own. Empty on one of a bot: a gateway wrote it, and it follows from nothing.
    pub origin: Arc<str>,
    /// Where that message came in: who is told when the chain is cut.
    pub root: Option<Root>,
    /// How many agents it has passed through. 0: a human wrote it.
    pub hops: u32,
    /// Set if a bot wrote it that is none of ours, so that we cannot know what it follows from: the last
    /// human message that the platform heard in the same chat, or nothing.
    pub foreign: Option<Arc<str>>,
}

impl Trace {
    pub fn is_human(&self) -> bool {
        self.hops == 0
    }

    /// What is said because of a message carries its trace one hop further. Our own words are not foreign,
    /// even as an answer to foreign ones.
    #[must_use]
    pub fn onward(&self) -> Trace {
        Trace { hops: self.hops + 1, foreign: None, ..self.clone() }
    }
}

/// A session of an agent, which may run in another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The path of the agent's home.
    pub home: Arc<str>,
    pub session: SessionId,
}

/// The first field of the key under which a person has something done beside their conversation.
pub const BACKGROUND: &str = "background";

/// What one session was asked to do for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub parent: SessionId,
    /// The surface it is done for: what is off there is off here.
    pub source: String,
    /// How deep it lies below a session that people talk to. The first child has 1.
    pub depth: u32,
    pub steps_max: u32,
    /// What its parent had left when it asked. None: no limit.
    pub tokens_max: Option<u64>,
    /// Groups of tools it may use. None: what its parent may, but for those no child may.
    pub toolsets: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A message in a chat. Those that wait together share the next turn, each as its own message.
    Chat(Content),
    /// A request of an API client: a turn of its own.
    Request(Request),
    /// An order to the gateway rather than words for the model.
    Command(Command),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    pub content: Content,
    /// Fingerprint of the whole body: the same key with another body is refused.
    pub body: Option<Digest>,
    /// The conversation as the client sees it, up to and including this input.
    pub thread: Option<Digest>,
    /// Finds a client's retry that carries no key of its own.
    pub implicit_key: Option<Digest>,
    /// The client's layer of the system prompt. It counts from the turn that this request begins.
    pub system: Option<String>,
    /// Sampling fields for the model, as a JSON object.
    pub sampling: Option<JsonText>,
    /// Set if another session asks.
    pub task: Option<Task>,
    /// Tools that the client runs itself, beside those of the agent.
    pub tools: Option<ClientTools>,
    /// What the client's own tools returned, for the calls that were left to it. `content` may be nothing then.
    pub results: Vec<ToolResult>,
    /// It names neither a session nor a person: it is not reminded of other conversations, and no other conversation
    /// is reminded of it.
    pub stateless: bool,
}

/// Tools that a client offers to the model and runs itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTools {
    /// As [`crate::tool::Offer::list`].
    pub list: JsonText,
    pub names: Vec<String>,
}

impl Request {
    fn bytes(&self) -> usize {
        let system = self.system.as_ref().map_or(0, String::len);
        let sampling = self.sampling.as_ref().map_or(0, |json| json.as_str().len());
        let tools = self.tools.as_ref().map_or(0, |tools| tools.list.as_str().len());
        self.content.bytes() + system + sampling + tools
    }

    /// Without what only the model is told.
    fn light(&self) -> Self {
        let Self { body, thread, implicit_key, task, stateless, .. } = self;
        Self {
            body: *body,
            thread: *thread,
            implicit_key: *implicit_key,
            task: task.clone(),
            stateless: *stateless,
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    pub id: String,
    pub name: Option<String>,
}

/// The full address of a reply. Fixed when the message comes in, never looked up later.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    pub platform: String,
    pub account: String,
    pub chat: String,
    pub thread: Option<String>,
    /// The message that is answered, where the platform can show that.
    pub reply_to: Option<String>,
}

/// Between the account of a bot and the agent it belongs to, where another agent answers through it.
const LENT: char = '@';

impl Destination {
    /// The same place, for another agent of the process: it answers through the bot of this one.
    #[must_use]
    pub fn lent_by(self, agent: &str) -> Self {
        Self { account: format!("{}{LENT}{agent}", self.account), ..self }
    }

    /// The agent whose bot this is, where it is another's.
    pub fn lender(&self) -> Option<&str> {
        match self.platform.as_str() {
            AGENT_PLATFORM => None, // its accounts are agents, under any name
            _ => self.account.rsplit_once(LENT).map(|(_, agent)| agent),
        }
    }

    /// Where a reply to one would be read by the person who waits for the other.
    pub fn is_same_place(&self, other: &Destination) -> bool {
        (&self.platform, &self.account, &self.chat, &self.thread)
            == (&other.platform, &other.account, &other.chat, &other.thread)
    }
}

/// What the first input of a new session brings along.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Birth {
    pub source: String,
    pub user: Option<String>,
    /// Whose session it is, where several clients share one home.
    pub principal: Option<String>,
    /// The caller is one user among several, and has no claim on sessions without an owner.
    pub one_of_many: bool,
    pub model: Option<String>,
    /// History the client brought, already in order and with closed tool groups.
    pub imported: Vec<Message>,
    /// The session that ended in its chat: as [`crate::port::SessionRead::reset`] knows it, if by itself.
    pub predecessor: Option<SessionId>,
    /// The session it works for. Unlike a predecessor it lives on.
    pub parent: Option<SessionId>,
    /// The chat it belongs to. None for API and terminal: those have no route.
    pub chat: Option<Chat>,
    pub room: Room,
}

/// What a place adds to the prompt of a session that begins there. Frozen with the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    pub prompt: Option<String>,
    /// Skills that are loaded from the start.
    pub skills: Vec<String>,
}

impl Room {
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// A chat as a platform describes it; `key` is what it is found by.
#[derive(Clone, Debug, PartialEq)]
pub struct Chat {
    pub key: crate::id::ChatKey,
    pub platform: String,
    pub chat_type: String,
    pub display_name: Option<String>,
    /// Where it came from, in full, as a JSON object in Hermes' form.
    pub origin: Option<JsonText>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_a_place_remembers_whose_bot_is_answered_through() {
        let place = |platform: &str, account: &str| Destination {
            platform: platform.into(),
            account: account.into(),
            chat: "c".into(),
            thread: None,
            reply_to: None,
        };
        assert_eq!(place("shop", "7").lender(), None);
        assert_eq!(place("shop", "7").lent_by("default").lender(), Some("default"));
        assert_eq!(place(AGENT_PLATFORM, "me@home").lender(), None);
    }

    fn said(kind: Kind) -> Arc<Input> {
        Arc::new(Input {
            seq: Seq(7),
            at: Time(3),
            key: DedupeKey::of(&["k"]),
            kind,
            reply_to: None,
            sender: Some(Sender { id: "p".into(), name: None }),
            platform_id: Some("m7".into()),
            trace: Trace::default(),
            left: None,
        })
    }

    #[test]
    fn p8_what_waits_keeps_what_decides_and_leaves_long_texts_on_disk() {
        let short = said(Kind::Chat(Content::text("x".repeat(INLINE_BYTES_MAX))));
        assert!(Arc::ptr_eq(&short.light(), &short), "a short one waits as it is");

        let long = "x".repeat(INLINE_BYTES_MAX + 1);
        let task = Task {
            parent: "parent".parse().expect("an id"),
            source: "cli".into(),
            depth: 1,
            steps_max: 3,
            tokens_max: None,
            toolsets: None,
        };
        let request = Request {
            content: Content::text("hi"),
            body: Some(Digest([1; 32])),
            thread: Some(Digest([2; 32])),
            implicit_key: Some(Digest([3; 32])),
            system: Some(long.clone()),
            sampling: Some(JsonText::from_valid("{}")),
            task: Some(task),
            tools: Some(ClientTools { list: JsonText::from_valid("[]"), names: vec!["theirs".into()] }),
            results: Vec::new(),
            stateless: true,
        };
        let kinds = [
            (Kind::Chat(Content::text(&long)), Kind::Chat(Content::Nothing)),
            (
                Kind::Request(request.clone()),
                Kind::Request(Request {
                    content: Content::Nothing,
                    system: None,
                    sampling: None,
                    tools: None,
                    ..request
                }),
            ),
        ];
        for (kind, expected) in kinds {
            let whole = said(kind);
            let light = whole.light();
            let weight = crate::compression::estimate(&whole.row().expect("words"));
            assert_eq!(light.left, Some(Left { tokens: weight }));
            assert_eq!(*light, Input { kind: expected, left: light.left, ..Input::clone(&whole) });
            assert_eq!(light.light(), light);
        }
        let order = said(Kind::Command(Command::Queue { text: long.clone() }));
        let light = order.light();
        assert!(
            matches!(&light.kind, Kind::Command(order) if order.words().is_some() && order.bytes() < 100)
        );
        assert_eq!(
            light.left.map(|left| left.tokens),
            order.row().map(|row| crate::compression::estimate(&row))
        );
    }

    #[test]
    fn p7_no_two_lists_of_fields_make_one_key() {
        let lists: [&[&str]; 6] =
            [&["a", "b"], &["a|b"], &["a\\", "b"], &["a\\|b"], &["", "a", "b"], &["a", "", "b"]];
        for (i, one) in lists.iter().enumerate() {
            assert_eq!(DedupeKey::of(one).fields(), *one);
            for other in &lists[i + 1..] {
                assert_ne!(DedupeKey::of(one), DedupeKey::of(other), "{one:?} {other:?}");
            }
        }
    }
}
