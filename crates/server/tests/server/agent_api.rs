//! An agent API in memory: it keeps what was submitted and answers as it was told to.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use throughline_core::input::{DedupeKey, Kind};
use throughline_core::message::{Assistant, Body};
use throughline_core::port::{
    AgentApi, CallId, Delta, Halted, Hit, Pending, Progress, Promise, Question, Reading, Receipt, Refusal,
    SessionSummary, Settled, Status, StoreError, Submission, Trace, Update,
};
use throughline_core::prompt::Digest;
use throughline_core::route::{Continuation, Match, Target, continuation, resume, with_calls};
use throughline_core::session::{Failure, FailureKind, Outcome};
use throughline_core::tool::Verdict;
use throughline_core::turn::{Answer, Usage};
use throughline_core::{Content, Message, RowId, Seq, SessionId, Time, TurnId};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// What the next turn does.
#[derive(Clone)]
pub struct Script {
    pub updates: Vec<Update>,
    pub ending: Ending,
    /// The end waits for a permit.
    pub gate: Option<Arc<Semaphore>>,
}

#[derive(Clone)]
pub enum Ending {
    Answer(Answer),
    Fail(FailureKind, &'static str),
    Interrupt,
    /// It ends in the session after this one.
    Move(SessionId),
}

pub fn answer(text: &str) -> Answer {
    Answer {
        said: Assistant { content: Content::text(text), finish: Some("stop".into()), ..Assistant::default() },
        usage: Usage { input: 7, output: 3, cache_read: 2, cache_write: 1, reasoning: 1 },
        model: "fake".into(),
    }
}

impl Script {
    pub fn says(text: &str) -> Self {
        let (one, other) = text.split_at(text.floor_char_boundary(text.len() / 2));
        Self { updates: vec![words(one), words(other)], ending: Ending::Answer(answer(text)), gate: None }
    }

    pub fn fails(kind: FailureKind, message: &'static str) -> Self {
        Self { updates: vec![], ending: Ending::Fail(kind, message), gate: None }
    }

    pub fn after(self, updates: Vec<Update>) -> Self {
        Self { updates, ..self }
    }

