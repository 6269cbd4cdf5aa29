//! P14, P17: what is left of a conversation after compression still answers questions about it, at least as
//! well as what Hermes leaves.
//!
//! The same conversations, the same window, the same scripted summariser; the judge sees views and
//! knows no engine. Scores that were reached are not given up: raise a threshold when it is passed.

use crate::gateway::Place;
use crate::peers;
use serde_json::Value;
use std::sync::Arc;
use tempfile::TempDir;
use throughline_eval::peer_compressor::PeerCompressor;
use throughline_eval::{CaseOutcome, Category, EngineReport, Measured, ScriptedSummariser, cases};

/// The version whose compressor is the baseline.
const HERMES: &str = "0.19.0";

/// One engine, in all moods of the summariser.
fn measure(engines: &[Measured]) -> (EngineReport, Vec<CaseOutcome>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let cases = cases();
    let runs = engines.iter().map(|measured| runtime.block_on(measured.run(&cases)));
    let outcomes: Vec<CaseOutcome> = runs.flatten().collect();
    (engines[0].report("view", &outcomes), outcomes)
}

fn builtin() -> Vec<Measured> {
    ScriptedSummariser::moods().map(|scripted| Measured::Builtin(Arc::new(scripted))).collect()
}

/// What Hermes leaves, with these summarisers, or none at all. None: peers are skipped.
fn hermes(summarisers: &[Option<ScriptedSummariser>]) -> Option<EngineReport> {
    let hermes = peers::one_hermes(HERMES)?;
    let place = TempDir::new().unwrap();
    let home = place.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let mut peer =
        PeerCompressor::start("hermes", &mut hermes.compressor(&home)).expect("Python can be started");
    let mut outcomes = Vec::new();
    for summariser in summarisers {
        let writes = |request: &str| summariser.map(|scripted| scripted.summary(request));
        outcomes.extend(cases().iter().map(|case| peer.run_case(case, &writes)));
    }
    for outcome in &outcomes {
        assert_eq!(outcome.failure, None, "Hermes fails at {}", outcome.case);
    }
    let summariser = summarisers[0].map_or("none", |_| "scripted");
    Some(EngineReport::new("hermes", summariser, "view", &outcomes))
}

fn assert_reaches(report: &EngineReport, all: f64, each: &[(Category, f64)]) {
    let shown = || format!("{}\n{}", report.table(), report.missed());
    assert!(report.total.percent() >= all, "below {all} % in all\n{}", shown());
    for (category, least) in each {
        let percent = report.category(*category).percent();
        assert!(percent >= *least, "{category}: {percent} % is below {least} %\n{}", shown());
    }
}

/// For each way in which a summariser writes or forgets.
const GUARANTEED: [(Category, f64); 3] =
    [(Category::Absent, 100.0), (Category::Secret, 100.0), (Category::Injected, 100.0)];

#[test]
fn p14_a_summary_keeps_what_matters_even_from_a_forgetful_summariser() {
    let (report, outcomes) = measure(&builtin());
    assert_reaches(&report, BUILTIN_LEAST, &GUARANTEED);
    assert_reaches(&report, 0.0, &BUILTIN_LEAST_EACH);
    for (case, outcome) in cases().iter().cycle().zip(&outcomes) {
        assert_eq!(outcome.session, case.session);
        assert!(outcome.tokens_after * 2 < outcome.tokens_before, "{}", outcome.case);
    }
}

/// Of all questions, in percent.
const BUILTIN_LEAST: f64 = 97.0;
const BUILTIN_LEAST_EACH: [(Category, f64); 6] = [
    (Category::Fact, 93.0),
    (Category::Current, 98.5),
    (Category::Ask, 97.5),
    (Category::Identifier, 98.0),
    (Category::Effect, 95.5),
    (Category::Rule, 97.0),
];
const DIGEST_LEAST: f64 = 94.0;

const DIGEST_LEAST_EACH: [(Category, f64); 6] = [
    (Category::Fact, 84.0),
    (Category::Current, 96.0),
    (Category::Ask, 96.0),
    (Category::Identifier, 98.0),
    (Category::Effect, 94.0),
    (Category::Rule, 98.0),
];

#[test]
fn p17_a_digest_without_a_model_keeps_the_session_answerable() {
    let (report, _) = measure(&[Measured::Digest]);
    assert_reaches(&report, DIGEST_LEAST, &GUARANTEED);
    assert_reaches(&report, 0.0, &DIGEST_LEAST_EACH);
}

#[test]
fn p14_no_question_is_answered_worse_than_after_hermes() {
    let scripted: Vec<_> = ScriptedSummariser::moods().map(Some).collect();
    let (Some(theirs), Some(theirs_alone)) = (hermes(&scripted), hermes(&[None])) else { return };
    let (ours, _) = measure(&builtin());
    let (digest, _) = measure(&[Measured::Digest]);
    for (ours, theirs) in [(ours, theirs), (digest, theirs_alone)] {
        let lower = ours.lower_than(&theirs);
        assert!(lower.is_empty(), "lower in {lower:?}\n{}\n{}", ours.beside(Some(&theirs)), ours.missed());
    }
}

/// Any engine can be measured: one of a plugin, and Hermes' own through the host for its Python.
#[test]
fn p18_engines_of_plugins_and_of_hermes_are_measured_by_the_same_questions() {
    let Some(python) = peers::hermes_python(HERMES) else { return };
    let place = Place::new();
    let script = peers::root().join("plugins/examples/engine.py");
    place.write(
        "home/config.yaml",
        format!(
            "model: {{default: rehearsal}}\nthroughline: {{hermes: {{python: {}}}, plugins: {{example: {{command: [python3, {}]}}}}}}\n",
            python.display(),
            script.display()
        ),
    );
    let measured = |engines: &[&str]| -> Value {
        let mut run =
            place.launch().arg("eval").arg("compression").arg("--case").arg("relay-desk").arg("--json");
        for engine in engines {
            run = run.arg("--engine").arg(*engine);
        }
        let run = run.run();
        assert!(run.status.success(), "{}", run.stderr);
        serde_json::from_str(&run.stdout).unwrap()
    };
    let example = measured(&["example"]);
    assert!(example["total"]["passed"].as_u64().unwrap() > 0, "{example}");
    // Hermes asks its own model for summaries, and there is none in this home.
    let both = measured(&["builtin", "hermes:compressor"]);
    let theirs = &both["results"][1];
    assert_eq!((&theirs["engine"], &theirs["summariser"]), (&"hermes:compressor".into(), &"its own".into()));
    let missed = theirs["cases"][0]["missed"].to_string();
    assert!(missed.contains("no auxiliary LLM provider configured"), "{missed}");

    let unknown = place.launch().arg("eval").arg("compression").arg("--engine").arg("hermes:nowhere").run();
    assert!(!unknown.status.success());
    assert!(unknown.stderr.contains("context engine hermes:nowhere"), "{}", unknown.stderr);
}
