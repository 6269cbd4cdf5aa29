//! What was seen from outside: by the people who wrote, the platforms they read, the clients of the
//! API, the model, the tools. The judges read these, never the machine's own records.

use crate::elicit::Elicited;
use crate::owner::OwnerBook;
use crate::plan::words;
use crate::remember::Remembered;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::time::Duration;
use throughline_core::{Generation, Seq, SessionId};

/// Counts everything that is written down: what is lower came before.
pub type Moment = u64;

#[derive(Default)]
pub struct Records {
    /// How often something was sent to a platform.
    pub sends: usize,
    /// Which life of the process this is: 1, 2, 3 …
    pub life: u32,
    pub chats: Vec<ChatBook>,
    pub clients: Vec<ClientBook>,
    /// What was asked while a call ran.
    pub elicited: Elicited,
    /// What was put to the owner of the agent, and what people said to it.
    pub owner: OwnerBook,
    /// Every call that was left to a client, and whether it brought the result.
    pub client_calls: BTreeMap<(SessionId, String), bool>,
    /// Everything a platform showed, in order.
    pub shown: Vec<Shown>,
    /// What was shown of replies before they were there, in order.
    pub previews: Vec<Preview>,
    /// Everything the model was asked, in order.
    pub asked: Vec<Question>,
    /// Every call the model made, by the id in its arguments.
    pub calls: BTreeMap<String, CallBook>,
    /// What really happened in the world, in order.
    pub effects: Vec<Effect>,
    /// Every time a person said yes.
    pub yes: Vec<Yes>,
    /// Calls that hang at the moment.
    pub hanging: BTreeMap<u64, Hanging>,
    /// How often a tool ended the process.
    pub kills: u32,
    /// How often a message that waited was read again because its text was on disk only.
    pub texts_read: usize,
    /// Results that the gateway was told are on disk: session and call, and the words.
    pub committed: BTreeMap<(SessionId, String), String>,
    /// The same of answers with calls, by their question.
    pub steps: BTreeSet<usize>,
    /// What was logged about compressions.
    pub log: Vec<String>,
    /// What hooks did, each once, in order.
    pub hooked: Vec<Hooked>,
    /// How often each run has come to nothing, by hook and key.
    pub unlucky: BTreeMap<(String, String), u32>,
    /// Runs that the gateway was told are on disk as done: session, life of it, hook.
    pub told: BTreeSet<(SessionId, u64, String)>,
    /// What each summary stands for.
    pub summaries: Vec<Vec<String>>,
    /// What engines were asked, in order, and what memory providers were told before.
    pub compressing: Vec<Compressing>,
    pub hearings: Vec<Hearing>,
    /// What reviews asked, in order; what they wrote; those that fell due, and those that are over.
    pub reviewed: Vec<Looked>,
    pub remembered: Vec<(String, String)>,
    pub due: BTreeMap<(SessionId, u64), Due>,
    pub over: Vec<Over>,
    /// How often a memory provider was asked for something else.
    pub strange: Vec<String>,
    /// What has arrived with another agent, each once.
    pub letters: Vec<AgentLetter>,
    /// By agent: the operator wanted silence, and no person has lifted it.
    pub silences: Vec<Option<Silence>>,
    /// When the operator's orders were carried out by the agent that people know.
    pub halts: Vec<Moment>,
    /// How many of the operator's plans are done, and whether one is half done.
    pub operated: (usize, bool),
    /// The owner each session last had, and in which life.
    pub owners: BTreeMap<SessionId, (u32, Generation)>,
    /// What a memory provider keeps, in order; which documents are being written to, and in which life; and how
    /// often it failed.
    pub retained: Vec<Remembered>,
    pub writing: BTreeMap<(usize, String), u32>,
    pub forgetful: u32,
    /// What it said that it had deleted: of which session, and in which life.
    pub erased: Vec<(SessionId, u32)>,
    /// The ends that it heard of, by their keys.
    pub farewells: Vec<String>,
    /// What was seen to be wrong while it happened.
    pub wrong: Vec<String>,
    /// Everything in words, if the caller wants to read it.
    pub story: Option<Vec<String>>,
    moment: Moment,
    trace: u64,
}

/// One chat, as the people in it know it.
#[derive(Clone, Debug, Default)]
pub struct ChatBook {
    /// Whom its people write to.
    pub agent: usize,
    /// Everything that was said here. The next is sent when the one before is acknowledged.
    pub said: Vec<Said>,
    /// How many of the planned lines are among them.
    pub planned: usize,
    /// Questions that were shown here, and when a person will say what about them.
    pub questions: Vec<Reaction>,
}

