//! Memory outside while conversations are left, ended and stopped, with the real binary: people write on a
//! local Bot API, a stand-in keeps what Hindsight would.
//!
//! What was kept back goes out under the names it was written down with; nothing goes out where nothing was;
//! one call at a time for each conversation; and what is recalled too late is dropped.

use crate::chats::World;
use crate::gateway::{Gateway, Place};
use crate::hindsight_server::{Bank, Failing, Kept, recalled};
use crate::model::{ModelServer, last};
use serde_json::Value;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};
use throughline_servers::telegram::{Chat, User};

const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than an answer takes that was let go.
const A_WHILE: Duration = Duration::from_millis(600);

struct Banked {
    world: World,
    bank: Bank,
}

/// A request with one message and without a prompt asks for a summary.
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

    /// Turns that are written down, and wait for more of their kind or are due.
    fn waiting(&self) -> (usize, usize) {
        let store = rusqlite::Connection::open(self.world.place.file("home/state.db")).unwrap();
        store.busy_timeout(PATIENCE).unwrap();
        let sql = "SELECT count(*) FROM tl_retention WHERE state = ?1";
        let count = |state: u32| store.query_row(sql, [state], |row| row.get::<_, u32>(0)).unwrap() as usize;
        (count(0), count(1))
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
    for (nth, (who, kind)) in kinds.into_iter().enumerate() {
        banked.hears(who, &format!("first of {who}"));
        banked.orders(who, "/new");
        let first = banked.keeps(who, 1)[0].session.clone();
        banked.hears(who, &format!("second of {who}"));
        banked.hears(who, &format!("third of {who}"));
        // Of everybody before, the fourth waits.
        banked.until("two of five wait, and nothing is due", |it| it.waiting() == (nth + 2, 0));
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
    banked.until("the fourth of each waits, and nothing is due", |it| it.waiting() == (kinds.len(), 0));
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
    assert_eq!(banked.waiting(), (0, 0), "nothing waits");
    assert!(gateway.stop().success());
    let gateway = banked.world.launch.start();
    assert_eq!(banked.waiting(), (0, 0), "and nothing after a start");
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
    banked.orders(42, "/new"); // it waits for no writer
    banked.hears(42, "four");
    banked.hears(42, "five");
    // What was said after the switch goes on with the same document, and waits behind what is held.
    banked.until("all are due", |it| it.waiting() == (0, 5));
    assert!(banked.bank.open() == 1 && banked.bank.kept().is_empty(), "{:?}", banked.bank.kept());
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
fn p25_a_recall_that_is_still_on_its_way_delays_no_switch_and_is_dropped_afterwards() {
    let banked = Banked::by(1, &format!("{PLAIN}{PATIENT}"));
    let gateway = banked.world.launch.start();
    for order in ["/new", "/stop"] {
        let slow = format!("slow before {order}");
        banked.bank.hold_recall_of(&slow);
        banked.says(42, &slow);
        banked.until("the question", |it| it.bank.asked().contains(&slow));
        // A turn that waited for it would not be answered now.
        banked.orders(42, order);
        let next = format!("next after {order}");
        banked.hears(42, &next);
        banked.bank.release_recalls();
        thread::sleep(A_WHILE); // the turn that asked is gone, so that nothing tells when its answer would be there
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

/// How often the gateway has counted this event.
fn counted(gateway: &Gateway, name: &str) -> u64 {
    let counts = gateway.client.read("/api/control/counts");
    let rows = counts["data"].as_array().cloned().unwrap_or_default();
    rows.iter().find(|row| row["name"] == name).and_then(|row| row["count"].as_u64()).unwrap_or(0)
}

/// What the model was sent when it was last asked this.
fn asked(banked: &Banked, said: &str) -> String {
    let requests = banked.world.model.requests();
    let request = requests.iter().rev().find(|request| last(request) == said);
    request.unwrap_or_else(|| panic!("no request asked {said:?}")).to_string()
}

#[test]
fn p25_what_is_recalled_late_is_the_next_turns_of_the_same_person_and_dropped_after_a_switch() {
    let banked = Banked::by(1, PLAIN);
    let gateway = banked.world.launch.start();
    // Whether what comes late for one turn is shown in the next, which has nothing of its own.
    let is_shown = |name: &str, order: Option<&str>| {
        let (slow, next) = (format!("slow {name}"), format!("next {name}"));
        banked.bank.hold_recalls();
        banked.hears(42, &slow);
        banked.until("the question", |it| it.bank.asked().contains(&slow));
        assert!(!asked(&banked, &slow).contains(&recalled(&slow)), "it did not wait");
        // What the gateway does with the late answer is an event: kept, or dropped because of the switch.
        let event = if order.is_some() { "stale_recall_dropped" } else { "late_recall_kept" };
        let before = counted(&gateway, event);
        if let Some(order) = order {
            banked.orders(42, order);
        }
        banked.bank.release_recalls();
        banked.until(event, |_| counted(&gateway, event) > before);
        banked.bank.hold_recalls();
        banked.hears(43, &format!("theirs {name}"));
        banked.hears(42, &next);
        let shown = asked(&banked, &next).contains(&recalled(&slow));
        banked.bank.release_recalls();
        assert!(!asked(&banked, &format!("theirs {name}")).contains("slow"), "another person was shown it");
        shown
    };
    assert!(is_shown("without a switch", None), "the next turn of the same person is shown it");
    for order in ["/new", "/reset", "/branch", "/undo"] {
        assert!(!is_shown(&format!("before {order}"), Some(order)), "{order}");
    }
    assert!(gateway.stop().success());
}

#[test]
fn p26_a_backlog_longer_than_is_looked_at_together_goes_out_in_order_once_and_holds_up_no_other() {
    const BACKLOG: usize = 1050;
    let banked = Banked::by(1, PLAIN);
    let gateway = banked.world.launch.start();
    banked.hears(42, "turn 0.");
    let session = banked.keeps(42, 1)[0].session.clone();
    banked.bank.is_busy_for(Some(&session));
    banked.hears(42, "turn 1.");
    assert!(gateway.stop().success());
    // What ten days without the provider leave behind.
    let store = rusqlite::Connection::open(banked.world.place.file("home/state.db")).unwrap();
    for number in 2..=BACKLOG {
        let sql = "INSERT INTO tl_retention (key, provider, document, session, place, messages, state, created,
                                             updated, scope, said, replied)
                   SELECT session || '/' || (1000 + ?2), provider, document, session, ?2, messages, 1, created,
                          updated, scope, replace(said, 'turn 1.', ?3), ?3 FROM tl_retention WHERE key = ?1";
        let key = format!("{session}/2");
        let added =
            store.execute(sql, rusqlite::params![key, number as i64, format!("turn {number}.")]).unwrap();
        assert_eq!(added, 1, "{key}");
    }
    drop(store);
    let gateway = banked.world.launch.start();
    banked.hears(43, "beside it");
    assert!(banked.keeps(43, 1)[0].text.contains("beside it"), "it waits behind no other");
    assert_eq!(banked.bank.kept_of(42).len(), 1);

    banked.bank.is_busy_for(None);
    let retried = banked.world.place.launch().arg("memory").arg("retry").arg(format!("{session}/2")).run();
    assert!(retried.status.success(), "{retried:?}");
    for some in (100..=BACKLOG).step_by(50) {
        banked.keeps(42, some); // a minute for each fifty
    }
    let kept = banked.keeps(42, BACKLOG + 1);
    for (number, kept) in kept.iter().enumerate() {
        assert!(kept.text.contains(&format!("turn {number}.")), "{number}: {kept:?}");
    }
    assert_eq!((kept.len(), banked.bank.crossed()), (BACKLOG + 1, Vec::new()));
    assert!(gateway.stop().success());
}

#[test]
fn p26_for_each_answer_of_hindsight_a_reply_comes_the_status_says_so_and_each_turn_is_kept_once_in_order() {
    const OWNER: i64 = 41; // the first on the list may look into it
    let banked = Banked::by(1, PLAIN);
    let gateway = banked.world.launch.start();
    let status = || banked.world.place.launch().arg("memory").arg("status").run().stdout;
    let missed = || {
        let told = banked.world.place.launch().arg("memory").arg("status").arg("--json").run();
        serde_json::from_str::<Value>(&told.stdout).unwrap()["outside"]["recalls_missed"].as_u64().unwrap()
    };
    let mut said = Vec::new();
    for (failing, words) in [
        (Failing::With(401), "does not accept the API key (401)"),
        (Failing::With(409), "(409)"),
        (Failing::With(413), "1 refused"),
        (Failing::With(422), "1 refused"),
        (Failing::With(429), "too much to do (429)"),
        (Failing::With(500), "failed (500)"),
        (Failing::With(503), "too much to do (503)"),
        (Failing::HangingUp, "gave no answer"),
    ] {
        let before = missed();
        banked.bank.fails(Some(failing));
        let text = format!("{failing:?}.");
        banked.hears(OWNER, &text);
        banked.until(words, |_| status().contains(words));
        banked.until("the reminder is counted", |_| missed() > before);
        banked.says(OWNER, "/memory status");
        banked.world.until(words, |world| {
            world.shown().iter().rev().any(|shown| shown.contains(words) && shown.contains("memory provider"))
        });
        banked.bank.fails(None);
        said.push(text);
        banked.until("it is kept", |it| {
            let _ = it.world.place.launch().arg("memory").arg("retry").run(); // without the pause
            it.bank.kept_of(OWNER).len() >= said.len()
        });
    }
    banked.until("nothing waits", |_| status().contains("has every turn"));
    let kept = banked.bank.kept_of(OWNER);
    assert_eq!(kept.len(), said.len(), "{kept:#?}");
    assert!(kept.iter().zip(&said).all(|(kept, said)| kept.text.contains(said)), "{kept:#?}");
    assert!(gateway.stop().success());
}

#[test]
fn p25_a_recall_that_hangs_delays_a_stop_by_three_seconds_at_most() {
    let banked = Banked::by(1, &format!("{PLAIN}{PATIENT}"));
    let stops = |gateway: Gateway| {
        let began = Instant::now();
        assert!(gateway.stop().success());
        began.elapsed()
    };
    let gateway = banked.world.launch.start();
    banked.hears(42, "quick");
    let plain = stops(gateway);
    let gateway = banked.world.launch.start();
    banked.hears(42, "quick again");
    banked.bank.recall_takes(Duration::from_secs(25));
    banked.says(42, "slow");
    banked.until("the question", |it| it.bank.asked().iter().any(|asked| asked == "slow"));
    let hanging = stops(gateway);
    // A busy machine makes both of them slower.
    let most = Duration::from_secs(3) + 2 * plain + Duration::from_secs(1);
    assert!(hanging < most, "{hanging:?}, and {plain:?} without a recall");
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
    banked.until("nothing waits", |it| it.waiting() == (0, 0));
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
    banked.until("nothing waits", |it| it.waiting() == (0, 0));
    assert_eq!(banked.bank.kept().len(), 2, "a name alone says nothing: {:#?}", banked.bank.kept());
    assert!(kept[0].text.contains("User: for two\""), "{kept:?}");
    // What is answered is what the model said of it, which here repeats its question.
    assert_eq!(banked.bank.asked(), ["for two", "thank you"]);
    assert!(gateway.stop().success());
}
