//! Memory outside, with the real binary: people write on a local Bot API, a stand-in keeps what Honcho would.
//!
//! Each turn is kept once, in order, in the one place of its chat, whatever is killed, away or begun anew; what
//! one person is reminded of never reaches another; and what was sent once is sent with the same bytes again.

use crate::chats::World;
use crate::gateway::Place;
use crate::model::{ModelServer, calls, last, said as words_only, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};
use throughline_servers::honcho::{Fault, HonchoServer, Kept};
use throughline_servers::telegram::{Chat, User};
use tokio::runtime::Runtime;

const WORKSPACE: &str = "hermes";
const PATIENCE: Duration = Duration::from_secs(60);

struct Remembered {
    world: World,
    honcho: HonchoServer,
    runtime: Runtime,
}

/// What was said, without what the model was reminded of.
fn said(request: &Value) -> String {
    last(request).split("\n\n<memory-context>").next().unwrap_or_default().to_owned()
}

/// Whoever is asked one thing without a prompt is asked for a summary.
fn answer(request: &Value) -> String {
    match request["messages"].as_array().unwrap().len() {
        1 => format!(
            "## Active Task\nNone.\n\n## Goal\nTo count turns.\n\n## Completed Actions\n{}",
            "1. Counted. ".repeat(40)
        ),
        _ => format!("re: {}", said(request)),
    }
}

impl Remembered {
    fn by_honcho(settings: Value) -> Self {
        Self::around(ModelServer::saying(Duration::ZERO, answer), settings)
    }

    fn around(model: ModelServer, settings: Value) -> Self {
        let runtime = Runtime::new().unwrap();
        let honcho = runtime.block_on(HonchoServer::start());
        let world = World::around(Place::new(), model, "TELEGRAM_ALLOWED_USERS=42,43");
        let mut own = json!({"enabled": true, "workspace": WORKSPACE, "recallMode": "context"});
        own.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let file = json!({"baseUrl": honcho.base(), "hosts": {"hermes": own}});
        world.place.write("home/honcho.json", file.to_string());
        world.place.append("home/config.yaml", "memory: {provider: honcho, nudge_interval: 0}\n");
        Self { world, honcho, runtime }
    }

    fn says(&self, who: i64, text: &str) {
        self.world.telegram.say(&Chat::private(who, "P"), &User::new(who, "P"), text);
    }

    /// Says it, and reads the reply.
    fn hears(&self, who: i64, text: &str) {
        self.says(who, text);
        let reply = format!("re: {text}");
        self.world.until(&reply, |world| world.times_shown(&reply) >= 1);
    }

    fn sessions(&self) -> Vec<String> {
        self.runtime.block_on(self.honcho.sessions(WORKSPACE))
    }

    fn kept(&self, session: &str) -> Vec<Kept> {
        self.runtime.block_on(self.honcho.messages(WORKSPACE, session))
    }

    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed() < PATIENCE, "waited for {what}; {:?}", self.jobs());
            thread::sleep(Duration::from_millis(30));
        }
    }

    fn jobs(&self) -> Value {
        let told = self.world.place.launch().arg("memory").arg("jobs").arg("--json").run();
        serde_json::from_str::<Value>(&told.stdout).unwrap_or_default()["jobs"].clone()
    }
}

/// What lies there, as the words of each turn.
fn words(kept: &[Kept]) -> Vec<String> {
    kept.iter().map(|kept| kept.content.clone()).collect()
}

fn both(texts: &[&str]) -> Vec<String> {
    texts.iter().flat_map(|text| [(*text).to_owned(), format!("re: {text}")]).collect()
}

const CHAT: &str = "agent-main-telegram-dm-42";