#[derive(Clone, Debug)]
pub struct Said {
    pub text: String,
    pub redelivered: u64,
    /// Its turn waits a moment for what follows it.
    pub gathers: bool,
    /// In which life it was first sent, and when.
    pub life: u32,
    pub sent: Moment,
    /// Where it went, once it is acknowledged.
    pub went_to: Option<(SessionId, Seq)>,
    /// In which life that was, and when.
    pub taken: Option<(u32, Duration)>,
}

#[derive(Clone, Debug)]
pub struct Reaction {
    pub at: Duration,
    pub text: String,
}

#[derive(Clone, Debug, Default)]
pub struct ClientBook {
    pub answers: Vec<String>,
    pub sessions: Vec<SessionId>,
    /// Something is on its way.
    pub busy: bool,
    /// When the request that has no answer yet was first sent under its key.
    pub sent: Option<Moment>,
    /// How often each request had to be sent as a new one, because an operator ended its turn.
    pub renewed: BTreeMap<usize, u32>,
    /// For each request, the calls that were left to the client so far, answer by answer.
    pub handed: BTreeMap<usize, Vec<Vec<String>>>,
    /// Requests whose calls it did not answer.
    pub abandoned: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub struct Shown {
    pub at: Moment,
    pub chat: usize,
    pub key: String,
    pub text: String,
    pub marked: bool,
}

/// A message that shows what has been said so far.
#[derive(Clone, Debug)]
pub struct Preview {
    pub chat: usize,
    pub text: String,
    pub stage: Stage,
}

/// Where a preview stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Open,
    /// It stays as a message of its own, since this life. A process that ends before it could write that
    /// down goes on with it in the next one.
    Left(u32),
    /// It has become the reply, or a person took it away.
    Over,
}

#[derive(Clone, Debug)]
pub struct Question {
    pub life: u32,
    /// The gateway waits for its answer.
    pub open: bool,
    /// The model said that it cannot answer.
    pub failed: bool,
    pub at: Duration,
    pub agent: usize,
    pub session: SessionId,
    /// Tools and system prompt.
    pub head: String,
    /// The prompt, a segment each, with every summary taken for what it stands for.
    pub prompt: Vec<String>,
    /// As it was sent.
    pub sent: Vec<String>,
    /// What it answered, once it had. None: it was never heard.
    pub answer: Option<String>,
    pub answered: Option<Duration>,
    /// The answer had calls.
    pub called: bool,
}

/// One time that the context engine was asked for a summary.
#[derive(Clone, Debug)]
pub struct Compressing {
    pub life: u32,
    pub agent: usize,
    pub session: SessionId,
    pub rows: Vec<String>,
    /// What the memory provider wants remembered, as the engine was told.
    pub memory: String,
    pub began: Duration,
    /// None: it never came to an end.
    pub ended: Option<Duration>,
}

/// One question of a review.
#[derive(Clone, Debug)]
pub struct Looked {
    pub at: Moment,
    pub agent: usize,
    pub session: SessionId,
    pub head: String,
    /// As it was sent, up to what a review adds.
    pub before: Vec<String>,
    /// How many messages stood behind that.
    pub behind: usize,
    /// It got an answer.
    pub answered: bool,
}

/// A review that fell due, as the gateway was told is on disk.
#[derive(Clone, Debug)]
pub struct Due {
    pub turn: Seq,
    pub in_chat: bool,
}

/// And one that is over.
#[derive(Clone, Debug)]
pub struct Over {
    pub at: Moment,
    pub review: (SessionId, u64),
    pub done: bool,
    pub told: bool,
}

/// One time that a memory provider was told of a compression.
#[derive(Clone, Debug)]
pub struct Hearing {
    pub life: u32,
    pub agent: usize,
    /// The agent and the session of the scope.
    pub scope: (String, SessionId),
    pub rows: Vec<String>,
    pub at: Duration,
    /// When it had said what should be remembered. None: it failed, or no summary waited.
    pub said: Option<Duration>,
}

/// What one agent wrote to another, and where it arrived.
#[derive(Clone, Debug)]
pub struct AgentLetter {
    pub key: String,
    /// The sender and its session, the receiver.
    pub from: (usize, SessionId),
    pub to: String,
    /// It answers another one, and goes back to where that came from.
    pub is_reply: bool,
    pub origin: String,
    pub hops: u32,
    /// As the receiver reads it.
    pub text: String,
    pub arrived: (SessionId, Seq),
    pub at: Moment,
}

/// Something that a hook did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hooked {
    pub hook: String,
    pub key: String,
    pub at: Duration,
}

