//! P15 with the real Hermes, in the versions that [`peers::hermes`] names: it writes a home, we go
//! on in it, it goes on after us, and so do we; no words are lost, doubled or reordered, and
//! its tables stay as it made them.
//!
//! The judges are Hermes' own readers and what the model was shown, never our own books.

use crate::gateway::{Gateway, Launch, Place};
use crate::peers::{self, Hermes};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The sessions of the story, by Hermes' kind of ids.
const DESK: &str = "20260528_093510_66bfaec7";
const PHONE: &str = "20260529_181200_0a1b2c3d";
const ENDED: &str = "20260101_000000_deadbeef";
const CHAT: &str = "8439114563";
const ROUTE: &str = "agent:main:telegram:dm:8439114563";

/// What Hermes once put together as a prompt is what the model goes on seeing.
const PROMPT: &str = "You are Ada's agent — patient, exact.\n\nMEMORY\n- likes tea 🍵";

// ------------------------------------------------------------------------------------------ calls

fn call(method: &str, arguments: Value) -> Value {
    json!([method, arguments, {}])
}

/// A row, as `append_message` takes it.
fn append(session: &str, row: &Row) -> Value {
    let mut named = row.more.clone();
    named["content"] = row.content.clone();
    json!(["append_message", [session, row.role], named])
}

/// One message of the story.
#[derive(Clone, Debug)]
struct Row {
    role: &'static str,
    content: Value,
    /// What else `append_message` is given, under its names.
    more: Value,
}

fn row(role: &'static str, content: impl Into<Value>) -> Row {
    Row { role, content: content.into(), more: json!({}) }
}

impl Row {
    fn with(mut self, more: Value) -> Self {
        self.more = more;
        self
    }

    /// What matters of it to a reader: who said what, which tools were called, and what answered which.
    fn seen(&self) -> Value {
        seen(&json!({
            "role": self.role,
            "content": self.content,
            "tool_calls": self.more["tool_calls"],
            "tool_call_id": self.more["tool_call_id"],
        }))
    }
}

/// The same of a message in each of its forms: Hermes' row, our API's, or a model's request.
fn seen(message: &Value) -> Value {
    let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
    let calls: Vec<Value> = calls.iter().map(|call| json!([call["id"], call["function"]])).collect();
    json!([message["role"], message["content"], calls, message["tool_call_id"]])
}

fn all_seen<'a>(messages: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    messages.into_iter().map(seen).collect()
}

// ------------------------------------------------------------------------------------------ a story

/// A tool group as Hermes writes it: two calls in one answer, and their results in another order.
fn tool_group(mark: &str) -> Vec<Row> {
    let one = json!({"id": format!("call_{mark}_1"), "type": "function",
        "function": {"name": "terminal", "arguments": "{\"command\": \"ls  -la\", \"n\": 1.0}"}});
    let other = json!({"id": format!("call_{mark}_2"), "type": "function",
        "function": {"name": "read_file", "arguments": "{\"path\": \"/tmp/naïve.txt\"}"}});
    vec![
        row("assistant", Value::Null)
            .with(json!({"tool_calls": [one, other], "finish_reason": "tool_calls"})),
        row("tool", format!("total 0 {mark}"))
            .with(json!({"tool_call_id": format!("call_{mark}_1"), "tool_name": "terminal"})),
        row("tool", "{\"ok\": true, \"text\": \"ünïcödé\"}")
            .with(json!({"tool_call_id": format!("call_{mark}_2"), "tool_name": "read_file"})),
        row("assistant", format!("Both are done: {mark}.")).with(json!({"finish_reason": "stop"})),
    ]
}

