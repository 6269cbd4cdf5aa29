//! Moves: what people, clients, other agents and models say, and what becomes of a turn.

use crate::book::SessionBook;
use crate::sample::{bare_input, chat, id, long, one, taken_up};
use crate::world::{CHILD, ExpectedResult, PARENT, PLACES, PlannedCommit, StoreWorld};
use std::sync::Arc;
use throughline_core::command::{Command, DeferredCommand};
use throughline_core::id::{Generation, Seq, TurnId};
use throughline_core::input::{
    Birth, DedupeKey, Destination, Input, Kind, Request, Root, Sender, Task, Trace,
};
use throughline_core::message::{Assistant, Content, JsonText, Message, ToolCall};
use throughline_core::port::{Commit, DeliveryChange};
use throughline_core::prompt::{Digest, Head, Mark};
use throughline_core::route::Thread;
use throughline_core::session::{Act, Event, Failure, FailureKind, Phase};
use throughline_core::time::Time;
use throughline_core::tool::Grant;
use throughline_core::turn::{Answer, Usage};

impl StoreWorld {
    pub(crate) fn at(&self, place: u8) -> usize {
        usize::from(place) % PLACES
    }

    pub(crate) fn is_chat(&self, place: u8) -> bool {
        self.at(place) < 2
    }

    pub(crate) fn book(&self, place: u8) -> &SessionBook {
        &self.books[&self.places[self.at(place)]]
    }

    pub(crate) fn input(&mut self, place: u8, kind: Kind) -> Arc<Input> {
        self.number += 1;
        let number = self.number.to_string();
        let chat = format!("chat{}", self.at(place));
        let is_chat = self.is_chat(place);
        Arc::new(Input {
            seq: self.book(place).state.received.next(),
            at: self.now,
            key: DedupeKey::of(&["test", &chat, &number]),
            kind,
            reply_to: is_chat.then(|| Destination {
                platform: "test".into(),
                account: "bot".into(),
                chat,
                thread: None,
                reply_to: Some(number.clone()),
            }),
            sender: is_chat.then(|| Sender { id: "u".into(), name: Some("Ü".into()) }),
            platform_id: is_chat.then_some(number),
            trace: Trace::default(),
            left: None,
        })
    }

    /// The calls of the open group, if there is one.
    pub(crate) fn open_calls(&self, place: u8) -> Option<(TurnId, u32, Vec<ToolCall>)> {
        let Phase::Turn(turn) = &self.book(place).state.phase else { return None };
        Some((turn.id, turn.step, turn.group.as_ref()?.answer.calls.clone()))
    }

    pub(crate) fn hears(&mut self, place: u8, origin: u8, hops: u8) {
        self.flush_if_busy(place);
        let text = if hops >= 200 { long("..") } else { "..".to_owned() };
        let kind = match self.is_chat(place) {
            true => Kind::Chat(Content::text(&text)),
            false => Kind::Request(Request { content: Content::text(&text), ..Request::default() }),
        };
        let input = self.input(place, kind);
        let root = match origin % 3 {
            0 => None,
            1 => Some(Root { home: "me".into(), session: self.places[self.at(place)].clone() }),
            _ => Some(Root { home: "other".into(), session: id("elsewhere") }),
        };
        // Every fourth one is a bot of a stranger.
        let foreign = (origin % 4 == 3).then(|| if hops.is_multiple_of(2) { "" } else { "m\"7" }.into());
        let (origin, hops) = (format!("human|{origin}").into(), 1 + u32::from(hops % 5));
        let trace = Trace { origin, root, hops, foreign };
        let reply_to = input.reply_to.clone().map(|place| Destination { reply_to: None, ..place });
        self.receives(place, Arc::new(Input { trace, reply_to, ..Input::clone(&input) }));
    }

    pub(crate) fn says(&mut self, place: u8, text: &str) {
        self.flush_if_busy(place);
        let kind = match self.is_chat(place) {
            true => Kind::Chat(Content::text(text)),
            false => Kind::Request(self.request(place, text)),
        };
        let input = self.input(place, kind);
        self.receives(place, input);
    }

    /// A client's request: its words, its view of the conversation, and an implicit key.
    pub(crate) fn request(&self, place: u8, text: &str) -> Request {
        let content = Content::text(text);
        let book = self.book(place);
        let before = book.tips.last().map(|(digest, _, _)| *digest);
        let thread = match before {
            Some(digest) => throughline_core::route::resume(digest, "user", &content),
            None => Thread::begin("p", None).then("user", &content),
        };
        Request {
            content,
            body: Some(Digest::of(&[text.as_bytes()])),
            thread: Some(thread.digest()),
            implicit_key: Some(Digest::of(&[b"implicit", text.as_bytes()])),
            system: Some("Be brief.".into()),
            sampling: Some(JsonText::from_valid("{\"temperature\": 0.50}")),
            task: (self.at(place) == CHILD).then(|| Task {
                parent: self.places[PARENT].clone(),
                source: "cli".into(),
                depth: 1,
                steps_max: 3,
                tokens_max: None,
                toolsets: Some(vec!["files".into()]),
            }),
            ..Request::default()
        }
    }

