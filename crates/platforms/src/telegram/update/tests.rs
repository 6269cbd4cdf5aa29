use super::*;
use proptest::prelude::*;
use serde_json::json;
use throughline_hermes::key::{KeyRules, chat_key};

fn me() -> TelegramBot {
    TelegramBot { id: 4242, username: "our_bot".to_owned() }
}

fn read_one(update: Value) -> TelegramUpdateEvent {
    read(
        &update,
        TelegramUpdateReader {
            me: &me(),
            topics: &[],
            exclusive: true,
            patience: &TelegramTimeouts::default(),
        },
    )
}

fn message_of(update: Value) -> Incoming {
    match read_one(update) {
        TelegramUpdateEvent::Message(incoming) => *incoming,
        other => panic!("no message: {other:?}"),
    }
}

fn key(source: &Source) -> String {
    chat_key(source, &KeyRules::default()).unwrap().to_string()
}

/// A chat as Telegram may describe it, apart from names.
#[derive(Clone, Debug)]
struct UpdateCursor {
    kind: &'static str,
    chat: i64,
    user: Option<u64>,
    thread: Option<i32>,
    is_topic: bool,
    is_forum: bool,
}

impl UpdateCursor {
    fn update(&self, names: &[String; 4], edited: bool) -> Value {
        let [title, first, last, username] = names;
        let mut chat = json!({"id": self.chat, "type": self.kind, "username": username});
        match self.kind {
            "private" => (chat["first_name"], chat["last_name"]) = (json!(first), json!(last)),
            _ => chat["title"] = json!(title),
        }
        if self.is_forum {
            chat["is_forum"] = json!(true);
        }
        let mut message = json!({"message_id": 5, "date": 1_700_000_000, "chat": chat, "text": "hi"});
        if let Some(user) = self.user {
            message["from"] = json!({"id": user, "is_bot": false, "first_name": first, "last_name": last, "username": username});
        }
        if let Some(thread) = self.thread {
            message["message_thread_id"] = json!(thread);
        }
        if self.is_topic {
            message["is_topic_message"] = json!(true);
        }
        let kind = match (self.kind, edited) {
            ("channel", false) => "channel_post",
            ("channel", true) => "edited_channel_post",
            (_, false) => "message",
            (_, true) => "edited_message",
        };
        json!({"update_id": 9, kind: message})
    }

    /// What Hermes would call it, said once more and in other words.
    fn key(&self) -> String {
        let is_group = matches!(self.kind, "group" | "supergroup");
        let forum = is_group && self.is_forum;
        let thread = match self.thread {
            Some(thread) if forum || (self.is_topic && self.kind != "channel") => Some(thread.to_string()),
            None if forum => Some("1".to_owned()),
            _ => None,
        };
        let chat = self.chat.to_string();
        let user = self.user.map(|user| user.to_string());
        let parts: Vec<String> = match self.kind {
            "private" => ["dm".to_owned(), chat].into_iter().chain(thread).collect(),
            "channel" => {
                let user = user.unwrap_or_else(|| chat.clone());
                vec!["channel".to_owned(), chat, user]
            }
            // In a topic all share one session; outside, each has their own.
            _ if thread.is_some() => ["group".to_owned(), chat].into_iter().chain(thread).collect(),
            _ => ["group".to_owned(), chat].into_iter().chain(user).collect(),
        };
        format!("agent:main:telegram:{}", parts.join(":"))
    }
}

fn places() -> impl Strategy<Value = UpdateCursor> {
    let kind = prop_oneof![Just("private"), Just("group"), Just("supergroup"), Just("channel")];
    (
        kind,
        any::<i64>(),
        proptest::option::of(1..u64::from(u32::MAX)),
        proptest::option::of(1..i32::MAX),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(kind, chat, user, thread, is_topic, is_forum)| UpdateCursor {
            kind,
            chat,
            user: user.filter(|user| *user != 4242),
            thread,
            is_topic,
            is_forum,
        })
}

fn names() -> impl Strategy<Value = [String; 4]> {
    ["\\PC{0,20}", "\\PC{1,20}", "\\PC{0,20}", "[a-z_]{0,20}"]
}

proptest! {
    #[test]
    fn p3_a_chat_keeps_its_key_whatever_it_is_called(place in places(), before in names(), after in names()) {
        let incoming = message_of(place.update(&before, false));
        prop_assert_eq!(key(&incoming.source), place.key());
        let renamed = message_of(place.update(&after, false));
        prop_assert_eq!(key(&renamed.source), place.key());
        prop_assert_eq!(&renamed.identity, &incoming.identity);
        prop_assert_eq!(&renamed.reply_to, &incoming.reply_to);
        let edited = message_of(place.update(&after, true));
        prop_assert_eq!(key(&edited.source), place.key());
        // What is written to disk leads to the same chat when it is read again.
        let again = Source::from_json(&incoming.source.to_json()).unwrap();
        prop_assert_eq!(key(&again), place.key());
    }

    #[test]
    fn whatever_comes_is_read_or_passed_over(text in "\\PC{0,60}", offset in any::<u16>(), length in any::<u16>()) {
        let _ = read_one(json!({"update_id": 1, "message": {
            "message_id": 1, "date": 1, "chat": {"id": 1, "type": "group", "title": ""}, "text": text,
            "entities": [{"type": "mention", "offset": offset, "length": length}, {"type": "bot_command", "offset": 0, "length": length}],
            "from": {"id": 1, "is_bot": false, "first_name": ""},
        }}));
    }
}

