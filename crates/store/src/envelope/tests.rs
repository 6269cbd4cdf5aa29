use super::*;
use proptest::prelude::*;
use std::sync::Arc;
use throughline_core::chain::Foreign;
use throughline_core::command::{Command, DeferredCommand};
use throughline_core::compression::{Kind as Replaced, Replacement, Upkeep};
use throughline_core::guard::Repeated;
use throughline_core::id::{Generation, RowId, Seq, TurnId};
use throughline_core::input::{
    ClientTools, DedupeKey, Destination, Input, Kind, Request, Root, Sender, Task, Trace,
};
use throughline_core::memory::{Place, Scope};
use throughline_core::message::{Assistant, Body, Content, Message, Part, Reasoning, ToolCall, ToolResult};
use throughline_core::session::{
    Failure, FailureKind, Outcome, Personality, Phase, Preferences, SessionState, ToolProgress,
};
use throughline_core::time::Time;
use throughline_core::tool::{Ask, Elicitation, Grant, Question};
use throughline_core::turn::Turn;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), Just(String::new()), Just("\u{0}json:[1]".to_owned()), "[a-z]{1,8}"]
}

fn json_text() -> impl Strategy<Value = JsonText> {
    prop::sample::select(vec![
        "{}",
        "[1.0, 1e5, 12345678901234567890]",
        "{\"b\": 1, \"a\": 2}",
        "null",
        "\"x\"",
    ])
    .prop_map(JsonText::from_valid)
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
}

fn session() -> impl Strategy<Value = SessionId> {
    "[a-z0-9_]{1,20}".prop_map(|id| id.parse().unwrap())
}

fn content() -> impl Strategy<Value = Content> {
    let part = prop_oneof![
        text().prop_map(Part::Text),
        (text(), prop::option::of(text())).prop_map(|(url, detail)| Part::Image { url, detail }),
        json_text().prop_map(Part::Opaque),
    ];
    prop_oneof![
        Just(Content::Nothing),
        text().prop_map(Content::Text),
        prop::collection::vec(part, 0..4).prop_map(Content::Parts),
        json_text().prop_map(Content::Opaque),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let digests = (prop::option::of(digest()), prop::option::of(digest()), prop::option::of(digest()));
    let tools = (json_text(), texts());
    let tools = prop::option::of(tools.prop_map(|(list, names)| ClientTools { list, names }));
    let result =
        (text(), content()).prop_map(|(call_id, content)| ToolResult { call_id, name: None, content });
    let client = (tools, prop::collection::vec(result, 0..3), any::<bool>());
    let wishes = (prop::option::of(".*"), prop::option::of(json_text()), prop::option::of(task()));
    (content(), digests, wishes, client).prop_map(
        |(content, (body, thread, implicit_key), (system, sampling, task), (tools, results, stateless))| {
            Request { content, body, thread, implicit_key, system, sampling, task, tools, results, stateless }
        },
    )
}

fn task() -> impl Strategy<Value = Task> {
    let toolsets = prop::option::of(texts());
    (session(), any::<u32>(), any::<u32>(), toolsets).prop_map(|(parent, depth, steps_max, toolsets)| Task {
        parent,
        source: "telegram".into(),
        depth,
        steps_max,
        tokens_max: Some(u64::from(depth)),
        toolsets,
    })
}

fn some_trace() -> impl Strategy<Value = Trace> {
    let root = prop::option::of((text(), session()));
    let hops = prop_oneof![Just(0), any::<u32>()];
    (text(), root, hops, prop::option::of(text())).prop_map(|(origin, root, hops, foreign)| Trace {
        origin: origin.into(),
        root: root.map(|(home, session)| Root { home: home.into(), session }),
        hops,
        foreign: foreign.map(Into::into),
    })
}

fn grant() -> impl Strategy<Value = Grant> {
    prop::sample::select(vec![Grant::Once, Grant::Session, Grant::Always])
}

fn some_ask() -> impl Strategy<Value = Ask> {
    let question = prop_oneof![
        (text(), text(), texts()).prop_map(|(what, why, patterns)| Question::Approval {
            what,
            why,
            patterns
        }),
        (text(), texts()).prop_map(|(question, choices)| Question::Clarify { question, choices }),
        (text(), text(), texts(), any::<u32>()).prop_map(|(server, question, choices, number)| {
            Question::Elicitation { asked: Elicitation { server, question, choices }, number }
        }),
    ];
    (question, any::<i64>(), any::<i64>()).prop_map(|(question, asked, until)| Ask {
        question,
        asked: Time(asked),
        until: Time(until),
    })
}

fn count() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), any::<u32>()]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3)
}

