use super::*;
use serde_json::json;
use std::collections::HashMap;
use throughline_core::session::BusyInput;

fn as_json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => (*value).into(),
        Value::Number(value) => (*value).into(),
        Value::Text(value) => value.as_str().into(),
        Value::List(items) => items.iter().map(as_json).collect(),
        Value::Map(entries) => entries.iter().map(|e| (e.key.clone(), as_json(&e.node))).collect(),
    }
}

fn parse(text: &str) -> Config {
    Config::parse(text, &|_| None).unwrap()
}

/// Each row was given to PyYAML 6.0.3 as well, and read the same.
#[test]
fn p15_a_file_is_read_as_pyyaml_reads_it() {
    for (text, expected) in [
        ("", json!({})),
        ("# only a comment\n", json!({})),
        ("---\na: 1\n...\n", json!({"a": 1})),
        ("\u{feff}a: 1\n", json!({"a": 1})),
        ("a:\r\n  b: 1\r\n  c: 2\r\n", json!({"a": {"b": 1, "c": 2}})),
        ("{a: 1, b: [x, y]}\n", json!({"a": 1, "b": ["x", "y"]})),
        (
            "a: on\nb: Off\nc: yes\nd: No\ne: 'on'\n",
            json!({"a": true, "b": false, "c": true, "d": false, "e": "on"}),
        ),
        (
            "a: 1:30\nb: 017\nc: 1e3\nd: 08\ne: '017'\n",
            json!({"a": 90, "b": 15, "c": "1e3", "d": "08", "e": "017"}),
        ),
        ("a: 1_000.5\nb: 685.230_15e+03\n", json!({"a": 1000.5, "b": 685_230.15})),
        ("a:\nb: ~\nc: null\nd: ''\n", json!({"a": null, "b": null, "c": null, "d": ""})),
        ("url: http://x:80/y#z\nh: a #c\n", json!({"url": "http://x:80/y#z", "h": "a"})),
        ("a: 'it''s'\nb: \"tab\\t\\u00e9\\n\"\n", json!({"a": "it's", "b": "tab\té\n"})),
        ("a: |\n  1\n  2\n\nb: >-\n  x\n  y\n", json!({"a": "1\n2\n", "b": "x y"})),
        ("a: |+\n  x\n\n\nb: 1\n", json!({"a": "x\n\n\n", "b": 1})),
        ("a: 'multi\n  line'\nb: plain\n  too\n", json!({"a": "multi line", "b": "plain too"})),
        ("l:\n- &a 1\n- *a\n", json!({"l": [1, 1]})),
        (
            "base: &b {x: 1, y: 2}\nc:\n  <<: *b\n  y: 3\n  z: *b\n",
            json!({"base": {"x": 1, "y": 2}, "c": {"x": 1, "y": 3, "z": {"x": 1, "y": 2}}}),
        ),
        ("m:\n  <<: [{a: 1}, {a: 2, b: 3}]\n", json!({"m": {"a": 1, "b": 3}})),
        ("'<<': {a: 1}\n", json!({"<<": {"a": 1}})),
        ("a: 1\na: 2\nb: 3\n", json!({"a": 2, "b": 3})),
        ("a: !!str 5\nb: !!int '7'\nc: ! 5\n", json!({"a": "5", "b": 7, "c": 5})),
        ("a: {b: 1, c}\n", json!({"a": {"b": 1, "c": null}})),
        ("? a\n: 1\n", json!({"a": 1})),
    ] {
        assert_eq!(as_json(&parse(text).root), expected, "{text:?}");
    }
}

/// PyYAML refuses each of these, too.
#[test]
fn what_is_no_yaml_is_refused_with_its_place() {
    for (text, line, column, part) in [
        ("a: 1\nb: [1, 2\n", 2, 4, "unclosed"),
        ("a: b: c\n", 1, 5, "mapping values are not allowed"),
        ("a:\n  - b\n c: d\n", 3, 2, "did not find expected key"),
        ("a: @x\n", 1, 4, "unexpected character"),
        ("a: 1\n---\nb: 2\n", 2, 1, "second document"),
        ("- a\n- b\n", 1, 1, "this is a list"),
        ("just text\n", 1, 1, "this is text"),
        ("a: *nowhere\n", 1, 4, "unknown anchor"),
        ("a: &x [*x]\n", 1, 8, "contains it"),
        ("? [a, b]\n: 1\n", 1, 3, "a key must be a word"),
        ("a: !foo x\n", 1, 9, "`!foo` means nothing"),
        ("a: !!int x\n", 1, 10, "does not fit"),
        ("a:\n  <<: 5\n", 2, 7, "`<<` takes a mapping"),
    ] {
        let error = Config::parse(text, &|_| None).unwrap_err();
        assert_eq!(error.place, Place { line, column }, "{text:?}: {error}");
        assert!(error.message.contains(part), "{text:?}: {error}");
    }
}

