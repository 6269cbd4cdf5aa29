//! Which messages are taken in, by table.

use super::*;
use crate::input::{Chat, DedupeKey};
use crate::lifecycle::Mode;
use crate::route::Target;
use crate::session::tests::{chat as said, here, request, rules, session};
use crate::session::{Act, BusyInput, Finalisation};

const NOW: Time = Time(1_000_000_000);

fn room() -> Chat {
    Chat {
        key: "agent:main:test:dm:1".parse().expect("a key"),
        platform: "test".into(),
        chat_type: "dm".into(),
        display_name: None,
        origin: None,
    }
}

/// Words of a person in a chat.
fn words() -> Submission {
    Submission {
        target: Target::Chat(room()),
        birth: Birth { chat: Some(room()), source: "test".into(), ..Birth::default() },
        at: NOW,
        key: DedupeKey::of(&["k", "1"]),
        kind: Kind::Chat(Content::text("hi")),
        reply_to: Some(here()),
        sender: None,
        platform_id: None,
        trace: Trace::default(),
        may_be_retry: false,
        can_answer: true,
        gathers: None,
    }
}

fn asked(principal: Option<&str>) -> Submission {
    let Event::Received(input) = request(1) else { unreachable!("it is received") };
    let Kind::Request(asked) = &input.kind else { unreachable!("it is a request") };
    let key = Some(crate::prompt::Digest([1; 32]));
    let kind = Kind::Request(Request { implicit_key: key, ..asked.clone() });
    let birth = Birth { principal: principal.map(str::to_owned), ..Birth::default() };
    Submission { birth, kind, may_be_retry: true, reply_to: None, ..words() }
}

fn born() -> Profile {
    Profile { born: true, source: "test".into(), is_private: true, ..Profile::default() }
}

/// As a judgement is told in a word.
fn told(admission: Admission) -> String {
    match admission {
        Admission::LookUp(what) => {
            format!("look up {what:?}").split([' ', '{', '(']).take(3).collect::<Vec<_>>().join(" ")
        }
        Admission::Refused(why) => format!("refused: {why:?}"),
        Admission::Expires(reason) => format!("expires: {}", reason.as_str()),
        Admission::Silence => "silence".into(),
        Admission::LiftSilence => "lift".into(),
        Admission::Accepted(accepted) => format!("accepted as {}", accepted.seq()),
    }
}

fn judged(session: &SessionState, profile: &Profile, submission: &Submission, known: &Known) -> String {
    judged_as(session, profile, submission, Expected::Anything, known)
}

fn judged_as(
    session: &SessionState,
    profile: &Profile,
    submission: &Submission,
    expected: Expected,
    known: &Known,
) -> String {
    told(admit(session, profile, submission, expected, known, NOW, &rules(BusyInput::Queue)))
}

fn looked_up() -> Known {
    Known { looked_again: true, due: Some(None), reset: Some(None), ..Known::default() }
}

#[test]
fn p1_an_ended_session_takes_nothing_in_unless_it_was_opened_again() {
    let ended = Profile { ended: true, ..born() };
    let first = Known { looked_again: false, ..looked_up() };
    assert_eq!(judged(&session(), &ended, &words(), &first), "look up WhetherOpenedAgain");
    assert_eq!(judged(&session(), &ended, &words(), &looked_up()), "refused: Ended");
    let mut closed = session();
    closed.phase = Phase::Closed(Finalisation::Done);
    assert_eq!(judged(&closed, &born(), &words(), &looked_up()), "refused: Ended");
    let notice = Submission { kind: Kind::Command(Command::Notice { text: "n".into() }), ..words() };
    assert_eq!(
        judged(&closed, &born(), &notice, &looked_up()),
        "accepted as 1",
        "its people can still be told"
    );
}

#[test]
fn p31_a_session_takes_nothing_in_for_another_caller() {
    let owned = |owner: Option<&str>| Profile { principal: owner.map(str::to_owned), ..born() };
    let new = Known { repeats: Some(None), ..looked_up() };
    for (owner, caller, expected) in [
        (Some("a"), Some("a"), "accepted as 1"),
        (Some("a"), Some("b"), "refused: NotYours"),
        (Some("a"), None, "accepted as 1"), // the owner's own key
        (None, Some("b"), "accepted as 1"),
    ] {
        assert_eq!(judged(&session(), &owned(owner), &asked(caller), &new), expected, "{owner:?} {caller:?}");
    }
    let mut one_of_many = asked(Some("b"));
    one_of_many.birth.one_of_many = true;
    assert_eq!(judged(&session(), &owned(None), &one_of_many, &new), "refused: NotYours");
}

