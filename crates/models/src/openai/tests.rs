use super::*;
use crate::exchange::AnswerAssembly;
use crate::transcripts;
use proptest::prelude::*;
use serde_json::{Value, json};
use throughline_core::Time;
use throughline_core::message::{Assistant, Body, Content, Part, Reasoning, ToolCall, ToolResult};
use throughline_core::prompt::Prompt;
use throughline_net::{ClientSettings, ServerSentEvent};

fn model(change: impl FnOnce(&mut OpenAiConfig)) -> OpenAi {
    let mut config = OpenAiConfig::new("http://127.0.0.1:1/v1", "m");
    change(&mut config);
    OpenAi::new(config, Client::new(ClientSettings::default())).unwrap()
}

/// What chunks are made of.
const WORDS: [&str; 22] = [
    "choices",
    "0",
    "delta",
    "message",
    "content",
    "tool_calls",
    "index",
    "id",
    "function",
    "name",
    "arguments",
    "error",
    "usage",
    "prompt_tokens",
    "prompt_tokens_details",
    "cached_tokens",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "type",
    "text",
    "finish_reason",
];

fn user(text: &str) -> Message {
    Message::user(Time(0), Content::text(text))
}

fn asked(model: &OpenAi, messages: &[Message]) -> Asked {
    let messages = messages.iter().map(|message| model.encode(message)).collect();
    Asked { prompt: Prompt { messages, ..Prompt::default() }, ..Asked::default() }
}

