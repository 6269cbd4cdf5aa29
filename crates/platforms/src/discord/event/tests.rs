use super::*;
use crate::discord::payload::DiscordChannel;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_core::redact::Secret;
use throughline_hermes::key::{KeyRules, chat_key};

const ME: u64 = 99;

fn channel(kind: u8, id: u64, parent: Option<u64>, name: &str) -> Arc<DiscordChannel> {
    let channel = json!({
        "id": id.to_string(), "type": kind, "name": name, "parent_id": parent.map(|id| id.to_string()),
        "guild_id": (kind != 1).then_some("7"),
    });
    Arc::new(serde_json::from_value(channel).unwrap())
}

fn place(kind: u8, name: &str) -> DiscordPlace {
    let is_thread = (10..=12).contains(&kind);
    DiscordPlace {
        channel: channel(kind, 500, is_thread.then_some(400), name),
        parent: is_thread.then(|| channel(0, 400, None, &format!("parent of {name}"))),
        guild: (kind != 1).then(|| format!("server of {name}").into()),
    }
}

fn message(fields: Value) -> DiscordMessage {
    let mut message = json!({
        "id": "1000", "channel_id": "500", "content": "hello", "type": 0,
        "author": {"id": "42", "username": "alice", "global_name": "Alice"},
    });
    for (name, value) in fields.as_object().unwrap() {
        message[name.as_str()] = value.clone();
    }
    serde_json::from_value(message).unwrap()
}

fn settings() -> DiscordSettings {
    DiscordSettings::new(Secret::new("token"))
}

fn read(
    settings: &DiscordSettings,
    message: &DiscordMessage,
    place: &DiscordPlace,
    told: Delivered,
) -> Option<ReadMessage> {
    DiscordEventReader { settings, account: "99", me: Id(ME) }.read(message, place, told)
}

fn incoming(fields: Value, place: &DiscordPlace) -> Option<Incoming> {
    read(&settings(), &message(fields), place, Delivered::Written).map(|read| read.incoming)
}

proptest! {
    #[test]
    fn p1_chat_keys_are_hermes_keys_and_know_no_names(
        (channel, user, message_id) in (1u64.., 1u64..99, 1u64..),
        kind in prop_oneof![Just(0u8), Just(1), Just(2), Just(5), Just(10), Just(11), Just(12), Just(13)],
        mentioned: bool,
        auto_thread: bool,
        names in ("\\PC{1,20}", "\\PC{1,20}"),
    ) {
        let settings = DiscordSettings { auto_thread, ..settings() };
        let key = |name: &str| {
            let mut place = place(kind, name);
            let mut moved = (*place.channel).clone();
            moved.id = Id(channel);
            place.channel = Arc::new(moved);
            let content = if mentioned { format!("<@{ME}> {name}") } else { name.to_owned() };
            let message = message(json!({
                "id": message_id.to_string(), "channel_id": channel.to_string(), "content": content,
                "author": {"id": user.to_string(), "username": name},
            }));
            let read = read(&settings, &message, &place, Delivered::Written).unwrap();
            let source = &read.incoming.source;
            // What Hermes wrote down leads to the same chat.
            let again = throughline_hermes::source::Source::from_json(&source.to_json()).unwrap();
            assert_eq!(&again, source);
            chat_key(source, &KeyRules::default()).unwrap().to_string()
        };
        let begun = auto_thread && mentioned && matches!(kind, 0 | 5);
        let expected = match kind {
            1 => format!("agent:main:discord:dm:{channel}"),
            10..=12 => format!("agent:main:discord:thread:{channel}:{channel}"),
            _ if begun => format!("agent:main:discord:thread:{message_id}:{message_id}"),
            _ => format!("agent:main:discord:group:{channel}:{user}"),
        };
        prop_assert_eq!(key(&names.0), expected.clone());
        prop_assert_eq!(key(&names.1), expected);
    }

    #[test]
    fn a_thread_has_a_name_discord_takes(content in "\\PC{0,300}") {
        let name = thread_name(&content);
        prop_assert!((1..=80).contains(&name.chars().count()));
    }
}

#[test]
fn a_direct_message_is_meant_for_us() {
    let incoming = incoming(json!({}), &place(1, "x")).unwrap();
    assert!(incoming.addressed && !incoming.mentioned && !incoming.from_bot);
    assert_eq!(incoming.identity, ["1000"]);
    assert_eq!(incoming.source.chat_name.as_deref(), Some("alice"));
    assert_eq!(incoming.source.user_name.as_deref(), Some("Alice"));
    assert_eq!(incoming.source.scope_id, None);
    assert_eq!(incoming.reply_to.reply_to.as_deref(), Some("1000"));
    assert_eq!(incoming.at, Id(1000).at());
}