#[test]
fn p26_p27_new_restart_and_kill_9_keep_one_honcho_session_and_each_turn_once() {
    let remembered = Remembered::by_honcho(json!({}));
    let mut gateway = remembered.world.launch.start();
    let mut expected = Vec::new();
    for round in 0..4 {
        // Whatever is lost on the way is looked for before it is sent again.
        remembered.honcho.fail("POST messages", [Fault::DropAnswer]);
        for text in [format!("first of {round}"), format!("second of {round}")] {
            remembered.hears(42, &text);
            expected.push(text);
        }
        match round {
            0 => {
                remembered.says(42, "/new");
                remembered.world.until("the new conversation", |world| {
                    world.shown().iter().any(|shown| shown.contains("new conversation has begun"))
                });
            }
            1 => {
                gateway.kill();
                gateway = remembered.world.launch.start();
            }
            2 => {
                assert!(gateway.stop().success());
                gateway = remembered.world.launch.start();
            }
            _ => {}
        }
    }
    let texts: Vec<&str> = expected.iter().map(String::as_str).collect();
    remembered.until("every turn", |remembered| remembered.kept(CHAT).len() >= 2 * texts.len());
    remembered.until("nothing waits", |remembered| remembered.jobs() == json!([]));
    assert_eq!(words(&remembered.kept(CHAT)), both(&texts));
    assert_eq!(remembered.sessions(), [CHAT]);
    assert!(gateway.stop().success());
}

#[test]
fn p24_what_is_buffered_goes_out_under_its_own_session_on_new_and_nothing_for_an_empty_buffer() {
    let remembered = Remembered::by_honcho(json!({"writeFrequency": 3}));
    let gateway = remembered.world.launch.start();
    for text in ["one", "two"] {
        remembered.hears(42, text);
    }
    thread::sleep(Duration::from_millis(500));
    assert_eq!(remembered.honcho.count("POST messages"), 0, "two of three");
    remembered.says(42, "/new");
    remembered.until("both turns", |remembered| remembered.kept(CHAT).len() == 4);
    let kept = remembered.kept(CHAT);
    assert_eq!(words(&kept), both(&["one", "two"]));
    let session =
        |kept: &Kept| kept.metadata["turn_id"].as_str().unwrap().split('/').next().unwrap().to_owned();
    let old = session(&kept[0]);
    assert!(kept.iter().all(|kept| session(kept) == old));
    remembered.says(42, "/new");
    remembered.hears(42, "three");
    thread::sleep(Duration::from_millis(500));
    assert_eq!(remembered.honcho.count("POST messages"), 2, "an empty buffer writes nothing, one turn waits");
    // A stop makes it due, and the next start hands it over first.
    assert!(gateway.stop().success());
    let gateway = remembered.world.launch.start();
    remembered.until("the third", |remembered| remembered.kept(CHAT).len() == 6);
    let kept = remembered.kept(CHAT);
    assert_ne!(session(&kept[4]), old, "it belongs to the conversation it was said in");
    assert!(gateway.stop().success());
}

#[test]
fn p26_a_provider_that_is_away_delays_no_reply_and_is_back_filled_in_order() {
    let remembered = Remembered::by_honcho(json!({}));
    remembered.honcho.fail("POST messages", [Fault::Status(503), Fault::DropRequest, Fault::Status(500)]);
    let gateway = remembered.world.launch.start();
    let texts = ["one", "two", "three", "four", "five"];
    for text in texts {
        remembered.hears(42, text);
    }
    let status = remembered.world.place.launch().arg("memory").arg("jobs").run();
    assert!(status.stdout.contains("to be handed over"), "{status:?}");
    let retried = remembered.world.place.launch().arg("memory").arg("retry").run();
    assert!(retried.status.success(), "{retried:?}");
    // Whoever is in a chat sees the same, and how the provider is.
    remembered.honcho.fail("POST messages", [Fault::Status(503), Fault::Status(503)]);
    remembered.hears(42, "six");
    for (order, told) in [
        ("/memory jobs", "to be handed over"),
        ("/memory status", "memory provider honcho: "),
        ("/memory", "memory provider honcho: "),
        ("/memory retry", "handed over again now"),
        ("/memory retry none/1", "no turn none/1 waits"),
    ] {
        remembered.says(42, order);
        let shown = |world: &World| world.shown().iter().any(|shown| shown.contains(told));
        remembered.world.until(order, shown);
    }
    for words in [&["status"][..], &["memory", "status"]] {
        let told = words.iter().fold(remembered.world.place.launch(), |launch, word| launch.arg(*word)).run();
        assert!(told.stdout.contains("memory provider honcho: "), "{words:?}: {told:?}");
    }
    remembered.until("all of it", |remembered| {
        let _ = remembered.world.place.launch().arg("memory").arg("retry").run(); // nobody wants to wait
        remembered.kept(CHAT).len() >= 12
    });
    remembered.until("nothing waits", |remembered| remembered.jobs() == json!([]));
    assert_eq!(words(&remembered.kept(CHAT)), both(&["one", "two", "three", "four", "five", "six"]));
    let status = remembered.world.place.launch().arg("status").arg("--json").run();
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let agent = &status["data"][0];
    assert_eq!((&agent["memory"]["provider"], &agent["unkept"]), (&json!("honcho"), &json!(0)), "{agent}");
    assert!(gateway.stop().success());
    let told = remembered.world.place.launch().arg("memory").arg("status").run();
    assert!(told.stdout.contains("\nmemory provider honcho: has every turn"), "{told:?}");
    let told = remembered.world.place.launch().arg("memory").arg("status").arg("--json").run();
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let outside = json!({"provider": "honcho", "unkept": 0, "unkept_refused": 0, "unkept_error": null});
    for (name, value) in outside.as_object().unwrap() {
        assert_eq!(&told["outside"][name], value, "{name}: {told}");
    }
}

