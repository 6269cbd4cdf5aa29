//! A home with conversations in it, written by the real machine to the real store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use throughline_core::command::Command;
use throughline_core::compression::{Extent, Kind as Replaced, Replacement};
use throughline_core::id::Generation;
use throughline_core::input::{Birth, DedupeKey, Input, Kind};
use throughline_core::message::{Assistant, Content, Message, ToolCall, ToolResult};
use throughline_core::port::{Commit, Store};
use throughline_core::prompt::{Digest, Mark};
use throughline_core::session::{Act, Event, Phase, Rules, Session, SessionState};
use throughline_core::turn::{Answer, Usage};
use throughline_core::{SessionId, Time};
use throughline_store::{StoreReader, StoreWriter};

pub struct Home {
    directory: TempDir,
    writer: StoreWriter,
    now: Time,
    sessions: BTreeMap<String, Session>,
}

impl Home {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let now = Time(1_779_953_710_000_000); // 2026-05-28 09:35:10 in Berlin
        let writer = throughline_store::Home::at(directory.path()).writer(now).unwrap();
        Self { directory, writer, now, sessions: BTreeMap::new() }
    }

    /// One question and its answer.
    pub fn with_tea() -> Self {
        let mut home = Self::new();
        home.begins("20260528_093510_66bfaec7", "cli");
        home.says("20260528_093510_66bfaec7", "Where is the tea?");
        home.answers("20260528_093510_66bfaec7", "In the tin.");
        home
    }

    pub fn reader(&self) -> StoreReader {
        throughline_store::Home::at(self.directory.path()).reader().unwrap()
    }

    pub fn path(&self) -> &std::path::Path {
        self.directory.path()
    }

    pub fn later(&mut self, seconds: u64) {
        self.now = self.now.plus(Duration::from_secs(seconds));
    }

    /// The session is written with the first thing that is said in it.
    pub fn begins(&mut self, id: &str, source: &str) {
        let id: SessionId = id.parse().unwrap();
        let mut state = SessionState::new(id.clone());
        state.generation = Generation(1);
        let birth = Birth { source: source.to_owned(), model: Some("gpt-5.2".into()), ..Birth::default() };
        let acts = vec![Act::Open(Box::new(birth))];
        let state = Box::new(Session::restored(state));
        self.sessions.insert(id.to_string(), (*state).clone());
        self.commit(Commit::Session { expect: Generation(0), state, acts, at: self.now });
    }

    pub fn says(&mut self, id: &str, text: &str) {
        self.receives(id, Kind::Chat(Content::text(text)));
    }

    pub fn orders_new(&mut self, id: &str, successor: &str) {
        self.receives(id, Kind::Command(Command::New { successor: successor.parse().unwrap() }));
    }

    fn receives(&mut self, id: &str, kind: Kind) {
        let seq = self.sessions[id].received.next();
        let input = Input {
            seq,
            at: self.now,
            key: DedupeKey::of(&["cli", id, &seq.to_string()]),
            kind,
            reply_to: None,
            sender: None,
            platform_id: None,
            trace: Default::default(),
            left: None,
        };
        self.happens(id, Event::Received(Arc::new(input)));
    }

    /// A second later.
    pub fn answers(&mut self, id: &str, text: &str) {
        let said =
            Assistant { content: Content::text(text), finish: Some("stop".into()), ..Assistant::default() };
        self.answers_with(id, said);
    }

    /// A call, and what it returned.
    pub fn calls(&mut self, id: &str, name: &str, arguments: &str, result: &str) {
        let call =
            ToolCall { id: "call_1".into(), name: name.into(), arguments: arguments.into(), extra: None };
        self.answers_with(
            id,
            Assistant { calls: vec![call], finish: Some("tool_calls".into()), ..Assistant::default() },
        );
        let Phase::Turn(turn) = &self.sessions[id].phase else { panic!("the turn is open") };
        let (turn, step) = (turn.id, turn.step);
        let result =
            ToolResult { call_id: "call_1".into(), name: Some(name.into()), content: Content::text(result) };
        self.later(1);
        self.happens(id, Event::Called { turn, step, index: 0, result, sends: Vec::new() });
    }

    fn answers_with(&mut self, id: &str, said: Assistant) {
        self.later(1);
        let Phase::Turn(turn) = &self.sessions[id].phase else { panic!("nothing is asked in {id}") };
        let (turn, step) = (turn.id, turn.step);
        let usage = Usage { input: 12, output: 3, ..Usage::default() };
        let answer = Answer { said, usage, model: "gpt-5.2".into() };
        let prompt = Mark {
            chain: Digest::of(&[id.as_bytes(), &step.to_le_bytes()]),
            messages: 1,
            head: Default::default(),
        };
        self.happens(id, Event::Answered { turn, step, answer, prompt, full: false });
    }

    /// The first so many messages are summarised. The snapshot's name.
    pub fn compresses(&mut self, id: &str, messages: usize, summary: &str) -> String {
        self.later(1);
        let live = self.writer.reader().history(&id.parse().unwrap()).unwrap();
        self.receives(id, Kind::Command(Command::Compress { focus: None, keep: None, preview: false }));
        let cut = live[messages - 1].0;
        let asked = self.sessions[id].survey().unwrap();
        let found =
            Some(Extent { cut, messages: live.len(), tokens: 1_000, plan: None, engine_is_idle: false });
        self.happens(id, Event::Surveyed { asked, found: found.into() });
        let replacement = Replacement {
            after: None,
            cut,
            replaced: messages,
            rows: vec![Message::user(self.now, Content::text(summary))],
            kind: Replaced::Summary,
            before: 1_000,
            after_tokens: 10,
            model: "gpt-5.2".into(),
            remark: None,
        };
        let operation = self.sessions[id].compression.as_ref().unwrap().number;
        self.happens(id, Event::Summarised { operation, summary: Ok(Arc::new(replacement)), digest: None });
        let promoted = self.writer.reader().promoted(&id.parse().unwrap(), operation).unwrap().unwrap();
        let snapshot = promoted.snapshot.clone();
        self.happens(id, Event::Reported { operation, promoted });
        snapshot
    }

    /// It is closed, and can be opened again.
    pub fn left(self) -> TempDir {
        self.directory
    }

    fn happens(&mut self, id: &str, event: Event) {
        let before = &self.sessions[id];
        let (state, acts) = before.step(event, self.now, &Rules::default());
        let commit =
            Commit::Session { expect: before.generation, state: Box::new(state.clone()), acts, at: self.now };
        self.sessions.insert(id.to_owned(), state);
        self.commit(commit);
    }

    fn commit(&mut self, commit: Commit) {
        for committed in self.writer.commit(&[commit]) {
            committed.unwrap();
        }
    }
}
