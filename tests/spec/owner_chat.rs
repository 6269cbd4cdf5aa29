//! What a program at the API may not decide is put to the owner, in the owner's private chat (P31).

use crate::chats::World;
use crate::gateway::{Gateway, Place, until};
use crate::model::{ModelServer, calls, last, said, text};
use serde_json::{Value, json};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use throughline_servers::telegram::{Chat, User};

/// The first on the list: the owner.
const ADA: i64 = 42;
const BOB: i64 = 43;

/// Asked to `clean NAME`, the model wants to delete the directory of that name; then it says what came of that.
fn world() -> World {
    let place = Place::new();
    let model = ModelServer::answering(Duration::ZERO, |request| {
        let asked = request["messages"].as_array().unwrap().last().unwrap();
        let words = last(request);
        match (asked["role"] == "tool", words.strip_prefix("clean ")) {
            (true, _) => said(&format!("came of it: {}", text(asked))),
            (false, Some(name)) => calls(&[("terminal", json!({"command": format!("rm -rf {name}")}))]),
            (false, None) => said(&format!("re: {words}")),
        }
    });
    let world = World::around(place, model, &format!("TELEGRAM_ALLOWED_USERS={ADA},{BOB}"));
    let work = world.place.file("work");
    let config = format!("approvals: {{mode: manual}}\nterminal: {{cwd: {}}}\n", work.display());
    world.place.append("home/config.yaml", &config);
    world
}

fn asks_to_clean(gateway: &Gateway, name: &str) -> JoinHandle<Option<String>> {
    let body = json!({"messages": [{"role": "user", "content": format!("clean {name}")}]});
    let client = gateway.client.clone();
    thread::spawn(move || client.chat(&[], &body).ok().map(|reply| reply.said()))
}

/// What was sent to one person.
fn told(world: &World, person: i64) -> Vec<String> {
    let sent = world.telegram.sent().into_iter().filter(|sent| sent.chat == person);
    sent.map(|sent| sent.text).collect()
}

fn says(world: &World, person: i64, words: &str) {
    world.telegram.say(&Chat::private(person, "P"), &User::new(person, "P"), words);
}

/// The code of the question about this directory, once the owner is asked.
fn code_of(world: &World, name: &str) -> String {
    let question =
        || told(world, ADA).into_iter().find(|text| text.contains(name) && text.contains("/approve "));
    world.until("the owner is asked", |_| question().is_some());
    let question = question().unwrap();
    let (_, behind) = question.split_once("/approve ").unwrap();
    behind.chars().take_while(char::is_ascii_hexdigit).collect()
}

#[test]
fn p31_a_question_of_a_program_is_answered_by_the_owner_in_private_and_by_no_other_person() {
    let world = world();
    for name in ["first", "second", "third"] {
        std::fs::create_dir_all(world.place.file("work").join(name)).unwrap();
    }
    let gateway = world.launch.start();

    // No chat of the owner is known yet: the answer is no, at once, and says how to allow it.
    let blocked = asks_to_clean(&gateway, "first").join().unwrap().unwrap();
    assert!(blocked.contains("BLOCKED") && blocked.contains("command_allowlist"), "{blocked}");

    for (person, words) in [(ADA, "I am Ada"), (BOB, "I am Bob")] {
        says(&world, person, words);
        world.until(words, |world| told(world, person).contains(&format!("re: {words}")));
    }
    let waits = asks_to_clean(&gateway, "second");
    let code = code_of(&world, "second");
    assert!(!told(&world, BOB).iter().any(|text| text.contains(&code)), "{:?}", told(&world, BOB));

    // Another person has no say, even with the code.
    says(&world, BOB, &format!("/approve {code}"));
    world
        .until("Bob is refused", |world| told(world, BOB).iter().any(|text| text.contains("Only the owner")));
    // Without a code, the owner answers what is asked in this chat: nothing is.
    says(&world, ADA, "/approve");
    world.until("nothing is asked here", |world| told(world, ADA).len() == 3);
    assert!(world.place.file("work/second").exists());

    // The question waits through a crash.
    gateway.kill();
    assert_eq!(waits.join().unwrap(), None, "its client was cut off");
    let gateway = world.launch.start();
    says(&world, ADA, &format!("/approve {code}"));
    until("the command ran", || !world.place.file("work/second").exists());

    let refused = asks_to_clean(&gateway, "third");
    let other = code_of(&world, "third");
    assert_ne!(other, code);
    says(&world, ADA, &format!("/deny {} not today", other.to_uppercase()));
    let refused = refused.join().unwrap().unwrap();
    assert!(refused.contains("denied by user") && refused.contains("not today"), "{refused}");
    assert!(world.place.file("work/third").exists());
    says(&world, ADA, &format!("/approve {other}"));
    world.until("an answer counts once", |world| {
        told(world, ADA).iter().any(|text| text.contains("No question with the code"))
    });
    assert!(world.place.file("work/third").exists() && world.place.file("work/first").exists());
    let counts = gateway.client.read("/api/control/counts");
    let counted = |name: &str| {
        counts["data"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == name)
            .map(|row| row["count"].clone())
    };
    assert_eq!(counted("call_unattended"), Some(Value::from(1)), "{counts}");
    assert!(gateway.stop().success());
}
