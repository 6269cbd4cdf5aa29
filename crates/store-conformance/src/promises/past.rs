//! What must hold of deferred commands: the end of a conversation is taken back, asked again, named, copied, and left
//! for an earlier one.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::{id, one};
use crate::story::StoryMove;
use crate::world::StoreWorld;
use throughline_core::command::{Found, Past};
use throughline_core::id::{RowId, Seq, SessionId};
use throughline_core::port::{Commit, SessionFilter, StoreError};
use throughline_core::session::Event;

pub(crate) fn deferred_commands(place: u8, what: u8) -> StoryMove {
    StoryMove::DeferredCommands { place, what }
}

pub(crate) fn finds(place: u8) -> StoryMove {
    StoryMove::Finds { place, how: 0 }
}

pub(crate) const UNDO: u8 = 0;

pub(crate) const RETRY: u8 = 2;

pub(crate) const TITLE: u8 = 3;

pub(crate) const MODEL: u8 = 4;

pub(crate) const BRANCH: u8 = 5;

pub(crate) const RESUME: u8 = 6;

pub(crate) const NEW: u8 = 7;

pub(crate) fn p4_what_is_taken_back_is_kept_and_can_be_brought_back(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "one"), answers(0, "re one"), says(0, "two"), answers(0, "re two")]);
    world.play(&[
        deferred_commands(0, UNDO),
        StoryMove::Reopens,
        says(0, "three"),
        finds(0),
        StoryMove::Reopens,
    ]);
    let book = &world.books[&id("s0")];
    let live: Vec<String> = book.shown(&book.view).iter().map(|row| row.content().plain()).collect();
    assert_eq!(live, ["one", "re one", "three"], "what waited goes on where it was taken back");
    let said = |world: &StoreWorld| -> Vec<String> {
        let said = world.store.reader().said(&id("s0")).expect("can be read");
        said.iter().map(|(_, row)| row.content().plain()).collect()
    };
    assert_eq!(said(&world), ["one", "re one", "three"], "what was taken back is not told at the end");
    let found = world.store.reader().search("two", &SessionFilter::default()).expect("can be searched");
    assert_eq!(found, [], "it is not found among what was said");
    let filter = SessionFilter { snapshot: Some(book.kept[0].name.clone()), ..SessionFilter::default() };
    let found = world.store.reader().search("two", &filter).expect("can be searched");
    assert!(!found.is_empty(), "but where it is kept");
    world.play(&[answers(0, "re three"), StoryMove::Restores { place: 0, which: 0 }, StoryMove::Reopens]);
    let book = &world.books[&id("s0")];
    let live: Vec<String> = book.shown(&book.view).iter().map(|row| row.content().plain()).collect();
    assert_eq!(live, ["one", "re one", "two", "re two", "three", "re three"]);
    // More than there is: all of it.
    world.play(&[
        deferred_commands(0, UNDO + 16),
        finds(0),
        deferred_commands(0, UNDO),
        finds(0),
        deferred_commands(0, UNDO),
        finds(0),
    ]);
    world.play(&[says(0, "afresh"), answers(0, "yes"), StoryMove::Reopens]);
}

pub(crate) fn p4_a_message_is_asked_again_and_stands_there_once(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "one"),
        answers(0, "re one"),
        deferred_commands(0, RETRY),
        finds(0),
        StoryMove::Reopens,
    ]);
    world.play(&[StoryMove::Reloads { place: 0 }, answers(0, "better"), StoryMove::Reopens]);
    let book = &world.books[&id("s0")];
    let live: Vec<String> = book.shown(&book.view).iter().map(|row| row.content().plain()).collect();
    assert_eq!(live, ["one", "better"]);
    assert_eq!(book.kept.len(), 1, "the first answer is kept");
    // One that failed, and one of two that shared a turn.
    world.play(&[
        says(0, "two"),
        StoryMove::Fails { place: 0, kind: 0 },
        deferred_commands(0, RETRY),
        finds(0),
    ]);
    world.play(&[says(0, "three"), says(0, "four"), answers(0, "re two"), answers(0, "re both")]);
    world.play(&[
        deferred_commands(0, RETRY),
        finds(0),
        answers(0, "once more"),
        deferred_commands(0, UNDO),
        finds(0),
    ]);
    let book = &world.books[&id("s0")];
    let live: Vec<String> = book.shown(&book.view).iter().map(|row| row.content().plain()).collect();
    assert_eq!(live, ["one", "better", "two", "re two"]);
}

