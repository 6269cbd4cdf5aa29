//! Compression by table: what happened, what is written, what then runs.

use crate::compression::Replacement;
use crate::compression::{
    ATTEMPTS_AN_HOUR, ATTEMPTS_MAX, Extent, Kind as Made, Plan, Promoted, snapshot_name,
};
use crate::id::RowId;
use crate::session::compress::End;
use crate::session::compress::{NoSummary, SurveyOrder};
use crate::session::tests::{
    HARD, answered, answered_with, called, chat, command, job, new, play, rules, session, word,
};
use crate::session::*;

pub fn order(kind: u8) -> Command {
    let (focus, keep, preview) = match kind {
        0 => (None, None, false),
        1 => (Some("the move".to_owned()), None, false),
        2 => (None, Some(2), false),
        _ => (None, None, true),
    };
    Command::Compress { focus, keep, preview }
}

pub fn surveyed(asked: SurveyOrder, worth_it: bool) -> Event {
    let plan = Some(Plan { keep_first: 3, replaced: 30, keep_last: 7 });
    let extent = Extent { cut: RowId(30), messages: 40, tokens: 900, plan, engine_is_idle: false };
    Event::Surveyed { asked, found: worth_it.then_some(extent).into() }
}

fn replacement(kind: Made, before: u64, after_tokens: u64) -> Arc<Replacement> {
    Arc::new(Replacement {
        after: None,
        cut: RowId(30),
        replaced: 30,
        rows: vec![Message::user(Time(0), Content::text("summary"))],
        kind,
        before,
        after_tokens,
        model: "m".into(),
        remark: None,
    })
}

/// 0: it failed, 1: it is not worth it, 2: as before without a digest, else a good one.
pub fn summarised(operation: u64, kind: u8) -> Event {
    let digest = (kind != 2).then(|| replacement(Made::Digest, 900, 200));
    let summary = match kind {
        0 | 2 => Err(NoSummary { end: End::Failed, reason: "No model answered.".into() }),
        1 => Ok(replacement(Made::Summary, 900, 899)),
        _ => Ok(replacement(Made::Summary, 900, 100)),
    };
    Event::Summarised { operation, summary, digest }
}

pub fn reported(operation: u64) -> Event {
    let promoted = Promoted {
        snapshot: "s.snapshot.19700101T000000000001Z".into(),
        messages_before: 194,
        messages_after: 24,
        tokens_before: 146_000,
        tokens_after: 31_000,
        kind: Made::Summary,
        remark: None,
    };
    Event::Reported { operation, promoted }
}

pub fn too_long(turn: u64, step: u32) -> Event {
    let failure = Failure { kind: FailureKind::TooLong, message: "too long".into() };
    Event::Failed { turn: TurnId(Seq(turn)), step, failure }
}

fn ahead() -> SurveyOrder {
    SurveyOrder::default()
}

fn needed() -> SurveyOrder {
    SurveyOrder { force: true, ..SurveyOrder::default() }
}

fn ordered(seq: u64, kind: u8) -> SurveyOrder {
    let Command::Compress { focus, keep, preview } = order(kind) else {
        unreachable!("an order to compress")
    };
    SurveyOrder { order: Some(Seq(seq)), focus, keep, force: true, preview }
}

const ANSWERED_1: [&str; 4] = ["step 1.0", "assistant a", "1 answered by 1", "deliver s/1"];

#[test]
fn p14_a_summary_is_prepared_beside_the_turns_and_joins_before_a_request() {
    let end = play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (chat(2), vec!["accept 2"], vec!["ask 1.0"]),
            (
                answered_with(1, 0, &[], HARD / 2),
                [&ANSWERED_1[..], &["begin 2<2", "user m2"]].concat(),
                vec!["ask 2.0", "survey"], // side by side
            ),
            (surveyed(ahead(), true), vec!["compress 1 for 0"], vec!["ask 2.0", "summarise 1"]),
            (summarised(1, 3), vec!["ready 1"], vec!["ask 2.0"]),
            (summarised(1, 3), vec!["late_result_dropped"], vec!["ask 2.0"]),
            (answered(2), vec!["step 2.0", "assistant a", "2 answered by 2", "deliver s/2"], vec![]),
            (chat(3), vec!["accept 3", "begin 3<3", "user m3", "promote 1 summary"], vec!["ask 3.0"]),
        ],
    );
    assert_eq!((end.view, end.id.as_str()), (View(2), "s"), "a new view of the same session");
    assert_eq!(end.compression, None);
}

