//! A message can be followed through all that happened to it.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::id;
use crate::story::StoryMove;
use crate::world::StoreWorld;

pub(crate) fn p30_calls_questions_and_stops_can_be_followed(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "look"),
        StoryMove::CallsTools { place: 0, calls: 2 },
        StoryMove::Asks { place: 0, index: 0, kind: 0 },
    ]);
    world.play(&[
        StoryMove::Asks { place: 0, index: 1, kind: 2 },
        StoryMove::Decides { place: 0, index: 0, verdict: 0 },
    ]);
    let told = |world: &StoreWorld| -> Vec<String> {
        let story = world.store.reader().trace("s0/1").expect("a message can be followed");
        story.iter().map(|trace| format!("{}: {}", trace.name, trace.detail)).collect()
    };
    let has = |story: &[String], parts: &[&str]| {
        assert!(
            story.iter().any(|line| parts.iter().all(|part| line.contains(part))),
            "{parts:?} in {story:#?}"
        );
    };
    let story = told(&world);
    has(&story, &["answered_by_model", "3 tool calls, 0 done"]);
    has(&story, &["call_asked", "1/0/0", "rm -rf"]);
    has(&story, &["call_granted", "1/0/0", "once"]);
    has(&story, &["call: 1/0/0 look", "granted once"]);
    has(&story, &["call: 1/0/1 look", "asks", "Which one?"]);
    has(&story, &["call: 1/0/2 look", "running"]);
    world.play(&[
        StoryMove::Decides { place: 0, index: 1, verdict: 6 },
        StoryMove::Orders { place: 0, what: 4 },
    ]);
    let story = told(&world);
    has(&story, &["call: 1/0/1 look", "did not respond in time"]);
    has(&story, &["call: 1/0/2 look", "stopped by the user"]);
    has(&story, &["turn_stopped"]);
    has(&story, &["failed", "Stopped."]);
    // What another agent said, and that it was not answered.
    world.play(&[StoryMove::Hears { place: 1, origin: 2, hops: 4 }, StoryMove::Halts { place: 1 }]);
    world.play(&[StoryMove::Hears { place: 1, origin: 2, hops: 0 }]);
    let story: Vec<String> = [1, 2]
        .iter()
        .flat_map(|seq| world.store.reader().trace(&format!("s1/{seq}")).expect("can be followed"))
        .map(|trace| format!("{}: {}", trace.name, trace.detail))
        .collect();
    has(&story, &["received", "5 hops", "human|2"]);
    if world.rules.limits.chain.hops_max < 5 {
        has(&story, &["chain_cut"]);
    }
    has(&story, &["waiting", "silenced"]);
}

pub(crate) fn p30_a_message_can_be_followed(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "one"),
        says(0, "two"),
        answers(0, "first"),
        StoryMove::Delivers { reply: 0, change: 0 },
    ]);
    world.play(&[StoryMove::Delivers { reply: 0, change: 1 }]);
    for name in ["s0/1", "1", "77"] {
        let story = world.store.reader().trace(name).expect("a message can be followed");
        let names: Vec<&str> = story.iter().map(|trace| trace.name.as_str()).collect();
        for expected in ["received", "turn_began", "answered_by_model", "answered", "reply_delivered"] {
            assert!(names.contains(&expected), "{name}: {expected} is missing from {names:?}");
        }
        assert!(story.is_sorted_by_key(|trace| trace.at));
    }
    let row = world.books[&id("s0")].rows[0].to_string();
    assert!(!world.store.reader().trace(&row).expect("a row can be followed").is_empty());
    assert_eq!(world.store.reader().trace("no such thing").expect("can be asked"), []);
}
