use super::*;
use crate::honcho::Audience;
use crate::honcho::settings::tests::settings;
use proptest::prelude::*;
use throughline_core::id::Generation;
use throughline_core::memory::Place;

pub(crate) fn scope() -> Scope {
    Scope {
        agent: "main".into(),
        chat: None,
        session: "20260528_093510_66bfaec7".parse().unwrap(),
        generation: Generation::default(),
        parent: None,
        platform: "cli".into(),
        user: None,
        user_name: None,
        place: Place::default(),
        title: None,
        document: None,
        meant: None,
    }
}

fn surroundings(directory: &str, repository: Option<&str>) -> HonchoSurroundings {
    HonchoSurroundings {
        directory: directory.into(),
        repository: repository.map(Into::into),
        audience: Audience::Many,
    }
}

fn called(configured: &str, chat: Option<&str>, title: Option<&str>) -> Naming {
    let scope =
        Scope { chat: chat.map(|chat| chat.parse().unwrap()), title: title.map(Into::into), ..scope() };
    naming(&settings(configured), &surroundings("/home/jan/my project", Some("garden")), &scope)
}

const CHAT: &str = "agent:main:telegram:dm:8439114563";

#[test]
fn p27_each_level_of_the_order() {
    let map = r#"{"sessions": {"/home/jan/my project": "house work"}}"#;
    for (configured, chat, title, name) in [
        // The name that was written down goes before all.
        (map, Some(CHAT), Some("a title"), "house-work"),
        (map, None, None, "house-work"),
        // Then what a person called it.
        ("{}", Some(CHAT), Some("a title: no 2"), "a-title-no-2"),
        (r#"{"sessionStrategy": "per-session"}"#, None, Some("a title"), "a-title"),
        // Then the chat, under every strategy.
        ("{}", Some(CHAT), None, "agent-main-telegram-dm-8439114563"),
        (r#"{"sessionStrategy": "per-session"}"#, Some(CHAT), None, "agent-main-telegram-dm-8439114563"),
        (r#"{"sessionStrategy": "global"}"#, Some(CHAT), None, "agent-main-telegram-dm-8439114563"),
        // Then the strategy: the terminal has no key.
        (r#"{"sessionStrategy": "per-session"}"#, None, None, "20260528_093510_66bfaec7"),
        (r#"{"sessionStrategy": "per-repo"}"#, None, None, "garden"),
        (r#"{"sessionStrategy": "per-directory"}"#, None, None, "my-project"),
        ("{}", None, None, "my-project"),
        (r#"{"sessionStrategy": "global", "workspace": "all"}"#, None, None, "all"),
    ] {
        assert_eq!(called(configured, chat, title).name, name, "{configured} {chat:?} {title:?}");
    }
}

#[test]
fn p27_outside_of_a_repository_the_directory_gives_the_name() {
    let settings = settings(r#"{"sessionStrategy": "per-repo"}"#);
    for (directory, name) in [("/srv/work/", "work"), ("/", "hermes"), ("", "hermes"), ("/日本", "hermes")]
    {
        assert_eq!(naming(&settings, &surroundings(directory, None), &scope()).name, name, "{directory}");
    }
}

#[test]
fn p27_where_nothing_is_left_to_read_the_next_level_applies() {
    let map = r#"{"sessions": {"/home/jan/my project": "…"}}"#;
    assert_eq!(called(map, None, Some("?!")).name, "my-project");
    assert_eq!(called(map, Some("::"), Some("---")).name, "my-project");
    assert_eq!(called("{}", Some(CHAT), Some("日本")).name, "agent-main-telegram-dm-8439114563");
    assert_eq!(
        called(r#"{"sessionStrategy": "per-session"}"#, Some("::"), None).name,
        "20260528_093510_66bfaec7"
    );
}

#[test]
fn p27_the_prefix_is_the_peers_and_also_for_chats() {
    let prefixed = |more: &str| format!(r#"{{"peerName": "Jan K.", "sessionPeerPrefix": true {more}}}"#);
    assert_eq!(called(&prefixed(""), Some("a:1"), None).name, "Jan-K-a-1");
    assert_eq!(called(&prefixed(""), None, Some("t")).name, "Jan-K-t");
    assert_eq!(called(&prefixed(""), None, None).name, "Jan-K-my-project");
    assert_eq!(called(&prefixed(r#", "sessionStrategy": "global", "workspace": "w""#), None, None).name, "w");
    assert_eq!(called(&prefixed(r#", "sessions": {"/home/jan/my project": "m"}"#), None, None).name, "m");
    assert_eq!(called(r#"{"peerName": "…", "sessionPeerPrefix": true}"#, Some("a:1"), None).name, "a-1");
    assert_eq!(called(r#"{"sessionPeerPrefix": true}"#, Some("a:1"), None).name, "a-1");
}

#[test]
fn p27_a_long_name_ends_in_a_hash_of_its_key_as_hermes_writes_it() {
    let key = format!("agent:main:matrix:{}", "!room:server-".repeat(15));
    let name = called("{}", Some(&key), None).name;
    assert!(name.len() <= 100 && name.starts_with("agent-main-matrix-room-server"), "{name}");
    assert!(name.ends_with(&format!("-{}", digest(&key, 8))), "{name}");
    assert_ne!(name, called("{}", Some(&format!("{key}!")), None).name);
}

#[test]
fn p27_keys_that_look_alike_are_told_apart_and_places_to_share_are_not() {
    let (one, other) = (called("{}", Some("a:b"), None), called("{}", Some("a/b"), None));
    assert_eq!(one.name, other.name);
    assert_ne!(one.otherwise, other.otherwise);
    assert_eq!(one.otherwise, Some(format!("a-b-{}", digest("a:b", 16))));
    // Two people who choose the same title do not mean the same conversation.
    let (one, other) = (called("{}", Some("a"), Some("t")), called("{}", Some("b"), Some("t")));
    assert_eq!(one.name, other.name);
    assert_ne!(one.otherwise, other.otherwise);
    for configured in ["{}", r#"{"sessionStrategy": "global"}"#, r#"{"sessionStrategy": "per-repo"}"#] {
        assert_eq!(called(configured, None, None).otherwise, None);
    }
    assert_eq!(called(r#"{"sessions": {"/home/jan/my project": "m"}}"#, Some("a"), None).otherwise, None);
}

#[test]
fn what_something_else_recorded_is_made_askable() {
    assert_eq!(valid("a-b_C9"), "a-b_C9");
    assert_eq!(valid("a:b"), format!("a-b-{}", digest("a:b", 16)));
    assert_ne!(valid("a:b"), valid("a/b"));
    assert!(is_valid(&valid("日本")) && is_valid(&valid("")) && is_valid(&valid(&"x".repeat(300))));
}

proptest! {
    #[test]
    fn p27_every_name_is_valid_and_its_other_one_is_another(
        title in proptest::option::of(".{0,150}"),
        chat in proptest::option::of("[!-~é日]{1,80}"),
        directory in ".{0,60}",
        peer in proptest::option::of("[^\"\\\\\\p{C}]{0,120}"),
        strategy in proptest::sample::select(vec!["per-session", "per-repo", "per-directory", "global"]),
    ) {
        let peer = peer.map(|peer| format!(r#""peerName": "{peer}","#)).unwrap_or_default();
        let settings = settings(&format!(r#"{{{peer} "sessionPeerPrefix": true, "sessionStrategy": "{strategy}"}}"#));
        let scope = Scope { title, chat: chat.map(|chat| chat.parse().unwrap()), ..scope() };
        let naming = naming(&settings, &surroundings(&directory, Some(&directory)), &scope);
        prop_assert!(is_valid(&naming.name), "{:?}", naming);
        if let Some(otherwise) = &naming.otherwise {
            prop_assert!(is_valid(otherwise) && *otherwise != naming.name, "{:?}", naming);
        }
    }

    #[test]
    fn p27_no_two_chats_share_both_names(one in "[a-z:/.-]{1,12}", other in "[a-z:/.-]{1,12}") {
        prop_assume!(one != other);
        let (one, other) = (called("{}", Some(&one), None), called("{}", Some(&other), None));
        prop_assert!(one.otherwise.is_none() || one.otherwise != other.otherwise);
    }
}
