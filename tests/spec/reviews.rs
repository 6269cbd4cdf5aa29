//! Reviews with the real binary: a local server speaks the Bot API, another stands in for the model and
//! keeps every request as it came.
//!
//! The tenth turn is followed by one review, which begins with the bytes of that turn's request, may only
//! write down, is told of once, and is run again when the process was killed in the middle of it.

use crate::chats::World;
use crate::gateway::{Place, until};
use crate::model::{ModelServer, calls, last, said, text};
use serde_json::{Value, json};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use throughline_servers::telegram::{Chat, User};

const ADA: i64 = 42;
const NOTICE: &str = "💾 Self-improvement review: User profile updated";

fn is_review(message: &Value) -> bool {
    message["role"] == "user" && text(message).starts_with("[Review]")
}

fn messages(request: &Value) -> &[Value] {
    request["messages"].as_array().unwrap()
}

/// A world with reviews.
struct Reviewed {
    world: World,
    /// How long a review waits for an answer, in milliseconds.
    hesitation: Arc<AtomicU64>,
}

impl Deref for Reviewed {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Reviewed {
    /// Answers `re: <what was said last>`. A review is answered with calls first, and then with a word.
    fn new(config: &str) -> Self {
        let place = Place::new();
        let touch = format!("touch {}/ran", place.path().display());
        Self::by(place, config, move |_| {
            calls(&[
                ("memory", json!({"action": "add", "target": "user", "content": "Ada likes tea"})),
                ("terminal", json!({"command": touch})),
                (
                    "memory",
                    json!({"action": "add", "target": "memory",
                           "content": "Some earlier messages in this conversation are missing."}),
                ),
            ])
        })
    }

    /// A review is answered so, from what it was asked.
    fn by(place: Place, config: &str, looks_back: impl Fn(&str) -> Value + Send + Sync + 'static) -> Self {
        let hesitation = Arc::new(AtomicU64::new(0));
        let hesitating = hesitation.clone();
        let model = ModelServer::answering(Duration::ZERO, move |request| {
            let asked = messages(request).last().unwrap();
            if is_review(asked) {
                thread::sleep(Duration::from_millis(hesitating.load(Ordering::Relaxed)));
                return looks_back(&text(asked));
            }
            match asked["role"] == "tool" {
                true => said("Nothing more."),
                false => said(&format!("re: {}", last(request))),
            }
        });
        let world = World::around(place, model, &format!("TELEGRAM_ALLOWED_USERS={ADA}"));
        world.place.append("home/config.yaml", config);
        Self { world, hesitation }
    }

    /// Bodies of the requests with which a review begins.
    fn reviews(&self) -> Vec<String> {
        let begins = |body: &String| {
            let request: Value = serde_json::from_str(body).unwrap();
            is_review(messages(&request).last().unwrap())
        };
        self.model.bodies().into_iter().filter(begins).collect()
    }

    /// Ada says something, and is answered.
    fn turn(&self, said: &str) {
        self.telegram.say(&Chat::private(ADA, "Ada"), &User::new(ADA, "Ada"), said);
        self.until(said, |world| world.times_shown(&format!("re: {said}")) == 1);
    }

    /// What is asked of the model in this turn, as it was sent.
    fn asked_for(&self, said: &str) -> String {
        let is_it = |body: &String| {
            let request: Value = serde_json::from_str(body).unwrap();
            text(messages(&request).last().unwrap()) == said
        };
        self.model.bodies().into_iter().find(is_it).unwrap()
    }

    fn profile(&self) -> String {
        std::fs::read_to_string(self.place.home().join("memories/USER.md")).unwrap_or_default()
    }
}

/// A list in a request, byte by byte, without its end.
fn list<'a>(body: &'a str, name: &str) -> &'a str {
    let begins = body.find(&format!("\"{name}\":[")).unwrap_or_else(|| panic!("no {name}"));
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (place, c) in body[begins..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return &body[begins..begins + place];
                }
            }
            _ => {}
        }
    }
    panic!("{name} has no end")
}