#[test]
fn p8_at_the_hard_limit_the_turn_waits_and_all_that_comes_in_is_in_its_first_request() {
    let mut session = session();
    session.upkeep.context = HARD;
    let end = play(
        session,
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["survey"]),
            (chat(2), vec!["accept 2"], vec!["survey"]),
            (surveyed(needed(), true), vec!["compress 1 for 0"], vec!["summarise 1"]),
            (chat(3), vec!["accept 3"], vec!["summarise 1"]),
            (
                summarised(1, 3),
                vec!["ready 1", "promote 1 summary", "begin 1<2", "user m2", "begin 1<3", "user m3"],
                vec!["ask 1.0"],
            ),
        ],
    );
    assert_eq!(end.view, View(2));
}

/// What the model is in the middle of is not disturbed by a compression, either.
#[test]
fn p8_between_steps_what_comes_in_at_the_hard_limit_waits_for_the_next_turn() {
    play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (answered_with(1, 0, &["0"], HARD), vec!["step 1.0"], vec!["call 1.0.0", "survey"]),
            (surveyed(ahead(), true), vec!["compress 1 for 0"], vec!["call 1.0.0", "summarise 1"]),
            (called(1, 0, 0), vec!["result 0", "assistant a", "tool r"], vec!["summarise 1"]),
            (chat(2), vec!["accept 2"], vec!["summarise 1"]),
            (summarised(1, 3), vec!["ready 1", "promote 1 summary"], vec!["ask 1.1"]),
        ],
    );
}

#[test]
fn p17_without_a_summary_the_hard_limit_gets_a_digest_and_the_soft_one_nothing() {
    let mut hard = session();
    hard.upkeep.context = HARD;
    let end = play(
        hard,
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["survey"]),
            (surveyed(needed(), true), vec!["compress 1 for 0"], vec!["summarise 1"]),
            (summarised(1, 0), vec!["ready 1", "compression_degraded", "promote 1 digest"], vec!["ask 1.0"]),
        ],
    );
    assert_eq!(end.upkeep.failures, 1, "the model is not asked again at once");
    let mut soft = session();
    soft.upkeep.wanted = true;
    let end = play(
        soft,
        &rules(BusyInput::Queue),
        vec![
            (surveyed(ahead(), true), vec!["compress 1 for 0"], vec!["summarise 1"]),
            (summarised(1, 0), vec!["1 failed"], vec![]),
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (answered_with(1, 0, &[], HARD / 2), ANSWERED_1.to_vec(), vec![]), // too soon to try again
        ],
    );
    assert_eq!(end.view, View(1));
}

#[test]
fn p17_a_backoff_recovers() {
    let mut session = session();
    let rules = rules(BusyInput::Queue);
    session.upkeep.wanted = true;
    for (failures, pause) in [(1, 60), (2, 300), (3, 900), (4, 900)] {
        session.upkeep.wanted = true;
        session = session.step(surveyed(ahead(), true), Time(0), &rules).0;
        session = session.step(summarised(session.upkeep.operations, 2), Time(0), &rules).0;
        assert_eq!(session.upkeep.failures, failures);
        let again = Time(0).plus(Duration::from_secs(pause));
        assert!(!session.upkeep.allows(Time(again.0 - 1)) && session.upkeep.allows(again));
    }
}

#[test]
fn p17_a_context_that_cannot_be_made_shorter_is_asked_about_and_then_told() {
    let mut session = session();
    session.upkeep.context = HARD;
    play(
        session,
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["survey"]),
            (surveyed(needed(), false), vec!["1 skipped", "context_over_limit"], vec!["ask 1.0"]),
            (too_long(1, 0), vec!["1 failed in 1", "deliver s/1/failed/0"], vec![]),
        ],
    );
}