    pub fn gated(self, gate: &Arc<Semaphore>) -> Self {
        Self { gate: Some(gate.clone()), ..self }
    }
}

pub fn words(text: &str) -> Update {
    Update::Delta(Delta::Text(text.into()))
}

pub fn thoughts(text: &str) -> Update {
    Update::Delta(Delta::Reasoning(text.into()))
}

#[derive(Default)]
pub struct State {
    pub sessions: BTreeMap<SessionId, Kept>,
    pub seen: HashMap<DedupeKey, (SessionId, Seq)>,
    /// Everything handed in, in order, known before or not.
    pub submissions: Vec<Submission>,
    pub written: Vec<(SessionId, Seq)>,
    pub notes: Vec<(&'static str, String)>,
    pub scripts: VecDeque<Script>,
    pub refuse: Option<Refusal>,
    pub questions: Vec<Question>,
    pub status: Status,
    /// What tools ask, and what was answered.
    pub asks: Vec<Pending>,
    pub decided: Vec<(CallId, Verdict)>,
    /// How often an owner was heard of, and which turns were given up.
    pub owners: usize,
    pub abandoned: Vec<(SessionId, Seq)>,
    minted: u64,
}

#[derive(Default)]
pub struct Kept {
    pub source: String,
    pub principal: Option<String>,
    pub rows: Vec<(RowId, Message)>,
    pub inputs: Vec<Taken>,
    pub ended: bool,
}

pub struct Taken {
    pub kind: Kind,
    script: Script,
    settled: Arc<Settled>,
    tip: Option<Digest>,
}

pub struct FakeDesk {
    state: Mutex<State>,
    clock: AtomicI64,
}

pub const START: i64 = 1_700_000_000_000_000;

impl FakeDesk {
    pub fn new() -> Arc<Self> {
        let status = Status { ready: true, model: "fake".into(), ..Status::default() };
        let state = Mutex::new(State { status, ..State::default() });
        Arc::new(Self { state, clock: AtomicI64::new(START) })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn next(&self, script: Script) {
        self.state().scripts.push_back(script);
    }

    pub fn last(&self) -> Submission {
        self.state().submissions.last().unwrap().clone()
    }

    /// How many turns there have been in all.
    pub fn turns(&self) -> usize {
        self.state().sessions.values().map(|session| session.inputs.len()).sum()
    }

    pub fn sleep(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }

    fn take(&self, submission: Submission) -> Result<Receipt, Refusal> {
        let now = self.now();
        let mut state = self.state();
        state.submissions.push(submission.clone());
        if let Some(refusal) = &state.refuse {
            return Err(refusal.clone());
        }
        if let Some((session, seq)) = state.known(&submission)? {
            return state.follow(session, seq, true);
        }
        let session = state.place(&submission)?;
        let Submission { birth, kind, key, .. } = submission;
        let script = state.scripts.pop_front().unwrap_or_else(|| Script::says(&echo(&kind)));
        let kept = state.sessions.entry(session.clone()).or_insert_with(|| Kept {
            source: birth.source,
            principal: birth.principal,
            rows: birth.imported.into_iter().map(|message| (RowId(0), message)).collect(),
            ..Kept::default()
        });
        let seq = Seq(kept.inputs.len() as u64 + 1);
        kept.take(seq, kind, script, now);
        state.seen.insert(key, (session.clone(), seq));
        state.follow(session, seq, false)
    }
}

fn echo(kind: &Kind) -> String {
    match kind {
        Kind::Chat(content) => format!("You said: {}", content.plain()),
        Kind::Request(request) => format!("You said: {}", request.content.plain()),
        Kind::Command(command) => format!("{command:?}"),
    }
}

impl Kept {
    fn take(&mut self, seq: Seq, kind: Kind, script: Script, now: Time) {
        let turn = TurnId(seq);
        let (outcome, answer) = match (&kind, &script.ending) {
            (Kind::Command(command), _) => {
                let successor = match command {
                    throughline_core::command::Command::New { successor } => Some(successor.clone()),
                    _ => None,
                };
                self.ended |= successor.is_some();
                (Outcome::Done { said: echo(&kind), successor }, None)
            }
            (_, Ending::Answer(answer)) => (Outcome::Answered(turn), Some(answer.clone())),
            (_, Ending::Fail(kind, message)) => {
                (Outcome::Failed(turn, Failure { kind: *kind, message: (*message).into() }), None)
            }
            (_, Ending::Interrupt) => (Outcome::Answered(turn), None),
            (_, Ending::Move(session)) => (Outcome::Moved { session: session.clone(), seq: Seq(1) }, None),
        };
        let content = match &kind {
            Kind::Chat(content) => Some(content.clone()),
            Kind::Request(request) => Some(request.content.clone()),
            Kind::Command(_) => None,
        };
        let row = || RowId(0);
        self.rows.extend(content.map(|content| (row(), Message::user(now, content))));
        if let Some(answer) = &answer {
            self.rows.push((row(), Message::new(now, Body::Assistant(answer.said.clone()))));
        }
        let thread = match &kind {
            Kind::Request(request) => request.thread,
            _ => None,
        };
        let said = answer.as_ref().map(|answer| answer.said.content.clone()).unwrap_or_default();
        let calls = answer.as_ref().map(|answer| answer.said.calls.clone()).unwrap_or_default();
        let tip = thread.map(|thread| with_calls(resume(thread, "assistant", &said), calls.iter()).digest());
        self.inputs.push(Taken {
            kind,
            script,
            settled: Arc::new(Settled { outcome, began: now, answer }),
            tip,
        });
    }
}

impl State {
    fn known(&self, submission: &Submission) -> Result<Option<(SessionId, Seq)>, Refusal> {
        let Kind::Request(request) = &submission.kind else {
            return Ok(self.seen.get(&submission.key).cloned());
        };
        if let Some((session, seq)) = self.seen.get(&submission.key) {
            let Kind::Request(first) = &self.sessions[session].inputs[seq.0 as usize - 1].kind else {
                return Err(Refusal::OtherBody);
            };
            if first.body != request.body {
                return Err(Refusal::OtherBody);
            }
            return Ok(Some((session.clone(), *seq)));
        }
        let (true, Some(key)) = (submission.may_be_retry, request.implicit_key) else { return Ok(None) };
        Ok(self.sessions.iter().find_map(|(id, kept)| {
            let place = kept.inputs.iter().position(
                |taken| matches!(&taken.kind, Kind::Request(first) if first.implicit_key == Some(key)),
            )?;
            let found = (id.clone(), Seq(place as u64 + 1));
            (!self.written.contains(&found)).then_some(found)
        }))
    }

