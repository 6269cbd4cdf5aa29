//! Replies and their previews.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::{elsewhere, one};
use crate::story::StoryMove;
use crate::world::StoreWorld;
use throughline_core::port::{Commit, DeliveryChange, DraftChange};
use throughline_core::time::Time;

pub(crate) fn p10_a_delivered_reply_stays_delivered(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "hi"), answers(0, "hello"), says(1, "ho"), answers(1, "yes")]);
    let deliver = |change| StoryMove::Delivers { reply: 0, change };
    world.play(&[deliver(0), StoryMove::Reopens, deliver(4), deliver(6), StoryMove::Reopens, deliver(0)]);
    assert!(
        world.replies[0].attempted.is_some(),
        "what may have arrived stays so, also after a later attempt"
    );
    world.play(&[deliver(2), deliver(0), deliver(1)]);
    let key = world.replies[0].key.clone();
    let commit = |change| Commit::Delivery { key: key.clone(), boot: world.boot, change, at: world.now };
    let again = one(world.store.as_mut(), commit(DeliveryChange::Attempting { marked: false }));
    assert!(again.is_err(), "what is delivered is not attempted again");
    let late = DeliveryChange::Postponed { until: world.now, error: "late".into(), unknown_since: None };
    one(world.store.as_mut(), commit(late)).expect("a late word about it changes nothing");
    world.compare_replies();
    world.play(&[deliver(3)]);
    assert_eq!(world.store.reader().undelivered().expect("can be asked"), []);
}

pub(crate) fn p10_a_preview_is_known_until_its_reply_takes_its_place(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "hi")]);
    let (session, destination) = (world.places[0].clone(), elsewhere());
    let key = format!("{session}/1");
    let draft = |change| Commit::Draft { key: key.clone(), change, at: Time(5) };
    let intended =
        || draft(DraftChange::Intended { session: session.clone(), destination: destination.clone() });
    let posted = |id: &str| draft(DraftChange::Posted { id: id.into() });
    let known = |world: &StoreWorld| world.store.reader().drafts().expect("can be asked");
    assert_eq!(known(&world), []);
    for (commit, then) in [
        (intended(), vec![(key.clone(), None)]),
        (posted("77"), vec![(key.clone(), Some("77".to_owned()))]),
        (draft(DraftChange::Left), vec![]),
        (posted("78"), vec![]), // late: it is not intended any more
        (intended(), vec![(key.clone(), None)]),
        (posted("79"), vec![(key.clone(), Some("79".to_owned()))]),
    ] {
        one(world.store.as_mut(), commit.clone()).expect("a preview can change");
        assert_eq!(known(&world), then, "after {commit:?}");
    }
    world.play(&[answers(0, "hello"), StoryMove::Reopens]);
    assert_eq!(known(&world), [(key.clone(), Some("79".to_owned()))], "after a start");
    let deliver = |change| StoryMove::Delivers { reply: 0, change };
    world.play(&[deliver(0), deliver(2), deliver(0)]);
    assert_eq!(known(&world).len(), 1, "it is not there yet");
    world.play(&[deliver(1)]);
    assert_eq!(known(&world), [], "the reply is that message now");
}
