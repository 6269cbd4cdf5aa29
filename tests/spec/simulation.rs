//! The gateway in a world that crashes. `cargo run -p throughline-sim` plays many more of these.

use throughline_sim::{Mutant, crash_after, play, template};

#[test]
fn p7_p8_p9_p10_a_crash_after_any_commit_loses_doubles_and_reorders_nothing() {
    let template = template();
    let mut points = 0;
    for nth in 1.. {
        let Some(report) = crash_after(nth, &template, None) else { break }; // every commit has had its turn
        assert_eq!(report.wrong, [""; 0], "crash after commit {nth}");
        points = nth;
    }
    assert!(points > 40, "the script makes more commits than {points}");
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
        let by_script = || {
            (1..100)
                .map_while(|nth| crash_after(nth, &template, Some(mutant)))
                .any(|report| !report.wrong.is_empty())
        };
        let by_chance = || (0..300).any(|seed| !play(seed, &template, Some(mutant)).wrong.is_empty());
        assert!(by_script() || by_chance(), "nobody noticed {mutant:?}");
    }
}
