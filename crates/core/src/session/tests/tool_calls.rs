//! Turns with tools, by table: who is asked, what is stopped, what is cut.

use super::*;
use crate::chain::{Cut, Shared};
use crate::guard::{NOT_RUN_BUDGET, NOT_RUN_REPEATED};
use crate::history::STOPPED;
use crate::tool::{Grant, Question};

fn asked(turn: u64, step: u32, index: usize) -> Event {
    let question =
        Question::Approval { what: "rm".into(), why: "it removes".into(), patterns: vec!["rm".into()] };
    let patience = Duration::from_secs(60);
    Event::Asked { turn: TurnId(Seq(turn)), step, index, question, patience, approver: Approver::Present }
}

fn wants_to_know(turn: u64, step: u32, index: usize) -> Event {
    let question =
        Question::Clarify { question: "which?".into(), choices: vec!["red".into(), "blue".into()] };
    Event::Asked {
        turn: TurnId(Seq(turn)),
        step,
        index,
        question,
        patience: Duration::from_secs(60),
        approver: Approver::Present,
    }
}

/// A server asks while its call runs.
fn elicits(turn: u64, step: u32, index: usize, number: u32) -> Event {
    let asked = crate::tool::Elicitation { server: "x".into(), question: "which?".into(), choices: vec![] };
    let question = Question::Elicitation { asked, number };
    let patience = Duration::from_secs(60);
    Event::Asked { turn: TurnId(Seq(turn)), step, index, question, patience, approver: Approver::Present }
}

fn loaded(repeatable: &[usize]) -> Event {
    Event::Loaded { repeatable: repeatable.to_vec() }
}

pub(in crate::session) fn from_agent(seq: u64, origin: &str, hops: u32) -> Event {
    let Event::Received(input) = chat(seq) else { unreachable!("chat receives") };
    let root = Some(Root { home: "other".into(), session: "r".parse().expect("plain id") });
    let trace = Trace { origin: origin.into(), root, hops, foreign: None };
    Event::Received(Arc::new(Input { trace, ..Input::clone(&input) }))
}

fn renumbered(input: &Input, seq: u64) -> Arc<Input> {
    Arc::new(Input { seq: Seq(seq), ..Input::clone(input) })
}

