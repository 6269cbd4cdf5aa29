//! Calls that a client runs, told as tables.

#![allow(clippy::unwrap_used)]

use crate::history::{self, LEFT_BEHIND};
use crate::input::{ClientTools, Request};
use crate::lifecycle::Reason;
use crate::message::{Assistant, JsonText, ToolCall};
use crate::port::{CallId, Outgoing};
use crate::session::lifecycle::Noticed;
use crate::session::tests::{answered, answered_with, input};
use crate::session::*;
use crate::tool::Question;
use proptest::prelude::*;

fn tools(names: &[&str]) -> Option<ClientTools> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Some(ClientTools { list: JsonText::from_valid("[]"), names })
}

fn asks(seq: u64, text: &str) -> Event {
    let request = Request { content: Content::text(text), tools: tools(&["theirs"]), ..Request::default() };
    input(seq, Kind::Request(request))
}

fn brings(seq: u64, results: &[(&str, &str)], text: Option<&str>) -> Event {
    let results = results.iter().map(|(id, said)| ToolResult {
        call_id: (*id).to_owned(),
        name: None,
        content: Content::text(*said),
    });
    let request = Request {
        content: text.map_or(Content::Nothing, Content::text),
        tools: tools(&["theirs"]),
        results: results.collect(),
        ..Request::default()
    };
    input(seq, Kind::Request(request))
}

fn calls(turn: u64, step: u32, names: &[&str]) -> Event {
    let calls = names.iter().enumerate().map(|(index, name)| ToolCall {
        id: format!("{}{index}", &name[..1]),
        name: (*name).to_owned(),
        arguments: "{}".into(),
        extra: None,
    });
    let said = Assistant { calls: calls.collect(), ..Assistant::default() };
    match answered_with(turn, step, &[], 1) {
        Event::Answered { turn, step, prompt, full, .. } => {
            Event::Answered { turn, step, answer: Answer { said, ..Answer::default() }, prompt, full }
        }
        _ => unreachable!("it is an answer"),
    }
}

fn called(turn: u64, step: u32, index: usize, id: &str) -> Event {
    let result = ToolResult { call_id: id.into(), name: None, content: Content::text("ours") };
    Event::Called { turn: TurnId(Seq(turn)), step, index, result, sends: Vec::new() }
}

struct World {
    session: SessionState,
    rows: Vec<Message>,
    settled: Vec<u64>,
    left: usize,
}

impl World {
    fn new() -> Self {
        let mut session = SessionState::new("s".parse().unwrap());
        session.know_prompt(Some(super::super::tests::prompt()));
        Self { session, rows: Vec::new(), settled: Vec::new(), left: 0 }
    }

    fn after(&mut self, event: Event) -> Vec<Act> {
        let (session, acts) = self.session.step(event, Time(1), &Rules::default());
        self.session = session;
        for act in &acts {
            match act {
                Act::Append(message) => self.rows.push(message.clone()),
                Act::Settle { seq, .. } => self.settled.push(seq.0),
                Act::Leave { .. } => self.left += 1,
                _ => {}
            }
        }
        assert!(history::violations(&self.rows).is_empty(), "{:?}", self.rows);
        acts
    }

    fn said(&self) -> Vec<String> {
        self.rows.iter().map(|row| format!("{}: {}", row.role(), row.content().plain())).collect()
    }
}

#[test]
fn p9_calls_of_the_client_end_the_turn_after_those_of_the_agent_and_wait_for_their_results() {
    let mut world = World::new();
    world.after(asks(1, "hi"));
    world.after(calls(1, 0, &["ours", "theirs"]));
    assert_eq!(world.session.jobs(), [Job::Call { turn: TurnId(Seq(1)), step: 0, index: 0 }]);
    assert_eq!((world.left, world.settled.len()), (1, 0), "the agent's own call comes first");
    world.after(called(1, 0, 0, "o0"));
    assert_eq!(world.settled, [1]);
    assert_eq!((&world.session.phase, world.session.answered), (&Phase::Idle, Seq(1)));
    assert!(world.session.is_quiet() && world.session.client_calls.is_some());
    assert_eq!(world.said(), ["user: hi"], "an open group is not in the transcript");
    world.after(Event::Loaded { repeatable: vec![] });
    world.after(brings(2, &[("t1", "found")], None));
    assert_eq!(world.said(), ["user: hi", "assistant: ", "tool: ours", "tool: found"]);
    assert_eq!(world.session.jobs(), [Job::Ask { turn: TurnId(Seq(2)), step: 0 }]);
    world.after(answered(2));
    assert_eq!((world.settled.as_slice(), world.session.client_calls.is_none()), ([1, 2].as_slice(), true));
}