#[test]
fn a_mention_is_taken_out_and_begins_a_thread() {
    let message = message(
        json!({"content": "<@99>  /status <@!99>", "guild_id": "7", "member": {"roles": ["3", "4"]}}),
    );
    let read = read(&settings(), &message, &place(0, "general"), Delivered::Written).unwrap();
    let incoming = read.incoming;
    assert_eq!(incoming.text, "/status");
    assert!(incoming.addressed && incoming.mentioned);
    assert_eq!(incoming.roles, ["3", "4"]);
    assert_eq!(incoming.source.scope_id.as_deref(), Some("7"));
    assert_eq!(incoming.source.parent_chat_id.as_deref(), Some("500"));
    assert_eq!(incoming.source.chat_name.as_deref(), Some("server of general / #general"));
    assert_eq!(incoming.source.thread_id.as_deref(), Some("1000"));
    assert!(incoming.source.auto_thread_created);
    assert_eq!(incoming.reply_to.thread.as_deref(), Some("1000"));
    assert_eq!(incoming.reply_to.reply_to.as_deref(), Some("500/1000"));
    assert_eq!(read.thread, Some(NewThread { channel: Id(500), message: Id(1000), name: "/status".into() }));
}

#[test]
fn no_thread_is_begun_where_none_is_wanted() {
    let list = |entry: &str| vec![entry.to_owned()];
    let mention = json!({"content": "<@99> hi"});
    for (settings, fields, kind) in [
        (DiscordSettings { auto_thread: false, ..settings() }, mention.clone(), 0),
        (DiscordSettings { no_thread_channels: list("500"), ..settings() }, mention.clone(), 0),
        (DiscordSettings { no_thread_channels: list("#general"), ..settings() }, mention.clone(), 0),
        (DiscordSettings { free_response_channels: list("general"), ..settings() }, mention.clone(), 0),
        (DiscordSettings { free_response_channels: list("*"), ..settings() }, mention.clone(), 0),
        (settings(), json!({"content": "hi"}), 0),
        (settings(), json!({"content": "<@99> hi", "type": 19}), 0),
        (settings(), mention.clone(), 1),
        (settings(), mention.clone(), 2),
        (settings(), mention.clone(), 11),
    ] {
        let read =
            read(&settings, &message(fields.clone()), &place(kind, "general"), Delivered::Written).unwrap();
        assert_eq!(read.thread, None, "{fields} in kind {kind}");
        assert!(!read.incoming.source.auto_thread_created);
    }
    let eager = DiscordSettings { require_mention: false, ..settings() };
    assert!(
        read(&eager, &message(json!({})), &place(0, "general"), Delivered::Written).unwrap().thread.is_some()
    );
}

#[test]
fn what_nobody_says_to_us_is_left_out() {
    let other_bot = json!([{"id": "5", "username": "other", "bot": true}]);
    let human = json!([{"id": "6", "username": "bob"}]);
    for fields in [
        json!({"author": {"id": "99", "username": "me", "bot": true}}), // our own words
        json!({"type": 7}),                                             // a member joined
        json!({"type": 21}),                                            // a thread's first message, again
        json!({"content": "<@5> do it", "mentions": other_bot}),
        json!({"content": "<@6> lunch?", "mentions": human}),
    ] {
        assert!(incoming(fields.clone(), &place(0, "general")).is_none(), "{fields}");
    }
    let free = DiscordSettings { free_response_channels: vec!["general".into()], ..settings() };
    let lunch = message(json!({"content": "<@6> lunch?", "mentions": human}));
    assert!(read(&free, &lunch, &place(0, "general"), Delivered::Written).is_some());
    assert!(incoming(json!({"content": "<@6> <@99>?", "mentions": human}), &place(0, "general")).is_some());
}

#[test]
fn bots_are_told_apart_and_may_have_to_name_us() {
    let bot = json!({"author": {"id": "5", "username": "other", "bot": true}, "mentions": [{"id": "99", "username": "me"}]});
    assert!(incoming(bot.clone(), &place(0, "general")).unwrap().mentioned);
    let strict = DiscordSettings { bots_require_inline_mention: true, ..settings() };
    let read = read(&strict, &message(bot), &place(0, "general"), Delivered::Written).unwrap();
    assert!(read.incoming.from_bot && !read.incoming.mentioned);
    let hook = incoming(json!({"webhook_id": "8"}), &place(0, "general")).unwrap();
    assert!(hook.from_bot);
}