    fn place(&mut self, submission: &Submission) -> Result<SessionId, Refusal> {
        let principal = submission.birth.principal.as_deref();
        match &submission.target {
            Target::Chat(_) => Err(Refusal::Internal("no chats here".into())),
            Target::Session(session) => match self.sessions.get(session) {
                Some(kept) if kept.ended => Err(Refusal::Ended(session.clone())),
                Some(Kept { principal: Some(owner), .. })
                    if principal.is_some_and(|caller| caller != owner) =>
                {
                    Err(Refusal::NotYours(session.clone()))
                }
                _ => Ok(session.clone()),
            },
            Target::Thread { before } => {
                let matches: Vec<_> = self
                    .sessions
                    .iter()
                    .flat_map(|(id, kept)| {
                        kept.inputs.iter().enumerate().filter(|(_, taken)| taken.tip == Some(*before)).map(
                            |(place, _)| Match {
                                session: id.clone(),
                                turn: TurnId(Seq(place as u64 + 1)),
                                is_tip: place + 1 == kept.inputs.len(),
                            },
                        )
                    })
                    .collect();
                match continuation(&matches) {
                    Continuation::Append(session) => Ok(session),
                    Continuation::Import => Ok(self.mint()),
                }
            }
            Target::After { session, seq } => match self.sessions.get(session) {
                Some(kept) if kept.ended => Err(Refusal::Ended(session.clone())),
                Some(Kept { principal: Some(owner), .. })
                    if principal.is_some_and(|caller| caller != owner) =>
                {
                    Err(Refusal::NotYours(session.clone()))
                }
                Some(kept) if kept.inputs.len() as u64 != seq.0 => Err(Refusal::MovedOn),
                _ => Ok(session.clone()),
            },
            Target::Fresh => Ok(self.mint()),
        }
    }

    fn mint(&mut self) -> SessionId {
        self.minted += 1;
        format!("s{}", self.minted).parse().unwrap()
    }

    fn follow(&self, session: SessionId, seq: Seq, duplicate: bool) -> Result<Receipt, Refusal> {
        let place = usize::try_from(seq.0).unwrap().wrapping_sub(1);
        let taken = self.sessions.get(&session).and_then(|kept| kept.inputs.get(place));
        let Some(taken) = taken else { return Err(Refusal::Unknown(format!("no {session}/{seq}"))) };
        let updates = if duplicate { vec![] } else { taken.script.updates.clone() };
        let end = match taken.script.ending {
            Ending::Interrupt => Update::Interrupted,
            _ => Update::Settled(taken.settled.clone()),
        };
        let gate = taken.script.gate.clone();
        let progress = Box::new(Following { updates: updates.into(), end, gate });
        Ok(Receipt { session, seq, duplicate, progress })
    }

    fn summary(&self, id: &SessionId, kept: &Kept) -> SessionSummary {
        SessionSummary {
            id: id.clone(),
            source: kept.source.clone(),
            title: None,
            chat: None,
            model: None,
            started: Time(START),
            last_active: Time(START),
            ended: kept.ended.then(|| "session_reset".into()),
            messages: kept.rows.len() as u64,
            tool_calls: 0,
            usage: Usage::default(),
            preview: String::new(),
        }
    }

