//! A client that asks again, and what it may expect.

use crate::gateway::{Place, said, until};
use crate::model::ModelServer;
use serde_json::json;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

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

/// Passes on what comes to `from`, as a server that has just been started there would take it.
fn forwards(from: SocketAddr, to: SocketAddr) {
    let listener = TcpListener::bind(from).unwrap();
    thread::spawn(move || {
        for there in listener.incoming().flatten() {
            let Ok(here) = TcpStream::connect(to) else { return };
            for (mut from, mut to) in [(there.try_clone().unwrap(), here.try_clone().unwrap()), (here, there)]
            {
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
}

#[test]
fn p7_p30_a_program_hears_within_two_seconds_that_no_model_is_there_and_its_retry_is_the_same_turn() {
    let place = Place::new();
    let model = ModelServer::start(Duration::ZERO);
    let gone = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let dead = model.setting("gpt-dead").replace(&model.address.to_string(), &gone.to_string());
    place.write("home/config.yaml", format!("model: {dead}\n"));
    let launch = place.launch();
    let gateway = launch.start();
    let mut streaming = said("only once");
    streaming["stream"] = json!(true);
    for (name, body, status) in [("whole", said("only once"), 503), ("stream", streaming, 200)] {
        let began = Instant::now();
        let failed = gateway.client.chat(&[(SESSION, name), (KEY, name)], &body).unwrap();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "{name}: after {took:?}");
        assert_eq!(failed.status, status, "{name}: {}", failed.text());
        for words in ["model_unavailable", "did not answer", &gone.to_string(), "Check that the server is up"]
        {
            assert!(failed.text().contains(words), "{name}: {words:?} is not in {}", failed.text());
        }
    }
    let status = launch.clone().arg("status").run();
    assert!(status.stdout.contains("the model does not answer"), "{}", status.stdout);

    forwards(gone, model.address);
    let headers = [(SESSION, "whole"), (KEY, "whole")];
    let answered = gateway.client.chat(&headers, &said("only once")).unwrap();
    assert_eq!((answered.status, answered.said().as_str()), (200, "re: only once"));
    let users = gateway.client.transcript("whole").into_iter().filter(|(role, _)| role == "user");
    assert_eq!(users.map(|(_, text)| text).collect::<Vec<_>>(), ["only once"]);
    assert_eq!(model.requests().len(), 1);
    let status = launch.clone().arg("status").run();
    assert!(!status.stdout.contains("the model does not answer"), "{}", status.stdout);
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
