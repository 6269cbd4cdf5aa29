//! Settings that cannot be meant.

use super::{MODEL_KEY, discreet, refused, says};
use crate::gateway::Place;
use std::net::TcpListener;

#[test]
fn malformed_yaml_is_shown_with_file_line_and_column() {
    let place = Place::new();
    let yaml = format!("model:\n  api_key: {MODEL_KEY}\n  default: x\n   provider: [\n");
    let file = place.write("home/config.yaml", &yaml);
    let ended = place.launch().run();
    let words = refused(&ended);
    says(words, &[place.home().to_str().unwrap(), "config.yaml:4:12", "provider: ["]);
    assert_eq!(std::fs::read_to_string(file).unwrap(), yaml);
    assert!(!place.file("home/state.db").exists(), "a home with unreadable settings was begun");
}

#[test]
fn a_setting_that_cannot_be_meant_is_refused_at_its_place() {
    let place = Place::new();
    place.write("home/config.yaml", "throughline:\n  body_limit_bytes: 12\n");
    says(refused(&place.launch().run()), &["config.yaml:2", "body_limit_bytes", "1024"]);
    place.write("home/config.yaml", "throughline:\n  bodylimit: 12\n");
    says(refused(&place.launch().run()), &["config.yaml:2", "bodylimit"]);
}

#[test]
fn unknown_keys_of_hermes_only_warn_with_the_nearest_known_name() {
    let place = Place::new();
    place.write("home/config.yaml", "modle:\n  default: x\nmy_own_notes: 1\n");
    let gateway = place.launch().start();
    for _ in 0..500 {
        match gateway.log().contains("my_own_notes") {
            true => break,
            false => std::thread::sleep(std::time::Duration::from_millis(20)), // it is ready before it has said all
        }
    }
    says(
        &gateway.log(),
        &["config.yaml:1:1", "`modle`", "did you mean `model`?", "config.yaml:3:1", "`my_own_notes`"],
    );
    discreet(&gateway.log());
    assert_eq!(gateway.stop().code(), Some(0));
}

#[test]
fn a_configured_model_without_a_key_names_the_variable_to_set() {
    let place = Place::new();
    for (yaml, variable) in [
        ("model:\n  provider: anthropic\n  default: claude-x\n", "ANTHROPIC_API_KEY"),
        ("model:\n  provider: openrouter\n  default: a/b\n", "OPENROUTER_API_KEY"),
        ("model: gpt-x\n", "OPENAI_API_KEY"),
    ] {
        place.write("home/config.yaml", yaml);
        let ended = place.launch().run();
        says(
            refused(&ended),
            &[place.home().to_str().unwrap(), "config.yaml:", "no key for", variable, ".env"],
        );
    }
}

#[test]
fn p31_the_api_is_never_open_to_others_without_a_key_of_ones_own() {
    let place = Place::new();
    let open = place.launch().env("API_SERVER_HOST", "0.0.0.0");
    says(refused(&open.clone().without("API_SERVER_KEY").run()), &["0.0.0.0", "API_SERVER_KEY", "127.0.0.1"]);
    says(refused(&open.env("API_SERVER_KEY", "guessme").run()), &["API_SERVER_KEY", "too short"]);
}

#[test]
fn p31_a_key_that_was_made_is_in_a_file_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let mut gateway = place.launch().without("API_SERVER_KEY").spawn();
    gateway.wait_until_ready();
    let file = place.file("home/throughline.key");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = std::fs::read_to_string(file).unwrap().trim().to_owned();
    assert_eq!(gateway.client.get("/v1/models").unwrap().status, 401);
    gateway.client.key.clone_from(&key);
    assert_eq!(gateway.client.get("/v1/models").unwrap().status, 200);
    assert!(!gateway.log().contains(&key), "the key is in the log");
}

#[test]
fn a_port_in_use_is_named_with_the_setting_that_changes_it() {
    let place = Place::new();
    let launch = place.launch();
    let _taken = TcpListener::bind(("127.0.0.1", launch.port())).unwrap();
    let address = format!("127.0.0.1:{}", launch.port());
    says(refused(&launch.run()), &[&address, "API_SERVER_PORT", "in use"]);
    assert!(!place.file("home/gateway.pid").exists(), "a gateway that never was holds the home");
}

/// A user without the right to it: in a network of its own, where no other setting of the machine counts.
#[test]
fn port_80_without_the_right_to_it_is_refused_with_what_to_do() {
    let place = Place::new();
    let user: &[&str] = match super::disk::is_root() {
        true => &["unshare", "--net"],
        false => &["unshare", "--net", "--map-root-user"],
    };
    let wrapper =
        [user, &["setpriv", "--bounding-set", "-net_bind_service", "--inh-caps", "-net_bind_service"]]
            .concat();
    let launch = place.launch().arg("--host").arg("0.0.0.0").arg("--port").arg("80").through(&wrapper);
    says(refused(&launch.run()), &["0.0.0.0:80", "Permission denied", "below 1024", "--port", "8642"]);
}