#[test]
fn p9_whatever_else_is_said_closes_the_calls_of_the_client_as_not_run() {
    for (event, last) in [
        (asks(2, "never mind"), "user: never mind"),
        (brings(2, &[("t9", "x")], Some("and?")), "user: and?"),
        (brings(2, &[], Some("go on")), "user: go on"),
        (input(2, Kind::Chat(Content::text("a chat"))), "user: a chat"),
    ] {
        let mut world = World::new();
        world.after(asks(1, "hi"));
        world.after(calls(1, 0, &["theirs"]));
        world.after(event);
        let not_run = format!("tool: {LEFT_BEHIND}");
        assert_eq!(world.said(), ["user: hi", "assistant: ", &not_run, last]);
    }
    let mut world = World::new();
    world.after(asks(1, "hi"));
    world.after(calls(1, 0, &["theirs"]));
    world.after(brings(2, &[("t0", "found")], Some("and now?")));
    assert_eq!(world.said()[2..], ["tool: found", "user: and now?"], "results and words in one request");
}

#[test]
fn p9_results_count_only_if_they_are_those_that_are_waited_for() {
    let mut world = World::new();
    world.after(asks(1, "hi"));
    world.after(calls(1, 0, &["theirs", "ours", "theirs"]));
    world.after(called(1, 0, 1, "o1"));
    let calls = world.session.client_calls.clone().unwrap();
    let result = |id: &str| ToolResult { call_id: id.into(), name: None, content: Content::text("r") };
    for (results, why) in [
        (vec![], "the call \"t0\" of theirs has no result"),
        (vec![result("t0")], "the call \"t2\" of theirs has no result"),
        (vec![result("t0"), result("t2"), result("o1")], "no call \"o1\" waits for a result"),
        (vec![result("t0"), result("t2"), result("t2")], "the call \"t2\" has two results"),
    ] {
        assert_eq!(calls.take(&results).unwrap_err(), why);
    }
    assert_eq!(calls.take(&[result("t2"), result("t0")]), Ok(()));
}

#[test]
fn p9_an_order_beside_leaves_the_calls_to_the_client_and_an_end_closes_them() {
    let waiting = || {
        let mut world = World::new();
        world.after(asks(1, "hi"));
        world.after(calls(1, 0, &["theirs"]));
        world
    };
    let mut world = waiting();
    world.after(input(2, Kind::Command(Command::Status)));
    assert!(world.session.client_calls.is_some());
    let successor = "next".parse().unwrap();
    world.after(input(3, Kind::Command(Command::New { successor })));
    assert_eq!((world.rows.len(), world.session.client_calls.is_none()), (3, true));
    let mut world = waiting();
    world.after(Event::Expired { reason: Reason::Idle, noticed: Noticed::Watch });
    assert_eq!((world.rows.len(), world.session.client_calls.is_none()), (3, true));
}

#[test]
fn a_question_that_nobody_can_answer_is_a_no_at_once_that_says_how_to_allow_it() {
    let question = Question::Approval {
        what: "rm -rf x".into(),
        why: "it deletes".into(),
        patterns: vec!["recursive delete".into()],
    };
    let asked = |approver| Event::Asked {
        turn: TurnId(Seq(1)),
        step: 0,
        index: 0,
        question: question.clone(),
        patience: Duration::from_secs(60),
        approver,
    };
    let mut world = World::new();
    world.after(asks(1, "hi"));
    world.after(calls(1, 0, &["ours"]));
    world.after(asked(Approver::Absent));
    let said = world.said();
    assert!(said[2].contains("\\\"recursive delete\\\" to command_allowlist"), "{said:?}");
    assert!(said[2].contains("\"status\": \"blocked\""), "{said:?}");
    let mut world = World::new();
    world.after(asks(1, "hi"));
    world.after(calls(1, 0, &["ours"]));
    world.after(asked(Approver::Present));
    assert_eq!(world.session.jobs(), [Job::Await { turn: TurnId(Seq(1)), step: 0, index: 0 }]);
}

