//! Requests whose outcome is unknown, and what each answer of the server means.

use super::{CHAT, PATIENT, World, again, scope, settled, turn};
use serde_json::{Value, json};
use std::time::Duration;
use throughline_core::memory::{MemoryError, Provider};
use throughline_memory::honcho::settings::{SettingsFile, SettingsSources};
use throughline_memory::honcho::{Audience, Honcho, HonchoSettings, HonchoSurroundings};
use throughline_servers::HonchoServer;
use throughline_servers::honcho::Fault;

#[tokio::test]
async fn p26_what_arrived_without_an_answer_is_not_sent_again() {
    for fault in [
        Fault::DropAnswer,
        Fault::HangAfter,
        Fault::StatusAfter(500),
        Fault::StatusAfter(502),
        Fault::StatusAfter(503),
        Fault::StatusAfter(408),
        Fault::StatusAfter(429),
        Fault::CommitLater(Duration::from_millis(150)),
    ] {
        let world = World::start().await;
        let honcho = world.honcho();
        world.server.fail("POST messages", [fault.clone()]);
        let first = turn(1, "hello", "hi");
        let outcome = honcho.retain(&first).await;
        assert!(matches!(outcome, Err(MemoryError::Unknown(_))), "{fault:?} {outcome:?}");
        // Another process, which knows nothing but the row.
        world.honcho().retain(&again(&first)).await.unwrap();
        honcho.retain(&again(&first)).await.unwrap();
        honcho.retain(&turn(2, "and now?", "still here")).await.unwrap();
        let told = world.told(CHAT).await;
        let texts: Vec<&str> = told.iter().map(|(_, text, _)| text.as_str()).collect();
        assert_eq!(texts, ["hello", "hi", "and now?", "still here"], "{fault:?}");
        assert_eq!(world.server.count("POST messages"), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn p26_what_did_not_arrive_is_sent_again_and_says_so() {
    for fault in [
        Fault::DropRequest,
        Fault::Hang,
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(429),
        Fault::Page,
    ] {
        let world = World::start().await;
        let honcho = world.honcho();
        world.server.fail("POST messages", [fault.clone()]);
        let first = turn(1, "hello", "hi");
        let outcome = honcho.retain(&first).await;
        assert!(matches!(outcome, Err(MemoryError::Unknown(_))), "{fault:?} {outcome:?}");
        honcho.retain(&again(&first)).await.unwrap();
        let kept = world.kept(CHAT).await;
        assert_eq!(kept.len(), 2, "{fault:?}");
        assert_eq!(kept[0].metadata, json!({"turn_id": first.key, "part": 1, "resent": true}), "{fault:?}");
    }
}

#[tokio::test]
async fn p26_nothing_is_sent_again_while_the_server_may_still_be_at_it() {
    let world = World::start().await;
    let honcho = world.honcho().settling(PATIENT);
    honcho.retain(&turn(1, "hello", "hi")).await.unwrap();
    tokio::time::sleep(PATIENT).await; // the provider is older than any doubt
    let late = turn(2, "late", "later");
    world.server.fail("POST messages", [Fault::CommitBehind("POST messages/list")]);
    assert!(matches!(honcho.retain(&late).await, Err(MemoryError::Unknown(_))));
    honcho.retain(&again(&late)).await.unwrap();
    assert_eq!(world.kept(CHAT).await.len(), 4);
}

#[tokio::test]
async fn p26_if_it_cannot_be_looked_up_nothing_is_sent() {
    let world = World::start().await;
    let honcho = world.honcho();
    world.server.fail("POST messages", [Fault::DropAnswer]);
    let first = turn(1, "hello", "hi");
    honcho.retain(&first).await.unwrap_err();
    world.server.fail(
        "POST messages/list",
        [
            Fault::Status(401),
            Fault::Status(422),
            Fault::Status(500),
            Fault::Hang,
            Fault::DropRequest,
            Fault::DropRequest,
            Fault::Page,
        ],
    );
    for _ in 0..6 {
        let outcome = honcho.retain(&again(&first)).await;
        assert!(matches!(outcome, Err(MemoryError::Unknown(_))), "{outcome:?}");
    }
    honcho.retain(&again(&first)).await.unwrap();
    assert_eq!(world.kept(CHAT).await.len(), 2);
    assert_eq!(world.server.count("POST messages"), 1);
}

#[tokio::test]
async fn a_turn_marked_as_tried_that_never_left_is_sent() {
    let world = World::start().await;
    world.honcho().retain(&again(&turn(1, "hello", "hi"))).await.unwrap();
    assert_eq!(world.kept(CHAT).await.len(), 2);
}

#[tokio::test]
async fn what_an_answer_means() {
    let world = World::start().await;
    let honcho = world.honcho();
    let secret = turn(1, "my secret is CANARY", "hush");
    for (status, is_later) in [
        (400, false),
        (401, true),
        (402, true),
        (403, true),
        (404, true),
        (405, true),
        (409, true),
        (413, false),
        (415, false),
        (422, false),
        (307, true),
    ] {
        world.server.fail("POST messages", [Fault::Status(status)]);
        let outcome = honcho.retain(&secret).await.unwrap_err();
        match is_later {
            true => assert!(matches!(outcome, MemoryError::Later(_)), "{status} {outcome:?}"),
            false => assert!(matches!(outcome, MemoryError::Refused(_)), "{status} {outcome:?}"),
        }
        // A complaint repeats what was sent; ours does not.
        assert!(
            !outcome.to_string().contains("CANARY") && outcome.to_string().contains(&status.to_string()),
            "{outcome}"
        );
    }
    assert!(world.kept(CHAT).await.is_empty());
    // A person who is not introduced behind the first turn is introduced before the next.
    world.server.fail("POST sessions", [Fault::Status(503)]);
    world.honcho().retain(&secret).await.unwrap();
    assert_eq!(world.kept(CHAT).await.len(), 2);
    world.server.fail(
        "POST sessions",
        [Fault::Status(503), Fault::DropAnswer, Fault::DropAnswer, Fault::Status(401)],
    );
    let second = turn(2, "and", "so on");
    for _ in 0..3 {
        let outcome = world.honcho().retain(&second).await;
        assert!(matches!(outcome, Err(MemoryError::Later(_))), "nothing was said yet: {outcome:?}");
    }
    // Too many who watch: what is said is kept all the same.
    world.server.fail("POST sessions", [Fault::Status(422)]);
    world.honcho().retain(&second).await.unwrap();
    assert_eq!(world.kept(CHAT).await.len(), 4);
}

#[tokio::test]
async fn p28_a_session_begins_with_its_first_message_and_with_nothing_else() {
    let world = World::start().await;
    let first = turn(1, "hello", "hi");
    let refused = [401, 409, 413, 422, 429, 500, 503].map(Fault::Status);
    for fault in refused.into_iter().chain([Fault::DropRequest, Fault::Hang, Fault::Page]) {
        world.server.fail("POST messages", [fault.clone()]);
        world.honcho().retain(&first).await.unwrap_err();
        assert_eq!(world.server.sessions(&world.workspace).await, [""; 0], "{fault:?}");
    }
    assert_eq!(world.server.count("POST sessions"), 0);
    world.honcho().retain(&first).await.unwrap();
    assert_eq!(world.server.sessions(&world.workspace).await, [CHAT]);
    // From then on who watches whom is said before a turn.
    let before = world.server.calls().len();
    world.honcho().retain(&turn(2, "and", "so on")).await.unwrap();
    let calls: Vec<String> =
        world.server.calls()[before..].iter().map(|call| call.operation.clone()).collect();
    assert_eq!(calls, ["POST messages/list", "POST sessions", "POST messages"]);
}

#[tokio::test]
async fn p26_a_server_that_asks_to_be_left_alone_is_by_every_call_and_then_has_each_turn_once() {
    for status in [429, 503] {
        let world = World::start().await;
        let honcho = world.honcho();
        honcho.retain(&turn(1, "hello", "hi")).await.unwrap();
        world.server.fail("POST messages", [Fault::Busy(status, 2)]);
        let second = turn(2, "and now?", "still here");
        // It may have arrived: the program that answers so is not always the server itself.
        assert!(matches!(honcho.retain(&second).await, Err(MemoryError::Unknown(_))), "{status}");
        let asked = world.server.calls().len();
        let Err(MemoryError::Busy { words, after }) = honcho.retain(&again(&second)).await else {
            panic!("{status}: it was not left alone")
        };
        assert!(words.contains("left alone") && after <= Duration::from_secs(2), "{words} {after:?}");
        let reading = honcho.recall(&settled("42"), "what is new?").await;
        assert!(matches!(reading, Err(MemoryError::Busy { .. })), "{status}: {reading:?}");
        assert_eq!(world.server.calls().len(), asked, "{status}: nothing was sent meanwhile");
        tokio::time::sleep(after).await;
        honcho.retain(&again(&second)).await.unwrap();
        assert_eq!(world.kept(CHAT).await.len(), 4, "{status}");
    }
    // Who asks for nothing waits for nothing, and who asks for a year does not get it.
    let world = World::start().await;
    let honcho = world.honcho();
    world.server.fail("POST messages", [Fault::Status(429), Fault::Busy(503, 31_536_000)]);
    honcho.retain(&turn(1, "hello", "hi")).await.unwrap_err();
    honcho.retain(&turn(1, "hello", "hi")).await.unwrap_err();
    let Err(MemoryError::Busy { after, .. }) = honcho.retain(&turn(1, "hello", "hi")).await else {
        panic!("it was not left alone")
    };
    assert!(after <= Duration::from_secs(300), "{after:?}");
}

#[tokio::test]
async fn a_server_that_has_just_failed_costs_the_next_turn_nothing() {
    let world = World::start().await;
    let honcho = world.honcho();
    for number in 1..=4 {
        world.server.fail("POST messages", [Fault::Status(500)]);
        world.server.fail("GET peers/context", [Fault::Status(500)]);
        honcho.retain(&turn(number * 2, "lost", "lost")).await.unwrap_err();
        honcho.recall(&settled("42"), "what?").await.unwrap_err();
        honcho.recall(&settled("42"), "what?").await.unwrap();
        honcho.retain(&turn(number * 2 + 1, "fine", "fine")).await.unwrap();
    }
    assert_eq!(world.kept(CHAT).await.len(), 8);
}

#[tokio::test]
async fn a_wrong_key_is_said_and_not_shown() {
    let server = HonchoServer::start_with(Some("right-key-12345")).await;
    let with = |key: &str| {
        let text = json!({"baseUrl": server.base(), "workspace": "w", "hosts": {"hermes": {"apiKey": key}}})
            .to_string();
        let files = [SettingsFile { path: "honcho.json", text: &text }];
        let settings =
            HonchoSettings::parse(&SettingsSources { files: &files, ..SettingsSources::default() }, |_| None)
                .unwrap();
        Honcho::new(
            settings,
            HonchoSurroundings { directory: "/".into(), repository: None, audience: Audience::Many },
        )
    };
    let wrong = with("wrong-key-12345");
    let error = wrong.retain(&turn(1, "hello", "hi")).await.unwrap_err();
    assert!(
        matches!(&error, MemoryError::Later(words) if words.contains("apiKey") && words.contains("401")),
        "{error:?}"
    );
    assert!(wrong.recall(&scope("42"), "tea?").await.unwrap_err().to_string().contains("401"));
    assert!(!format!("{error:?}").contains("wrong-key"));
    with("right-key-12345").retain(&turn(1, "hello", "hi")).await.unwrap();
    assert_eq!(server.messages("w", CHAT).await.len(), 2);
}

#[test]
fn how_often_turns_are_handed_over() {
    let every = |more: Value| {
        let mut text = json!({"baseUrl": "http://127.0.0.1:9"});
        text.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let text = text.to_string();
        let files = [SettingsFile { path: "honcho.json", text: &text }];
        let settings =
            HonchoSettings::parse(&SettingsSources { files: &files, ..SettingsSources::default() }, |_| None)
                .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        Honcho::new(
            settings,
            HonchoSurroundings { directory: "/".into(), repository: None, audience: Audience::Many },
        )
        .every()
    };
    assert_eq!(every(json!({})), Some(1));
    assert_eq!(every(json!({"writeFrequency": "turn"})), Some(1));
    assert_eq!(every(json!({"writeFrequency": 5})), Some(5));
    assert!(every(json!({"writeFrequency": "session"})).unwrap() > 1_000_000);
    assert_eq!(every(json!({"saveMessages": false})), None);
}
