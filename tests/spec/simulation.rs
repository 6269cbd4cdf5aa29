//! The gateway in a world that crashes. `cargo run -p throughline-sim` plays many more of these.

use throughline_sim::{Mutant, Plan, crash_after, play, template};

/// How many crash points a plan has; at none of them may anything be wrong.
fn crash_everywhere(plan: &Plan) -> u64 {
    let template = template();
    for nth in 1.. {
        let Some(report) = crash_after(nth, plan, &template, None) else { return nth - 1 };
        assert_eq!(report.wrong, [""; 0], "crash after commit {nth}");
    }
    unreachable!("every commit has had its turn")
}

/// Three chats and two clients that do everything once: among it a turn with three calls side by side
/// and one that ends the process, and a call that waits for a yes.
#[test]
fn p7_p8_p9_p10_a_crash_after_any_commit_loses_doubles_and_reorders_nothing() {
    let points = crash_everywhere(&Plan::script());
    assert!(points > 40, "the script makes more commits than {points}");
}

#[test]
fn p6_agents_that_answer_each_other_stop_with_one_notice_whatever_crashes() {
    let points = crash_everywhere(&Plan::chatter());
    assert!(points > 10, "the chatter makes more commits than {points}");
}

#[test]
fn power_may_fail_at_any_moment() {
    let template = template();
    for seed in 0..150 {
        let report = play(seed, &template, None);
        assert_eq!(
            report.wrong, [""; 0],
            "again: cargo run -p throughline-sim --profile ci -- --seed {seed}"
        );
    }
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
        let by_script = |plan: &Plan| {
            (1..100)
                .map_while(|nth| crash_after(nth, plan, &template, Some(mutant)))
                .any(|report| !report.wrong.is_empty())
        };
        let by_chance = || (0..300).any(|seed| !play(seed, &template, Some(mutant)).wrong.is_empty());
        let noticed = by_chance() || by_script(&Plan::script()) || by_script(&Plan::chatter());
        assert!(noticed, "nobody noticed {mutant:?}");
    }
}
