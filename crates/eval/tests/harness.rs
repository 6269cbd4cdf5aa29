//! The harness, tried with engines whose score is known beforehand.

#![allow(clippy::unwrap_used)]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use throughline_core::compression::estimate;
use throughline_core::memory::Scope;
use throughline_core::message::{Content, Message};
use throughline_core::port::{
    Condensed, ContextUsage, Engine, EngineError, Past, Promise, Summariser, Wishes, Written,
};
use throughline_core::{Time, port::ModelError};
use throughline_eval::score::readable;
use throughline_eval::{CaseOutcome, Category, EngineReport, EvalCase, cases, judge, run_case, score};

/// Nothing here ever waits.
fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a scripted engine waits for something"),
    }
}

/// What an engine does with the messages.
struct Naive {
    name: &'static str,
    work: fn(&Past) -> Result<Condensed, EngineError>,
}

impl Engine for Naive {
    fn name(&self) -> &str {
        self.name
    }

    fn should_compress<'a>(&'a self, _: &'a Scope, _: &'a ContextUsage) -> Promise<'a, bool> {
        Box::pin(async { true })
    }

    fn compress<'a>(&'a self, past: &'a Past, _: &'a Wishes) -> Promise<'a, Result<Condensed, EngineError>> {
        Box::pin(async move { (self.work)(past) })
    }
}

fn condensed(keep_first: usize, text: &str, keep_last: usize) -> Result<Condensed, EngineError> {
    let messages = vec![Message::user(Time(0), Content::text(text))];
    Ok(Condensed { keep_first, messages, keep_last, model: String::new(), remark: None })
}

/// Forgets all but the beginning and the end, of which it keeps as much as any engine: a quarter of what
/// there is.
const TAIL: Naive = Naive {
    name: "tail",
    work: |past| {
        let mut left = past.tokens / 4;
        let fits = |message: &&Message| {
            let tokens = estimate(message);
            let fits = tokens <= left;
            left = left.saturating_sub(tokens);
            fits
        };
        let kept = past.messages.iter().rev().take_while(fits).count();
        condensed(3, "Earlier messages were removed.", kept)
    },
};
/// Copies what people said, without a second thought.
const SCRIBE: Naive = Naive {
    name: "scribe",
    work: |past| {
        let said = past.messages.iter().filter(|message| message.role() != "tool");
        let text: Vec<String> = said.map(|message| message.content().plain()).collect();
        condensed(0, &text.join("\n"), 1)
    },
};
const HOARDER: Naive =
    Naive { name: "hoarder", work: |past| condensed(past.messages.len(), "All is there.", 0) };

fn outcomes(engine: &Naive) -> Vec<CaseOutcome> {
    cases().iter().map(|case| done(run_case(engine, case))).collect()
}

fn report(engine: &Naive) -> EngineReport {
    EngineReport::new(engine.name, "none", "view", &outcomes(engine))
}

#[test]
fn cases_are_long_paired_and_ask_about_every_category() {
    let cases = cases();
    assert!(cases.len() >= 12);
    for case in &cases {
        let (count, tokens) = (case.messages.len(), case.tokens());
        assert!((80..=250).contains(&count), "{}: {count} messages", case.name);
        assert!((15_000..=60_000).contains(&tokens), "{}: {tokens} tokens", case.name);
        assert!(tokens > case.window * 85 / 100, "{}: {tokens} tokens are no reason to compress", case.name);
        assert!(case.questions.len() >= 12, "{}: too few questions", case.name);
        let open: usize = case.messages.iter().map(|message| message.calls().len()).sum();
        let results = case.messages.iter().filter(|message| message.role() == "tool").count();
        assert_eq!(open, results, "{}", case.name);
    }
    for category in Category::ALL {
        let asked =
            cases.iter().flat_map(|case| &case.questions).filter(|question| question.category == category);
        assert!(asked.count() >= 3, "too few questions about {category}");
    }
    assert_eq!(cases, throughline_eval::cases(), "always the same");
}

