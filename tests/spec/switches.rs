//! Memory outside while conversations are left, ended and stopped, with the real binary: people write on a
//! local Bot API, a stand-in keeps what Hindsight would.
//!
//! What was kept back goes out under the names it was written down with; nothing goes out where nothing was;
//! one call at a time for each conversation; and what is recalled too late is nobody's.

use crate::bank::{Bank, Kept, recalled};
use crate::chats::World;
use crate::gateway::Place;
use crate::model::{ModelServer, last};
use serde_json::Value;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};
use throughline_servers::telegram::{Chat, User};

const PATIENCE: Duration = Duration::from_secs(60);
/// What does not come within this does not come by itself.
const A_WHILE: Duration = Duration::from_millis(600);

struct Banked {
    world: World,
    bank: Bank,
}

/// Whoever is asked one thing without a prompt is asked for a summary.
fn answer(request: &Value) -> String {
    match request["messages"].as_array().unwrap().len() {
        1 => format!("## Goal\nTo talk.\n\n## Completed Actions\n{}", "1. Talked. ".repeat(40)),
        _ => format!("re: {}", last(request)),
    }
}

impl Banked {
    /// Turns go together by so many.
    fn by(every: u64, config: &str) -> Self {
        let model = ModelServer::saying(Duration::ZERO, answer);
        let world = World::around(Place::new(), model, "TELEGRAM_ALLOWED_USERS=41,42,43,44,45");
        let bank = Bank::start();
        world.place.write("home/hindsight/config.json", bank.settings(every));
        world.place.append("home/config.yaml", config);
        Self { world, bank }
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

    /// Orders it, and reads what became of it.
    fn orders(&self, who: i64, order: &str) {
        let sent = |world: &World| world.telegram.sent().iter().filter(|sent| sent.chat == who).count();
        let before = sent(&self.world);
        self.says(who, order);
        self.world.until(order, |world| sent(world) > before);
    }

    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed() < PATIENCE, "waited for {what}; {:#?}", self.bank.kept());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn keeps(&self, who: i64, turns: usize) -> Vec<Kept> {
        self.until(&format!("{turns} turns of {who}"), |it| it.bank.kept_of(who).len() >= turns);
        self.bank.kept_of(who)
    }
}

const PLAIN: &str = "memory: {provider: hindsight, nudge_interval: 0}\n";

#[test]
fn p24_what_is_buffered_goes_out_under_the_old_document_and_lineage_on_every_kind_of_switch_and_at_a_stop() {
    let banked = Banked::by(5, PLAIN);
    let gateway = banked.world.launch.start();
    let kinds = [(41, "/new"), (42, "/reset"), (43, "/resume"), (44, "/branch"), (45, "/undo")];
    let order = |kind: &str, first: &str| match kind {
        "/resume" => format!("/resume {first}"),
        kind => kind.to_owned(),
    };
    let mut lines = Vec::new();
    for (who, kind) in kinds {
        banked.hears(who, &format!("first of {who}"));
        banked.orders(who, "/new");
        let first = banked.keeps(who, 1)[0].session.clone();
        banked.hears(who, &format!("second of {who}"));
        banked.hears(who, &format!("third of {who}"));
        thread::sleep(A_WHILE);
        assert_eq!(banked.bank.kept_of(who).len(), 1, "{kind}: two of five");
        banked.orders(who, &order(kind, &first));
        let kept = banked.keeps(who, 3);
        let old = kept[1].session.clone();
        assert_ne!(old, first);
        for (place, (kept, words)) in kept[1..].iter().zip(["second", "third"]).enumerate() {
            assert!(kept.text.contains(&format!("{words} of {who}")), "{kind}: {kept:?}");
            assert_eq!((&kept.session, kept.parent.as_ref()), (&old, Some(&first)), "{kind}: {kept:?}");
            assert!(kept.document.starts_with(&format!("{old}/")), "{kind}: {kept:?}");
            let numbers = ((place + 1).to_string(), (2 * place + 2).to_string());
            assert_eq!((kept.index.clone(), kept.message_count.clone()), numbers, "{kind}: {kept:?}");
        }
        banked.hears(who, &format!("fourth of {who}"));
        lines.push((who, kind, first, old));
    }
    thread::sleep(A_WHILE);
    assert_eq!(banked.bank.kept().len(), 15, "what was said after the switch waits for more");

    // A stop makes it due, and the next start hands it over, each to the conversation it was said in.
    assert!(gateway.stop().success());
    let gateway = banked.world.launch.start();
    for (who, kind, first, old) in &lines {
        let kept = banked.keeps(*who, 4).pop().unwrap();
        assert!(kept.text.contains(&format!("fourth of {who}")), "{kept:?}");
        match *kind {
            "/resume" => assert_eq!((&kept.session, kept.parent.as_ref()), (first, None), "{kept:?}"),
            "/undo" => assert_eq!((&kept.session, kept.parent.as_ref()), (old, Some(first)), "{kept:?}"),
            _ => {
                assert!(kept.session != *first && kept.session != *old, "{kind}: {kept:?}");
                assert_eq!(kept.parent.as_ref(), Some(old), "{kind}: {kept:?}");
            }
        }
    }
    // Where nothing is buffered nothing is written.
    for (who, kind, _, old) in &lines {
        banked.orders(*who, &order(kind, old));
    }
    thread::sleep(A_WHILE);
    assert!(gateway.stop().success());
    let gateway = banked.world.launch.start();
    thread::sleep(A_WHILE);
    assert_eq!(banked.bank.kept().len(), 20, "an empty buffer writes nothing");
    assert!(gateway.stop().success());
}