/// A turn with two calls at work.
fn working() -> Vec<(Event, Vec<&'static str>, Vec<&'static str>)> {
    vec![
        (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
        (answered_with(1, 0, &["0", "1"], 1), vec!["step 1.0"], vec!["call 1.0.0", "call 1.0.1"]),
    ]
}

#[test]
fn p9_a_call_that_asks_waits_across_restarts_and_runs_once_it_is_allowed() {
    let mut rows = working();
    rows.extend([
        (asked(1, 0, 0), vec!["deliver s/1/0/0/asked", "asks 0"], vec!["await 1.0.0", "call 1.0.1"]),
        (called(1, 0, 1), vec!["result 1"], vec!["await 1.0.0"]),
        (loaded(&[]), vec![], vec!["await 1.0.0"]), // nothing ran, so nothing is unknown
        (
            command(2, Command::Approve { grant: Grant::Session, all: false }),
            vec!["accept 2", "grant 0", "deliver s/2/done", "2 done"],
            vec!["call 1.0.0"],
        ),
        (asked(1, 0, 1), vec![], vec!["call 1.0.0"]), // an echo
        (called(1, 0, 0), vec!["result 0", "assistant a", "tool r", "tool r"], vec!["ask 1.1"]),
    ]);
    let end = play(session(), &rules(BusyInput::Queue), rows);
    assert_eq!(end.allowed, ["rm"]);
}

#[test]
fn a_call_that_asks_while_it_runs_goes_on_with_each_answer_and_has_a_result_of_its_own() {
    let mut rows = working();
    rows.extend([
        (
            elicits(1, 0, 0, 1),
            vec!["deliver s/1/0/0~1/asked", "asks 0"],
            vec!["call 1.0.0", "await 1.0.0", "call 1.0.1"],
        ),
        (elicits(1, 0, 0, 2), vec![], vec!["call 1.0.0", "await 1.0.0", "call 1.0.1"]), // one at a time
        (chat(2), vec!["accept 2", "begin 1<2", "resumes 0"], vec!["call 1.0.0", "call 1.0.1"]),
        (
            elicits(1, 0, 0, 2),
            vec!["deliver s/1/0/0~2/asked", "asks 0"],
            vec!["call 1.0.0", "await 1.0.0", "call 1.0.1"],
        ),
        (
            command(3, Command::Approve { grant: Grant::Once, all: true }),
            vec!["accept 3", "deliver s/3/done", "3 done"], // it asks for no leave
            vec!["call 1.0.0", "await 1.0.0", "call 1.0.1"],
        ),
        (
            command(4, Command::Deny { reason: None, all: false }),
            vec!["accept 4", "resumes 0", "deliver s/4/done", "4 done"],
            vec!["call 1.0.0", "call 1.0.1"],
        ),
        (called(1, 0, 1), vec!["result 1"], vec!["call 1.0.0"]),
        (called(1, 0, 0), vec!["result 0", "assistant a", "tool r", "tool r"], vec!["ask 1.1"]),
    ]);
    let state = play(session(), &rules(BusyInput::Queue), rows);
    let (_, acts) = state.step(answered_with(1, 1, &[], 1), Time(1), &Rules::default());
    assert!(acts.iter().map(word).any(|act| act == "2 answered by 1"), "the answer is settled with its turn");
}

/// What was answered is gone with the server that asked: nothing is answered a second time.
#[test]
fn p9_a_call_that_asked_while_it_ran_is_of_unknown_outcome_after_a_crash() {
    let unknown = format!("tool {OUTCOME_UNKNOWN}");
    let mut rows = working();
    rows.extend([
        (called(1, 0, 1), vec!["result 1"], vec!["call 1.0.0"]),
        (elicits(1, 0, 0, 1), vec!["deliver s/1/0/0~1/asked", "asks 0"], vec!["call 1.0.0", "await 1.0.0"]),
        // Also where the tool could be run again: its question was shown.
        (loaded(&[0]), vec!["result 0", "assistant a", unknown.as_str(), "tool r"], vec!["ask 1.1"]),
        (chat(2), vec!["accept 2"], vec!["ask 1.1"]), // an answer that comes too late is a message
    ]);
    play(session(), &rules(BusyInput::Queue), rows);
}

#[test]
fn p31_what_a_server_asks_is_answered_by_the_person_of_its_call_and_by_no_other() {
    let by = |seq, id: &str| {
        let Event::Received(input) = chat(seq) else { unreachable!("chat receives") };
        let sender = Some(crate::input::Sender { id: id.into(), name: None });
        Event::Received(Arc::new(Input { sender, ..Input::clone(&input) }))
    };
    let rules = rules(BusyInput::Queue);
    let mut state = session();
    for event in [by(1, "ada"), answered_with(1, 0, &["0"], 1), elicits(1, 0, 0, 1)] {
        state = state.step(event, Time(1), &rules).0;
    }
    let (state, acts) = state.step(by(2, "bob"), Time(1), &rules);
    assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), ["accept 2"], "it waits");
    let (_, acts) = state.step(by(3, "ada"), Time(1), &rules);
    assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), ["accept 3", "begin 1<3", "resumes 0"]);
}

#[test]
fn p31_a_server_that_nobody_can_answer_is_told_so_at_once() {
    let rules = rules(BusyInput::Queue);
    let mut state = session().step(request(1), Time(1), &rules).0;
    state = state.step(answered_with(1, 0, &["0"], 1), Time(1), &rules).0;
    state.place = None;
    if let Phase::Turn(turn) = &mut state.phase {
        turn.inputs =
            turn.inputs.iter().map(|it| Arc::new(Input { reply_to: None, ..Input::clone(it) })).collect();
    }
    let Event::Asked { turn, step, index, question, patience, .. } = elicits(1, 0, 0, 1) else {
        unreachable!("it asks")
    };
    let asked = Event::Asked { turn, step, index, question, patience, approver: Approver::Absent };
    let (state, acts) = state.step(asked, Time(1), &rules);
    let unattended = |act: &Act| matches!(act, Act::Resume { verdict: Verdict::Unattended, .. });
    assert!(acts.iter().any(unattended), "{acts:?}");
    assert_eq!(state.jobs(), [Job::Call { turn, step, index }], "and the call goes on");
}

#[test]
fn a_request_that_only_waits_is_withdrawn_when_its_client_goes() {
    let rules = rules(BusyInput::Queue);
    let mut state = session();
    for event in [request(1), request(2), request(3)] {
        state = state.step(event, Time(1), &rules).0;
    }
    let (state, acts) = state.step(Event::Abandoned { seq: Seq(2) }, Time(1), &rules);
    assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), ["2 failed in 2", "request_withdrawn"]);
    assert_eq!(state.answered, Seq(0), "the first one still runs");
    let (state, acts) = state.step(answered(1), Time(1), &rules);
    assert!(
        acts.iter().map(word).any(|act| act == "begin 3<3"),
        "the next one is not kept waiting: {acts:?}"
    );
    assert_eq!(state.answered, Seq(2));
    assert!(state.step(Event::Abandoned { seq: Seq(2) }, Time(1), &rules).1.is_empty(), "once");
}

