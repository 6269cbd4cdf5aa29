//! How sessions end by themselves and are handed over, by table.

use crate::input::DedupeKey;
use crate::lifecycle::Reason;
use crate::session::lifecycle::{Handing, Noticed};
use crate::session::tests::{answered, chat, command, here, new, play, rules, session};
use crate::session::*;
use lifecycle::ATTEMPTS_MAX;

fn expired() -> Event {
    Event::Expired { reason: Reason::Idle, noticed: Noticed::Watch }
}

fn began(hook: &str) -> Event {
    Event::Handing(Handing::Began { hook: hook.into() })
}

fn done(hook: &str) -> Event {
    Event::Handing(Handing::Done { hook: hook.into() })
}

fn failed(hook: &str) -> Event {
    let (step, why) = (hook.into(), "exit 1".into());
    Event::Handing(Handing::Failed { stage: Finalisation::Hooks, step, why })
}

fn loaded() -> Event {
    Event::Loaded { repeatable: Vec::new() }
}

/// One that has been spoken in, and has ended; its hooks are next.
fn ended() -> SessionState {
    let rows = vec![
        (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
        (answered(1), vec!["step 1.0", "assistant a", "1 answered by 1", "deliver s/1"], vec![]),
        (expired(), vec!["expire as session_reset", "session_expired"], vec!["finalise 0"]),
        (Event::Finalised(Finalisation::Claimed), vec![], vec!["finalise 1"]),
    ];
    play(session(), &rules(BusyInput::Queue), rows)
}

#[test]
fn p20_each_hook_is_begun_and_done_once_and_a_crash_begins_only_what_was_not_done() {
    let end = play(
        ended(),
        &rules(BusyInput::Queue),
        vec![
            (began("a"), vec!["a begins, attempt 1"], vec!["finalise 1.0.0 running"]),
            (began("a"), vec![], vec!["finalise 1.0.0 running"]), // an echo
            (Event::Finalised(Finalisation::Hooks), vec![], vec!["finalise 1.0.0 running"]), // not while one runs
            (done("a"), vec!["a is done"], vec!["finalise 1.1.0"]),
            (began("a"), vec![], vec!["finalise 1.1.0"]), // it has done its part
            (began("b"), vec!["b begins, attempt 1"], vec!["finalise 1.1.0 running"]),
            (failed("a"), vec![], vec!["finalise 1.1.0 running"]), // late news of another
            (failed("b"), vec!["b failed", "finalisation_retried"], vec!["finalise 1.1.1"]),
            (began("b"), vec!["b begins, attempt 2"], vec!["finalise 1.1.1 running"]),
            (loaded(), vec![], vec!["finalise 1.1.2 running"]), // the process ended while it ran
            (done("b"), vec!["b is done"], vec!["finalise 1.2.0"]),
            (Event::Finalised(Finalisation::Hooks), vec![], vec!["finalise 2.2.0"]),
            (Event::Finalised(Finalisation::Provider), vec![], vec!["finalise 3.2.0"]),
            (Event::Finalised(Finalisation::Evicted), vec![], vec![]),
            (loaded(), vec![], vec![]),
        ],
    );
    assert_eq!(end.phase, Phase::Closed(Finalisation::Done));
}

#[test]
fn p20_what_fails_is_tried_ever_more_slowly_and_then_set_aside_by_name() {
    let rules = rules(BusyInput::Queue);
    let mut state = ended();
    let mut waits = Vec::new();
    for attempt in 1..=ATTEMPTS_MAX {
        assert_eq!(state.handover.parked, None, "attempt {attempt}");
        state = state.step(began("a"), Time(1), &rules).0;
        state = state.step(failed("a"), Time(1), &rules).0;
        waits.push(state.handover.not_before);
    }
    assert!(waits.windows(2).take(6).all(|pair| pair[0] < pair[1]), "{waits:?}");
    assert_eq!(state.handover.parked.as_deref(), Some("a: exit 1"));
    assert!(state.jobs().is_empty() && state.is_quiet(), "nobody tries it any more");
    let again = state.step(loaded(), Time(2), &rules).0;
    assert!(again.jobs().is_empty(), "nor after a restart");
    let released = again.step(Event::Released, Time(3), &rules).0;
    assert_eq!((released.handover.parked.clone(), released.handover.attempts), (None, 0));
    assert_eq!(released.jobs().len(), 1, "until somebody says so");
}

/// A run that begins is no second wait, and a date that lies ahead by more than the pause is no reason to wait for it.
#[test]
fn p20_a_hand_over_waits_once_and_no_longer_than_its_pause_though_the_clock_is_set_back() {
    let rules = rules(BusyInput::Queue);
    let year = Duration::from_secs(365 * 86_400);
    let state = ended().step(began("a"), Time(0).plus(year), &rules).0;
    let waiting = state.step(failed("a"), Time(0).plus(year), &rules).0;
    let pause = waiting.handover.wait(Time(0).plus(year));
    assert!(pause > Duration::ZERO && pause <= Duration::from_secs(2), "{pause:?}");
    assert_eq!(waiting.handover.wait(Time(0)), pause, "a year back");
    let running = waiting.step(began("a"), Time(0), &rules).0;
    assert_eq!(running.handover.wait(Time(0)), Duration::ZERO, "it has waited");
    let lost = running.step(loaded(), Time(0), &rules).0;
    assert_eq!(
        lost.handover.wait(Time(0)),
        Duration::ZERO,
        "the run that the process ended in goes on at once"
    );
}

#[test]
fn p20_a_session_in_which_something_happens_does_not_expire() {
    let rules = rules(BusyInput::Queue);
    let running = session().step(chat(1), Time(1), &rules).0;
    let held = session().step(Event::Halted, Time(1), &rules).0;
    let held = held.step(crate::session::tests::tool_calls::from_agent(1, "h", 1), Time(1), &rules).0;
    for state in [running, held] {
        let (next, acts) = state.step(expired(), Time(9), &rules);
        assert_eq!((next.phase, next.waiting.len()), (state.phase, state.waiting.len()));
        assert!(matches!(&acts[..], [Act::Note { name: "expiry_overtaken", .. }]), "{acts:?}");
    }
}

#[test]
fn p20_activity_is_what_is_written_and_what_is_answered() {
    let rules = rules(BusyInput::Queue);
    let state = session().step(chat(1), Time(5), &rules).0;
    assert_eq!(state.active, Time(5));
    let state = state.step(answered(1), Time(8), &rules).0;
    assert_eq!(state.active, Time(8));
    assert_eq!(state.step(loaded(), Time(90), &rules).0.active, Time(8), "a restart is nobody's word");
}

#[test]
fn p20_resume_opens_a_new_life_and_the_old_hand_over_is_over() {
    let rules = rules(BusyInput::Queue);
    let state = ended().step(began("a"), Time(1), &rules).0;
    let (mut next, acts) = state.step(Event::Reopened, Time(7), &rules);
    assert_eq!((next.phase.clone(), next.epoch, next.active), (Phase::Idle, Epoch(2), Time(7)));
    assert!(next.generation > state.generation, "the old owner is fenced off");
    assert_eq!(next.handover, Handover::default());
    assert!(acts.contains(&Act::Reopen));
    next = next.step(done("a"), Time(8), &rules).0; // news from the old life
    assert_eq!((next.phase.clone(), next.handover.done.len()), (Phase::Idle, 0));
    next = next.step(new(2), Time(9), &rules).0;
    assert_eq!(next.phase, Phase::Closed(Finalisation::Claimed), "and is handed over once more, as another");
}

#[test]
fn p21_what_hermes_has_handed_over_is_not_handed_over_again_unless_it_goes_on() {
    let rules = rules(BusyInput::Queue);
    let finalised = SessionState { finalised: true, ..session() };
    let (over, _) = finalised.step(expired(), Time(1), &rules);
    assert_eq!(over.phase, Phase::Closed(Finalisation::Done));
    let (over, _) = finalised.step(new(1), Time(1), &rules);
    assert_eq!((over.phase, over.epoch), (Phase::Closed(Finalisation::Done), Epoch(1)));
    let (goes_on, _) = finalised.step(chat(1), Time(1), &rules);
    assert_eq!((goes_on.epoch, goes_on.finalised), (Epoch(2), false));
}

#[test]
fn what_was_written_before_our_time_is_held_until_its_people_write_anew() {
    let baseline = Time(1_000_000_000);
    let rules = Rules { baseline: Some(baseline), ..rules(BusyInput::Queue) };
    let at = |seq: u64, at: Time| {
        Event::Received(Arc::new(Input {
            seq: Seq(seq),
            at,
            key: DedupeKey::of(&["k", &seq.to_string()]),
            kind: Kind::Chat(Content::text(format!("m{seq}"))),
            reply_to: Some(here()),
            sender: None,
            platform_id: None,
            trace: Trace::default(),
            left: None,
        }))
    };
    let now = Time(1_000_000_001);
    let held = session().step(at(1, Time(0)), now, &rules).0;
    let held = held.step(at(2, Time(1)), now, &rules).0;
    assert!(held.halted && held.jobs().is_empty() && held.is_quiet());
    assert_eq!(held.waiting.len(), 2, "accepted all the same");
    let (spoken, _) = held.step(at(3, now), now, &rules);
    assert_eq!(spoken.jobs(), [Job::Ask { turn: TurnId(Seq(1)), step: 0 }]);
    let Phase::Turn(turn) = &spoken.phase else { panic!("it goes on") };
    assert_eq!(turn.inputs.len(), 3, "with all that was said");
    let released = held.step(Event::Released, now, &rules).0;
    assert_eq!(released.jobs().len(), 1);
    let finalised = SessionState { finalised: true, ..held };
    let released = finalised.step(Event::Released, now, &rules).0;
    assert_eq!((released.epoch, released.finalised), (Epoch(2), false), "what Hermes handed over goes on");
    let ordinary = session().step(at(1, Time(baseline.0 - 60_000_000)), now, &rules).0;
    assert!(!ordinary.halted, "clocks differ a little");
    let order = session().step(command(1, Command::Status), now, &rules).0;
    assert!(order.halted, "an order from before is no new word either");
    let behind = session().step(at(1, Time(0)), Time(1), &rules).0;
    assert!(!behind.halted, "a home that was taken over by a clock that was ahead waits for no clock");
}