#[test]
fn p31_a_question_of_a_program_is_put_to_the_owners_chat_under_a_code_and_held() {
    let owner = Destination {
        platform: "test".into(),
        account: "bot".into(),
        chat: "owner".into(),
        thread: None,
        reply_to: None,
    };
    let asked = |question| Event::Asked {
        turn: TurnId(Seq(1)),
        step: 0,
        index: 0,
        question,
        patience: Duration::from_secs(60),
        approver: Approver::OwnerChat(owner.clone()),
    };
    let approval =
        Question::Approval { what: "rm -rf x".into(), why: "it deletes".into(), patterns: Vec::new() };
    let mut world = World::new();
    world.after(asks(1, "hi"));
    world.after(calls(1, 0, &["ours"]));
    let acts = world.after(asked(approval));
    let call =
        CallId { session: world.session.id.clone(), turn: TurnId(Seq(1)), step: 0, index: 0, question: 0 };
    let put = acts.iter().find_map(|act| match act {
        Act::Deliver(reply) => Some((reply.destination.clone(), reply.text.clone(), reply.key.clone())),
        _ => None,
    });
    let (place, text, key) = put.expect("the owner is asked");
    assert_eq!(place, owner);
    assert_eq!(Outgoing::asked_by(&key), None, "{key} is a message with a code, and has no buttons");
    assert!(text.contains(&format!("/approve {} to allow it once", call.code())), "{text}");
    assert_eq!(world.session.jobs(), [Job::Await { turn: TurnId(Seq(1)), step: 0, index: 0 }]);

    // No yes or no answers a question in words, so it is not put to another chat.
    let mut world = World::new();
    world.after(asks(1, "hi"));
    world.after(calls(1, 0, &["ours"]));
    let acts = world.after(asked(Question::Clarify { question: "which?".into(), choices: Vec::new() }));
    assert!(!acts.iter().any(|act| matches!(act, Act::Deliver(_))), "{acts:?}");
    assert!(acts.iter().any(|act| matches!(act, Act::Note { name: UNATTENDED, .. })), "{acts:?}");
}

#[test]
fn a_conversation_without_a_name_is_nobodys_until_somebody_names_it() {
    let request = |seq, stateless| {
        let request = Request { content: Content::text("hi"), stateless, ..Request::default() };
        input(seq, Kind::Request(request))
    };
    let mut world = World::new();
    assert!(!world.after(request(1, true)).contains(&Act::Named));
    assert!(world.session.stateless);
    world.after(answered(1));
    assert!(world.after(request(2, false)).contains(&Act::Named));
    assert!(!world.session.stateless);
    let mut world = World::new();
    world.after(request(1, false));
    world.after(answered(1));
    world.after(request(2, true));
    assert!(!world.session.stateless);
}

proptest! {
    #[test]
    fn p9_whatever_happens_no_call_of_a_client_is_lost_or_answered_twice(
        deeds in prop::collection::vec(0_u8..8, 1..40),
    ) {
        let mut world = World::new();
        let (mut seq, mut opened) = (0, 0);
        for deed in deeds {
            let phase = world.session.phase.clone();
            let open = world.session.client_calls.clone();
            let event = match (deed, phase, open) {
                (0..3, Phase::Turn(turn), _) if turn.group.is_none() => {
                    let names: &[&str] = [&["theirs"][..], &["theirs", "ours"], &["ours"]][usize::from(deed)];
                    opened += names.iter().filter(|name| **name == "theirs").count();
                    calls(turn.id.0.0, turn.step, names)
                }
                (_, Phase::Turn(turn), _) if turn.group.is_none() => answered_with(turn.id.0.0, turn.step, &[], 1),
                (_, Phase::Turn(turn), _) => {
                    let Some(group) = &turn.group else { continue };
                    let place = group.slots.iter().position(|slot| matches!(slot, Slot::Open(_)));
                    let Some(index) = place else { continue };
                    let id = group.answer.calls[index].id.clone();
                    called(turn.id.0.0, turn.step, index, &id)
                }
                (0..4, _, Some(calls)) => {
                    seq += 1;
                    let ids: Vec<String> =
                        calls.group.left_to_client().map(|(_, call)| call.id.clone()).collect();
                    let results: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), "r")).collect();
                    brings(seq, &results, None)
                }
                (4, ..) => Event::Loaded { repeatable: vec![] },
                _ => {
                    seq += 1;
                    asks(seq, "words")
                }
            };
            world.after(event); // which checks that no group is open in the transcript
        }
        let open = world.session.client_calls.iter().flat_map(|calls| calls.group.left_to_client()).count();
        let running = match &world.session.phase {
            Phase::Turn(Turn { group: Some(group), .. }) => group.left_to_client().count(),
            _ => 0,
        };
        let closed = world.rows.iter().filter(|row| match &row.body {
            Body::Result(result) => result.call_id.starts_with('t'),
            _ => false,
        });
        prop_assert_eq!(opened, open + running + closed.count());
    }
}