#[test]
fn the_whole_conversation_answers_everything_and_still_holds_its_secrets() {
    let mut wrong = Vec::new();
    for case in cases() {
        for verdict in score(&case.questions, &case.messages) {
            let is_secret = verdict.question.category == Category::Secret;
            if verdict.passed == is_secret {
                wrong.push(format!("{}: {}: {:?}", case.name, verdict.question.text, verdict.because));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_engine_that_forgets_all_but_the_end_scores_low() {
    let report = report(&TAIL);
    for category in [
        Category::Fact,
        Category::Current,
        Category::Ask,
        Category::Identifier,
        Category::Effect,
        Category::Rule,
    ] {
        let percent = report.category(category).percent();
        assert!(percent < 10.0, "{category}: {percent} %\n{}", report.table());
    }
    for category in [Category::Absent, Category::Secret] {
        assert_eq!(report.category(category).percent(), 100.0, "it invents nothing:\n{}", report.table());
    }
}

#[test]
fn an_engine_that_copies_what_was_said_scores_high_and_leaks() {
    let report = report(&SCRIBE);
    assert!(report.total.percent() > 80.0, "{}", report.table());
    assert!(report.category(Category::Secret).percent() < 50.0, "{}", report.table());
}

#[test]
fn keeping_everything_is_no_compression() {
    let report = report(&HOARDER);
    assert_eq!(report.total.passed, 0, "{}", report.table());
    assert!(report.cases.iter().all(|case| case.failure.as_deref() == Some("hardly compressed it")));
}

#[test]
fn an_old_value_without_the_new_one_and_an_invention_are_noticed() {
    let release = cases().into_iter().find(|case| case.name == "release-train").unwrap();
    let says = |text: &str| {
        let view = [Message::user(Time(0), Content::text(text))];
        let verdicts = score(&release.questions, &view);
        verdicts
            .into_iter()
            .filter(|verdict| verdict.passed)
            .map(|verdict| verdict.question.text)
            .collect::<Vec<_>>()
    };
    assert!(says("The launch is on 14 March.").contains(&"When is the launch?".to_owned()));
    assert!(!says("The launch is on 7 March.").contains(&"When is the launch?".to_owned()));
    let announced = "Was the release announced on the mailing list?".to_owned();
    assert!(says("All is well.").contains(&announced));
    assert!(!says("The release was announced on the mailing list.").contains(&announced));
}

/// Answers every question with what it was asked to look for, if the view says it.
struct Reader(EvalCase);

impl Summariser for Reader {
    fn name(&self) -> &str {
        "reader"
    }

    fn window(&self) -> u64 {
        128_000
    }

    fn ask<'a>(&'a self, request: &'a str) -> Promise<'a, Result<Written, ModelError>> {
        let line = |(number, question): (usize, &throughline_eval::CaseQuestion)| {
            let found = question.answers.iter().find(|answer| request.contains(answer.as_str()));
            format!("{}. {}\n", number + 1, found.map_or("unknown", String::as_str))
        };
        let text = self.0.questions.iter().enumerate().map(line).collect();
        Box::pin(async move { Ok(Written { text, truncated: false }) })
    }
}

#[test]
fn a_model_is_asked_about_the_view_and_nothing_else() {
    let case = cases().into_iter().find(|case| case.name == "relay-desk").unwrap();
    let mut kept = done(run_case(&SCRIBE, &case));
    let mut lost = done(run_case(&TAIL, &case));
    for outcome in [&mut kept, &mut lost] {
        done(judge::judge(&Reader(case.clone()), &case, outcome)).unwrap();
        assert_eq!(outcome.verdicts.len(), case.questions.len());
    }
    let passed = |outcome: &CaseOutcome| outcome.verdicts.iter().filter(|verdict| verdict.passed).count();
    assert!(passed(&kept) > passed(&lost) + 8, "{} and {}", passed(&kept), passed(&lost));
    assert!(lost.messages.iter().all(|message| !readable(message).contains("RD-118")));
}
