use super::*;
use proptest::prelude::*;
use serde_json::json;
use throughline_hermes::key::{KeyRules, chat_key};

fn me() -> SlackApp {
    SlackApp { user: "UBOT".to_owned(), bot: Some("BBOT".to_owned()), team: Some("T1".to_owned()) }
}

fn incoming_with(event: Value, options: &SlackOptions) -> Option<Incoming> {
    let payload = json!({"team_id": "T1", "event": event});
    let me = me();
    let message = SlackMessage::read(&payload, &me)?;
    let kind = message.kind.unwrap_or(ChannelKind::Channel);
    Some(SlackEventReader { me: &me, account: "A1", options }.message(&message, kind, None))
}

fn incoming(event: Value) -> Option<Incoming> {
    incoming_with(event, &SlackOptions::default())
}

fn key(incoming: &Incoming) -> String {
    chat_key(&incoming.source, &KeyRules::default()).unwrap().to_string()
}

#[test]
fn chat_keys_are_those_of_hermes() {
    let flat = SlackOptions { reply_in_thread: false, ..SlackOptions::default() };
    let one_each = SlackOptions { dm_top_level_threads_as_sessions: false, ..SlackOptions::default() };
    let default = SlackOptions::default();
    for (event, options, expected, reply) in [
        // channel_type, channel, ts, thread_ts
        (("im", "D1", "5.0", None), &default, "agent:main:slack:dm:D1:5.0", Some("5.0")),
        (("im", "D1", "5.0", Some("4.0")), &default, "agent:main:slack:dm:D1:4.0", Some("4.0")),
        (("im", "D1", "5.0", None), &one_each, "agent:main:slack:dm:D1", None),
        (("im", "D1", "5.0", None), &flat, "agent:main:slack:dm:D1:5.0", None),
        (("mpim", "G1", "5.0", None), &default, "agent:main:slack:dm:G1:5.0", Some("5.0")),
        (("channel", "C1", "5.0", None), &default, "agent:main:slack:group:C1:5.0", Some("5.0")),
        (("channel", "C1", "5.0", Some("5.0")), &default, "agent:main:slack:group:C1:5.0", Some("5.0")),
        (("group", "G2", "5.0", Some("4.0")), &default, "agent:main:slack:group:G2:4.0", Some("4.0")),
        (("channel", "C1", "5.0", None), &flat, "agent:main:slack:group:C1:U1", None),
        (("channel", "C1", "5.0", Some("5.0")), &flat, "agent:main:slack:group:C1:U1", None),
        (("channel", "C1", "5.0", Some("4.0")), &flat, "agent:main:slack:group:C1:4.0", Some("4.0")),
    ] {
        let (channel_type, channel, ts, thread) = event;
        let event = json!({
            "type": "message", "channel_type": channel_type, "channel": channel, "ts": ts, "user": "U1",
            "text": "hi", "thread_ts": thread,
        });
        let incoming = incoming_with(event, options).unwrap();
        assert_eq!(key(&incoming), expected, "{channel_type} {ts} {thread:?}");
        assert_eq!(incoming.reply_to.thread.as_deref(), reply, "{channel_type} {ts} {thread:?}");
    }
}

#[test]
fn a_mention_and_its_message_are_one() {
    let message = json!({"type": "message", "channel_type": "channel", "channel": "C1", "ts": "1700000000.000100", "user": "U1", "text": "<@UBOT> hi &amp; bye"});
    let mention = json!({"type": "app_mention", "channel": "C1", "ts": "1700000000.000100", "user": "U1", "text": "<@UBOT> hi &amp; bye"});
    let (message, mention) = (incoming(message).unwrap(), incoming(mention).unwrap());
    assert_eq!(message, mention);
    assert_eq!(message.identity, ["C1", "1700000000.000100"]);
    assert_eq!(message.text, "hi & bye");
    assert!(message.addressed && message.mentioned);
    assert_eq!(message.at, Time(1_700_000_000_000_100));
}