/// A turn with some of what [`rest_text`] holds of it.
fn some_turn() -> impl Strategy<Value = Turn> {
    let repeated = (digest(), digest(), any::<u32>()).prop_map(|(calls, results, times)| Repeated {
        calls,
        results,
        times,
    });
    let counts = (count(), prop_oneof![Just(0), any::<u64>()], count());
    let marks = (any::<bool>(), any::<bool>(), any::<bool>());
    (counts, marks, prop::option::of(repeated), text()).prop_map(
        |((first_step, spent, promotions), (exhausted, held, refused), repeated, said)| {
            let turn = Turn::new(TurnId(Seq(1)), Time(0), Vec::new());
            Turn { first_step, spent, exhausted, repeated, held, refused, promotions, said, ..turn }
        },
    )
}

/// A state with some of what [`rest_text`] holds, in a turn or not.
fn some_state() -> impl Strategy<Value = SessionState> {
    let foreign =
        (text(), any::<u32>(), any::<u32>(), any::<i64>()).prop_map(|(heard, period, turns, last)| Foreign {
            heard: heard.into(),
            period,
            turns,
            last: Time(last),
        });
    let foreign = prop_oneof![Just(Foreign::default()), foreign];
    let reviews = (count(), count(), prop_oneof![Just(0), any::<u64>()]);
    let lists = (texts(), texts(), texts());
    let marks = (any::<bool>(), any::<bool>());
    let place = prop::option::of(some_destination());
    (count(), lists, place, foreign, reviews, marks, prop::option::of(some_turn())).prop_map(
        |(failed_step, (allowed, untold, announced), place, foreign, reviews, marks, turn)| {
            let mut state = SessionState::new("s".parse().unwrap());
            state.failed_step = failed_step;
            state.allowed = allowed;
            state.place = place;
            state.foreign = foreign;
            state.untold = untold;
            state.announced = announced.into();
            (state.reviews.turns, state.reviews.steps, state.reviews.count) = reviews;
            (state.finalised, state.stateless) = marks;
            if let Some(turn) = turn {
                state.phase = Phase::Turn(turn);
            }
            state
        },
    )
}

fn some_scope() -> impl Strategy<Value = Scope> {
    let maybe = || prop::option::of(text());
    let chat = prop::option::of(Just("agent:main:telegram:dm:42".parse().unwrap()));
    let ids = (chat, session(), any::<u64>(), prop::option::of(session()));
    let place = (maybe(), maybe(), maybe(), maybe()).prop_map(|(chat, name, kind, thread)| Place {
        chat,
        name,
        kind,
        thread,
    });
    (text(), ids, text(), (maybe(), maybe()), place, (maybe(), maybe())).prop_map(
        |(agent, (chat, session, generation, parent), platform, (user, user_name), place, named)| Scope {
            agent: agent.into(),
            chat,
            session,
            generation: Generation(generation),
            parent,
            platform,
            user,
            user_name,
            place,
            title: named.0,
            document: named.1,
            meant: None,
        },
    )
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        content().prop_map(Kind::Chat),
        request().prop_map(Kind::Request),
        session().prop_map(|successor| Kind::Command(Command::New { successor })),
        command().prop_map(Kind::Command),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        Just(Command::Stop),
        Just(Command::Status),
        Just(Command::Continue),
        Just(Command::Help),
        text().prop_map(|text| Command::Steer { text }),
        text().prop_map(|text| Command::Queue { text }),
        (grant(), any::<bool>()).prop_map(|(grant, all)| Command::Approve { grant, all }),
        (prop::option::of(text()), any::<bool>()).prop_map(|(reason, all)| Command::Deny { reason, all }),
        text().prop_map(|text| Command::Notice { text }),
        text().prop_map(|name| Command::Unknown { name }),
        text().prop_map(|name| Command::Absent { name }),
        Just(Command::Yolo),
        Just(Command::Verbose { level: None }),
        Just(Command::Verbose { level: Some(ToolProgress::New) }),
        deferred().prop_map(Command::Deferred),
    ]
}

