//! P11 and P15 with the real Hermes, in the versions that [`peers::hermes`] names: after a compression and
//! after a restore it reads what we read, lists and resumes no snapshot, and can go on.
//!
//! The store is driven as the gateway drives it, without a gateway: what is at stake is the rows.

use crate::gateway::Place;
use crate::peers;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use throughline_core::command::Command;
use throughline_core::compression::{Extent, Kind as Replaced, Promoted, Replacement};
use throughline_core::input::{DedupeKey, Input, Kind, Trace};
use throughline_core::message::Assistant;
use throughline_core::port::{Commit, Committed, Store};
use throughline_core::prompt::{Digest, Head, Mark};
use throughline_core::session::{Event, Phase, Rules, Session};
use throughline_core::turn::{Answer, Usage};
use throughline_core::{Content, Message, SessionId, Time};
use throughline_store::{FileSystem, Home, StoreWriter};

const TALK: &str = "20260528_093510_66bfaec7";

/// The owner of the one session there is, for as long as it has the home.
struct Owner {
    store: StoreWriter,
    now: Time,
}

impl Owner {
    fn of(home: &Path, hour: i64) -> Self {
        // The clock on the wall: Hermes goes by it when it looks for what is old.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let now = Time(i64::try_from(now).unwrap() + hour * 3_600_000_000);
        let home = Home { filesystem: FileSystem::Trusted, ..Home::at(home) };
        Self { store: home.writer(now).unwrap(), now }
    }

    fn id(&self) -> SessionId {
        TALK.parse().unwrap()
    }

    fn happens(&mut self, state: &mut Session, event: Event) -> Committed {
        self.now = Time(self.now.0 + 1_000);
        let (next, acts) = state.step(event, self.now, &Rules::default());
        let commit =
            Commit::Session { expect: state.generation, state: Box::new(next.clone()), acts, at: self.now };
        *state = next;
        self.store.commit(&[commit]).remove(0).unwrap()
    }

    fn takes_up(&mut self) -> Session {
        let mut state = self.store.reader().load(&self.id()).unwrap().unwrap().session;
        self.happens(&mut state, Event::Loaded { repeatable: Vec::new() });
        state
    }

    fn hears(&mut self, state: &mut Session, kind: Kind) {
        let seq = state.received.next();
        let key = DedupeKey::of(&["test", TALK, &seq.to_string()]);
        let (at, trace) = (self.now, Trace::default());
        let input =
            Input { seq, at, key, kind, reply_to: None, sender: None, platform_id: None, trace, left: None };
        self.happens(state, Event::Received(Arc::new(input)));
    }

    fn turn(&mut self, question: &str, told: &str) {
        let mut state = self.takes_up();
        self.hears(&mut state, Kind::Chat(Content::text(question)));
        let Phase::Turn(turn) = &state.phase else { panic!("{state:?}") };
        let (turn, step) = (turn.id, turn.step);
        let said = Assistant { content: Content::text(told), ..Assistant::default() };
        let answer =
            Answer { said, usage: Usage { input: 100, ..Usage::default() }, model: "model-1".into() };
        let prompt = Mark { chain: Digest::of(&[told.as_bytes()]), messages: 1, head: Head::default() };
        self.happens(&mut state, Event::Answered { turn, step, answer, prompt, full: false });
    }

    /// The first so many messages of the view get a summary in their place.
    fn compresses(&mut self, messages: usize, summary: &str) -> Promoted {
        let (state, summarised) = self.prepares(messages, summary);
        self.promotes(state, summarised)
    }

    fn prepares(&mut self, messages: usize, summary: &str) -> (Session, Event) {
        let mut state = self.takes_up();
        self.hears(&mut state, Kind::Command(Command::Compress { focus: None, keep: None, preview: false }));
        let live = self.store.reader().history(&self.id()).unwrap();
        let cut = live[messages - 1].0;
        let asked = state.survey().unwrap();
        let found =
            Some(Extent { cut, messages: live.len(), tokens: 1_000, plan: None, engine_is_idle: false });
        self.happens(&mut state, Event::Surveyed { asked, found: found.into() });
        let replacement = Replacement {
            after: None,
            cut,
            replaced: messages,
            rows: vec![Message::user(self.now, Content::text(summary))],
            kind: Replaced::Summary,
            before: 100_000,
            after_tokens: 10,
            model: "model-1".into(),
            remark: None,
        };
        let operation = state.compression.as_ref().unwrap().number;
        let event = Event::Summarised { operation, summary: Ok(Arc::new(replacement)), digest: None };
        (state, event)
    }

