//! Several homes in one process, which share nothing else.

use crate::gateway::{Client, Launch, Place, free_port, said};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const OTHER_KEY: &str = "tl-spec-other-7d21c0aa51";

/// Two homes, each with a port and a key of its own in its `.env`.
fn two(place: &Place) -> (Launch, [Client; 2]) {
    let (one, two) = (place.file("home"), place.file("second"));
    let ports = [free_port(), free_port()];
    for ((home, port), key) in [&one, &two].into_iter().zip(ports).zip([crate::gateway::KEY, OTHER_KEY]) {
        fs::create_dir_all(home).unwrap();
        fs::write(home.join(".env"), format!("API_SERVER_PORT={port}\nAPI_SERVER_KEY={key}\n")).unwrap();
    }
    let launch = Launch::on(place, &[&one, &two]).without("API_SERVER_PORT").without("API_SERVER_KEY");
    let client = |port: u16, key: &str| Client::new(([127, 0, 0, 1], port).into(), key);
    let clients = [client(ports[0], crate::gateway::KEY), client(ports[1], OTHER_KEY)];
    (launch.at_port(ports[0]), clients)
}

#[test]
fn p5_two_homes_share_a_process_and_nothing_else() {
    let place = Place::new();
    let (launch, [one, two]) = two(&place);
    let mut gateway = launch.spawn();
    gateway.wait_until_ready();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !two.is_ready() {
        assert!(gateway.is_running() && Instant::now() < deadline, "the second is not ready");
        std::thread::sleep(Duration::from_millis(2));
    }
    one.say("mine", "a word about mine").said();
    two.say("theirs", "a word about theirs").said();

    for (here, there, session) in [(&one, &two, "mine"), (&two, &one, "theirs")] {
        assert_eq!(there.get(&format!("/api/sessions/{session}/messages")).unwrap().status, 404);
        let found =
            |client: &Client| client.read(&format!("/api/sessions/search?q={session}"))["data"].clone();
        assert_eq!(found(here).as_array().unwrap().len(), 2);
        assert_eq!(found(there), serde_json::json!([]));
        let stranger = Client::new(there.address, &here.key);
        for path in ["/v1/models", "/api/sessions", "/api/control/status"] {
            assert_eq!(stranger.get(path).unwrap().status, 401, "{path}");
        }
        assert_eq!(stranger.chat(&[], &said("let me in")).unwrap().status, 401);
        assert_eq!(here.read("/api/sessions")["data"].as_array().unwrap().len(), 1);
    }
    // The same name and the same key are two sessions and two requests.
    let headers = [("X-Hermes-Session-Id", "shared"), ("Idempotency-Key", "k1")];
    for client in [&one, &two] {
        assert_eq!(client.chat(&headers, &said(&format!("said at {}", client.address))).unwrap().status, 200);
        assert_eq!(client.transcript("shared").len(), 2);
    }
    assert_eq!(gateway.stop().code(), Some(0));
    for home in ["home", "second"] {
        assert!(is_free(&place.file(home)), "{home} is still held");
    }
}

#[test]
fn p5_a_home_that_cannot_be_opened_lets_go_of_the_others() {
    let place = Place::new();
    let (launch, _) = two(&place);
    let damaged = place.write("second/state.db", "no database at all");
    let ended = launch.run();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains(damaged.to_str().unwrap()), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(&damaged).unwrap(), "no database at all");
    for home in ["home", "second"] {
        assert!(is_free(&place.file(home)), "{home} is still held");
    }
    // The first is unharmed, and works alone.
    let port = free_port();
    let alone = Launch::on(&place, &[&place.file("home")]).arg("--port").arg(port.to_string()).at_port(port);
    let gateway = alone.start();
    gateway.client.say("mine", "still here").said();
    assert_eq!(gateway.stop().code(), Some(0));
}

#[test]
fn p5_a_home_given_twice_is_refused() {
    let place = Place::new();
    let ended = Launch::on(&place, &[&place.home(), &place.home()]).run();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("given twice"), "{}", ended.stderr);
}

/// No process holds its lock, and no record names one.
fn is_free(home: &Path) -> bool {
    let lock = fs::File::open(home.join("gateway.lock")).unwrap();
    lock.try_lock().is_ok() && !home.join("gateway.pid").exists()
}
