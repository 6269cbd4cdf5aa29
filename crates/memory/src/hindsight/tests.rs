use super::bank::{Bank, BankSharing};
use super::document::{HindsightDocument, is_of_another, own_tag};
use super::settings::{HindsightSettings, MemoryMode, RecallMethod};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;
use throughline_core::id::{Generation, Seq, TurnId};
use throughline_core::memory::{Place, Retention, Scope};
use throughline_core::time::Time;

const NONE: [(&str, &str); 0] = [];

fn read(home: Option<&str>, global: Option<&str>, env: &[(&str, &str)]) -> Result<HindsightSettings, String> {
    let env: HashMap<&str, &str> = env.iter().copied().collect();
    HindsightSettings::read(home, global, &|name| env.get(name).map(|value| (*value).to_owned()))
}

fn configured(config: Value) -> HindsightSettings {
    let mut all = json!({ "mode": "local_external" });
    all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    read(Some(&all.to_string()), None, &NONE).unwrap()
}

fn scope(user: Option<&str>) -> Scope {
    Scope {
        agent: "default".into(),
        chat: Some("agent:main:telegram:dm:42".parse().unwrap()),
        session: "20260528_093510_66bfaec7".parse().unwrap(),
        generation: Generation(3),
        parent: Some("20260527_080000_00000001".parse().unwrap()),
        platform: "telegram".to_owned(),
        user: user.map(str::to_owned),
        user_name: Some("Ada".to_owned()),
        place: Place { chat: Some("42".to_owned()), kind: Some("dm".to_owned()), ..Place::default() },
        title: None,
        document: None,
        meant: None,
    }
}

fn turn(said: &[&str], replied: &str) -> Retention {
    Retention {
        key: "20260528_093510_66bfaec7/7".to_owned(),
        document: "20260528_093510_66bfaec7".to_owned(),
        scope: scope(Some("42")),
        turn: TurnId(Seq(7)),
        index: 2,
        message_count: 9,
        at: Time(1_779_960_910_123_456),
        said: said.iter().map(|text| (*text).to_owned()).collect(),
        replied: replied.to_owned(),
        tried: false,
    }
}

#[test]
fn without_anything_said_hermes_defaults_hold() {
    let settings = read(None, None, &[("HINDSIGHT_API_KEY", "hs-canary-0123456789")]).unwrap();
    assert_eq!(settings.url, "https://api.hindsight.vectorize.io");
    assert_eq!(settings.timeout, Duration::from_secs(120));
    assert_eq!((settings.mode, settings.budget.as_str()), (MemoryMode::Hybrid, "mid"));
    assert_eq!(settings.bank, Bank::named("hermes"));
    let recall = &settings.recall;
    assert_eq!((recall.auto, recall.method), (true, RecallMethod::Recall));
    assert_eq!((recall.tokens_max, recall.query_max), (4096, 800));
    assert_eq!(
        (recall.types.as_slice(), recall.tags_match.as_str()),
        (&["observation".to_owned()][..], "any")
    );
    let retain = &settings.retain;
    assert_eq!((retain.auto, retain.every), (true, 1));
    assert_eq!(retain.context, "conversation between Hermes Agent and the User");
    assert_eq!((retain.user_prefix.as_str(), retain.assistant_prefix.as_str()), ("User", "Assistant"));
    assert!(settings.notes.is_empty());
    assert!(!format!("{settings:?}").contains("canary"), "a key is never shown");
}

#[test]
fn the_first_file_counts_then_the_second_then_the_environment() {
    let env = [
        ("HINDSIGHT_MODE", "local_external"),
        ("HINDSIGHT_BANK_ID", "env"),
        ("HINDSIGHT_BUDGET", "high"),
        ("HINDSIGHT_API_URL", "http://localhost:1"),
        ("HINDSIGHT_TIMEOUT", "7"),
        ("HINDSIGHT_RETAIN_TAGS", "a, b,a"),
        ("HINDSIGHT_RETAIN_SOURCE", " chat "),
        ("HINDSIGHT_RETAIN_USER_PREFIX", "Human"),
        ("HINDSIGHT_RETAIN_OBSERVATION_SCOPES", "per_tag"),
    ];
    let home = r#"{"mode":"local_external","bank_id":"home"}"#;
    let global = r#"{"mode":"local_external","banks":{"hermes":{"bankId":"global","budget":"low"}}}"#;
    for (home, global, bank, budget) in [
        (Some(home), Some(global), "home", "mid"),
        (None, Some(global), "global", "low"),
        (None, None, "env", "high"),
    ] {
        let settings = read(home, global, &env).unwrap();
        assert_eq!((settings.bank.of(&scope(None)).as_str(), settings.budget.as_str()), (bank, budget));
        // These are looked up in the environment where the file leaves them open.
        assert_eq!((settings.url.as_str(), settings.timeout.as_secs()), ("http://localhost:1", 7));
        assert_eq!(settings.retain.tags, ["a", "b"]);
        assert_eq!(
            (settings.retain.source.as_str(), settings.retain.user_prefix.as_str()),
            ("chat", "Human")
        );
        assert_eq!(settings.retain.observation_scopes, Some(json!("per_tag")));
    }
}

