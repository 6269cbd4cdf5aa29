use super::*;
use tempfile::TempDir;
use throughline_core::lifecycle::Mode;

/// A home with these files, looked at in this environment.
struct Bench {
    directory: TempDir,
    environment: Environment,
    overrides: Overrides,
}

impl Bench {
    fn new(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(CONFIG_FILE), config).unwrap();
        // Hermes' settings for the machine that runs the tests are none of ours.
        let managed = directory.path().join("none").display().to_string();
        let environment = Environment::from([("HERMES_MANAGED_DIR", managed.as_str())]);
        Self { directory, environment, overrides: Overrides::default() }
    }

    fn environment<const N: usize>(mut self, variables: [(&str, &str); N]) -> Self {
        self.environment.0.extend(Environment::from(variables).0);
        self
    }

    fn dotenv(self, text: &str) -> Self {
        fs::write(self.directory.path().join(ENV_FILE), text).unwrap();
        self
    }

    fn overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    fn home(&self) -> Home {
        Home::new(self.directory.path(), crate::home::ChosenBy::CommandLine)
    }

    fn report(&self) -> Report {
        match Written::read(&self.home(), &self.environment, self.overrides.clone()).unwrap() {
            Ok(written) => written.report(),
            Err(report) => report,
        }
    }

    fn settings(&self) -> Settings {
        let report = self.report();
        report.settings.unwrap_or_else(|| panic!("{:?}", report.errors))
    }

    fn errors(&self) -> Vec<String> {
        let report = self.report();
        assert_eq!(report.settings.is_some(), report.errors.is_empty());
        let home = format!("{}/", self.directory.path().display());
        report.errors.iter().map(|error| error.to_string().replace(&home, "")).collect()
    }

    fn warnings(&self) -> Vec<String> {
        self.report().warnings.iter().map(ToString::to_string).collect()
    }

    fn row(&self, name: &str) -> (String, String) {
        let report = self.report();
        let row = report.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{report:?}"));
        (row.value.clone(), row.origin.clone())
    }
}

/// What was chosen, in one line: format, provider, model, address, the variable of its key.
fn line(choice: &ModelChoice) -> String {
    let (wire, endpoint) = match choice {
        ModelChoice::Rehearsal => return "rehearsal".to_owned(),
        ModelChoice::OpenAi(endpoint) => ("chat", endpoint),
        ModelChoice::Anthropic(endpoint) => ("messages", endpoint),
    };
    let key = endpoint.key.as_ref().map_or("-", |key| key.value.expose());
    format!("{wire} {} {} {} {key}", endpoint.provider.value, endpoint.model.value, endpoint.base_url.value)
}