#[test]
fn an_alias_bomb_is_refused_before_it_goes_off() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let last = level - 1;
        text.push_str(&format!("a{level}: &a{level} [*a{last}, *a{last}, *a{last}, *a{last}, *a{last}]\n"));
    }
    let error = Config::parse(&text, &|_| None).unwrap_err();
    assert!(error.message.contains("more than 100000 values"), "{error}");
    let deep = format!("a: {}1{}", "[".repeat(5000), "]".repeat(5000));
    assert!(Config::parse(&deep, &|_| None).is_err());
}

#[test]
fn variables_are_replaced_as_in_hermes() {
    let environment = HashMap::from([("KEY", "sk-1"), ("HOST", "box"), ("EMPTY", ""), ("NEST", "${KEY}")]);
    let variable = |name: &str| environment.get(name).map(|value| (*value).to_owned());
    for (text, expected) in [
        ("a: ${KEY}", json!("sk-1")),
        ("a: '${KEY}'", json!("sk-1")),
        ("a: http://${HOST}:${PORT}/x", json!("http://box:${PORT}/x")),
        ("a: ${MISSING}", json!("${MISSING}")),
        ("a: ${EMPTY}", json!("")),
        ("a: ${NEST}", json!("${KEY}")),
        ("a: ${KEY:-default}", json!("${KEY:-default}")),
        ("a: $KEY", json!("$KEY")),
        ("a: ${}x${KEY}", json!("${}xsk-1")),
        ("a: ${KEY", json!("${KEY")),
        ("a: [\"${KEY}\", {b: \"${KEY}\"}]", json!(["sk-1", {"b": "sk-1"}])),
    ] {
        let config = Config::parse(text, &variable).unwrap();
        assert_eq!(as_json(config.root.get("a").unwrap()), expected, "{text}");
    }
    let config = Config::parse("${KEY}: 1", &variable).unwrap();
    assert!(config.root.entry("${KEY}").is_some(), "keys are left alone");
}

fn text(at: &Option<At<String>>) -> Option<&str> {
    at.as_ref().map(|at| at.value.as_str())
}

