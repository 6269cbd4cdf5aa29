//! Reviews: each is about the view it fell due on.

use crate::StoreSites;
use crate::promises::{answers, says};
use crate::sample::id;
use crate::story::StoryMove;
use crate::world::{StoreWorld, busy_rules};
use throughline_core::session::BusyInput;

pub(crate) fn p22_a_review_is_about_the_view_it_fell_due_on(sites: StoreSites<'_>) {
    for place in [0, 2] {
        let mut world = StoreWorld::new(sites(), busy_rules(BusyInput::Queue));
        let turn = [says(place, "hi"), answers(place, "hello"), StoryMove::Reopens];
        (0..2).for_each(|_| world.play(&turn));
        let session = id(&format!("s{place}"));
        let due = |world: &StoreWorld| world.books[&session].state.reviews.pending.len();
        assert_eq!(due(&world), 1);
        assert_eq!(
            world.store.reader().unfinished().expect("can be asked"),
            std::slice::from_ref(&session),
            "a start takes it up"
        );
        // What is summarised, taken back or ended is none of its business.
        let what: Vec<StoryMove> = (0..31)
            .flat_map(|how| {
                let deferred = StoryMove::DeferredCommands { place, what: how % 4 };
                [
                    StoryMove::Surveys { place, how },
                    StoryMove::Summarises { place, how: 8 * how + 4 },
                    says(place, "more"),
                    answers(place, "and more"),
                    StoryMove::Reports { place },
                    deferred,
                    StoryMove::Finds { place, how },
                    StoryMove::Restores { place, which: how },
                    StoryMove::Tends,
                ]
            })
            .collect();
        world.play(&what);
        world.play(&[StoryMove::Orders { place, what: 0 }, StoryMove::Reopens]);
        assert!(due(&world) > 0, "it is still due");
        world.play(&vec![StoryMove::Reviews { place: 0, how: 1 }; 64]);
        assert_eq!(due(&world), 0);
        world.play(&[StoryMove::Reopens]);
    }
}

pub(crate) fn p22_a_review_that_is_over_stays_over(sites: StoreSites<'_>) {
    let mut world = StoreWorld::new(sites(), busy_rules(BusyInput::Queue));
    let turn = [says(0, "hi"), answers(0, "hello")];
    let reviews =
        |how| [StoryMove::Reviews { place: 0, how }, StoryMove::Reopens, StoryMove::Reloads { place: 0 }];
    (0..2).for_each(|_| world.play(&turn));
    world.play(&reviews(2));
    assert_eq!(world.store.reader().reviews().expect("can be asked"), []);
    (0..2).for_each(|_| world.play(&turn));
    (0..3).for_each(|_| world.play(&reviews(3)));
    let open = world.store.reader().reviews().expect("can be asked");
    assert_eq!(
        open.iter().map(|it| (it.number, it.parked.as_deref())).collect::<Vec<_>>(),
        [(2, Some("no answer."))]
    );
    assert!(world.books[&id("s0")].state.is_quiet(), "what is set aside stays there");
    assert!(world.replies.iter().any(|sent| sent.key == "s0/review-1"));
}