#[test]
fn the_model_is_what_the_user_meant() {
    let custom =
        "model: {default: m, provider: custom, base_url: http://127.0.0.1:9901/v1/, api_key: sk-fake}";
    type Variables<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, Variables<'_>, &str); 30] = [
        ("", &[], "rehearsal"),
        ("model: rehearsal", &[("OPENAI_API_KEY", "sk-openai")], "rehearsal"),
        ("model: {provider: rehearsal, default: x}", &[], "rehearsal"),
        ("model: ''", &[("OPENAI_API_KEY", "")], "rehearsal"),
        ("", &[("OPENAI_API_KEY", "***")], "rehearsal"),
        // A key that many shells have, and that names no model.
        ("", &[("HF_TOKEN", "hf_0123"), ("GEMINI_API_KEY", "AIza0123")], "rehearsal"),
        (
            "model: m",
            &[("HF_TOKEN", "hf_0123")],
            "chat huggingface m https://router.huggingface.co/v1 hf_0123",
        ),
        (
            "model: {default: gpt-5, api_key: sk-here}",
            &[],
            "chat openai-api gpt-5 https://api.openai.com/v1 sk-here",
        ),
        (
            "model: {default: a/b, api_key: '${UNSET}'}",
            &[("OPENROUTER_API_KEY", "sk-or-1")],
            "chat openrouter a/b https://openrouter.ai/api/v1 sk-or-1",
        ),
        (
            "",
            &[("OPENAI_API_KEY", "sk-openai")],
            "chat openai-api gpt-5.4-mini https://api.openai.com/v1 sk-openai",
        ),
        (
            "model: gpt-5",
            &[("OPENAI_API_KEY", "sk-openai")],
            "chat openai-api gpt-5 https://api.openai.com/v1 sk-openai",
        ),
        (
            "model: a/b",
            &[("OPENROUTER_API_KEY", "sk-or-1")],
            "chat openrouter a/b https://openrouter.ai/api/v1 sk-or-1",
        ),
        (
            "model: claude-x",
            &[("ANTHROPIC_API_KEY", "sk-ant-1"), ("OPENROUTER_API_KEY", "sk-or-1")],
            "messages anthropic claude-x https://api.anthropic.com sk-ant-1",
        ),
        (
            "model: claude-x",
            &[("OPENROUTER_API_KEY", "sk-or-1")],
            "chat openrouter claude-x https://openrouter.ai/api/v1 sk-or-1",
        ),
        (
            "model: d",
            &[("DEEPSEEK_API_KEY", "sk-deep")],
            "chat deepseek d https://api.deepseek.com/v1 sk-deep",
        ),
        (custom, &[("OPENAI_API_KEY", "sk-openai")], "chat custom m http://127.0.0.1:9901/v1 sk-fake"),
        // A vendor's key stays with its vendor.
        (
            "model: {default: m, provider: custom, base_url: http://127.0.0.1:1/v1}",
            &[("OPENAI_API_KEY", "sk-openai")],
            "chat custom m http://127.0.0.1:1/v1 -",
        ),
        ("model: {default: m, base_url: http://box.lan:8000}", &[], "chat custom m http://box.lan:8000 -"),
        (
            "model: {default: m, provider: ollama, base_url: http://192.168.1.5:11434/v1}",
            &[],
            "chat ollama m http://192.168.1.5:11434/v1 -",
        ),
        (
            "model: {default: m, provider: custom, base_url: https://api.groq.com/openai/v1}",
            &[("GROQ_API_KEY", "gsk-1")],
            "chat custom m https://api.groq.com/openai/v1 gsk-1",
        ),
        (
            "model: {default: m, provider: custom, base_url: https://free.example/v1, api_key: no-key-required}",
            &[],
            "chat custom m https://free.example/v1 -",
        ),
        (
            "model: {default: m, base_url: https://api.anthropic.com}",
            &[("ANTHROPIC_API_KEY", "sk-ant-1")],
            "messages anthropic m https://api.anthropic.com sk-ant-1",
        ),
        (
            "model: {default: m, provider: custom, base_url: https://x.example/anthropic, api_key: kkkk}",
            &[],
            "messages custom m https://x.example/anthropic kkkk",
        ),
        (
            "model: {default: m, provider: custom, base_url: http://localhost:1, api_mode: anthropic_messages}",
            &[],
            "messages custom m http://localhost:1 -",
        ),
        (
            "model: {default: m}",
            &[("OPENAI_BASE_URL", "http://127.0.0.1:7/v1")],
            "chat openai-api m http://127.0.0.1:7/v1 -",
        ),
        (
            "model: {default: m, provider: box}\nproviders: {box: {api: 'https://box.example/v1', key_env: BOX_KEY}}",
            &[("BOX_KEY", "box-1")],
            "chat box m https://box.example/v1 box-1",
        ),
        (
            "model: {provider: 'custom:My Box'}\ncustom_providers: [{name: My Box, base_url: 'http://box:1/v1', model: big}]",
            &[],
            "chat custom:my box big http://box:1/v1 -",
        ),
        (
            "model: {default: m, provider: openai}\nproviders: {openai-api: {api_key: sk-entry}}",
            &[],
            "chat openai-api m https://api.openai.com/v1 sk-entry",
        ),
        (
            "model: {default: m, provider: auto}",
            &[("XAI_API_KEY", "xai-1")],
            "chat xai m https://api.x.ai/v1 xai-1",
        ),
        (
            "model: {default: m, provider: anthropic, base_url: 'https://openrouter.ai/api/v1'}",
            &[("ANTHROPIC_API_KEY", "sk-ant-1")],
            "messages anthropic m https://api.anthropic.com sk-ant-1",
        ),
    ];
    for (config, variables, expected) in cases {
        let mut bench = Bench::new(config);
        bench
            .environment
            .0
            .extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        assert_eq!(line(&bench.settings().model), expected, "{config} {variables:?}");
    }
}

