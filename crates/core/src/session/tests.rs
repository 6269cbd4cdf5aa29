//! The machine by table, where a row is one thing that happened, and by property.

use super::*;
use crate::input::{DedupeKey, INLINE_BYTES_MAX, Request};
use crate::message::{Assistant, Content, ToolCall};
use crate::prompt::Digest;
use crate::prompt::Head;
use crate::session::compress::tests as compressing;
use crate::session::lifecycle::Run;
use crate::turn::Usage;
use proptest::prelude::*;

/// Requests of this size do not fit.
pub const HARD: u64 = 1000;

pub fn session() -> SessionState {
    let mut session = SessionState::new("s".parse().expect("plain id"));
    session.generation = Generation(1);
    session.know_prompt(Some(prompt()));
    session
}

/// What most sessions have been frozen with: their turns are asked at once.
pub fn prompt() -> FrozenPrompt {
    FrozenPrompt { text: "persona".into(), layer: None }
}

pub fn rules(busy: BusyInput) -> Rules {
    Rules { busy, hard_tokens: Some(HARD), ..Rules::default() }
}

pub fn here() -> Destination {
    Destination {
        platform: "test".into(),
        account: "bot".into(),
        chat: "1".into(),
        thread: None,
        reply_to: None,
    }
}

pub fn input(seq: u64, kind: Kind) -> Event {
    let chat = !matches!(kind, Kind::Request(_));
    Event::Received(Arc::new(Input {
        seq: Seq(seq),
        at: Time(0),
        key: DedupeKey::of(&["k", &seq.to_string()]),
        kind,
        reply_to: chat.then(here),
        sender: None,
        platform_id: None,
        trace: Trace::default(),
        left: None,
    }))
}

pub fn chat(seq: u64) -> Event {
    input(seq, Kind::Chat(Content::text(format!("m{seq}"))))
}

/// More than is kept in memory while it waits.
pub fn long_chat(seq: u64) -> Event {
    input(seq, Kind::Chat(Content::text(format!("m{seq} {}", "x".repeat(INLINE_BYTES_MAX)))))
}

/// What whoever commits does first: it reads what the step took up.
pub fn read_texts(state: &mut SessionState, acts: &mut Vec<Act>, known: &[Arc<Input>]) {
    let read = known.iter().map(|input| (input.seq, input.clone())).collect();
    state.take_in_whole(&read, Time(0), &Rules::default(), acts);
    assert!(state.unread(acts).is_empty());
}

pub fn request(seq: u64) -> Event {
    let content = Content::text(format!("m{seq}"));
    input(seq, Kind::Request(Request { content, ..Request::default() }))
}

pub fn command(seq: u64, command: Command) -> Event {
    input(seq, Kind::Command(command))
}

pub fn new(seq: u64) -> Event {
    command(seq, Command::New { successor: "t".parse().expect("plain id") })
}

pub fn answered_with(turn: u64, step: u32, calls: &[&str], tokens: u64) -> Event {
    let call =
        |id: &&str| ToolCall { id: (*id).into(), name: "tool".into(), arguments: "{}".into(), extra: None };
    let said = Assistant {
        content: Content::text("a"),
        calls: calls.iter().map(call).collect(),
        ..Assistant::default()
    };
    let usage = Usage { input: tokens, ..Usage::default() };
    Event::Answered {
        turn: TurnId(Seq(turn)),
        step,
        answer: Answer { said, usage, model: "m".into() },
        prompt: Mark { chain: Digest([0; 32]), messages: 0, head: Head::default() },
        full: tokens >= HARD / 2,
    }
}

pub fn answered(turn: u64) -> Event {
    answered_with(turn, 0, &[], 1)
}

pub fn called(turn: u64, step: u32, index: usize) -> Event {
    let result = ToolResult { call_id: index.to_string(), name: None, content: Content::text("r") };
    Event::Called { turn: TurnId(Seq(turn)), step, index, result, sends: Vec::new() }
}