#[test]
fn a_honcho_that_is_not_enabled_says_which_file_or_that_there_is_none() {
    for (file, words) in [
        (None, "neither honcho.json (looked for: "),
        (Some("{}"), "home/honcho.json has neither `apiKey` nor `baseUrl`"),
        (Some(r#"{"apiKey": "k", "enabled": false}"#), "home/honcho.json says that it is not enabled"),
    ] {
        let world = World::letting_in(Duration::ZERO, "TELEGRAM_ALLOWED_USERS=42");
        world.place.append("home/config.yaml", "memory: {provider: honcho}\n");
        if let Some(text) = file {
            world.place.write("home/honcho.json", text);
        }
        let gateway = world.launch.start();
        let logged = || {
            let log =
                |name: &str| std::fs::read_to_string(world.place.file("logs").join(name)).unwrap_or_default();
            format!("{}{}", log("stdout"), log("stderr"))
        };
        world.until(words, |_| logged().contains(words));
        assert!(!logged().contains("in its own file"));
        assert!(gateway.stop().success());
    }
}

/// Whatever has a mark of one person in it is that person's.
fn marks(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.starts_with("canary")).collect()
}

#[test]
fn p31_two_people_write_at_once_through_kills_and_no_mark_of_one_reaches_the_other() {
    let remembered = Remembered::by_honcho(json!({}));
    for who in [42, 43] {
        let peer = who.to_string();
        remembered.honcho.represent(WORKSPACE, "hermes", &peer, &format!("canary{who}x knows tea"));
    }
    let mut gateway = remembered.world.launch.start();
    let rounds = 40;
    for round in 0..rounds {
        for who in [42, 43] {
            remembered.says(who, &format!("canary{who}n{round}"));
            match round % 25 {
                7 => remembered.says(who, "/new"),
                13 => remembered.says(who, "/undo"),
                19 => remembered.says(who, "/memory"),
                _ => remembered.says(who, &format!("canary{who}m{round}")),
            }
        }
        if round % 20 == 15 {
            gateway.kill();
            gateway = remembered.world.launch.start();
        }
    }
    for who in [42, 43] {
        remembered.says(who, &format!("canary{who}last"));
    }
    let over = |world: &World, who: i64| {
        let mark = format!("canary{who}last");
        world.shown().iter().any(|shown| shown.contains(&mark))
    };
    remembered.until("the last replies", |it| over(&it.world, 42) && over(&it.world, 43));
    remembered.until("nothing waits", |remembered| remembered.jobs() == json!([]));
    for request in remembered.world.model.requests() {
        let text = request["messages"].to_string();
        let others: Vec<String> = [42, 43].map(|who| format!("canary{who}")).to_vec();
        let seen: Vec<&String> = others.iter().filter(|mark| text.contains(mark.as_str())).collect();
        assert!(seen.len() <= 1, "{text}");
    }
    for who in [42, 43] {
        let mark = format!("canary{who}");
        for kept in remembered.kept(&format!("agent-main-telegram-dm-{who}")) {
            assert!(marks(&kept.content).iter().all(|found| found.starts_with(&mark)), "{kept:?}");
        }
        for sent in remembered.world.telegram.sent() {
            if sent.chat == who {
                assert!(marks(&sent.text).iter().all(|found| found.starts_with(&mark)), "{}", sent.text);
            }
        }
    }
    assert!(gateway.stop().success());
}

/// Some turns have something written down, and so has each review.
fn writes_down(request: &Value) -> Value {
    let messages = request["messages"].as_array().unwrap();
    let asked = messages.iter().rev().find(|message| message["role"] == "user").map(text).unwrap_or_default();
    let number = messages.iter().filter(|message| message["role"] == "user").count();
    let write = |target: &str, what: &str| {
        let content = format!("{what} {number}");
        calls(&[("memory", json!({"action": "add", "target": target, "content": content}))])
    };
    let is_first = messages.last().unwrap()["role"] != "tool";
    match (is_first, asked.starts_with("[Review]")) {
        _ if messages.len() == 1 => words_only(&answer(request)),
        (true, true) => write("user", "They count, also at"),
        (false, true) => words_only("Nothing more."),
        (true, false) if asked.starts_with("note ") => write("memory", "Noted at"),
        _ => words_only(&format!("re: {}", asked.split("\n\n<memory-context>").next().unwrap())),
    }
}

/// How much of it was seen before, by a cache that knows every request message by message, as providers' do.
fn cached_share<'a>(requests: impl Iterator<Item = &'a Value>) -> f64 {
    let mut known = BTreeSet::new();
    let (mut cached, mut total) = (0, 0);
    for request in requests {
        let mut pieces = vec![request["tools"].to_string()];
        pieces.extend(request["messages"].as_array().unwrap().iter().map(Value::to_string));
        let mut prefix = String::new();
        let mut fresh = false;
        for piece in pieces {
            prefix.push_str(&piece);
            total += piece.len();
            fresh |= known.insert(prefix.clone());
            cached += if fresh { 0 } else { piece.len() };
        }
    }
    cached as f64 / total as f64
}

