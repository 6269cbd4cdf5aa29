//! What an agent can do: tools as plain data, and the ports behind which they act.
//!
//! A call is committed before it runs and its result after, so an implementation of these ports is
//! called at most once for a call, unless the tool is [`Spec::repeatable`]. What a result wants sent
//! travels in the result ([`Done::sends`]) and leaves with its commit: a tool never sends by itself
//! what the outbox can send once.
//!
//! A call may ask the person of its session while it runs ([`Asker`]): a server behind a tool wants to know something.
//! Such a question lives as long as its call. After a crash the call is of unknown outcome, and its question is over.
//!
//! Deliberately absent: JSON. Arguments and schemas travel as text; the tool that acts on them reads them.

use crate::id::SessionId;
use crate::input::{Destination, Task, Trace};
use crate::message::{Content, JsonText};
use crate::port::{CallId, Promise};
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub name: String,
    /// The group by which users switch it on and off.
    pub toolset: String,
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: JsonText,
    /// Running a call twice under one key is running it once: it only reads, or recognises the key.
    pub repeatable: bool,
}

/// One source of tools: a part of the toolbox.
pub trait Kit: Send + Sync {
    /// What can be called now, in an order that stays as it is while the set does.
    fn specs(&self) -> Vec<Spec>;
    /// Changes whenever [`Kit::specs`] does, and is cheap to ask.
    fn revision(&self) -> u64 {
        0
    }
    /// Runs one of them. Dropping the promise abandons the call: a well-behaved tool ends what it
    /// began (a process, a request); the caller no longer waits.
    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned>;
    /// The same, for tools that may have to ask the person of the call while it runs.
    fn call_asking<'a>(&'a self, call: &'a Call, _asker: &'a dyn Asker) -> Promise<'a, Returned> {
        self.call(call)
    }
    /// Something that it began for the session, not longer than `age_max` ago, still runs.
    fn is_busy(&self, _session: &SessionId, _age_max: Duration) -> bool {
        false
    }
    /// The session has ended or rests for good: what was kept for it in memory may go.
    fn forget(&self, _session: &SessionId) {}
}

/// A hook that is asked before a call, and told after it.
pub trait Witness: Send + Sync {
    /// Why the call may not be made, if it may not.
    fn forbids<'a>(&'a self, call: &'a Call) -> Promise<'a, Option<String>>;
    /// How it went, and after how long; or why it was not made.
    fn called(&self, call: &Call, returned: &Returned, took: Duration, forbidden: Option<&str>);
}

/// All that one agent can do, as its sessions see it.
pub trait Tools: Send + Sync {
    /// What this caller may use: the list in the common form (a JSON array of
    /// `{"type":"function","function":{"name":…,"description":…,"parameters":…}}`), and the names
    /// in it. None if there is nothing.
    fn offer(&self, caller: &Caller) -> Option<Arc<Offer>>;
    fn is_repeatable(&self, name: &str) -> bool;
    /// Whether the caller may is decided here once more.
    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned>;
    /// The same, with a way to ask the person of the call while it runs.
    fn call_asking<'a>(&'a self, call: &'a Call, _asker: &'a dyn Asker) -> Promise<'a, Returned> {
        self.call(call)
    }
    /// Something that was begun for the session, not longer than `age_max` ago, still runs.
    fn is_busy(&self, _session: &SessionId, _age_max: Duration) -> bool {
        false
    }
    fn forget(&self, _session: &SessionId) {}
}

/// A way to ask the person of one call while it runs. One question at a time.
pub trait Asker: Send + Sync {
    /// What the person answers. Where no person can be asked, [`Verdict::Unattended`] comes at once. Dropping the promise
    /// withdraws the question.
    fn ask(&self, elicitation: Elicitation, patience: Duration) -> Promise<'_, Verdict>;
}

/// What a server behind a tool wants to know, as it is put to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elicitation {
    /// Who asks: the name that the owner gave to the server.
    pub server: String,
    /// Plain text, and bounded.
    pub question: String,
    pub choices: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub list: JsonText,
    pub names: Vec<String>,
}

/// One call as it reaches its tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `session/turn/step/position`: the same however often it is tried, and no other call's.
    pub key: String,
    pub name: String,
    /// As the model wrote it: meant to be a JSON object, not always one.
    pub arguments: String,
    pub caller: Caller,
    /// What a person answered when this call asked. None: no person was asked.
    pub grant: Option<Grant>,
}