#[test]
fn p17_a_provider_that_says_too_long_is_believed_twice() {
    play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (too_long(1, 0), vec![], vec!["survey"]),
            (surveyed(needed(), true), vec!["compress 1 for 0"], vec!["summarise 1"]),
            (summarised(1, 3), vec!["ready 1", "promote 1 summary"], vec!["ask 1.0"]),
            (too_long(1, 0), vec![], vec!["survey"]),
            (surveyed(needed(), true), vec!["compress 2 for 0"], vec!["summarise 2"]),
            (summarised(2, 3), vec!["ready 2", "promote 2 summary"], vec!["ask 1.0"]),
            (too_long(1, 0), vec!["1 failed in 1", "deliver s/1/failed/0"], vec![]),
        ],
    );
}

#[test]
fn p17_a_summary_that_is_ready_is_the_answer_to_too_long() {
    let mut session = session();
    session.upkeep.wanted = true;
    play(
        session,
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0", "survey"]),
            (surveyed(ahead(), true), vec!["compress 1 for 0"], vec!["ask 1.0", "summarise 1"]),
            (summarised(1, 3), vec!["ready 1"], vec!["ask 1.0"]),
            (too_long(1, 0), vec!["promote 1 summary"], vec!["ask 1.0"]),
        ],
    );
}

#[test]
fn p19_who_ordered_a_compression_that_took_effect_is_not_told_otherwise_at_the_end() {
    let rules = rules(BusyInput::Queue);
    let session = session().step(command(1, order(0)), Time(1), &rules).0;
    let session = session.step(surveyed(ordered(1, 0), true), Time(1), &rules).0;
    let session = session.step(summarised(1, 3), Time(1), &rules).0;
    let (_, acts) = session.step(new(2), Time(1), &rules);
    let said = acts.iter().find_map(|act| match act {
        Act::Settle { seq: Seq(1), outcome: Outcome::Done { said, .. } } => Some(said.as_str()),
        _ => None,
    });
    assert!(said.is_some_and(|said| said.starts_with("Compressed")), "{said:?}");
    assert!(!acts.iter().any(|act| matches!(act, Act::Abandon { .. })));
}

#[test]
fn p14_between_steps_a_turn_waits_only_at_the_hard_limit() {
    play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (answered_with(1, 0, &["0"], HARD), vec!["step 1.0"], vec!["call 1.0.0", "survey"]),
            (surveyed(ahead(), true), vec!["compress 1 for 0"], vec!["call 1.0.0", "summarise 1"]),
            (called(1, 0, 0), vec!["result 0", "assistant a", "tool r"], vec!["summarise 1"]),
            (summarised(1, 3), vec!["ready 1", "promote 1 summary"], vec!["ask 1.1"]),
        ],
    );
}

#[test]
fn p19_an_order_passes_what_waits_and_hears_what_the_store_counted() {
    let end = play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (chat(2), vec!["accept 2"], vec!["ask 1.0"]),
            (command(3, order(1)), vec!["accept 3"], vec!["ask 1.0", "survey"]),
            (surveyed(ordered(3, 1), true), vec!["compress 1 for 1"], vec!["ask 1.0", "summarise 1"]),
            (command(4, order(1)), vec!["accept 4", "compress 1 for 2"], vec!["ask 1.0", "summarise 1"]),
            (command(5, order(0)), vec!["accept 5"], vec!["ask 1.0", "summarise 1"]), // of everything: it follows
            (summarised(1, 3), vec!["ready 1"], vec!["ask 1.0"]),
            (
                answered(1),
                [&ANSWERED_1[..], &["begin 2<2", "user m2", "promote 1 summary"]].concat(),
                vec!["ask 2.0", "report 1"],
            ),
            (
                reported(1),
                vec!["deliver s/3/done", "3 done", "deliver s/4/done", "4 done"],
                vec!["ask 2.0", "survey"],
            ),
            (
                surveyed(ordered(5, 0), false),
                vec!["2 skipped", "deliver s/5/done", "5 done"],
                vec!["ask 2.0"],
            ),
        ],
    );
    assert_eq!((end.answered, end.received), (Seq(1), Seq(5)), "what an order passed still waits");
}

