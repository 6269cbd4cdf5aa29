//! An agent API and an adapter that write down what is asked of them, for the tests of what lies between.

use crate::adapter::{Adapter, ListenEnded, StopSignal};
use crate::incoming::{Attachment, Incoming, Intake};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use throughline_core::input::Destination;
use throughline_core::port::{
    AgentApi, CallId, Draft, Drafted, Halted, Hold, Outgoing, Pending, Platform, Progress, Promise, Question,
    Reading, Receipt, Refusal, Running, SendError, SessionSummary, Status, StoreError, Submission, Update,
};
use throughline_core::session::Preferences;
use throughline_core::tool::Verdict;
use throughline_core::turn::Usage;
use throughline_core::{Seq, SessionId, Time};
use throughline_hermes::source::Source;
use tokio::sync::mpsc;

pub const NOW: Time = Time(1_800_000_000_000_000);

#[derive(Default)]
pub struct TestDesk {
    pub submitted: Mutex<Vec<Submission>>,
    /// What the next submissions get instead of a receipt.
    pub refusals: Mutex<Vec<Refusal>>,
    pub decided: Mutex<Vec<(CallId, Verdict)>>,
    pub notes: Mutex<Vec<&'static str>>,
    /// One session for all, and the chat it belongs to.
    pub chat: Mutex<Option<String>>,
    /// What is told about each input, by its number.
    pub tell: Mutex<BTreeMap<u64, mpsc::UnboundedSender<Update>>>,
    /// What happened to previews, in order: `intended`, `posted 7`, `left`, `held` …
    pub drafts: Arc<Mutex<Vec<String>>>,
    pub preferences: Mutex<Preferences>,
    pub running: Mutex<Vec<Running>>,
    /// The reply has left: previews are not touched any more.
    pub replied: Mutex<bool>,
}

struct Observed(mpsc::UnboundedReceiver<Update>);

impl Progress for Observed {
    fn next(&mut self) -> Promise<'_, Update> {
        Box::pin(async { self.0.recv().await.unwrap_or(Update::Interrupted) })
    }
}

pub fn session() -> SessionId {
    "s".parse().unwrap()
}

impl TestDesk {
    pub fn receipt(&self, seq: u64) -> Receipt {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.tell.lock().unwrap().insert(seq, sender);
        Receipt {
            session: session(),
            seq: Seq(seq),
            duplicate: false,
            progress: Box::new(Observed(receiver)),
        }
    }

    pub fn tell(&self, seq: u64, update: Update) {
        let _ = self.tell.lock().unwrap()[&seq].send(update);
    }

    fn drafted_(&self, what: impl Into<String>) {
        self.drafts.lock().unwrap().push(what.into());
    }
}

impl AgentApi for TestDesk {
    fn submit(&self, submission: Submission) -> Promise<'_, Result<Receipt, Refusal>> {
        Box::pin(async move {
            if let Some(refusal) = self.refusals.lock().unwrap().pop() {
                return Err(refusal);
            }
            let known = self.submitted.lock().unwrap().iter().position(|known| known.key == submission.key);
            if let Some(known) = known {
                return Ok(Receipt { duplicate: true, ..self.receipt(known as u64 + 1) });
            }
            self.submitted.lock().unwrap().push(submission);
            let seq = self.submitted.lock().unwrap().len() as u64;
            Ok(self.receipt(seq))
        })
    }

    fn follow(&self, _: SessionId, seq: Seq) -> Promise<'_, Result<Receipt, Refusal>> {
        Box::pin(async move { Ok(self.receipt(seq.0)) })
    }

    fn written(&self, _: SessionId, _: Seq) {}

    fn decide(&self, call: CallId, verdict: Verdict) -> Promise<'_, Result<(), Refusal>> {
        Box::pin(async move {
            let mut decided = self.decided.lock().unwrap();
            if decided.iter().any(|(known, _)| *known == call) {
                return Err(Refusal::Unknown("answered".into()));
            }
            decided.push((call, verdict));
            Ok(())
        })
    }

    fn preferences(&self, _: SessionId) -> Promise<'_, Preferences> {
        Box::pin(async { self.preferences.lock().unwrap().clone() })
    }

    fn halt(&self) -> Promise<'_, Result<Halted, StoreError>> {
        Box::pin(async { Ok(Halted::default()) })
    }

    fn release(&self) -> Promise<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn draft(&self, session: SessionId, seq: Seq) -> Promise<'_, Option<Draft>> {
        Box::pin(async move {
            self.drafted_("intended");
            let key = format!("{session}/{seq}");
            Some(Draft { hold: self.hold(&key)?, key, id: None })
        })
    }

    fn drafted(&self, _: String, change: Drafted) -> Promise<'_, ()> {
        Box::pin(async move {
            match change {
                Drafted::Posted { id } => self.drafted_(format!("posted {id}")),
                Drafted::Lost => self.drafted_("lost"),
                Drafted::Left => self.drafted_("left"),
            }
        })
    }

    fn hold(&self, _: &str) -> Option<Hold> {
        if *self.replied.lock().unwrap() {
            return None;
        }
        self.drafted_("held");
        let drafts = self.drafts.clone();
        Some(Hold::new(move || drafts.lock().unwrap().push("given back".into())))
    }

    fn mint(&self, _: &str) -> SessionId {
        session()
    }

    fn unique(&self) -> String {
        "unique".into()
    }

    fn note(&self, _: Option<SessionId>, name: &'static str, _: String) {
        self.notes.lock().unwrap().push(name);
    }

    fn read(&self, question: Question) -> Promise<'_, Result<Reading, StoreError>> {
        Box::pin(async move {
            let id = match question {
                Question::Session(id) => id,
                Question::Running => return Ok(Reading::Running(self.running.lock().unwrap().clone())),
                _ => return Err(StoreError::Busy),
            };
            let summary = SessionSummary {
                id,
                source: "test".into(),
                title: None,
                chat: self.chat.lock().unwrap().clone(),
                model: None,
                started: NOW,
                last_active: NOW,
                ended: None,
                messages: 0,
                tool_calls: 0,
                usage: Usage::default(),
                preview: String::new(),
            };
            Ok(Reading::Session(Some(summary)))
        })
    }

    fn status(&self) -> Status {
        Status::default()
    }

    fn now(&self) -> Time {
        NOW
    }
}