#[test]
fn p22_the_tenth_turn_is_looked_back_at_on_its_own_bytes_and_told_once() {
    let world = Reviewed::new("");
    let gateway = world.launch.start();
    (1..=9).for_each(|turn| world.turn(&format!("message {turn}")));
    assert_eq!(world.reviews(), [""; 0], "it is not due yet");
    world.turn("message 10");
    world.until("the notice", |world| world.times_shown(NOTICE) == 1);

    let (live, review) = (world.asked_for("message 10"), world.reviews());
    assert_eq!(review.len(), 1);
    let (before, after) = (list(&live, "messages"), list(&review[0], "messages"));
    assert!(after.starts_with(before), "the review does not begin as the turn did:\n{before}\n{after}");
    assert_eq!(list(&review[0], "tools"), list(&live, "tools"));
    let added: Vec<Value> = {
        let request: Value = serde_json::from_str(&review[0]).unwrap();
        let live: Value = serde_json::from_str(&live).unwrap();
        request["messages"].as_array().unwrap()[live["messages"].as_array().unwrap().len()..].to_vec()
    };
    assert_eq!(added.len(), 2, "{added:?}");
    assert_eq!((text(&added[0]).as_str(), is_review(&added[1])), ("re: message 10", true));

    let requests = world.model.requests();
    let results: Vec<String> =
        requests.last().unwrap()["messages"].as_array().unwrap().iter().rev().take(3).map(text).collect();
    assert!(results[2].contains("\"success\": true"), "{results:?}");
    assert!(results[1].contains("terminal was not run"), "{results:?}");
    assert!(results[0].contains("Nothing was saved"), "{results:?}");
    assert!(!world.place.path().join("ran").exists(), "only memory and skill tools run");
    assert_eq!(world.profile().trim(), "Ada likes tea");

    // The conversation goes on as if nothing had been, from the bytes it had.
    world.turn("message 11");
    assert!(list(&world.asked_for("message 11"), "messages").starts_with(before));
    assert!(!world.asked_for("message 11").contains("[Review]"));
    let list = world.place.launch().arg("sessions").arg("list").run();
    assert!(list.status.success());
    assert!(gateway.stop().success());
    let gateway = world.launch.start();
    world.turn("message 12");
    assert_eq!((world.reviews().len(), world.times_shown(NOTICE)), (1, 1), "once is enough");
    assert!(gateway.stop().success());
}

/// The tools of a client are part of the list that the model's provider has cached; a review runs none of them.
#[test]
fn p22_a_review_of_a_clients_conversation_lists_the_clients_tools_and_runs_none() {
    let place = Place::new();
    let world = Reviewed::by(place, "memory: {nudge_interval: 2}\n", |_| {
        calls(&[
            ("memory", json!({"action": "add", "target": "user", "content": "Ada likes tea"})),
            ("lookup", json!({})),
            ("skills_list", json!({})),
        ])
    });
    let gateway = world.launch.start();
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    for words in ["one", "two"] {
        let body = json!({
            "messages": [{"role": "user", "content": words}], "tools": [tool("lookup"), tool("skills_list")],
        });
        let reply = gateway.client.chat(&[("X-Hermes-Session-Id", "s")], &body).unwrap();
        assert_eq!(reply.said(), format!("re: {words}"));
    }
    until("the review is over", || {
        world.model.requests().last().is_some_and(|request| messages(request).len() > 8)
    });
    let (live, review) = (world.asked_for("two"), world.reviews());
    assert!(live.contains("lookup"), "the client's tools are listed: {live}");
    assert_eq!(list(&review[0], "tools"), list(&live, "tools"), "and listed again");
    assert!(list(&review[0], "messages").starts_with(list(&live, "messages")));
    let requests = world.model.requests();
    let results: Vec<String> = messages(requests.last().unwrap()).iter().rev().take(3).map(text).collect();
    assert!(results[2].contains("\"success\": true"), "{results:?}");
    assert!(results[1].contains("lookup was not run"), "{results:?}");
    assert!(results[0].contains("skills_list was not run"), "the client's own of that name: {results:?}");
    let counts = gateway.client.read("/api/control/counts").to_string();
    assert!(!counts.contains("cache_break"), "{counts}");
    assert!(gateway.stop().success());
}