#[test]
fn a_model_that_cannot_be_used_is_an_error_that_says_what_to_set() {
    for (config, parts) in [
        ("# the model\nmodel: a/b", vec!["config.yaml:2: ", "`a/b`", "OPENROUTER_API_KEY"]),
        (
            "model: {default: m, provider: anthropic}",
            vec!["config.yaml:1", "api.anthropic.com", "set ANTHROPIC_API_KEY"],
        ),
        ("model:\n  default: m\n  provider: opnrouter", vec!["config.yaml:3", "`opnrouter` is not known"]),
        ("model: {default: m, provider: custom}", vec!["set `model.base_url`"]),
        ("model: {default: m, provider: nous}", vec!["`nous`", "Throughline cannot"]),
        ("model: {default: m, provider: custom, base_url: 'ftp://x'}", vec!["begins with http"]),
        ("model: {default: m, provider: custom, base_url: 'http://${UNSET}/v1'}", vec!["begins with http"]),
        (
            "model: {default: m, provider: custom, base_url: https://x.example}",
            vec!["no key for x.example; set model.api_key in config.yaml"],
        ),
        (
            "model: {default: m, provider: custom, base_url: http://localhost, api_mode: bedrock_converse}",
            vec!["does not speak `bedrock_converse`"],
        ),
        (
            "model: {provider: custom, base_url: 'http://localhost:1'}",
            vec!["no model is named", "`model.default`"],
        ),
        (
            "model: {default: m, provider: box}\nproviders: {box: {enabled: off, api: 'http://b'}}",
            vec!["config.yaml:2", "switched off"],
        ),
        ("model: {default: m, provider: box}\nproviders: {box: {}}", vec!["has no `base_url`"]),
        ("model: {default: m, api_key: '${MISSING}', provider: deepseek}", vec!["set DEEPSEEK_API_KEY"]),
    ] {
        let errors = Bench::new(config).errors();
        assert_eq!(errors.len(), 1, "{config}: {errors:?}");
        for part in parts {
            assert!(errors[0].contains(part), "{config}: {errors:?}");
        }
    }
}

#[test]
fn every_value_says_where_it_came_from() {
    let bench = Bench::new(
        "model: {default: m}\nagent: {max_turns: 7, restart_drain_timeout: 2.5}\nthroughline:\n  log_level: debug\n\
         platforms: {api_server: {extra: {port: 8700}}}\n",
    )
    .dotenv("# keys\nOPENROUTER_API_KEY=sk-or-0123456789\nHERMES_TIMEZONE=Europe/Vienna\n")
    .environment([("OPENROUTER_API_KEY", "sk-or-stale"), ("API_SERVER_HOST", "localhost")]);
    for (name, value, origin) in [
        ("model.default", "m", "config.yaml:1"),
        ("model.provider", "openrouter", "default: OPENROUTER_API_KEY is set"),
        ("model.base_url", "https://openrouter.ai/api/v1", "default"),
        ("model.api_key", "set, 16 characters (OPENROUTER_API_KEY)", ".env:2"),
        ("api_server.host", "localhost", "environment"),
        ("api_server.port", "8700", "config.yaml:5"),
        ("api_server.key", "made at the first start", "throughline.key"),
        ("display.busy_input_mode", "queue", "default: the home is new"),
        ("agent.restart_drain_timeout", "2.5 s", "config.yaml:2"),
        ("agent.max_turns", "7", "config.yaml:2"),
        ("compression.threshold", "0.5", "default"),
        ("timezone", "Europe/Vienna", ".env:3"),
        ("throughline.log_level", "debug", "config.yaml:4"),
        ("throughline.body_limit_bytes", "10000000", "default"),
    ] {
        assert_eq!(bench.row(name), (value.to_owned(), origin.to_owned()), "{name}");
    }
    assert!(bench.warnings().is_empty(), "{:?}", bench.warnings());
}

#[test]
fn the_env_file_wins_over_the_environment_even_with_nothing() {
    let bench = |dotenv| Bench::new("").dotenv(dotenv).environment([("OPENAI_API_KEY", "sk-from-shell")]);
    let key = |bench: Bench| match bench.settings().model {
        ModelChoice::OpenAi(endpoint) => endpoint.key.unwrap().value.expose().to_owned(),
        _ => "rehearsal".to_owned(),
    };
    assert_eq!(key(bench("OPENAI_API_KEY=sk-from-file")), "sk-from-file");
    assert_eq!(key(bench("OTHER=1")), "sk-from-shell");
    assert_eq!(key(bench("OPENAI_API_KEY=")), "rehearsal");
}

