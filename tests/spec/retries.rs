//! A client that asks again, and what it may expect.

use crate::gateway::{Place, said, until};
use crate::model::ModelServer;
use serde_json::json;
use std::time::Duration;

const SESSION: &str = "X-Hermes-Session-Id";
const KEY: &str = "Idempotency-Key";

#[test]
fn p8_words_that_failed_once_can_be_said_again() {
    let place = Place::new();
    let failing =
        json!({"rules": [{"when": {"contains": "yes"}, "fail": "refused", "message": "No.", "times": 1}]});
    let gateway = place.rehearsing(&failing).start();
    assert_eq!(gateway.client.say("talk", "yes").status, 400);
    assert_eq!(gateway.client.say("talk", "hello").status, 200);
    let again = gateway.client.say("talk", "yes");
    assert_eq!(again.status, 200, "{}", again.text());
    assert!(again.said().contains("“yes”"));
    let users = gateway.client.transcript("talk").into_iter().filter(|(role, _)| role == "user");
    assert_eq!(users.map(|(_, text)| text).collect::<Vec<_>>(), ["yes", "hello", "yes"]);
}

#[test]
fn p7_an_answer_is_found_by_its_key_after_its_session_has_ended() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({})).start();
    let headers = [(SESSION, "short"), (KEY, "k1")];
    let first = gateway.client.chat(&headers, &said("only once")).unwrap();
    assert_eq!(first.status, 200);
    let order =
        gateway.client.post("/api/sessions/short/commands", &[], &json!({"command": "/new"})).unwrap();
    assert_eq!(order.status, 200, "{}", order.text());
    let again = gateway.client.chat(&headers, &said("only once")).unwrap();
    assert_eq!((again.status, again.text()), (200, first.text()));
    assert_eq!(gateway.client.chat(&headers, &said("something else")).unwrap().status, 422);
    assert_eq!(gateway.client.say("short", "new words").status, 409);
    assert_eq!(place.asked().len(), 1);
}

#[test]
fn p8_a_message_that_waited_behind_new_is_answered_with_the_agents_own_prompt() {
    let place = Place::new();
    place.write("home/SOUL.md", "You are Ada.");
    let model = ModelServer::start(Duration::ZERO);
    place.write("home/config.yaml", format!("model: {}\n", model.setting("m")));
    model.hold();
    let gateway = place.launch().start();
    let client = &gateway.client;
    let status = |name: &str| client.read("/api/control/status")[name].clone();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| client.say("line", "first"));
        until("the first is at work", || status("running_turns") == 1);
        let order = scope
            .spawn(|| client.post("/api/sessions/line/commands", &[], &json!({"command": "/new"})).unwrap());
        until("/new waits", || status("waiting_inputs") == 1);
        let second = scope.spawn(|| client.say("line", "second"));
        until("the second waits behind it", || status("waiting_inputs") == 2);
        model.release();
        assert_eq!(first.join().unwrap().said(), "re: first");
        assert_eq!(second.join().unwrap().said(), "re: second");
        assert_eq!(order.join().unwrap().status, 200);
    });
    let asked = model.requests();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked.iter().all(|request| request.to_string().contains("You are Ada.")), "{asked:?}");
}
