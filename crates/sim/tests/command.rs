//! The command that `./test` runs: it tells how many worlds it tried, and fails if one of them is wrong.

#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn a_few_worlds_are_tried_and_counted() {
    let output = Command::new(env!("CARGO_BIN_EXE_throughline-sim")).args(["--seeds", "3"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("3 worlds in "), "{output:?}");
    assert!(said.contains(", 0 with something wrong"), "{said}");
}

#[test]
fn an_argument_that_is_not_known_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_throughline-sim")).arg("--seed-count").output().unwrap();
    assert!(!output.status.success(), "{output:?}");
}
