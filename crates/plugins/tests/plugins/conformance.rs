//! The check finds ours in order, and what is wrong with others.

use crate::world::{PATIENCE, settings};
use std::time::Duration;
use throughline_plugins::Deadlines;
use throughline_plugins::conformance::{Outcome, Report, check};

async fn report(command: &[&str], deadline: Duration) -> Report {
    patient_report(command, deadline, deadline).await
}

async fn patient_report(command: &[&str], deadline: Duration, patience: Duration) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path(), command);
    settings.deadlines = Deadlines::all(deadline);
    check(settings, patience).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_examples_keep_to_the_protocol() {
    for name in ["engine", "provider", "chaos"] {
        let report = report(&[name], PATIENCE).await;
        assert!(report.has_passed(), "{report}");
        assert!(report.findings.len() > 10, "{report}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_found() {
    for (how, method, what) in [
        ("newer", "initialize", "introduces itself"),
        ("hang", "provider/recall", "provider/recall"),
        ("shape", "engine/compress", "engine/compress"),
        ("unknown", "engine/compress", "engine/compress"),
        ("crash", "tool/call", "tool/call"),
        ("silent", "ping", "-32601"),
    ] {
        let report = report(&["chaos", how, method], Duration::from_millis(700)).await;
        let is_found = |name: &str| {
            report.findings.iter().any(|f| f.what.contains(name) && matches!(f.outcome, Outcome::Failed(_)))
        };
        assert!(is_found(what), "{how} in {method}: {report}");
    }
    // Everything else is answered, also by a busy machine.
    let report = report(&["chaos", "deaf"], Duration::from_secs(5)).await;
    let deaf = report.findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Failed(_)));
    assert_eq!(deaf.count(), 2, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_answered_after_its_deadline_is_named() {
    for method in ["provider/recall", "engine/should_compress", "hook/run"] {
        let command = ["chaos", "late", method];
        let report = patient_report(&command, Duration::from_millis(1000), Duration::from_secs(20)).await;
        let named = format!("{method} is answered within its deadline of 1 s");
        let late = report.findings.iter().find(|finding| finding.what == named);
        assert!(late.is_some_and(|late| matches!(late.outcome, Outcome::Failed(_))), "{method}: {report}");
        assert!(!report.has_passed());
    }
    let report = patient_report(&["chaos"], PATIENCE, PATIENCE).await;
    let judged =
        report.findings.iter().find(|finding| finding.what == "every answer comes within its deadline");
    assert_eq!(judged.map(|judged| &judged.outcome), Some(&Outcome::Passed), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_in_the_documentation_keeps_to_the_protocol() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plugins.md");
    let page = std::fs::read_to_string(page).unwrap();
    let program = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shorter.py");
    std::fs::write(&path, program).unwrap();
    let mut settings = settings(directory.path(), &["python3"]);
    settings.command = vec!["python3".into(), path.to_string_lossy().into_owned()];
    settings.environment =
        throughline_plugins::settings::environment(std::env::vars(), &[], &Default::default());
    settings.deadlines = Deadlines::all(PATIENCE);
    let report = check(settings, PATIENCE).await;
    assert!(report.has_passed(), "{report}");
}
