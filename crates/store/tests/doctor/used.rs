//! Homes that we have used ourselves before Hermes had them again: our books beside its rows, with snapshots, replies on
//! their way, and messages that still wait.

use crate::world::World;
use std::sync::Arc;
use throughline_core::command::Command;
use throughline_core::compression::{Extent, Kind as Replaced, Replacement};
use throughline_core::input::{Birth, Chat, DedupeKey, Destination, Input, Kind, Trace};
use throughline_core::message::Assistant;
use throughline_core::port::{Commit, Committed, DeliveryChange, Store};
use throughline_core::prompt::{Digest, Head, Mark};
use throughline_core::session::{Act, Event, Phase, Rules, Session};
use throughline_core::turn::{Answer, Usage};
use throughline_core::{Content, Message, SessionId, Time};
use throughline_store::StoreWriter;

/// Chats below this one are those that damage is done to: what was said in them is answered, and the answers arrived.
const SETTLED: usize = 6;

/// One owner of sessions, at a time of its own.
struct Owner<'a> {
    world: &'a mut World,
    store: StoreWriter,
}

/// Everything that people do with a gateway, to some chats and to sessions of its own.
pub fn by_us(world: &mut World) {
    let now = Time::from_seconds(world.tick());
    let store = world.home().writer(now).unwrap();
    let mut owner = Owner { world, store };
    for nth in 0..owner.world.chats.len() {
        if owner.world.chance.one_in(2) {
            continue;
        }
        let chat = owner.world.chats[nth].clone();
        for _ in 0..1 + owner.world.chance.below(3) {
            owner.turn(&chat.session, Some(&chat.key));
        }
        if owner.world.chance.one_in(2) {
            owner.compress(&chat.session);
            owner.turn(&chat.session, Some(&chat.key));
        }
        let is_settled = nth < SETTLED || owner.world.chance.one_in(2);
        if is_settled {
            owner.deliver();
        }
        if !is_settled && owner.world.chance.one_in(2) {
            owner.receive(&chat.session, Some(&chat.key)); // and it is not answered yet
        }
        owner.world.used.insert(chat.session);
    }
    let own = format!("api-{}", owner.world.chance.number() as u32);
    owner.turn(&own, None);
    let now = owner.now();
    owner.store.close(now).unwrap();
}

impl Owner<'_> {
    fn now(&mut self) -> Time {
        Time::from_seconds(self.world.tick())
    }

    fn commit(&mut self, state: &mut Session, next: Session, acts: Vec<Act>, at: Time) -> Committed {
        let commit = Commit::Session { expect: state.generation, state: Box::new(next.clone()), acts, at };
        let committed = self.store.commit(&[commit]).remove(0).unwrap();
        *state = next;
        committed
    }

    fn happens(&mut self, state: &mut Session, event: Event) -> Committed {
        let now = self.now();
        let (next, acts) = state.step(event, now, &Rules::default());
        self.commit(state, next, acts, now)
    }

    fn input(&mut self, state: &Session, kind: Kind, reply_to: Option<Destination>) -> Input {
        let seq = state.received.next();
        let key = DedupeKey::of(&["used", state.id.as_str(), &seq.to_string()]);
        Input {
            seq,
            at: self.now(),
            key,
            kind,
            reply_to,
            sender: None,
            platform_id: None,
            trace: Trace::default(),
            left: None,
        }
    }

    /// Takes the session up, and begins it if it is not there.
    fn load(&mut self, session: &str) -> Session {
        let id: SessionId = session.parse().unwrap();
        let now = self.now();
        let Some(loaded) = self.store.reader().load(&id).unwrap() else {
            let mut state = Session::new(id);
            let (next, more) = state.step(Event::Loaded { repeatable: Vec::new() }, now, &Rules::default());
            let birth = Birth { source: "api_server".into(), chat: None::<Chat>, ..Birth::default() };
            let acts = std::iter::once(Act::Open(Box::new(birth))).chain(more).collect();
            self.commit(&mut state, next, acts, now);
            return state;
        };
        let mut state = loaded.session;
        self.happens(&mut state, Event::Loaded { repeatable: Vec::new() });
        state
    }

    fn receive(&mut self, session: &str, chat: Option<&str>) -> Session {
        let mut state = self.load(session);
        let text = self.world.text("is asked here");
        let reply_to = chat.map(|chat| Destination {
            platform: "telegram".into(),
            account: "bot".into(),
            chat: chat.rsplit(':').next().unwrap_or_default().to_owned(),
            thread: None,
            reply_to: None,
        });
        let input = self.input(&state, Kind::Chat(Content::text(text)), reply_to);
        self.happens(&mut state, Event::Received(Arc::new(input)));
        state
    }

    fn turn(&mut self, session: &str, chat: Option<&str>) {
        let mut state = self.receive(session, chat);
        let Phase::Turn(turn) = &state.phase else { panic!("{state:?}") };
        let (turn, step) = (turn.id, turn.step);
        let text = self.world.text("is answered here");
        let said = Assistant { content: Content::text(&text), ..Assistant::default() };
        let usage = Usage { input: 100, output: 10, ..Usage::default() };
        let prompt = Mark { chain: Digest::of(&[text.as_bytes()]), messages: 1, head: Head::default() };
        let answer = Answer { said, usage, model: "model-1".into() };
        self.happens(&mut state, Event::Answered { turn, step, answer, prompt, full: false });
    }

    /// All but the last two messages give way to a summary.
    fn compress(&mut self, session: &str) {
        let mut state = self.load(session);
        let order = Kind::Command(Command::Compress { focus: None, keep: None, preview: false });
        let input = self.input(&state, order, None);
        self.happens(&mut state, Event::Received(Arc::new(input)));
        let live = self.store.reader().history(&state.id).unwrap();
        let last = live.len() - 3;
        let cut = live[last].0;
        let found = Extent { cut, messages: live.len(), tokens: 1_000, plan: None, engine_is_idle: false };
        let asked = state.survey().unwrap();
        self.happens(&mut state, Event::Surveyed { asked, found: Some(found).into() });
        let summary = format!("{}compressed here", crate::damage::SUMMARY);
        let replacement = Replacement {
            after: None,
            cut,
            replaced: last + 1,
            rows: vec![Message::user(self.now(), Content::text(summary))],
            kind: Replaced::Summary,
            before: 100_000,
            after_tokens: 10,
            model: "summariser".into(),
            remark: None,
        };
        let operation = state.compression.as_ref().unwrap().number;
        let summarised = Event::Summarised { operation, summary: Ok(Arc::new(replacement)), digest: None };
        let promoted = self.happens(&mut state, summarised).promoted.unwrap();
        self.happens(&mut state, Event::Reported { operation, promoted });
    }

    /// What is on its way arrives.
    fn deliver(&mut self) {
        let now = self.now();
        let boot = self.store.boot(now).unwrap();
        for reply in self.store.reader().undelivered().unwrap() {
            for change in [
                DeliveryChange::Attempting { marked: false },
                DeliveryChange::Delivered { platform_id: Some("77".into()) },
            ] {
                let commit = Commit::Delivery { key: reply.key.clone(), boot, change, at: now };
                self.store.commit(&[commit]).remove(0).unwrap();
            }
        }
    }
}