/// On whose behalf, and from where.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    pub session: SessionId,
    /// The surface the session belongs to: `cli`, `api_server`, `telegram` …
    pub source: String,
    /// Whose session it is, where several clients share one home.
    pub principal: Option<String>,
    /// The platform's id of the user. Where several people share a session, of the one who began it.
    pub user: Option<String>,
    /// No other person reads along. In a chat of several people nothing of a user's own may be shown.
    pub is_private: bool,
    /// Where the reply to the running turn goes. None: a client waits for the turn itself.
    pub reply_to: Option<Destination>,
    pub trace: Trace,
    /// Set in a session that works for another one.
    pub task: Option<Task>,
    /// What a person has allowed for this session: names of patterns.
    pub allowed: Vec<String>,
    /// What the running turn may still cost. None: no limit.
    pub tokens_left: Option<u64>,
    pub now: Time,
}

impl Caller {
    /// One person alone with the agent: no task, no limit, nothing allowed yet.
    pub fn in_private(session: SessionId, source: &str) -> Self {
        Self {
            session,
            source: source.to_owned(),
            principal: None,
            user: None,
            is_private: true,
            reply_to: None,
            trace: Trace::default(),
            task: None,
            allowed: Vec::new(),
            tokens_left: None,
            now: Time::default(),
        }
    }
}

/// Stands in [`Caller::allowed`] where a person does not want to be asked about anything.
pub const EVERYTHING: &str = "*";

/// How a call ended, or what it needs first.
#[derive(Clone, Debug, PartialEq)]
pub enum Returned {
    Done(Done),
    /// Nothing has been done yet: a person must answer first. An approval runs the call again, with
    /// its [`Grant`]; the answer to a question is the result.
    Ask {
        question: Question,
        patience: Duration,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    pub content: Content,
    /// What is to be sent, in the commit of the result.
    pub sends: Vec<Letter>,
}

/// A text for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub destination: Destination,
    pub text: String,
}

impl Returned {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Done(Done { content: Content::text(text), sends: Vec::new() })
    }
}

/// What a tool asks a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// May this be done?
    Approval {
        /// The command, free of secrets.
        what: String,
        why: String,
        /// What a lasting yes would cover. Empty: only this once.
        patterns: Vec<String>,
    },
    Clarify {
        question: String,
        choices: Vec<String>,
    },
    /// A server behind the tool asks while the call runs. The answer goes to the call, and is not its result.
    Elicitation {
        asked: Elicitation,
        /// Which question of the call this is, from 1.
        number: u32,
    },
}

impl Question {
    /// As it is put to a person.
    pub fn in_words(&self) -> String {
        match self {
            Question::Approval { what, why, patterns } => {
                let lasting = match patterns.is_empty() {
                    true => "",
                    false => ", /approve session or /approve always to allow its kind",
                };
                format!(
                    "⚠️ May I run this?\n\n{what}\n\nWhy I ask: {why}\n\n/approve to allow it once{lasting}, /deny to refuse."
                )
            }
            Question::Clarify { question, choices } => {
                let mut text = format!("❓ {question}");
                add_choices(&mut text, choices);
                text
            }
            Question::Elicitation { asked: Elicitation { server, question, choices }, .. } => {
                let mut text = format!(
                    "🔌 The MCP server \"{server}\" asks you. These are its words, not the agent's. \
                     Never answer with a password or a key.\n\n{question}"
                );
                add_choices(&mut text, choices);
                text.push_str("\n\nTo refuse, write decline, or cancel.");
                text
            }
        }
    }

    /// An approval as it is put to the owner in a chat of another session. The code says which question a yes belongs to:
    /// a bare `/approve` there means that chat's own. None: no yes or no answers it.
    pub fn for_owner(&self, call: &CallId, patience: Duration) -> Option<String> {
        let Question::Approval { what, why, patterns } = self else { return None };
        let code = call.code();
        let lasting = match patterns.is_empty() {
            true => String::new(),
            false => format!(", /approve {code} session or /approve {code} always to allow its kind"),
        };
        Some(format!(
            "⚠️ May I run this? A program asked for it (session {}).\n\n{what}\n\nWhy I ask: {why}\n\n\
             /approve {code} to allow it once{lasting}, /deny {code} to refuse. Without an answer it is refused after {} seconds.",
            call.session,
            patience.as_secs()
        ))
    }

