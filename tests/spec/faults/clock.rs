//! The clock on the wall jumps, by a year either way: nothing is lost, doubled or out of order, no conversation ends
//! that goes on, nothing waits for the clock to come back, and nothing spins.

use super::{Control, Shim, assert_at_rest, until};
use crate::chats::World;
use crate::gateway::{Client, Gateway, Place};
use crate::model::text;
use serde_json::json;
use std::fs;
use std::time::{Duration, Instant};
use throughline_servers::telegram::{Chat, User};

const YEAR: i64 = 365 * 24 * 3600;
const ADA: i64 = 42;

/// What lies between two moments that a test sees.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The model is being asked, and others wait.
    InATurn,
    /// The same, and the gateway is killed and started by the other time.
    AcrossAKill,
    /// Everything is answered, and the gateway is stopped and started by the other time.
    AcrossAStop,
}

#[test]
fn p7_p8_p9_when_the_clock_jumps_by_a_year_nothing_is_lost_doubled_or_out_of_order() {
    let world = World::letting_in(Duration::ZERO, &format!("TELEGRAM_ALLOWED_USERS={ADA}"));
    let shim = Shim::in_place(&world.place);
    let launch = shim.under(world.launch.clone());
    let mut gateway = launch.start();
    let (chat, user) = (Chat::private(ADA, "Ada"), User::new(ADA, "Ada"));
    let mut sent: Vec<String> = Vec::new();
    let rounds = [
        (Moment::InATurn, YEAR),
        (Moment::AcrossAKill, 0),
        (Moment::InATurn, -YEAR),
        (Moment::AcrossAStop, 0),
        (Moment::AcrossAKill, YEAR),
        (Moment::AcrossAStop, -YEAR),
        (Moment::InATurn, 0),
    ];
    for (round, (moment, shift)) in rounds.into_iter().enumerate() {
        let mut say = |what: &str| {
            let words = format!("{what} of round {round}");
            world.telegram.say(&chat, &user, &words);
            sent.push(words.clone());
            words
        };
        world.model.hold();
        let first = say("first");
        world.until("the model is asked", |world| world.model.asked().contains(&first));
        let last = match moment {
            Moment::InATurn | Moment::AcrossAKill => {
                say("second");
                world.until("it is taken in", |world| world.telegram.unacknowledged() == 0);
                if let Moment::AcrossAKill = moment {
                    gateway.kill();
                    shim.set(Control::ShiftSeconds, shift);
                    gateway = launch.start();
                } else {
                    shim.set(Control::ShiftSeconds, shift);
                }
                let last = say("third");
                world.until("it is taken in", |world| world.telegram.unacknowledged() == 0);
                world.model.release();
                last
            }
            Moment::AcrossAStop => {
                world.model.release();
                world.until("it is answered", |world| is_answered(world, &first));
                assert!(gateway.stop().success());
                shim.set(Control::ShiftSeconds, shift);
                gateway = launch.start();
                say("second")
            }
        };
        world.until("it is answered", |world| is_answered(world, &last));
    }
    let requests = world.model.requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap();
    let said: Vec<String> = messages.iter().filter(|it| it["role"] == "user").map(text).collect();
    assert_eq!(said, sent, "each once, in order, in one conversation");
    // Messages that waited together share a turn, and so an answer.
    let shown = world.shown();
    for (nth, reply) in shown.iter().enumerate() {
        assert!(!shown[..nth].contains(reply), "shown twice: {reply}");
    }
    assert_sound(&gateway);
    assert_at_rest(&gateway, "after all jumps");
    assert!(gateway.stop().success());
}

fn is_answered(world: &World, words: &str) -> bool {
    let reply = format!("re: {words}");
    world.shown().iter().any(|shown| shown.ends_with(&reply))
}

fn assert_sound(gateway: &Gateway) {
    assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
}

/// A machine whose clock is set right only after the gateway has begun.
#[test]
fn p8_a_home_that_began_by_a_clock_that_was_ahead_answers_once_the_clock_is_set_right() {
    let world = World::letting_in(Duration::ZERO, &format!("TELEGRAM_ALLOWED_USERS={ADA}"));
    let shim = Shim::in_place(&world.place);
    shim.set(Control::ShiftSeconds, YEAR);
    let launch = shim.under(world.launch.clone());
    let gateway = launch.start();
    shim.set(Control::ShiftSeconds, 0);
    let say = |words: &str| {
        world.telegram.say(&Chat::private(ADA, "Ada"), &User::new(ADA, "Ada"), words);
        world.until(words, |world| is_answered(world, words));
    };
    say("while it runs");
    assert_eq!(gateway.client.say("by-api", "and here").said(), "re: and here");
    assert!(gateway.stop().success());
    let gateway = launch.start();
    say("after a start");
    assert_sound(&gateway);
}

