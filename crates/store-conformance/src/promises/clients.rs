//! API clients: their own history and their retries find where they go on.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::id;
use crate::story::StoryMove;
use crate::world::StoreWorld;
use throughline_core::prompt::Digest;
use throughline_core::session::Rules;

pub(crate) fn a_clients_own_history_finds_where_it_goes_on(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(2, "hi"), answers(2, "hello"), says(2, "more"), answers(2, "yes")]);
    world.play(&[says(2, "waiting")]);
    // Another client's conversation with the same words is found, too, and told apart.
    let mut other = StoreWorld::new(sites(), Rules::default());
    other.play(&[says(2, "hi"), answers(2, "hello")]);
    let session = other.places[2].clone();
    let digest = other.books[&session].tips[0].0;
    assert_eq!(world.books[&id("s2")].tips[0].0, digest, "same principal, same words, same digest");
    let matches = world.store.reader().thread("p", &digest).expect("can be looked up");
    assert!(!matches[0].is_tip, "more has been said since");
}

pub(crate) fn an_implicit_key_finds_the_newest_request(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(2, "hi"), answers(2, "hello"), StoryMove::Written { place: 2 }, says(2, "hi")]);
    world.play(&[answers(2, "hello again"), says(3, "hi"), StoryMove::Written { place: 3 }]);
    assert_eq!(world.store.reader().implicit(&Digest::of(&[b"never said"])).expect("can be looked up"), None);
}