#[test]
fn hermes_order_of_file_and_environment_is_kept() {
    let bench = Bench::new(
        "display: {busy_input_mode: steer}\nagent: {restart_drain_timeout: 5}\ntimezone: Europe/Rome\n\
         platforms: {api_server: {extra: {port: 1111}}}\nAPI_SERVER_KEY: from-the-top-of-the-file\n",
    )
    .environment([
        ("HERMES_GATEWAY_BUSY_INPUT_MODE", "queue"),
        ("HERMES_RESTART_DRAIN_TIMEOUT", "9"),
        ("HERMES_TIMEZONE", "Europe/Paris"),
        ("API_SERVER_PORT", "2222"),
    ]);
    let settings = bench.settings();
    assert_eq!(settings.busy_input.value, BusyInput::Steer);
    assert_eq!(settings.drain.value, Duration::from_secs(5));
    assert_eq!(settings.timezone.unwrap().value, "Europe/Rome");
    assert_eq!(settings.api.port.value, 2222);
    assert_eq!(settings.api.key.unwrap().value.expose(), "from-the-top-of-the-file");
    let bench =
        bench.overrides(Overrides { port: Some(0), host: Some("::1".into()), ..Overrides::default() });
    assert_eq!(bench.settings().api.port, Sourced::new(0, Origin::CommandLine));
    assert_eq!(bench.settings().api.host, Sourced::new("::1".into(), Origin::CommandLine));
}

#[test]
fn p31_the_api_is_never_open_without_a_key_that_somebody_chose() {
    let strong = "0123456789abcdef0123456789abcdef";
    for (host, key, good) in [
        ("127.0.0.1", None, true),
        ("localhost", None, true),
        ("::1", None, true),
        ("127.8.8.8", None, true),
        ("0.0.0.0", None, false),
        ("::", None, false),
        ("10.0.0.5", None, false),
        ("example.com", None, false),
        ("0.0.0.0", Some(strong), true),
        ("0.0.0.0", Some("weak"), false),
        ("127.0.0.1", Some("weak"), false),
        ("127.0.0.1", Some("has a space in it and is long"), false),
    ] {
        let mut bench = Bench::new("").environment([("API_SERVER_HOST", host)]);
        bench.environment.0.extend(key.map(|key| ("API_SERVER_KEY".to_owned(), key.to_owned())));
        // The key that we make ourselves is no user's decision to open the API to others.
        bench.home().key_or_new().unwrap();
        let errors = bench.errors();
        assert_eq!(errors.is_empty(), good, "{host} {key:?}: {errors:?}");
        assert!(key.is_none_or(|key| errors.iter().all(|error| !error.contains(key))), "{errors:?}");
    }
}

#[test]
fn busy_input_waits_in_a_new_home_and_interrupts_in_one_of_hermes() {
    let bench = Bench::new("");
    assert_eq!(bench.settings().busy_input.value, BusyInput::Queue);
    fs::write(bench.directory.path().join("state.db"), "Hermes'").unwrap();
    assert_eq!(bench.settings().busy_input.value, BusyInput::Interrupt);
    let bench = bench.environment([("HERMES_GATEWAY_BUSY_INPUT_MODE", " Queue ")]);
    assert_eq!(bench.settings().busy_input.value, BusyInput::Queue);
}

#[test]
fn what_is_no_settings_file_is_refused_with_the_line_itself() {
    let bench = Bench::new("model: x\ndisplay: [\n  a\n");
    let report = bench.report();
    let place = bench.directory.path().join("config.yaml:2:10").display().to_string();
    assert_eq!(report.errors[0].place, Some(place), "in full: there may be several homes");
    assert_eq!(report.errors[0].excerpt.as_deref(), Some("  2 | display: [\n    |          ^"));
    fs::write(bench.directory.path().join(CONFIG_FILE), b"a: 1\nb: \xff\n").unwrap();
    let errors = bench.errors();
    assert!(errors[0].starts_with("config.yaml:2:4: this is not UTF-8"), "{errors:?}");
    let bench = Bench::new("throughline:\n  log_levle: debug\n");
    let errors = bench.errors();
    assert!(errors[0].starts_with("config.yaml:2:3: `throughline.log_levle` does not exist"), "{errors:?}");
    assert!(errors[0].contains("  2 |   log_levle: debug\n    |   ^"), "{errors:?}");
}

