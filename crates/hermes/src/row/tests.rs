use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use throughline_core::message::{Content, Part, ToolCall};

/// Rows that the `SessionDB` of Hermes 0.19.0 wrote, one JSON object per row.
const WRITTEN_BY_HERMES: &str = include_str!("hermes-0.19.jsonl");

fn row(line: &str) -> MessageRow {
    let value: Value = serde_json::from_str(line).unwrap();
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    MessageRow {
        role: text("role").unwrap(),
        content: text("content"),
        tool_call_id: text("tool_call_id"),
        tool_calls: text("tool_calls"),
        tool_name: text("tool_name"),
        timestamp: value["timestamp"].as_f64().unwrap(),
        token_count: value["token_count"].as_i64(),
        finish_reason: text("finish_reason"),
        reasoning: text("reasoning"),
        reasoning_content: text("reasoning_content"),
        reasoning_details: text("reasoning_details"),
        codex_reasoning_items: text("codex_reasoning_items"),
        codex_message_items: text("codex_message_items"),
        platform_message_id: text("platform_message_id"),
        api_content: text("api_content"),
        observed: value["observed"] == 1,
    }
}

fn user(content: Option<&str>) -> MessageRow {
    MessageRow { role: "user".into(), content: content.map(str::to_owned), ..MessageRow::default() }
}

fn assistant(tool_calls: &str) -> MessageRow {
    MessageRow { role: "assistant".into(), tool_calls: Some(tool_calls.into()), ..MessageRow::default() }
}

#[test]
fn p15_what_hermes_wrote_comes_out_byte_for_byte() {
    let mut rows = 0;
    for line in WRITTEN_BY_HERMES.lines() {
        let before = row(line);
        let after = encode(&decode(before.clone()));
        assert!((after.timestamp - before.timestamp).abs() < 1e-6, "{line}");
        assert_eq!(MessageRow { timestamp: before.timestamp, ..after }, before);
        rows += 1;
    }
    assert_eq!(rows, 19);
}