fn parsed(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn p14_each_kind_of_message_has_its_exact_bytes() {
    let said = |assistant| Message::new(Time(0), Body::Assistant(assistant));
    let call = ToolCall {
        id: "c1".into(),
        name: "look".into(),
        arguments: "{\"at\": \"ü\"}".into(),
        extra: Some(JsonText::from_valid("{\"extra_content\": {\"sig\":\"x\"},\"index\":3}")),
    };
    let reasoning = Reasoning {
        text: Some("hm".into()),
        content: Some("hm".into()),
        details: Some(JsonText::from_valid("[{\"type\": \"reasoning.text\",\"text\":\"hm\"}]")),
        ..Reasoning::default()
    };
    let result =
        ToolResult { call_id: "c1".into(), name: Some("look".into()), content: Content::text("seen") };
    let parts = Content::Parts(vec![
        Part::Text("what is this".into()),
        Part::Image { url: "https://x/y.png".into(), detail: Some("low".into()) },
        Part::Opaque(JsonText::from_valid("{\"type\": \"input_audio\"}")),
    ]);
    let replaced = Message { sent_as: Some("<memory/> hi".into()), ..user("hi") };
    let model = model(|_| {});
    for (message, bytes) in [
        (user("a \"b\"\n"), r#"{"role":"user","content":"a \"b\"\n"}"#),
        (replaced, r#"{"role":"user","content":"<memory/> hi"}"#),
        (Message::user(Time(0), Content::Nothing), r#"{"role":"user","content":""}"#),
        (
            Message::user(Time(0), parts),
            r#"{"role":"user","content":[{"type":"text","text":"what is this"},{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}},{"type": "input_audio"}]}"#,
        ),
        (
            Message::user(Time(0), Content::Opaque(JsonText::from_valid("{\"a\":1}"))),
            r#"{"role":"user","content":"{\"a\":1}"}"#,
        ),
        (Message::new(Time(0), Body::System(Content::text("s"))), r#"{"role":"system","content":"s"}"#),
        (
            said(Assistant { content: Content::text("yes"), ..Assistant::default() }),
            r#"{"role":"assistant","content":"yes"}"#,
        ),
        (
            said(Assistant { calls: vec![call], reasoning, ..Assistant::default() }),
            r#"{"role":"assistant","reasoning_content":"hm","reasoning_details":[{"type": "reasoning.text","text":"hm"}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"at\": \"ü\"}"},"extra_content":{"sig":"x"}}],"content":null}"#,
        ),
        (
            Message::new(Time(0), Body::Result(result)),
            r#"{"role":"tool","tool_call_id":"c1","content":"seen"}"#,
        ),
    ] {
        assert_eq!(&*model.encode(&message).bytes, bytes);
    }
    assert_eq!(&*model.encode_system("be kind").bytes, r#"{"role":"system","content":"be kind"}"#);
}

#[test]
fn thoughts_go_back_as_each_server_wants_them() {
    let thought = |text: Option<&str>, content: Option<&str>, details: Option<&str>| {
        let reasoning = Reasoning {
            text: text.map(str::to_owned),
            content: content.map(str::to_owned),
            details: details.map(JsonText::from_valid),
            ..Reasoning::default()
        };
        Message::new(
            Time(0),
            Body::Assistant(Assistant { content: Content::text("a"), reasoning, ..Assistant::default() }),
        )
    };
    let own = r#"[{"type":"reasoning.text","text":"d"}]"#;
    let foreign = r#"[{"type":"thinking","thinking":"t","signature":"s"}]"#;
    for (way, message, expected) in [
        (
            ReasoningReturn::AsStored,
            thought(Some("t"), Some("c"), Some(own)),
            json!({"reasoning_content": "c", "reasoning_details": [{"type": "reasoning.text", "text": "d"}]}),
        ),
        (ReasoningReturn::AsStored, thought(Some("t"), None, Some(foreign)), json!({})),
        (
            ReasoningReturn::Details,
            thought(Some("t"), Some("c"), Some(own)),
            json!({"reasoning_details": [{"type": "reasoning.text", "text": "d"}]}),
        ),
        (ReasoningReturn::Never, thought(Some("t"), Some("c"), Some(own)), json!({})),
        (ReasoningReturn::Always, thought(Some("t"), None, Some(own)), json!({"reasoning_content": "t"})),
        (ReasoningReturn::Always, thought(None, Some(""), None), json!({"reasoning_content": " "})),
    ] {
        let bytes = model(|config| config.reasoning = way).encode(&message).bytes;
        let mut sent = parsed(&bytes);
        sent.as_object_mut().unwrap().retain(|name, _| name.starts_with("reasoning"));
        assert_eq!(sent, expected, "{way:?}");
    }
    for (url, way) in [
        ("https://api.openai.com/v1", ReasoningReturn::Never),
        ("https://me.openai.azure.com/openai/v1", ReasoningReturn::Never),
        ("https://openrouter.ai/api/v1", ReasoningReturn::Details),
        ("https://api.moonshot.ai/v1", ReasoningReturn::Always),
        ("https://notmoonshot.ai/v1", ReasoningReturn::AsStored),
        ("http://127.0.0.1:11434/v1", ReasoningReturn::AsStored),
        ("rubbish", ReasoningReturn::AsStored),
    ] {
        assert_eq!(ReasoningReturn::usual(url), way, "{url}");
    }
}

#[test]
fn p14_the_body_is_the_segments_joined() {
    let model = model(|_| {});
    let mut asked = asked(&model, &[user("one"), user("two")]);
    asked.prompt.system = Some(model.encode_system("sys"));
    asked.prompt.tools = Some(model.encode_tools(&JsonText::from_valid("[{\"type\": \"function\"}]")));
    assert_eq!(
        model.body(&asked),
        r#"{"model":"m","messages":[{"role":"system","content":"sys"},{"role":"user","content":"one"},{"role":"user","content":"two"}],"tools":[{"type": "function"}],"stream":true,"stream_options":{"include_usage":true}}"#
    );
}

#[test]
fn of_a_clients_wishes_only_known_ones_are_passed_on() {
    let wishes = r#"{"temperature": 0.70, "n": 5, "stream": false, "model": "other", "messages": [], "user": "u", "top_p": null, "stop": ["x"], "tool_choice": "auto"}"#;
    let model = model(|config| {
        config.max_tokens = Some(100);
        config.extra_body = Some(JsonText::from_valid(
            r#"{"temperature": 0, "provider": {"order": ["a"]}, "model": "evil"}"#,
        ));
    });
    let mut asked = asked(&model, &[user("hi")]);
    asked.sampling = Some(JsonText::from_valid(wishes));
    let body = model.body(&asked);
    assert!(
        body.ends_with(r#","provider":{"order": ["a"]},"temperature":0.70,"stop":["x"],"max_tokens":100}"#),
        "{body}"
    );
    assert_eq!(parsed(&body)["model"], "m");
    asked.sampling = Some(JsonText::from_valid(r#"{"tool_choice":"none","max_completion_tokens":7}"#));
    asked.prompt.tools = Some(model.encode_tools(&JsonText::from_valid("[]")));
    let body = parsed(&model.body(&asked));
    assert_eq!(
        (body.get("tools"), body.get("tool_choice")),
        (None, None),
        "no tools, nothing to choose from"
    );
    asked.prompt.tools = Some(model.encode_tools(&JsonText::from_valid("[{}]")));
    let body = parsed(&model.body(&asked));
    assert_eq!((&body["tool_choice"], &body["max_completion_tokens"]), (&json!("none"), &json!(7)));
    assert_eq!(body.get("max_tokens"), None);
    asked.sampling = Some(JsonText::from_valid("[1,2]"));
    assert_eq!(parsed(&model.body(&asked))["max_tokens"], 100);
}

#[test]
fn openai_itself_is_told_the_session_and_the_newer_limit() {
    let config = OpenAiConfig { max_tokens: Some(9), ..OpenAiConfig::new(OPENAI_URL, "gpt") };
    let model = OpenAi::new(config, Client::new(ClientSettings::default())).unwrap();
    let asked = Asked { session: "s1".into(), ..asked(&model, &[user("hi")]) };
    let body = parsed(&model.body(&asked));
    assert_eq!((&body["prompt_cache_key"], &body["max_completion_tokens"]), (&json!("s1"), &json!(9)));
}

#[test]
fn adjacent_user_messages_are_merged_only_when_told() {
    let messages = [user("a\"}"), user("b"), user("c")];
    let apart = model(|_| {});
    assert_eq!(parsed(&apart.body(&asked(&apart, &messages)))["messages"].as_array().unwrap().len(), 3);
    let merging = model(|config| config.merge_users = true);
    let body = parsed(&merging.body(&asked(&merging, &messages)));
    assert_eq!(body["messages"], json!([{"role": "user", "content": "a\"}\n\nb\n\nc"}]));
    let picture = Message::user(Time(0), Content::Parts(vec![Part::Image { url: "u".into(), detail: None }]));
    let body = parsed(&merging.body(&asked(&merging, &[user("a"), picture, user("b")])));
    assert_eq!(body["messages"].as_array().unwrap().len(), 3);
}

#[test]
fn cache_marks_are_outside_the_segments_and_at_most_three() {
    let config = OpenAiConfig::new(OPENROUTER_URL, "anthropic/claude-sonnet-4.5");
    assert!(config.cache_marks);
    let model = OpenAi::new(config, Client::new(ClientSettings::default())).unwrap();
    let result = ToolResult { call_id: "\",\"content\":\"".into(), name: None, content: Content::text("r") };
    let messages = [user("1"), user("2"), user(""), Message::new(Time(0), Body::Result(result))];
    let mut asked = asked(&model, &messages);
    asked.prompt.system = Some(model.encode_system("sys"));
    let body = model.body(&asked);
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        parsed(&body)["messages"],
        json!([
            {"role": "system", "content": [{"type": "text", "text": "sys", "cache_control": mark}]},
            {"role": "user", "content": "1"},
            {"role": "user", "content": [{"type": "text", "text": "2", "cache_control": mark}]},
            {"role": "user", "content": ""},
            {"role": "tool", "tool_call_id": "\",\"content\":\"", "content": [{"type": "text", "text": "r", "cache_control": mark}]},
        ])
    );
    assert!(asked.prompt.messages.iter().all(|segment| !segment.bytes.contains("cache_control")));
}

#[test]
fn a_model_that_cannot_be_asked_is_an_error_with_its_name() {
    let client = Client::new(ClientSettings::default());
    let unusable = |config| OpenAi::new(config, client.clone()).err().unwrap().to_string();
    let error = unusable(OpenAiConfig::new("localhost:11434/v1", "llama"));
    assert!(error.contains("llama") && error.contains("http"), "{error}");
    let key = Some(Secret::new("canary-key\n"));
    let error = unusable(OpenAiConfig { key, ..OpenAiConfig::new("http://h/v1", "m") });
    assert!(error.contains("line break") && !error.contains("canary"), "{error}");
    let extra_body = Some(JsonText::from_valid("[]"));
    let error = unusable(OpenAiConfig { extra_body, ..OpenAiConfig::new("http://h/v1", "m") });
    assert!(error.contains("extra_body"), "{error}");
}

#[test]
fn p31_a_configuration_cannot_be_printed_by_accident() {
    let config = OpenAiConfig {
        key: Some(Secret::new("canary")),
        headers: vec![("x-token".into(), "canary".into())],
        ..OpenAiConfig::new("http://user:canary@h/v1", "m")
    };
    assert_eq!(format!("{config:?}"), "OpenAiConfig(m)");
}

proptest! {
    #[test]
    fn whatever_a_server_sends_it_is_an_answer_or_an_error(chunks in prop::collection::vec(transcripts::rubbish(&WORDS), 0..8)) {
        let mut draft = OpenAiDraft::default();
        for chunk in chunks {
            let document: Value = serde_json::from_str(&chunk).unwrap();
            let _ = draft.whole(&document, &|_| {});
            let _ = draft.event(&ServerSentEvent { name: None, data: chunk }, &|_| {});
        }
        if let Ok(answer) = draft.finish("m", |index| format!("made{index}")) {
            parsed(&model(|_| {}).encode(&Message::new(Time(0), Body::Assistant(answer.said))).bytes);
        }
    }

    #[test]
    fn p14_the_same_message_always_gives_the_same_bytes(message in transcripts::message()) {
        let model = model(|_| {});
        let segment = model.encode(&message);
        prop_assert_eq!(&segment, &model.encode(&message.clone()));
        let value = parsed(&segment.bytes);
        prop_assert_eq!(value["role"].as_str().unwrap(), message.role());
        if let Some(text) = &message.sent_as {
            let sent = value["content"].as_str().unwrap_or_default();
            prop_assert_eq!(sent, text);
        }
        prop_assert_eq!(value["tool_calls"].as_array().map_or(0, Vec::len), message.calls().len());
        for call in value["tool_calls"].as_array().into_iter().flatten() {
            let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
            prop_assert!(arguments.is_object());
        }
    }

    #[test]
    fn p14_a_body_is_json_with_every_message_in_its_place(
        transcript in transcripts::transcript(),
        merge in any::<bool>(),
        marks in any::<bool>(),
    ) {
        let model = model(|config| (config.merge_users, config.cache_marks) = (merge, marks));
        let asked = asked(&model, &transcript);
        let body = model.body(&asked);
        prop_assert_eq!(&body, &model.body(&asked));
        let messages = parsed(&body)["messages"].as_array().unwrap().clone();
        let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        let expected: Vec<&str> = transcript.iter().map(Message::role).collect();
        if merge {
            let without_users = |roles: &[&str]| roles.iter().filter(|role| **role != "user").map(|role| role.to_string()).collect::<Vec<_>>();
            prop_assert_eq!(without_users(&roles), without_users(&expected));
        } else {
            prop_assert_eq!(roles, expected);
        }
        let count = |text: &str| text.matches("\"cache_control\":").count();
        let clients: usize = asked.prompt.messages.iter().map(|segment| count(&segment.bytes)).sum();
        let allowed = if clients > 0 { clients..=clients } else { 0..=3 };
        prop_assert!(allowed.contains(&count(&body)));
        if !merge && !marks {
            for segment in &asked.prompt.messages {
                prop_assert!(body.contains(&*segment.bytes));
            }
        }
    }

    #[test]
    fn a_longer_conversation_begins_with_the_bytes_of_the_shorter(transcript in transcripts::transcript(), cut in 0usize..12) {
        let model = model(|_| {});
        let cut = cut.min(transcript.len());
        let start = |body: String| body.split_once("],\"stream\"").map(|(messages, _)| messages.to_owned());
        let shorter = model.body(&asked(&model, &transcript[..cut]));
        let longer = model.body(&asked(&model, &transcript));
        prop_assert!(longer.starts_with(&start(shorter).unwrap()));
    }
}

#[test]
fn p31_an_answer_with_many_calls_costs_what_it_should() {
    let draft = |count: usize, call: fn(usize) -> Value| {
        let chunk = json!({"choices": [{"delta": {"tool_calls": (0..count).map(call).collect::<Value>()}}]});
        move || {
            let mut draft = OpenAiDraft::default();
            let _ = draft.whole(&chunk, &|_| {});
            let _ = draft.finish("m", |index| index.to_string());
        }
    };
    for call in [
        |number: usize| json!({"index": number, "function": {"name": "f"}}),
        |number| json!({"id": format!("{number}"), "function": {"name": "f"}}),
        |_| json!({"function": {"name": "f"}}),
        |number| json!({"index": 0, "id": format!("{number}"), "function": {"name": "f"}}),
    ] {
        throughline_complexity::assert_linear_in_count("openai::answer::Draft", |count| draft(count, call));
    }
}

#[test]
fn p31_many_messages_in_a_row_cost_what_they_should() {
    let model = model(|config| config.merge_users = true);
    throughline_complexity::assert_linear_in_count("openai::OpenAi::body", |count| {
        let asked = asked(&model, &vec![user("a few words of a message"); count]);
        let model = &model;
        move || _ = model.body(&asked).len()
    });
}