#[test]
fn p24_a_switch_while_the_writer_is_held_comes_second_and_never_are_two_calls_open_on_one_document() {
    let banked = Banked::by(2, PLAIN);
    let gateway = banked.world.launch.start();
    banked.bank.hold();
    for text in ["one", "two"] {
        banked.hears(42, text);
    }
    banked.until("the writer is held", |it| it.bank.open() == 1);
    banked.hears(42, "three");
    let began = Instant::now();
    banked.orders(42, "/new");
    assert!(began.elapsed() < Duration::from_secs(10), "a switch waits for no writer");
    banked.hears(42, "four");
    banked.hears(42, "five");
    // Another conversation is another document: it is handed over beside the first.
    thread::sleep(A_WHILE);
    assert!(banked.bank.open() <= 2 && banked.bank.kept().is_empty(), "{:?}", banked.bank.kept());
    banked.bank.release();
    let kept = banked.keeps(42, 5);
    let of = |session: &str| -> Vec<&str> {
        let mine = kept.iter().filter(|kept| kept.session == session);
        mine.map(|kept| {
            ["one", "two", "three", "four", "five"].into_iter().find(|it| kept.text.contains(it)).unwrap()
        })
        .collect()
    };
    let (old, new) = (&kept.iter().find(|kept| kept.text.contains("one")).unwrap().session, &kept[4].session);
    assert_eq!(of(old), ["one", "two", "three"]);
    let new = if new == old { &kept.iter().find(|kept| kept.session != *old).unwrap().session } else { new };
    assert_eq!(of(new), ["four", "five"]);
    assert_eq!(banked.bank.crossed(), [""; 0]);
    assert!(gateway.stop().success());
}

/// As long as the test likes.
const PATIENT: &str = "throughline: {recall_patience_ms: 30000}\n";

#[test]
fn p25_a_recall_that_is_still_on_its_way_delays_no_switch_and_is_nobodys_afterwards() {
    let banked = Banked::by(1, &format!("{PLAIN}{PATIENT}"));
    let gateway = banked.world.launch.start();
    for order in ["/new", "/stop"] {
        banked.bank.recall_takes(Duration::from_secs(4));
        let slow = format!("slow before {order}");
        banked.says(42, &slow);
        banked.until("the question", |it| it.bank.asked().contains(&slow));
        let began = Instant::now();
        banked.bank.recall_takes(Duration::ZERO);
        banked.orders(42, order);
        let next = format!("next after {order}");
        banked.hears(42, &next);
        assert!(began.elapsed() < Duration::from_secs(3), "{order} waited for what comes too late");
        thread::sleep(Duration::from_secs(4).saturating_sub(began.elapsed()) + A_WHILE);
        let after = format!("and after {next}");
        banked.hears(42, &after);
        for body in banked.world.model.bodies() {
            assert!(!body.contains(&recalled(&slow)), "{order}: {body}");
        }
        let asked = banked.world.model.bodies();
        assert!(asked.iter().any(|body| body.contains(&recalled(&next))), "the next one has its own");
    }
    assert!(gateway.stop().success());
}

