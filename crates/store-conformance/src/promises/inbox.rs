//! Messages: each is accepted once, waits with its texts, and moves whole.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::{bare_input, id, long, one};
use crate::story::StoryMove;
use crate::world::StoreWorld;
use std::sync::Arc;
use throughline_core::id::{Generation, Seq};
use throughline_core::input::{Birth, DedupeKey, Input, Kind, Request};
use throughline_core::message::Content;
use throughline_core::port::{Commit, StoreError};
use throughline_core::prompt::Digest;
use throughline_core::session::{Act, Event, Failure, FailureKind, Phase, Rules, Session};
use throughline_core::time::Time;

pub(crate) fn p7_the_same_message_is_accepted_once(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "hi"), StoryMove::SaysAgain { place: 0 }, answers(0, "hello")]);
    world.play(&[StoryMove::Reopens, StoryMove::SaysAgain { place: 0 }, StoryMove::SaysAgain { place: 1 }]);
    // A client's key: the same body is the same request, another body is told apart.
    one(world.store.as_mut(), keyed_request("b0", b"one")).expect("the first is accepted");
    for (body, same) in [(b"one", true), (b"two", false)] {
        match one(world.store.as_mut(), keyed_request("b1", body)) {
            Err(StoreError::Duplicate { session, seq, same_body }) => {
                assert_eq!((session, seq, same_body), (id("b0"), Seq(1), same));
            }
            result => panic!("a known key was not refused: {result:?}"),
        }
    }
    assert_eq!(world.store.reader().load(&id("b1")).expect("can be asked"), None, "nothing was begun");
}

/// The first request of a session, under one and the same idempotency key.
pub(crate) fn keyed_request(session: &str, body: &[u8]) -> Commit {
    let at = Time(1_700_000_000_000_000);
    let request =
        Request { content: Content::text("x"), body: Some(Digest::of(&[body])), ..Request::default() };
    let key = DedupeKey::of(&["idempotency"]);
    let input = Input { at, key, kind: Kind::Request(request), ..bare_input() };
    let event = Event::Received(Arc::new(input));
    let (state, mut acts) = Session::new(id(session)).step(event, at, &Rules::default());
    acts.insert(0, Act::Open(Box::new(Birth { source: "api_server".into(), ..Birth::default() })));
    Commit::Session { expect: Generation(0), state: Box::new(state), acts, at }
}

pub(crate) fn p8_what_waits_moves_to_the_next_session(sites: StoreSites<'_>) {
    let new = |place| StoryMove::Orders { place, what: 0 };
    for place in [0, 2] {
        let mut world = world(sites);
        world.play(&[
            says(place, "one"),
            says(place, "two"),
            new(place),
            says(place, "three"),
            says(place, "four"),
        ]);
        world.play(&[answers(place, "first"), answers(place, "second"), answers(place, "third")]);
        assert_ne!(world.places[usize::from(place)], id(&format!("s{place}")), "the place has moved on");
        let finalises = vec![StoryMove::Finalises { place: 0 }; 6];
        world.play(&finalises);
        world.play(&[StoryMove::Reloads { place }, answers(place, "a"), answers(place, "b"), new(place)]);
    }
}

pub(crate) fn p8_long_texts_wait_on_disk_and_move_whole(sites: StoreSites<'_>) {
    let says = |place, name| says(place, &long(name));
    let light = |world: &StoreWorld, place: u8| {
        world.book(place).state.waiting.iter().filter(|input| input.left.is_some()).count()
    };
    for place in [0, 2] {
        let mut world = world(sites);
        world.play(&[says(place, "one"), says(place, "two"), StoryMove::Orders { place, what: 17 }]);
        assert_eq!(light(&world, place), 2, "they wait without their texts");
        world.play(&[StoryMove::Orders { place, what: 0 }, says(place, "three"), says(place, "four")]);
        world.play(&[StoryMove::Reloads { place }, answers(place, "first"), answers(place, "second")]);
        world.play(&[StoryMove::Reopens, answers(place, "third")]);
        assert_ne!(world.places[usize::from(place)], id(&format!("s{place}")), "the place has moved on");
        world.play(&[
            answers(place, "a"),
            StoryMove::Reloads { place },
            answers(place, "b"),
            answers(place, "c"),
        ]);
        let mut said: Vec<String> = Vec::new();
        for session in world.books.keys().filter(|id| world.books[*id].born) {
            let rows = world.store.reader().history(session).expect("can be read");
            said.extend(rows.into_iter().map(|(_, message)| message.content().plain()));
        }
        for name in ["one", "two", "three", "four", "and then right"] {
            let times = said.iter().filter(|said| **said == long(name)).count();
            assert_eq!(times, 1, "place {place}: what begins with {name:?} was said once, and whole");
        }
    }
    // What comes in with the very commit that moves it.
    let mut world = world(sites);
    world.play(&[
        says(0, "one"),
        StoryMove::Halts { place: 0 },
        StoryMove::Orders { place: 0, what: 0 },
        says(0, "two"),
    ]);
    world.play(&[answers(0, "first"), says(0, "three"), answers(0, "second")]);
}

pub(crate) fn an_input_without_its_texts_is_refused(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(2, &long("one")), says(2, &long("two"))]);
    let book = world.book(2);
    let Phase::Turn(turn) = &book.state.phase else { panic!("the first is being answered") };
    let failure = Failure { kind: FailureKind::Broken, message: "it did not work".into() };
    let event = Event::Failed { turn: turn.id, step: turn.step, failure };
    let (state, acts) = book.state.step(event, world.now, &world.rules);
    assert!(!state.unread(&acts).is_empty(), "the second begins");
    let commit = Commit::Session { expect: book.expect, state: Box::new(state), acts, at: world.now };
    one(world.store.as_mut(), commit).expect_err("a turn is about words");
    world.compare_all();
    world.play(&[answers(2, "first"), answers(2, "second")]);
}
