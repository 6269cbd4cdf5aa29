use super::*;
use throughline_core::tool::Caller;

fn call(session: &str, arguments: Value) -> Call {
    Call {
        key: format!("{session}/1/1/0"),
        name: "todo".to_owned(),
        arguments: arguments.to_string(),
        caller: Caller::in_private(session.parse().unwrap(), "cli"),
        grant: None,
    }
}

async fn said(todo: &Todo, session: &str, arguments: Value) -> String {
    match todo.call(&call(session, arguments)).await {
        Returned::Done(done) => done.content.plain(),
        Returned::Ask { .. } => panic!("a task list asks no person"),
    }
}

fn plan() -> Value {
    json!({"todos": [
        {"id": "1", "content": "Look", "status": "completed"},
        {"id": "2", "content": "Leap", "status": "in_progress"},
        {"id": "3", "content": "Land", "status": "pending"},
    ]})
}

#[tokio::test]
async fn the_answer_is_the_text_that_hermes_gives() {
    let home = tempfile::tempdir().unwrap();
    let todo = Todo::of_home(home.path());
    assert_eq!(
        said(&todo, "s", json!({})).await,
        r#"{"todos": [], "summary": {"total": 0, "pending": 0, "in_progress": 0, "completed": 0, "cancelled": 0}}"#
    );
    let written = concat!(
        r#"{"todos": [{"id": "1", "content": "Look", "status": "completed"}, "#,
        r#"{"id": "2", "content": "Leap", "status": "in_progress"}, "#,
        r#"{"id": "3", "content": "Land", "status": "pending"}], "#,
        r#""summary": {"total": 3, "pending": 1, "in_progress": 1, "completed": 1, "cancelled": 0}}"#
    );
    assert_eq!(said(&todo, "s", plan()).await, written);
    assert_eq!(said(&todo, "s", plan()).await, written, "twice is once");
}

#[tokio::test]
async fn the_list_survives_a_restart_and_belongs_to_its_session() {
    let home = tempfile::tempdir().unwrap();
    let written = said(&Todo::of_home(home.path()), "s", plan()).await;
    let again = Todo::of_home(home.path());
    assert_eq!(said(&again, "s", json!({})).await, written);
    assert!(said(&again, "t", json!({})).await.contains(r#""total": 0"#));
    assert_eq!(
        again.reminder(&"s".parse().unwrap()).unwrap(),
        "[Your active task list was preserved across context compression]\n- [>] 2. Leap (in_progress)\n- [ ] 3. Land (pending)"
    );
    again.remove(&"s".parse().unwrap()).unwrap();
    assert_eq!(again.reminder(&"s".parse().unwrap()), None);
}

#[tokio::test]
async fn merging_changes_what_is_named_and_adds_the_rest() {
    let home = tempfile::tempdir().unwrap();
    let todo = Todo::of_home(home.path());
    said(&todo, "s", plan()).await;
    let merged = said(
        &todo,
        "s",
        json!({"merge": "true", "todos": [
            {"id": 2, "status": "Completed"},
            {"id": "4", "content": "Rest", "status": "pending"},
            {"id": "4", "content": "Rest well", "status": "pending"},
        ]}),
    )
    .await;
    let items: Value = serde_json::from_str(&merged).unwrap();
    assert_eq!(items["todos"][1], json!({"id": "2", "content": "Leap", "status": "completed"}));
    assert_eq!(items["todos"][3], json!({"id": "4", "content": "Rest well", "status": "pending"}));
    assert_eq!(items["summary"]["total"], 4);
}

#[tokio::test]
async fn bad_input_is_told_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let todo = Todo::of_home(home.path());
    let before = said(&todo, "s", plan()).await;
    for (bad, told) in [
        (json!({"todos": [{"id": "1", "content": "x", "status": "done"}]}), "must be one of"),
        (json!({"todos": ["not an item"]}), "'todos[0]' must be an object"),
        (json!({"merge": "perhaps"}), "'merge' must be a boolean"),
    ] {
        let said = said(&todo, "s", bad).await;
        assert!(said.starts_with(r#"{"error": "#) && said.contains(told), "{said}");
    }
    assert_eq!(said(&todo, "s", json!({})).await, before);
}

#[tokio::test]
async fn a_list_has_bounds() {
    let home = tempfile::tempdir().unwrap();
    let todo = Todo::of_home(home.path());
    let many: Vec<Value> =
        (0..300).map(|id| json!({"id": id, "content": "x".repeat(5000), "status": "pending"})).collect();
    let said: Value = serde_json::from_str(&said(&todo, "s", json!({ "todos": many })).await).unwrap();
    assert_eq!(said["summary"]["total"], 256);
    let content = said["todos"][0]["content"].as_str().unwrap();
    assert!(content.chars().count() == 4000 && content.ends_with("x… [truncated]"));
}

#[tokio::test]
async fn a_spoilt_file_is_an_empty_list_and_can_be_written_again() {
    let home = tempfile::tempdir().unwrap();
    let todo = Todo::of_home(home.path());
    said(&todo, "s", plan()).await;
    let file = home.path().join("throughline/todo/s.json");
    fs::write(&file, "{torn").unwrap();
    assert!(said(&todo, "s", json!({})).await.contains(r#""total": 0"#));
    assert!(said(&todo, "s", plan()).await.contains(r#""total": 3"#));
}

#[tokio::test]
async fn a_list_that_cannot_be_saved_says_so() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("throughline"), "in the way").unwrap();
    let said = said(&Todo::of_home(home.path()), "s", plan()).await;
    assert!(said.contains("could not be"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_side_by_side_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    let todo = Arc::new(Todo::of_home(home.path()));
    let calls = (0..32).map(|id| {
        let todo = Arc::clone(&todo);
        tokio::spawn(async move {
            let item = json!({"id": id, "content": "c", "status": "pending"});
            said(&todo, "s", json!({"merge": true, "todos": [item]})).await
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert!(said(&todo, "s", json!({})).await.contains(r#""total": 32"#));
}

#[test]
fn no_two_sessions_share_a_file() {
    let name = |id: &str| file_name(&id.parse().unwrap());
    assert_eq!(name("20260528_093510_66bfaec7"), "20260528_093510_66bfaec7.json");
    assert_ne!(name("a.b"), name("a_b"));
    assert_ne!(name("a%2eb"), name("a.b"));
}