    /// Which question of its call it is. Only a call that runs meanwhile asks more than one.
    pub fn number(&self) -> u32 {
        match self {
            Question::Elicitation { number, .. } => *number,
            Question::Approval { .. } | Question::Clarify { .. } => 0,
        }
    }

    /// What the model reads when a person, or time, has answered, and the call is not to be run.
    pub fn answer(&self, verdict: &Verdict) -> String {
        match (self, verdict) {
            (Question::Approval { .. }, Verdict::Expired) => blocked(&format!(
                "BLOCKED: Command timed out without user response. {HALT} Silence is not consent."
            )),
            (Question::Approval { patterns, .. }, Verdict::Unattended) => {
                blocked(&format!("BLOCKED: {} {HALT}", unattended(patterns)))
            }
            (Question::Approval { .. }, Verdict::Denied { reason: Some(reason) }) => blocked(&format!(
                "BLOCKED: Command denied by user. Reason given by the user: \"{reason}\". {HALT}"
            )),
            (Question::Approval { .. }, _) => blocked(&format!("BLOCKED: Command denied by user. {HALT}")),
            // Its call has the answer, and makes a result of it.
            (Question::Elicitation { .. }, _) => String::new(),
            (Question::Clarify { question, choices }, verdict) => {
                let response = match verdict {
                    Verdict::Said(said) => chosen(choices, said),
                    Verdict::Denied { reason: Some(reason) } => reason.clone(),
                    Verdict::Denied { reason: None } | Verdict::Granted(_) => String::new(),
                    Verdict::Expired => "[user did not respond in time]".to_owned(),
                    Verdict::Unattended => "[nobody is there to answer]".to_owned(),
                };
                let offered = match choices.is_empty() {
                    true => "null".to_owned(),
                    false => {
                        let list: Vec<_> = choices.iter().map(|choice| quoted(choice)).collect();
                        format!("[{}]", list.join(", "))
                    }
                };
                let (question, response) = (quoted(question), quoted(&response));
                format!(
                    "{{\"question\": {question}, \"choices_offered\": {offered}, \"user_response\": {response}}}"
                )
            }
        }
    }
}

/// Why no person was asked, and how to allow it beforehand.
fn unattended(patterns: &[String]) -> String {
    let beforehand = match patterns {
        [] => "Nothing allows it beforehand: whoever wants it runs it themselves, or asks again where they can answer.".to_owned(),
        patterns => format!(
            "To allow it beforehand, add {} to command_allowlist in config.yaml.",
            patterns.iter().map(|pattern| format!("\"{pattern}\"")).collect::<Vec<_>>().join(", ")
        ),
    };
    format!(
        "Command needs a person's approval, and nobody can give it: the request came from a program that cannot answer, \
         and no owner is connected. {beforehand} A client that can answer says so with the header \
         X-Throughline-Approvals: ask."
    )
}

fn add_choices(text: &mut String, choices: &[String]) {
    for (number, choice) in choices.iter().enumerate() {
        text.push_str(&format!("\n{}. {choice}", number + 1));
    }
}

/// A number picks the choice that was shown under it.
fn chosen(choices: &[String], said: &str) -> String {
    let said = said.trim();
    let number = said.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    number.and_then(|place| choices.get(place)).cloned().unwrap_or_else(|| said.to_owned())
}

/// Without a yes there is no other way to the same end either. Hermes' words, which skills cite.
const HALT: &str = "The user has NOT consented to this action. Do NOT retry this command, do NOT rephrase it, \
                    and do NOT attempt the same outcome via a different command. Stop the current workflow \
                    and wait for the user to respond before taking any further destructive or irreversible \
                    action.";

fn blocked(error: &str) -> String {
    format!(r#"{{"output": "", "exit_code": -1, "error": {}, "status": "blocked"}}"#, quoted(error))
}

/// A JSON string. The one thing of JSON that this crate writes.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub question: Question,
    pub asked: Time,
    /// Without an answer by then it is a no.
    pub until: Time,
}

/// How far a yes reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    Once,
    Session,
    Always,
}

/// What a person, or time, answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Granted(Grant),
    Denied {
        reason: Option<String>,
    },
    Said(String),
    Expired,
    /// No person was there to be asked.
    Unattended,
}
