use super::*;

/// What `build_session_key` and `is_shared_multi_user_session` of Hermes 0.19.0 answered: platform,
/// chat type, chat, thread, user, other user id, group and thread division, profile, shared, key.
const ANSWERED_BY_HERMES: &str = include_str!("keys-0.19.jsonl");

type Answer = (
    (String, String, String, Option<String>, Option<String>, Option<String>),
    (bool, bool, Option<String>),
    (bool, String),
);

fn answer(line: &str) -> Answer {
    let fields: Vec<serde_json::Value> = serde_json::from_str(line).unwrap();
    let text = |nth: usize| fields[nth].as_str().map(str::to_owned);
    let flag = |nth: usize| fields[nth].as_bool().unwrap();
    (
        (text(0).unwrap(), text(1).unwrap(), text(2).unwrap(), text(3), text(4), text(5)),
        (flag(6), flag(7), text(8)),
        (flag(9), text(10).unwrap()),
    )
}

/// The notes of the bridge that those answers were given with.
fn noted(id: &str) -> Vec<String> {
    let alias = match id {
        "999" => "15551234567@s.whatsapp.net",
        "15551234567" => "999@lid",
        "777" => "888@lid",
        "888" => "20000000001:3@s.whatsapp.net",
        "31" => "13@lid",
        _ => return vec![],
    };
    vec![alias.to_owned()]
}

#[test]
fn p2_keys_are_those_of_hermes() {
    let mut lines = 0;
    for line in ANSWERED_BY_HERMES.lines() {
        let (
            (platform, chat_type, chat_id, thread_id, user_id, user_id_alt),
            (group, thread, profile),
            (shared, key),
        ) = answer(line);
        let source = Source { thread_id, user_id, user_id_alt, ..Source::new(platform, chat_type, chat_id) };
        let rules = KeyRules {
            group_sessions_per_user: group,
            thread_sessions_per_user: thread,
            profile: profile.as_deref(),
            whatsapp: &noted,
        };
        // Hermes lets a space into a key; here that is no key, and the same text says why.
        let expected = key.parse::<ChatKey>();
        assert_eq!(expected.is_ok(), !key.contains(' '));
        assert_eq!(chat_key(&source, &rules), expected, "{line}");
        assert_eq!(is_shared(&source, &rules), shared, "{line}");
        lines += 1;
    }
    assert!(lines > 350, "{lines}");
}

#[test]
fn p2_examples_people_know() {
    let telegram = |chat_type: &str, chat: &str| Source::new("telegram", chat_type, chat);
    let of = |source: &Source| chat_key(source, &KeyRules::default()).unwrap().to_string();
    assert_eq!(of(&telegram("dm", "8439114563")), "agent:main:telegram:dm:8439114563");
    let channel = Source { user_id: Some("456".into()), ..Source::new("discord", "group", "123") };
    assert_eq!(of(&channel), "agent:main:discord:group:123:456");
    let thread = Source { thread_id: Some("789".into()), ..Source { chat_type: "thread".into(), ..channel } };
    assert_eq!(of(&thread), "agent:main:discord:thread:123:789");
}

#[test]
fn p2_names_and_messages_leave_a_key_alone() {
    let plain = Source { user_id: Some("4".into()), ..Source::new("slack", "group", "C1") };
    let renamed = Source {
        chat_name: Some("new name".into()),
        user_name: Some("someone".into()),
        chat_topic: Some("topic".into()),
        message_id: Some("99".into()),
        chat_id_alt: Some("x".into()),
        scope_id: Some("T1".into()),
        parent_chat_id: Some("P".into()),
        profile: Some("coder".into()),
        ..plain.clone()
    };
    let rules = KeyRules::default();
    assert_eq!(chat_key(&plain, &rules), chat_key(&renamed, &rules));
}

#[test]
fn a_bridge_that_goes_in_circles_or_on_for_ever_is_left_behind() {
    let source = |id: &str| Source::new("whatsapp", "dm", id);
    let circle = |_: &str| vec!["5@lid".to_owned(), "44".to_owned(), String::new()];
    let rules = KeyRules { whatsapp: &circle, ..KeyRules::default() };
    assert_eq!(chat_key(&source("+333@lid"), &rules).unwrap().as_str(), "agent:main:whatsapp:dm:5");
    let endless = |id: &str| vec![format!("{id}0")];
    let rules = KeyRules { whatsapp: &endless, ..KeyRules::default() };
    assert_eq!(chat_key(&source("1"), &rules).unwrap().as_str(), "agent:main:whatsapp:dm:1");
}

#[test]
fn an_id_that_cannot_be_in_a_key_makes_none() {
    let rules = KeyRules::default();
    assert!(chat_key(&Source::new("irc", "group", "two words"), &rules).is_err());
    let odd = Source::new("whatsapp", "dm", "under_score@lid");
    assert_eq!(chat_key(&odd, &rules).unwrap().as_str(), "agent:main:whatsapp:dm:under_score");
}