/// Everything that was done on the platform, in order and in words.
#[derive(Default)]
pub struct TestAdapter {
    pub done: Mutex<Vec<String>>,
    pub files: BTreeMap<String, Vec<u8>>,
    /// What the next post gets instead of an id.
    pub errors: Mutex<Vec<SendError>>,
}

impl TestAdapter {
    pub fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }

    /// Without signs and typing.
    pub fn said(&self) -> Vec<String> {
        let quiet = |line: &String| !line.starts_with("react") && line != "typing";
        self.done().into_iter().filter(quiet).collect()
    }

    fn write(&self, line: String) -> usize {
        let mut done = self.done.lock().unwrap();
        done.push(line);
        done.len()
    }
}

impl Platform for TestAdapter {
    fn name(&self) -> &str {
        "test"
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        Box::pin(async move {
            let marked = if mark.is_some() { " marked" } else { "" };
            Ok(Some(self.write(format!("send{marked} {}", outgoing.text)).to_string()))
        })
    }
}

impl Adapter for TestAdapter {
    fn account(&self) -> &str {
        "bot"
    }

    fn listen<'a>(&'a self, _: Arc<dyn Intake>, _: StopSignal) -> Promise<'a, ListenEnded> {
        Box::pin(async { ListenEnded::Stopped })
    }

    fn typing<'a>(&'a self, _: &'a Destination) -> Promise<'a, ()> {
        Box::pin(async {
            self.write("typing".into());
        })
    }

    fn post<'a>(&'a self, _: &'a Destination, text: &'a str) -> Promise<'a, Result<String, SendError>> {
        Box::pin(async move {
            if let Some(error) = self.errors.lock().unwrap().pop() {
                self.write(format!("failed to post {text}"));
                return Err(error);
            }
            let id = self.done.lock().unwrap().iter().filter(|line| line.starts_with("post")).count() + 1;
            self.write(format!("post {id} {text}"));
            Ok(id.to_string())
        })
    }

    fn edit<'a>(
        &'a self,
        _: &'a Destination,
        id: &'a str,
        text: &'a str,
    ) -> Promise<'a, Result<(), SendError>> {
        Box::pin(async move {
            self.write(format!("edit {id} {text}"));
            Ok(())
        })
    }

    fn remove<'a>(&'a self, _: &'a Destination, id: &'a str) -> Promise<'a, Result<(), SendError>> {
        Box::pin(async move {
            self.write(format!("remove {id}"));
            Ok(())
        })
    }

    fn put<'a>(
        &'a self,
        _: &'a Destination,
        question: &'a Pending,
    ) -> Promise<'a, Result<String, SendError>> {
        Box::pin(async move { Ok(self.write(format!("put {}", question.call)).to_string()) })
    }

    fn react<'a>(&'a self, _: &'a Destination, message: &'a str, sign: &'a str) -> Promise<'a, ()> {
        Box::pin(async move {
            self.write(format!("react {message} {sign}"));
        })
    }

    fn fetch<'a>(&'a self, attachment: &'a Attachment, limit: usize) -> Promise<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            if attachment.handle.starts_with("slow") {
                tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            }
            let file = self.files.get(&attachment.handle).ok_or("the server does not know it")?;
            if file.len() > limit { Err("too large".to_owned()) } else { Ok(file.clone()) }
        })
    }
}

/// A message of user 1 to the agent alone.
pub fn direct(number: u64, text: &str) -> Incoming {
    let source = Source {
        user_id: Some("1".into()),
        user_name: Some("Ann".into()),
        message_id: Some(number.to_string()),
        ..Source::new("telegram", "dm", "1")
    };
    Incoming {
        reply_to: Destination {
            platform: source.platform.clone(),
            account: "bot".into(),
            chat: source.chat_id.clone(),
            thread: None,
            reply_to: source.message_id.clone(),
        },
        source,
        identity: vec!["1".into(), number.to_string()],
        at: NOW,
        text: text.into(),
        attachments: Vec::new(),
        quoted: None,
        from_bot: false,
        addressed: true,
        mentioned: false,
        roles: Vec::new(),
        edited: false,
        context: None,
        skills: Vec::new(),
        gathers: None,
    }
}

/// A message of user 1 among others, not meant for the agent.
pub fn in_group(number: u64, text: &str) -> Incoming {
    let mut incoming = direct(number, text);
    incoming.source.chat_type = "group".into();
    incoming.source.chat_id = "-100".into();
    incoming.reply_to.chat = "-100".into();
    incoming.identity[0] = "-100".into();
    incoming.addressed = false;
    incoming
}