#[test]
fn p31_silence_and_no_are_a_no() {
    for verdict in [Verdict::Expired, Verdict::Denied { reason: None }] {
        let mut state = play(session(), &rules(BusyInput::Queue), working());
        state = state.step(asked(1, 0, 0), Time(1), &Rules::default()).0;
        let decided = Event::Decided { turn: TurnId(Seq(1)), step: 0, index: 0, verdict };
        let (next, acts) = state.step(decided.clone(), Time(1), &Rules::default());
        assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), ["result 0"]);
        let Phase::Turn(turn) = &next.phase else { panic!("the turn goes on") };
        let said = turn.group.as_ref().and_then(|group| group.result(0)).expect("a result").content.plain();
        assert!(said.contains("BLOCKED"), "{said}");
        assert!(next.step(decided, Time(1), &Rules::default()).1.is_empty(), "answered once");
    }
}

#[test]
fn p4_what_the_user_answers_is_the_result_and_nothing_else() {
    let mut rows = working();
    rows.extend([
        (wants_to_know(1, 0, 0), vec!["deliver s/1/0/0/asked", "asks 0"], vec!["await 1.0.0", "call 1.0.1"]),
        (called(1, 0, 1), vec!["result 1"], vec!["await 1.0.0"]),
    ]);
    let state = play(session(), &rules(BusyInput::Queue), rows);
    let Event::Received(line) = chat(2) else { unreachable!("chat receives") };
    let answer = Input { kind: Kind::Chat(Content::text("2")), ..Input::clone(&line) };
    let (next, acts) = state.step(Event::Received(Arc::new(answer)), Time(1), &Rules::default());
    let acts: Vec<_> = acts.iter().map(word).collect();
    let result =
        r#"tool {"question": "which?", "choices_offered": ["red", "blue"], "user_response": "blue"}"#;
    assert_eq!(acts, ["accept 2", "begin 1<2", "result 0", "assistant a", result, "tool r"]);
    let (end, acts) = next.step(answered_with(1, 1, &[], 1), Time(1), &Rules::default());
    assert!(acts.iter().map(word).any(|act| act == "2 answered by 1"));
    assert_eq!(end.answered, Seq(2));
}

#[test]
fn p4_stop_ends_the_turn_with_closed_groups_and_what_waits_is_next() {
    let stopped = format!("tool {STOPPED}");
    let mut rows = working();
    rows.extend([
        (called(1, 0, 1), vec!["result 1"], vec!["call 1.0.0"]),
        (chat(2), vec!["accept 2"], vec!["call 1.0.0"]),
        (
            command(3, Command::Stop),
            vec![
                "accept 3",
                "result 0",
                "assistant a",
                stopped.as_str(),
                "tool r",
                "1 failed in 1",
                "turn_stopped",
                "deliver s/3/done",
                "3 done",
                "begin 2<2",
                "user m2",
            ],
            vec!["ask 2.0"],
        ),
        (called(1, 0, 0), vec!["late_result_dropped"], vec!["ask 2.0"]), // it came to an end after all
        (answered(2), vec!["step 2.0", "assistant a", "2 answered by 2", "deliver s/2"], vec![]),
        (command(4, Command::Stop), vec!["accept 4", "deliver s/4/done", "4 done"], vec![]),
    ]);
    let end = play(session(), &rules(BusyInput::Queue), rows);
    assert_eq!((end.failed, end.answered), (None, Seq(4)));
}

#[test]
fn p4_steering_joins_after_the_next_step_and_queued_words_wait() {
    let steer = |seq| command(seq, Command::Steer { text: "left".into() });
    let queue = |seq| command(seq, Command::Queue { text: "later".into() });
    let mut rows = working();
    rows.extend([
        (queue(2), vec!["accept 2"], vec!["call 1.0.0", "call 1.0.1"]),
        (steer(3), vec!["accept 3"], vec!["call 1.0.0", "call 1.0.1"]),
        (called(1, 0, 0), vec!["result 0"], vec!["call 1.0.1"]),
        (
            called(1, 0, 1),
            vec!["result 1", "assistant a", "tool r", "tool r", "begin 1<3", "user left"],
            vec!["ask 1.1"],
        ),
        (
            answered_with(1, 1, &[], 1),
            vec![
                "step 1.1",
                "assistant a",
                "1 answered by 1",
                "3 answered by 1",
                "deliver s/1",
                "begin 2<2",
                "user later",
            ],
            vec!["ask 2.0"],
        ),
    ]);
    play(session(), &rules(BusyInput::Queue), rows);
    // With nothing to steer it is a message.
    play(
        session(),
        &rules(BusyInput::Queue),
        vec![(steer(1), vec!["accept 1", "begin 1<1", "user left"], vec!["ask 1.0"])],
    );
}

