//! When a review falls due, by table; how it ends; what it is asked and must not write.

use super::*;
use crate::Seq;
use crate::chain::Shared;
use crate::input::{Kind, Request, Task};
use crate::message::{Assistant, Content};
use crate::session::tests::{
    answered, answered_with, called, chat, failed, here, input as received, job, new, rules, session, word,
};
use crate::session::{BusyInput, Event};
use crate::turn::Answer;
use std::sync::Arc;

fn looking_back(turns: u32, steps: u32) -> Rules {
    Rules { review: Intervals { turns, steps }, ..rules(BusyInput::Queue) }
}

fn calling(turn: u64, step: u32, tool: &str) -> Event {
    let Event::Answered { turn, step, mut answer, prompt, .. } = answered_with(turn, step, &["1"], 1) else {
        unreachable!("it is an answer")
    };
    answer.said.calls[0].name = tool.into();
    Event::Answered { turn, step, answer, prompt, full: false }
}

fn reviewed(number: u64, told: &[&str]) -> Event {
    let told: Vec<String> = told.iter().map(|line| (*line).to_owned()).collect();
    let report = Report { changes: told.clone(), told, asked: 1, ..Report::default() };
    Event::Reviewed { number, result: Ok(report) }
}

fn fell_through(number: u64) -> Event {
    Event::Reviewed { number, result: Err("the model is out of order".into()) }
}

/// What each event writes about reviews, and which of them should run then.
fn played(rules: &Rules, events: Vec<Event>) -> Vec<(String, String)> {
    let mut session = session();
    let mut seen = Vec::new();
    for (at, event) in events.into_iter().enumerate() {
        let (next, acts) = session.step(event, Time(at as i64), rules);
        session = next;
        let is_ours = |act: &&Act| match act {
            Act::Review(_) | Act::Reviewed { .. } => true,
            Act::Deliver(reply) => reply.key.contains("/review-"),
            Act::Note { name, .. } => name.starts_with("review") || *name == "late_result_dropped",
            _ => false,
        };
        let acts: Vec<String> = acts.iter().filter(is_ours).map(word).collect();
        let jobs: Vec<String> =
            session.jobs().iter().filter(|job| matches!(job, Job::Review { .. })).map(job).collect();
        seen.push((acts.join(", "), jobs.join(", ")));
    }
    seen
}

fn last(seen: &[(String, String)]) -> (&str, &str) {
    let (acts, jobs) = seen.last().expect("something was played");
    (acts, jobs)
}

#[test]
fn p22_a_review_falls_due_with_the_answer_that_completes_the_turn() {
    let turns = |count: u64| (1..=count).flat_map(|turn| [chat(turn), answered(turn)]).collect::<Vec<_>>();
    for (intervals, events, acts) in [
        ((3, 0), turns(2), ""),
        ((3, 0), turns(3), "review 1 of memory"),
        ((3, 0), turns(4), ""),
        ((3, 0), turns(6), "review 2 of memory"),
        ((0, 0), turns(9), ""),
        // The reply is what completes a turn: not the calls before it, and not a failure.
        ((1, 0), vec![chat(1), calling(1, 0, "look")], ""),
        ((1, 0), vec![chat(1), failed(1)], ""),
        ((1, 0), vec![chat(1), failed(1), chat(2), answered(2)], "review 1 of memory"),
        // The agent looked after its memory itself.
        (
            (2, 0),
            vec![
                chat(1),
                calling(1, 0, "memory"),
                called(1, 0, 0),
                answered_with(1, 1, &[], 1),
                chat(2),
                answered(2),
            ],
            "",
        ),
        (
            (2, 0),
            vec![
                chat(1),
                answered(1),
                chat(2),
                calling(2, 0, "memory"),
                called(2, 0, 0),
                answered_with(2, 1, &[], 1),
            ],
            "",
        ),
        // Skills count steps with calls.
        ((0, 2), turns(5), ""),
        (
            (0, 2),
            vec![
                chat(1),
                calling(1, 0, "look"),
                called(1, 0, 0),
                calling(1, 1, "look"),
                called(1, 1, 0),
                answered_with(1, 2, &[], 1),
            ],
            "review 1 of skills",
        ),
        (
            (0, 2),
            vec![
                chat(1),
                calling(1, 0, "look"),
                called(1, 0, 0),
                calling(1, 1, "skill_manage"),
                called(1, 1, 0),
                answered_with(1, 2, &[], 1),
            ],
            "",
        ),
        (
            (1, 1),
            vec![chat(1), calling(1, 0, "look"), called(1, 0, 0), answered_with(1, 1, &[], 1)],
            "review 1 of combined",
        ),
    ] {
        let shown = format!("{intervals:?} {events:?}");
        let seen = played(&looking_back(intervals.0, intervals.1), events);
        assert_eq!(last(&seen).0, acts, "{shown}");
    }
}

