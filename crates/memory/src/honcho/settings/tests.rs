use super::*;

pub(crate) fn settings(text: &str) -> HonchoSettings {
    let mut value: Value = serde_json::from_str(text).unwrap();
    value.as_object_mut().unwrap().entry("baseUrl").or_insert("http://127.0.0.1:1".into());
    let text = value.to_string();
    read(&[SettingsFile { path: "honcho.json", text: &text }], &[]).unwrap()
}

fn read(files: &[SettingsFile<'_>], environment: &[(&str, &str)]) -> Result<HonchoSettings, InvalidSettings> {
    let given = SettingsSources { files, ..SettingsSources::default() };
    HonchoSettings::parse(&given, |name| {
        environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    })
}

fn file(text: &str) -> Result<HonchoSettings, InvalidSettings> {
    read(&[SettingsFile { path: "honcho.json", text }], &[])
}

#[test]
fn without_a_file_the_environment_decides_and_the_rest_is_the_default() {
    let settings = read(&[], &[("HONCHO_API_KEY", " key "), ("HONCHO_TIMEOUT", "2.5")]).unwrap();
    assert!(settings.enabled && settings.notices.is_empty());
    assert_eq!((settings.workspace.as_str(), settings.ai_peer.as_str()), ("hermes", "hermes"));
    assert_eq!(settings.base_url, "https://api.honcho.dev");
    assert_eq!(settings.key, Some(Secret::new("key")));
    assert_eq!(settings.timeout, Duration::from_millis(2500));
    assert_eq!(settings.strategy, SessionStrategy::PerDirectory);
    assert_eq!(settings.write_frequency, WriteFrequency::Turn);
    assert_eq!(settings.recall_mode, RecallMode::Hybrid);
    assert_eq!((settings.message_max_chars, settings.dialectic_max_input_chars), (25_000, 10_000));
    assert_eq!((settings.dialectic_max_chars, settings.dialectic_depth), (600, 1));
    assert_eq!((settings.context_cadence, settings.dialectic_cadence), (1, 1));
    assert_eq!(
        (settings.dialectic_level, settings.reasoning_level_cap),
        (ReasoningLevel::Low, ReasoningLevel::High)
    );
    let all = PeerObservation { observe_me: true, observe_others: true };
    assert_eq!(settings.observation, Observation { user: all, agent: all });
    let local = read(&[], &[("HONCHO_API_KEY", "key"), ("HONCHO_ENVIRONMENT", "local")]).unwrap();
    assert_eq!((local.base_url.as_str(), local.key), ("http://localhost:8000", None));
}

#[test]
fn the_block_of_the_host_goes_before_the_rest() {
    let settings = file(
        r#"{"apiKey": "root", "workspace": "w", "peerName": "jan", "saveMessages": true, "timeout": 9, "dialecticDepth": 2,
            "sessions": {"/a": "b"}, "hosts": {"hermes": {"apiKey": "own", "saveMessages": false, "requestTimeout": "3",
            "dialecticDepthLevels": ["high"], "dialecticDepth": 7, "contextTokens": 100, "sessionStrategy": "per-repo"}}}"#,
    )
    .unwrap();
    assert_eq!(settings.key, Some(Secret::new("own")));
    assert_eq!((settings.workspace.as_str(), settings.peer_name.as_deref()), ("w", Some("jan")));
    assert!(!settings.save_messages);
    assert_eq!(settings.timeout, Duration::from_secs(3));
    assert_eq!(
        settings.dialectic_depth_levels,
        Some(vec![ReasoningLevel::High, ReasoningLevel::Low, ReasoningLevel::Low])
    );
    assert_eq!((settings.context_tokens, settings.strategy), (Some(100), SessionStrategy::PerRepository));
    assert_eq!(settings.sessions["/a"], "b");
    // Configured before there was a choice: the agent watches the user, and no peer watches the agent.
    assert_eq!(settings.observation.user, PeerObservation { observe_me: true, observe_others: false });
    assert_eq!(settings.observation.agent, PeerObservation { observe_me: false, observe_others: true });
}