#[test]
fn p19_an_order_takes_effect_as_soon_as_nothing_runs() {
    play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (command(2, order(0)), vec!["accept 2"], vec!["ask 1.0", "survey"]),
            (surveyed(ordered(2, 0), true), vec!["compress 1 for 1"], vec!["ask 1.0", "summarise 1"]),
            (summarised(1, 3), vec!["ready 1"], vec!["ask 1.0"]),
            (answered(1), [&ANSWERED_1[..], &["promote 1 summary"]].concat(), vec!["report 1"]),
            (reported(1), vec!["deliver s/2/done", "2 done"], vec![]),
        ],
    );
}

#[test]
fn p24_what_is_kept_goes_to_its_provider_when_a_summary_takes_its_place() {
    for remembers in [false, true] {
        let rules = Rules { remembers, ..rules(BusyInput::Queue) };
        let events = [command(1, order(0)), surveyed(ordered(1, 0), true), summarised(1, 3)];
        let mut state = session();
        let mut last = Vec::new();
        for event in events {
            (state, last) = state.step(event, Time(1), &rules);
        }
        assert!(last.iter().any(|act| matches!(act, Act::Promote { .. })), "{last:?}");
        assert_eq!(last.contains(&Act::HandOver), remembers);
    }
}

#[test]
fn p19_an_order_does_not_wait_for_the_next_turn_behind_a_summary_that_is_ready() {
    for (kind, acts, jobs) in [
        (0, vec!["accept 1", "ready 1", "promote 1 summary"], vec!["report 1"]), // the same: it is what was wanted
        (1, vec!["accept 1", "promote 1 summary"], vec!["survey"]),              // another: it follows
    ] {
        let mut session = session();
        session.upkeep.wanted = true;
        let ready = vec![
            (surveyed(ahead(), true), vec!["compress 1 for 0"], vec!["summarise 1"]),
            (summarised(1, 3), vec!["ready 1"], vec![]),
            (command(1, order(kind)), acts, jobs),
        ];
        play(session, &rules(BusyInput::Queue), ready);
    }
}

#[test]
fn p19_a_preview_and_an_order_without_content_change_nothing() {
    let end = play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (command(1, order(3)), vec!["accept 1"], vec!["survey"]),
            (surveyed(ordered(1, 3), true), vec!["deliver s/1/done", "1 done"], vec![]),
            (command(2, order(0)), vec!["accept 2"], vec!["survey"]),
            (surveyed(ordered(2, 0), false), vec!["1 skipped", "deliver s/2/done", "2 done"], vec![]),
        ],
    );
    assert_eq!((end.view, end.answered), (View(1), Seq(2)));
}

#[test]
fn p11_whatever_ends_or_changes_the_view_makes_an_operation_stale() {
    let preparing = || {
        let rules = rules(BusyInput::Queue);
        let session = session().step(command(1, order(0)), Time(1), &rules).0;
        session.step(surveyed(ordered(1, 0), true), Time(1), &rules).0
    };
    play(
        preparing(),
        &rules(BusyInput::Queue),
        vec![(Event::Rewritten { from: RowId(31) }, vec![], vec!["summarise 1"])], // above the cut
    );
    let gone = ["1 stale", "deliver s/1/done", "1 done"];
    for event in [Event::Rewritten { from: RowId(30) }, Event::Restored { snapshot: "x".into(), context: 0 }]
    {
        let (next, acts) = preparing().step(event, Time(2), &rules(BusyInput::Queue));
        let words: Vec<_> = acts.iter().map(word).collect();
        assert_eq!(words[..3], gone[..]);
        assert_eq!(next.compression, None);
    }
    play(
        preparing(),
        &rules(BusyInput::Queue),
        vec![(
            new(2),
            [&["accept 2"], &gone[..], &["deliver s/2/done", "2 done", "close for t with 0"]].concat(),
            vec!["finalise 0"],
        )],
    );
}

