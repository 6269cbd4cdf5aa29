use super::*;
use crate::exchange::AnswerAssembly;
use crate::transcripts;
use proptest::prelude::*;
use throughline_core::Time;
use throughline_core::history::legal;
use throughline_core::message::{Assistant, Body, Content, Part, Reasoning, ToolCall, ToolResult};
use throughline_core::prompt::Prompt;
use throughline_net::{ClientSettings, ServerSentEvent};

fn model(change: impl FnOnce(&mut AnthropicConfig)) -> Anthropic {
    let mut config = AnthropicConfig::new(ANTHROPIC_URL, "claude-sonnet-4-5");
    change(&mut config);
    Anthropic::new(config, Client::new(ClientSettings::default())).unwrap()
}

/// What events are made of.
const WORDS: [&str; 20] = [
    "message",
    "content",
    "content_block",
    "delta",
    "index",
    "type",
    "text",
    "thinking",
    "signature",
    "tool_use",
    "id",
    "name",
    "input",
    "partial_json",
    "usage",
    "input_tokens",
    "stop_reason",
    "error",
    "redacted_thinking",
    "data",
];

fn user(text: &str) -> Message {
    Message::user(Time(0), Content::text(text))
}

fn said(assistant: Assistant) -> Message {
    Message::new(Time(0), Body::Assistant(assistant))
}

fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: "look".into(), arguments: arguments.into(), extra: None }
}

fn result(id: &str, content: Content) -> Message {
    Message::new(Time(0), Body::Result(ToolResult { call_id: id.into(), name: None, content }))
}

fn asked(model: &Anthropic, messages: &[Message]) -> Asked {
    let messages = messages.iter().map(|message| model.encode(message)).collect();
    Asked { prompt: Prompt { messages, ..Prompt::default() }, ..Asked::default() }
}

fn parsed(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn p14_each_kind_of_message_has_its_exact_bytes() {
    let parts = Content::Parts(vec![
        Part::Text("look".into()),
        Part::Text(" ".into()),
        Part::Image { url: "https://x/y.png".into(), detail: Some("low".into()) },
        Part::Image { url: "data:image/png;base64,AAAA".into(), detail: None },
        Part::Opaque(JsonText::from_valid(r#"{"type":"document","cache_control":{},"source":{"a": 1}}"#)),
        Part::Opaque(JsonText::from_valid(r#"{"type":"input_audio"}"#)),
    ]);
    let thoughtful = Assistant {
        content: Content::text("I look."),
        calls: vec![call("toolu:1", "{\"at\": 1}")],
        reasoning: Reasoning {
            details: Some(JsonText::from_valid(
                r#"[{"type": "thinking","thinking":"hm","signature":"sig"},{"type":"thinking","thinking":"unsigned"},{"type":"reasoning.text","text":"other"}]"#,
            )),
            ..Reasoning::default()
        },
        ..Assistant::default()
    };
    let model = model(|_| {});
    for (message, bytes) in [
        (user("hi"), r#"{"role":"user","content":[{"type":"text","text":"hi"}]}"#),
        (user(" "), r#"{"role":"user","content":[{"type":"text","text":"(empty message)"}]}"#),
        (
            Message { sent_as: Some("<m/>hi".into()), ..user("hi") },
            r#"{"role":"user","content":[{"type":"text","text":"<m/>hi"}]}"#,
        ),
        (
            Message::user(Time(0), parts),
            r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"document","source":{"a": 1}},{"type":"text","text":"[a part of kind \"input_audio\", which this model cannot read]"}]}"#,
        ),
        (
            said(thoughtful),
            r#"{"role":"assistant","content":[{"type": "thinking","thinking":"hm","signature":"sig"},{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"look","input":{"at": 1}}]}"#,
        ),
        (
            result("toolu:1", Content::text("seen")),
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"seen"}]}"#,
        ),
        (
            result("t", Content::Nothing),
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"(no output)"}]}"#,
        ),
        (
            result("t", Content::Parts(vec![Part::Text("p".into())])),
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"p"}]}]}"#,
        ),
        (
            said(Assistant { calls: vec![call("t", "{bad")], ..Assistant::default() }),
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"look","input":{"unreadable":"{bad"}}]}"#,
        ),
    ] {
        assert_eq!(&*model.encode(&message).bytes, bytes);
    }
    assert_eq!(&*model.encode_system("be kind").bytes, r#"{"type":"text","text":"be kind"}"#);
}

