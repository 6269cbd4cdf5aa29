//! What a turn waits for, by table: what happened, what is written, what runs.

use super::*;
use crate::command::Command;
use crate::session::tests::{answered, called, chat, command, new, prompt, request, rules, session, word};
use crate::session::{BusyInput, Event};

/// A session that has no prompt yet.
fn unprompted() -> SessionState {
    SessionState::new("s".parse().expect("plain id"))
}

fn recalling() -> Rules {
    Rules { recalls: true, ..rules(BusyInput::Queue) }
}

fn part(seq: u64, more_ms: u64) -> Event {
    let Event::Received(input) = chat(seq) else { unreachable!("it is received") };
    Event::ReceivedPart { input, more: Duration::from_millis(more_ms) }
}

fn at(seq: u64) -> TurnId {
    TurnId(Seq(seq))
}

fn gathered(turn: u64, step: u32, until: i64) -> Event {
    Event::Gathered { turn: at(turn), step, until: Time(until * 1000) }
}

fn prompted(turn: u64) -> Event {
    Event::Prompted { turn: at(turn), step: 0, persona: "persona".into() }
}

fn recalled(turn: u64, recall: Recall) -> Event {
    Event::Recalled { turn: at(turn), step: 0, recall }
}

fn found(text: &str) -> Recall {
    Recall::Found { row: RowId(1), said: "m".into(), text: text.into() }
}

fn missed(pending: bool) -> Recall {
    Recall::Missed { row: RowId(1), said: "m".into(), pending }
}

/// Plays a table of (when, what, what is written, what runs).
fn play(
    mut state: SessionState,
    rules: &Rules,
    table: Vec<(i64, Event, Vec<&str>, Vec<&str>)>,
) -> SessionState {
    for (now, event, written, running) in table {
        let told = format!("after {event:?}");
        let (next, acts) = state.step(event, Time(now * 1000), rules);
        assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), written, "{told}");
        let jobs = next.jobs().iter().map(crate::session::tests::job).collect::<Vec<_>>();
        assert_eq!(jobs, running, "{told}");
        state = next;
    }
    state
}

#[test]
fn p8_an_album_is_gathered_before_the_model_is_asked() {
    let begun = vec!["accept 1", "begin 1<1", "user m1"];
    let joined = vec!["accept 2", "begin 1<2", "user m2"];
    let later = vec!["accept 3", "begin 1<3", "user m3"];
    play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (0, part(1, 500), begun, vec!["gather 1.0 until 500"]),
            (300, part(2, 500), joined, vec!["gather 1.0 until 800"]),
            (500, gathered(1, 0, 500), vec![], vec!["gather 1.0 until 800"]), // of the first part
            (600, chat(3), later, vec!["gather 1.0 until 800"]),              // its caption
            (800, gathered(1, 0, 800), vec![], vec!["ask 1.0"]),
            (801, chat(4), vec!["accept 4"], vec!["ask 1.0"]), // something else: it waits
        ],
    );
}

#[test]
fn p8_a_part_that_comes_while_the_model_is_asked_makes_another_question_of_it() {
    let state = play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (0, part(1, 500), vec!["accept 1", "begin 1<1", "user m1"], vec!["gather 1.0 until 500"]),
            (500, gathered(1, 0, 500), vec![], vec!["ask 1.0"]),
        ],
    );
    // A part that was long on its way begins an album of its own, behind the turn.
    play(state, &rules(BusyInput::Queue), vec![(600, part(2, 500), vec!["accept 2"], vec!["ask 1.0"])]);
}

#[test]
fn the_first_turn_freezes_a_prompt_with_its_first_answer() {
    let answer = vec!["freeze persona", "step 1.0", "assistant a", "1 answered by 1", "deliver s/1"];
    let state = play(
        unprompted(),
        &rules(BusyInput::Queue),
        vec![
            (0, chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["prompt 1.0"]),
            (1, prompted(1), vec![], vec!["ask 1.0"]), // nothing is committed for it
            (2, answered(1), answer, vec![]),
            (3, chat(2), vec!["accept 2", "begin 2<2", "user m2"], vec!["ask 2.0"]), // it is frozen
        ],
    );
    assert_eq!(state.prompt(), Some(&prompt()));
}