    fn promotes(&mut self, mut state: Session, summarised: Event) -> Promoted {
        let operation = state.compression.as_ref().unwrap().number;
        let promoted = self.happens(&mut state, summarised).promoted.unwrap();
        self.happens(&mut state, Event::Reported { operation, promoted: promoted.clone() });
        promoted
    }

    fn restores(&mut self, snapshot: &str) -> Promoted {
        let mut state = self.takes_up();
        let event = Event::Restored { snapshot: snapshot.to_owned(), context: 0 };
        self.happens(&mut state, event).promoted.unwrap()
    }

    fn view(&self) -> Vec<String> {
        let history = self.store.reader().history(&self.id()).unwrap();
        history.iter().map(|(_, message)| message.content().plain()).collect()
    }

    /// As a clean stop leaves it.
    fn leaves(mut self) {
        assert_eq!(self.store.reader().check().unwrap(), [] as [String; 0]);
        self.store.close(self.now).unwrap();
    }
}

fn call(method: &str, arguments: Value) -> Value {
    json!([method, arguments, {}])
}

/// Hermes reads exactly this, and knows of one session.
fn hermes_sees(hermes: &peers::Hermes, home: &Path, expected: &[String]) {
    let results = hermes.does(
        home,
        &[
            call("get_messages_as_conversation", json!([TALK])),
            call("get_session", json!([TALK])),
            call("list_sessions_rich", json!([])),
            call("resolve_resume_session_id", json!([TALK])),
            call("get_compression_tip", json!([TALK])),
            call("resolve_session_id", json!([TALK])),
            call("prune_sessions", json!([1])),
            call("check", json!([])),
        ],
    );
    let [messages, session, listed, resumed, tip, resolved, pruned, check] = results.as_slice() else {
        unreachable!()
    };
    let seen: Vec<&str> =
        messages.as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(seen, expected, "Hermes {}", hermes.version);
    assert_eq!(session["message_count"], expected.len(), "Hermes {}", hermes.version);
    assert_eq!(session["ended_at"], Value::Null);
    let listed: Vec<&str> =
        listed.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert_eq!(listed, [TALK], "Hermes {} lists no snapshot", hermes.version);
    assert_eq!((resumed, tip, resolved), (&json!(TALK), &json!(TALK), &json!(TALK)), "nor resumes one");
    assert_eq!(pruned, &json!(0), "nor takes one for old");
    assert_eq!(check, &json!(["ok"]));
}

