use super::*;
use crate::config::Config;

fn read(text: &str, variables: &[(&str, &str)]) -> Platforms {
    read_all(text, None, variables).0
}

fn read_all(text: &str, legacy: Option<&str>, variables: &[(&str, &str)]) -> (Platforms, Vec<Notice>) {
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let config = Config::parse(text, &variable).unwrap();
    Platforms::read(&config.root, legacy, &variable)
}

#[test]
fn a_token_switches_a_platform_on_unless_no_is_written() {
    let token = [("TELEGRAM_BOT_TOKEN", "1:x")];
    for (text, on) in [
        ("", true),
        ("telegram:\n  require_mention: true\n", true),
        ("telegram:\n  enabled: false\n", false),
        ("platforms:\n  telegram:\n    enabled: false\n", false),
        ("platforms:\n  telegram:\n    enabled: true\n", true),
        ("gateway:\n  platforms:\n    telegram:\n      enabled: false\n", false),
        (
            "gateway:\n  platforms:\n    telegram:\n      enabled: false\nplatforms:\n  telegram:\n    enabled: true\n",
            true,
        ),
    ] {
        let platforms = read(text, &token);
        let telegram = platforms.get("telegram").unwrap();
        assert_eq!(telegram.enabled, on, "{text}");
        assert_eq!(telegram.token, Some(Secret::new("1:x")));
    }
    assert_eq!(read("", &[]).all, []);
    assert!(!read("discord:\n  auto_thread: false\n", &[]).get("discord").unwrap().enabled);
    assert!(read("", &[("WEBHOOK_ENABLED", "true")]).get("webhook").unwrap().enabled);
}

#[test]
fn the_old_file_is_the_base_and_the_rest_wins_key_by_key() {
    let legacy = r#"{"platforms": {"telegram": {"enabled": true, "token": "old", "reply_to_mode": "all",
        "home_channel": {"chat_id": 7, "name": "Den"}, "extra": {"base_url": "http://a", "kept": 1}}},
        "group_sessions_per_user": false}"#;
    let text = "platforms:\n  telegram:\n    extra:\n      base_url: http://b\n";
    let (platforms, notices) = read_all(text, Some(legacy), &[]);
    let telegram = platforms.get("telegram").unwrap();
    assert_eq!(notices, []);
    assert_eq!((telegram.enabled, telegram.reply_to_mode), (true, ReplyMode::All));
    assert_eq!(telegram.home, Some(HomeChannelSetting { chat: "7".into(), thread: None }));
    assert_eq!(
        (telegram.extra["base_url"].as_str(), telegram.extra["kept"].as_u64()),
        (Some("http://b"), Some(1))
    );
    assert!(!platforms.group_sessions_per_user);
    assert_eq!(read_all("", Some("nonsense"), &[]).1.len(), 1);
}

#[test]
fn who_may_is_said_by_variables_first_and_mentions_by_the_file() {
    let text = "telegram:\n  allow_from: [1, 2]\n  require_mention: false\n  free_response_chats: [9]\n";
    let file = read(text, &[]);
    let both = read(
        text,
        &[
            ("TELEGRAM_ALLOWED_USERS", "3, 4"),
            ("TELEGRAM_REQUIRE_MENTION", "true"),
            ("TELEGRAM_FREE_RESPONSE_CHATS", "8"),
        ],
    );
    let of = |platforms: &Platforms| {
        let telegram = platforms.get("telegram").unwrap();
        (telegram.access.users.clone(), telegram.mentions.required, telegram.mentions.free.clone())
    };
    let list = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(of(&file), (list(&["1", "2"]), false, list(&["9"])));
    assert_eq!(of(&both), (list(&["3", "4"]), false, list(&["8"])));
    let elsewhere = read("require_mention: true\ntelegram: {}\ndiscord: {}\nslack: {}\n", &[]);
    assert!(elsewhere.all.iter().all(|platform| platform.mentions.required));
    assert!(!read("telegram: {}\n", &[]).get("telegram").unwrap().mentions.required);
    assert!(read("discord:\n  require_mention: perhaps\n", &[]).get("discord").unwrap().mentions.required);
}