#[test]
fn every_key_of_hermes_is_read() {
    let settings = configured(json!({
        "api_url": "http://127.0.0.1:9", "api_key": "k", "timeout": "30", "memory_mode": "tools", "budget": "low",
        "prefetch_method": "reflect", "retain_tags": "[\"x\",\"y\"]", "recall_tags": "p,q", "recall_tags_match": "all",
        "recall_types": "world, experience", "auto_recall": false, "auto_retain": "false", "retain_every_n_turns": 4,
        "recall_max_tokens": 99, "recall_max_input_chars": 0, "recall_prompt_preamble": "Known:", "retain_context": "talk",
        "observation_scopes": ["a", "b"], "retain_assistant_prefix": " Bot ", "retain_async": false, "banks": null,
        "bank_mission": "unused", "idle_timeout": 5, "llm_model": "unused"
    }));
    assert_eq!((settings.url.as_str(), settings.timeout.as_secs()), ("http://127.0.0.1:9", 30));
    assert_eq!((settings.mode, settings.budget.as_str()), (MemoryMode::Tools, "low"));
    let recall = &settings.recall;
    assert_eq!((recall.auto, recall.method), (false, RecallMethod::Reflect));
    assert_eq!((recall.tags.join("+"), recall.tags_match.as_str()), ("p+q".to_owned(), "all"));
    assert_eq!(
        (recall.types.join("+"), recall.tokens_max, recall.query_max),
        ("world+experience".to_owned(), 99, 0)
    );
    assert_eq!(recall.preamble, "Known:");
    let retain = &settings.retain;
    assert_eq!((retain.auto, retain.every, retain.tags.join("+")), (false, 4, "x+y".to_owned()));
    assert_eq!((retain.context.as_str(), retain.assistant_prefix.as_str()), ("talk", "Bot"));
    assert_eq!(retain.observation_scopes, Some(json!([["a", "b"]])));
    assert!(settings.notes.is_empty(), "{:?}", settings.notes);
}