/// One call, from the answer it stood in.
#[derive(Clone, Debug)]
pub struct CallBook {
    pub question: usize,
    pub session: SessionId,
    pub tool: String,
    /// How often its tool was begun.
    pub begun: u32,
    /// What its tool returned, when it did.
    pub returned: Option<String>,
    /// When it first asked a person, in which chat.
    pub wanted: Option<(Moment, Option<usize>)>,
    /// What is to be read elsewhere if it has its result, and where.
    pub letters: Vec<(usize, String)>,
}

#[derive(Clone, Debug)]
pub struct Effect {
    pub tool: String,
    /// The chat that waits for what comes of it.
    pub chat: Option<usize>,
    pub key: String,
    pub id: String,
}

/// A yes, and how far it may reach.
#[derive(Clone, Debug)]
pub struct Yes {
    pub at: Moment,
    pub place: Place,
    pub all: bool,
    pub lasting: bool,
    pub used: bool,
}

/// Where a question is answered: in its chat, or by the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Chat(usize),
    Session(SessionId),
}

#[derive(Clone, Copy, Debug)]
pub struct Hanging {
    pub chat: usize,
    /// When a person loses patience.
    pub until: Duration,
}

/// The agent may ask and tell no one but those who have written since.
#[derive(Clone, Debug, Default)]
pub struct Silence {
    /// The order has been carried out.
    pub holds: bool,
    /// How much the model had been asked by then.
    pub heard: usize,
    /// A person wrote: what waits to be told may be told.
    pub lifted: bool,
    pub owners: BTreeSet<Owner>,
}

/// On whose behalf a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    Chat(usize),
    Client(usize),
    Agent,
}

impl Records {
    pub fn tick(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    /// Everything observable goes into the trace: the same seed must give the same one.
    pub fn saw(&mut self, what: impl Hash + Debug) {
        if let Some(story) = &mut self.story {
            story.push(format!("life {}: {what:?}", self.life));
        }
        let mut hasher = DefaultHasher::new();
        (self.trace, what).hash(&mut hasher);
        self.trace = hasher.finish();
        self.moment += 1;
    }

    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// A person or a client writes, to the agent they know. Clients know the first.
    pub fn speaks(&mut self, owner: Owner, text: &str) {
        let says = words(text).is_some();
        let agent = match owner {
            Owner::Chat(chat) => self.chats[chat].agent,
            Owner::Client(_) | Owner::Agent => 0,
        };
        if let Some(Some(silence)) = self.silences.get_mut(agent) {
            silence.lifted = true;
            if says {
                silence.owners.insert(owner);
            }
        }
    }

    /// The operator gives an order: what is on its way by then may arrive after it.
    pub fn begin_silence(&mut self, agent: usize) {
        self.silences[agent] = Some(Silence::default());
        for chat in 0..self.chats.len() {
            if let Some(said) = self.chats[chat].said.last().filter(|said| said.went_to.is_none()) {
                let text = said.text.clone();
                self.speaks(Owner::Chat(chat), &text);
            }
        }
        for client in 0..self.clients.len() {
            if self.clients[client].busy {
                self.speaks(Owner::Client(client), "");
            }
        }
    }

    /// Whose session this is, by the first words in it.
    pub fn owner(&self, prompt: &[String]) -> Owner {
        let first = prompt.iter().find_map(|segment| segment.strip_prefix("user:")).unwrap_or_default();
        let number = |text: &str| text.split(['.', '-']).next().and_then(|number| number.parse().ok());
        if let Some(chat) = first.strip_prefix('c').and_then(number) {
            return Owner::Chat(chat);
        }
        if let Some(client) = first.strip_prefix('a').and_then(number) {
            return Owner::Client(client);
        }
        let parent =
            first.strip_prefix("task-").and_then(number).and_then(|question| self.asked.get(question));
        parent.map_or(Owner::Agent, |parent| self.owner(&parent.prompt))
    }
}

impl Records {
    /// Whether the operator's silence, if there is one, still holds for a session. One that was
    /// unknown when it was ordered is not silenced by an order that a person has lifted since.
    pub fn may_speak(&self, agent: usize, session: &str, prompt: &[String]) -> bool {
        let Some(Some(silence)) = self.silences.get(agent) else { return true };
        if !silence.holds {
            return true;
        }
        let mut before = self.asked.iter().take(silence.heard);
        let mut known = || before.any(|question| question.session.as_str() == session);
        silence.owners.contains(&self.owner(prompt)) || (silence.lifted && !known())
    }

    /// The chat that this session belongs to, as far as its people have seen.
    pub fn chat_of(&self, session: &SessionId) -> Option<usize> {
        let question = self.asked.iter().rev().find(|question| question.session == *session)?;
        match self.owner(&question.prompt) {
            Owner::Chat(chat) => Some(chat),
            Owner::Client(_) | Owner::Agent => None,
        }
    }
}
