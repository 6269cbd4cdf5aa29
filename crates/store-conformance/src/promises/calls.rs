//! Calls of tools: their groups, questions and grants outlive a restart.

use crate::StoreSites;
use crate::promises::{answers, says, world};
use crate::sample::{id, one};
use crate::story::StoryMove;
use throughline_core::id::{Seq, TurnId};
use throughline_core::message::{Content, ToolResult};
use throughline_core::port::Commit;
use throughline_core::session::{Act, Failure, FailureKind, Outcome, Phase};

pub(crate) fn p9_an_open_group_survives_and_closes_whole(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[
        says(0, "look"),
        StoryMove::CallsTools { place: 0, calls: 2 },
        StoryMove::Returns { place: 0, index: 1 },
    ]);
    assert_eq!(world.books[&id("s0")].transcript.len(), 1, "an open group is not in the transcript");
    let result = ToolResult { call_id: "x".into(), name: None, content: Content::text("another") };
    let twice = Act::Result { turn: TurnId(Seq(1)), step: 0, index: 1, result };
    let state = Box::new(world.books[&id("s0")].state.clone());
    let commit = Commit::Session { expect: state.generation, state, acts: vec![twice], at: world.now };
    assert!(one(world.store.as_mut(), commit).is_err(), "a call that is done has its result");
    world.compare(&id("s0"));
    world.play(&[StoryMove::Returns { place: 0, index: 0 }, StoryMove::Returns { place: 0, index: 2 }]);
    assert_eq!(world.books[&id("s0")].transcript.len(), 5, "a closed one is, in call order");
    world.play(&[answers(0, "seen")]);
    // A restart gives up what may or may not have ended.
    world.play(&[
        says(0, "again"),
        StoryMove::CallsTools { place: 0, calls: 1 },
        StoryMove::Returns { place: 0, index: 0 },
    ]);
    world.play(&[StoryMove::Reloads { place: 0 }, answers(0, "one of two")]);
    let parked =
        [says(0, "crash"), StoryMove::CallsTools { place: 0, calls: 0 }, StoryMove::Reloads { place: 0 }];
    world.play(&parked);
    for _ in 0..3 {
        world.play(&[StoryMove::CallsTools { place: 0, calls: 0 }, StoryMove::Reloads { place: 0 }]);
    }
}

pub(crate) fn p9_questions_and_grants_wait_through_a_restart(sites: StoreSites<'_>) {
    let mut world = world(sites);
    let asks = |index, kind| StoryMove::Asks { place: 0, index, kind };
    let decides = |index, verdict| StoryMove::Decides { place: 0, index, verdict };
    world.play(&[says(0, "clean up"), StoryMove::CallsTools { place: 0, calls: 2 }, asks(1, 0), asks(0, 2)]);
    let asked = world.store.reader().asks().expect("can be asked");
    assert_eq!(asked.iter().map(|pending| pending.call.index).collect::<Vec<_>>(), [1, 0], "oldest first");
    assert_eq!((asked[0].call.to_string().as_str(), asked[0].tool.as_str()), ("s0/1/0/1", "look"));
    // The third call was running; those that ask go on waiting, however often the process ends.
    world.play(&[StoryMove::Reloads { place: 0 }, StoryMove::Reopens, StoryMove::Reloads { place: 0 }]);
    assert_eq!(world.store.reader().asks().expect("can be asked"), asked);
    world.play(&[
        decides(1, 1),
        StoryMove::Reopens,
        decides(0, 5),
        StoryMove::Resumes { place: 0, repeatable: 2 },
    ]);
    assert_eq!(world.books[&id("s0")].state.allowed, ["recursive delete"]);
    assert_eq!(world.store.reader().asks().expect("can be asked"), []);
    // A granted call may ask once more, and be refused.
    world.play(&[asks(1, 1), decides(1, 6), answers(0, "as you wish")]);
    // The yes outlives the turn, and the message of a person answers what was asked in its place.
    world.play(&[says(0, "again"), StoryMove::CallsTools { place: 0, calls: 1 }, asks(0, 2), asks(1, 1)]);
    world.play(&[
        says(0, "b"),
        StoryMove::Orders { place: 0, what: 9 },
        answers(0, "done"),
        StoryMove::Reopens,
    ]);
    // What steers the turn came first, and joins after the answer that the call waited for.
    world.play(&[says(0, "which?"), StoryMove::CallsTools { place: 0, calls: 0 }, asks(0, 2)]);
    world.play(&[StoryMove::Orders { place: 0, what: 5 }, says(0, "that one"), StoryMove::Reopens]);
    let Phase::Turn(turn) = &world.books[&id("s0")].state.phase else { panic!("it goes on") };
    let order: Vec<u64> = turn.inputs.iter().map(|input| input.seq.0 - turn.id.0.0).collect();
    assert_eq!(order, [0, 2, 1]);
    world.play(&[answers(0, "that one, on the left")]);
    assert_eq!(world.books[&id("s0")].state.allowed, ["recursive delete"]);
}