#[test]
fn p3_stop_and_new_input_never_cancel_an_operation() {
    let mut session = session();
    session.upkeep.wanted = true;
    play(
        session,
        &rules(BusyInput::Interrupt),
        vec![
            (surveyed(ahead(), true), vec!["compress 1 for 0"], vec!["summarise 1"]),
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0", "summarise 1"]),
            (
                command(2, Command::Stop),
                vec!["accept 2", "1 failed in 1", "turn_stopped", "deliver s/2/done", "2 done"],
                vec!["summarise 1"],
            ),
            (summarised(1, 3), vec!["ready 1"], vec![]),
        ],
    );
}

#[test]
fn p9_a_start_takes_an_operation_up_again_and_gives_up_in_the_end() {
    let rules = rules(BusyInput::Queue);
    let mut session = session();
    session.upkeep.wanted = true;
    session = session.step(surveyed(ahead(), true), Time(1), &rules).0;
    for attempt in 2..=ATTEMPTS_MAX + 1 {
        session = session.step(Event::Loaded { repeatable: vec![] }, Time(1), &rules).0;
        let operation = session.compression.as_ref().expect("it goes on");
        assert_eq!((operation.number, operation.cut, operation.attempts), (1, RowId(30), attempt));
    }
}

#[test]
fn p17_what_succeeds_is_not_counted_among_the_attempts_of_an_hour() {
    let rules = rules(BusyInput::Queue);
    let mut session = session();
    for _ in 0..3 * ATTEMPTS_AN_HOUR {
        session.upkeep.wanted = true;
        session = session.step(surveyed(ahead(), true), Time(1), &rules).0;
        session = session.step(summarised(session.upkeep.operations, 3), Time(1), &rules).0;
        session.promote(Time(1), &mut Vec::new());
    }
    assert!(session.upkeep.allows(Time(2)), "a summariser that works is asked again");
}

/// A large prompt in a small window: what was said weighs next to nothing, and no compression brings it below the limit.
#[test]
fn p17_what_frees_next_to_nothing_is_not_done_again_with_every_message() {
    let rules = rules(BusyInput::Queue);
    let mut session = session();
    session.upkeep.context = 100 * HARD;
    let held = session.step(chat(1), Time(1), &rules).0;
    assert!(held.is_held());
    let begun = held.step(surveyed(needed(), true), Time(1), &rules).0;
    let (asked, acts) = begun.step(summarised(1, 3), Time(1), &rules);
    let words: Vec<_> = acts.iter().map(word).collect();
    assert_eq!(words, ["1 skipped", "context_over_limit"], "800 of so many tokens do not pay for a break");
    assert_eq!(asked.jobs().iter().map(job).collect::<Vec<_>>(), ["ask 1.0"]);
    let end = play(asked, &rules, vec![(answered_with(1, 0, &[], 100 * HARD), ANSWERED_1.to_vec(), vec![])]);
    let (next, acts) = end.step(chat(2), Time(2), &rules);
    assert!(!next.is_held() && acts.iter().any(|act| word(act) == "context_over_limit"));

    // The provider itself refuses: now anything is better than nothing, twice at most.
    let refused = next.step(too_long(2, 0), Time(3), &rules).0;
    assert!(refused.is_held());
    let begun = refused.step(surveyed(needed(), true), Time(3), &rules).0;
    let (shorter, acts) = begun.step(summarised(2, 3), Time(3), &rules);
    assert!(acts.iter().any(|act| word(act) == "promote 2 summary"));
    assert_eq!(shorter.jobs().iter().map(job).collect::<Vec<_>>(), ["survey"], "and once more");
    let (last, _) = shorter.step(surveyed(needed(), false), Time(3), &rules);
    assert_eq!(last.jobs().iter().map(job).collect::<Vec<_>>(), ["ask 2.0"]);
    assert!(last.step(too_long(2, 0), Time(4), &rules).0.jobs().is_empty(), "it is told, not tried for ever");
}