fn deferred() -> impl Strategy<Value = DeferredCommand> {
    let maybe = || prop::option::of(text());
    prop_oneof![
        (session(), text()).prop_map(|(successor, title)| DeferredCommand::New { successor, title }),
        any::<u32>().prop_map(|turns| DeferredCommand::Undo { turns }),
        Just(DeferredCommand::Retry),
        (session(), maybe()).prop_map(|(successor, name)| DeferredCommand::Branch { successor, name }),
        (maybe(), any::<bool>())
            .prop_map(|(wanted, everywhere)| DeferredCommand::Resume { wanted, everywhere }),
        maybe().prop_map(|wanted| DeferredCommand::Title { wanted }),
        (session(), text()).prop_map(|(session, text)| DeferredCommand::Background { session, text }),
        (text(), text()).prop_map(|(name, argument)| DeferredCommand::Other { name, argument }),
    ]
}

fn preferences() -> impl Strategy<Value = Preferences> {
    let maybe = || prop::option::of(text());
    let personality = (text(), text()).prop_map(|(name, prompt)| Personality { name, prompt });
    (maybe(), maybe(), prop::option::of(personality), any::<bool>(), any::<bool>()).prop_map(
        |(model, reasoning, personality, yolo, tools)| Preferences {
            model,
            reasoning,
            personality,
            yolo,
            tools: tools.then_some(ToolProgress::All),
        },
    )
}

proptest! {
    #[test]
    fn what_is_preferred_is_read_back(preferences in preferences()) {
        let state = throughline_core::session::Session::copy_with("s".parse().unwrap(), preferences.clone());
        let mut back = SessionState::new("s".parse().unwrap());
        if let Some(text) = rest_text(&state) {
            restore_rest(&mut back, &text).unwrap();
        }
        prop_assert_eq!(back.preferences, preferences);
    }
}

fn some_destination() -> impl Strategy<Value = Destination> {
    (text(), text(), text(), prop::option::of(text()), prop::option::of(text())).prop_map(
        |(platform, account, chat, thread, reply_to)| Destination {
            platform,
            account,
            chat,
            thread,
            reply_to,
        },
    )
}

fn some_outcome() -> impl Strategy<Value = Outcome> {
    let failure = prop_oneof![
        prop::option::of(any::<u32>()).prop_map(|after_seconds| FailureKind::Wait { after_seconds }),
        Just(FailureKind::Unreachable),
        Just(FailureKind::TooLong),
        Just(FailureKind::Credentials),
        Just(FailureKind::Refused),
        Just(FailureKind::Broken),
        Just(FailureKind::Parked),
        Just(FailureKind::Exhausted),
        Just(FailureKind::Stopped),
    ];
    prop_oneof![
        any::<u64>().prop_map(|turn| Outcome::Answered(TurnId(Seq(turn)))),
        (any::<u64>(), failure, text())
            .prop_map(|(turn, kind, message)| Outcome::Failed(TurnId(Seq(turn)), Failure { kind, message })),
        (text(), prop::option::of(session())).prop_map(|(said, successor)| Outcome::Done { said, successor }),
        (session(), any::<u64>()).prop_map(|(session, seq)| Outcome::Moved { session, seq: Seq(seq) }),
    ]
}