pub fn failed(turn: u64) -> Event {
    let failure = Failure { kind: FailureKind::Refused, message: "no".into() };
    Event::Failed { turn: TurnId(Seq(turn)), step: 0, failure }
}

/// What matters of an act, in a word.
pub fn word(act: &Act) -> String {
    match act {
        Act::Accept(input) => format!("accept {}", input.seq),
        Act::Begin { turn, inputs } => format!("begin {turn}<{}", inputs[0]),
        Act::Append(message) => format!("{} {}", message.role(), message.content().plain()),
        Act::Say(input) => format!("say {}", input.seq),
        Act::Step(step) => format!("step {}.{}", step.turn, step.step),
        Act::Result { index, .. } => format!("result {index}"),
        Act::Ask { index, .. } => format!("asks {index}"),
        Act::Resume { index, .. } => format!("resumes {index}"),
        Act::Grant { index, .. } => format!("grant {index}"),
        Act::Leave { index, .. } => format!("leave {index}"),
        Act::Named => "named".into(),
        Act::Settle { seq, outcome } => match outcome {
            Outcome::Answered(turn) => format!("{seq} answered by {turn}"),
            Outcome::Failed(turn, _) => format!("{seq} failed in {turn}"),
            Outcome::Done { .. } => format!("{seq} done"),
            Outcome::Moved { session, seq: to } => format!("{seq} moved to {session}/{to}"),
        },
        Act::Tip { turn, .. } => format!("tip {turn}"),
        Act::Deliver(reply) => format!("deliver {}", reply.key),
        Act::Close { successor, moved, .. } => format!("close for {successor} with {}", moved.len()),
        Act::Expire { end_reason, .. } => format!("expire as {end_reason}"),
        Act::Reopen => "reopen".into(),
        Act::Hook { hook, run: Run::Began { attempt } } => format!("{hook} begins, attempt {attempt}"),
        Act::Hook { hook, run: Run::Done } => format!("{hook} is done"),
        Act::Hook { hook, run: Run::Failed { .. } } => format!("{hook} failed"),
        Act::Compress(operation) => match &operation.stage {
            Stage::Preparing => format!("compress {} for {}", operation.number, operation.orders.len()),
            Stage::Ready(_) => format!("ready {}", operation.number),
            Stage::Promoted => "promoted".into(),
        },
        Act::Promote { operation, replacement, .. } => {
            format!("promote {} {}", operation.number, replacement.kind)
        }
        Act::Abandon { number, end, .. } => format!("{number} {}", end.as_str()),
        Act::Restore { .. } => "restore".into(),
        Act::Retain(kept) => format!("keep {}", kept.turn),
        Act::HandOver => "hand over".into(),
        Act::Recall { row, .. } => format!("recall with {row}"),
        Act::Note { name, .. } => (*name).into(),
        Act::Open(_) => "open".into(),
        Act::Restart { order } => format!("restart by {order}"),
        Act::Freeze { prompt, .. } => format!("freeze {prompt}"),
        Act::Rewind { from, rows, .. } => format!("take back {rows} from {from}"),
        Act::Title { session, title } => format!("call {session} {title}"),
        Act::Switch { to, moved, .. } => format!("switch to {to} with {}", moved.len()),
        Act::Review(review) => format!("review {} of {}", review.number, review.subject.as_str()),
        Act::Reviewed { number, outcome: review::Outcome::Done(_) } => format!("review {number} is done"),
        Act::Reviewed { number, outcome: review::Outcome::Parked(_) } => {
            format!("review {number} is set aside")
        }
    }
}