#[test]
fn p17_an_engine_that_has_nothing_to_offer_leaves_a_digest_to_whoever_needs_it() {
    let rules = rules(BusyInput::Queue);
    let mut session = session();
    session.upkeep.context = HARD;
    session = session.step(chat(1), Time(1), &rules).0;
    let extent = Extent { cut: RowId(30), messages: 40, tokens: 900, plan: None, engine_is_idle: true };
    session =
        session.step(Event::Surveyed { asked: needed(), found: Some(extent).into() }, Time(1), &rules).0;
    let operation = session.compression.as_ref().expect("a digest is made");
    assert!(operation.attempts > ATTEMPTS_MAX, "no engine is asked");
}

#[test]
fn p19_a_preview_is_answered_beside_an_operation_and_does_not_bring_it_about() {
    for ready in [false, true] {
        let rules = rules(BusyInput::Queue);
        let mut session = session();
        session.upkeep.wanted = true;
        session = session.step(surveyed(ahead(), true), Time(1), &rules).0;
        if ready {
            session = session.step(summarised(1, 3), Time(1), &rules).0;
        }
        let (waits, acts) = session.step(command(1, order(3)), Time(2), &rules);
        assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), ["accept 1"]);
        let (told, acts) = waits.step(surveyed(ordered(1, 3), true), Time(2), &rules);
        assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), ["deliver s/1/done", "1 done"]);
        assert_eq!((told.view, told.compression), (session.view, session.compression));
    }
}

/// Dates of failures that lie ahead since then hold nothing up until that year has come again.
#[test]
fn p17_failures_before_a_clock_was_set_back_do_not_keep_the_engine_from_being_asked() {
    let rules = rules(BusyInput::Queue);
    let year = Time(0).plus(Duration::from_secs(365 * 86_400));
    let mut session = session();
    for _ in 0..ATTEMPTS_AN_HOUR {
        session.upkeep.wanted = true;
        session = session.step(surveyed(ahead(), true), year, &rules).0;
        session = session.step(summarised(session.upkeep.operations, 2), year, &rules).0;
    }
    assert!(!session.upkeep.allows(year) && !session.upkeep.has_attempts_left(year));
    assert!(session.upkeep.has_attempts_left(Time(0)) && session.upkeep.allows(Time(0)));
    let shortly_before = Time(year.0 - 1_000_000);
    assert!(
        !session.upkeep.has_attempts_left(shortly_before),
        "a clock that is corrected a little changes nothing"
    );
}

#[test]
fn p17_so_many_attempts_an_hour_and_then_a_digest_has_to_do() {
    let rules = rules(BusyInput::Queue);
    let mut session = session();
    for _ in 0..ATTEMPTS_AN_HOUR {
        session.upkeep.wanted = true;
        session = session.step(surveyed(ahead(), true), Time(1), &rules).0;
        session = session.step(summarised(session.upkeep.operations, 0), Time(1), &rules).0;
    }
    assert!(!session.upkeep.allows(Time(2)), "nothing more is tried ahead of time");
    session.upkeep.context = HARD;
    session = session.step(chat(1), Time(2), &rules).0;
    session = session.step(surveyed(needed(), true), Time(2), &rules).0;
    let operation = session.compression.as_ref().expect("needed");
    assert!(operation.attempts > ATTEMPTS_MAX, "no engine is asked");
    assert_eq!(session.jobs().iter().map(job).collect::<Vec<_>>(), ["summarise 7"]);
    assert!(session.upkeep.has_attempts_left(Time(2).plus(Duration::from_secs(3601))));
}

#[test]
fn p11_names_of_snapshots_rise_even_if_the_clock_does_not() {
    let mut upkeep = Upkeep::default();
    let id: SessionId = "s".parse().expect("plain id");
    let names: Vec<_> =
        [Time(5_000_000), Time(5_000_000), Time(3)].map(|now| upkeep.name_snapshot(&id, now)).into();
    assert_eq!(names[0], snapshot_name(&id, Time(5_000_000)));
    assert_eq!(names[1], "s.snapshot.19700101T000005000001Z");
    assert!(names.is_sorted() && names[1] < names[2]);
}