fn some_answer() -> impl Strategy<Value = Assistant> {
    let call = (text(), text(), text(), prop::option::of(json_text()))
        .prop_map(|(id, name, arguments, extra)| ToolCall { id, name, arguments, extra });
    let reasoning =
        (
            prop::option::of(text()),
            prop::option::of(text()),
            prop::option::of(json_text()),
            prop::option::of(json_text()),
            prop::option::of(json_text()),
        )
            .prop_map(|(text, content, details, codex_reasoning_items, codex_message_items)| {
                Reasoning { text, content, details, codex_reasoning_items, codex_message_items }
            });
    (content(), prop::collection::vec(call, 0..4), prop::option::of(text()), reasoning)
        .prop_map(|(content, calls, finish, reasoning)| Assistant { content, calls, finish, reasoning })
}

proptest! {
    #[test]
    fn p8_an_input_comes_back_as_it_went_in(
        kind in kind(),
        key in text(),
        reply_to in prop::option::of(some_destination()),
        sender in prop::option::of((text(), prop::option::of(text()))),
        platform_id in prop::option::of(text()),
        seq in any::<u64>(),
        at in any::<i64>(),
        trace in prop_oneof![Just(Trace::default()), some_trace()],
    ) {
        let sender = sender.map(|(id, name)| Sender { id, name });
        let key = DedupeKey::stored(&key);
        let input = Input { seq: Seq(seq), at: Time(at), key, kind, reply_to, sender, platform_id, trace, left: None };
        let text = input_text(&input);
        prop_assert_eq!(super::input(Seq(seq), Time(at), &text), Ok(Arc::new(input)));
    }

    #[test]
    fn p9_an_open_answer_and_its_results_come_back(answer in some_answer(), content in content(), name in prop::option::of(text())) {
        prop_assert_eq!(super::answer(&answer_text(&answer)), Ok(answer));
        let result = ToolResult { call_id: "c".into(), name, content };
        prop_assert_eq!(super::result(&result_text(&result)), Ok(result));
    }

    #[test]
    fn p10_outcomes_and_destinations_come_back(outcome in some_outcome(), destination in some_destination()) {
        prop_assert_eq!(super::outcome(&outcome_text(&outcome)), Ok(outcome));
        prop_assert_eq!(super::destination(&destination_text(&destination)), Ok(destination));
    }

    #[test]
    fn p9_a_question_and_a_grant_come_back(ask in some_ask(), grant in grant()) {
        prop_assert_eq!(super::ask(&ask_text(&ask)), Ok(ask));
        prop_assert_eq!(grant_from(grant_name(grant)), Ok(grant));
    }

    #[test]
    fn a_trace_comes_back_and_a_humans_own_costs_nothing(trace in some_trace()) {
        prop_assert_eq!(super::trace(trace_text(&trace).as_deref()), Ok(trace));
        prop_assert_eq!(trace_text(&Trace::default()), None);
    }

    #[test]
    fn a_scope_comes_back(scope in some_scope(), texts in texts(), numbers in prop::collection::vec(any::<i64>(), 0..9)) {
        prop_assert_eq!(super::scope(&scope_text(&scope)), Ok(scope));
        prop_assert_eq!(super::texts(&texts_text(&texts)), Ok(texts));
        prop_assert_eq!(super::numbers(&numbers_text(numbers.iter().copied())), Ok(numbers));
    }

    #[test]
    fn the_rest_of_a_state_comes_back(state in some_state()) {
        let mut bare = SessionState::new(state.id.clone());
        if let Phase::Turn(turn) = &state.phase {
            bare.phase = Phase::Turn(Turn::new(turn.id, turn.began, Vec::new()));
        }
        if let Some(text) = rest_text(&state) {
            prop_assert_eq!(restore_rest(&mut bare, &text), Ok(()));
        }
        prop_assert_eq!(bare, state);
    }
}

#[test]
fn a_text_of_no_known_form_is_refused() {
    for text in
        ["", "{}", "[]", "{\"key\":\"k\",\"command\":{\"new\":\"a/b\"}}", "{\"failed\":1,\"kind\":\"x\"}"]
    {
        assert!(super::outcome(text).is_err() && super::input(Seq(1), Time(0), text).is_err(), "{text}");
    }
}