#[test]
fn thoughts_between_words_go_back_where_they_stood() {
    let details = r#"[{"type":"thinking","thinking":"a","signature":"1"},{"type":"text_here","length":3},{"type":"thinking","thinking":"b","signature":"2"},{"type":"call_here"},{"type":"redacted_thinking","data":"x"}]"#;
    let reasoning = Reasoning { details: Some(JsonText::from_valid(details)), ..Reasoning::default() };
    let speech = |text: &str| {
        let calls = vec![call("c1", "{}"), call("c2", "{}")];
        said(Assistant {
            content: Content::text(text),
            calls,
            reasoning: reasoning.clone(),
            ..Assistant::default()
        })
    };
    let kinds = |message: &Message| {
        let value = parsed(&model(|_| {}).encode(message).bytes);
        let kinds = value["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["type"].as_str().unwrap().to_owned());
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&speech("one")),
        ["thinking", "text", "thinking", "tool_use", "redacted_thinking", "tool_use"]
    );
    // Words that have changed since cannot be divided: then thoughts come first, as is legal.
    assert_eq!(
        kinds(&speech("üx")),
        ["thinking", "text", "thinking", "tool_use", "redacted_thinking", "tool_use"]
    );
    assert_eq!(
        kinds(&speech("xü🦀")),
        ["thinking", "text", "thinking", "tool_use", "redacted_thinking", "text", "tool_use"]
    );
    assert_eq!(
        kinds(&speech("a🦀")),
        ["thinking", "thinking", "redacted_thinking", "text", "tool_use", "tool_use"]
    );
}