#[test]
fn p9_calls_that_may_be_repeated_are_and_others_are_not() {
    let mut rows = working();
    let unknown = format!("tool {OUTCOME_UNKNOWN}");
    rows.extend([
        (loaded(&[1]), vec!["result 0"], vec!["call 1.0.1"]),
        (called(1, 0, 1), vec!["result 1", "assistant a", unknown.as_str(), "tool r"], vec!["ask 1.1"]),
    ]);
    play(session(), &rules(BusyInput::Queue), rows);
}

#[test]
fn a_turn_that_has_used_up_its_budget_gets_one_more_answer_and_no_more_calls() {
    let mut rules = rules(BusyInput::Queue);
    rules.limits.steps_max = 2;
    let not_run = format!("tool {NOT_RUN_BUDGET}");
    play(
        session(),
        &rules,
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (answered_with(1, 0, &["0"], 1), vec!["step 1.0"], vec!["call 1.0.0"]),
            (called(1, 0, 0), vec!["result 0", "assistant a", "tool r"], vec!["ask 1.1"]),
            (
                answered_with(1, 1, &["0"], 1),
                vec!["step 1.1", "budget_exhausted", "result 0", "assistant a", not_run.as_str()],
                vec!["ask 1.2"],
            ),
            (
                answered_with(1, 2, &["0"], 1),
                vec![
                    "step 1.2",
                    "budget_exhausted",
                    "result 0",
                    "assistant a",
                    not_run.as_str(),
                    "1 failed in 1",
                    "deliver s/1/failed/0",
                ],
                vec![],
            ),
        ],
    );
    rules.limits.steps_max = 90;
    rules.limits.turn_tokens_max = Some(10);
    let state = session().step(chat(1), Time(1), &rules).0;
    let (_, acts) = state.step(answered_with(1, 0, &["0"], 10), Time(1), &rules);
    assert!(acts.iter().map(word).any(|act| act == "budget_exhausted"));
}

#[test]
fn p9_a_turn_that_is_tried_again_gives_no_call_the_key_of_another() {
    let mut rules = rules(BusyInput::Queue);
    rules.limits.steps_max = 2;
    let refused = Failure { kind: FailureKind::Refused, message: "no".into() };
    let mut state = session();
    for event in [
        request(1),
        answered_with(1, 0, &["0"], 1),
        called(1, 0, 0),
        Event::Failed { turn: TurnId(Seq(1)), step: 1, failure: refused },
    ] {
        state = state.step(event, Time(1), &rules).0;
    }
    let Event::Received(first) = request(1) else { unreachable!("request receives") };
    state = state.step(Event::Retried { inputs: vec![first], began: Time(2) }, Time(2), &rules).0;
    assert_eq!(state.jobs(), [Job::Ask { turn: TurnId(Seq(1)), step: 1 }], "step 0 has had its calls");
    state = state.step(answered_with(1, 1, &["0"], 1), Time(2), &rules).0;
    let call = Job::Call { turn: TurnId(Seq(1)), step: 1, index: 0 };
    assert_eq!(state.jobs(), [call], "and the budget is a new one");
}

#[test]
fn a_call_that_leads_nowhere_is_told_so_and_then_not_run() {
    let rules = rules(BusyInput::Queue);
    let mut state = session().step(chat(1), Time(1), &rules).0;
    let mut results = Vec::new();
    for step in 0..7 {
        let (next, acts) = state.step(answered_with(1, step, &["0"], 1), Time(1), &rules);
        let closed = acts.iter().map(word).any(|act| act == "calls_repeated");
        let (next, acts) = if closed { (next, acts) } else { next.step(called(1, step, 0), Time(1), &rules) };
        results.extend(acts.iter().map(word).filter(|act| act.starts_with("tool ")));
        state = next;
    }
    let told = format!("tool r\n\n{REPEATED}");
    let not_run = format!("tool {NOT_RUN_REPEATED}");
    assert_eq!(results, ["tool r", "tool r", &told, &told, &told, &not_run, &not_run]);
    assert_eq!(state.phase, Phase::Idle, "a model that will not hear is stopped");
}

fn granted(seq: u64) -> Event {
    Event::Shared { seq: Seq(seq), shared: Shared::Granted }
}

fn refused(seq: u64, announce: bool) -> Event {
    let cut = Cut { number: 0, why: crate::chain::Exceeded::Turns, announce };
    Event::Shared { seq: Seq(seq), shared: Shared::Refused(cut) }
}