#[test]
fn wrong_values_are_errors_where_they_matter_and_warnings_elsewhere() {
    for (config, error) in [
        ("API_SERVER_PORT: 70000", "from 0 to 65535"),
        ("API_SERVER_PORT: http", "from 0 to 65535"),
        ("throughline: {body_limit_bytes: 10}", "at least 1024"),
        ("throughline: {log_level: 'a=b=c'}", "a log level is"),
    ] {
        let errors = Bench::new(config).errors();
        assert!(errors.len() == 1 && errors[0].contains(error), "{config}: {errors:?}");
    }
    for (config, warning) in [
        ("compression: {threshold: 50}", "0.5 is used"),
        ("session_reset: {mode: sometimes}", "`none` is used"),
        ("session_reset: {at_hour: 24}", "4 is used"),
        ("timezone: Middle/Earth", "not known"),
        ("HERMES_RESTART_DRAIN_TIMEOUT: soon", "not a number of seconds"),
        ("agnet: {max_turns: 1}", "did you mean `agent`?"),
    ] {
        let bench = Bench::new(config);
        assert!(
            bench.warnings().iter().any(|text| text.contains(warning)),
            "{config}: {:?}",
            bench.warnings()
        );
        bench.settings();
    }
}

#[test]
fn p20_gateway_json_says_when_a_kind_of_chat_begins_anew_as_it_does_to_hermes() {
    let bench = Bench::new("reset_by_type: {dm: {mode: none}, thread: {mode: idle, idle_minutes: 7}}\n");
    let legacy = r#"{"default_reset_policy": {"mode": "daily", "at_hour": 5},
                     "reset_by_type": {"dm": {"mode": "both", "idle_minutes": 30}},
                     "reset_by_platform": {"telegram": {"mode": "none"}}}"#;
    fs::write(bench.directory.path().join("gateway.json"), legacy).unwrap();
    let policies = bench.settings().session_reset.policies;
    assert_eq!((policies.common.mode, policies.common.at_hour), (Mode::Daily, 5));
    for (platform, chat_type, mode) in [
        ("slack", "dm", Mode::Both),
        ("slack", "thread", Mode::Idle),
        ("slack", "group", Mode::Daily),
        ("telegram", "dm", Mode::Never),
    ] {
        assert_eq!(policies.of(platform, chat_type).mode, mode, "{platform} {chat_type}");
    }
    let bench = Bench::new("session_reset: {mode: idle}\n");
    fs::write(bench.directory.path().join("gateway.json"), legacy).unwrap();
    assert_eq!(bench.settings().session_reset.policies.common.mode, Mode::Idle, "config.yaml comes first");
}

#[test]
fn what_hermes_reads_and_we_do_not_is_said() {
    let bench = Bench::new("");
    fs::write(bench.directory.path().join("gateway.json"), "{}").unwrap();
    let managed = bench.directory.path().join("managed");
    fs::create_dir(&managed).unwrap();
    fs::write(managed.join(CONFIG_FILE), "model: x").unwrap();
    let bench = bench.environment([("HERMES_MANAGED_DIR", managed.to_str().unwrap())]);
    let warnings = bench.warnings();
    assert!(warnings[0].contains("gateway.json only platforms and reset policies are read"), "{warnings:?}");
    assert!(warnings[1].contains("does not bind Throughline"), "{warnings:?}");
}

#[test]
fn p31_no_secret_in_any_report() {
    let bench = Bench::new(
        "model: {default: m, provider: custom, base_url: http://1.2.3.4/v1, api_key: sk-hidden-1}\nA_TOKEN: sk-hidden-2\n\
         throughline: {api_key: sk-hidden-3}\n",
    )
    .dotenv("API_SERVER_KEY=sk-hidden-4\nBROKEN sk-hidden-5\n");
    let report = bench.report();
    assert!(!format!("{report:?}").contains("hidden"), "{report:?}");
    let remarks: Vec<_> = report.warnings.iter().chain(&report.errors).map(ToString::to_string).collect();
    assert!(!remarks.join("\n").contains("hidden"), "{remarks:?}");
    let settings = Bench::new("").dotenv("OPENAI_API_KEY=sk-hidden-6").settings();
    assert!(!format!("{settings:?}").contains("hidden"), "{settings:?}");
}