pub fn job(job: &Job) -> String {
    match job {
        Job::Share { seq } => format!("share {seq}"),
        Job::Gather { turn, step, until } => format!("gather {turn}.{step} until {}", until.0 / 1000),
        Job::Prompt { turn, step } => format!("prompt {turn}.{step}"),
        Job::Recall { turn, step } => format!("recall {turn}.{step}"),
        Job::Ask { turn, step } => format!("ask {turn}.{step}"),
        Job::Call { turn, step, index } => format!("call {turn}.{step}.{index}"),
        Job::Await { turn, step, index } => format!("await {turn}.{step}.{index}"),
        Job::Finalise { stage, done: 0, attempt: 0, running: false } => format!("finalise {stage}"),
        Job::Finalise { stage, done, attempt, running } => {
            format!("finalise {stage}.{done}.{attempt}{}", if *running { " running" } else { "" })
        }
        Job::Survey { .. } => "survey".into(),
        Job::Summarise { operation } => format!("summarise {operation}"),
        Job::Report { operation } => format!("report {operation}"),
        Job::Review { number, tries } => format!("review {number}.{tries}"),
        Job::Order { seq } => format!("errand {seq}"),
    }
}

/// Plays the rows: what happened, what is written, what then runs.
pub fn play(
    mut session: SessionState,
    rules: &Rules,
    rows: Vec<(Event, Vec<&str>, Vec<&str>)>,
) -> SessionState {
    for (event, acts, jobs) in rows {
        let (next, done) = session.step(event.clone(), Time(1), rules);
        let done: Vec<_> = done.iter().map(word).collect();
        let running: Vec<_> = next.jobs().iter().map(job).collect();
        assert_eq!((done, running), (owned(acts), owned(jobs)), "after {event:?}");
        session = next;
    }
    session
}

pub fn owned(words: Vec<&str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

#[test]
fn p8_messages_that_wait_share_the_next_turn_each_as_its_own_row() {
    let end = play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (chat(2), vec!["accept 2"], vec!["ask 1.0"]),
            (chat(3), vec!["accept 3"], vec!["ask 1.0"]),
            (
                answered(1),
                vec![
                    "step 1.0",
                    "assistant a",
                    "1 answered by 1",
                    "deliver s/1",
                    "begin 2<2",
                    "user m2",
                    "begin 2<3",
                    "user m3",
                ],
                vec!["ask 2.0"],
            ),
            (answered(1), vec!["late_result_dropped"], vec!["ask 2.0"]), // an echo of the first turn
            (
                answered(2),
                vec!["step 2.0", "assistant a", "2 answered by 2", "3 answered by 2", "deliver s/2"],
                vec![],
            ),
        ],
    );
    assert_eq!((end.answered, end.received), (Seq(3), Seq(3)));
}

#[test]
fn p10_only_messages_that_are_answered_in_one_place_share_a_turn() {
    let rules = rules(BusyInput::Interrupt);
    let Event::Received(line) = chat(2) else { unreachable!("chat receives") };
    let elsewhere = Event::Received(Arc::new(Input { reply_to: None, ..Input::clone(&line) }));
    play(
        session(),
        &rules,
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (elsewhere, vec!["accept 2"], vec!["ask 1.0"]),
            (
                answered(1),
                vec!["step 1.0", "assistant a", "1 answered by 1", "deliver s/1", "begin 2<2", "user m2"],
                vec!["ask 2.0"],
            ),
        ],
    );
}

#[test]
fn p8_requests_keep_a_turn_each() {
    play(
        session(),
        &rules(BusyInput::Interrupt),
        vec![
            (request(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (request(2), vec!["accept 2"], vec!["ask 1.0"]),
            (chat(3), vec!["accept 3"], vec!["ask 1.0"]),
            (
                answered(1),
                vec!["step 1.0", "assistant a", "1 answered by 1", "begin 2<2", "user m2"],
                vec!["ask 2.0"],
            ),
            (
                answered(2),
                vec!["step 2.0", "assistant a", "2 answered by 2", "begin 3<3", "user m3"],
                vec!["ask 3.0"],
            ),
        ],
    );
}

#[test]
fn p8_an_interrupting_message_is_asked_with_at_once_and_nothing_is_lost() {
    play(
        session(),
        &rules(BusyInput::Interrupt),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (chat(2), vec!["accept 2", "begin 1<2", "user m2", "turn_interrupted"], vec!["ask 1.1"]),
            (answered(1), vec!["late_result_dropped"], vec!["ask 1.1"]), // the answer to the first question only
            (
                answered_with(1, 1, &[], 1),
                vec!["step 1.1", "assistant a", "1 answered by 1", "2 answered by 1", "deliver s/1"],
                vec![],
            ),
        ],
    );
}

#[test]
fn p9_a_group_enters_the_transcript_whole_and_in_call_order() {
    play(
        session(),
        &rules(BusyInput::Steer),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (answered_with(1, 0, &["0", "1"], 1), vec!["step 1.0"], vec!["call 1.0.0", "call 1.0.1"]),
            (called(1, 0, 1), vec!["result 1"], vec!["call 1.0.0"]),
            (called(1, 0, 1), vec![], vec!["call 1.0.0"]), // an echo
            (chat(2), vec!["accept 2"], vec!["call 1.0.0"]),
            (
                called(1, 0, 0),
                vec!["result 0", "assistant a", "tool r", "tool r", "begin 1<2", "user m2"],
                vec!["ask 1.1"],
            ),
        ],
    );
}