#[test]
fn an_error_names_the_field_and_not_what_it_holds() {
    let field = |name: &str| UnreadableColumn::Field(name.into());
    assert_eq!(super::destination("{").unwrap_err(), UnreadableColumn::NotJson);
    let text = r#"{"platform":"p","account":"a"}"#;
    assert_eq!(super::destination(text).unwrap_err(), field("chat"));
    let text = r#"{"platform":"p","account":"a","chat":["secret"]}"#;
    assert_eq!(super::destination(text).unwrap_err(), field("chat"));
    let text = r#"{"key":"k","chat":"hi","reply_to":{"platform":"p"}}"#;
    assert_eq!(super::input(Seq(1), Time(0), text).unwrap_err(), field("reply_to.account"));
    let text = r#"{"key":"k","chat":"hi","trace":{"origin":"o","hops":-1}}"#;
    assert_eq!(super::input(Seq(1), Time(0), text).unwrap_err(), field("trace.hops"));
    let text = r#"{"key":"k","command":{"new":"a/b"}}"#;
    assert_eq!(super::input(Seq(1), Time(0), text).unwrap_err(), field("new"));
    let text = r#"{"key":"k","wish":"secret"}"#;
    assert_eq!(super::input(Seq(1), Time(0), text).unwrap_err().to_string(), "none of its known forms");
}

/// Calls this with every value that a column of the home of the ninth migration holds.
fn each_text(conn: &rusqlite::Connection, sql: &str, mut check: impl FnMut(String)) {
    let mut statement = conn.prepare(sql).unwrap();
    let texts = statement.query_map([], |row| row.get::<_, Option<String>>(0)).unwrap();
    let texts: Vec<String> = texts.filter_map(Result::unwrap).collect();
    assert!(!texts.is_empty(), "{sql}: there is none");
    texts.into_iter().for_each(&mut check);
}

/// A form that is written in another way needs a migration, and a home of its own beside this one.
#[test]
fn p15_what_is_written_is_what_the_program_of_the_ninth_migration_wrote() {
    let conn = rusqlite::Connection::open_in_memory().unwrap();
    conn.execute_batch(include_str!("../../tests/store/home-009.sql")).unwrap();
    let is_same = |sql: &str, again: &dyn Fn(&str) -> String| {
        each_text(&conn, sql, |text| assert_eq!(again(&text), text, "{sql}"));
    };
    is_same("SELECT envelope FROM tl_inbox", &|text| {
        input_text(&super::input(Seq(1), Time(0), text).unwrap())
    });
    is_same("SELECT outcome FROM tl_inbox", &|text| outcome_text(&super::outcome(text).unwrap()));
    is_same("SELECT open FROM tl_step", &|text| answer_text(&super::answer(text).unwrap()));
    is_same("SELECT detail FROM tl_call WHERE state = 0", &|text| {
        grant_name(super::grant_from(text).unwrap()).to_owned()
    });
    is_same("SELECT detail FROM tl_call WHERE state = 1", &|text| ask_text(&super::ask(text).unwrap()));
    is_same("SELECT detail FROM tl_call WHERE state = 2", &|text| result_text(&super::result(text).unwrap()));
    for table in ["tl_outbox", "tl_draft", "tl_review"] {
        is_same(&format!("SELECT destination FROM {table}"), &|text| {
            destination_text(&super::destination(text).unwrap())
        });
    }
    is_same("SELECT trace FROM tl_outbox", &|text| trace_text(&super::trace(Some(text)).unwrap()).unwrap());
    is_same("SELECT rest FROM tl_session", &|text| {
        let mut state = SessionState::new("s".parse().unwrap());
        state.phase = Phase::Turn(Turn::new(TurnId(Seq(1)), Time(0), Vec::new()));
        restore_rest(&mut state, text).unwrap();
        rest_text(&state).unwrap()
    });
    is_same("SELECT upkeep FROM tl_session", &|text| upkeep_text(&super::upkeep(text).unwrap()));
    is_same("SELECT summary FROM tl_compression", &|text| {
        replacement_text(&super::replacement(text).unwrap())
    });
    is_same("SELECT scope FROM tl_retention", &|text| scope_text(&super::scope(text).unwrap()));
    is_same("SELECT said FROM tl_retention", &|text| texts_text(&super::texts(text).unwrap()));
    for column in ["orders FROM tl_compression", "rows FROM tl_review", "rows FROM tl_snapshot"] {
        is_same(&format!("SELECT {column}"), &|text| numbers_text(super::numbers(text).unwrap()));
    }
}