#[test]
fn a_model_is_a_name_or_a_mapping_or_scattered() {
    for (yaml, default, provider, base_url) in [
        ("model: some/model", Some("some/model"), None, None),
        ("model: ''", None, None, None),
        ("model:", None, None, None),
        (
            "model: {default: m, provider: custom, base_url: http://x/v1}",
            Some("m"),
            Some("custom"),
            Some("http://x/v1"),
        ),
        ("model: {model: m}", Some("m"), None, None),
        ("model: {name: n, model: m}", Some("m"), None, None),
        ("model: {default: d, name: n, api_base: http://x}", Some("d"), None, Some("http://x")),
        (
            "model: m\nprovider: openrouter\nbase_url: http://x",
            Some("m"),
            Some("openrouter"),
            Some("http://x"),
        ),
        ("model: {default: m, provider: a}\nprovider: b", Some("m"), Some("a"), None),
        ("model: [a]", None, None, None),
    ] {
        let model = parse(yaml).settings.model;
        let found = (text(&model.default), text(&model.provider), text(&model.base_url));
        assert_eq!(found, (default, provider, base_url), "{yaml}");
    }
    let config =
        parse("model:\n  default: m\n  context_length: 131072\n  max_tokens: '4096'\n  api_key: sk-1\n");
    let model = config.settings.model;
    assert_eq!(model.context_length, Some(At { value: 131_072, place: Place { line: 3, column: 19 } }));
    assert_eq!(model.max_tokens.map(|at| at.value), Some(4096));
    assert_eq!(model.api_key.unwrap().value.expose(), "sk-1");
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn a_key_that_refers_to_nothing_is_no_key() {
    let config = parse("model: {default: m, api_key: \"${NOT_SET}\"}");
    assert!(config.settings.model.api_key.is_none());
    assert!(
        config.warnings[0].text.contains("`model.api_key` refers to `${NOT_SET}`"),
        "{:?}",
        config.warnings
    );
}

#[test]
fn named_providers_come_in_both_of_hermes_forms() {
    let config = parse(
        "providers:\n  box:\n    api: http://box:8000/v1\n    key_env: BOX_KEY\n    default_model: big\n    \
         transport: anthropic_messages\n  off: {url: http://x, enabled: false}\n  broken: 5\n\
         custom_providers:\n- {name: Old One, base_url: http://old/v1, api_key: k, model: m, apiMode: chat_completions}\n\
         - {base_url: http://nameless}\n",
    );
    let names: Vec<_> = config.settings.providers.iter().map(|p| (p.name.as_str(), p.enabled)).collect();
    assert_eq!(names, [("box", true), ("off", false), ("Old One", true)]);
    let provider = &config.settings.providers[0];
    assert_eq!(text(&provider.base_url), Some("http://box:8000/v1"));
    assert_eq!(text(&provider.key_variable), Some("BOX_KEY"));
    assert_eq!(text(&provider.model), Some("big"));
    assert_eq!(text(&provider.api_mode), Some("anthropic_messages"));
    assert_eq!(provider.place, Place { line: 2, column: 3 });
    assert_eq!(config.settings.providers[2].api_key.as_ref().unwrap().value.expose(), "k");
    assert!(config.warnings.iter().any(|w| w.text.contains("give it a `name`")), "{:?}", config.warnings);
    let config = parse("custom_providers: {name: x}");
    assert!(config.warnings[0].text.contains("takes a list"), "{:?}", config.warnings);
}

#[test]
fn sections_are_read_with_the_place_of_each_value() {
    let config = parse(
        "agent:\n  max_turns: 60\n  restart_drain_timeout: 2.5\n  gateway_timeout: 1800\n\
         compression: {enabled: off, threshold: 0.6, protect_last_n: 12, in_place: \"true\"}\n\
         display: {busy_input_mode: Queue}\nsession_reset: {mode: idle, idle_minutes: 30, at_hour: 4, notify: no}\n\
         sessions: {auto_prune: true, retention_days: 30}\ntimezone: Europe/Vienna\nlogging: {level: DEBUG}\n\
         gateway: {api_server: {max_concurrent_runs: 3}, platforms: {api_server: {extra: {host: 0.0.0.0, port: 1}}}}\n\
         platforms: {api_server: {extra: {port: \"8700\", key: secret}}}\nOPENAI_API_KEY: sk-top\n",
    );
    let settings = &config.settings;
    assert_eq!(settings.agent.max_turns, Some(At { value: 60, place: Place { line: 2, column: 14 } }));
    assert_eq!(settings.agent.restart_drain_timeout.map(|at| at.value), Some(2.5));
    assert_eq!(settings.compression.enabled.map(|at| at.value), Some(false));
    assert_eq!(settings.compression.threshold.map(|at| at.value), Some(0.6));
    assert_eq!(settings.compression.protect_last_n.map(|at| at.value), Some(12));
    assert_eq!(settings.busy_input_mode.map(|at| at.value), Some(BusyInput::Queue));
    assert_eq!(text(&settings.session_reset.mode), Some("idle"));
    assert_eq!(settings.session_reset.notify.map(|at| at.value), Some(false));
    assert_eq!(text(&settings.timezone), Some("Europe/Vienna"));
    assert_eq!(text(&settings.log_level), Some("DEBUG"));
    assert_eq!(text(&settings.api_server.host), Some("0.0.0.0"));
    assert_eq!(settings.api_server.port.map(|at| at.value), Some(8700));
    assert_eq!(settings.api_server.key.as_ref().unwrap().value.expose(), "secret");
    let variable = settings.variables.iter().find(|(name, _)| name == "OPENAI_API_KEY").unwrap();
    assert_eq!(variable.1.value.expose(), "sk-top");
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn a_wrong_value_is_as_good_as_none_and_is_pointed_out() {
    for (yaml, part) in [
        ("agent: {max_turns: many}", "`agent.max_turns` takes a whole number"),
        ("agent: {max_turns: -1}", "`agent.max_turns` takes a whole number"),
        ("agent: {restart_drain_timeout: [1]}", "takes a number"),
        ("compression: {enabled: maybe}", "takes `true` or `false`"),
        ("display: {busy_input_mode: later}", "`queue`, `steer` or `interrupt`"),
        ("model: {default: {a: b}}", "`model.default` takes text"),
    ] {
        let config = parse(yaml);
        assert!(config.warnings.iter().any(|w| w.text.contains(part)), "{yaml}: {:?}", config.warnings);
        assert!(config.settings.agent.max_turns.is_none());
    }
    assert_eq!(
        parse("display: {busy_input_mode: later}").settings.busy_input_mode.map(|at| at.value),
        Some(BusyInput::Interrupt)
    );
    assert!(
        parse("session_reset:\ngateway: {session_reset: {mode: idle}}").settings.session_reset.mode.is_none()
    );
}

#[test]
fn our_own_table_is_strict() {
    let own = parse("throughline: {log_level: debug, body_limit_bytes: 1000}").own;
    assert_eq!(text(&own.log_level), Some("debug"));
    assert_eq!(own.body_limit_bytes.map(|at| at.value), Some(1000));
    for (yaml, line, column, part) in [
        ("throughline:\n  log_levle: debug\n", 2, 3, "did you mean `throughline.log_level`?"),
        ("throughline:\n  frobnicate: 1\n", 2, 3, "there are log_level, body_limit_bytes"),
        ("throughline:\n  body_limit_bytes: much\n", 2, 21, "takes a whole number"),
        ("throughline: 5\n", 1, 14, "is a mapping"),
        ("throughline:\n  chain_platforms: 5\n", 2, 20, "`throughline.chain_platforms` is a mapping"),
        ("throughline:\n  chain_platforms: [discord]\n", 2, 20, "is a mapping"),
        ("throughline:\n  chain_platforms:\n    discord: 5\n", 3, 14, "platforms.discord` is a mapping"),
        (
            "throughline:\n  chain_platforms:\n    discrod: {turns_max: 5}\n",
            3,
            5,
            "did you mean `throughline.chain_platforms.discord`?",
        ),
        (
            "throughline:\n  chain_platforms:\n    discord:\n      turn_max: 5\n",
            4,
            7,
            "did you mean `throughline.chain_platforms.discord.turns_max`?",
        ),
        ("throughline:\n  chain_platforms:\n    discord: {calls_max: many}\n", 3, 26, "takes a whole number"),
        ("throughline:\n  open_in_home: [a, {b: c}]\n", 2, 21, "takes a list of texts"),
        ("throughline:\n  hermes: {pyhton: x}\n", 2, 12, "did you mean `throughline.hermes.python`?"),
    ] {
        let config = parse(yaml);
        assert_eq!(config.errors.len(), 1, "{yaml}: {:?}", config.errors);
        assert_eq!(config.errors[0].place, Place { line, column }, "{yaml}");
        assert!(config.errors[0].text.contains(part), "{yaml}: {:?}", config.errors);
        assert!(config.warnings.is_empty(), "{yaml}: {:?}", config.warnings);
    }
    assert!(parse("throughline:\n").errors.is_empty());
}

#[test]
fn p31_debug_output_shows_no_value() {
    let config = parse("model: {default: m, api_key: sk-very-secret}\nOTHER_TOKEN: tok-very-secret\n");
    assert!(!format!("{config:?}").contains("very-secret"), "{config:?}");
}

#[test]
fn two_equal_keys_are_reported() {
    let config = parse("agent: {max_turns: 1}\nagent: {max_turns: 2}\n");
    assert_eq!(config.settings.agent.max_turns.map(|at| at.value), Some(2));
    assert!(
        config.warnings[0].text.contains("`agent` is written twice; this one counts and line 1 does not")
    );
}

/// A stranger's skill may hold any text: none of it may use up the stack, which would end the process.
#[test]
fn p31_yaml_that_lies_deep_in_itself_is_refused_and_harms_nobody() {
    let deep = |unit: &str| unit.repeat(100_000);
    for text in [
        deep(": "),
        deep("? "),
        deep("- "),
        deep("a: "),
        deep("["),
        deep("{"),
        deep("[{"),
        deep("{a: "),
        format!("a: {}", deep("[")),
        (0..20_000).map(|indent| format!("{}a:\n", " ".repeat(indent))).take(2_000).collect::<String>(),
        (0..400).map(|nth| format!("a{nth}: &a{nth} [*a{}]\n", nth.max(1) - 1)).collect::<String>(),
    ] {
        // On a thread as small as those that serve requests.
        let reading = std::thread::Builder::new().stack_size(2 << 20);
        let read = reading.spawn(move || drop(Config::parse(&text, &|_| None))).expect("a thread");
        read.join().expect("it is refused, or read");
    }
    let usual = (0..60).map(|indent| format!("{}a:\n", "  ".repeat(indent))).collect::<String>();
    assert!(Config::parse(&usual, &|_| None).is_ok(), "nobody writes deeper than that");
}