/// A turn with three calls, of which one asks, one is granted and one sends.
pub(crate) fn p9_every_commit_of_a_turn_with_calls_can_be_the_last(sites: StoreSites<'_>) {
    let story = [
        says(0, "do three things"),
        StoryMove::CallsTools { place: 0, calls: 2 },
        StoryMove::Asks { place: 0, index: 0, kind: 0 },
        StoryMove::Sends { place: 0, index: 2, letters: 2 },
        says(0, "meanwhile"),
        StoryMove::Orders { place: 0, what: 5 },
        StoryMove::Decides { place: 0, index: 0, verdict: 0 },
        StoryMove::Returns { place: 0, index: 0 },
        StoryMove::Asks { place: 0, index: 1, kind: 2 },
        StoryMove::Decides { place: 0, index: 1, verdict: 3 },
        StoryMove::CallsTools { place: 0, calls: 0 },
        StoryMove::Returns { place: 0, index: 0 },
        answers(0, "done"),
    ];
    for repeatable in [0, 0b111] {
        for last in 0..story.len() {
            let restart = [StoryMove::Resumes { place: 0, repeatable }, StoryMove::Reopens];
            let end = [answers(0, "and the rest"), answers(0, "and more")];
            world(sites).play(&[&story[..last], &restart, &story[last..], &end].concat());
        }
    }
}

pub(crate) fn p4_a_stopped_turn_leaves_nothing_open_and_loses_nothing(sites: StoreSites<'_>) {
    let order = |what| StoryMove::Orders { place: 0, what };
    let mut world = world(sites);
    world.play(&[
        says(0, "look"),
        StoryMove::CallsTools { place: 0, calls: 2 },
        StoryMove::Returns { place: 0, index: 1 },
    ]);
    world.play(&[
        StoryMove::Asks { place: 0, index: 0, kind: 1 },
        says(0, "waits"),
        order(6),
        order(4),
        StoryMove::Reopens,
    ]);
    let book = &world.books[&id("s0")];
    assert!(matches!(book.outcomes[&Seq(1)], Outcome::Failed(_, Failure { kind: FailureKind::Stopped, .. })));
    assert_eq!(book.turn(), Some((TurnId(Seq(2)), 0)), "what waits is next");
    assert_eq!(world.store.reader().asks().expect("can be asked"), []);
    world.play(&[answers(0, "first"), order(5), answers(0, "second"), answers(0, "third")]);
    assert!(world.books[&id("s0")].state.is_quiet());
}

pub(crate) fn what_a_result_sends_leaves_with_it(sites: StoreSites<'_>) {
    let mut world = world(sites);
    world.play(&[says(0, "tell them"), StoryMove::CallsTools { place: 0, calls: 1 }]);
    world.play(&[
        StoryMove::Sends { place: 0, index: 1, letters: 2 },
        StoryMove::Sends { place: 0, index: 1, letters: 2 },
    ]);
    let keys: Vec<_> = world.replies.iter().map(|sent| sent.key.as_str()).collect();
    assert_eq!(keys, ["s0/1/0/1/0", "s0/1/0/1/1"], "once, however often the result comes");
    world.play(&[StoryMove::Reloads { place: 0 }, StoryMove::Reopens, answers(0, "told")]);
}
