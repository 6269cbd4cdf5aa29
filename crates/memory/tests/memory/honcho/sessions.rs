//! One session of Honcho for one chat.

use super::{CHAT, World, scope, terminal, turn, wanted};
use throughline_core::memory::{Provider, Retention, Scope};

#[tokio::test]
async fn p27_new_restart_and_a_later_title_keep_one_session() {
    let world = World::start().await;
    let before = scope("42");
    let named = world.honcho().naming(&before).name;
    assert_eq!(named, CHAT);
    world.honcho().retain(&Retention { document: named.clone(), ..turn(1, "one", "1") }).await.unwrap();
    // `/new`, after a restart: another conversation in the same chat.
    let after = Scope { session: "20260601_000000_aaaaaaaa".parse().unwrap(), ..scope("42") };
    let restarted = world.honcho();
    assert_eq!(restarted.naming(&after).name, named);
    restarted.retain(&Retention { document: named.clone(), ..turn(2, "two", "2") }).await.unwrap();
    // A title would give another name; what is recorded is kept, in writing and in reading.
    let titled = Scope { title: Some("Garden".into()), document: Some(named.clone()), ..after };
    assert_eq!(restarted.naming(&titled).name, "Garden");
    restarted
        .retain(&Retention { document: named.clone(), scope: titled.clone(), ..turn(3, "three", "3") })
        .await
        .unwrap();
    restarted.recall(&titled, "what was said?").await.unwrap();
    restarted.call(&titled, wanted("honcho_context", "{}")).await;
    assert_eq!(world.server.sessions(&world.workspace).await, [CHAT]);
    assert_eq!(world.kept(CHAT).await.len(), 6);
    let read: Vec<String> = world
        .server
        .calls()
        .iter()
        .filter(|call| call.operation == "GET sessions/context")
        .map(|call| call.path.clone())
        .collect();
    assert!(read.len() == 2 && read.iter().all(|path| path.contains(CHAT)), "{read:?}");
}

#[tokio::test]
async fn p27_a_name_that_may_be_somebody_elses_is_not_read() {
    let Some(world) = World::made_up().await else { return };
    world.server.summarise(&world.workspace, "diary", "CANARY of another");
    let guest = Scope { title: Some("diary".into()), ..scope("7") };
    let honcho = world.honcho();
    assert!(!honcho.recall(&guest, "what is in the diary?").await.unwrap().contains("CANARY"));
    assert!(!honcho.call(&guest, wanted("honcho_context", "{}")).await.contains("CANARY"));
    let owner = Scope { document: Some("diary".into()), ..scope("42") };
    assert!(honcho.recall(&owner, "what is in the diary?").await.unwrap().contains("CANARY"));

    // Those who share a name read where their turns will lie, if the name itself is a chat's own.
    world.server.summarise(&world.workspace, "garden", "CANARY of a chat");
    world.server.summarise(&world.workspace, "garden-shared", "Of the terminal.");
    let terminal = Scope { meant: Some("garden-shared".into()), ..terminal() };
    let context = honcho.call(&terminal, wanted("honcho_context", "{}")).await;
    for shown in [honcho.recall(&terminal, "what is new?").await.unwrap(), context] {
        assert!(shown.contains("Of the terminal.") && !shown.contains("CANARY"), "{shown}");
    }
    honcho.call(&terminal, wanted("honcho_conclude", r#"{"conclusion": "likes tea"}"#)).await;
    let concluded = world.server.conclusions(&world.workspace).await;
    assert!(concluded.iter().all(|one| one["session_id"].is_null()), "nothing lies there yet: {concluded:?}");
}
