//! What is kept of a turn.

use super::{CHAT, World, again, scope, turn, wanted};
use serde_json::json;
use throughline_core::memory::{MemoryError, Provider};
use throughline_memory::honcho::{Audience, Honcho, HonchoSettings, HonchoSurroundings};
use throughline_servers::honcho::Fault;

#[tokio::test]
async fn a_turn_is_one_request_and_says_who_said_what_when() {
    let world = World::start().await;
    let honcho = world.honcho_with(json!({"observationMode": "unified"}), Audience::Many);
    let mut first = turn(1, "hello", "<memory-context>old</memory-context>good morning");
    first.said.push("are you there?".into());
    honcho.retain(&first).await.unwrap();
    honcho.retain(&turn(2, "bye", "see you")).await.unwrap();
    let key = first.key.clone();
    let expected = [("42", "hello"), ("42", "are you there?"), ("hermes", "good morning")];
    let told = world.told(CHAT).await;
    assert_eq!(told[..3], expected.map(|(peer, text)| (peer.to_owned(), text.to_owned(), key.clone())));
    assert_eq!(told.len(), 5);
    let kept = world.kept(CHAT).await;
    assert_eq!(kept[1].metadata, json!({"turn_id": key, "part": 2}));
    assert!(kept[0].created_at.starts_with("2026-05-28T09:35:10"), "{}", kept[0].created_at);
    // Who watches whom was said once, behind the first word.
    assert_eq!(world.server.count("POST messages"), 2);
    assert_eq!(world.server.count("POST sessions"), 1);
    let watch = |peer: &'static str| world.server.watch(&world.workspace, CHAT, peer);
    assert_eq!(watch("42").await, json!({"observe_me": true, "observe_others": false}));
    assert_eq!(watch("hermes").await, json!({"observe_me": false, "observe_others": true}));
}

#[tokio::test]
async fn p28_reading_and_failing_create_nothing() {
    let world = World::start().await;
    let honcho = world.honcho_with(json!({"saveMessages": true}), Audience::One);
    let scope = scope("42");
    honcho.recall(&scope, "what about tea?").await.unwrap();
    for (tool, arguments) in [
        ("honcho_profile", "{}"),
        ("honcho_search", r#"{"query": "tea"}"#),
        ("honcho_context", "{}"),
        ("honcho_conclude", r#"{"list": true}"#),
    ] {
        honcho.call(&scope, wanted(tool, arguments)).await;
    }
    let unreachable = Honcho::new(
        HonchoSettings { base_url: "http://127.0.0.1:9".into(), ..honcho.settings().clone() },
        HonchoSurroundings { directory: "/".into(), repository: None, audience: Audience::Many },
    );
    assert!(matches!(unreachable.retain(&turn(1, "hello", "hi")).await, Err(MemoryError::Later(_))));
    honcho.retain(&turn(1, " ", "")).await.unwrap(); // nothing was said
    assert_eq!(world.server.sessions(&world.workspace).await, Vec::<String>::new());
    assert_eq!(honcho.before_compression(&scope, &[]).await, Ok(String::new()));
    // A fact without a conversation is kept without one.
    let saved = honcho.call(&scope, wanted("honcho_conclude", r#"{"conclusion": "likes tea"}"#)).await;
    if !world.server.is_real() {
        assert!(saved.contains("Conclusion saved for user: likes tea"), "{saved}");
    }
    assert_eq!(world.server.sessions(&world.workspace).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_long_turn_is_cut_and_a_very_long_one_takes_several_requests() {
    let world = World::start().await;
    let honcho = world.honcho_with(json!({"messageMaxChars": 100}), Audience::Many);
    let words = (0..2500).map(|number| format!("w{number:04}")).collect::<Vec<_>>().join(" ");
    let long = turn(1, &words, "ok");
    world.server.fail("POST messages", []);
    honcho.retain(&long).await.unwrap();
    let kept = world.kept(CHAT).await;
    assert!(kept.len() > 150, "{}", kept.len());
    let told: Vec<&str> =
        kept.iter().flat_map(|kept| kept.content.trim_start_matches("[continued] ").split(' ')).collect();
    assert_eq!(told.join(" "), format!("{words} ok"));
    let parts: Vec<u64> = kept.iter().map(|kept| kept.metadata["part"].as_u64().unwrap()).collect();
    assert_eq!(parts, (1..=kept.len() as u64).collect::<Vec<_>>());
    assert_eq!(world.server.count("POST messages"), kept.len().div_ceil(100));
}

#[tokio::test]
async fn of_several_requests_only_what_is_missing_is_sent_again() {
    let world = World::start().await;
    let honcho = world.honcho_with(json!({"messageMaxChars": 100}), Audience::Many);
    let words = (0..2500).map(|number| format!("w{number:04}")).collect::<Vec<_>>().join(" ");
    let long = turn(1, &words, "ok");
    world.server.fail("POST messages", [Fault::DropAnswer]);
    assert!(matches!(honcho.retain(&long).await, Err(MemoryError::Unknown(_))));
    world.server.fail("POST messages", [Fault::Status(401)]);
    assert!(matches!(honcho.retain(&again(&long)).await, Err(MemoryError::Unknown(_))));
    honcho.retain(&again(&long)).await.unwrap();
    let kept = world.kept(CHAT).await;
    let parts: Vec<u64> = kept.iter().map(|kept| kept.metadata["part"].as_u64().unwrap()).collect();
    assert_eq!(parts, (1..=kept.len() as u64).collect::<Vec<_>>());
}
