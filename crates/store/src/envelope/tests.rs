use super::*;
use proptest::prelude::*;

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
    (content(), digests, prop::option::of(".*"), prop::option::of(json_text())).prop_map(
        |(content, (body, thread, implicit_key), system, sampling)| Request {
            content,
            body,
            thread,
            implicit_key,
            system,
            sampling,
        },
    )
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        content().prop_map(Kind::Chat),
        request().prop_map(Kind::Request),
        session().prop_map(|successor| Kind::Command(Command::New { successor })),
        Just(Kind::Command(Command::Status)),
        Just(Kind::Command(Command::Help)),
        text().prop_map(|name| Kind::Command(Command::Unknown { name })),
    ]
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
        Just(FailureKind::TooLong),
        Just(FailureKind::Credentials),
        Just(FailureKind::Refused),
        Just(FailureKind::Broken),
        Just(FailureKind::Parked),
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
    ) {
        let sender = sender.map(|(id, name)| Sender { id, name });
        let key = DedupeKey::stored(&key);
        let input = Input { seq: Seq(seq), at: Time(at), key, kind, reply_to, sender, platform_id };
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
}

#[test]
fn what_nobody_wrote_is_refused_in_words() {
    for text in
        ["", "{}", "[]", "{\"key\":\"k\",\"command\":{\"new\":\"a/b\"}}", "{\"failed\":1,\"kind\":\"x\"}"]
    {
        assert!(super::outcome(text).is_err() && super::input(Seq(1), Time(0), text).is_err(), "{text}");
    }
}