#[test]
fn how_long_a_model_is_waited_for_is_said_by_hermes_names() {
    let custom =
        "model: {default: m, provider: custom, base_url: http://127.0.0.1:9901/v1, api_key: sk-fake}\n";
    let far = "model: {default: m, provider: openai-api, api_key: sk-fake}\n";
    type Variables<'a> = &'a [(&'a str, &'a str)];
    type Seconds = (Option<f64>, Option<f64>);
    let cases: [(String, Variables<'_>, Seconds); 9] = [
        (custom.to_owned(), &[], (None, None)),
        (
            format!(
                "{custom}providers: {{custom: {{request_timeout_seconds: 900, stale_timeout_seconds: 20}}}}"
            ),
            &[("HERMES_API_TIMEOUT", "5"), ("HERMES_STREAM_STALE_TIMEOUT", "5")],
            (Some(900.0), Some(20.0)),
        ),
        (
            format!(
                "{custom}providers: {{custom: {{request_timeout_seconds: 900, models: {{m: {{timeout_seconds: 7, \
                 stale_timeout_seconds: 1.5}}, other: {{timeout_seconds: 1}}}}}}}}"
            ),
            &[],
            (Some(7.0), Some(1.5)),
        ),
        (custom.to_owned(), &[("HERMES_API_TIMEOUT", "60")], (Some(60.0), None)),
        (custom.to_owned(), &[("HERMES_STREAM_STALE_TIMEOUT", "30")], (None, Some(30.0))),
        (format!("{custom}agent: {{local_stream_stale_timeout: 1200}}"), &[], (None, Some(1200.0))),
        // Only for what is near, and nothing is no time at all.
        (format!("{far}agent: {{local_stream_stale_timeout: 1200}}"), &[], (None, None)),
        (
            format!("{far}providers: {{openai-api: {{request_timeout_seconds: 0}}}}"),
            &[("HERMES_API_TIMEOUT", "soon")],
            (None, None),
        ),
        (format!("{far}providers: {{openai-api: {{stale_timeout_seconds: 45}}}}"), &[], (None, Some(45.0))),
    ];
    for (config, variables, expected) in cases {
        let mut bench = Bench::new(&config);
        bench.environment.0.extend(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let settings = bench.settings();
        let ModelChoice::OpenAi(endpoint) = &settings.model else { panic!("{config}") };
        let seconds = |written: &Option<Sourced<f64>>| written.as_ref().map(|written| written.value);
        let timeouts = &endpoint.timeouts;
        assert_eq!(
            (seconds(&timeouts.request), seconds(&timeouts.stale)),
            expected,
            "{config} {variables:?}"
        );
    }
}

#[test]
fn what_a_home_asks_for_and_is_not_carried_is_named_once_each() {
    let bench = Bench::new(
        "model: rehearsal\nstt: {local: {model: large}, openai: {model: x}}\nvoice: {auto_tts: true}\n\
         kanban: {max_in_progress: 2}\nmax_concurrent_sessions: 4\ncron: {max_parallel_jobs: 1}\n\
         matrix: {allowed_rooms: a}\nlogging: {level: INFO}\n",
    );
    let bench = bench.dotenv(
        "SIGNAL_HTTP_URL=http://127.0.0.1:1\nSIGNAL_ACCOUNT=+1\nMATRIX_PASSWORD=x\nSESSION_IDLE_MINUTES=5\n",
    );
    fs::create_dir(bench.directory.path().join("cron")).unwrap();
    let jobs = r#"{"jobs": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d", "enabled": false}]}"#;
    fs::write(bench.directory.path().join(JOBS_FILE), jobs).unwrap();
    let line = in_a_line(&bench.settings().not_carried).unwrap();
    assert_eq!(
        line,
        "scheduled jobs (3 in cron/jobs.json), Matrix, Signal, stt, voice, kanban, max_concurrent_sessions, \
         SESSION_IDLE_MINUTES (write session_reset.idle_minutes)"
    );
    assert_eq!(Bench::new("model: rehearsal\nstt: {enabled: true}\n").settings().not_carried, [""; 0]);
    let many: Vec<String> = (0..20).map(|nth| format!("f{nth}")).collect();
    assert!(in_a_line(&many).unwrap().ends_with("f11 and 8 more"));
}

#[test]
fn p31_notes_are_kept_apart_in_a_new_home_and_shared_in_one_that_hermes_had() {
    let bench = Bench::new("model: rehearsal\n");
    assert!(bench.settings().memory_per_person.value);
    fs::write(bench.directory.path().join("state.db"), "").unwrap();
    assert_eq!(bench.row("throughline.memory_per_person").1, "default: as Hermes, whose home it was");
    assert!(!bench.settings().memory_per_person.value);
    let chosen = Bench::new("model: rehearsal\nthroughline: {memory_per_person: false}\n");
    assert!(!chosen.settings().memory_per_person.value);
}
