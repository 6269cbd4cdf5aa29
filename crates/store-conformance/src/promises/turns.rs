//! Turns and commits: each can be loaded, and none is taken from a late owner.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::{id, one, taken_up};
use crate::story::StoryMove;
use crate::world::{CHILD, PLACES, StoreWorld, busy_rules};
use throughline_core::id::Seq;
use throughline_core::port::{Commit, StoreError};
use throughline_core::session::{Act, BusyInput, Failure, FailureKind, Outcome, Phase};

pub(crate) fn a_turn_is_two_commits_and_every_commit_can_be_loaded(sites: StoreSites<'_>) {
    for place in 0..PLACES as u8 {
        world(sites).play(&[
            says(place, "hi"),
            answers(place, "hello"),
            says(place, "more"),
            StoryMove::Reopens,
        ]);
    }
}

pub(crate) fn p3_a_late_owner_is_refused(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "hi"),
        StoryMove::Reloads { place: 0 },
        StoryMove::Trespasses { place: 0 },
        answers(0, "hello"),
    ]);
    // Two stores on one home: the one that loads later owns the session.
    world.take(&says(0, "and then?"));
    let session = world.places[0].clone();
    let mut second = world.site.open();
    let loaded = second.reader().load(&session).expect("can be loaded").expect("is there").session;
    let (state, acts) = loaded.step(taken_up(), world.now, &world.rules);
    let current = state.generation;
    let owned = Commit::Session { expect: loaded.generation, state: Box::new(state), acts, at: world.now };
    one(second.as_mut(), owned).expect("the newer owner is accepted");
    let planned = world.plan(0, taken_up(), Vec::new());
    let late = Commit::Session {
        expect: planned.expect,
        state: Box::new(planned.next),
        acts: planned.acts,
        at: world.now,
    };
    match one(world.store.as_mut(), late) {
        Err(StoreError::Fenced { session: fenced, current: found }) => {
            assert_eq!((fenced, found), (session, current));
        }
        result => panic!("a late owner was not refused: {result:?}"),
    }
}

pub(crate) fn a_refused_commit_leaves_its_neighbours_standing(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "hi")]);
    world.play(&[
        StoryMove::Batches { size: 3 },
        says(1, "left neighbour"),
        StoryMove::SaysAgain { place: 2 },
        StoryMove::Trespasses { place: 0 },
        says(3, "right neighbour"),
    ]);
    assert_eq!(
        world.store.reader().load(&id("s2")).expect("can be asked"),
        None,
        "the refused one left nothing"
    );
}

pub(crate) fn what_is_held_is_found_with_its_age(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "one"), answers(0, "first"), StoryMove::Halts { place: 0 }]);
    world.play(&[StoryMove::Hears { place: 0, origin: 0, hops: 0 }]);
    let held = world.store.reader().backlog().expect("can be asked");
    let found: Vec<_> = held.iter().map(|it| (it.session.as_str(), it.waiting, it.oldest)).collect();
    assert_eq!(found, [("s0", 1, world.now)]);
    world.play(&[StoryMove::Releases { place: 0 }]);
    assert_eq!(world.store.reader().backlog().expect("can be asked"), []);
}

pub(crate) fn p4_a_silenced_session_stays_silent_through_a_restart(sites: StoreSites<'_>) {
    let mut world = world(sites);
    let [halts, releases] = [StoryMove::Halts { place: 0 }, StoryMove::Releases { place: 0 }];
    let hears = |origin| StoryMove::Hears { place: 0, origin, hops: 0 };
    world.play(&[says(0, "look"), StoryMove::CallsTools { place: 0, calls: 1 }, hears(3), halts.clone()]);
    world.play(&[hears(6), StoryMove::Reopens, StoryMove::Reloads { place: 0 }]);
    assert_eq!(world.store.reader().unfinished().expect("can be asked"), [], "a start does not wake it");
    assert_eq!(world.store.reader().halted().expect("can be asked"), [id("s0")]);
    world.play(&[releases, StoryMove::Reopens]);
    assert_eq!(world.store.reader().unfinished().expect("can be asked"), [id("s0")], "and then it goes on");
    // Or a person lifts it by writing.
    world.play(&[halts.clone(), says(0, "still there?"), answers(0, "yes"), answers(0, "both")]);
    world.play(&[
        StoryMove::Halts { place: 2 },
        says(2, "hi"),
        answers(2, "hello"),
        StoryMove::Halts { place: 2 },
    ]);
    assert_eq!(world.store.reader().halted().expect("can be asked"), [id("s2")]);
}