#[test]
fn p6_a_message_of_an_agent_takes_a_share_before_its_turn_begins() {
    let rows = vec![
        (from_agent(1, "h", 1), vec!["accept 1"], vec!["share 1"]),
        (loaded(&[]), vec![], vec!["share 1"]), // a crash in between: the ledger is asked again
        (from_agent(2, "h", 1), vec!["accept 2"], vec!["share 1"]), // it waits behind
        (granted(1), vec!["begin 1<1", "user m1", "begin 1<2", "user m2"], vec!["ask 1.0"]),
        (granted(1), vec!["share_unused"], vec!["ask 1.0"]), // an echo
        (
            answered(1),
            vec!["step 1.0", "assistant a", "1 answered by 1", "2 answered by 1", "deliver s/1"],
            vec![],
        ),
    ];
    play(session(), &rules(BusyInput::Queue), rows);
}

#[test]
fn p6_a_message_beyond_the_budget_is_a_row_without_a_turn_and_told_once() {
    let rows = vec![
        (from_agent(1, "h", 1), vec!["accept 1"], vec!["share 1"]),
        (refused(1, true), vec!["chain_cut", "deliver s/agent|notice|cut/h/0", "user m1", "1 done"], vec![]),
        (from_agent(2, "h", 1), vec!["accept 2"], vec!["share 2"]),
        (refused(2, true), vec!["chain_cut", "user m2", "2 done"], vec![]), // it has been announced
        (chat(3), vec!["accept 3", "begin 3<3", "user m3"], vec!["ask 3.0"]), // a person is answered
    ];
    let state = play(session(), &rules(BusyInput::Queue), rows);
    assert_eq!((state.received, state.answered), (Seq(3), Seq(2)), "every message has an end");
}

#[test]
fn p6_a_person_who_joins_an_agent_s_message_needs_no_share() {
    let rows = vec![
        (from_agent(1, "h", 1), vec!["accept 1"], vec!["share 1"]),
        (chat(2), vec!["accept 2", "begin 1<1", "user m1", "begin 1<2", "user m2"], vec!["ask 1.0"]),
        (refused(1, true), vec!["share_unused"], vec!["ask 1.0"]),
    ];
    play(session(), &rules(BusyInput::Queue), rows);
}

#[test]
fn p6_a_turn_whose_chain_may_ask_no_more_ends_with_what_it_has_done() {
    let cut = Cut { number: 2, why: crate::chain::Exceeded::Calls, announce: true };
    let spent = Event::Spent { turn: TurnId(Seq(1)), step: 1, cut };
    let rows = vec![
        (from_agent(1, "h", 1), vec!["accept 1"], vec!["share 1"]),
        (granted(1), vec!["begin 1<1", "user m1"], vec!["ask 1.0"]),
        (answered_with(1, 0, &["0"], 1), vec!["step 1.0"], vec!["call 1.0.0"]),
        (called(1, 0, 0), vec!["result 0", "assistant a", "tool r"], vec!["ask 1.1"]),
        (spent.clone(), vec!["chain_cut", "deliver s/agent|notice|cut/h/2", "1 failed in 1"], vec![]),
        (spent, vec!["late_result_dropped"], vec![]),
    ];
    play(session(), &rules(BusyInput::Queue), rows);
}

/// A bot that is none of ours, heard after this message of a person, as far as the platform knows.
fn from_foreign_bot(seq: u64, heard: &str) -> Event {
    let Event::Received(input) = chat(seq) else { unreachable!("chat receives") };
    let trace = Trace { hops: 1, foreign: Some(heard.into()), ..Trace::default() };
    Event::Received(Arc::new(Input { trace, ..Input::clone(&input) }))
}

#[test]
fn p6_bots_of_others_count_in_their_chat_until_a_person_writes_whatever_restarts() {
    let mut rules = rules(BusyInput::Queue);
    rules.limits.chain.turns_max = 3;
    let mut state = session();
    let (mut turns, mut rows, mut notices) = (0, 0, 0);
    for seq in 1..=9 {
        if seq == 5 {
            state = state.step(loaded(&[]), Time(1), &rules).0; // and the platform has heard nobody since
        }
        let heard = if seq < 5 { "m0" } else { "" };
        let (next, acts) = state.step(from_foreign_bot(seq, heard), Time(1), &rules);
        rows += acts.iter().map(word).filter(|act| *act == format!("user m{seq}")).count();
        notices += acts.iter().map(word).filter(|act| act.starts_with("deliver s/agent|notice|cut/")).count();
        state = next;
        if let [Job::Ask { turn, .. }] = state.jobs()[..] {
            turns += 1;
            state = state.step(answered(turn.0.0), Time(1), &rules).0;
        }
    }
    assert_eq!((turns, rows), (3, 9), "each is a row, three of them began a turn");
    assert_eq!(notices, 1, "the chat is told once");
    let heard = state.step(from_foreign_bot(10, "m9"), Time(1), &rules).0;
    assert_eq!(heard.jobs().len(), 1, "a person was heard there");
    let state = state.step(chat(10), Time(1), &rules).0;
    let state = state.step(answered(10), Time(1), &rules).0;
    let state = state.step(from_foreign_bot(11, "m0"), Time(1), &rules).0;
    assert_eq!(state.jobs().len(), 1, "a person wrote here");
}

