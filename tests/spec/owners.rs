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

    // A conversation that Hermes had in a chat: nobody's, as far as the API can tell.
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