#[test]
fn p22_over_100_turns_with_recall_reviews_memory_writes_a_compression_and_a_restart_95_percent_is_cached() {
    let model = ModelServer::answering(Duration::ZERO, writes_down);
    let remembered = Remembered::around(model, json!({}));
    remembered.honcho.represent(WORKSPACE, "hermes", "42", "They like tea.");
    let config = std::fs::read_to_string(remembered.world.place.file("home/config.yaml")).unwrap();
    let config = config.replace("nudge_interval: 0", "nudge_interval: 10");
    let config = config.replace("api_key: none", "api_key: none, context_length: 40000");
    let config =
        format!("{config}throughline: {{compression_floor: 1000}}\ncompression: {{threshold: 0.5}}\n");
    remembered.world.place.write("home/config.yaml", config);
    let mut gateway = remembered.world.launch.start();
    let long = "and so on, ".repeat(40);
    for turn in 0..100 {
        // What is written down in a turn puts off the next review.
        let kind = if turn % 25 == 4 { "note" } else { "turn" };
        remembered.says(42, &format!("{kind} {turn} {long}"));
        let reply = format!("re: {kind} {turn} ");
        remembered.world.until(&reply, |world| world.shown().iter().any(|shown| shown.starts_with(&reply)));
        if turn == 50 {
            assert!(gateway.stop().success());
            gateway = remembered.world.launch.start();
        }
    }
    let requests = remembered.world.model.requests();
    let summaries = |request: &&Value| request["messages"].as_array().unwrap().len() == 1;
    let reviews = |request: &&Value| last(request).starts_with("[Review]");
    let (summaries, reviews) =
        (requests.iter().filter(summaries).count(), requests.iter().filter(reviews).count());
    assert!(summaries >= 1 && reviews >= 6, "{summaries} summaries, {reviews} reviews");
    for (file, written, times) in [("MEMORY.md", "Noted at", 4), ("USER.md", "They count", 5)] {
        let file = remembered.world.place.file("home/memories").join(file);
        assert!(std::fs::read_to_string(file).unwrap().matches(written).count() >= times, "{written}");
    }
    let share = cached_share(requests.iter());
    println!("{:.2} % cached; {summaries} summaries, {reviews} reviews", share * 100.0);
    assert!(share >= 0.95, "{:.1} % were cached; {summaries} summaries", share * 100.0);
    assert!(gateway.stop().success());
}
