//! What was seen from outside: by the people who wrote, the platforms they read, the clients of the
//! API, the model, the tools. The judges read these, never the machine's own records.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use throughline_core::{Generation, Seq, SessionId};

#[derive(Default)]
pub struct Books {
    /// Which life of the process this is: 1, 2, 3 …
    pub life: u32,
    pub chats: Vec<ChatBook>,
    pub clients: Vec<ClientBook>,
    /// Everything a platform showed, in order.
    pub shown: Vec<Shown>,
    /// Everything the model was asked, in order.
    pub asked: Vec<Question>,
    /// Every time a tool really ran.
    pub ran: Vec<(SessionId, String)>,
    /// The owner each session last had, and in which life.
    pub owners: BTreeMap<SessionId, (u32, Generation)>,
    /// What was seen to be wrong while it happened.
    pub wrong: Vec<String>,
    trace: u64,
}

/// One chat, as the people in it know it.
#[derive(Clone, Debug, Default)]
pub struct ChatBook {
    /// How many lines the gateway has acknowledged. The next is sent when the one before is.
    pub acknowledged: usize,
    /// Where each acknowledged line went.
    pub went_to: Vec<(SessionId, Seq)>,
}

#[derive(Clone, Debug, Default)]
pub struct ClientBook {
    pub answers: Vec<String>,
    pub sessions: Vec<SessionId>,
}

#[derive(Clone, Debug)]
pub struct Shown {
    pub chat: usize,
    pub key: String,
    pub text: String,
    pub marked: bool,
}

#[derive(Clone, Debug)]
pub struct Question {
    pub life: u32,
    pub session: SessionId,
    /// The prompt, a segment each.
    pub prompt: Vec<String>,
    /// What it answered, once it had. None: it was never heard.
    pub answer: Option<String>,
}

impl Books {
    /// Everything observable goes into the trace: the same seed must give the same one.
    pub fn saw(&mut self, what: impl Hash) {
        let mut hasher = DefaultHasher::new();
        (self.trace, what).hash(&mut hasher);
        self.trace = hasher.finish();
    }

    pub fn trace(&self) -> u64 {
        self.trace
    }
}
