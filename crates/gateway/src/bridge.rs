//! Where the agents of one process write to each other.
//!
//! To the sender it is a platform like any other: what it says lies in its outbox until it has
//! arrived. To the receiver it is a message like any other: it lies in its inbox once it has. The
//! key of the one is the key of the other, so it arrives once. What travels along is the trace of
//! the human message it follows from, so that two agents cannot thank each other for ever.
//!
//! Deliberately absent: any way into another agent's sessions but through its inbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use throughline_core::input::{AGENT_PLATFORM, Birth, Chat, DedupeKey, Destination, Kind, Sender};
use throughline_core::port::{AgentApi, Outgoing, Platform, Promise, Refusal, SendError, Submission};
use throughline_core::route::Target;
use throughline_core::{Content, SessionId};

/// The agents of this process, by name.
#[derive(Default)]
pub struct Agents {
    here: Mutex<BTreeMap<String, Arc<dyn AgentApi>>>,
    /// Those that this process is going to run: one that takes up a turn again may write to another
    /// that has not started yet.
    expected: Vec<String>,
    /// Their bots, by agent and platform: what came in by one may be for another agent, and is answered
    /// by the bot that was written to.
    bots: Mutex<BTreeMap<(String, String), Arc<dyn Platform>>>,
}

impl Agents {
    pub fn expecting(names: Vec<String>) -> Self {
        Self { expected: names, ..Self::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Arc<dyn AgentApi>>> {
        self.here.lock().expect("nothing panics while it holds the agents")
    }

    pub fn join(&self, name: &str, api: Arc<dyn AgentApi>) {
        self.known().insert(name.to_owned(), api);
    }

    /// An agent that stops leaves, or the two would keep each other alive.
    pub fn leave(&self, name: &str) {
        self.known().remove(name);
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.known().keys().chain(&self.expected).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    pub fn all(&self) -> Vec<(String, Arc<dyn AgentApi>)> {
        self.known().iter().map(|(name, api)| (name.clone(), api.clone())).collect()
    }

    pub fn api(&self, name: &str) -> Option<Arc<dyn AgentApi>> {
        self.known().get(name).cloned()
    }

    fn bots(&self) -> MutexGuard<'_, BTreeMap<(String, String), Arc<dyn Platform>>> {
        self.bots.lock().expect("nothing panics while it holds the bots")
    }

    /// From now on others can answer through this bot, also while its agent stops: what is ready then
    /// still leaves.
    pub fn lend(&self, agent: &str, bot: Arc<dyn Platform>) {
        self.bots().insert((agent.to_owned(), bot.name().to_owned()), bot);
    }

    pub(crate) fn bot(&self, agent: &str, platform: &str) -> Option<Arc<dyn Platform>> {
        self.bots().get(&(agent.to_owned(), platform.to_owned())).cloned()
    }
}

/// One agent's way to the others.
pub struct Bridge {
    name: Arc<str>,
    agents: Arc<Agents>,
}

impl Bridge {
    pub fn new(name: Arc<str>, agents: Arc<Agents>) -> Self {
        Self { name, agents }
    }

    async fn carry(&self, outgoing: &Outgoing) -> Result<Option<String>, SendError> {
        let to = &outgoing.destination.account;
        let Some(api) = self.agents.api(to) else {
            let message = format!("no agent called {to:?} runs in this process");
            return Err(SendError::Later { after: None, message });
        };
        let submission = self.submission(api.as_ref(), outgoing)?;
        match api.submit(submission).await {
            Ok(receipt) => Ok(Some(format!("{}/{}", receipt.session, receipt.seq))),
            Err(refusal @ (Refusal::Draining | Refusal::Unwritable(_) | Refusal::Internal(_))) => {
                Err(SendError::Later { after: None, message: refusal.to_string() })
            }
            Err(refusal) => Err(SendError::Never { message: refusal.to_string() }),
        }
    }

    fn submission(&self, api: &dyn AgentApi, outgoing: &Outgoing) -> Result<Submission, SendError> {
        let chat = &outgoing.destination.chat;
        let never = |message: String| SendError::Never { message };
        let target = match chat.is_empty() {
            true => Target::Chat(self.chat_with(&outgoing.session).map_err(never)?),
            false => Target::Session(chat.parse().map_err(|_| never(format!("{chat:?} names no session")))?),
        };
        let chat = match &target {
            Target::Chat(chat) => Some(chat.clone()),
            _ => None,
        };
        Ok(Submission {
            target,
            birth: Birth {
                source: AGENT_PLATFORM.into(),
                user: Some(self.name.to_string()),
                chat,
                ..Birth::default()
            },
            at: api.now(),
            key: DedupeKey::of(&[AGENT_PLATFORM, &self.name, &outgoing.key]),
            kind: Kind::Chat(Content::text(format!("[{}] {}", self.name, outgoing.text))),
            reply_to: Some(self.here(&outgoing.session)),
            sender: Some(Sender {
                id: format!("{AGENT_PLATFORM}:{}", self.name),
                name: Some(self.name.to_string()),
            }),
            platform_id: None,
            trace: outgoing.trace.clone(),
            may_be_retry: false,
            can_answer: true,
            gathers: None,
        })
    }

    /// Where an answer to what this session said goes.
    fn here(&self, session: &SessionId) -> Destination {
        Destination {
            platform: AGENT_PLATFORM.into(),
            account: self.name.to_string(),
            chat: session.to_string(),
            thread: None,
            reply_to: None,
        }
    }

    /// The other agent knows each of our sessions as a chat of its own.
    fn chat_with(&self, session: &SessionId) -> Result<Chat, String> {
        let key = format!("agent:main:{AGENT_PLATFORM}:dm:{}:{session}", self.name);
        Ok(Chat {
            key: key.parse().map_err(|_| format!("{key:?} is no chat key"))?,
            platform: AGENT_PLATFORM.into(),
            chat_type: "dm".into(),
            display_name: Some(self.name.to_string()),
            origin: None,
        })
    }
}

impl Platform for Bridge {
    fn name(&self) -> &str {
        AGENT_PLATFORM
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        _mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        Box::pin(self.carry(outgoing))
    }
}