#[test]
fn p25_a_recall_that_hangs_delays_a_stop_by_three_seconds_at_most() {
    let banked = Banked::by(1, &format!("{PLAIN}{PATIENT}"));
    let gateway = banked.world.launch.start();
    banked.hears(42, "quick");
    banked.bank.recall_takes(Duration::from_secs(25));
    banked.says(42, "slow");
    banked.until("the question", |it| it.bank.asked().iter().any(|asked| asked == "slow"));
    let began = Instant::now();
    assert!(gateway.stop().success());
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    let gateway = banked.world.launch.start();
    banked.world.until("the reply", |world| world.times_shown("re: slow") == 1);
    assert!(banked.world.model.bodies().iter().all(|body| !body.contains(&recalled("slow"))));
    assert!(gateway.stop().success());
}

/// That a provider is heard before a compression the simulator shows: neither of the two has anything to say.
#[test]
fn p24_p28_summaries_reviews_and_what_is_done_beside_a_conversation_are_neither_remembered_nor_reminded() {
    let banked = Banked::by(1, "memory: {provider: hindsight, nudge_interval: 2}\n");
    let config = std::fs::read_to_string(banked.world.place.file("home/config.yaml")).unwrap();
    let config = config.replace("api_key: none", "api_key: none, context_length: 40000");
    let config =
        format!("{config}throughline: {{compression_floor: 1000}}\ncompression: {{threshold: 0.5}}\n");
    banked.world.place.write("home/config.yaml", config);
    let gateway = banked.world.launch.start();
    let summarised = |world: &World| {
        world.model.requests().iter().any(|request| request["messages"].as_array().unwrap().len() == 1)
    };
    let mut turns = 0;
    while !summarised(&banked.world) && turns < 30 {
        banked.hears(42, &format!("turn {turns} {}", "word ".repeat(700).trim()));
        turns += 1;
    }
    banked.world.until("a summary", summarised);
    let reviewed = |world: &World| world.model.bodies().iter().any(|body| body.contains("[Review]"));
    banked.world.until("a review", reviewed);
    banked.orders(42, "/background look at the moon");
    let done = |world: &World| world.times_shown("re: look at the moon") >= 1;
    banked.world.until("what is done beside it", done);
    banked.hears(42, "the last turn");
    let kept = banked.keeps(42, turns + 1);
    thread::sleep(A_WHILE);
    let sessions: BTreeSet<&str> = kept.iter().map(|kept| kept.session.as_str()).collect();
    assert_eq!((sessions.len(), banked.bank.kept().len()), (1, turns + 1), "{:#?}", banked.bank.kept());
    let asked = banked.bank.asked();
    assert!(asked.len() == turns + 1 && asked.iter().all(|asked| asked.contains("turn")), "{asked:?}");
    assert!(gateway.stop().success());
}

#[test]
fn p24_of_a_skill_that_is_used_by_its_name_only_what_the_person_wrote_is_remembered() {
    let banked = Banked::by(1, PLAIN);
    let skill = "---\nname: tea\ndescription: How tea is made.\n---\n\nBoil the water first.\n";
    banked.world.place.write("home/skills/tea/SKILL.md", skill);
    let gateway = banked.world.launch.start();
    let asked = |banked: &Banked, count: usize| {
        let invoked = |body: &String| body.contains("Boil the water first.");
        banked.world.until("the skill", |world| {
            world.model.bodies().iter().filter(|it| invoked(it)).count() >= count
        });
    };
    banked.says(42, "/tea");
    asked(&banked, 1);
    banked.says(42, "/tea for two");
    asked(&banked, 2);
    banked.hears(42, "thank you");
    let kept = banked.keeps(42, 2);
    thread::sleep(A_WHILE);
    assert_eq!(banked.bank.kept().len(), 2, "a name alone says nothing: {:#?}", banked.bank.kept());
    assert!(kept[0].text.contains("User: for two\""), "{kept:?}");
    // What is answered is what the model said of it, which here repeats its question.
    assert_eq!(banked.bank.asked(), ["for two", "thank you"]);
    assert!(gateway.stop().success());
}