#[test]
fn p6_a_share_counts_for_the_message_that_is_next_while_nothing_runs() {
    let rows = vec![
        (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
        (from_agent(2, "h", 1), vec!["accept 2"], vec!["ask 1.0"]),
        (granted(2), vec!["share_unused"], vec!["ask 1.0"]), // a turn runs
        (answered(1), vec!["step 1.0", "assistant a", "1 answered by 1", "deliver s/1"], vec!["share 2"]),
        (granted(7), vec!["share_unused"], vec!["share 2"]), // there is no such message
        (refused(2, false), vec!["chain_cut", "user m2", "2 done"], vec![]), // another agent announces it there
        (Event::Halted, vec![], vec![]),
        (from_agent(3, "h", 1), vec!["accept 3"], vec![]),
        (granted(3), vec!["share_unused"], vec![]), // silence
    ];
    play(session(), &rules(BusyInput::Queue), rows);
}

#[test]
fn p6_only_what_a_bot_says_to_the_model_takes_a_share() {
    let of_agent = |event: Event| {
        let (Event::Received(input), Event::Received(agent)) = (event, from_agent(1, "h", 1)) else {
            unreachable!("both are received")
        };
        Event::Received(Arc::new(Input { trace: agent.trace.clone(), ..Input::clone(&input) }))
    };
    let rules = rules(BusyInput::Queue);
    let is_share = |job: &Job| matches!(job, Job::Share { .. });
    let undo = Command::Deferred(crate::command::DeferredCommand::Undo { turns: 1 });
    for order in [new(1), command(1, undo), command(1, Command::Status)] {
        let state = session().step(of_agent(order.clone()), Time(1), &rules).0;
        assert!(!state.jobs().iter().any(is_share), "{order:?}: {:?}", state.jobs());
    }
    // A bot of others counts in its chat, whatever its messages were called when they came in.
    let Event::Received(input) = from_foreign_bot(1, "") else { unreachable!("it is received") };
    let trace = Trace { origin: "bots".into(), ..input.trace.clone() };
    let foreign = Event::Received(Arc::new(Input { trace, ..Input::clone(&input) }));
    play(session(), &rules, vec![(foreign, vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"])]);
    // Words in a command of a bot's are a turn of their own: a person behind them does not pay for it.
    let queued = of_agent(command(1, Command::Queue { text: "m1".into() }));
    // What has another place, or is answered by itself, is no part of a bot's turn.
    for first in [queued, from_agent(1, "h", 1)] {
        let rows =
            vec![(first, vec!["accept 1"], vec!["share 1"]), (request(2), vec!["accept 2"], vec!["share 1"])];
        play(session(), &rules, rows);
    }
    let queued = of_agent(command(1, Command::Queue { text: "m1".into() }));
    let rows =
        vec![(queued, vec!["accept 1"], vec!["share 1"]), (chat(2), vec!["accept 2"], vec!["share 1"])];
    play(session(), &rules, rows);
}

#[test]
fn p6_a_cut_is_said_to_people_and_to_no_agent_and_follows_from_nothing() {
    let rules = rules(BusyInput::Queue);
    for (platform, notices) in [(AGENT_PLATFORM, 0), ("test", 1)] {
        let Event::Received(input) = from_agent(1, "h", 1) else { unreachable!("it is received") };
        let reply_to = Some(Destination { platform: platform.into(), ..here() });
        let input = Arc::new(Input { reply_to, ..Input::clone(&input) });
        let state = session().step(Event::Received(input), Time(1), &rules).0;
        let (_, acts) = state.step(refused(1, true), Time(1), &rules);
        let said: Vec<&Reply> = acts
            .iter()
            .filter_map(|act| match act {
                Act::Deliver(reply) => Some(reply),
                _ => None,
            })
            .collect();
        assert_eq!(said.len(), notices, "{platform}: {acts:?}");
        // Another agent that hears it in the chat must not take it for a part of the chain.
        assert!(said.iter().all(|reply| reply.trace == Trace::default()), "{said:?}");
    }
}

#[test]
fn p6_a_turn_that_may_ask_no_more_settles_each_of_its_messages_and_can_be_tried_again() {
    let rules = rules(BusyInput::Queue);
    let mut state = session();
    for event in [from_agent(1, "h", 1), from_agent(2, "h", 1), granted(1)] {
        state = state.step(event, Time(1), &rules).0;
    }
    let cut = Cut { number: 0, why: crate::chain::Exceeded::Calls, announce: false };
    let (state, acts) = state.step(Event::Spent { turn: TurnId(Seq(1)), step: 0, cut }, Time(9), &rules);
    let words: Vec<String> = acts.iter().map(word).collect();
    assert_eq!(words, ["chain_cut", "1 failed in 1", "2 failed in 1"]);
    assert_eq!((state.phase, state.active, state.failed), (Phase::Idle, Time(9), Some(TurnId(Seq(1)))));
}

#[test]
fn p6_a_person_who_joins_a_bot_of_others_makes_its_turn_theirs_and_only_then() {
    let mut rules = rules(BusyInput::Queue);
    rules.limits.chain.platforms =
        vec![crate::chain::PlatformLimits { platform: here().platform, turns_max: Some(0), calls_max: None }];
    let done = vec!["step 1.0", "assistant a", "1 answered by 1", "deliver s/1"];
    let begun = |rest: &[&'static str]| [done.clone(), rest.to_vec()].concat();
    let before = || {
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (from_foreign_bot(2, ""), vec!["accept 2"], vec!["ask 1.0"]),
        ]
    };
    let mut joined = before();
    joined.extend([
        (chat(3), vec!["accept 3"], vec!["ask 1.0"]),
        (answered(1), begun(&["begin 2<2", "user m2", "begin 2<3", "user m3"]), vec!["ask 2.0"]),
    ]);
    assert_eq!(play(session(), &rules, joined).foreign.turns, 0, "it costs them nothing");
    let state =
        before().into_iter().fold(session(), |state, (event, ..)| state.step(event, Time(1), &rules).0);
    let state = state.step(request(3), Time(1), &rules).0;
    let (state, acts) = state.step(answered(1), Time(1), &rules);
    let words: Vec<String> = acts.iter().map(word).collect();
    assert!(words.contains(&"2 done".to_owned()) && words.contains(&"begin 3<3".to_owned()), "{words:?}");
    assert_eq!(
        state.jobs(),
        [Job::Ask { turn: TurnId(Seq(3)), step: 0 }],
        "the limit of this platform is none"
    );
}

#[test]
fn p6_what_a_gateway_itself_says_in_a_chat_begins_nothing_at_another() {
    let Event::Received(input) = chat(1) else { unreachable!("chat receives") };
    let trace = Trace { hops: 1, ..Trace::default() };
    let notice = Event::Received(Arc::new(Input { trace, ..Input::clone(&input) }));
    play(session(), &rules(BusyInput::Queue), vec![(notice, vec!["accept 1", "user m1", "1 done"], vec![])]);
}

/// A client of the API has no chat: it reads it with its next answer.
#[test]
fn p6_people_without_a_chat_are_told_of_a_cut_in_their_next_answer_once() {
    let rules = rules(BusyInput::Queue);
    let Event::Received(notice) = command(1, Command::Notice { text: "cut".into() }) else {
        unreachable!("command receives")
    };
    let trace = Trace { origin: "h".into(), hops: 1, ..Trace::default() };
    let notice = Event::Received(Arc::new(Input { trace, reply_to: None, ..Input::clone(&notice) }));
    let mut state = session().step(notice, Time(1), &rules).0;
    let mut said = Vec::new();
    for seq in [2, 3] {
        let Event::Received(input) = request(seq) else { unreachable!("request receives") };
        let input = Arc::new(Input { reply_to: None, ..Input::clone(&input) });
        state = state.step(Event::Received(input), Time(1), &rules).0;
        let (next, acts) = state.step(answered(seq), Time(1), &rules);
        said.extend(acts.iter().map(word).filter(|act| act.starts_with("assistant")));
        state = next;
    }
    assert_eq!(said, ["assistant a\n\ncut", "assistant a"]);
}

#[test]
fn p6_a_cut_that_the_ledger_tells_and_one_that_happens_here_are_announced_once() {
    let mut rules = rules(BusyInput::Queue);
    rules.home = "this".into();
    let mut state = session().step(chat(1), Time(1), &rules).0;
    state = state.step(answered(1), Time(1), &rules).0;
    state = state.step(from_agent(2, "h", 1), Time(1), &rules).0;
    let (state, cut) = state.step(refused(2, true), Time(1), &rules);
    let told = Command::Notice { text: "cut over there".into() };
    let Event::Received(input) = command(3, told) else { unreachable!("command receives") };
    let key = SessionState::notice_key(&crate::chain::notice_name("h", 0));
    let trace = Trace { origin: "h".into(), hops: 8, ..Trace::default() };
    let notice = Event::Received(Arc::new(Input { key, trace, ..Input::clone(&input) }));
    let (_, told) = state.step(notice, Time(1), &rules);
    let keys = cut.iter().chain(&told).filter_map(|act| match act {
        Act::Deliver(reply) => Some(reply.key.as_str()),
        _ => None,
    });
    let keys: Vec<_> = keys.collect();
    assert_eq!(keys, ["s/agent|notice|cut/h/0"], "whichever comes first");
}

#[test]
fn p10_a_notice_that_says_where_it_goes_is_delivered_there_without_a_turn() {
    let Event::Received(input) = command(1, Command::Notice { text: "disk full".into() }) else {
        unreachable!("command receives")
    };
    let notice = Event::Received(input.clone());
    let (state, acts) = session().step(notice, Time(7), &rules(BusyInput::Queue));
    assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), ["accept 1", "deliver s/1/done", "1 done"]);
    let said = acts.iter().find_map(|act| match act {
        Act::Deliver(reply) => Some((&reply.destination, reply.text.as_str())),
        _ => None,
    });
    assert_eq!(said, input.reply_to.as_ref().map(|place| (place, "disk full")));
    assert_eq!(state.jobs(), []);
    assert_eq!(state.active, Time::default(), "nobody wrote: no policy ends what nobody began");
}

/// Whoever waits behind `/new` is answered in the next session, and told there.
#[test]
fn p6_a_chain_that_begins_with_a_moved_message_has_its_people_where_the_message_went() {
    let rules = rules(BusyInput::Queue);
    let mut state = session().step(chat(1), Time(1), &rules).0;
    state = state.step(new(2), Time(1), &rules).0;
    let Event::Received(input) = chat(3) else { unreachable!("chat receives") };
    let root = Some(Root { home: rules.home.clone(), session: session().id });
    let trace = Trace { origin: "h".into(), root, ..Trace::default() };
    state = state.step(Event::Received(Arc::new(Input { trace, ..Input::clone(&input) })), Time(1), &rules).0;
    let (_, acts) = state.step(answered(1), Time(1), &rules);
    let moved = acts.iter().find_map(|act| match act {
        Act::Close { moved, successor, .. } => Some((moved, successor)),
        _ => None,
    });
    let (moved, successor) = moved.expect("it is closed");
    let roots: Vec<_> = moved.iter().filter_map(|input| input.trace.root.as_ref()).collect();
    assert_eq!(roots.iter().map(|root| &root.session).collect::<Vec<_>>(), [successor]);
    let mut next = SessionState::new(successor.clone());
    next.know_prompt(Some(prompt()));
    (next.received, next.waiting) = (Seq(1), moved.iter().map(|input| renumbered(input, 1)).collect());
    let (next, _) = next.step(loaded(&[]), Time(2), &rules);
    assert_eq!(next.place, Some(here()), "that is where its people are");
}

#[test]
fn p6_what_fails_or_says_nothing_is_not_told_to_another_agent() {
    let rules = rules(BusyInput::Queue);
    let Event::Received(input) = from_agent(1, "h", 1) else {
        unreachable!("an agent's message is received")
    };
    for (platform, told) in [(AGENT_PLATFORM, 0), ("test", 1)] {
        let there = Destination {
            platform: platform.into(),
            account: "a".into(),
            chat: "c".into(),
            thread: None,
            reply_to: None,
        };
        let input = Arc::new(Input { reply_to: Some(there), ..Input::clone(&input) });
        let state = session().step(Event::Received(input), Time(1), &rules).0;
        let state = state.step(granted(1), Time(1), &rules).0;
        let (_, acts) = state.step(failed(1), Time(1), &rules);
        let notices = acts.iter().filter(|act| matches!(act, Act::Deliver(_))).count();
        assert_eq!(notices, told, "people who wait for the answer are told: {acts:?}");
    }
}

#[test]
fn p6_silence_ends_every_turn_and_holds_until_a_person_writes() {
    let mut rows = working();
    let stopped = format!("tool {STOPPED}");
    rows.extend([
        (chat(2), vec!["accept 2"], vec!["call 1.0.0", "call 1.0.1"]),
        (
            Event::Halted,
            vec![
                "result 0",
                "result 1",
                "assistant a",
                stopped.as_str(),
                stopped.as_str(),
                "1 failed in 1",
                "turn_stopped",
            ],
            vec![],
        ),
        (from_agent(3, "h", 1), vec!["accept 3"], vec![]),
        (loaded(&[]), vec![], vec![]),
        (command(4, Command::Status), vec!["accept 4", "deliver s/4/done", "4 done"], vec![]),
        (
            chat(5),
            vec!["accept 5", "begin 2<2", "user m2", "begin 2<3", "user m3", "begin 2<5", "user m5"],
            vec!["ask 2.0"],
        ),
    ]);
    play(session(), &rules(BusyInput::Queue), rows);
    let silent = session().step(Event::Halted, Time(1), &Rules::default()).0;
    assert!(silent.halted && !silent.step(Event::Released, Time(1), &Rules::default()).0.halted);
}