#[test]
fn p9_after_a_crash_a_call_of_unknown_outcome_is_shown_as_such_and_not_run_again() {
    let rules = rules(BusyInput::Queue);
    let mut state = play(
        session(),
        &rules,
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (answered_with(1, 0, &["0", "1"], 1), vec!["step 1.0"], vec!["call 1.0.0", "call 1.0.1"]),
            (called(1, 0, 0), vec!["result 0"], vec!["call 1.0.1"]),
        ],
    );
    let (next, acts) = state.step(Event::Loaded { repeatable: vec![] }, Time(1), &rules);
    let unknown = format!("tool {}", crate::history::OUTCOME_UNKNOWN);
    assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), ["result 1", "assistant a", "tool r", &unknown]);
    assert_eq!(next.generation, state.generation.next());
    assert_eq!(next.jobs(), [Job::Ask { turn: TurnId(Seq(1)), step: 1 }]);

    // Tools that end the process again and again are not run for ever.
    state = next;
    for step in 1..=RESUMES_MAX {
        state = state.step(answered_with(1, step, &["0"], 1), Time(1), &rules).0;
        let (next, acts) = state.step(Event::Loaded { repeatable: vec![] }, Time(1), &rules);
        let parked = acts.iter().map(word).any(|act| act == "1 failed in 1");
        assert_eq!(parked, step == RESUMES_MAX, "resume {step}: {acts:?}");
        state = next;
    }
    assert_eq!(state.phase, Phase::Idle);
}

#[test]
fn p1_p4_new_divides_by_arrival_and_moves_what_waits() {
    let end = play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (chat(2), vec!["accept 2"], vec!["ask 1.0"]),
            (new(3), vec!["accept 3"], vec!["ask 1.0"]),
            (chat(4), vec!["accept 4"], vec!["ask 1.0"]),
            (command(5, Command::Status), vec!["accept 5", "deliver s/5/done", "5 done"], vec!["ask 1.0"]),
            (
                answered(1),
                vec!["step 1.0", "assistant a", "1 answered by 1", "deliver s/1", "begin 2<2", "user m2"],
                vec!["ask 2.0"],
            ),
            (
                answered(2),
                vec![
                    "step 2.0",
                    "assistant a",
                    "2 answered by 2",
                    "deliver s/2",
                    "deliver s/3/done",
                    "3 done",
                    "4 moved to t/1",
                    "close for t with 1",
                ],
                vec!["finalise 0"],
            ),
            (Event::Finalised(Finalisation::Claimed), vec![], vec!["finalise 1"]),
            (Event::Finalised(Finalisation::Claimed), vec![], vec!["finalise 1"]), // an echo
            (Event::Finalised(Finalisation::Hooks), vec![], vec!["finalise 2"]),
            (Event::Finalised(Finalisation::Provider), vec![], vec!["finalise 3"]),
            (Event::Finalised(Finalisation::Evicted), vec![], vec![]),
        ],
    );
    assert_eq!(end.phase, Phase::Closed(Finalisation::Done));
    assert_eq!((end.answered, end.received), (Seq(5), Seq(5)));
    assert_eq!(end.id.as_str(), "s", "ending is not renaming");
}