    fn read(&mut self, question: Question) -> Reading {
        self.questions.push(question.clone());
        match question {
            Question::Sessions(filter) => {
                let fits = |(id, kept): &(&SessionId, &Kept)| {
                    filter.principal.is_none_or_eq(&kept.principal)
                        && filter.source.as_ref().is_none_or(|source| *source == kept.source)
                        && filter.session.as_ref().is_none_or(|session| session == *id)
                };
                let found = self.sessions.iter().filter(fits).skip(filter.offset).take(filter.limit);
                Reading::Sessions(found.map(|(id, kept)| self.summary(id, kept)).collect())
            }
            Question::Backlog => Reading::Backlog(Vec::new()),
            Question::Running => Reading::Running(Vec::new()),
            Question::Parked => Reading::Parked(Vec::new()),
            Question::Session(id) => {
                Reading::Session(self.sessions.get(&id).map(|kept| self.summary(&id, kept)))
            }
            Question::History(id) => {
                Reading::History(self.sessions.get(&id).map(|kept| kept.rows.clone()).unwrap_or_default())
            }
            Question::Search { query, .. } => Reading::Hits(vec![Hit {
                session: "s1".parse().unwrap(),
                row: RowId(4),
                role: "user".into(),
                at: Time(START),
                snippet: format!(">>>{query}<<<"),
                title: None,
            }]),
            Question::Trace(name) if name.starts_with('s') => Reading::Traces(vec![Trace {
                at: Time(START),
                session: "s1".parse().unwrap(),
                name: "received".into(),
                detail: name,
            }]),
            Question::Trace(_) => Reading::Traces(vec![]),
            Question::Counts => Reading::Counts(vec![("duplicate_dropped".into(), 2)]),
            Question::Asks => Reading::Asks(self.asks.clone()),
            Question::HomeStatus => Reading::HomeStatus(Box::default()),
            Question::Routes => Reading::Routes(vec![]),
            Question::Check => Reading::Violations(vec![]),
        }
    }
}

trait IsNoneOrEq {
    fn is_none_or_eq(&self, other: &Self) -> bool;
}

impl IsNoneOrEq for Option<String> {
    fn is_none_or_eq(&self, other: &Self) -> bool {
        self.is_none() || self == other
    }
}

struct Following {
    updates: VecDeque<Update>,
    end: Update,
    gate: Option<Arc<Semaphore>>,
}

impl Progress for Following {
    fn next(&mut self) -> Promise<'_, Update> {
        Box::pin(async move {
            if let Some(update) = self.updates.pop_front() {
                return update;
            }
            if let Some(gate) = self.gate.take() {
                drop(gate.acquire().await.unwrap()); // once open, open to all
            }
            self.end.clone()
        })
    }
}

impl AgentApi for FakeDesk {
    fn submit(&self, submission: Submission) -> Promise<'_, Result<Receipt, Refusal>> {
        Box::pin(async move {
            yield_now().await; // a commit takes its time
            self.take(submission)
        })
    }

    fn follow(&self, session: SessionId, seq: Seq) -> Promise<'_, Result<Receipt, Refusal>> {
        Box::pin(async move {
            yield_now().await;
            self.state().follow(session, seq, true)
        })
    }

    fn written(&self, session: SessionId, seq: Seq) {
        self.state().written.push((session, seq));
    }

    fn decide(&self, call: CallId, verdict: Verdict) -> Promise<'_, Result<(), Refusal>> {
        let mut state = self.state();
        let known = state.asks.iter().position(|pending| pending.call == call);
        let decided = match known {
            Some(place) => {
                state.asks.remove(place);
                state.decided.push((call, verdict));
                Ok(())
            }
            None => Err(Refusal::Unknown(format!("nothing is asked by {call} any more"))),
        };
        Box::pin(async move { decided })
    }

    fn owner_is_here(&self) {
        self.state().owners += 1;
    }

    fn abandon(&self, session: SessionId, seq: Seq) {
        self.state().abandoned.push((session, seq));
    }

    fn halt(&self) -> Promise<'_, Result<Halted, StoreError>> {
        self.state().status.halted = true;
        Box::pin(async { Ok(Halted { turns: 2, waiting: 1 }) })
    }

    fn release(&self) -> Promise<'_, Result<(), StoreError>> {
        self.state().status.halted = false;
        Box::pin(async { Ok(()) })
    }

    fn mint(&self, _: &str) -> SessionId {
        self.state().mint()
    }

    fn unique(&self) -> String {
        let mut state = self.state();
        state.minted += 1;
        format!("u{}", state.minted)
    }

    fn note(&self, _: Option<SessionId>, name: &'static str, detail: String) {
        self.state().notes.push((name, detail));
    }

    fn read(&self, question: Question) -> Promise<'_, Result<Reading, StoreError>> {
        Box::pin(async move { Ok(self.state().read(question)) })
    }

    fn status(&self) -> Status {
        self.state().status.clone()
    }

    fn now(&self) -> Time {
        Time(self.clock.fetch_add(1, Ordering::SeqCst))
    }
}
