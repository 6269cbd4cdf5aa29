//! The tools of Honcho, and people who use them at once.

use super::{CHAT, World, answer, settled, terminal, turn, wanted};
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_core::memory::{Provider, Retention};
use throughline_memory::honcho::Audience;
use throughline_servers::honcho::Fault;
use tokio::sync::Semaphore;

#[tokio::test]
async fn the_tools_answer_as_hermes_does() {
    let Some(world) = World::made_up().await else { return };
    let honcho = world.honcho();
    let scope = settled("42");
    let call = |tool: &'static str, arguments: Value| {
        let (honcho, scope) = (honcho.clone(), scope.clone());
        async move { answer(&honcho.call(&scope, wanted(tool, &arguments.to_string())).await) }
    };
    let names: Vec<String> = honcho.tools().into_iter().map(|spec| spec.name).collect();
    assert_eq!(
        names,
        ["honcho_profile", "honcho_search", "honcho_reasoning", "honcho_context", "honcho_conclude"]
    );

    let empty = call("honcho_profile", json!({})).await;
    assert_eq!(empty["result"], "No profile facts available yet.");
    assert!(empty["hint"].as_str().unwrap().starts_with("This is not an error"));
    let written = call("honcho_profile", json!({"card": ["Name: Ann", "Vegan"]})).await;
    assert_eq!(written, json!({"result": "Peer card updated (2 facts).", "card": ["Name: Ann", "Vegan"]}));
    assert_eq!(call("honcho_profile", json!({})).await, json!({"result": ["Name: Ann", "Vegan"]}));

    honcho.retain(&turn(1, "the pond freezes in May", "noted: the pond")).await.unwrap();
    let found = call("honcho_search", json!({"query": "pond"})).await;
    assert_eq!(
        found["result"],
        format!("[42 · {CHAT}] the pond freezes in May\n\n[assistant · {CHAT}] noted: the pond")
    );
    assert_eq!(
        call("honcho_search", json!({"query": "zebra"})).await["result"],
        "No relevant context found."
    );
    assert_eq!(call("honcho_search", json!({})).await["error"], "Missing required parameter: query");

    assert_eq!(call("honcho_reasoning", json!({"query": "diet?"})).await["result"], "No result from Honcho.");
    world.server.think(&world.workspace, "hermes", "42", &"Vegan. ".repeat(200));
    let long = call("honcho_reasoning", json!({"query": "diet?", "reasoning_level": "max"})).await;
    assert_eq!(long["result"].as_str().unwrap().len(), 1399); // not cut to what a turn may show
    assert!(
        call("honcho_reasoning", json!({"query": "diet?", "reasoning_level": "huge"})).await["error"]
            .is_string()
    );

    world.server.summarise(&world.workspace, CHAT, "About a pond.");
    let context = call("honcho_context", json!({})).await["result"].as_str().unwrap().to_owned();
    assert!(
        context.starts_with(
            "## Summary\nAbout a pond.\n\n## Card\nName: Ann\nVegan\n\n## Recent messages\n  [42] the pond"
        ),
        "{context}"
    );

    let exactly = json!({"error": "Exactly one of conclusion, delete_id, or list must be provided."});
    assert_eq!(call("honcho_conclude", json!({})).await, exactly);
    assert_eq!(call("honcho_conclude", json!({"conclusion": "x", "list": true})).await, exactly);
    assert_eq!(
        call("honcho_conclude", json!({"conclusion": "x", "query": "y"})).await["error"],
        "query is only valid when list is true."
    );
    assert_eq!(
        call("honcho_conclude", json!({"conclusion": "has a pond"})).await["result"],
        "Conclusion saved for user: has a pond"
    );
    let listed = call("honcho_conclude", json!({"list": true, "query": "pond"})).await;
    let id = listed["conclusions"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(listed["conclusions"][0]["content"], "has a pond");
    assert_eq!(
        call("honcho_conclude", json!({"delete_id": id})).await["result"],
        format!("Conclusion {id} deleted.")
    );
    assert!(call("honcho_conclude", json!({"delete_id": id})).await["error"].is_string());
    assert!(call("honcho_conclude", json!({"delete_id": "../../sessions"})).await["error"].is_string());
    assert_eq!(world.server.conclusions(&world.workspace).await, Vec::<Value>::new());
    assert!(answer(&honcho.call(&scope, wanted("honcho_search", "[1]")).await)["error"].is_string());
    assert!(answer(&honcho.call(&scope, wanted("honcho_dance", "{}")).await)["error"].is_string());
}