#[test]
fn p7_a_retry_leads_to_the_message_that_it_repeats() {
    let known = |repeats| Known { repeats, ..looked_up() };
    assert_eq!(judged(&session(), &born(), &asked(None), &known(None)), "look up Repeated");
    assert_eq!(
        judged(&session(), &born(), &asked(None), &known(Some(Some(Seq(4))))),
        "refused: Repeats(Seq(4))"
    );
    let plain = Submission { may_be_retry: false, ..asked(None) };
    assert_eq!(judged(&session(), &born(), &plain, &known(None)), "accepted as 1");
}

#[test]
fn a_client_that_believes_otherwise_is_told() {
    let tip = Expected::Tip(TurnId(Seq(2)));
    let known = |is_tip| Known { is_tip, repeats: Some(None), ..looked_up() };
    for (expected, profile, known, told) in [
        (Expected::Unborn, born(), known(None), "refused: Unexpected"),
        (Expected::Unborn, Profile::default(), known(None), "accepted as 1"),
        (tip, born(), known(None), "look up Tip"),
        (tip, born(), known(Some(false)), "refused: Unexpected"),
        (tip, born(), known(Some(true)), "accepted as 1"),
    ] {
        let submission = Submission { birth: Birth::default(), ..asked(None) };
        assert_eq!(judged_as(&session(), &profile, &submission, expected, &known), told, "{expected:?}");
    }
}

#[test]
fn p20_a_conversation_whose_time_has_come_ends_before_the_message_is_taken_in() {
    let known = |due| Known { due, ..looked_up() };
    assert_eq!(judged(&session(), &born(), &words(), &known(None)), "look up Due");
    assert_eq!(judged(&session(), &born(), &words(), &known(Some(Some(Reason::Idle)))), "expires: idle");
    let (running, _) = session().step(said(1), NOW, &rules(BusyInput::Queue));
    assert_eq!(judged(&running, &born(), &words(), &known(None)), "accepted as 2", "something goes on in it");
    let order = Submission { kind: Kind::Command(Command::Status), ..words() };
    assert_eq!(judged(&session(), &born(), &order, &known(None)), "accepted as 1", "an order ends nothing");
}

#[test]
fn p4_silence_ends_when_a_person_writes_and_not_when_a_platform_repeats_itself() {
    let halted = |seen| Known { halted: true, seen, ..looked_up() };
    assert_eq!(judged(&session(), &born(), &words(), &halted(None)), "look up Seen");
    assert_eq!(judged(&session(), &born(), &words(), &halted(Some(false))), "lift");
    assert_eq!(judged(&session(), &born(), &words(), &halted(Some(true))), "silence");
    let bot = Submission { trace: Trace { hops: 1, ..Trace::default() }, ..words() };
    assert_eq!(
        judged(&session(), &born(), &bot, &halted(None)),
        "silence",
        "it slept when the others were told"
    );
    let mut silenced = session();
    silenced.halted = true;
    assert_eq!(judged(&silenced, &born(), &bot, &halted(None)), "accepted as 1", "and waits");
}

#[test]
fn p20_the_first_message_after_a_reset_says_so_once_and_knows_what_was_before() {
    let reset =
        Reset { session: "old".parse().expect("an id"), reason: Reason::Idle, at: NOW, had_activity: true };
    let policy = Policy { mode: Mode::Idle, notify: true, ..Policy::default() };
    let unborn = Profile::default();
    let unknown = Known { reset: None, ..looked_up() };
    assert_eq!(judged(&session(), &unborn, &words(), &unknown), "look up Reset");
    let known = Known { reset: Some(Some((reset, policy))), ..looked_up() };
    let rules = rules(BusyInput::Queue);
    let admission = admit(&session(), &unborn, &words(), Expected::Anything, &known, NOW, &rules);
    let Admission::Accepted(accepted) = admission else { panic!("it is accepted") };
    let (_, acts) = accepted.propose(&session(), NOW, &rules).finish(|_| Vec::new());
    let Act::Open(birth) = &acts[0] else { panic!("the session comes first") };
    assert_eq!(birth.predecessor.as_ref().map(SessionId::as_str), Some("old"));
    let announced = acts.iter().filter(|act| matches!(act, Act::Deliver(reply) if reply.key == "s/reset"));
    assert_eq!(announced.count(), 1);
}
