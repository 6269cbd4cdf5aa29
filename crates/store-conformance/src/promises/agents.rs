//! Agents among each other: chains and helpers.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::id;
use crate::story::StoryMove;
use crate::world::{CHILD, StoreWorld, busy_rules};
use throughline_core::port::SessionFilter;
use throughline_core::session::BusyInput;

pub(crate) fn a_chain_between_agents_is_counted_and_cut_with_one_notice(sites: StoreSites<'_>) {
    let mut world = StoreWorld::new(sites(), busy_rules(BusyInput::Queue));
    let hears = |place, origin| StoryMove::Hears { place, origin, hops: 0 };
    // Origin 2 began elsewhere, origin 1 here.
    for origin in [2, 1] {
        for _ in 0..2 {
            world.play(&[hears(0, origin), answers(0, ".."), StoryMove::Reopens]);
        }
        world.play(&[hears(0, origin), hears(0, origin), StoryMove::Reloads { place: 0 }]);
    }
    world.play(&[says(0, "still there?"), answers(0, "yes")]);
    assert_eq!(world.notes.get("chain_cut"), Some(&4));
    let notices =
        |world: &StoreWorld| world.replies.iter().filter(|sent| sent.key.contains("|cut/human")).count();
    assert_eq!(notices(&world), 2, "told once for each chain, where it was cut");
    let heard = world.books[&id("s0")].rows.len();
    assert_eq!(heard, 2 * (2 * 2 + 2) + 2, "a message that begins no turn is a row all the same");
    // Too many hops are too many for the first message, too; a person is answered all the same.
    world.play(&[StoryMove::Hears { place: 1, origin: 2, hops: 3 }, says(0, "and I?"), answers(0, "yes")]);
    assert_eq!(notices(&world), 2, "by whichever session");
    assert_eq!(world.replies.last().map(|sent| sent.trace.hops), Some(1));
}

pub(crate) fn a_session_that_works_for_another_is_found_by_it_and_not_listed(sites: StoreSites<'_>) {
    let mut world = world(sites);
    let child = CHILD as u8;
    world.play(&[
        says(child, "nobody asked"),
        says(2, "otter"),
        says(child, "find the otter"),
        answers(child, "an otter"),
    ]);
    assert_eq!(world.store.reader().children(&id("s2")).expect("can be asked"), [id("s4")]);
    assert_eq!(world.store.reader().children(&id("s4")).expect("can be asked"), []);
    let listed = |filter: SessionFilter| -> Vec<String> {
        let found = world.store.reader().sessions(&filter).expect("can be listed");
        found.into_iter().map(|summary| summary.id.to_string()).collect()
    };
    assert_eq!(listed(SessionFilter::default()), ["s2"]);
    assert_eq!(listed(SessionFilter { session: Some(id("s4")), ..SessionFilter::default() }), ["s4"]);
    let find =
        |filter: SessionFilter| world.store.reader().search("otter", &filter).expect("can be searched").len();
    assert_eq!(find(SessionFilter::default()), 3);
    assert_eq!(find(SessionFilter { without_helpers: true, ..SessionFilter::default() }), 1);
    assert_eq!(
        find(SessionFilter { exclude: Some(id("s4")), ..SessionFilter::default() }),
        0,
        "one conversation"
    );
    // A new beginning does not make it a chat.
    world.play(&[StoryMove::Orders { place: child, what: 0 }, StoryMove::Reopens]);
    assert_eq!(world.store.reader().sessions(&SessionFilter::default()).expect("can be listed").len(), 1);
}