#[test]
fn who_is_meant_is_said_and_not_judged() {
    let event = |more: Value| {
        let mut event = json!({"type": "message", "channel_type": "channel", "channel": "C1", "ts": "2.0", "user": "U1", "text": "hi"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let strict = SlackOptions { strict_mention: true, ..SlackOptions::default() };
    let default = SlackOptions::default();
    for (more, options, addressed, mentioned) in [
        (json!({}), &default, false, false),
        (json!({"text": "hey <@UBOT>"}), &default, true, true),
        (json!({"text": "hey <@UBOT2>"}), &default, false, false),
        (json!({"thread_ts": "1.0", "parent_user_id": "UBOT"}), &default, true, false),
        (json!({"thread_ts": "1.0", "parent_user_id": "UBOT"}), &strict, false, false),
        (json!({"thread_ts": "1.0", "parent_user_id": "U2"}), &default, false, false),
        (json!({"channel_type": "im"}), &strict, true, false),
        (json!({"channel_type": "mpim"}), &default, false, false),
        (json!({"channel_type": "mpim", "text": "<@UBOT> x"}), &strict, true, true),
    ] {
        let incoming = incoming_with(event(more.clone()), options).unwrap();
        assert_eq!((incoming.addressed, incoming.mentioned), (addressed, mentioned), "{more}");
    }
}

#[test]
fn what_is_no_message_for_us_is_none() {
    for event in [
        json!({"type": "message", "channel": "C1", "ts": "1.0", "user": "UBOT", "text": "ours"}),
        json!({"type": "message", "channel": "C1", "ts": "1.0", "bot_id": "BBOT", "text": "ours"}),
        json!({"type": "message", "subtype": "message_deleted", "channel": "C1", "ts": "1.0", "user": "U1"}),
        json!({"type": "message", "subtype": "channel_join", "channel": "C1", "ts": "1.0", "user": "U1"}),
        json!({"type": "message", "subtype": "of_a_later_slack", "channel": "C1", "ts": "1.0", "user": "U1"}),
        json!({"type": "message", "channel": "C1", "user": "U1", "text": "no ts"}),
        json!({"type": "message", "ts": "1.0", "user": "U1", "text": "no channel"}),
        json!({"type": "message", "channel": 7, "ts": ["1.0"], "text": {}}),
        json!({"type": "reaction_added", "user": "U1"}),
        json!({"type": 7}),
        json!({}),
        json!(null),
        // A preview, and an edit of ours.
        json!({"type": "message", "subtype": "message_changed", "channel": "C1", "ts": "3.0",
            "message": {"ts": "1.0", "user": "U1", "text": "same"}, "previous_message": {"text": "same"}}),
        json!({"type": "message", "subtype": "message_changed", "channel": "C1", "ts": "3.0",
            "message": {"ts": "1.0", "user": "UBOT", "bot_id": "BBOT", "text": "b", "edited": {"ts": "3.0"}}, "previous_message": {"text": "a"}}),
    ] {
        assert_eq!(incoming(event.clone()), None, "{event}");
    }
}

#[test]
fn a_change_of_words_has_its_own_identity() {
    let event = json!({"type": "message", "subtype": "message_changed", "channel": "C1", "channel_type": "channel", "ts": "3.0",
        "message": {"ts": "1.0", "user": "U1", "text": "after", "edited": {"ts": "3.0"}}, "previous_message": {"text": "before"}});
    let incoming = incoming(event).unwrap();
    assert_eq!((incoming.text.as_str(), incoming.edited), ("after", true));
    assert_eq!(incoming.identity, ["C1", "1.0", "edit", "3.0"]);
}

#[test]
fn files_cards_and_programs_are_read() {
    let event = json!({
        "type": "message", "subtype": "file_share", "channel_type": "im", "channel": "D1", "ts": "1.0", "user": "U1", "text": "",
        "files": [
            {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 7, "url_private_download": "https://files.slack.com/a"},
            {"id": "F2", "name": "v.mp4", "mimetype": "video/mp4", "subtype": "slack_audio", "url_private": "https://files.slack.com/v"},
            {"id": "F3", "file_access": "check_file_info"},
            {"id": "F4", "mode": "tombstone"},
            "rubbish",
        ],
    });
    let shared = incoming(event).unwrap();
    let shown: Vec<_> = shared.attachments.iter().map(|file| (file.media, file.handle.as_str())).collect();
    assert_eq!(
        shown,
        [
            (Media::Image, "https://files.slack.com/a"),
            (Media::Voice, "https://files.slack.com/v"),
            (Media::Document, "file:F3"),
        ]
    );
    let event = json!({
        "type": "message", "subtype": "bot_message", "channel_type": "channel", "channel": "C1", "ts": "1.0", "bot_id": "B9", "username": "alerts", "text": "",
        "attachments": [{"title": "Disk &lt; 5 %", "title_link": "https://x.y", "text": "host a"}],
    });
    let card = incoming(event).unwrap();
    assert!(card.from_bot);
    assert_eq!(card.text, "📎 [Disk < 5 %](https://x.y)\n   host a");
    assert_eq!(card.source.user_id, None);
    assert_eq!(card.source.user_name.as_deref(), Some("alerts"));
}

#[test]
fn commands_come_by_slash_by_name_and_by_exclamation_mark() {
    let options = SlackOptions { commands: ["stop".to_owned()].into(), ..SlackOptions::default() };
    let reader = SlackEventReader { me: &me(), account: "A1", options: &options };
    for (command, text, expected) in [
        ("/stop", "", "/stop"),
        ("/title", " a &amp; b ", "/title a & b"),
        ("/hermes", "", "/help"),
        ("/hermes", "stop now", "/stop now"),
        ("/hermes", "how are you", "how are you"),
    ] {
        let payload = json!({"command": command, "text": text, "channel_id": "C1", "user_id": "U1", "trigger_id": "7.1", "team_id": "T1"});
        let incoming = reader.slash(&payload, Time(9)).unwrap();
        assert_eq!(incoming.text, expected);
        assert_eq!(key(&incoming), "agent:main:slack:group:C1:U1");
        assert_eq!(incoming.identity, ["command", "7.1"]);
    }
    assert_eq!(reader.slash(&json!({"command": "/stop"}), Time(9)), None);
    for (text, expected) in
        [("!stop now", "/stop now"), ("!nice work", "!nice work"), ("!", "!"), ("!STOP@bot", "/STOP@bot")]
    {
        let event = json!({"type": "message", "channel_type": "im", "channel": "D1", "ts": "1.0", "user": "U1", "text": text});
        assert_eq!(incoming_with(event, &options).unwrap().text, expected);
    }
}

#[test]
fn a_press_names_the_call_and_who_pressed() {
    let reader = SlackEventReader { me: &me(), account: "A1", options: &SlackOptions::default() };
    let call = "20260528_093510_66bfaec7/3/1/0";
    let press = |action: &str, value: &str| {
        reader.press(&json!({
            "type": "block_actions", "user": {"id": "U1", "username": "ann"}, "channel": {"id": "C1"}, "team": {"id": "T1"},
            "message": {"ts": "2.0", "thread_ts": "1.0"}, "actions": [{"action_id": action, "value": value}],
        }))
    };
    let granted = press("throughline:session", call).unwrap();
    assert_eq!(granted.verdict, Verdict::Granted(Grant::Session));
    assert_eq!(granted.call.to_string(), call);
    assert_eq!(
        (granted.source.user_id.as_deref(), granted.source.thread_id.as_deref()),
        (Some("U1"), Some("1.0"))
    );
    let said = press("throughline:choice:1", &format!("{call}\nthe second one")).unwrap();
    assert_eq!(said.verdict, Verdict::Said("the second one".to_owned()));
    assert_eq!(press("throughline:choice:1", call), None);
    assert_eq!(press("somebody_else", call), None);
    assert_eq!(press("throughline:once", "rubbish"), None);
    assert_eq!(reader.press(&json!({"actions": []})), None);
}

fn id() -> impl Strategy<Value = String> {
    "[A-Z0-9]{3,11}"
}

proptest! {
    /// P2: the key is made of ids, and only of ids.
    #[test]
    fn p2_names_and_words_do_not_move_a_chat(
        channel in id(), user in id(), ts in "[0-9]{1,10}\\.[0-9]{6}", thread in prop::option::of("[0-9]{1,10}\\.[0-9]{6}"),
        kind in prop::sample::select(vec!["im", "mpim", "channel", "group"]),
        names in prop::collection::vec(".{0,20}", 4), flat in any::<bool>(), own in any::<bool>(),
    ) {
        prop_assume!(user != "UBOT");
        let options = SlackOptions { reply_in_thread: !flat, dm_top_level_threads_as_sessions: own, ..SlackOptions::default() };
        let event = |text: &str, name: &str| json!({
            "type": "message", "channel_type": kind, "channel": channel, "user": user, "ts": ts, "thread_ts": thread,
            "text": text, "username": name, "user_profile": {"real_name": name}, "channel_name": name,
        });
        let one = incoming_with(event(&names[0], &names[1]), &options).unwrap();
        let other = incoming_with(event(&names[2], &names[3]), &options).unwrap();
        prop_assert_eq!(key(&one), key(&other));
        prop_assert_eq!(&one.identity, &other.identity);
        prop_assert!(!one.identity.is_empty());
        let kind = if kind == "im" || kind == "mpim" { "dm" } else { "group" };
        let start = format!("agent:main:slack:{}:{}", kind, channel);
        prop_assert!(key(&one).starts_with(&start));
    }

    #[test]
    fn no_event_is_too_strange_to_read(text in ".{0,80}", number in any::<i64>(), list in prop::collection::vec(any::<bool>(), 0..3)) {
        let values = [json!(text), json!(number), json!(list), json!(null), json!({"text": text})];
        for value in &values {
            for name in ["type", "subtype", "channel", "ts", "user", "text", "files", "attachments", "thread_ts", "message"] {
                let mut event = json!({"type": "message", "channel": "C1", "ts": "1.0", "user": "U1", "text": "x"});
                event[name] = value.clone();
                let _ = incoming(event);
            }
        }
    }
}
