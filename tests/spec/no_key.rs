//! Callers without the key: other users of the machine, web pages, and agents with a key of their own.

use crate::gateway::{Client, KEY, Launch, Place, free_port};
use serde_json::json;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "it did not happen: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A program that takes a port, writes down everything that is said to it, and answers as if all were well.
fn impostor(port: u16) -> Arc<Mutex<Vec<u8>>> {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let kept = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, kept) = (stream.unwrap(), kept.clone());
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut piece) {
                    kept.lock().unwrap().extend_from_slice(&piece[..length]);
                    let body =
                        r#"{"model": "x", "object": "throughline.status", "proof": "00", "agents": []}"#;
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
        }
    });
    heard
}

#[test]
fn p31_a_program_that_takes_the_port_of_a_dead_gateway_gets_no_key_from_the_command_line() {
    let place = Place::new();
    let launch = place.launch();
    launch.start().kill();
    assert!(place.file("home/throughline.address").exists(), "it could not tidy up");
    let heard = impostor(launch.port());
    for words in [
        &["status"][..],
        &["stop", "--all"],
        &["stop", "some_session"],
        &["resume"],
        &["restart"],
        &["memory", "status"],
        &["plugin", "list"],
        &["chat", "-q", "hello"],
    ] {
        let ended = words.iter().fold(launch.clone(), |launch, word| launch.arg(*word)).run();
        assert!(!ended.stdout.contains(KEY) && !ended.stderr.contains(KEY), "{words:?}");
    }
    let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
    assert!(heard.contains("/api/prove"), "it got no request: {heard}");
    for told in
        [KEY, "Authorization", "authorization", "/api/control", "/api/status", "some_session", "hello"]
    {
        assert!(!heard.contains(told), "{told:?} was sent to it: {heard}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn p31_half_sent_requests_do_not_lock_out_who_has_the_key() {
    let place = Place::new();
    let gateway = place.launch().through(&["/usr/bin/prlimit", "--nofile=256:256"]).start();
    let asked = Instant::now(); // connections that are not accepted wait, too
    let mut held = Vec::new();
    for _ in 0..400 {
        let mut stream = TcpStream::connect(gateway.client.address).unwrap();
        stream.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthor").unwrap();
        held.push(stream);
    }
    assert!(gateway.client.say("s", "still there?").text().contains("still there?"));
    assert_eq!(gateway.client.read("/api/control/status")["ready"], true);
    assert!(asked.elapsed() < Duration::from_secs(20), "it waited for the strangers: {:?}", asked.elapsed());
    drop(held);
}

#[test]
fn p5_two_homes_with_the_same_last_name_are_two_agents() {
    let place = Place::new();
    let homes = ["x/agent", "y/agent"].map(|name| place.file(name));
    let ports = [free_port(), free_port()];
    for (home, port) in homes.iter().zip(ports) {
        fs::create_dir_all(home).unwrap();
        fs::write(home.join(".env"), format!("API_SERVER_PORT={port}\n")).unwrap();
    }
    let launch = Launch::on(&place, &[&homes[0], &homes[1]]).without("API_SERVER_PORT").at_port(ports[0]);
    let gateway = launch.start();
    until("both are there", || gateway.log().contains("ready   after"));
    let clients = ports.map(|port| Client::new(([127, 0, 0, 1], port).into(), KEY));
    let talks = ["talk-of-x", "talk-of-y"];
    for (client, session) in clients.iter().zip(talks) {
        client.say(session, "a word").said();
        // There is nothing to compress, which is logged with the session's name.
        let path = format!("/api/sessions/{session}/commands");
        assert_eq!(client.post(&path, &[], &json!({"command": "/compress"})).unwrap().status, 200);
    }
    let names = clients.each_ref().map(|client| client.read("/api/status")["agent"].clone());
    assert_eq!(names, [json!("x-agent"), json!("y-agent")]);
    let others = clients[0].read("/api/status")["agents"].clone();
    assert_eq!(others.as_array().unwrap().len(), 2, "{others}");
    assert!(others.as_array().unwrap().iter().all(|agent| agent["state"] == "running"), "{others}");
    // One agent's key stops that agent.
    clients[1].post("/api/control/halt", &[], &json!({"all": true})).unwrap();
    assert_eq!(
        clients.each_ref().map(|client| client.read("/api/control/status")["halted"].clone()),
        [json!(false), json!(true)]
    );
    // The command line has the keys of both.
    let ended = Launch::on(&place, &[&homes[0]]).arg("stop").arg("--all").run();
    assert!(
        ended.stdout.contains("x-agent silenced") && ended.stdout.contains("y-agent silenced"),
        "{ended:?}"
    );
    for client in &clients {
        assert_eq!(client.read("/api/control/status")["halted"], true);
    }
    assert!(gateway.stop().success());
    for (nth, home) in homes.iter().enumerate() {
        let log = fs::read_to_string(home.join("logs/agent.log")).unwrap();
        assert!(log.contains("throughline started version"), "{}: {log}", home.display());
        assert!(log.contains(talks[nth]), "{} lacks its own lines: {log}", home.display());
        assert!(!log.contains(talks[1 - nth]), "{} has the other's lines: {log}", home.display());
    }
}

#[test]
fn p31_what_goes_wrong_is_told_on_standard_error_without_secrets() {
    let place = Place::new();
    let secret = format!("sk-ant-api03-{}", "a1B2c3D4".repeat(5));
    let home = place.write(&format!("homes/{secret}"), "a file, where a home is a directory");
    for words in [&[][..], &["memory", "status"]] {
        let launch = Launch::on(&place, &[&home]);
        let ended = words.iter().fold(launch, |launch, word| launch.arg(*word)).run();
        assert!(!ended.status.success());
        assert!(ended.stderr.contains("is not a directory"), "{}", ended.stderr);
        assert!(!ended.stderr.contains(&secret), "{}", ended.stderr);
    }
}

#[test]
fn p31_what_is_logged_on_standard_error_has_no_secrets() {
    let place = Place::new();
    let secret = format!("sk-ant-api03-{}", "a1B2c3D4".repeat(5));
    // Of several profiles the one that cannot start is logged, with the path that is in its way.
    let root = place.file(&format!("{secret}/root"));
    fs::create_dir_all(root.join("profiles/p/gateway.lock")).unwrap();
    let gateway = Launch::on(&place, &[&root]).arg("--all-profiles").start();
    let logged = || fs::read_to_string(place.file("logs/stderr")).unwrap();
    until("the log tells of the agent that does not run", || logged().contains("the agent does not run"));
    assert!(logged().contains("gateway.lock") && !logged().contains(&secret), "{}", logged());
    gateway.stop();
}

#[test]
fn p31_one_agents_key_restarts_that_agent_and_the_keys_of_all_the_process() {
    let place = Place::new();
    let homes = ["x", "y"].map(|name| place.file(name));
    let ports = [free_port(), free_port()];
    for (home, port) in homes.iter().zip(ports) {
        fs::create_dir_all(home).unwrap();
        fs::write(home.join(".env"), format!("API_SERVER_PORT={port}\n")).unwrap();
    }
    let launch = Launch::on(&place, &[&homes[0], &homes[1]]).without("API_SERVER_PORT").at_port(ports[0]);
    let mut gateway = launch.start();
    until("both are there", || gateway.log().contains("ready   after"));
    let clients = ports.map(|port| Client::new(([127, 0, 0, 1], port).into(), KEY));
    let status = |client: &Client| client.get("/api/status").ok().filter(|answer| answer.status == 200);
    let started = |client: &Client| status(client).map(|answer| answer.json()["started"].clone());
    let before = clients.each_ref().map(|client| client.read("/api/status"));
    let asked = clients[0].post("/api/control/restart", &[], &json!({})).unwrap();
    assert_eq!(asked.json()["scope"], "agent", "{}", asked.text());
    until("it has begun anew", || started(&clients[0]).is_some_and(|at| at != before[0]["started"]));
    assert!(clients[0].say("s", "and again").text().contains("and again"));
    let other = clients[1].read("/api/status");
    assert_eq!((&other["started"], &other["instance"]), (&before[1]["started"], &before[1]["instance"]));
    // One key more does not suffice for the process, and the command line has both.
    let asked = clients[0].post("/api/control/restart", &[], &json!({"all": true})).unwrap().json();
    assert_eq!(asked["scope"], "none", "{asked}");
    assert_eq!(asked["others"][0]["home"], json!(homes[1].canonicalize().unwrap()));
    let restarted = Launch::on(&place, &[&homes[0]]).arg("restart").run();
    assert!(restarted.status.success(), "{}{}", restarted.stdout, restarted.stderr);
    assert!(gateway.is_running(), "it began anew in its own place");
    for client in &clients {
        until("it is back", || status(client).is_some());
        assert_ne!(client.read("/api/status")["instance"], before[0]["instance"]);
    }
    assert!(gateway.stop().success());
}