#[test]
fn a_profile_has_a_host_of_its_own() {
    let text = r#"{"apiKey": "k", "defaultHost": "box", "hosts": {"hermes_work": {"workspace": "new"}, "hermes.old": {"workspace": "dotted"}}}"#;
    let of = |profile: Option<&str>, wanted: Option<&str>| {
        let files = [SettingsFile { path: "honcho.json", text }];
        let given = SettingsSources { files: &files, profile, ..SettingsSources::default() };
        let wanted = wanted.map(str::to_owned);
        let settings =
            HonchoSettings::parse(&given, |name| wanted.clone().filter(|_| name == "HERMES_HONCHO_HOST"));
        let settings = settings.unwrap();
        (settings.host, settings.workspace)
    };
    let pair = |host: &str, workspace: &str| (host.to_owned(), workspace.to_owned());
    assert_eq!(of(None, None), pair("box", "box"));
    assert_eq!(of(Some("work"), None), pair("hermes_work", "new"));
    assert_eq!(of(Some("old"), None), pair("hermes_old", "dotted"));
    assert_eq!(of(Some("a b!"), None), pair("hermes_a_b", "hermes_a_b"));
    assert_eq!(of(Some("work"), Some("mine")), pair("mine", "mine"));
}

#[test]
fn a_key_for_the_cloud_is_not_shown_to_a_server_at_home() {
    for (url, own, key) in [
        ("https://honcho.example.com/v3/", false, Some("root")),
        ("http://192.168.2.112:8000/v3", false, None),
        ("http://100.100.1.1", false, None),
        ("http://[::1]:8000", false, None),
        ("http://localhost:8000", true, Some("own")),
        ("http://8.8.8.8", false, Some("root")),
    ] {
        let block = if own { r#","hosts":{"hermes":{"apiKey":"own"}}"# } else { "" };
        let settings = file(&format!(r#"{{"apiKey":"root","baseUrl":"{url}"{block}}}"#)).unwrap();
        assert_eq!(settings.key, key.map(Secret::new), "{url}");
        assert!(!settings.base_url.ends_with("v3") && !settings.base_url.ends_with('/'), "{url}");
    }
}

#[test]
fn what_cannot_be_meant_is_an_error_or_a_notice_and_never_a_secret() {
    let words = |text: &str| file(text).unwrap_err().to_string();
    assert!(words(r#"{"apiKey": "sk-secret" "#).contains("honcho.json cannot be read as JSON (line 1"));
    assert!(!words(r#"{"apiKey": "sk-secret" "#).contains("sk-secret"));
    assert!(words("[]").contains("not an object"));
    assert!(
        words(r#"{"apiKey": "k", "sessionStrategy": "per-chat"}"#).contains("per-directory, per-session")
    );
    assert!(words(r#"{"enabled": true}"#).contains("HONCHO_API_KEY"));
    assert!(words(r#"{"baseUrl": "ftp://me:pw@host"}"#).contains("host"));
    assert!(!words(r#"{"baseUrl": "ftp://me:pw@host"}"#).contains("pw"));
    assert!(!file("{}").unwrap().enabled);
    assert!(!file(r#"{"apiKey": "k", "enabled": false}"#).unwrap().enabled);
    let settings = file(
        r#"{"apiKey": "k", "workspace": "my place", "recallMode": "auto", "writeFrequency": "weekly", "messageMaxChars": 3,
            "reasoningLevelCap": "huge", "observationMode": "cross", "contextCadence": -4}"#,
    )
    .unwrap();
    assert_eq!(settings.workspace, "my-place");
    assert_eq!(settings.recall_mode, RecallMode::Hybrid);
    assert_eq!(settings.write_frequency, WriteFrequency::Turn);
    assert_eq!((settings.message_max_chars, settings.context_cadence), (100, 1));
    assert_eq!(settings.notices.len(), 4, "{:#?}", settings.notices);
}

#[test]
fn how_often_is_a_word_or_a_number() {
    for (written, meant) in [
        (r#""async""#, WriteFrequency::Turn),
        (r#""turn""#, WriteFrequency::Turn),
        (r#""session""#, WriteFrequency::Session),
        ("5", WriteFrequency::Turns(5)),
        (r#""5""#, WriteFrequency::Turns(5)),
        ("0", WriteFrequency::Turn),
    ] {
        assert_eq!(
            settings(&format!(r#"{{"writeFrequency": {written}}}"#)).write_frequency,
            meant,
            "{written}"
        );
    }
}
