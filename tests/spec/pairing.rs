//! Pairing codes, between the real Hermes and the real binary: each reads what the other wrote.

use crate::peers;
use serde_json::json;
use std::path::Path;
use std::process::{Command, Output};

fn pairing(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
    command.arg("--home").arg(home).arg("pairing").args(arguments).env_clear();
    command.output().expect("the binary can be started")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn p31_a_code_that_hermes_gave_is_approved_here_and_hermes_knows() {
    for hermes in peers::hermes() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let code = hermes.did(&home, json!(["pairing.generate_code", ["telegram", "42", "Ünal"], {}]));
        let code = code.as_str().expect("a stranger gets a code").to_owned();
        let listed = said(&pairing(&home, &["list"]));
        assert!(listed.starts_with("telegram  42 (Ünal)  waits"), "{}: {listed}", hermes.version);
        let approved = pairing(&home, &["approve", "telegram", &code.to_lowercase()]);
        assert!(approved.status.success(), "{}: {}", hermes.version, said(&approved));
        let calls = [
            json!(["pairing.is_approved", ["telegram", "42"], {}]),
            json!(["pairing.is_approved", ["telegram", "43"], {}]),
            json!(["pairing.list_pending", [], {}]),
            // It was a moment ago: Hermes sees the limit that it wrote itself, and no request any more.
            json!(["pairing.generate_code", ["telegram", "42"], {}]),
        ];
        assert_eq!(hermes.does(&home, &calls), [json!(true), json!(false), json!([]), json!(null)]);
        assert!(pairing(&home, &["revoke", "telegram", "42"]).status.success());
        assert_eq!(hermes.did(&home, json!(["pairing.is_approved", ["telegram", "42"], {}])), json!(false));
    }
}

#[test]
fn p31_whom_hermes_let_in_is_known_here_and_wrong_codes_count_for_both() {
    for hermes in peers::hermes() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let code = hermes.did(&home, json!(["pairing.generate_code", ["slack", "U1"], {}]));
        let approved = hermes.did(&home, json!(["pairing.approve_code", ["slack", code], {}]));
        assert_eq!(approved["user_id"], "U1");
        assert_eq!(said(&pairing(&home, &["list"])), "slack  U1  was let in\n", "{}", hermes.version);
        for _ in 0..5 {
            assert!(!pairing(&home, &["approve", "slack", "WRONGONE"]).status.success());
        }
        let calls = [
            json!(["pairing._is_locked_out", ["slack"], {}]),
            json!(["pairing._is_locked_out", ["telegram"], {}]),
        ];
        assert_eq!(hermes.does(&home, &calls), [json!(true), json!(false)]);
    }
}