#[test]
fn channels_have_prompts_and_skills_and_threads_have_those_around_them() {
    let text = "discord:\n  channel_prompts:\n    12: Be brief.\n    13: '  '\n  channel_skill_bindings:\n    - id: 12\n      skills: [a, b, a]\n    - id: '14'\n      skill: c\n";
    let platforms = read(text, &[]);
    let discord = platforms.get("discord").unwrap();
    assert_eq!(discord.prompt("12", None), Some("Be brief."));
    assert_eq!(discord.prompt("99", Some("12")), Some("Be brief."));
    assert_eq!((discord.prompt("13", None), discord.prompt("99", None)), (None, None));
    assert_eq!(discord.skills("99", Some("12")), ["a", "b"]);
    assert_eq!(discord.skills("14", Some("12")), ["c"]);
}

#[test]
fn what_people_see_has_hermes_defaults() {
    let platforms = read("telegram: {}\ndiscord: {}\nslack: {}\nwebhook: {}\n", &[]);
    let shown = |name: &str| platforms.get(name).unwrap().display.clone();
    for (name, progress, reactions, interim) in [
        ("telegram", ToolProgress::Off, false, true),
        ("discord", ToolProgress::All, true, true),
        ("slack", ToolProgress::Off, true, true),
        ("webhook", ToolProgress::Off, false, false),
    ] {
        let display = shown(name);
        assert_eq!(
            (display.tool_progress, display.reactions, display.interim),
            (progress, reactions, interim),
            "{name}"
        );
        assert_eq!(display.streaming, None, "{name}");
    }
    assert!(shown("telegram").typing && shown("telegram").busy_ack && !shown("telegram").busy_ack_detail);
}

#[test]
fn streaming_is_switched_on_for_all_and_off_for_one() {
    let base = "telegram: {}\nslack: {}\n";
    for (text, telegram, slack) in [
        ("streaming:\n  enabled: true\n", true, true),
        ("streaming:\n  mode: auto\n", true, true),
        ("streaming:\n  mode: off\n", false, false),
        ("streaming:\n  transport: edit\n", false, false),
        ("gateway:\n  streaming:\n    enabled: true\n", true, true),
        ("streaming:\n  enabled: true\n  transport: off\n", false, false),
        (
            "streaming:\n  enabled: true\ndisplay:\n  platforms:\n    slack:\n      streaming: false\n",
            true,
            false,
        ),
        ("display:\n  streaming: true\n  platforms:\n    slack:\n      streaming: true\n", false, true),
    ] {
        let platforms = read(&format!("{base}{text}"), &[]);
        let streams = |name: &str| platforms.get(name).unwrap().display.streaming.is_some();
        assert_eq!((streams("telegram"), streams("slack")), (telegram, slack), "{text}");
    }
    let text =
        "telegram: {}\nstreaming: {enabled: true, edit_interval: 2, buffer_threshold: 5, cursor: '|'}\n";
    let streaming = read(text, &[]).get("telegram").unwrap().display.streaming.clone().unwrap();
    assert_eq!(
        (streaming.edit_interval.as_secs(), streaming.buffer_chars, streaming.cursor.as_str()),
        (2, 5, "|")
    );
}

#[test]
fn what_cannot_be_read_is_named_and_opens_nothing() {
    let text = "telegram:\n  mention_patterns: 7\n  reply_to_mode: sometimes\n  later: {x: 1}\nplatforms:\n  slack: nonsense\n";
    let (platforms, notices) = read_all(text, None, &[]);
    let told: Vec<_> = notices.iter().map(|notice| (notice.place.line, notice.text.as_str())).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((told[0].0, told[1].0), (3, 2));
    assert!(!platforms.get("slack").unwrap().enabled);
    assert_eq!(
        read("telegram:\n  reply_to_mode: off\n", &[]).get("telegram").unwrap().reply_to_mode,
        ReplyMode::Off
    );
    let patterns = [("TELEGRAM_MENTION_PATTERNS", r#"["^bot", "hey"]"#)];
    assert_eq!(read("telegram: {}\n", &patterns).get("telegram").unwrap().mentions.patterns, ["^bot", "hey"]);
}