fn in_group(text: &str) -> Value {
    json!({"update_id": 1, "message": {
        "message_id": 1, "date": 1, "chat": {"id": -5, "type": "group", "title": "Team"}, "text": text,
        "from": {"id": 1, "is_bot": false, "first_name": "Ada"},
    }})
}

fn with_entity(text: &str, kind: &str, marked: &str) -> Value {
    let before = &text[..text.find(marked).unwrap()];
    let mut update = in_group(text);
    update["message"]["entities"] = json!([{
        "type": kind, "offset": before.encode_utf16().count(), "length": marked.encode_utf16().count(),
    }]);
    update
}

#[test]
fn a_name_is_ours_only_where_telegram_marks_it_as_one() {
    for (update, mentioned, text) in [
        (with_entity("@Our_Bot, hello", "mention", "@Our_Bot"), true, "hello"),
        (with_entity("😀 @our_bot hello", "mention", "@our_bot"), true, "😀 @our_bot hello"),
        (with_entity("@our_bot", "mention", "@our_bot"), true, "@our_bot"),
        (with_entity("/new@our_bot now", "bot_command", "/new@our_bot"), true, "/new now"),
        (with_entity("/new now", "bot_command", "/new"), false, "/new now"),
        (with_entity("see a@our_bot.example", "email", "a@our_bot.example"), false, "see a@our_bot.example"),
        (in_group("hello @our_bot!"), true, "hello @our_bot!"),
        (in_group("@our_bot_too hello"), false, "@our_bot_too hello"),
        (in_group("mail a@our_bot.example"), false, "mail a@our_bot.example"),
    ] {
        let incoming = message_of(update.clone());
        assert_eq!((incoming.mentioned, incoming.text.as_str()), (mentioned, text), "{update}");
        assert_eq!(incoming.addressed, mentioned, "{update}");
    }
}

#[test]
fn what_is_for_another_bot_is_not_for_us() {
    for update in [
        with_entity("/new@other_bot", "bot_command", "/new@other_bot"),
        with_entity("ask @other_bot", "mention", "@other_bot"),
    ] {
        assert!(matches!(read_one(update), TelegramUpdateEvent::Nothing(_)));
    }
    let (me, patience) = (me(), TelegramTimeouts::default());
    let open = TelegramUpdateReader { me: &me, topics: &[], exclusive: false, patience: &patience };
    assert!(matches!(
        read(&with_entity("ask @other_bot", "mention", "@other_bot"), open),
        TelegramUpdateEvent::Message(_)
    ));
    let people = with_entity("ask @grace", "mention", "@grace");
    assert!(!message_of(people).mentioned);
}

#[test]
fn our_own_messages_and_topics_first_lines_are_nothing() {
    let mut own = in_group("I said this");
    own["message"]["from"] = json!({"id": 4242, "is_bot": true, "first_name": "Us"});
    assert!(matches!(read_one(own), TelegramUpdateEvent::Nothing(_)));
    let mut first = in_group("in a topic that we made");
    first["message"]["reply_to_message"] = json!({
        "message_id": 7, "date": 1, "chat": {"id": -5, "type": "group", "title": "Team"},
        "from": {"id": 4242, "is_bot": true, "first_name": "Us"},
        "forum_topic_created": {"name": "New", "icon_color": 1},
    });
    let incoming = message_of(first);
    assert_eq!((incoming.quoted, incoming.addressed), (None, false));
}

#[test]
fn p8_only_parts_of_something_longer_wait_for_the_rest() {
    let gathers = |fields: Value| {
        let chat = json!({"id": 42, "type": "private", "first_name": "Ada"});
        let mut message = json!({"message_id": 5, "date": 1_700_000_000, "chat": chat});
        message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let told = |kind: &str| message_of(json!({"update_id": 9, kind: message})).gathers;
        assert_eq!(told("edited_message"), None, "who changes a text adds nothing to it");
        told("message")
    };
    let photo = json!([{"file_id": "p", "file_unique_id": "u", "width": 1, "height": 1}]);
    let TelegramTimeouts { album, split, .. } = TelegramTimeouts::default();
    assert_eq!(gathers(json!({"text": "hi"})), None);
    assert_eq!(gathers(json!({"photo": photo})), None);
    assert_eq!(gathers(json!({"photo": photo, "media_group_id": "1"})), Some(album));
    assert_eq!(gathers(json!({"text": "x".repeat(3_999)})), None);
    assert_eq!(gathers(json!({"text": "x".repeat(4_000)})), Some(split));
    assert_eq!(gathers(json!({"text": "\u{1f600}".repeat(2_000)})), Some(split), "Telegram counts in UTF-16");
}