#[test]
fn p11_hermes_sees_the_summary_and_then_the_tail_and_no_snapshot() {
    for hermes in peers::hermes() {
        println!("Hermes {}", hermes.version);
        let place = Place::new();
        let home = place.home();
        std::fs::create_dir_all(&home).unwrap();
        let words = ["zeppelin", "kingfisher", "quetzal", "aardvark", "wombat", "ocelot", "ibis", "tapir"];
        let mut calls = vec![json!(["create_session", [TALK, "cli"], {}])];
        for (nth, word) in words.iter().enumerate() {
            let role = if nth % 2 == 0 { "user" } else { "assistant" };
            calls.push(json!(["append_message", [TALK, role], {"content": format!("About the {word}.")}]));
        }
        hermes.does(&home, &calls);
        let schema = hermes.did(&home, call("schema", json!([])));
        let mut all: Vec<String> = words.iter().map(|word| format!("About the {word}.")).collect();

        let mut owner = Owner::of(&home, 0);
        owner.turn("Ours now?", "It is.");
        all.extend(["Ours now?".to_owned(), "It is.".to_owned()]);
        let first = owner.compresses(6, "[SUMMARY] Six animals.");
        let mut view = [&["[SUMMARY] Six animals.".to_owned()], &all[6..]].concat();
        assert_eq!(owner.view(), view);
        owner.leaves();
        hermes_sees(&hermes, &home, &view);

        // Hermes goes on, and so do we.
        let more = json!(["append_message", [TALK, "user"], {"content": "Hermes was here: lynx."}]);
        hermes.does(&home, &[more]);
        all.push("Hermes was here: lynx.".to_owned());
        view.push("Hermes was here: lynx.".to_owned());
        let mut owner = Owner::of(&home, 1);
        assert_eq!(owner.view(), view);
        owner.turn("And us.", "Again.");
        let second = owner.compresses(3, "[SUMMARY] Six animals, and more.");
        all.extend(["And us.".to_owned(), "Again.".to_owned()]);
        let view = [&["[SUMMARY] Six animals, and more.".to_owned()], &all[8..]].concat();
        assert_eq!(owner.view(), view);
        owner.leaves();
        hermes_sees(&hermes, &home, &view);
        let found = hermes.did(&home, call("search_messages", json!(["kingfisher"])));
        assert_eq!(found.as_array().unwrap().len(), 1, "what was said can be found: {found}");

        // Everything comes back, in its order; and that can be undone.
        let mut owner = Owner::of(&home, 2);
        let kept = owner.restores(&first.snapshot);
        assert_eq!(owner.view(), all);
        owner.leaves();
        hermes_sees(&hermes, &home, &all);
        let mut owner = Owner::of(&home, 3);
        owner.restores(&kept.snapshot);
        assert_eq!(owner.view(), view);
        owner.turn("Still the same?", "Still.");
        let names: Vec<_> =
            owner.store.reader().snapshots(&owner.id()).unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names[..2], [first.snapshot, second.snapshot]);
        owner.leaves();
        let view = [view, vec!["Still the same?".to_owned(), "Still.".to_owned()]].concat();
        hermes_sees(&hermes, &home, &view);
        let now = hermes.did(&home, call("schema", json!([])));
        let theirs = |schema: &Value| -> Vec<Value> {
            let objects = schema["objects"].as_array().unwrap().iter();
            objects.filter(|object| !object[2].as_str().unwrap().starts_with("tl_")).cloned().collect()
        };
        assert_eq!(theirs(&now), theirs(&schema), "Hermes' tables are as it made them");
    }
}

/// What a promotion writes is counted, not timed: the write-ahead log is empty before it. A row whose flag
/// changes costs its page, with everything else on it, so messages of a page each are the worst case.
#[test]
fn p11_a_promotion_writes_the_pages_of_its_rows_and_little_else() {
    const MESSAGES: usize = 194;
    const REPLACED: usize = 172;
    /// With its header in the log.
    const PAGE: usize = 4_096 + 24;
    for hermes in peers::hermes() {
        for characters in [1_000, 3_000] {
            let place = Place::new();
            let home = place.home();
            std::fs::create_dir_all(&home).unwrap();
            let mut calls = vec![json!(["create_session", [TALK, "cli"], {}])];
            calls.extend((0..MESSAGES).map(|nth| {
                let role = if nth % 2 == 0 { "user" } else { "assistant" };
                let content = format!("{nth} {}", "box ".repeat(characters / 4));
                json!(["append_message", [TALK, role], {"content": content}])
            }));
            hermes.does(&home, &calls);
            let mut owner = Owner::of(&home, 0);
            owner.turn("Ours now?", "It is.");
            owner.leaves();
            let log = home.join("state.db-wal");
            assert!(!log.exists(), "a clean stop leaves no log");

            let mut owner = Owner::of(&home, 1);
            let summary = "What was said about boxes. ".repeat(300);
            let (mut state, summarised) = owner.prepares(REPLACED, &summary);
            let length = || std::fs::metadata(&log).unwrap().len();
            let before = length();
            owner.happens(&mut state, summarised).promoted.unwrap();
            let written = length() - before;
            println!("Hermes {}, {characters} characters each: {written} bytes", hermes.version);
            // A page for each message, and one for each table and index: what else is written (the session, the
            // snapshot, the event, the summary's own row) does not grow with the number of messages.
            let store = rusqlite::Connection::open(home.join("state.db")).unwrap();
            let trees = "SELECT count(*) FROM sqlite_schema WHERE rootpage > 0";
            let trees: u32 = store.query_row(trees, [], |row| row.get(0)).unwrap();
            let most = ((REPLACED + trees as usize) * PAGE + summary.len() * 6 / 5) as u64;
            assert!(written <= most, "{written} > {most}");
            let usual = characters < 3_000;
            assert!(!usual || written * 2 < most, "rows that share a page are written together: {written}");
        }
    }
}
