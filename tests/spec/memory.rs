//! Memory outside, with the real binary: people write on a local Bot API, a stand-in keeps what Honcho would.
//!
//! Each turn is kept once, in order, in the one place of its chat, through kills, outages and new sessions; what
//! one person is reminded of never reaches another; and what was sent once is sent with the same bytes again.

use crate::chats::World;
use crate::gateway::Place;
use crate::model::{ModelServer, calls, last, said as words_only, text};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};
use throughline_servers::honcho::{Fault, HonchoServer, Kept};
use throughline_servers::telegram::{Chat, User};
use tokio::runtime::Runtime;

const WORKSPACE: &str = "hermes";
const PATIENCE: Duration = Duration::from_secs(120);
/// A turn waits for what it is reminded of, however busy the machine is.
const PATIENT: &str = "throughline: {recall_patience_ms: 30000}\n";

struct Remembered {
    world: World,
    honcho: HonchoServer,
    runtime: Runtime,
}

/// What was said, without what the model was reminded of.
fn said(request: &Value) -> String {
    last(request).split("\n\n<memory-context>").next().unwrap_or_default().to_owned()
}

/// A request with one message and without a prompt asks for a summary.
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
        Self::letting_in(model, settings, "TELEGRAM_ALLOWED_USERS=42,43")
    }

    fn letting_in(model: ModelServer, settings: Value, whom: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let honcho = runtime.block_on(HonchoServer::start());
        let world = World::around(Place::new(), model, whom);
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
        // A turn that is lost on the way is looked for before it is sent again.
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
    let states = |it: &Remembered| -> Vec<Value> {
        it.jobs().as_array().into_iter().flatten().map(|job| job["state"].clone()).collect()
    };
    for text in ["one", "two"] {
        remembered.hears(42, text);
    }
    remembered.until("both are written down", |it| states(it).len() == 2);
    assert_eq!(states(&remembered), ["buffered", "buffered"], "two of three: neither is due");
    assert_eq!(remembered.honcho.count("POST messages"), 0);
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
    remembered.until("it is written down, and waits", |it| states(it) == ["buffered"]);
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
    // It would be waited for longer (300 s) than a reply is here (`World::until`).
    let remembered = Remembered::by_honcho(json!({"timeout": 300}));
    for operation in ["GET peers/context", "GET sessions/context"] {
        remembered.honcho.fail(operation, vec![Fault::Hang; 20]);
    }
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
    // People in a chat see the same, and how the provider is.
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
        let _ = remembered.world.place.launch().arg("memory").arg("retry").run(); // without the pause
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
fn p26_for_each_answer_of_honcho_a_reply_comes_the_status_says_so_and_each_turn_is_kept_once_in_order() {
    let remembered = Remembered::by_honcho(json!({"timeout": 2}));
    let gateway = remembered.world.launch.start();
    let status = || remembered.world.place.launch().arg("memory").arg("status").run().stdout;
    let missed = || {
        let told = remembered.world.place.launch().arg("memory").arg("status").arg("--json").run();
        serde_json::from_str::<Value>(&told.stdout).unwrap()["outside"]["recalls_missed"].as_u64().unwrap()
    };
    remembered.hears(42, "turn 0");
    let mut said = vec!["turn 0".to_owned()];
    for (fault, words) in [
        (Fault::Status(401), "(status 401"),
        (Fault::Status(409), "(status 409"),
        (Fault::Status(413), "1 refused"),
        (Fault::Status(422), "1 refused"),
        (Fault::Busy(429, 3), "(status 429"),
        (Fault::Status(503), "(status 503"),
        (Fault::Hang, "did not answer within 2 s"),
        (Fault::DropAnswer, "hung up before it answered"),
        (Fault::Page, "something that is not Honcho's"),
    ] {
        let before = missed();
        for operation in ["POST messages", "GET peers/context", "GET sessions/context"] {
            remembered.honcho.fail(operation, vec![fault.clone(); 50]);
        }
        let text = format!("turn {}", said.len());
        remembered.hears(42, &text);
        remembered.until(words, |_| status().contains(words));
        assert!(missed() > before, "{fault:?}: the reminder was not counted");
        remembered.honcho.heal();
        said.push(text);
        remembered.until("it is kept", |it| {
            let _ = it.world.place.launch().arg("memory").arg("retry").run(); // without the pause
            it.kept(CHAT).len() >= 2 * said.len()
        });
        remembered.until("nothing waits", |it| it.jobs() == json!([]));
    }
    let texts: Vec<&str> = said.iter().map(String::as_str).collect();
    assert_eq!(words(&remembered.kept(CHAT)), both(&texts));
    assert!(gateway.stop().success());
}

/// The agent notes what a message with `note` says about its sender.
fn notes(request: &Value) -> Value {
    let messages = request["messages"].as_array().unwrap();
    let is_new = messages.last().unwrap()["role"] == "user";
    match said(request).strip_prefix("note ").filter(|_| is_new) {
        Some(what) => calls(&[("memory", json!({"action": "add", "target": "user", "content": what}))]),
        None => {
            let asked = messages.iter().rev().find(|message| message["role"] == "user").map(text).unwrap();
            words_only(&format!("re: {}", asked.split("\n\n<memory-context>").next().unwrap()))
        }
    }
}

#[test]
fn p29_memory_files_come_before_the_first_turn_once_through_kill_9_at_each_and_later_notes_are_concluded() {
    let model = ModelServer::answering(Duration::ZERO, notes);
    let remembered = Remembered::letting_in(model, json!({}), "TELEGRAM_ALLOWED_USERS=42");
    let files = [("memories/MEMORY.md", "pond"), ("memories/USER.md", "tea"), ("SOUL.md", "kind")];
    for (file, words) in files {
        remembered.world.place.write(&format!("home/{file}"), format!("Something about {words}."));
    }
    // It arrives without an answer; it does not arrive; it arrives without an answer.
    remembered.honcho.fail("POST messages", [Fault::HangAfter, Fault::Hang, Fault::HangAfter]);
    let mut gateway = remembered.world.launch.start();
    remembered.hears(42, "one");
    for kills in 1..=3 {
        remembered.until("a file is on its way", |it| it.honcho.count("POST messages") == kills);
        gateway.kill();
        gateway = remembered.world.launch.start();
    }
    remembered.until("the first turn", |it| it.kept(CHAT).len() >= 5);
    remembered.hears(42, "note Likes the number seven.");
    remembered.world.place.append("home/memories/MEMORY.md", "\n§\nWritten by hand, later.");
    assert!(gateway.stop().success());
    let gateway = remembered.world.launch.start();
    remembered.hears(42, "two");
    remembered.until("nothing waits", |it| it.kept(CHAT).len() >= 9 && it.jobs() == json!([]));

    let kept = remembered.kept(CHAT);
    let brought: Vec<&str> = kept.iter().map_while(|kept| kept.metadata["original_file"].as_str()).collect();
    assert_eq!(brought, ["MEMORY.md", "USER.md", "SOUL.md"]);
    for (kept, (file, about)) in kept.iter().zip(files) {
        assert!(kept.content.contains(&format!("Something about {about}.")), "{file}: {kept:?}");
    }
    assert_eq!(words(&kept[3..]), both(&["one", "note Likes the number seven.", "two"]));
    assert_eq!(remembered.sessions(), [CHAT]);
    let concluded = remembered.runtime.block_on(remembered.honcho.conclusions(WORKSPACE));
    let concluded: Vec<&str> = concluded.iter().map(|one| one["content"].as_str().unwrap()).collect();
    assert_eq!(concluded, ["Likes the number seven."]);
    // What a provider has to say of itself is in every prompt, and the same.
    let prompts: BTreeSet<String> =
        remembered.world.model.requests().iter().map(|request| text(&request["messages"][0])).collect();
    assert!(
        prompts.len() == 1 && prompts.iter().all(|prompt| prompt.contains("# Honcho Memory")),
        "{prompts:?}"
    );
    assert!(gateway.stop().success());
}

#[test]
fn p29_of_several_people_the_owners_files_come_once_and_to_the_owner_only() {
    let remembered = Remembered::by_honcho(json!({})); // 42 is the first of those who are let in
    for (file, words) in [("MEMORY", "pond"), ("USER", "tea")] {
        let path = format!("home/memories/{file}.md");
        remembered.world.place.write(&path, format!("Something about {words}."));
    }
    let others = "agent-main-telegram-dm-43";
    let mut gateway = remembered.world.launch.start();
    for round in 0..2 {
        // The other one is first, each time.
        for (who, session) in [(43, others), (42, CHAT)] {
            remembered.hears(who, &format!("{who} in round {round}"));
            remembered.until("the turn is kept", |it| {
                it.kept(session).iter().any(|kept| kept.content == format!("re: {who} in round {round}"))
            });
        }
        assert!(gateway.stop().success());
        gateway = remembered.world.launch.start();
    }
    let brought = |session: &str| -> Vec<(String, String)> {
        let kept = remembered.kept(session).into_iter();
        let files =
            kept.filter_map(|kept| Some((kept.metadata["original_file"].as_str()?.to_owned(), kept.peer)));
        files.collect()
    };
    let owner = remembered.kept(CHAT).into_iter().find(|kept| kept.content == "42 in round 0").unwrap().peer;
    assert_eq!(
        brought(CHAT),
        [("MEMORY.md".to_owned(), owner.clone()), ("USER.md".to_owned(), owner.clone())],
        "once, as words of the owner, before the first turn"
    );
    assert_eq!(brought(others), []);
    let other =
        remembered.kept(others).into_iter().find(|kept| kept.content == "43 in round 0").unwrap().peer;
    assert_ne!(owner, other);
    let mut sessions = remembered.sessions();
    sessions.sort();
    assert_eq!(sessions, [CHAT, others]);
    let everything = sessions.iter().flat_map(|session| remembered.kept(session));
    for words in ["Something about pond.", "Something about tea."] {
        assert_eq!(everything.clone().filter(|kept| kept.content.contains(words)).count(), 1, "{words}");
    }
    assert!(gateway.stop().success());
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

/// A text with a mark of one person is that person's.
fn marks(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.starts_with("canary")).collect()
}

#[test]
fn p31_two_people_write_at_once_through_kills_and_no_mark_of_one_reaches_the_other() {
    let remembered = Remembered::by_honcho(json!({}));
    remembered.world.place.append("home/config.yaml", PATIENT);
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
    let requests = remembered.world.model.requests();
    for who in [42, 43] {
        let own = format!("canary{who}x knows tea");
        assert!(
            requests.iter().any(|request| request.to_string().contains(&own)),
            "{who} was never reminded"
        );
    }
    for request in requests {
        let text = request["messages"].to_string();
        let others: Vec<String> = [42, 43].map(|who| format!("canary{who}")).to_vec();
        let seen: Vec<&String> = others.iter().filter(|mark| text.contains(mark.as_str())).collect();
        assert!(seen.len() <= 1, "{text}");
    }
    for who in [42, 43] {
        let mark = format!("canary{who}");
        let kept = remembered.kept(&format!("agent-main-telegram-dm-{who}"));
        assert!(kept.len() >= rounds, "{who}: {}", kept.len());
        for kept in kept {
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

/// Whose marks are in a text: `canary42dm7` is 42's.
fn people(text: &str) -> BTreeSet<String> {
    let is_letter = |c: char| !c.is_ascii_digit();
    marks(text)
        .iter()
        .filter_map(|mark| mark["canary".len()..].split(is_letter).next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn p31_alone_in_groups_through_the_api_and_once_paired_no_mark_of_one_person_reaches_another() {
    const ROUNDS: usize = 100;
    let model = ModelServer::saying(Duration::ZERO, answer);
    let remembered = Remembered::letting_in(model, json!({}), "");
    remembered.world.place.append("home/config.yaml", PATIENT);
    remembered.world.place.write("home/memories/USER.md", "canary42file likes tea");
    for who in ["42", "43"] {
        remembered.honcho.represent(WORKSPACE, "hermes", who, &format!("canary{who}dm knows tea"));
    }
    let gateway = remembered.world.launch.start();
    let world = &remembered.world;
    // A person is let in by a code, and counts from then on: first the owner, alone, and then another.
    let is_let_in = |who: i64| {
        remembered.says(who, &format!("canary{who}dm let me in"));
        let code = |world: &World| {
            let is_code = |word: &&str| {
                word.len() == 8 && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
            };
            let sent = world.telegram.sent().into_iter().find(|sent| sent.chat == who)?;
            sent.text.split(|c: char| !c.is_ascii_alphanumeric()).find(is_code).map(str::to_owned)
        };
        world.until("a code", |world| code(world).is_some());
        let approving = world.place.launch().arg("pairing").arg("approve").arg("telegram");
        let approved = approving.arg(code(world).unwrap()).run();
        assert!(approved.status.success(), "{approved:?}");
        remembered.hears(who, &format!("canary{who}dm is in"));
    };
    is_let_in(42);
    is_let_in(43);

    let group = Chat::group(-1001, "Friends");
    let in_group = |who: i64, text: &str| world.telegram.say(&group, &User::new(who, "P"), text);
    let by_api = |who: i64, text: &str| {
        let mut body = crate::gateway::said(text);
        body["user"] = json!(format!("client{who}"));
        let session = format!("of-client-{who}");
        let answer = gateway.client.chat(&[("X-Hermes-Session-Id", &session)], &body).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(people(&answer.text()), BTreeSet::from([who.to_string()]));
    };
    // Eight operations of a kind that differ in each round, and two clients beside them: a thousand.
    thread::scope(|scope| {
        for who in [71, 72] {
            let by_api = &by_api;
            scope.spawn(move || (0..ROUNDS).for_each(|round| by_api(who, &format!("canary{who}n{round}"))));
        }
        for round in 0..ROUNDS {
            for who in [42, 43] {
                remembered.says(who, &format!("canary{who}dm{round}"));
                in_group(who, &format!("canary{who}group{round}"));
                match round % 10 {
                    3 => remembered.says(who, "/new"),
                    5 => remembered.says(who, "/undo"),
                    7 => remembered.says(who, "/memory"),
                    _ => remembered.says(who, &format!("canary{who}dm{round}more")),
                }
                match round % 10 {
                    4 => drop(in_group(who, "/new")),
                    _ => drop(in_group(who, &format!("canary{who}group{round}more"))),
                }
            }
            if round == ROUNDS / 2 {
                // What Honcho makes of what lies there by now.
                for session in remembered.sessions() {
                    let marks = people(&words(&remembered.kept(&session)).join(" "));
                    let summary = marks.iter().map(|who| format!("canary{who}summary ")).collect::<String>();
                    remembered.honcho.summarise(WORKSPACE, &session, &summary);
                }
            }
        }
    });
    for who in [42, 43] {
        remembered.says(who, &format!("canary{who}dmlast"));
        in_group(who, &format!("canary{who}grouplast"));
    }
    for (who, place) in [(42, "dm"), (43, "dm"), (42, "group"), (43, "group")] {
        let last = format!("canary{who}{place}last");
        // A chat is not written to as often as this; what was said is in no hurry to be shown.
        remembered.until(&last, |it| it.world.model.bodies().iter().any(|body| body.contains(&last)));
    }
    remembered.until("nothing waits", |remembered| remembered.jobs() == json!([]));

    let requests = world.model.requests();
    for who in [42, 43] {
        let own = format!("canary{who}dm knows tea");
        assert!(
            requests.iter().any(|request| request.to_string().contains(&own)),
            "{who} was never reminded"
        );
    }
    for request in requests {
        let text = request["messages"].to_string();
        assert!(people(&text).len() <= 1, "{text}");
        // Where others read along, no one is reminded of what they said alone.
        let is_group = marks(&text).iter().any(|mark| mark.contains("group"));
        let private = marks(&text).iter().any(|mark| mark.contains("dm"));
        assert!(!(is_group && private), "{text}");
    }
    for call in remembered.honcho.calls() {
        assert!(people(&format!("{} {}", call.path, call.body)).len() <= 1, "{call:?}");
    }
    let sessions = remembered.sessions();
    assert_eq!(sessions.len(), 6, "two alone, two in the group, two clients: {sessions:?}");
    for session in sessions {
        let kept = remembered.kept(&session);
        assert_eq!(people(&words(&kept).join(" ")).len(), 1, "{session}: {kept:?}");
    }
    for sent in world.telegram.sent() {
        let seen = people(&sent.text);
        let is_theirs = seen.iter().all(|who| *who == sent.chat.to_string() || sent.chat < 0);
        assert!(seen.len() <= 1 && is_theirs, "{}: {}", sent.chat, sent.text);
        assert!(sent.chat > 0 || !sent.text.contains("dm"), "{}", sent.text);
    }
    assert!(gateway.stop().success());
}

#[test]
fn p27_before_its_first_turn_a_session_without_a_chat_reads_no_name_that_is_a_chats_own() {
    let remembered = Remembered::by_honcho(json!({"sessionStrategy": "global"}));
    remembered.world.place.append("home/config.yaml", PATIENT);
    let gateway = remembered.world.launch.start();
    // Everybody without a chat would share this name, but a chat was called so first.
    remembered.says(42, &format!("/title {WORKSPACE}"));
    remembered.hears(42, "hello");
    remembered.until("the turn is kept", |it| it.kept(WORKSPACE).len() == 2);
    remembered.honcho.summarise(WORKSPACE, WORKSPACE, "canary42dm is secret");
    for turn in ["one", "two"] {
        gateway.client.say("at-the-desk", turn);
        let asked = remembered.world.model.requests().pop().unwrap();
        assert!(said(&asked) == turn && !asked.to_string().contains("canary"), "{turn}: {asked}");
    }
    let shared = format!("{WORKSPACE}-shared");
    remembered.until("the turns are kept", |it| words(&it.kept(&shared)) == both(&["one", "two"]));
    // The next of them is shown what they share before it has said anything that is kept.
    remembered.honcho.summarise(WORKSPACE, &shared, "sharedword");
    gateway.client.say("at-another-desk", "three");
    let asked = remembered.world.model.requests().pop().unwrap().to_string();
    assert!(asked.contains("sharedword") && !asked.contains("canary"), "{asked}");
    let own = format!("/sessions/{WORKSPACE}/context");
    assert!(remembered.honcho.calls().iter().all(|call| !call.path.contains(&own)), "no call has read there");
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

/// How much of it was seen before, by a cache that knows every request message by message, as providers' do: first the
/// tools, then what was said, each in the bytes in which it was sent.
fn cached_share(bodies: &[String]) -> f64 {
    let mut known = BTreeSet::new();
    let (mut cached, mut total) = (0, 0);
    for body in bodies {
        let body: BTreeMap<String, Box<RawValue>> = serde_json::from_str(body).unwrap();
        let messages: Vec<Box<RawValue>> = serde_json::from_str(body["messages"].get()).unwrap();
        let tools = body.get("tools").into_iter();
        let mut prefix = String::new();
        let mut fresh = false;
        for piece in tools.chain(&messages) {
            prefix.push_str(piece.get());
            total += piece.get().len();
            fresh |= known.insert(prefix.clone());
            cached += if fresh { 0 } else { piece.get().len() };
        }
    }
    cached as f64 / total as f64
}

/// A model of a cache that would not notice is none.
#[test]
fn the_cache_notices_a_byte_that_changes_at_the_beginning() {
    let body = |tools: &str, prompt: &str, turns: usize| {
        let turns: Vec<String> =
            (0..turns).map(|turn| format!(r#"{{"role":"user","content":"{turn}"}}"#)).collect();
        format!(r#"{{"tools":[{tools}],"messages":[{{"content":"{prompt}"}},{}]}}"#, turns.join(","))
    };
    let (tools, prompt) = (r#"{"name":"a"}"#, "p".repeat(3000));
    let share = |change: &dyn Fn(usize) -> String| {
        let bodies: Vec<String> = (1..=20).map(change).collect();
        cached_share(&bodies)
    };
    assert!(share(&|turn| body(tools, &prompt, turn)) > 0.9, "what only grows is cached");
    assert!(share(&|turn| body(tools, &format!("{turn}{prompt}"), turn)) < 0.1, "another prompt each time");
    assert!(
        share(&|turn| body(&format!(r#"{{"name":"{turn}"}}"#), &prompt, turn)) < 0.1,
        "other tools each time"
    );
    // The same, in another order of its fields: other bytes.
    let turned = |turn: usize| match turn % 2 {
        0 => body(r#"{"name":"a","kind":"b"}"#, &prompt, turn),
        _ => body(r#"{"kind":"b","name":"a"}"#, &prompt, turn),
    };
    assert!(share(&turned) < share(&|turn| body(tools, &prompt, turn)), "other bytes");
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
    let share = cached_share(&remembered.world.model.bodies());
    println!("{:.2} % cached; {summaries} summaries, {reviews} reviews", share * 100.0);
    assert!(share >= 0.95, "{:.1} % were cached; {summaries} summaries", share * 100.0);
    assert!(gateway.stop().success());
}