#[test]
fn a_failed_turn_is_tried_again_as_the_same_turn_until_something_else_is_said() {
    let rules = rules(BusyInput::Queue);
    let state = play(
        session(),
        &rules,
        vec![
            (request(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (failed(1), vec!["1 failed in 1"], vec![]),
        ],
    );
    let Event::Received(first) = request(1) else { unreachable!("request receives") };
    let again = Event::Retried { inputs: vec![first], began: Time(2) };
    let (retried, acts) = state.step(again.clone(), Time(2), &rules);
    assert_eq!(acts.iter().map(word).collect::<Vec<_>>(), ["begin 1<1"], "no second user row");
    assert_eq!(retried.jobs(), [Job::Ask { turn: TurnId(Seq(1)), step: 0 }]);
    let moved_on = state.step(request(2), Time(2), &rules).0.step(answered(2), Time(2), &rules).0;
    assert_eq!(moved_on.step(again, Time(3), &rules).1, []);
}

#[test]
fn a_failure_in_a_chat_is_a_notice_and_never_part_of_the_transcript() {
    play(
        session(),
        &rules(BusyInput::Queue),
        vec![
            (chat(1), vec!["accept 1", "begin 1<1", "user m1"], vec!["ask 1.0"]),
            (failed(1), vec!["1 failed in 1", "deliver s/1/failed/0"], vec![]),
        ],
    );
}

fn anything() -> impl Strategy<Value = u8> {
    0u8..17
}

#[test]
fn p8_long_messages_wait_without_their_texts_and_are_said_whole() {
    let rules = rules(BusyInput::Queue);
    let known: Vec<Arc<Input>> = [long_chat(1), long_chat(2), chat(3), long_chat(4)]
        .into_iter()
        .map(|event| match event {
            Event::Received(input) => input,
            _ => unreachable!("a message comes in"),
        })
        .collect();
    let mut state = session();
    for input in &known {
        let (next, acts) = state.step(Event::Received(input.clone()), Time(1), &rules);
        state = next;
        let words: Vec<String> = acts.iter().map(word).collect();
        match input.seq.0 {
            1 => assert_eq!(words, ["accept 1", "begin 1<1", "say 1"]),
            seq => assert_eq!(words, [format!("accept {seq}")]),
        }
        let mut acts = acts;
        read_texts(&mut state, &mut acts, &known);
    }
    let Phase::Turn(turn) = &state.phase else { panic!("the first is being answered") };
    assert_eq!(turn.inputs, known[..1], "a turn has its input whole");
    let left: Vec<bool> = state.waiting.iter().map(|input| input.left.is_some()).collect();
    assert_eq!(left, [true, false, true]);
    let weighs = |input: &Arc<Input>| crate::compression::estimate(&input.row().expect("it says something"));
    assert_eq!(state.upkeep.context, weighs(&known[0]), "it weighs what it says");

    let (mut next, mut acts) = state.step(answered(1), Time(2), &rules);
    let context = next.upkeep.context;
    assert_eq!(next.unread(&acts), BTreeSet::from([Seq(2), Seq(4)]));
    read_texts(&mut next, &mut acts, &known);
    let said: Vec<&Message> = acts
        .iter()
        .filter_map(|act| match act {
            Act::Append(message) if message.role() == "user" => Some(message),
            _ => None,
        })
        .collect();
    let rows: Vec<Message> = known[1..].iter().filter_map(|input| input.row()).collect();
    assert_eq!(said, rows.iter().collect::<Vec<_>>(), "each as its own row, whole and in order");
    assert_eq!(next.upkeep.context, context, "what they weigh was known before");
    let Phase::Turn(turn) = &next.phase else { panic!("they are being answered") };
    assert_eq!(turn.inputs, known[1..]);
}

proptest! {
    /// Whatever happens in whatever order: nothing is lost, nothing is done twice, order holds.
    #[test]
    fn p8_every_input_is_said_once_in_order_and_settled_once(
        happenings in prop::collection::vec((anything(), 0u8..4), 1..60),
        busy in prop::sample::select(vec![BusyInput::Queue, BusyInput::Interrupt, BusyInput::Steer]),
    ) {
        let rules = rules(busy);
        let mut state = session();
        let (mut accepted, mut said, mut settled) = (Vec::new(), Vec::new(), Vec::new());
        for (happening, detail) in happenings {
            let seq = state.received.0 + 1;
            let (turn, step) = match &state.phase {
                Phase::Turn(turn) => (turn.id.0.0, turn.step),
                _ => (1, 0),
            };
            let closed = matches!(state.phase, Phase::Closed(_));
            let event = match happening {
                0..=2 if !closed && detail == 3 => long_chat(seq),
                0..=2 if !closed => chat(seq),
                3 if !closed => request(seq),
                4 if !closed && detail == 0 => new(seq),
                4 if !closed => command(seq, Command::Status),
                5 => answered_with(turn, step, &[], 10),
                6 => answered_with(turn, step, &[], u64::from(detail) * 400),
                7 => answered_with(turn, step, &["0", "1"], 10),
                8 | 9 => called(turn, step, usize::from(detail % 3)),
                10 => failed(turn),
                11 if !closed => command(seq, compressing::order(detail)),
                12 | 13 => match state.survey() {
                    Some(asked) => compressing::surveyed(asked, detail > 0),
                    None => compressing::reported(state.upkeep.operations),
                },
                14 => compressing::summarised(state.upkeep.operations, detail),
                15 => compressing::too_long(turn, step),
                _ => Event::Loaded { repeatable: vec![] },
            };
            let (mut next, mut acts) = state.step(event, Time(1), &rules);
            accepted.extend(acts.iter().filter_map(|act| match act {
                Act::Accept(input) => Some(input.clone()),
                _ => None,
            }));
            read_texts(&mut next, &mut acts, &accepted);
            for act in &acts {
                match act {
                    Act::Append(message) if message.role() == "user" => said.push(message.content().plain()),
                    Act::Settle { seq, .. } => settled.push(*seq),
                    _ => {}
                }
            }
            prop_assert!(next.answered <= next.received);
            prop_assert!(state.answered <= next.answered && state.received <= next.received, "positions only rise");
            prop_assert!(next.waiting.iter().zip(next.waiting.iter().skip(1)).all(|(a, b)| a.seq < b.seq));
            prop_assert!(next.waiting.iter().all(|input| input.seq > next.answered));
            prop_assert!(next.waiting.iter().all(|input| Arc::ptr_eq(input, &input.light())), "as it waits");
            prop_assert_eq!(&next.id, &state.id);
            state = next;
        }
        let mut once = settled.clone();
        once.sort();
        once.dedup();
        prop_assert_eq!(once.len(), settled.len(), "nothing is settled twice");
        let running: Vec<_> = match &state.phase {
            Phase::Turn(turn) => turn.inputs.iter().map(|input| input.seq).collect(),
            _ => vec![],
        };
        let ordered: Vec<_> = state.compression.iter().flat_map(|it| &it.orders).map(|it| it.seq).collect();
        for input in &accepted {
            let waits = state.waiting.iter().any(|waiting| waiting.seq == input.seq);
            let places = [settled.contains(&input.seq), running.contains(&input.seq), waits, ordered.contains(&input.seq)];
            prop_assert_eq!(places.iter().filter(|is| **is).count(), 1, "input {} is in one place", input.seq);
        }
        let mut sorted = said.clone();
        let number = |text: &str| text[1..].split(' ').next().and_then(|number| number.parse::<u64>().ok());
        sorted.sort_by_key(|text| number(text).unwrap_or(0));
        sorted.dedup();
        prop_assert_eq!(said, sorted, "each is said once, in order of arrival");
    }
}

pub(super) mod tool_calls;