#[test]
fn an_answer_quotes_what_it_answers() {
    let ours = json!({
        "type": 19,
        "message_reference": {"message_id": "900", "channel_id": "500"},
        "referenced_message": {
            "id": "900", "channel_id": "500", "content": "I said so", "author": {"id": "99", "username": "me", "bot": true},
            "attachments": [{"url": "https://cdn.discordapp.com/a.png", "content_type": "image/png"}],
        },
    });
    let incoming = incoming(ours, &place(0, "general")).unwrap();
    let quoted = incoming.quoted.unwrap();
    assert_eq!((quoted.id.as_str(), quoted.text.as_deref(), quoted.ours), ("900", Some("I said so"), true));
    assert!(incoming.addressed && !incoming.mentioned);
    assert_eq!(incoming.attachments[0].media, Media::Image);
    let gone =
        message(json!({"type": 19, "message_reference": {"message_id": "900"}, "referenced_message": null}));
    assert_eq!(quoted_of(&gone).text, None);
}

fn quoted_of(message: &DiscordMessage) -> Quoted {
    quoted(message, Id(ME)).unwrap()
}

#[test]
fn what_is_passed_on_is_read_and_files_have_their_kind() {
    let message = message(json!({
        "content": "",
        "message_reference": {"type": 1, "message_id": "900"},
        "message_snapshots": [{"message": {"content": "news", "attachments": [
            {"url": "u1", "content_type": "video/mp4"}, {"url": "u2", "filename": "a.pdf", "size": 12}]}}],
        "attachments": [{"url": "u0", "content_type": "audio/ogg", "waveform": "AA"}, {"nonsense": true}, 7],
    }));
    let incoming = read(&settings(), &message, &place(1, "x"), Delivered::Written).unwrap().incoming;
    assert_eq!(incoming.text, "news");
    assert_eq!(incoming.quoted, None);
    let kinds: Vec<Media> = incoming.attachments.iter().map(|file| file.media).collect();
    assert_eq!(kinds, [Media::Voice, Media::Video, Media::Document]);
    assert_eq!(incoming.attachments[2].bytes, Some(12));
}

#[test]
fn a_change_has_an_identity_of_its_own_and_a_preview_is_none() {
    let place = place(0, "general");
    let edited = message(json!({"content": "<@99> hi", "edited_timestamp": "2026-01-01T00:00:00+00:00"}));
    let change = read(&settings(), &edited, &place, Delivered::Changed).unwrap();
    assert_eq!(change.incoming.identity, ["1000", "edit", "2026-01-01T00:00:00+00:00"]);
    assert!(change.incoming.edited);
    assert_eq!((change.thread, change.incoming.source.chat_id.as_str()), (None, "500"));
    assert!(read(&settings(), &message(json!({})), &place, Delivered::Changed).is_none());
    // One that got a thread is changed there.
    let begun =
        message(json!({"content": "<@99> hi", "flags": 32, "edited_timestamp": "2026-01-01T00:00:00+00:00"}));
    let change = read(&settings(), &begun, &place, Delivered::Changed).unwrap();
    assert_eq!((change.thread, change.incoming.source.chat_id.as_str()), (None, "1000"));
}

#[test]
fn a_thread_that_is_ours_needs_no_mention_and_a_post_says_where_it_is() {
    let mut place = place(11, "help");
    let mut channel = (*place.channel).clone();
    channel.owner_id = Some(Id(ME));
    place.channel = Arc::new(channel);
    assert!(incoming(json!({}), &place).unwrap().addressed);
    let mut forum = (*place.parent.clone().unwrap()).clone();
    forum.kind = 15;
    forum.topic = Some("ask here".into());
    place.parent = Some(Arc::new(forum));
    let source = incoming(json!({}), &place).unwrap().source;
    assert_eq!(source.chat_name.as_deref(), Some("server of help / parent of help / help"));
    assert_eq!(source.chat_topic.as_deref(), Some("ask here"));
    assert_eq!(source.parent_chat_id.as_deref(), Some("400"));
}

#[test]
fn a_thread_is_named_after_its_first_words() {
    for (content, name) in [
        ("<@99> fix <#12> the  <@&3>build", "fix the build"),
        ("<@99>", "Hermes"),
        ("a < b and <b>", "a < b and <b>"),
        ("", "Hermes"),
    ] {
        assert_eq!(thread_name(content), name);
    }
}
