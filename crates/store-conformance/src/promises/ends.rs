//! Ends: a conversation expires, and is handed over once.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::{chat, id};
use crate::story::StoryMove;
use throughline_core::session::lifecycle::ATTEMPTS_MAX;
use throughline_core::session::{Finalisation, Phase};
use throughline_core::time::Time;

pub(crate) fn p20_a_conversation_ends_by_itself_and_the_next_knows_of_it(sites: StoreSites<'_>) {
    for how in 0..4 {
        let mut world = world(sites);
        let expires = StoryMove::Expires { place: 0, how };
        world.play(&[says(0, "one"), expires.clone()]); // not while a turn runs
        assert_eq!(world.places[0], id("s0"));
        world.play(&[answers(0, "first")]);
        let resting = world.store.reader().resting(Time(i64::MAX)).expect("can be asked");
        let found: Vec<_> = resting.iter().map(|it| (it.session.as_str(), it.platform.as_str())).collect();
        assert_eq!(found, [("s0", "test")]);
        assert_eq!(
            world.store.reader().resting(resting[0].active).expect("can be asked"),
            [],
            "not before its time"
        );
        world.play(&[expires, StoryMove::Reopens]);
        assert_ne!(world.places[0], id("s0"), "the place has moved on");
        world.play(&[says(0, "two"), answers(0, "second")]);
        assert_eq!(
            world.store.reader().reset(&chat(0).key).expect("can be asked"),
            None,
            "another has begun there"
        );
        world.play(&vec![StoryMove::Finalises { place: 0 }; 6]);
        world.play(&[StoryMove::Revives { place: 0 }, StoryMove::Reloads { place: 0 }]);
    }
}

pub(crate) fn p20_every_commit_of_a_hand_over_can_be_the_last(sites: StoreSites<'_>) {
    let does = |how| StoryMove::HandsOver { place: 0, how };
    let story = [
        StoryMove::Finalises { place: 0 },
        does(0), // begins the first
        does(5), // which fails
        does(0),
        does(2), // and is done
        does(8), // begins the second
        does(4), // the process ends
        does(2), // and it is done all the same
        does(8), // an echo
        StoryMove::Finalises { place: 0 },
        StoryMove::Finalises { place: 0 },
        StoryMove::Finalises { place: 0 },
    ];
    for place in [0, 2] {
        let mut world = world(sites);
        world.play(&[says(place, "one"), answers(place, "first"), StoryMove::Orders { place, what: 0 }]);
        for step in &story {
            world.play(&[step.clone(), StoryMove::Reopens]);
        }
        let ended = &world.books[&id(&format!("s{place}"))].state;
        assert_eq!((&ended.phase, ended.handover.done.len()), (&Phase::Closed(Finalisation::Done), 2));
    }
}

pub(crate) fn p20_what_was_set_aside_is_found_by_name(sites: StoreSites<'_>) {
    let mut world = world(sites);
    let does = |how| StoryMove::HandsOver { place: 0, how };
    world.play(&[says(0, "one"), answers(0, "first"), StoryMove::Expires { place: 0, how: 2 }]);
    world.play(&[StoryMove::Finalises { place: 0 }]);
    for _ in 0..ATTEMPTS_MAX {
        assert_eq!(world.store.reader().parked().expect("can be asked"), []);
        world.play(&[does(0), does(5)]);
    }
    let parked = world.store.reader().parked().expect("can be asked");
    let found: Vec<_> = parked.iter().map(|it| (it.session.as_str(), it.attempts, it.stage)).collect();
    assert_eq!(found, [("s0", ATTEMPTS_MAX, Finalisation::Hooks)]);
    assert!(parked[0].why.starts_with("on_session_finalize: ünï: exit"), "{}", parked[0].why);
    world.play(&[StoryMove::Reopens, does(3)]);
    assert_eq!(world.store.reader().parked().expect("can be asked"), [], "a person let it go on");
}