#[test]
fn what_cannot_be_honoured_is_said() {
    for (config, words) in [
        (r#"{"mode":"local_embedded"}"#, "local_external"),
        (r#"{"mode":"local"}"#, "local_external"),
        (r#"{"mode":"clowd"}"#, "\"clowd\" is not known"),
        (r#"{"mode":"cloud"}"#, "HINDSIGHT_API_KEY"),
        (r#"{"mode":"cloud","#, "cannot be read"),
        (r#"[1]"#, "no JSON object"),
        (r#"{"mode":"local_external","api_url":"localhost:8888"}"#, "api_url"),
        (r#"{"mode":"local_external","api_key":"with\nbreak-canary"}"#, "API key"),
        (r#"{"mode":"local_external","retain_every_n_turns":"often"}"#, "retain_every_n_turns"),
        (r#"{"mode":"local_external","bank_id":".."}"#, "bank_id"),
    ] {
        let error = read(Some(config), None, &NONE).unwrap_err();
        assert!(error.starts_with("Hindsight is off: ") && error.contains(words), "{config}: {error}");
        assert!(!error.contains("canary"), "{error}");
    }
    for (key, value, words) in [
        ("timeout", json!("soon"), "120"),
        ("recall_budget", json!("huge"), "mid is used"),
        ("memory_mode", json!("contxt"), "hybrid is used"),
        ("recall_prefetch_method", json!("guess"), "recall is used"),
        ("recall_tags_match", json!("some"), "all_strict is used"),
        ("bank_id_template", json!("hermes-{usr}"), "{usr} is not known"),
        ("bank_id_template", json!("hermes-{user"), "brace"),
        ("observation_scopes", json!("each"), "observation_scopes"),
    ] {
        let settings = configured(json!({ key: value }));
        assert!(
            settings.notes.len() == 1 && settings.notes[0].contains(words),
            "{key}: {:?}",
            settings.notes
        );
    }
}

#[test]
fn a_bank_is_named_as_hermes_names_it() {
    for (template, user, bank) in [
        ("hermes-{profile}", "42", "hermes-default"),
        ("{workspace}_{platform}_{user}", "42", "hermes_telegram_42"),
        ("hermes-{user}", "", "hermes"),
        ("hermes-{user}", "@@@", "hermes"),
        ("hermes-{user}", "bob@example.com", "hermes-bob-example-com"),
        ("{user}--x__y", "-ü_", "ü-x_y"),
        ("{{{session}}}", "42", "{20260528_093510_66bfaec7}"),
        ("{user}", "", "fallback"),
        ("-_-", "42", "fallback"),
        ("..", "42", "fallback"),
    ] {
        let named = Bank::templated("fallback", template).unwrap().of(&scope(Some(user)));
        assert_eq!(named, bank, "{template} for {user}");
    }
}

#[test]
fn p31_only_an_id_that_nobody_else_can_have_makes_a_bank_ones_own() {
    let own = Bank::templated("hermes", "hermes-{user}").unwrap();
    for (bank, user, sharing) in [
        (&own, Some("42"), BankSharing::Own),
        (&own, Some("bob@example.com"), BankSharing::Shared),
        (&own, Some("bob-example-com"), BankSharing::Shared),
        (&own, None, BankSharing::Shared),
        (&Bank::named("hermes"), Some("42"), BankSharing::Shared),
        (&Bank::templated("hermes", "{platform}").unwrap(), Some("42"), BankSharing::Shared),
    ] {
        assert_eq!(bank.sharing(&scope(user)), sharing, "{user:?}");
    }
    let of_client = Scope { platform: "api_server".into(), ..scope(Some("42")) };
    assert_eq!(own.sharing(&of_client), BankSharing::Shared);
    assert_eq!(own.of(&of_client), "hermes-api-42");
    assert_eq!(own_tag(&of_client).as_deref(), Some("user:api:42"), "a client's user is no platform's");
    assert!(is_of_another(Some(&json!(["user:7", "x"])), "42"));
    assert!(!is_of_another(Some(&json!(["user:42", "x"])), "42"));
    assert!(!is_of_another(Some(&json!(["x"])), "42"));
    assert!(!is_of_another(None, "42"));
}

#[test]
fn p24_a_turn_carries_its_own_lineage_and_nothing_of_the_moment_it_is_sent() {
    let settings = configured(json!({ "retain_tags": "team", "retain_source": "gateway" }));
    let document = HindsightDocument::of_turn(&settings, &turn(&["hello", "ü \"quoted\""], "hi")).unwrap();
    assert_eq!((document.bank.as_str(), document.id.as_str()), ("hermes", "20260528_093510_66bfaec7/7"));
    let body: Value = serde_json::from_slice(&document.body()).unwrap();
    assert_eq!(
        body,
        json!({
            "items": [{
                "content": "[[{\"role\": \"user\", \"content\": \"User: hello\", \"timestamp\": \"2026-05-28T09:35:10.123456+00:00\"}, \
                    {\"role\": \"user\", \"content\": \"User: ü \\\"quoted\\\"\", \"timestamp\": \"2026-05-28T09:35:10.123456+00:00\"}, \
                    {\"role\": \"assistant\", \"content\": \"Assistant: hi\", \"timestamp\": \"2026-05-28T09:35:10.123456+00:00\"}]]",
                "document_id": "20260528_093510_66bfaec7/7",
                "metadata": {
                    "retained_at": "2026-05-28T09:35:10.123Z", "message_count": "9", "turn_index": "2", "source": "gateway",
                    "session_id": "20260528_093510_66bfaec7", "platform": "telegram", "user_id": "42", "user_name": "Ada",
                    "chat_id": "42", "chat_type": "dm", "agent_identity": "default",
                },
                "context": "conversation between Hermes Agent and the User",
                "tags": ["team", "session:20260528_093510_66bfaec7", "parent:20260527_080000_00000001", "user:42", "chat:42"],
                "timestamp": "2026-05-28T09:35:10.123Z",
            }],
            "async": true,
            "operation_id": document.operation.to_string(),
        })
    );
    assert_eq!(document.operation.get_version_num(), 5);
    let again = HindsightDocument::of_turn(
        &settings,
        &Retention { tried: true, ..turn(&["hello", "ü \"quoted\""], "hi") },
    );
    assert_eq!(again.unwrap().body(), document.body(), "each try sends the same bytes");
}

#[test]
fn other_words_are_another_operation_and_no_words_are_none() {
    let settings = configured(json!({}));
    let operation =
        |retention: &Retention| HindsightDocument::of_turn(&settings, retention).unwrap().operation;
    let first = turn(&["hello"], "hi");
    assert_ne!(operation(&first), operation(&turn(&["hello"], "ho")));
    assert_ne!(operation(&first), operation(&Retention { key: "x/8".to_owned(), ..first.clone() }));
    let elsewhere = configured(json!({ "bank_id": "other" }));
    assert_ne!(operation(&first), HindsightDocument::of_turn(&elsewhere, &first).unwrap().operation);
    assert!(HindsightDocument::of_turn(&settings, &turn(&["", " "], "")).is_none());
}

#[test]
fn a_note_of_the_model_cannot_pass_for_someone_elses() {
    let settings = configured(json!({}));
    let tags = ["food", "user:7", "session:other", "chat:1", "parent:x"].map(str::to_owned);
    let note = || HindsightDocument::of_note(&settings, &scope(Some("42")), "likes tea", "preference", &tags);
    let body: Value = serde_json::from_slice(&note().body()).unwrap();
    let expected = json!([
        "food",
        "session:20260528_093510_66bfaec7",
        "parent:20260527_080000_00000001",
        "user:42",
        "chat:42"
    ]);
    assert_eq!(body["items"][0]["tags"], expected);
    assert_eq!((note().id, note().operation), (note().id, note().operation));
    let other = HindsightDocument::of_note(&settings, &scope(Some("42")), "likes coffee", "", &[]);
    assert_ne!(other.id, note().id);
}