#[test]
fn p14_the_body_is_the_segments_joined_with_four_marks() {
    let model = model(|_| {});
    let messages = [
        user("1"),
        user("2"),
        said(Assistant { calls: vec![call("a", "{}"), call("b", "{}")], ..Assistant::default() }),
        result("a", Content::text("ra")),
        result("b", Content::text("rb")),
        user("3"),
        said(Assistant { content: Content::text("yes"), ..Assistant::default() }),
        user("4"),
    ];
    let mut asked = asked(&model, &messages);
    asked.prompt.system = Some(model.encode_system("sys"));
    let tools = r#"[{"type":"function","function":{"name":"look","description":"d","parameters":{"type":"object","properties":{"at": {}}}}},{"type":"function","function":{"name":"bare"}},{"type":"function","function":{"name":"either","parameters":{"anyOf":[],"properties":{}}}},{"type":"web_search_20250305","name":"web_search"}]"#;
    asked.prompt.tools = Some(model.encode_tools(&JsonText::from_valid(tools)));
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let body = model.body(&asked);
    assert_eq!(
        body,
        format!(
            "{{{}{}{}{}}}",
            r#""model":"claude-sonnet-4-5","tools":[{"name":"look","description":"d","input_schema":{"type":"object","properties":{"at": {}}}},{"name":"bare","input_schema":{"type":"object","properties":{}}},{"name":"either","input_schema":{"type":"object","properties":{}}},{"type":"web_search_20250305","name":"web_search"MARK}],"#
                .replace("MARK", mark),
            r#""system":[{"type":"text","text":"sys"MARK}],"#.replace("MARK", mark),
            r#""messages":[{"role":"user","content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":{}},{"type":"tool_use","id":"b","name":"look","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"ra"},{"type":"tool_result","tool_use_id":"b","content":"rb"},{"type":"text","text":"3"MARK}]},{"role":"assistant","content":[{"type":"text","text":"yes"}]},{"role":"user","content":[{"type":"text","text":"4"MARK}]}],"#
                .replace("MARK", mark),
            r#""stream":true,"max_tokens":32000"#
        )
    );
    let unmarked = self::model(|config| config.cache = None);
    assert!(!unmarked.body(&asked).contains("cache_control"));
    let hour = self::model(|config| config.cache = Some(CacheLife::OneHour));
    assert_eq!(hour.body(&asked).matches(r#""ttl":"1h""#).count(), 4);
}

#[test]
fn a_cut_view_still_begins_with_the_user() {
    let model = model(|_| {});
    let answer = said(Assistant { content: Content::text("so"), ..Assistant::default() });
    let body = parsed(&model.body(&asked(&model, &[answer])));
    assert_eq!(body["messages"][0]["role"], "user");
    assert_eq!(body["messages"][1]["role"], "assistant");
}

#[test]
fn of_two_joined_answers_only_the_first_keeps_its_thoughts() {
    let thoughtful = |text: &str| {
        let details = JsonText::from_valid(r#"[{"type":"thinking","thinking":"t","signature":"s"}]"#);
        let reasoning = Reasoning { details: Some(details), ..Reasoning::default() };
        said(Assistant { content: Content::text(text), reasoning, ..Assistant::default() })
    };
    let model = model(|_| {});
    let body =
        parsed(&model.body(&asked(&model, &[user("q"), thoughtful("one"), thoughtful("two thinking")])));
    let kinds: Vec<_> =
        body["messages"][1]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["thinking", "text", "text"]);
}

#[test]
fn of_a_clients_wishes_those_with_a_meaning_here_are_translated() {
    let wished = |model: &Anthropic, wishes: &str, with_tools: bool| {
        let mut asked = asked(model, &[user("hi")]);
        asked.prompt.tools = with_tools.then(|| {
            model.encode_tools(&JsonText::from_valid(r#"[{"type":"function","function":{"name":"t"}}]"#))
        });
        asked.sampling = Some(JsonText::from_valid(wishes));
        let mut body = parsed(&model.body(&asked));
        body.as_object_mut()
            .unwrap()
            .retain(|name, _| !matches!(name.as_str(), "model" | "messages" | "tools" | "stream"));
        body
    };
    let old = model(|config| config.max_tokens = 10);
    for (wishes, with_tools, expected) in [
        (
            r#"{"temperature":1.7,"top_p":0.5,"n":2,"seed":3}"#,
            false,
            json!({"temperature": 1, "max_tokens": 10}),
        ),
        (r#"{"top_p":0.5,"top_k":4}"#, false, json!({"top_p": 0.5, "top_k": 4, "max_tokens": 10})),
        (r#"{"stop":"END","max_tokens":7}"#, false, json!({"stop_sequences": ["END"], "max_tokens": 7})),
        (
            r#"{"stop":["a"," "],"max_completion_tokens":8,"max_tokens":-1}"#,
            false,
            json!({"stop_sequences": ["a"], "max_tokens": 8}),
        ),
        (r#"{"tool_choice":"required"}"#, false, json!({"max_tokens": 10})),
        (r#"{"tool_choice":"required"}"#, true, json!({"tool_choice": {"type": "any"}, "max_tokens": 10})),
        (r#"{"tool_choice":"none"}"#, true, json!({"tool_choice": {"type": "none"}, "max_tokens": 10})),
        (
            r#"{"tool_choice":{"type":"function","function":{"name":"t"}},"parallel_tool_calls":false}"#,
            true,
            json!({"tool_choice": {"type": "tool", "name": "t", "disable_parallel_tool_use": true}, "max_tokens": 10}),
        ),
        (r#"{"parallel_tool_calls":true,"tool_choice":null}"#, true, json!({"max_tokens": 10})),
    ] {
        assert_eq!(wished(&old, wishes, with_tools), expected, "{wishes}");
    }
    let new = Anthropic::new(
        AnthropicConfig::new(ANTHROPIC_URL, "claude-opus-4-8"),
        Client::new(ClientSettings::default()),
    )
    .unwrap();
    assert_eq!(wished(&new, r#"{"temperature":0.5}"#, false), json!({"max_tokens": 32000}));
    let extra = model(|config| {
        config.extra_body =
            Some(JsonText::from_valid(r#"{"thinking":{"type":"adaptive"},"max_tokens":99,"stream":false}"#));
    });
    assert_eq!(wished(&extra, "{}", false), json!({"thinking": {"type": "adaptive"}, "max_tokens": 99}));
}

#[test]
fn the_settings_follow_the_model() {
    for (name, max_tokens, sampling) in [
        ("claude-3-opus-20240229", 4096, true),
        ("claude-3-5-haiku-latest", 8192, true),
        ("claude-sonnet-4-20250514", 32_000, true),
        ("claude-opus-4.6", 32_000, true),
        ("claude-opus-4-7", 32_000, false),
        ("MiniMax-M2", 32_000, true),
    ] {
        let config = AnthropicConfig::new(ANTHROPIC_URL, name);
        assert_eq!((config.max_tokens, config.sampling), (max_tokens, sampling), "{name}");
    }
}

/// Every call is answered by the results that open the very next message, as the provider demands.
fn adjacency(messages: &[Value]) {
    for (index, message) in messages.iter().enumerate() {
        let expected = if index % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(message["role"], expected, "the sides take turns: {messages:?}");
        let blocks = message["content"].as_array().unwrap();
        assert!(!blocks.is_empty());
        let ids = |kind: &str, name: &str, blocks: &[Value]| {
            let found = blocks.iter().filter(|block| block["type"] == kind);
            found.map(|block| block[name].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for block in blocks.iter().filter(|block| block["type"] == "text") {
            assert!(!block["text"].as_str().unwrap().trim().is_empty(), "a blank text is refused");
        }
        let calls = ids("tool_use", "id", blocks);
        if !calls.is_empty() {
            let next = messages.get(index + 1).expect("a call is never last")["content"].as_array().unwrap();
            let results = ids("tool_result", "tool_use_id", &next[..calls.len().min(next.len())]);
            assert_eq!(results, calls, "results follow their calls, first and in order");
        }
    }
}

proptest! {
    #[test]
    fn whatever_a_server_sends_it_is_an_answer_or_an_error(chunks in prop::collection::vec(transcripts::rubbish(&WORDS), 0..8)) {
        let mut draft = AnthropicDraft::default();
        for chunk in chunks {
            let document: Value = serde_json::from_str(&chunk).unwrap();
            let _ = draft.whole(&document, &|_| {});
            for kind in ["message_start", "content_block_start", "content_block_delta", "message_delta"] {
                let mut event = document.clone();
                if let Some(event) = event.as_object_mut() {
                    event.insert("type".into(), kind.into());
                }
                let _ = draft.event(&ServerSentEvent { name: Some(kind.into()), data: event.to_string() }, &|_| {});
            }
        }
        if let Ok(answer) = draft.finish("m") {
            parsed(&model(|_| {}).encode(&Message::new(Time(0), Body::Assistant(answer.said))).bytes);
        }
    }

    #[test]
    fn p14_the_same_message_always_gives_the_same_bytes(message in transcripts::message()) {
        let model = model(|_| {});
        let segment = model.encode(&message);
        prop_assert_eq!(&segment, &model.encode(&message.clone()));
        parsed(&segment.bytes);
        prop_assert!(encode::blocks(&segment.bytes, Side::of(segment.role)).is_some());
        prop_assert!(!segment.bytes.contains("cache_control\":"));
    }

    #[test]
    fn p14_whatever_is_stored_results_stand_next_to_their_calls(transcript in transcripts::transcript()) {
        let model = model(|_| {});
        let view: Vec<Message> = legal(&transcript).into_iter().map(|message| message.into_owned()).collect();
        let body = model.body(&asked(&model, &view));
        let value = parsed(&body);
        adjacency(value["messages"].as_array().unwrap());
        prop_assert!(body.matches("\"cache_control\":").count() <= 2);
    }
}

#[test]
fn p31_an_answer_of_many_blocks_costs_what_it_should() {
    throughline_complexity::assert_linear_in_count("anthropic::answer::Draft", |count| {
        let event = |data: Value| ServerSentEvent { name: None, data: data.to_string() };
        let open = |index| {
            event(
                json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}),
            )
        };
        let piece =
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}});
        let events: Vec<_> = (0..count).map(open).chain(vec![event(piece); count]).collect();
        move || {
            let mut draft = AnthropicDraft::default();
            events.iter().for_each(|event| _ = draft.event(event, &|_| {}));
            let _ = draft.finish("m");
        }
    });
}

#[test]
fn p31_a_hundred_thousand_calls_of_one_id_cost_what_they_should() {
    throughline_complexity::assert_linear_in_count("anthropic::distinct_ids::told", |count| {
        let call = json!({"type": "tool_use", "id": "same", "name": "f", "input": {}});
        let bytes = encode::whole(Side::Assistant, &vec![call.to_string(); count].join(","));
        let segments = [Segment { role: SegmentRole::Assistant, bytes: bytes.into() }];
        move || _ = distinct_ids::told(&segments).len()
    });
}