#[test]
fn an_empty_reply_is_none() {
    let Event::Answered { turn, step, prompt, .. } = answered(1) else { unreachable!("it is an answer") };
    let said = Assistant { content: Content::text(" \n"), ..Assistant::default() };
    let answer = Answer { said, ..Answer::default() };
    let events = vec![chat(1), Event::Answered { turn, step, answer, prompt, full: false }];
    assert_eq!(last(&played(&looking_back(1, 0), events)), ("", ""));
}

#[test]
fn p22_other_agents_and_tasks_are_not_looked_back_at() {
    let Event::Received(input) = chat(1) else { unreachable!("it is an input") };
    let mut of_an_agent = crate::input::Input::clone(&input);
    of_an_agent.trace = Trace { origin: "k".into(), hops: 1, ..Trace::default() };
    let parent = "p".parse().expect("plain id");
    let (source, depth, steps_max, tokens_max, toolsets) = ("test".to_owned(), 1, 9, None, None);
    let task = Some(Task { parent, source, depth, steps_max, tokens_max, toolsets });
    let of_a_task = Request { content: Content::text("do it"), task, ..Request::default() };
    let granted = Event::Shared { seq: Seq(1), shared: Shared::Granted };
    let from_an_agent = vec![Event::Received(Arc::new(of_an_agent)), granted, answered(1)];
    for events in [from_an_agent, vec![received(1, Kind::Request(of_a_task)), answered(1)]] {
        assert_eq!(last(&played(&looking_back(1, 0), events)), ("", ""));
    }
}

#[test]
fn p22_a_review_is_over_once() {
    for (events, acts, jobs) in [
        (vec![], "review 1 of memory", "review 1.0"),
        (vec![reviewed(1, &[])], "review 1 is done", ""),
        (vec![reviewed(1, &["Memory updated"])], "review 1 is done, deliver s/review-1", ""),
        (vec![reviewed(1, &["Memory updated"]), reviewed(1, &["Memory updated"])], "late_result_dropped", ""),
        (vec![reviewed(2, &[])], "late_result_dropped", "review 1.0"),
        (vec![fell_through(1)], "review 1 of memory, review_failed", "review 1.1"),
        (vec![fell_through(1), reviewed(1, &[])], "review 1 is done", ""),
        (vec![fell_through(1), fell_through(1), fell_through(1)], "review_parked, review 1 is set aside", ""),
        // One at a time, in order.
        (vec![chat(2), answered(2)], "review 2 of memory", "review 1.0"),
        (vec![chat(2), answered(2), reviewed(1, &[])], "review 1 is done", "review 2.0"),
        // Neither the end of the session nor a turn that runs is in its way.
        (vec![new(2)], "", "review 1.0"),
        (vec![chat(2)], "", "review 1.0"),
        // The operator's silence is, until it is lifted; a start begins it again.
        (vec![Event::Halted], "", ""),
        (vec![Event::Halted, Event::Released], "", "review 1.0"),
        (vec![Event::Loaded { repeatable: vec![] }], "review 1 of memory", "review 1.0"),
    ] {
        let shown = format!("{events:?}");
        let events = [chat(1), answered(1)].into_iter().chain(events).collect();
        assert_eq!(last(&played(&looking_back(1, 0), events)), (acts, jobs), "{shown}");
    }
}