#[test]
fn p31_a_question_expires_in_its_time_also_if_the_clock_was_set_back() {
    let place = Place::new();
    fs::create_dir_all(place.file("work/old")).unwrap();
    let work = place.file("work");
    place.write(
        "home/config.yaml",
        format!("terminal: {{cwd: {}}}\napprovals: {{mode: manual, timeout: 2}}\n", work.display()),
    );
    let call = json!([{"name": "terminal", "arguments": {"command": "rm -rf old"}}]);
    let shim = Shim::in_place(&place);
    let launch = shim.under(place.rehearsing(&json!({"rules": [
        {"when": {"contains": "tidy", "result": false}, "call": call},
        {"when": {"contains": "tidy", "result": true}, "say": "done"},
    ]})));
    let gateway = launch.start();
    let asks = |client: &Client| client.read("/api/approvals")["data"].as_array().cloned().unwrap();
    let mut body = crate::gateway::said("tidy");
    body["stream"] = json!(true);
    let headers = [("X-Hermes-Session-Id", "s"), ("X-Throughline-Approvals", "ask")];
    let body = body.to_string();
    let _open = gateway.client.send("POST", "/v1/chat/completions", &headers, body.as_bytes()).unwrap();
    until("it asks", || asks(&gateway.client).len() == 1);
    gateway.kill();
    shim.set(Control::ShiftSeconds, -YEAR);
    let gateway = launch.start();
    let began = Instant::now();
    until("no answer came", || asks(&gateway.client).is_empty());
    until("the turn goes on", || {
        gateway.client.transcript("s").last().is_some_and(|(_, text)| text == "done")
    });
    println!("expired after {:?}", began.elapsed());
    assert!(place.file("work/old").exists(), "silence is a no");
}

/// The id of the conversation that a chat leads to.
fn session_of(gateway: &Gateway, words: &str) -> String {
    let sessions = gateway.client.read("/api/sessions");
    let found = sessions["data"].as_array().unwrap().iter().find(|session| {
        let id = session["id"].as_str().unwrap();
        gateway.client.transcript(id).iter().any(|(_, text)| text == words)
    });
    found.unwrap_or_else(|| panic!("{words}: {sessions}"))["id"].as_str().unwrap().to_owned()
}

#[test]
fn p1_p20_idle_conversations_end_by_the_clock_and_one_that_was_set_back_keeps_and_ends_them_as_ever() {
    let world = World::letting_in(Duration::ZERO, &format!("TELEGRAM_ALLOWED_USERS={ADA}"));
    world.place.append("home/config.yaml", "session_reset: {mode: idle, idle_minutes: 60}\n");
    let shim = Shim::in_place(&world.place);
    let launch = shim.under(world.launch.clone());
    let gateway = launch.start();
    let say = |words: &str| {
        world.telegram.say(&Chat::private(ADA, "Ada"), &User::new(ADA, "Ada"), words);
        world.until(words, |world| is_answered(world, words));
        // A conversation with a reply on its way does not end.
        until("it is delivered", || gateway.client.read("/api/control/status")["undelivered"] == 0);
    };
    say("one");
    shim.set(Control::ShiftSeconds, YEAR);
    say("two"); // an hour has passed, by every clock: it begins the next conversation
    assert_ne!(session_of(&gateway, "one"), session_of(&gateway, "two"));
    // Set right: what was said last lies in the future, and the conversation goes on.
    shim.set(Control::ShiftSeconds, 0);
    say("three");
    assert_eq!(session_of(&gateway, "three"), session_of(&gateway, "two"));
    // From now on it is as old as its last message, and ends as any other.
    shim.set(Control::ShiftSeconds, 2 * 3600);
    say("four");
    assert_ne!(session_of(&gateway, "four"), session_of(&gateway, "three"));
    let resets = |shown: &&String| shown.contains("Session automatically reset");
    assert_eq!(world.shown().iter().filter(resets).count(), 2, "{:?}", world.shown());
    assert_sound(&gateway);
    assert_at_rest(&gateway, "after all jumps");
}