#[test]
fn p15_what_the_first_release_wrote_is_still_read() {
    let text =
        r#"{"key":"k","request":{"content":"hi"},"reply_to":{"platform":"p","account":"a","chat":"c"}}"#;
    let input = super::input(Seq(1), Time(0), text).unwrap();
    assert_eq!(input.trace, Trace::default());
    assert!(input.trace.is_human());
    assert_eq!(input.kind, Kind::Request(Request { content: Content::text("hi"), ..Request::default() }));
    for (text, command) in [
        (r#"{"key":"k","command":"status"}"#, Command::Status),
        (r#"{"key":"k","command":"help"}"#, Command::Help),
        (r#"{"key":"k","command":{"new":"n"}}"#, Command::New { successor: "n".parse().unwrap() }),
        (r#"{"key":"k","command":{"unknown":"stop"}}"#, Command::Unknown { name: "stop".into() }),
    ] {
        assert_eq!(super::input(Seq(1), Time(0), text).unwrap().kind, Kind::Command(command));
    }
}

#[test]
fn a_summary_that_is_ready_comes_back_equal_whatever_it_is_made_of() {
    let json = |text: &str| JsonText::from_valid(text);
    let call = ToolCall {
        id: "c1".into(),
        name: "look".into(),
        arguments: "{\"a\": 1.0".into(),
        extra: Some(json("{\"n\": 1e2}")),
    };
    let said = Assistant {
        content: Content::Nothing,
        calls: vec![call],
        finish: Some("tool_calls".into()),
        reasoning: Reasoning { content: Some(String::new()), ..Reasoning::default() },
    };
    let parts =
        Content::Parts(vec![Part::Text("a".into()), Part::Image { url: "data:x".into(), detail: None }]);
    let bodies = [
        Body::System(Content::text("s")),
        Body::User(parts),
        Body::Assistant(said),
        Body::Result(ToolResult { call_id: "c1".into(), name: None, content: Content::text("ünï") }),
        Body::Other { role: "session_meta".into(), content: Content::Opaque(json("{\"x\": 1.50}")) },
    ];
    let plain = bodies.into_iter().map(|body| Message::new(Time(7), body));
    let odd = Message {
        platform_id: Some("77".into()),
        sent_as: Some("as sent".into()),
        observed: true,
        ..Message::user(Time(-8), Content::text(""))
    };
    for (after, remark) in [(None, None), (Some(RowId(3)), Some("Without \"focus\".".to_owned()))] {
        let replacement = Replacement {
            after,
            cut: RowId(9),
            replaced: 4,
            rows: plain.clone().chain([odd.clone()]).collect(),
            kind: Replaced::Digest,
            before: u64::MAX,
            after_tokens: 12,
            model: String::new(),
            remark,
        };
        assert_eq!(super::replacement(&replacement_text(&replacement)), Ok(replacement));
    }
}

#[test]
fn what_a_session_remembers_comes_back_equal() {
    let full = Upkeep {
        context: 146_000,
        wanted: true,
        operations: 3,
        failures: 2,
        not_before: Time(5),
        unworthy: 9,
        recent: vec![Time(1), Time(2)],
        snapshot: Time(1_779_960_910_000_000),
    };
    for upkeep in [Upkeep::default(), full] {
        assert_eq!(super::upkeep(&upkeep_text(&upkeep)), Ok(upkeep));
    }
}
