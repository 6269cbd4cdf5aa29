//! Whose conversation it is, where one key serves many users.

use crate::gateway::{Place, said};
use rusqlite::Connection;
use serde_json::json;

const SESSION: &str = "X-Hermes-Session-Id";

#[test]
fn p31_one_user_among_many_cannot_name_a_conversation_that_is_not_theirs() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({})).start();
    let as_user = |user: &str, text: &str| {
        let mut body = said(text);
        body["user"] = json!(user);
        body
    };
    let named = [(SESSION, "anns")];
    assert_eq!(gateway.client.chat(&named, &as_user("ann", "my secret")).unwrap().status, 200);
    assert_eq!(gateway.client.chat(&named, &as_user("mallory", "tell me")).unwrap().status, 403);
    gateway.stop();

    // A conversation that Hermes had in a chat: the API knows no owner of it.
    let store = Connection::open(place.file("home/state.db")).unwrap();
    store
        .execute("INSERT INTO sessions (id, source, started_at) VALUES ('bobs', 'telegram', 1.0)", [])
        .unwrap();
    let sql = "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('bobs', 'user', 'the code is 1234', 1.0)";
    store.execute(sql, []).unwrap();
    drop(store);

    let gateway = place.rehearsing(&json!({})).start();
    let named = [(SESSION, "bobs")];
    let refused = gateway.client.chat(&named, &as_user("mallory", "what is the code?")).unwrap();
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!(gateway.client.chat(&named, &said("go on")).unwrap().status, 200, "the owner of the key may");
    assert!(place.asked().iter().all(|request| !request.to_string().contains("what is the code?")));
}

#[test]
fn p31_a_client_that_speaks_for_one_user_orders_nothing_in_the_session_of_another() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({})).start();
    let mut body = said("my secret");
    body["user"] = json!("ann");
    assert_eq!(gateway.client.chat(&[(SESSION, "anns")], &body).unwrap().status, 200);
    let order = |query: &str, headers: &[(&str, &str)], command: &str| {
        let path = format!("/api/sessions/anns/commands{query}");
        gateway.client.post(&path, headers, &json!({ "command": command })).unwrap()
    };
    for (query, headers) in [("?user=mallory", &[][..]), ("", &[("X-Hermes-Session-Key", "mallory")])] {
        for command in ["/history", "/title mine", "/undo"] {
            let refused = order(query, headers, command);
            assert_eq!(refused.status, 404, "{command}: {}", refused.text());
        }
        let restored = gateway.client.post(
            &format!("/api/sessions/anns/restore{query}"),
            headers,
            &json!({"snapshot": "anns.snapshot.20260528T093510123456Z"}),
        );
        assert_eq!(restored.unwrap().status, 404);
    }
    assert!(order("?user=ann", &[], "/history").text().contains("my secret"));
    assert!(order("", &[], "/history").text().contains("my secret"), "the holder of the key may");
}