pub(crate) fn a_turn_that_uses_up_its_budget_is_known_to_have(sites: StoreSites<'_>) {
    let step = [
        StoryMove::CallsTools { place: 0, calls: 0 },
        StoryMove::Returns { place: 0, index: 0 },
        StoryMove::Reopens,
    ];
    let mut world = StoreWorld::new(sites(), busy_rules(BusyInput::Queue));
    world.play(&[says(0, "dig")]);
    (0..3).for_each(|_| world.play(&step));
    let Phase::Turn(turn) = &world.books[&id("s0")].state.phase else { panic!("it has not ended") };
    assert!(turn.spent > 0 && !turn.exhausted && turn.repeated.is_some());
    world.play(&[step[0].clone(), StoryMove::Reopens]);
    let Phase::Turn(turn) = &world.books[&id("s0")].state.phase else { panic!("it may answer once more") };
    assert!(turn.exhausted && turn.group.is_none());
    world.play(&[step[0].clone(), StoryMove::Reopens, says(0, "go on"), answers(0, "here")]);
    let outcome = &world.books[&id("s0")].outcomes[&Seq(1)];
    assert!(
        matches!(outcome, Outcome::Failed(_, Failure { kind: FailureKind::Exhausted, .. })),
        "{outcome:?}"
    );
    // A helper has the budget of its task.
    let child = CHILD as u8;
    let step =
        [StoryMove::CallsTools { place: child, calls: 0 }, StoryMove::Returns { place: child, index: 0 }];
    world.play(&[says(2, "delegate"), says(child, "do it")]);
    (0..3).for_each(|_| world.play(&step));
    world.play(&[answers(child, "that is all"), StoryMove::Reopens]);
}

pub(crate) fn calls_that_lead_nowhere_are_counted_through_a_restart(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(2, "look")]);
    for _ in 0..5 {
        world.play(&[
            StoryMove::CallsTools { place: 2, calls: 0 },
            StoryMove::Returns { place: 2, index: 0 },
            StoryMove::Reopens,
        ]);
    }
    world.play(&[StoryMove::CallsTools { place: 2, calls: 0 }, StoryMove::Reopens]);
    assert_eq!(world.notes.get("calls_repeated"), Some(&1));
    world.play(&[answers(2, "nothing there")]);
}

pub(crate) fn a_failed_turn_is_tried_again_as_the_same_turn(sites: StoreSites<'_>) {
    let mut world = world(sites);
    let fails = |kind| StoryMove::Fails { place: 2, kind };
    world.play(&[says(2, "hi"), fails(0), StoryMove::Retries { place: 2 }, fails(1), StoryMove::Reopens]);
    world.play(&[
        StoryMove::Retries { place: 2 },
        StoryMove::CallsTools { place: 2, calls: 0 },
        StoryMove::Returns { place: 2, index: 0 },
    ]);
    world.play(&[
        fails(2),
        StoryMove::Retries { place: 2 },
        answers(2, "at last"),
        says(2, "more"),
        answers(2, "yes"),
    ]);
    assert_eq!(
        world.books[&id("s2")].transcript.iter().filter(|message| message.role() == "user").count(),
        2
    );
    // A turn that failed with its tools open leaves none of them behind.
    world.play(&[
        says(0, "look"),
        StoryMove::CallsTools { place: 0, calls: 1 },
        StoryMove::Returns { place: 0, index: 0 },
    ]);
    world.play(&[
        StoryMove::Fails { place: 0, kind: 0 },
        StoryMove::Retries { place: 0 },
        StoryMove::Reopens,
        answers(0, "done"),
    ]);
}

pub(crate) fn a_session_keeps_its_prompt_and_its_owner(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(3, "hi")]);
    let session = world.places[3].clone();
    let loaded = world.store.reader().load(&session).expect("can be loaded").expect("is there");
    assert_eq!(loaded.source, "api_server");
    assert_eq!(loaded.principal.as_deref(), Some("p"));
    let planned = world.plan(3, taken_up(), vec![Act::Freeze { prompt: "Another.".into(), layer: None }]);
    world.enqueue(planned);
    world.play(&[StoryMove::Reopens]);
    let summary = world.store.reader().session(&session).expect("can be described").expect("is there");
    assert_eq!((summary.source.as_str(), summary.preview.as_str()), ("api_server", "from long ago"));
    assert_eq!(summary.messages, 2);
}

pub(crate) fn starts_are_counted_and_cursors_kept(sites: StoreSites<'_>) {
    let mut world = world(sites);
    assert_eq!(world.store.reader().cursor("telegram", "bot").expect("can be read"), None);
    for value in ["41", "42"] {
        let cursor =
            Commit::Cursor { platform: "telegram".into(), account: "bot".into(), value: value.into() };
        one(world.store.as_mut(), cursor).expect("a cursor can be written");
    }
    let note = Commit::Note { session: None, name: "odd", detail: "very".into(), at: world.now };
    one(world.store.as_mut(), note).expect("an event can be noted");
    world.play(&[StoryMove::Reopens]);
    assert_eq!(world.store.reader().cursor("telegram", "bot").expect("can be read").as_deref(), Some("42"));
    assert_eq!(world.store.reader().cursor("telegram", "other").expect("can be read"), None);
    assert!(world.store.reader().counts().expect("can be counted").contains(&("odd".to_owned(), 1)));
}