/// Everything a row can hold.
fn at_the_desk() -> Vec<Row> {
    let mut rows = vec![
        row("user", "Where did I put the zeppelin blueprints?"),
        row("assistant", "In the blue folder.").with(json!({
            "finish_reason": "stop",
            "reasoning": "The user asked before.",
            "reasoning_content": "",
            "reasoning_details": [{"type": "reasoning.text", "text": "thinking…", "signature": "s=="}],
        })),
        row("user", "Look again, please."),
    ];
    rows.extend(tool_group("desk"));
    rows.extend([
        row(
            "user",
            json!([
                {"type": "text", "text": "What is in this picture?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ]),
        ),
        row("assistant", "A kingfisher."),
        row("user", "한국어와 漢字と日本語, עברית, العربية, 👩🏽‍🚀 é (e + U+0301)"),
        row(
            "assistant",
            "quote \" backslash \\ tab \t newline \n nul \u{0} del \u{7f} line\u{2028}separator",
        ),
        row("user", format!("A long one. {}", "Lorem ipsum dolor sit amet. ".repeat(8_000))),
        row("assistant", "").with(
            json!({"codex_reasoning_items": [{"id": "rs_1", "type": "reasoning", "encrypted_content": "x"}]}),
        ),
    ]);
    rows
}

fn on_the_phone() -> Vec<Row> {
    vec![row("user", "hi"), row("assistant", "Hello!"), row("user", "hi"), row("assistant", "Hello again!")]
}

/// A home that this Hermes wrote, and what it says there.
struct Story {
    hermes: Hermes,
    place: Place,
    launch: Launch,
    /// By session, in order.
    said: BTreeMap<String, Vec<Value>>,
    /// What Hermes wrote first, every column of it.
    rows: BTreeMap<String, Value>,
    /// Where the chat on Telegram leads.
    chat: String,
    schema: Value,
}

impl Story {
    fn written_by(hermes: Hermes) -> Self {
        let place = Place::new();
        let launch = place.rehearsing(&json!({}));
        std::fs::create_dir_all(place.home()).unwrap();
        let mut story = Story {
            hermes,
            place,
            launch,
            said: BTreeMap::new(),
            rows: BTreeMap::new(),
            chat: String::new(),
            schema: Value::Null,
        };
        story.begin();
        story
    }

    fn does(&self, calls: &[Value]) -> Vec<Value> {
        self.hermes.does(&self.place.home(), calls)
    }

    fn begin(&mut self) {
        let mut calls = vec![
            json!(["create_session", [DESK, "cli"], {"model": "gpt-5", "system_prompt": PROMPT}]),
            call("create_session", json!([PHONE, "api_server"])),
            call("create_session", json!([ENDED, "cli"])),
            call("set_session_title", json!([DESK, "  Zeppelins \u{200b}&  Ünïcödé 🎈 "])),
            call("route", json!([CHAT])),
        ];
        calls.extend(at_the_desk().iter().map(|row| append(DESK, row)));
        calls.extend(on_the_phone().iter().map(|row| append(PHONE, row)));
        calls.push(append(ENDED, &row("user", "It is over.")));
        calls.push(call("end_session", json!([ENDED, "session_reset"])));
        let results = self.does(&calls);
        self.chat = results[4]["session_id"].as_str().unwrap().to_owned();

        // The way of its gateway, which keeps a file beside the table in old versions.
        let chat = [row("user", "Written on Telegram."), row("assistant", "And read there.")];
        let written = chat.iter().map(|row| {
            let message = json!({"role": row.role, "content": row.content});
            call("gateway.append_to_transcript", json!([self.chat, message]))
        });
        let mut calls: Vec<Value> = written.collect();
        let said = |rows: &[Row]| rows.iter().map(Row::seen).collect();
        self.said.insert(DESK.into(), said(&at_the_desk()));
        self.said.insert(PHONE.into(), said(&on_the_phone()));
        self.said.insert(self.chat.clone(), said(&chat));
        calls.extend(self.said.keys().map(|session| call("get_messages", json!([session]))));
        calls.push(call("schema", json!([])));
        let mut results = self.does(&calls);
        self.schema = results.pop().unwrap();
        self.rows = self.said.keys().cloned().zip(results.split_off(chat.len())).collect();
    }

    /// Hermes writes to a session, and we are told nothing of it.
    fn hermes_says(&mut self, session: &str, rows: &[Row]) {
        self.does(&rows.iter().map(|row| append(session, row)).collect::<Vec<_>>());
        self.said.get_mut(session).unwrap().extend(rows.iter().map(Row::seen));
    }

    /// One turn in a session that is there, through the API. What the model was shown is everything
    /// that was said, once and in order.
    fn turn(&mut self, gateway: &Gateway, session: &str, text: &str) {
        let asked = self.place.asked().len();
        let answer = gateway.client.say(session, text).said();
        let said = self.said.get_mut(session).unwrap();
        said.push(row("user", text).seen());
        let prompts = self.place.asked();
        assert_eq!(prompts.len(), asked + 1, "the model is asked once");
        let prompt = prompts[asked]["messages"].as_array().unwrap();
        assert_eq!(prompt[0]["role"], "system");
        if session == DESK {
            assert_eq!(prompt[0]["content"], PROMPT, "the prompt that Hermes froze");
        }
        same(&all_seen(&prompt[1..]), said, &format!("what the model saw of {session}"));
        said.push(row("assistant", answer).seen());
    }

    /// Hermes' own readers agree with the story, in every session, and so do its counters.
    fn hermes_reads_everything(&self) {
        let sessions: Vec<&String> = self.said.keys().collect();
        let mut calls = Vec::new();
        for session in &sessions {
            calls.push(call("get_messages", json!([session])));
            calls.push(call("get_messages_as_conversation", json!([session])));
            calls.push(call("get_session", json!([session])));
        }
        calls.extend([
            call("get_session_by_title", json!(["Zeppelins & Ünïcödé 🎈"])),
            call("check", json!([])),
            call("routes", json!([])),
            call("gateway.load_transcript", json!([self.chat])),
            call("schema", json!([])),
        ]);
        let results = self.does(&calls);
        for (session, results) in sessions.iter().zip(results.chunks(3)) {
            let said = &self.said[*session];
            same(&all_seen(results[0].as_array().unwrap()), said, &format!("rows of {session}"));
            for (now, then) in
                results[0].as_array().unwrap().iter().zip(self.rows[*session].as_array().unwrap())
            {
                assert_eq!(now, then, "every column of a row that Hermes wrote");
            }
            same(&conversation(&results[1]), &stripped(said), &format!("conversation of {session}"));
            let calls: usize = said.iter().map(|message| message[2].as_array().unwrap().len()).sum();
            assert_eq!(results[2]["message_count"], said.len(), "{session}");
            assert_eq!(results[2]["tool_call_count"], calls, "{session}");
            assert_eq!(results[2]["ended_at"], Value::Null, "{session}");
        }
        let [titled, check, routes, transcript, schema] = &results[3 * sessions.len()..] else {
            unreachable!()
        };
        assert_eq!(titled["id"], DESK);
        assert_eq!(check, &json!(["ok"]));
        assert_eq!(routes[ROUTE], self.chat, "the chat leads where it led");
        same(&conversation(transcript), &self.said[&self.chat], "what Hermes' gateway would go on from");
        self.tables_are_unchanged(schema);
    }

    /// Everything that is not ours has the text that Hermes gave it.
    fn tables_are_unchanged(&self, schema: &Value) {
        assert_eq!(schema["version"], self.schema["version"]);
        assert_eq!(not_ours(schema), not_ours(&self.schema));
    }

    /// The words that Hermes' search finds, each in the session where they were said.
    fn hermes_finds(&self, words: &[(&str, &str)]) {
        let calls: Vec<Value> =
            words.iter().map(|(word, _)| call("search_messages", json!([word]))).collect();
        let results = self.does(&calls);
        for ((word, session), hits) in words.iter().zip(results) {
            let sessions: Vec<&Value> =
                hits.as_array().unwrap().iter().map(|hit| &hit["session_id"]).collect();
            assert!(sessions.iter().any(|found| found == session), "{word:?} is not found: {hits}");
            assert!(sessions.iter().all(|found| found == session), "{word:?} is found elsewhere: {hits}");
        }
    }

    /// And the same by our own.
    fn gateway_finds(&self, gateway: &Gateway, words: &[(&str, &str)]) {
        for (word, session) in words {
            let hits = gateway.client.read(&format!("/api/search?q={word}"));
            let hits = hits["data"].as_array().unwrap();
            assert!(!hits.is_empty(), "{word:?} is not found");
            assert!(
                hits.iter().all(|hit| hit["session_id"] == *session),
                "{word:?} is found elsewhere: {hits:?}"
            );
        }
    }

    /// The gateway lists what Hermes counts.
    fn gateway_lists_everything(&self, gateway: &Gateway) {
        let listed = gateway.client.read("/api/sessions");
        let listed = listed["data"].as_array().unwrap();
        let mut expected: Vec<&str> = self.said.keys().map(String::as_str).chain([ENDED]).collect();
        expected.sort_unstable();
        let mut ids: Vec<&str> = listed.iter().map(|session| session["id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, expected);
        let calls: Vec<Value> = ids.iter().map(|id| call("get_session", json!([id]))).collect();
        for hermes in self.does(&calls) {
            let ours = listed.iter().find(|session| session["id"] == hermes["id"]).unwrap();
            for field in ["source", "title", "model", "end_reason", "message_count", "tool_call_count"] {
                assert_eq!(ours[field], hermes[field], "{field} of {}", hermes["id"]);
            }
            let apart = ours["started_at"].as_f64().unwrap() - hermes["started_at"].as_f64().unwrap();
            assert!(apart.abs() < 2e-6, "we count in microseconds: {apart}");
        }
        for (session, said) in &self.said {
            let messages = gateway.client.read(&format!("/api/sessions/{session}/messages"));
            same(&all_seen(messages["data"].as_array().unwrap()), said, &format!("our reading of {session}"));
        }
        assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
    }
}

/// Everything whose name is not ours, with its text. Indexes that SQLite makes for a table belong to it.
fn not_ours(schema: &Value) -> Vec<&Value> {
    let objects = schema["objects"].as_array().unwrap().iter();
    objects.filter(|object| !object[2].as_str().unwrap().starts_with("tl_")).collect()
}

/// A comparison that says where two long lists part.
fn same(found: &[Value], expected: &[Value], what: &str) {
    for (nth, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "{what}, message {nth}");
    }
    assert_eq!(found.len(), expected.len(), "{what}: {:?}", found.get(expected.len()..));
}

/// What `get_messages_as_conversation` returns.
fn conversation(messages: &Value) -> Vec<Value> {
    all_seen(messages.as_array().unwrap())
}

/// As that reader shows what people say: without space around it.
fn stripped(said: &[Value]) -> Vec<Value> {
    let strip = |message: &Value| {
        let mut message = message.clone();
        if let (true, Some(text)) = (message[0] != "tool", message[1].as_str()) {
            message[1] = text.trim().into();
        }
        message
    };
    said.iter().map(strip).collect()
}

// --------------------------------------------------------------------------------------- the promises

/// How a gateway ends, from Hermes' point of view.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Clean,
    Killed,
}

fn there_and_back(end: End) {
    for hermes in peers::hermes() {
        println!("Hermes {} and a gateway that is {end:?}", hermes.version);
        let mut story = Story::written_by(hermes);
        let gateway = story.launch.start();
        story.gateway_lists_everything(&gateway);
        story.gateway_finds(&gateway, &[("zeppelin", DESK), ("telegram", &story.chat)]);
        let chat = story.chat.clone();
        for (session, text) in [
            (DESK, "And where is the quetzalcoatlus model?"),
            (PHONE, "hi"),
            (&chat, "Now through the API: 漢字を探す."),
            (DESK, "Thank you — merci ✨"),
            (PHONE, "hi"),
        ] {
            story.turn(&gateway, session, text);
        }
        assert_eq!(gateway.client.say(ENDED, "Hello?").status, 409);
        match end {
            End::Clean => drop(gateway.stop()),
            End::Killed => gateway.kill(),
        }
        story.hermes_reads_everything();
        if end == End::Killed {
            story.launch.start().stop(); // indexes the rest
            story.hermes_reads_everything();
        }
        story.hermes_finds(&[
            ("zeppelin", DESK),
            ("kingfisher", DESK),
            ("quetzalcoatlus", DESK),
            ("merci", DESK),
            ("漢字を探す", &chat),
        ]);

        let more = [vec![row("user", "Hermes again: aardvark.")], tool_group("again")].concat();
        story.hermes_says(DESK, &more);
        story.hermes_says(PHONE, &[row("user", "One that was never answered.")]);
        let gateway = story.launch.start();
        story.turn(&gateway, DESK, "We are back: wombat.");
        story.turn(&gateway, PHONE, "And one more.");
        story.turn(&gateway, &chat, "Still here.");
        story.gateway_lists_everything(&gateway);
        story.gateway_finds(&gateway, &[("aardvark", DESK), ("wombat", DESK), ("merci", DESK)]);
        gateway.stop();
        story.hermes_reads_everything();
        story.hermes_finds(&[("aardvark", DESK), ("wombat", DESK)]);

        // A `/new` on Telegram, answered by Hermes' gateway: the chat leads elsewhere now.
        let entry = story.does(&[call("gateway.reset_session", json!([ROUTE]))]).remove(0);
        let renewed = entry["session_id"].as_str().unwrap().to_owned();
        assert_ne!(renewed, chat);
        story.said.remove(&chat);
        story.rows.insert(renewed.clone(), json!([]));
        story.said.insert(renewed.clone(), Vec::new());
        story.chat = renewed.clone();
        let gateway = story.launch.start();
        assert_eq!(gateway.client.say(&chat, "Hello?").status, 409);
        story.turn(&gateway, &renewed, "A new beginning.");
        assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
        gateway.stop();
        story.hermes_reads_everything();
    }
}

#[test]
fn p15_hermes_and_we_take_turns_in_its_home() {
    there_and_back(End::Clean);
}

#[test]
fn p15_and_after_a_kill() {
    there_and_back(End::Killed);
}

#[test]
fn p15_the_hermes_command_line_may_write_beside_a_running_gateway() {
    for hermes in peers::hermes() {
        println!("beside Hermes {}", hermes.version);
        let mut story = Story::written_by(hermes);
        let gateway = story.launch.start();
        story.turn(&gateway, DESK, "First we.");
        story.hermes_says(DESK, &[row("user", "Then Hermes."), row("assistant", "So it is.")]);
        story.turn(&gateway, DESK, "Then we at once.");
        story.hermes_says(DESK, &tool_group("beside"));
        story.hermes_says(PHONE, &[row("user", "And elsewhere.")]);
        story.turn(&gateway, PHONE, "A session that was asleep.");
        story.turn(&gateway, DESK, "And one that was not.");
        story.hermes_reads_everything(); // while the gateway runs
        story.gateway_lists_everything(&gateway);
        gateway.kill();
        story.hermes_reads_everything();
    }
}

#[test]
fn p15_hermes_and_we_write_to_one_session_at_once() {
    const ROWS: usize = 40;
    for hermes in peers::hermes() {
        println!("at once with Hermes {}", hermes.version);
        let story = Story::written_by(hermes);
        let gateway = story.launch.start();
        // Neither in one breath: a writer that never releases the lock starves the other.
        let pause = call("pause", json!([0.004]));
        let said = (0..ROWS).map(|n| append(PHONE, &row("user", format!("Hermes {n}"))));
        let mut calls: Vec<Value> = said.flat_map(|said| [said, pause.clone()]).collect();
        // Hermes goes on after its first half when one of our turns has come between.
        let between = story.place.file("between");
        calls.insert(ROWS, call("wait_for", json!([between])));
        let mut turns = 0;
        let mut has_begun = false;
        std::thread::scope(|scope| {
            let hermes = scope.spawn(|| story.does(&calls));
            while !hermes.is_finished() {
                gateway.client.say(PHONE, &format!("We {turns}")).said();
                turns += 1;
                if has_begun {
                    std::fs::write(&between, "").unwrap();
                }
                let is_first = |(_, text): &(String, String)| text == "Hermes 0";
                has_begun = has_begun || gateway.client.transcript(PHONE).iter().any(is_first);
                std::thread::sleep(Duration::from_millis(4));
            }
        });
        gateway.client.say(PHONE, "Done.").said();
        assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
        gateway.kill();

        let rows = story.does(&[call("get_messages", json!([PHONE]))]).remove(0);
        let rows = all_seen(rows.as_array().unwrap());
        let count = |wanted: &Row| rows.iter().filter(|row| **row == wanted.seen()).count();
        for n in 0..ROWS {
            assert_eq!(count(&row("user", format!("Hermes {n}"))), 1, "of Hermes' row {n}");
        }
        for n in 0..turns {
            assert_eq!(count(&row("user", format!("We {n}"))), 1, "of our message {n}");
        }
        assert_eq!(rows.len(), on_the_phone().len() + ROWS + 2 * (turns + 1));
        let place = |text: &str| rows.iter().position(|found| *found == row("user", text).seen()).unwrap();
        let between = place("Hermes 0")..place(&format!("Hermes {}", ROWS - 1));
        assert!((0..turns).any(|n| between.contains(&place(&format!("We {n}")))), "no turn came in between");
        let prompts = story.place.asked();
        assert_eq!(prompts.len(), turns + 1);
        for prompt in prompts {
            let prompt = all_seen(&prompt["messages"].as_array().unwrap()[1..]);
            same(&prompt, &rows[..prompt.len()], "each prompt is the transcript as it stood");
        }
    }
}

#[test]
fn p15_changes_of_the_hermes_command_line_beside_us_hold_at_once() {
    for hermes in peers::hermes() {
        println!("beside Hermes {}", hermes.version);
        let mut story = Story::written_by(hermes);
        let chat = story.chat.clone();
        let gateway = story.launch.start();
        for session in [DESK, PHONE, &chat] {
            story.turn(&gateway, session, "Awake and remembered.");
        }

        // Hermes compresses as its old versions do: all rows go, others come.
        let summary = [row("user", "[CONTEXT COMPACTION] Zeppelins."), row("assistant", "Noted.")];
        let rows: Vec<Value> =
            summary.iter().map(|row| json!({"role": row.role, "content": row.content})).collect();
        story.does(&[call("replace_messages", json!([DESK, rows]))]);
        story.said.insert(DESK.into(), summary.iter().map(Row::seen).collect());
        story.turn(&gateway, DESK, "After a compression.");

        // And as its new ones do: rows are put out of sight.
        let can = |method: &str| story.does(&[call("can", json!([method]))])[0] == json!(true);
        let can = ["archive_and_compact", "rewind_to_message"].map(can);
        assert_eq!(can, [story.hermes.version != "0.14.0"; 2], "{}", story.hermes.version);
        if can[0] {
            story.does(&[call("archive_and_compact", json!([DESK, rows]))]);
            story.said.insert(DESK.into(), summary.iter().map(Row::seen).collect());
            story.turn(&gateway, DESK, "After another compression.");
        }

        // `/undo` takes back the last exchange.
        if can[1] {
            let rows = story.does(&[call("get_messages", json!([DESK]))]).remove(0);
            let last = rows.as_array().unwrap().iter().rfind(|row| row["role"] == "user").unwrap();
            story.does(&[call("rewind_to_message", json!([DESK, last["id"]]))]);
            let said = story.said.get_mut(DESK).unwrap();
            said.truncate(said.len() - 2);
            story.turn(&gateway, DESK, "After an undo.");
        }

        story.does(&[call("end_session", json!([chat, "session_reset"]))]);
        assert_eq!(gateway.client.say(&chat, "Hello?").status, 409, "ended");
        story.does(&[call("reopen_session", json!([chat]))]);
        story.turn(&gateway, &chat, "And opened again.");

        story.does(&[call("delete_session", json!([PHONE]))]);
        story.said.insert(PHONE.into(), Vec::new());
        story.turn(&gateway, PHONE, "No home remembers us here.");
        assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
        gateway.stop();
        let sessions: Vec<&String> = story.said.keys().collect();
        let calls: Vec<Value> =
            sessions.iter().map(|session| call("get_messages", json!([session]))).collect();
        for (session, rows) in sessions.iter().zip(story.does(&calls)) {
            same(&all_seen(rows.as_array().unwrap()), &story.said[*session], &format!("rows of {session}"));
        }
    }
}

#[test]
fn p15_hermes_may_be_upgraded_on_a_home_that_we_share() {
    let (Some(old), Some(new)) = (peers::one_hermes("0.14.0"), peers::one_hermes("0.19.0")) else { return };
    let mut story = Story::written_by(old);
    let gateway = story.launch.start();
    story.turn(&gateway, DESK, "Before the upgrade.");
    gateway.kill();

    story.hermes = new;
    story.hermes_says(DESK, &[row("user", "By the new one."), row("assistant", "Which knows more columns.")]);
    story.schema = story.does(&[call("schema", json!([]))]).remove(0);
    assert_eq!(story.schema["version"], json!([[22]]));
    story.rows = story.said.keys().map(|session| (session.clone(), json!([]))).collect();
    let gateway = story.launch.start();
    let chat = story.chat.clone();
    story.turn(&gateway, DESK, "After the upgrade.");
    story.turn(&gateway, &chat, "And here.");
    story.gateway_lists_everything(&gateway);
    gateway.stop();
    story.hermes_reads_everything();
    story.hermes_finds(&[("zeppelin", DESK), ("columns", DESK)]);
}

#[test]
fn p15_every_hermes_is_at_home_in_a_home_that_we_made() {
    let Some(newest) = peers::one_hermes("0.19.0") else { return };
    let pristine = Place::new();
    std::fs::create_dir_all(pristine.home()).unwrap();
    newest.did(&pristine.home(), call("session_count", json!([])));
    let theirs = newest.did(&pristine.home(), call("schema", json!([])));
    for hermes in peers::hermes() {
        println!("our home and Hermes {}", hermes.version);
        let place = Place::new();
        let launch = place.rehearsing(&json!({}));
        let gateway = launch.start();
        let first = gateway.client.say("made-by-us", "We were here first: capybara.").said();
        gateway.stop();
        let before = hermes.did(&place.home(), call("schema", json!([])));
        assert_eq!(before["version"], theirs["version"]);
        assert_eq!(not_ours(&before), not_ours(&theirs), "as Hermes 0.19.0 makes it");

        let appended = [row("user", "Then Hermes came: ocelot."), row("assistant", "It did.")];
        let mut calls: Vec<Value> = appended.iter().map(|row| append("made-by-us", row)).collect();
        calls.extend([
            call("search_messages", json!(["capybara"])),
            call("get_messages", json!(["made-by-us"])),
            call("route", json!([CHAT])),
            call("schema", json!([])),
        ]);
        let results = hermes.does(&place.home(), &calls);
        let [found, messages, route, after] = &results[appended.len()..] else { unreachable!() };
        assert_eq!(found[0]["session_id"], "made-by-us");
        let mut said =
            vec![row("user", "We were here first: capybara.").seen(), row("assistant", first).seen()];
        said.extend(appended.iter().map(Row::seen));
        same(&all_seen(messages.as_array().unwrap()), &said, "what Hermes reads");
        assert_eq!(route["session_key"], ROUTE);
        assert_eq!(after, &before, "Hermes leaves it as it is");

        let gateway = launch.start();
        gateway.client.say("made-by-us", "And so were we.").said();
        said.push(row("user", "And so were we.").seen());
        let prompt = place.asked().pop().unwrap();
        same(&all_seen(&prompt["messages"].as_array().unwrap()[1..]), &said, "what the model saw");
        gateway.stop();
    }
}

#[test]
fn p15_a_home_of_a_newer_hermes_is_left_alone_and_can_be_read() {
    let Some(hermes) = peers::hermes().pop() else { return };
    let story = Story::written_by(hermes);
    let home = story.place.home();
    let conn = rusqlite::Connection::open(home.join("state.db")).unwrap();
    conn.execute("UPDATE schema_version SET version = 30", []).unwrap();
    drop(conn);
    let before = story.hermes.did(&home, call("schema", json!([])));

    let refused = story.launch.run();
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("30") && refused.stderr.contains("state.db"), "{}", refused.stderr);
    let listed = story.launch.clone().arg("sessions").arg("list").run();
    assert!(listed.status.success(), "{}", listed.stderr);
    assert!(listed.stdout.contains(DESK) && listed.stdout.contains("Zeppelins"), "{}", listed.stdout);
    assert_eq!(story.hermes.did(&home, call("schema", json!([]))), before);
}
