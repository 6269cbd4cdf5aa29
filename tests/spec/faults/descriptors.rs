//! No descriptor is free: what was accepted is finished and answered, nothing spins, and as soon as one is free again
//! waiting connections are accepted.

use super::{assert_at_rest, until};
use crate::gateway::{Gateway, Place, said};
use crate::model::ModelServer;
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread::spawn;
use std::time::Duration;

fn open_files(gateway: &Gateway) -> usize {
    fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().count()
}

fn limit(gateway: &Gateway, files: &str) {
    let pid = gateway.pid().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={files}:")]).status();
    assert!(set.unwrap_or_else(|error| panic!("this test needs prlimit: {error}")).success());
}

/// A client that has shown its key, was answered, and keeps its connection.
fn idle(gateway: &Gateway) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.client.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let key = &gateway.client.key;
    write!(stream, "GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    stream
}

#[test]
fn p8_p30_without_a_free_descriptor_what_was_accepted_is_answered_nothing_spins_and_the_remedy_is_named() {
    let (place, model) = (Place::new(), ModelServer::start(Duration::ZERO));
    place.write("home/config.yaml", format!("model: {}\n", model.setting("test-model")));
    let gateway = place.launch().start();
    gateway.client.say("steady", "before").said();
    model.hold();
    let mut body = said("accepted");
    body["stream"] = json!(true);
    let headers = [("X-Hermes-Session-Id", "steady")];
    let reply =
        gateway.client.send("POST", "/v1/chat/completions", &headers, body.to_string().as_bytes()).unwrap();
    let answer = spawn(move || reply.streamed());
    until("the model is asked", || model.asked().len() == 2);
    let idle: Vec<TcpStream> = (0..40).map(|_| idle(&gateway)).collect();

    // What is open stays open; nothing more can be.
    limit(&gateway, "1");
    let client = gateway.client.clone();
    let late = spawn(move || client.say("another", "at the door").said());
    until("it is named", || {
        let log = gateway.log();
        log.contains("Too many open files") && log.contains("ulimit -n") && log.contains("LimitNOFILE=")
    });
    assert_at_rest(&gateway, "without a free descriptor");
    model.release();
    assert_eq!(answer.join().unwrap().unwrap(), "re: accepted");

    // Those who are idle go, and make room.
    let open = open_files(&gateway);
    drop(idle);
    limit(&gateway, &open.to_string());
    assert_eq!(late.join().unwrap(), "re: at the door");
    assert_eq!(gateway.client.say("steady", "after").said(), "re: after");
    let users: Vec<_> =
        gateway.client.transcript("steady").into_iter().filter(|(role, _)| role == "user").collect();
    assert_eq!(
        users.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
        ["before", "accepted", "after"]
    );
    assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
    assert!(gateway.stop().success());
}

/// Many clients that keep their connections, and a process that may open few files.
#[test]
fn p8_idle_clients_leave_room_for_the_turn_and_the_next_one_is_let_in_when_one_goes() {
    let place = Place::new();
    let launch = place.rehearsing(&json!({"rules": [{"when": {"contains": "slowly"}, "latency_ms": 500}]}));
    let gateway = launch.through(&["prlimit", "--nofile=96:96"]).start();
    // As many as the gateway has places for: half of what it may open.
    let mut idle: Vec<TcpStream> = (0..47).map(|_| self::idle(&gateway)).collect();
    let answers: Vec<_> = (0..3)
        .map(|nth| {
            let client = gateway.client.clone();
            spawn(move || client.say(&format!("s{nth}"), &format!("slowly {nth}")).said())
        })
        .collect();
    assert_at_rest(&gateway, "with clients at the door");
    idle.truncate(20);
    for (nth, answer) in answers.into_iter().enumerate() {
        assert!(answer.join().unwrap().ends_with(&format!("“slowly {nth}”")));
    }
    assert!(open_files(&gateway) <= 96);
    assert_eq!(gateway.client.read("/api/control/check")["data"], json!([]));
    assert!(gateway.stop().success());
}