#[test]
fn p22_a_client_that_changes_its_layer_breaks_the_prompt_and_one_that_brings_none_does_not() {
    let layered = |seq: u64| {
        let Event::Received(input) = request(seq) else { unreachable!("it is received") };
        let Kind::Request(asked) = &input.kind else { unreachable!("it is a request") };
        let kind = Kind::Request(crate::input::Request { system: Some("be brief".into()), ..asked.clone() });
        Event::Received(Arc::new(Input { kind, ..Input::clone(&input) }))
    };
    let first = vec!["step 1.0", "assistant a", "1 answered by 1"];
    let second = vec!["freeze persona\n\nbe brief", "cache_break"];
    let answer = |turn| Event::Prompted { turn: at(turn), step: 0, persona: "persona".into() };
    play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (0, request(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (1, answered(1), first, vec![]),
            (2, layered(2), vec!["accept 2", "begin 2<2", "user m2"], vec!["prompt 2.0"]),
            (3, answer(2), second, vec!["ask 2.0"]),
            (4, answered(2), vec!["step 2.0", "assistant a", "2 answered by 2"], vec![]),
            (5, layered(3), vec!["accept 3", "begin 3<3", "user m3"], vec!["ask 3.0"]),
        ],
    );
}

#[test]
fn p25_a_reminder_belongs_to_the_turn_that_asked_and_is_written_with_its_answer() {
    let begun = || vec!["accept 1", "begin 1<1", "user m1"];
    let state = play(
        session(),
        &recalling(),
        vec![
            (0, chat(1), begun(), vec!["recall 1.0"]),
            (1, recalled(2, found("x")), vec!["stale_recall_dropped"], vec!["recall 1.0"]), // another turn's
            (2, recalled(1, found("blue")), vec![], vec!["ask 1.0"]),
            (3, recalled(1, found("red")), vec!["stale_recall_dropped", "recall with 1"], vec!["ask 1.0"]), // it has one
        ],
    );
    assert!(state.underway.reminder_is_written, "whatever is written next brings it along");
}

#[test]
fn p25_an_answer_that_was_not_waited_for_goes_to_the_next_turn_and_to_no_later_one() {
    let late = || recalled(1, Recall::Late(Some("blue".into())));
    let state = play(
        session(),
        &recalling(),
        vec![
            (0, chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["recall 1.0"]),
            (1, recalled(1, missed(true)), vec!["recall_missed"], vec!["ask 1.0", "recall 1.0"]),
            (2, late(), vec!["late_recall_kept"], vec!["ask 1.0"]),
            (3, late(), vec![], vec!["ask 1.0"]), // an echo
            (4, answered(1), vec!["step 1.0", "assistant a", "1 answered by 1", "deliver s/1"], vec![]),
            (5, chat(2), vec!["accept 2", "begin 2<2", "user m2"], vec!["recall 2.0"]),
        ],
    );
    let (shown, acts) = state.step(recalled(2, missed(false)), Time(6), &recalling());
    assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), ["recall_missed", "recall with 1"]);
    assert!(shown.underway.late.is_none(), "it is used up");
    // Had the second turn's own question been answered, that answer would have counted.
    let (own, _) = state.step(recalled(2, found("own")), Time(6), &recalling());
    assert!(own.reminder().is_some_and(|it| it.sent_as.contains("own")));
}

