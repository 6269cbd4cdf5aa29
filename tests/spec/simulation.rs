//! The gateway in a world that crashes. `cargo run -p throughline-sim` plays many more of these.

use std::collections::BTreeMap;
use throughline_sim::{Mutant, Plan, crash_after, play, template};

/// Plays a fixed plan with a crash between every two of its commits. Returns how many there were.
fn crash_everywhere(plan: &Plan) -> u64 {
    let template = template();
    let mut points = 0;
    for nth in 1.. {
        let Some(report) = crash_after(nth, plan, &template, None) else { break }; // every commit has had its turn
        assert_eq!(report.wrong, [""; 0], "crash after commit {nth}");
        points = nth;
    }
    points
}

/// Three calls that count and one that ends the process, side by side in one turn; a call that needs a
/// yes; a letter; a task for another session.
#[test]
fn p7_p8_p9_p10_a_crash_after_any_commit_loses_doubles_and_reorders_nothing() {
    let points = crash_everywhere(&Plan::script());
    assert!(points > 70, "the script makes more commits than {points}");
}

#[test]
fn p4_p9_p31_stops_questions_and_calls_that_kill_survive_a_crash_after_any_commit() {
    let points = crash_everywhere(&Plan::orders());
    assert!(points > 50, "the orders make more commits than {points}");
}

#[test]
fn p6_silence_holds_through_a_crash_after_any_commit_until_it_is_lifted() {
    let points = crash_everywhere(&Plan::silence());
    assert!(points > 60, "the silence makes more commits than {points}");
}

#[test]
fn p6_agents_that_answer_each_other_stop_with_one_notice_and_the_next_line_is_answered() {
    let points = crash_everywhere(&Plan::chatter());
    assert!(points > 40, "the chatter makes more commits than {points}");
    let (template, seed) = (template(), 7);
    let report = throughline_sim::World::new(seed, Plan::chatter(), &template, None).play();
    assert_eq!(report.wrong, [""; 0]);
    assert_eq!(report.tally["chains cut"], 1);
}

#[test]
fn power_may_fail_at_any_moment() {
    let template = template();
    let mut tally = BTreeMap::new();
    for seed in 0..200 {
        let report = play(seed, &template, None);
        assert_eq!(
            report.wrong, [""; 0],
            "again: cargo run -p throughline-sim --profile ci -- --seed {seed}"
        );
        report.tally.into_iter().for_each(|(what, times)| *tally.entry(what).or_insert(0) += times);
    }
    let never: Vec<_> = tally.iter().filter(|(_, times)| **times == 0).collect();
    assert!(never.is_empty(), "what never happens proves nothing: {never:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let template = template();
    for seed in 0..20 {
        assert_eq!(play(seed, &template, None).trace, play(seed, &template, None).trace, "seed {seed}");
    }
}

/// A judge that would not notice is no judge.
#[test]
fn every_deliberate_bug_is_caught() {
    let template = template();
    for mutant in Mutant::ALL {
        let is_caught = |report: throughline_sim::Report| !report.wrong.is_empty();
        let by_plan = |(_, plan): (&str, Plan)| {
            (1..200).map_while(|nth| crash_after(nth, &plan, &template, Some(mutant))).any(is_caught)
        };
        let by_chance = || (0..300).map(|seed| play(seed, &template, Some(mutant))).any(is_caught);
        assert!(Plan::fixed().into_iter().any(by_plan) || by_chance(), "nobody noticed {mutant:?}");
    }
}