#[tokio::test]
async fn tools_that_cannot_say_so() {
    let Some(world) = World::made_up().await else { return };
    let honcho = world.honcho();
    world.server.models_down(true);
    for (tool, arguments) in [
        ("honcho_search", r#"{"query": "a"}"#),
        ("honcho_reasoning", r#"{"query": "a"}"#),
        ("honcho_conclude", r#"{"conclusion": "a"}"#),
    ] {
        let error = answer(&honcho.call(&settled("42"), wanted(tool, arguments)).await)["error"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(error.contains("500"), "{tool} {error}");
    }
    world.server.models_down(false);
    world.server.fail("POST conclusions", [Fault::DropAnswer]);
    let error = honcho.call(&settled("42"), wanted("honcho_conclude", r#"{"conclusion": "a"}"#)).await;
    assert!(error.contains("not known"), "{error}");
    assert_eq!(world.server.conclusions(&world.workspace).await.len(), 1);
}

#[tokio::test]
async fn nobody_asks_about_somebody_else_where_several_talk() {
    let Some(world) = World::made_up().await else { return };
    let place = world.workspace.as_str();
    world.server.describe(place, "hermes", "42", &["CANARY"]);
    world.server.describe(place, "hermes", "hermes", &["CANARY"]);
    world.server.think(place, "hermes", "42", "CANARY");
    world.server.think(place, "hermes", "hermes", "CANARY");
    let honcho = world.honcho();
    honcho.retain(&turn(1, "CANARY pond", "CANARY pond")).await.unwrap();
    honcho.call(&settled("42"), wanted("honcho_conclude", r#"{"conclusion": "CANARY"}"#)).await;
    let id = world.server.conclusions(place).await[0]["id"].as_str().unwrap().to_owned();
    let guest = settled("7");
    for peer in ["42", "ai", "hermes", "4.2"] {
        for (tool, arguments) in [
            ("honcho_profile", json!({"peer": peer})),
            ("honcho_profile", json!({"peer": peer, "card": ["mine now"]})),
            ("honcho_search", json!({"peer": peer, "query": "pond"})),
            ("honcho_reasoning", json!({"peer": peer, "query": "pond?"})),
            ("honcho_context", json!({"peer": peer})),
            ("honcho_conclude", json!({"peer": peer, "list": true})),
            ("honcho_conclude", json!({"peer": peer, "delete_id": id})),
        ] {
            let text = honcho.call(&guest, wanted(tool, &arguments.to_string())).await;
            assert!(answer(&text)["error"].is_string() && !text.contains("CANARY"), "{tool} {peer} {text}");
        }
    }
    assert!(!honcho.call(&guest, wanted("honcho_search", r#"{"query": "pond"}"#)).await.contains("CANARY"));
    honcho.call(&guest, wanted("honcho_conclude", &json!({"delete_id": id}).to_string())).await;
    assert_eq!(world.server.conclusions(place).await.len(), 1);
    // At the terminal sits the owner of all of it.
    for peer in ["42", "ai"] {
        assert!(
            honcho
                .call(&terminal(), wanted("honcho_profile", &json!({"peer": peer}).to_string()))
                .await
                .contains("CANARY")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_people_at_once_never_meet_in_memory() {
    let Some(world) = World::made_up().await else { return };
    let place = world.workspace.clone();
    for user in ["42", "7"] {
        world.server.represent(&place, "hermes", user, &format!("knows CANARY-{user}"));
        world.server.think(&place, "hermes", user, &format!("thinks CANARY-{user}"));
    }
    let honcho = world.honcho_with(json!({"timeout": 60}), Audience::Many);
    let doors = Arc::new(Semaphore::new(32));
    let mut tasks = Vec::new();
    for number in 0..1000u64 {
        let (user, other) = if number % 2 == 0 { ("42", "7") } else { ("7", "42") };
        let (honcho, scope, doors) = (honcho.clone(), settled(user), doors.clone());
        tasks.push(tokio::spawn(async move {
            let _inside = doors.acquire().await.unwrap();
            let text = match number % 5 {
                0 => honcho.recall(&scope, "what do you know?").await.unwrap(),
                1 => honcho.call(&scope, wanted("honcho_search", r#"{"query": "canary"}"#)).await,
                2 => honcho.call(&scope, wanted("honcho_context", "{}")).await,
                3 => honcho.call(&scope, wanted("honcho_reasoning", r#"{"query": "who?"}"#)).await,
                _ => {
                    let document = scope.document.clone().unwrap();
                    let said = format!("CANARY-{user} says {number}");
                    let key = format!("{}/{number}", scope.session.as_str());
                    let retention =
                        Retention { key, document, scope: scope.clone(), ..turn(number, &said, "noted") };
                    honcho.retain(&retention).await.map(|()| String::new()).unwrap()
                }
            };
            assert!(!text.contains(&format!("CANARY-{other}")), "{number} {text}");
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for (user, other) in [("42", "7"), ("7", "42")] {
        let kept = world.kept(&format!("agent-main-telegram-dm-{user}")).await;
        assert_eq!(kept.len(), 200);
        assert!(
            kept.iter().all(|kept| !kept.content.contains(&format!("CANARY-{other}")) && kept.peer != other)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p31_a_thousand_operations_at_once_and_no_mark_of_one_person_reaches_the_other() {
    let Some(world) = World::made_up().await else { return };
    let honcho = Arc::new(world.honcho());
    for user in ["42", "43"] {
        world.server.represent(&world.workspace, "hermes", user, &format!("canary{user} likes tea"));
    }
    let seats = Arc::new(tokio::sync::Semaphore::new(32));
    let operations = (0..1000u64).map(|number| {
        let (honcho, seats) = (honcho.clone(), seats.clone());
        tokio::spawn(async move {
            let _seat = seats.acquire().await.unwrap();
            let (user, other) = if number % 2 == 0 { ("42", "43") } else { ("43", "42") };
            let scope = settled(user);
            let said = match number % 5 {
                0 | 1 => {
                    let words = format!("canary{user} said {number}");
                    let turn = Retention {
                        key: format!("{}/{number}", scope.session),
                        document: format!("agent-main-telegram-dm-{user}"),
                        scope,
                        ..turn(number, &words, &words)
                    };
                    honcho.retain(&turn).await.unwrap();
                    String::new()
                }
                2 => honcho.recall(&scope, "tea?").await.unwrap(),
                3 => honcho.call(&scope, wanted("honcho_context", "{}")).await,
                _ => honcho.call(&scope, wanted("honcho_search", r#"{"query": "canary"}"#)).await,
            };
            assert!(!said.contains(&format!("canary{other}")), "{user} was shown {said}");
        })
    });
    for operation in operations.collect::<Vec<_>>() {
        operation.await.unwrap();
    }
    for (user, other) in [("42", "43"), ("43", "42")] {
        let kept = world.kept(&format!("agent-main-telegram-dm-{user}")).await;
        assert_eq!(kept.len(), 400, "two hundred turns of two messages");
        assert!(kept.iter().all(|kept| !kept.content.contains(&format!("canary{other}"))));
    }
}