#[test]
fn p15_what_hermes_wrote_is_understood() {
    let messages: Vec<_> = WRITTEN_BY_HERMES.lines().map(|line| decode(row(line))).collect();
    let roles: Vec<_> = messages.iter().take(5).map(|message| message.role()).collect();
    assert_eq!(roles, ["session_meta", "system", "user", "user", "user"]);
    assert_eq!(messages[2].platform_id.as_deref(), Some("1001"));
    assert!(messages[3].sent_as.as_ref().unwrap().starts_with("<memory-context>"));
    assert!(messages[4].observed && !messages[3].observed);
    assert_eq!(messages[4].at, Time(1_763_241_420_500_000));
    let image =
        |url: &str, detail: Option<&str>| Part::Image { url: url.into(), detail: detail.map(str::to_owned) };
    let audio = r#"{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}"#;
    assert_eq!(
        *messages[5].content(),
        Content::Parts(vec![
            Part::Text("what is this? é".into()),
            image("data:image/png;base64,iVBORw0KGgo=", Some("auto")),
            image("https://example.org/a.png", None),
            Part::Opaque(JsonText::from_valid(audio)),
        ])
    );
    let [first, second] = messages[9].calls() else { panic!("two calls") };
    assert_eq!((first.id.as_str(), first.name.as_str()), ("call_1", "terminal"));
    assert_eq!(first.arguments, r#"{"command": "ls -la \"ä\"", "n": 1}"#);
    assert_eq!(
        first.extra.as_ref().unwrap().as_str(),
        r#"{"call_id": "call_1", "response_item_id": "fc_call_1"}"#
    );
    assert!(
        second
            .extra
            .as_ref()
            .unwrap()
            .as_str()
            .ends_with(r#""extra_content": {"google": {"thought_signature": "CsQB+/=="}}}"#)
    );
    assert_eq!(messages[12].calls()[0].extra, None);
    let Body::Assistant(last) = &messages[16].body else { panic!("an assistant") };
    assert_eq!(last.reasoning.content.as_deref(), Some("long thought"));
    assert!(
        last.reasoning
            .codex_message_items
            .as_ref()
            .unwrap()
            .as_str()
            .contains("123456789012345678901234567890")
    );
}

#[test]
fn a_part_with_more_to_it_than_we_know_is_kept_whole() {
    for part in [
        r#"{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}"#,
        r#"{"type": "text", "text": "a", "text": "b"}"#,
        r#"{"type": "text", "text": 1}"#,
        r#"{"type": "text"}"#,
        r#"{"type": "image_url", "image_url": {"url": "u", "format": "png"}}"#,
        r#"{"type": "image_url", "image_url": {"url": "u", "detail": 1}}"#,
        r#"{"type": "image_url", "image_url": "u"}"#,
        r#"{"type": "image_url", "image_url": {"url": "u"}, "text": "a"}"#,
        r#"{"type": "video", "text": "a"}"#,
        r#""bare""#,
    ] {
        let column = format!("\0json:[{part}]");
        let message = decode(user(Some(&column)));
        assert_eq!(*message.content(), Content::Parts(vec![Part::Opaque(JsonText::from_valid(part))]));
        assert_eq!(encode(&message).content.unwrap(), column);
    }
}

#[test]
fn calls_in_another_shape_keep_their_text_whole() {
    for (text, id, name, arguments) in [
        (r#"{"name": "old", "arguments": "{}"}"#, "", "old", "{}"),
        (r#"{"type": "custom", "id": "c6", "custom": {"name": "y"}}"#, "c6", "", ""),
        (
            r#"{"id": null, "function": {"name": "n", "arguments": {"a": [1, 2.50]}}}"#,
            "",
            "n",
            r#"{"a": [1, 2.50]}"#,
        ),
        (r#"{"id":"c","type":"function","function":{"name":"n","arguments":"{}"}}"#, "c", "n", "{}"),
        (r#"{"id": "c", "type": "function", "function": {"name": "n", "arguments": "é"}}"#, "c", "n", "é"),
        (
            r#"{"id": "c", "type": "function", "function": {"name": "n", "arguments": ""}, "call_id": "c"}"#,
            "c",
            "n",
            "",
        ),
        (
            r#"{"id": "c", "type": "function", "function": {"name": "n", "arguments": "", "strict": true}}"#,
            "c",
            "n",
            "",
        ),
    ] {
        let column = format!("[{text}]");
        let message = decode(assistant(&column));
        let [call] = message.calls() else { panic!("one call in {text}") };
        assert_eq!((call.id.as_str(), call.name.as_str(), call.arguments.as_str()), (id, name, arguments));
        assert_eq!(call.extra.as_ref().unwrap().as_str(), text);
        assert_eq!(encode(&message).tool_calls.unwrap(), column);
    }
}

#[test]
fn a_call_that_was_changed_is_written_as_it_is_now() {
    let text = r#"{"type": "function", "id": "c", "function": {"name": "n", "arguments": "{}"}, "index": 0}"#;
    let message = decode(assistant(&format!("[{text}]")));
    let mut call = message.calls()[0].clone();
    call.arguments = "{\"a\": 1}".into();
    let written = calls_to_json(&[call.clone()]).unwrap();
    assert_eq!(
        written.as_str(),
        r#"[{"id": "c", "type": "function", "function": {"name": "n", "arguments": "{\"a\": 1}"}, "index": 0}]"#
    );
    let extra = Some(JsonText::from_valid(r#"{"index": 0}"#));
    assert_eq!(calls_from_json(written.as_str()).unwrap(), [ToolCall { extra, ..call }]);
}

#[test]
fn what_cannot_be_decoded_is_taken_as_hermes_takes_it() {
    for text in ["\0json:[1", "\0json:", "\0json", "\0jso"] {
        assert_eq!(*decode(user(Some(text))).content(), Content::text(text));
        assert_eq!(encode(&decode(user(Some(text)))).content.unwrap(), text);
    }
    for calls in ["", "rubbish", "[1]", "{}", "null", "[{]"] {
        assert_eq!(decode(assistant(calls)).calls(), [], "{calls}");
    }
    let broken = MessageRow { reasoning_details: Some("{".into()), ..assistant("[]") };
    let Body::Assistant(said) = decode(broken).body else { panic!("an assistant") };
    assert_eq!(said.reasoning.details, None);
}

#[test]
fn words_that_look_like_the_mark_stay_words() {
    for text in ["\0json:[]", "\0json:{\"a\": 1}", "\0json:\"\\u0000json:[]\"", "\0json:null"] {
        let message = Message::user(Time(0), Content::text(text));
        let row = encode(&message);
        assert!(row.content.as_ref().unwrap().starts_with("\0json:\""));
        assert_eq!(decode(row), message);
    }
}

#[test]
fn python_oddities_do_not_cost_a_tool_group() {
    let half =
        r#"[{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{\"x\": \"\ud83d\"}"}}]"#;
    let message =
        decode(MessageRow { reasoning_details: Some("[NaN, \"\\udc00\"]".into()), ..assistant(half) });
    assert_eq!(message.calls()[0].arguments, "{\"x\": \"\u{fffd}\"}");
    let Body::Assistant(said) = message.body else { panic!("an assistant") };
    assert_eq!(said.reasoning.details.unwrap().as_str(), r#"["NaN", "\ufffd"]"#);
}

#[test]
fn fields_of_either_writer_are_read() {
    let sent = r#"{"role":"user","content":[{"text":"a","type":"text"},{"type":"image_url","image_url":{"url":"u","detail":null}}],"name":"x"}"#;
    let image = Part::Image { url: "u".into(), detail: None };
    assert_eq!(
        message_from_json(sent),
        Ok(Message::user(Time(0), Content::Parts(vec![Part::Text("a".into()), image])))
    );
    for (text, error) in [
        ("[]", NotAMessage::NoObject),
        ("{", NotAMessage::NoObject),
        ("{}", NotAMessage::NoRole),
        (r#"{"role": ""}"#, NotAMessage::NoRole),
        (r#"{"role": 1}"#, NotAMessage::Field("role")),
        (r#"{"role": "assistant", "tool_calls": [1]}"#, NotAMessage::Field("tool_calls")),
        (r#"{"role": "user", "timestamp": "now"}"#, NotAMessage::Field("timestamp")),
    ] {
        assert_eq!(message_from_json(text), Err(error), "{text}");
    }
}

// Every message that can be written down, by the letter of `core::message`.

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        words().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from), object(inner)]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let name = prop_oneof![words(), "call_id|response_item_id|extra_content|name|arguments|text|type"];
    prop::collection::vec((name, inner), 1..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// In the form of Python or of serde_json: neither is re-formatted.
fn text_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = JsonText> {
    (value, any::<bool>()).prop_map(|(value, python)| {
        JsonText::from_valid(if python { json::dumps(&value) } else { value.to_string() })
    })
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "(\\x00json:)?[\\[\\]{}\"a1:, ]{0,6}", "[a-zé😀\\n]{0,5}"]
}

fn content() -> impl Strategy<Value = Content> {
    let unknown = |json: &JsonText| {
        let list = format!("[{json}]");
        content_from_json(&list) == Some(Content::Parts(vec![Part::Opaque(json.clone())]))
    };
    let part = prop_oneof![
        words().prop_map(Part::Text),
        (words(), prop::option::of(words())).prop_map(|(url, detail)| Part::Image { url, detail }),
        text_of(value()).prop_filter("an unknown kind", unknown).prop_map(Part::Opaque),
    ];
    prop_oneof![
        Just(Content::Nothing),
        words().prop_map(Content::Text),
        prop::collection::vec(part, 0..4).prop_map(Content::Parts),
        text_of(object(value())).prop_map(Content::Opaque),
    ]
}

fn call() -> impl Strategy<Value = ToolCall> {
    let beside = object(value()).prop_filter("beside the known", |value| {
        ["id", "type", "function"].iter().all(|known| value.get(known).is_none())
    });
    (words(), words(), words(), prop::option::of(text_of(beside)))
        .prop_map(|(id, name, arguments, extra)| ToolCall { id, name, arguments, extra })
}

fn body() -> impl Strategy<Value = Body> {
    let text = || prop::option::of(words());
    let json = || prop::option::of(text_of(value().prop_filter("something", |value| !value.is_null())));
    let reasoning = (text(), text(), json(), json(), json()).prop_map(
        |(text, content, details, codex_reasoning_items, codex_message_items)| Reasoning {
            text,
            content,
            details,
            codex_reasoning_items,
            codex_message_items,
        },
    );
    prop_oneof![
        content().prop_map(Body::System),
        content().prop_map(Body::User),
        (content(), prop::collection::vec(call(), 0..3), text(), reasoning).prop_map(
            |(content, calls, finish, reasoning)| Body::Assistant(Assistant {
                content,
                calls,
                finish,
                reasoning
            })
        ),
        (words(), text(), content()).prop_map(|(call_id, name, content)| Body::Result(ToolResult {
            call_id,
            name,
            content
        })),
        ("session_meta|developer|function", content())
            .prop_map(|(role, content)| Body::Other { role, content }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let until_2100 = 0..4_102_444_800_000_000i64;
    let sent_as = prop::option::of(words().prop_filter("not empty", |text| !text.is_empty()));
    (until_2100, body(), prop::option::of(words()), sent_as, any::<bool>()).prop_map(
        |(at, body, platform_id, sent_as, observed)| Message {
            at: Time(at),
            body,
            platform_id,
            sent_as,
            observed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn p15_a_row_holds_the_whole_message(message in message()) {
        prop_assert_eq!(decode(encode(&message)), message);
    }

    #[test]
    fn an_envelope_holds_the_whole_message(message in message()) {
        let json = message_to_json(&message);
        prop_assert!(serde_json::from_str::<Value>(json.as_str()).is_ok());
        prop_assert_eq!(message_from_json(json.as_str()), Ok(message));
    }

    #[test]
    fn json_holds_the_whole_content(content in content()) {
        let json = content_to_json(&content);
        prop_assert_eq!(content_from_json(json.as_str()), Some(content));
    }

    #[test]
    fn any_list_of_calls_comes_out_as_it_went_in(calls in prop::collection::vec(text_of(object(value())), 1..4)) {
        let calls: Vec<_> = calls.iter().map(JsonText::as_str).collect();
        let column = format!("[{}]", calls.join(", "));
        let row = encode(&decode(assistant(&column)));
        prop_assert_eq!(row.tool_calls.unwrap(), column);
    }
}

#[test]
fn pythons_own_reader_gets_what_was_meant() {
    // What a Hermes process would see after json.loads, spelled out.
    let call = ToolCall { id: "c".into(), name: "n".into(), arguments: "{\"ä\": 1}".into(), extra: None };
    let written = calls_to_json(&[call]).unwrap();
    let read: Value = serde_json::from_str(written.as_str()).unwrap();
    assert_eq!(
        read,
        json!([{"id": "c", "type": "function", "function": {"name": "n", "arguments": "{\"ä\": 1}"}}])
    );
    assert!(written.as_str().is_ascii());
}