    /// No helper works for a session that is not there.
    pub(crate) fn may_begin(&self, place: u8) -> bool {
        self.at(place) != CHILD || self.books[&self.places[PARENT]].born || self.book(place).born
    }

    pub(crate) fn says_again(&mut self, place: u8) {
        self.flush_if_busy(place);
        let Some((key, known)) =
            self.seen.iter().next_back().map(|(key, known)| (key.clone(), known.clone()))
        else {
            return;
        };
        if matches!(self.book(place).state.phase, Phase::Closed(_)) || !self.may_begin(place) {
            return;
        }
        let seq = self.book(place).state.received.next();
        let kind = Kind::Chat(Content::text("again"));
        let input = Input { seq, at: self.now, key, kind, ..bare_input() };
        let planned = self.plan(place, Event::Received(Arc::new(input)), self.first_acts(place));
        self.enqueue(PlannedCommit { expected: ExpectedResult::Duplicate(known.0, known.1), ..planned });
    }

    pub(crate) fn orders(&mut self, place: u8, what: u8) {
        self.flush_if_busy(place);
        let command = match what % 20 {
            0 | 1 => Command::New { successor: id(&format!("n{}", self.number)) },
            2 => Command::Status,
            3 => Command::Unknown { name: "huh".into() },
            4 => Command::Stop,
            5 => Command::Steer { text: "rather left".into() },
            6 => Command::Queue { text: "and then right".into() },
            7 => Command::Approve { grant: Grant::Session, all: true },
            8 => Command::Approve { grant: Grant::Once, all: false },
            9 => Command::Deny { reason: Some("no".into()), all: false },
            10 => Command::Steer { text: String::new() },
            11 => Command::Compress { focus: None, keep: None, preview: false },
            12 => Command::Compress { focus: Some("the \"ünï\"".into()), keep: None, preview: false },
            13 => Command::Compress { focus: None, keep: Some(2), preview: false },
            14 => Command::Compress { focus: None, keep: None, preview: true },
            16 => Command::Steer { text: long("rather left") },
            17 => Command::Queue { text: long("and then right") },
            18 => {
                Command::Deferred(DeferredCommand::Other { name: "usage".into(), argument: long("of what") })
            }
            _ => Command::Notice { text: "read this".into() },
        };
        let input = self.input(place, Kind::Command(command));
        self.receives(place, input);
    }

    pub(crate) fn receives(&mut self, place: u8, input: Arc<Input>) {
        if matches!(self.book(place).state.phase, Phase::Closed(_)) || !self.may_begin(place) {
            return; // the shell routes it elsewhere
        }
        let first = self.first_acts(place);
        let planned = self.plan(place, Event::Received(input), first);
        self.enqueue(planned);
    }

    /// A session that has not been born is opened by its first input.
    pub(crate) fn first_acts(&self, place: u8) -> Vec<Act> {
        if self.book(place).born {
            return Vec::new();
        }
        let chat = self.is_chat(place).then(|| chat(self.at(place)));
        let imported = match self.at(place) {
            3 => vec![Message::user(Time(1_600_000_000_000_000), Content::text("from long ago"))],
            _ => Vec::new(),
        };
        let is_child = self.at(place) == CHILD;
        let source = match (&chat, is_child) {
            (Some(_), _) => "test",
            (None, false) => "api_server",
            (None, true) => "subagent",
        };
        let reset =
            chat.as_ref().and_then(|chat| self.store.reader().reset(&chat.key).expect("can be asked"));
        let birth = Birth {
            predecessor: reset.map(|reset| reset.session),
            source: source.into(),
            user: (!is_child).then(|| "u".to_owned()),
            parent: is_child.then(|| self.places[PARENT].clone()),
            principal: chat.is_none().then(|| "p".to_owned()),
            model: Some("model".into()),
            imported,
            chat,
            ..Birth::default()
        };
        let freeze = Act::Freeze { prompt: "You are a test.".into(), layer: Some(Digest::of(&[b"layer"])) };
        vec![freeze, Act::Open(Box::new(birth))]
    }

    pub(crate) fn answers(&mut self, place: u8, text: &str, tokens: u16) {
        self.flush_if_busy(place);
        let said =
            Assistant { content: Content::text(text), finish: Some("stop".into()), ..Assistant::default() };
        self.answers_with(place, said, tokens);
    }