/// How many of these there are in the home.
fn rows(world: &World, what: &str) -> u32 {
    let store = rusqlite::Connection::open(world.place.file("home/state.db")).unwrap();
    store.busy_timeout(Duration::from_secs(30)).unwrap();
    store.query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn p22_a_review_that_is_killed_is_run_again_and_told_once() {
    let world = Reviewed::new("memory: {nudge_interval: 2}\n");
    world.hesitation.store(60_000, Ordering::Relaxed);
    let gateway = world.launch.start();
    world.turn("one");
    world.turn("two");
    world.until("a review", |_| world.reviews().len() == 1);
    world.turn("meanwhile"); // no turn waits for it
    gateway.kill();
    world.hesitation.store(0, Ordering::Relaxed);
    let gateway = world.launch.start();
    world.until("the notice", |world| world.times_shown(NOTICE) == 1);
    let reviews = world.reviews();
    assert_eq!(reviews.len(), 2);
    assert_eq!(reviews[0], reviews[1], "it is about the view it fell due on");
    assert!(!reviews[1].contains("meanwhile"));
    gateway.kill();
    let gateway = world.launch.start();
    world.turn("three");
    world.until("the next review", |_| world.reviews().len() == 3);
    let ends = |request: &Value| request["messages"].as_array().unwrap().last().unwrap()["role"] == "tool";
    world
        .until("its end", |world| world.model.requests().iter().filter(|request| ends(request)).count() == 2);
    world.until("it is over", |world| {
        rows(world, "tl_review WHERE state = 1") == 2
            && gateway.client.read("/api/control/status")["undelivered"] == 0
    });
    assert_eq!(world.times_shown(NOTICE), 1, "nothing was changed by it");
    assert_eq!(world.profile().matches("Ada likes tea").count(), 1, "an entry that is there is not added");
    assert!(gateway.stop().success());
}

#[test]
fn p22_who_wants_no_reviews_gets_none() {
    let world = Reviewed::new("memory: {nudge_interval: 0}\nskills: {creation_nudge_interval: 0}\n");
    let gateway = world.launch.start();
    (1..=11).for_each(|turn| world.turn(&format!("message {turn}")));
    assert_eq!(rows(&world, "tl_review"), 0, "none fell due");
    assert!(gateway.stop().success());
    assert_eq!(world.reviews(), [""; 0]);
}

/// Entries of a hundred characters and one that fills up to exactly `size`, with their separators.
fn filled(size: usize) -> String {
    let mut entries = Vec::new();
    let mut left = size;
    while left > 203 {
        entries.push(format!("{:x<100}", format!("fact {} ", entries.len())));
        left -= 103;
    }
    entries.push(format!("{:y<left$}", "the last fact "));
    let text = entries.join("\n§\n");
    assert_eq!(text.chars().count(), size);
    text
}

/// The entries that a review lists, by their beginnings, with their sizes.
fn listed(review: &str) -> Vec<(usize, &str)> {
    let lines = review.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(" characters: "));
    lines.filter_map(|(size, beginning)| Some((size.parse().ok()?, beginning))).collect()
}

/// Goes by what a review says and nothing else: each entry that is listed as long becomes short, in one call.
fn consolidates(review: &str) -> Value {
    let long = listed(review).into_iter().filter(|(size, _)| *size >= 100);
    let replace = |(number, (_, beginning)): (usize, (usize, &str))| {
        let old = beginning.trim_end_matches(['…', '.']);
        json!({"action": "replace", "old_text": old, "content": format!("short {number}")})
    };
    let mut operations: Vec<Value> = long.enumerate().map(replace).collect();
    operations.push(json!({"action": "add", "content": "Ada likes tea"}));
    calls(&[("memory", json!({"target": "memory", "operations": operations}))])
}

#[test]
fn p23_at_89_91_and_100_percent_the_review_is_asked_what_the_store_needs_and_a_model_gets_out_by_that_alone()
{
    const LIMIT: usize = 2200;
    for (percent, asked) in [(89, false), (91, true), (100, true)] {
        let place = Place::new();
        let before = filled(LIMIT * percent / 100);
        place.write("home/memories/MEMORY.md", &before);
        let world = Reviewed::by(place, "memory: {nudge_interval: 2}\n", consolidates);
        let gateway = world.launch.start();
        world.turn("one");
        world.turn("two");
        world.until("its end", |world| {
            world.model.requests().iter().any(|request| messages(request).last().unwrap()["role"] == "tool")
        });
        let review: Value = serde_json::from_str(&world.reviews()[0]).unwrap();
        let review = text(messages(&review).last().unwrap());
        let size = format!("{} of {LIMIT} characters ({percent} %)", before.chars().count());
        assert_eq!(
            (review.contains(&size), review.contains("Consolidate it first")),
            (asked, asked),
            "{review}"
        );
        let sizes: Vec<usize> = before.split("\n§\n").map(|entry| entry.chars().count()).collect();
        let told: Vec<usize> = listed(&review).iter().map(|(size, _)| *size).collect();
        assert_eq!(told, if asked { sizes } else { Vec::new() }, "{review}");

        // Every call it made was good, nothing was lost on the way, and there is room.
        let results: Vec<Value> = world.model.requests().last().unwrap()["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| serde_json::from_str(&text(message)).unwrap())
            .collect();
        assert!(!results.is_empty() && results.iter().all(|result| result["success"] == true), "{results:?}");
        let after = std::fs::read_to_string(world.place.home().join("memories/MEMORY.md")).unwrap();
        assert!(after.contains("Ada likes tea"), "{after}");
        if asked {
            assert!(after.chars().count() < LIMIT / 2, "{after}");
            let gone = world.place.launch().arg("memory").arg("history").arg("--json").run();
            assert!(before.split("\n§\n").all(|entry| gone.stdout.contains(entry)), "{gone:?}");
        } else {
            assert!(after.starts_with(&before), "{after}");
        }
        assert!(gateway.stop().success());
    }
}