#[test]
fn p25_a_conversation_that_is_being_left_waits_for_no_memory_and_keeps_no_late_answer() {
    play(
        session(),
        &recalling(),
        vec![
            (0, chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["recall 1.0"]),
            (1, new(2), vec!["accept 2", "recall_missed"], vec!["ask 1.0"]),
            (2, recalled(1, found("late")), vec!["stale_recall_dropped"], vec!["ask 1.0"]),
        ],
    );
    play(
        session(),
        &recalling(),
        vec![
            (0, chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["recall 1.0"]),
            (1, recalled(1, missed(true)), vec!["recall_missed"], vec!["ask 1.0", "recall 1.0"]),
            (2, new(2), vec!["accept 2", "stale_recall_dropped"], vec!["ask 1.0"]),
        ],
    );
}

#[test]
fn p8_a_turn_that_more_joins_while_it_recalls_is_asked_once_and_without_a_reminder() {
    play(
        session(),
        &Rules { busy: BusyInput::Interrupt, ..recalling() },
        vec![
            (0, chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["recall 1.0"]),
            (
                1,
                chat(2),
                vec!["accept 2", "begin 1<2", "user m2", "turn_interrupted", "recall_missed"],
                vec!["ask 1.1"],
            ),
            (2, recalled(1, found("late")), vec!["stale_recall_dropped"], vec!["ask 1.1"]), // for the question before
        ],
    );
}

#[test]
fn p25_nothing_that_waits_for_memory_or_prompt_survives_its_owner() {
    let (asked, _) = session().step(chat(1), Time(0), &recalling());
    let stored = SessionState { underway: Underway::default(), ..asked.clone() };
    assert_eq!(stored, asked, "none of it is stored");
    let (loaded, _) = stored.step(Event::Loaded { repeatable: vec![] }, Time(1), &recalling());
    assert_eq!(loaded.preparation(), Some(Preparation::Prompting), "the next owner begins anew");
    let known = Event::Stored { prompt: Some(prompt()), context: 0 };
    let (loaded, _) = stored.step(known, Time(1), &recalling());
    let (loaded, _) = loaded.step(Event::Loaded { repeatable: vec![] }, Time(1), &recalling());
    assert_eq!(loaded.preparation(), Some(Preparation::Recalling));
}

#[test]
fn a_personality_is_the_end_of_the_prompt_and_there_is_one() {
    let loud = Personality { name: "loud".into(), prompt: "Shout.".into() };
    let once = with_personality("persona", Some(&loud));
    assert_eq!(&*once, "persona\n\n[How to speak, as chosen for this conversation: loud]\nShout.");
    assert_eq!(with_personality(&once, Some(&loud)), once);
    assert_eq!(&*with_personality(&once, None), "persona");
}

#[test]
fn nothing_is_prepared_while_calls_run() {
    let (state, _) = session().step(chat(1), Time(0), &recalling());
    let (state, _) = state.step(recalled(1, Recall::Unasked), Time(0), &recalling());
    let (state, _) = state.step(crate::session::tests::answered_with(1, 0, &["0"], 1), Time(0), &recalling());
    assert_eq!(state.preparation(), None);
    let (state, _) = state.step(called(1, 0, 0), Time(0), &recalling());
    assert_eq!(state.preparation(), Some(Preparation::Ready), "the memory is asked once in a turn");
    let (state, _) = state.step(command(2, Command::Stop), Time(0), &recalling());
    assert_eq!(state.preparation(), None);
}

#[test]
fn a_turn_that_begins_is_committed_with_its_prompt() {
    let rules = rules(BusyInput::Queue);
    let mut proposal = unprompted_session().propose(chat(1), Time(0), &rules);
    assert_eq!(proposal.lacks(&rules), Some(crate::session::propose::Lack::Prompt));
    proposal.supply_prompt("persona", &rules);
    assert_eq!(proposal.lacks(&rules), None);
    let (next, acts) = proposal.finish(|_| Vec::new());
    let written: Vec<_> = acts.iter().map(word).collect();
    assert_eq!(written, ["freeze persona", "accept 1", "begin 1<1", "user m1"]);
    assert_eq!(next.preparation(), Some(Preparation::Ready));
}

fn unprompted_session() -> crate::session::Session {
    crate::session::Session::new("s".parse().expect("plain id"))
}