    pub(crate) fn answers_with(&mut self, place: u8, said: Assistant, tokens: u16) {
        let Some((turn, step)) = self.book(place).turn() else { return };
        let silent =
            matches!(&self.book(place).state.phase, Phase::Turn(turn) if turn.group.is_some() || turn.held);
        if silent {
            return; // no model is asked while its tools run, or while a compression is waited for
        }
        self.number += 1;
        let usage = Usage { input: tokens.into(), output: 7, cache_read: 3, cache_write: 2, reasoning: 1 };
        let head = Head { model: u64::MAX, tools: self.number, system: 1 << 63 };
        let prompt = Mark { chain: Digest::of(&[&self.number.to_le_bytes()]), messages: 3, head };
        let full = tokens >= 100;
        let answer = Answer { said, usage, model: "model-1".into() };
        let event = Event::Answered { turn, step, answer: answer.clone(), prompt, full };
        let planned = self.plan(place, event, Vec::new());
        self.enqueue(PlannedCommit { answer: Some(answer), ..planned });
    }

    pub(crate) fn echoes(&mut self, place: u8) {
        let turn = TurnId(Seq(1_000_000));
        let answer = Answer::default();
        let prompt = Mark { chain: Digest::of(&[b"echo"]), messages: 0, head: Head::default() };
        if self.book(place).born {
            self.happens(place, Event::Answered { turn, step: 0, answer, prompt, full: false });
        }
    }

    pub(crate) fn fails(&mut self, place: u8, kind: u8) {
        self.flush_if_busy(place);
        let Some((turn, step)) = self.book(place).turn() else { return };
        let kind = match kind % 4 {
            0 => FailureKind::Wait { after_seconds: Some(3) },
            1 => FailureKind::Broken,
            2 => FailureKind::Unreachable,
            _ => FailureKind::Credentials,
        };
        let failure = Failure { kind, message: "it did not work".into() };
        self.happens(place, Event::Failed { turn, step, failure });
    }

    pub(crate) fn retries(&mut self, place: u8) {
        self.flush_if_busy(place);
        let Some(turn) = self.book(place).state.failed else { return };
        let session = self.places[self.at(place)].clone();
        let inputs = self.store.reader().turn_inputs(&session, turn).expect("a turn's inputs can be read");
        assert_eq!(inputs.first().map(|input| TurnId(input.seq)), Some(turn));
        self.happens(place, Event::Retried { inputs, began: self.now });
    }

    pub(crate) fn trespasses(&mut self, place: u8) {
        self.flush_if_busy(place);
        if !self.book(place).born {
            return;
        }
        let planned = self.plan(place, taken_up(), Vec::new());
        let expect = Generation(planned.expect.0 + 1);
        self.enqueue(PlannedCommit { expected: ExpectedResult::Fenced, expect, ..planned });
    }

    pub(crate) fn happens(&mut self, place: u8, event: Event) {
        self.flush_if_busy(place);
        if !self.book(place).born {
            return;
        }
        let planned = self.plan(place, event, Vec::new());
        self.enqueue(planned);
    }

    pub(crate) fn delivers(&mut self, reply: u8, change: u8) {
        self.flush();
        let waiting: Vec<usize> = (0..self.replies.len()).filter(|nth| !self.replies[*nth].over).collect();
        let Some(nth) = waiting.get(usize::from(reply) % waiting.len().max(1)) else { return };
        let (now, boot) = (self.now, self.boot);
        let sent = &mut self.replies[*nth];
        let change = match change % 4 {
            0 => {
                sent.attempts += 1;
                sent.attempting = Some(boot);
                sent.attempted = sent.attempted.or(Some(now));
                sent.marked |= change & 4 != 0;
                DeliveryChange::Attempting { marked: change & 4 != 0 }
            }
            1 => {
                sent.over = true;
                DeliveryChange::Delivered { platform_id: Some("77".into()) }
            }
            2 => {
                // Half of the time an earlier attempt may have arrived.
                let unknown_since = sent.attempted.filter(|_| change & 4 != 0);
                (sent.attempting, sent.attempted) = (unknown_since.map(|_| boot), unknown_since);
                sent.not_before = Time(now.0 + 5);
                DeliveryChange::Postponed { until: Time(now.0 + 5), error: "later".into(), unknown_since }
            }
            _ => {
                sent.over = true;
                DeliveryChange::Refused { error: "never".into() }
            }
        };
        let commit = Commit::Delivery { key: sent.key.clone(), boot, change, at: now };
        one(self.store.as_mut(), commit).expect("a waiting reply can change");
        self.compare_replies();
    }

    pub(crate) fn written(&mut self, place: u8) {
        self.flush();
        let session = self.places[self.at(place)].clone();
        let newest =
            self.implicit.values_mut().filter(|known| known.0 == session).max_by_key(|known| known.1);
        let Some(newest) = newest else { return };
        newest.3 = true;
        let commit = Commit::Written { session, seq: newest.1 };
        one(self.store.as_mut(), commit).expect("an answer can be marked as written");
        self.compare_keys();
    }
}