#[test]
fn one_that_always_ends_the_process_is_set_aside() {
    let starts = (0..=LOST_MAX).map(|_| Event::Loaded { repeatable: vec![] });
    let events = [chat(1), answered(1)].into_iter().chain(starts).collect();
    assert_eq!(last(&played(&looking_back(1, 0), events)), ("review_parked, review 1 is set aside", ""));
}

#[test]
fn a_conversation_from_before_goes_on_counting() {
    let mut session = session();
    session.reviews.prior = Some(29);
    let (session, _) = session.step(Event::Loaded { repeatable: vec![] }, Time(0), &looking_back(10, 10));
    assert_eq!((session.reviews.turns, session.reviews.prior), (9, None));
}

#[test]
fn a_review_does_not_hold_the_end_of_a_conversation_up() {
    let (session, _) = session().step(chat(1), Time(0), &looking_back(1, 0));
    let (session, _) = session.step(answered(1), Time(0), &looking_back(1, 0));
    assert!(session.may_expire() && !session.is_quiet());
}

#[test]
fn what_is_told_is_one_line_in_which_nothing_is_said_twice() {
    let told = ["Memory updated".to_owned(), "Skill 'x' created".into(), "Memory updated".into()];
    assert_eq!(notice(&told), "💾 Self-improvement review: Memory updated · Skill 'x' created");
}

#[test]
fn p23_from_nine_tenths_on_the_review_is_asked_to_consolidate() {
    for (chars, asked) in [(1_958, false), (1_980, false), (2_002, true), (2_200, true)] {
        let entries = vec![("User likes tea".to_owned(), 14), ("Long one".to_owned(), chars - 17)];
        let fill = Fill { target: "memory".into(), chars, chars_max: 2_200, entries };
        let text = prompt(Subject::Memory, &[fill]);
        assert_eq!(text.contains("- 14 characters: User likes tea"), asked, "{chars}");
        assert_eq!(text.contains("Consolidate"), asked, "{chars}");
    }
    assert!(!prompt(Subject::Skills, &[]).contains("memory tool, save"));
    for subject in Subject::ALL {
        assert!(prompt(subject, &[]).contains("missing messages"));
        assert_eq!(Subject::named(subject.as_str()), Some(subject));
    }
}

#[test]
fn p22_claims_about_missing_messages_and_other_selves_are_refused() {
    for claim in [
        "Some earlier messages in this conversation are missing.",
        "Context was lost after a restart",
        "The conversation history was truncated",
        "Previous context is unavailable to the assistant",
        "I have no memory of previous sessions.",
        "The agent sometimes forgets what was agreed.",
        "Assistant cannot recall conversations from before June",
        "The assistant's memory was reset in May",
        "I suffer from amnesia",
        "Another instance of the assistant talks to the user, too",
        "There may be parallel selves answering.",
        "User speaks with multiple instances of this agent at once",
        "Name is Ana.\nI’ve lost messages before, so ask again.",
        "My sessions have gaps",
    ] {
        assert!(false_claim(claim).is_some(), "{claim}");
    }
    for fact in [
        "User often forgets to run the tests",
        "User's queue loses messages when the broker restarts",
        "User runs multiple instances of nginx",
        "User wants the agent never to forget the unit tests",
        "Parallel tests are off in CI: they are flaky",
        "The user lost his keys in Rome",
        "User prefers short messages. Deploys on Fridays are missing a rollback.",
        "Project: context menus in the editor; missing icons are tracked in issue 12",
        "Name: Ana; remembers birthdays",
    ] {
        assert_eq!(false_claim(fact), None, "{fact}");
    }
}

#[test]
fn keys_of_calls_stay_the_same() {
    let mut session = session();
    for event in [chat(1), answered(1)] {
        session = session.step(event, Time(0), &looking_back(1, 0)).0;
    }
    let review = &session.reviews.pending[0];
    assert_eq!(review.call_key(&session.id, 2, 0), "s/review-1/2/0");
    assert_eq!(review.place, Some(here()));
}