pub(crate) fn p4_a_copy_goes_on_and_the_original_stays(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "one"),
        answers(0, "re one"),
        deferred_commands(0, TITLE),
        finds(0),
        deferred_commands(0, MODEL),
        finds(0),
    ]);
    world.play(&[deferred_commands(0, BRANCH), says(0, "two"), finds(0), StoryMove::Reopens]);
    world.play(&[StoryMove::Reloads { place: 0 }, answers(0, "re two")]);
    let copy = world.places[0].clone();
    let title = |session: &SessionId| {
        world.store.reader().session(session).expect("can be asked").and_then(|it| it.title)
    };
    assert_eq!((title(&id("s0")), title(&copy)), (Some("a title 0".into()), Some("a title 0 #2".into())));
    assert_eq!(world.books[&id("s0")].view.len(), 2, "the original is as it was");
    assert_eq!(world.books[&copy].view.len(), 4);
    assert_eq!(world.books[&copy].state.preferences, world.books[&id("s0")].state.preferences);
    // Back to the original, which takes along what waits, and forth again.
    world.play(&[deferred_commands(0, RESUME), says(0, "three"), finds(0), StoryMove::Reopens]);
    world.play(&[StoryMove::Reloads { place: 0 }, answers(0, "re three")]);
    assert_eq!(world.places[0], id("s0"));
    assert_eq!(world.books[&id("s0")].view.len(), 4);
    world.play(&[
        deferred_commands(0, RESUME),
        finds(0),
        says(0, "four"),
        answers(0, "re four"),
        StoryMove::Reopens,
    ]);
    assert_eq!(world.places[0], copy);
    for _ in 0..6 {
        world.play(&[StoryMove::Finalises { place: 0 }]);
    }
    world.play(&[
        deferred_commands(0, RESUME),
        finds(0),
        StoryMove::Reopens,
        deferred_commands(0, NEW),
        finds(0),
        StoryMove::Reopens,
    ]);
}

pub(crate) fn p4_a_switch_is_refused_where_something_has_changed(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "one"), answers(0, "re one"), says(1, "one"), answers(1, "re one")]);
    for (what, found) in [
        // It leads somewhere: another chat is there.
        (RESUME, Found::Earlier { session: id("s1"), title: None, messages: 2, received: Seq(1) }),
        (RESUME, Found::Earlier { session: id("nobody"), title: None, messages: 2, received: Seq(0) }),
        (BRANCH, Found::Copy { title: "x".into(), rows: 7, messages: 7 }),
        (
            UNDO,
            Found::Past(Past {
                from: RowId(1),
                rows: 9,
                exchanges: 1,
                said: Vec::new(),
                remaining: 0,
                context: 0,
                summarised: false,
            }),
        ),
    ] {
        world.play(&[deferred_commands(0, what)]);
        let seq = world.book(0).state.received;
        let planned = world.plan(0, Event::Ordered { seq, found: found.clone() }, Vec::new());
        let (expect, state) = (planned.expect, Box::new(planned.next));
        let commit = Commit::Session { expect, state, acts: planned.acts, at: world.now };
        let result = one(world.store.as_mut(), commit);
        assert!(matches!(result, Err(StoreError::Fenced { .. })), "{found:?}: {result:?}");
        world.compare_all();
        world.happens(0, Event::Ordered { seq, found: Found::Said("Nothing.".into()) });
    }
    world.play(&[says(0, "two"), answers(0, "re two")]);
}
