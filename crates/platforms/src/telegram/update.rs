//! What Telegram tells of: a message of a person, a button that was pressed, or nothing for us.
//!
//! The source is built exactly as Hermes builds it, because chat keys are made of it: a forum's
//! messages belong to their topic (those without one to topic `1`, which is what Telegram calls its
//! General topic), and the number that an ordinary answer carries as its "thread" is no thread.
//!
//! An update of an unknown form costs at most itself. If it is a message whose novelty
//! lies beside what we read, it is read without the novelty.
//!
//! Deliberately absent: who may write, and what must be said to be heard. That is the intake's.

use super::TelegramTimeouts;
use super::button::{self, QuestionReference};
use frankenstein::stickers::Sticker;
use frankenstein::types::{
    CallbackQuery, Chat, ChatType, MaybeInaccessibleMessage, Message, MessageEntity, MessageEntityType, User,
};
use frankenstein::updates::{Update, UpdateContent};
use serde_json::{Map, Value};
use std::time::Duration;
use throughline_core::Time;
use throughline_core::input::Destination;
use throughline_core::tool::Verdict;
use throughline_hermes::source::Source;

use crate::incoming::{Attachment, Incoming, Media, Quoted};

pub(crate) const PLATFORM: &str = "telegram";
/// What Telegram calls a forum's General topic, although its messages do not say so.
pub(crate) const GENERAL: &str = "1";

/// Clients cut a text at a space if there is one, so somewhat before the limit of 4,096. As in Hermes.
const CUT_UNITS_MIN: usize = 4_000;

/// Who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TelegramBot {
    pub id: u64,
    /// In small letters, without an @.
    pub username: String,
}

/// A topic that the configuration knows by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTopic {
    pub chat: String,
    pub thread: String,
    pub name: Option<String>,
    pub skill: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TelegramUpdateEvent {
    Message(Box<Incoming>),
    Pressed(Box<Pressed>),
    /// Nothing for us, and why.
    Nothing(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pressed {
    /// By which Telegram finds the button's press, for the answer.
    pub query: String,
    pub source: Source,
    pub reference: Option<QuestionReference>,
    pub verdict: Verdict,
    pub name: String,
    /// The question it was pressed under.
    pub message: i32,
    pub text: Option<String>,
}

/// The number of an update, by which it is acknowledged.
pub(crate) fn number(update: &Value) -> Option<i64> {
    update.get("update_id").and_then(Value::as_i64)
}

/// Who reads, and with which eyes.
#[derive(Clone, Copy)]
pub(crate) struct TelegramUpdateReader<'a> {
    pub me: &'a TelegramBot,
    pub topics: &'a [NamedTopic],
    /// A message in a group that names other bots, and not us, is theirs.
    pub exclusive: bool,
    pub patience: &'a TelegramTimeouts,
}

pub(crate) fn read(update: &Value, reader: TelegramUpdateReader<'_>) -> TelegramUpdateEvent {
    let parsed = serde_json::from_value::<Update>(update.clone()).or_else(|first| {
        serde_json::from_value::<Update>(reduced(update)).map_err(|_| first) // the first says what is new
    });
    let content = match parsed {
        Ok(update) => update.content,
        Err(error) => {
            return TelegramUpdateEvent::Nothing(format!("an update of a form that is not known: {error}"));
        }
    };
    let number = number(update).unwrap_or_default();
    match content {
        UpdateContent::Message(message) | UpdateContent::ChannelPost(message) => {
            incoming(&message, None, reader)
        }
        UpdateContent::EditedMessage(message) | UpdateContent::EditedChannelPost(message) => {
            incoming(&message, Some(number), reader)
        }
        UpdateContent::CallbackQuery(query) => pressed(&query),
        _ => TelegramUpdateEvent::Nothing("an update of a kind that was not asked for".to_owned()),
    }
}

fn incoming(message: &Message, edit: Option<i64>, reader: TelegramUpdateReader<'_>) -> TelegramUpdateEvent {
    let TelegramUpdateReader { me, topics, exclusive, patience } = reader;
    let nothing = |why: &str| TelegramUpdateEvent::Nothing(why.to_owned());
    if message.from.as_ref().is_some_and(|from| from.id == me.id) {
        return nothing("a message of our own");
    }
    let is_place = message.location.is_some() || message.venue.is_some();
    if edit.is_some() && is_place {
        return nothing("somebody who shares where they are has moved");
    }
    let (written, entities) = written(message);
    let (mentioned, others) = named(written, entities, me);
    if others.command {
        return nothing("a command for another bot");
    }
    if others.mention && exclusive && is_group(&message.chat) {
        return nothing("a message for another bot");
    }
    let attachments = attachments(message);
    let text = match written.is_empty() {
        true => described(message).unwrap_or_default(),
        false => without_our_name(written, me),
    };
    if text.trim().is_empty() && attachments.is_empty() {
        return nothing("a message without anything to read");
    }
    let source = source(message, topics);
    let quoted = quoted(message, me);
    let ours = quoted.as_ref().is_some_and(|quoted| quoted.ours);
    let (chat, id) = (message.chat.id.to_string(), message.message_id.to_string());
    let mut identity = vec![chat.clone(), id.clone()];
    if let Some(number) = edit {
        let at = message.edit_date.unwrap_or_default();
        identity.extend(["edit".to_owned(), at.to_string(), number.to_string()]);
    }
    let skill = topic(&source, topics).and_then(|topic| topic.skill.clone());
    let seconds = edit.and(message.edit_date).unwrap_or(message.date);
    TelegramUpdateEvent::Message(Box::new(Incoming {
        reply_to: Destination {
            platform: PLATFORM.to_owned(),
            account: me.id.to_string(),
            chat,
            thread: source.thread_id.clone(),
            reply_to: Some(id),
        },
        identity,
        at: Time(i64::try_from(seconds).unwrap_or_default().saturating_mul(1_000_000)),
        text,
        attachments,
        from_bot: message.from.as_ref().is_some_and(|from| from.is_bot),
        // Where several bots are named and we are not among them, an answer to us is for them.
        addressed: !is_group(&message.chat) || mentioned || (ours && !others.mention),
        mentioned,
        quoted,
        source,
        roles: Vec::new(),
        edited: edit.is_some(),
        context: None,
        skills: skill.into_iter().collect(),
        gathers: gathers(message, edit, written, patience),
    }))
}

/// How long the rest is waited for of what a person sent as one: an album, or a text that their client has cut.
fn gathers(
    message: &Message,
    edit: Option<i64>,
    written: &str,
    patience: &TelegramTimeouts,
) -> Option<Duration> {
    let is_cut = message.text.is_some() && written.encode_utf16().count() >= CUT_UNITS_MIN;
    match (edit, &message.media_group_id) {
        (Some(_), _) => None,
        (None, Some(_)) => Some(patience.album),
        (None, None) => is_cut.then_some(patience.split),
    }
}

fn is_group(chat: &Chat) -> bool {
    matches!(chat.type_field, ChatType::Group | ChatType::Supergroup)
}

/// Hermes' `SessionSource` for a message.
pub(crate) fn source(message: &Message, topics: &[NamedTopic]) -> Source {
    let from = message.from.as_deref();
    source_of(&message.chat, from, thread(message), Some(message.message_id), topics)
}

fn source_of(
    chat: &Chat,
    from: Option<&User>,
    thread: Option<String>,
    message: Option<i32>,
    topics: &[NamedTopic],
) -> Source {
    let chat_type = match chat.type_field {
        ChatType::Private => "dm",
        ChatType::Group | ChatType::Supergroup => "group",
        ChatType::Channel => "channel",
    };
    let chat_id = chat.id.to_string();
    let own_name = full_name(chat.first_name.as_deref(), chat.last_name.as_deref());
    let chat_name = chat.title.clone().or(own_name);
    let (user_id, user_name) = match (from, chat_type) {
        (Some(from), _) => {
            (Some(from.id.to_string()), full_name(Some(from.first_name.as_str()), from.last_name.as_deref()))
        }
        (None, "dm" | "channel") => (Some(chat_id.clone()), chat_name.clone()),
        (None, _) => (None, None),
    };
    let mut source = Source {
        chat_name,
        user_id,
        user_name,
        thread_id: thread,
        message_id: message.map(|id| id.to_string()),
        ..Source::new(PLATFORM, chat_type, chat_id)
    };
    source.chat_topic = topic(&source, topics).and_then(|topic| topic.name.clone());
    source
}

fn topic<'a>(source: &Source, topics: &'a [NamedTopic]) -> Option<&'a NamedTopic> {
    let thread = source.thread_id.as_deref()?;
    topics.iter().find(|topic| topic.chat == source.chat_id && topic.thread == thread)
}

fn thread(message: &Message) -> Option<String> {
    let is_topic = message.is_topic_message == Some(true);
    let is_forum = is_group(&message.chat) && message.chat.is_forum == Some(true);
    let may_have_topics = !matches!(message.chat.type_field, ChatType::Channel);
    match message.message_thread_id {
        Some(thread) if is_forum || (is_topic && may_have_topics) => Some(thread.to_string()),
        Some(_) => None,
        None => is_forum.then(|| GENERAL.to_owned()),
    }
}

fn full_name(first: Option<&str>, last: Option<&str>) -> Option<String> {
    let names: Vec<&str> = [first, last].into_iter().flatten().filter(|name| !name.is_empty()).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// The words of a message, or those under its picture.
fn written(message: &Message) -> (&str, &[MessageEntity]) {
    match (&message.text, &message.caption) {
        (Some(text), _) => (text, message.entities.as_deref().unwrap_or_default()),
        (None, Some(caption)) => (caption, message.caption_entities.as_deref().unwrap_or_default()),
        (None, None) => ("", &[]),
    }
}

/// Who else is named.
#[derive(Default)]
struct Others {
    /// A command says that it is for another bot.
    command: bool,
    /// Another bot is mentioned, and we are not.
    mention: bool,
}

/// Whether we are named. Telegram marks names; where it marked none at all, the words are looked at.
fn named(text: &str, entities: &[MessageEntity], me: &TelegramBot) -> (bool, Others) {
    let mut ours = false;
    let mut others = Others::default();
    for entity in entities {
        let marked = marked(text, entity).to_lowercase();
        match entity.type_field {
            MessageEntityType::Mention if marked.trim_start_matches('@') == me.username => ours = true,
            MessageEntityType::Mention if marked.ends_with("bot") => others.mention = true,
            MessageEntityType::TextMention => {
                ours |= entity.user.as_ref().is_some_and(|user| user.id == me.id);
            }
            MessageEntityType::BotCommand => match marked.split_once('@') {
                Some((_, name)) if name == me.username => ours = true,
                Some(_) if entity.offset == 0 => others.command = true,
                Some(_) => others.mention = true,
                None => {}
            },
            _ => {}
        }
    }
    if entities.is_empty() && !me.username.is_empty() {
        let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '@' | '_' | '.')));
        ours = words.into_iter().any(|word| {
            word.strip_prefix('@')
                .is_some_and(|name| name.trim_end_matches('.').to_lowercase() == me.username)
        });
    }
    (ours, Others { command: others.command && !ours, mention: others.mention && !ours })
}

/// The words an entity covers. Telegram counts in UTF-16.
fn marked(text: &str, entity: &MessageEntity) -> String {
    let units = text.encode_utf16().skip(entity.offset.into()).take(entity.length.into());
    String::from_utf16_lossy(&units.collect::<Vec<_>>())
}

/// `@us, do this` is `do this`, `/new@us` is `/new`. Nothing but our name stays our name.
pub(super) fn without_our_name(text: &str, me: &TelegramBot) -> String {
    if me.username.is_empty() {
        return text.to_owned();
    }
    let trimmed = text.trim_start();
    if let (true, Some(place)) = (trimmed.starts_with('/'), trimmed.find(['@', ' ', '\n'])) {
        let (command, rest) = trimmed.split_at(place);
        return after_our_name(rest, me).map_or_else(|| text.to_owned(), |rest| format!("{command}{rest}"));
    }
    let rest = after_our_name(trimmed, me).map(|rest| rest.trim_start_matches([',', ':', '-']).trim_start());
    rest.filter(|rest| !rest.is_empty()).map_or_else(|| text.to_owned(), str::to_owned)
}

fn after_our_name<'a>(text: &'a str, me: &TelegramBot) -> Option<&'a str> {
    let (name, rest) = text.strip_prefix('@')?.split_at_checked(me.username.len())?;
    let ends = rest.chars().next().is_none_or(|c| !(c.is_alphanumeric() || c == '_'));
    (ends && name.to_lowercase() == me.username).then_some(rest)
}

/// What is answered. The first message of a topic is not: Telegram names it in all that follow.
fn quoted(message: &Message, me: &TelegramBot) -> Option<Quoted> {
    let answered = message.reply_to_message.as_deref()?;
    if answered.forum_topic_created.is_some() {
        return None;
    }
    let chosen = message.quote.as_ref().map(|quote| quote.text.clone());
    let whole = || answered.text.clone().or_else(|| answered.caption.clone());
    let author = answered.from.as_deref();
    Some(Quoted {
        id: answered.message_id.to_string(),
        text: chosen.or_else(whole).filter(|text| !text.is_empty()),
        author: author
            .and_then(|author| full_name(Some(author.first_name.as_str()), author.last_name.as_deref())),
        ours: author.is_some_and(|author| author.id == me.id),
    })
}

fn attachments(message: &Message) -> Vec<Attachment> {
    let file = |media, id: &str, name: Option<&String>, mime: Option<&str>, bytes| Attachment {
        media,
        handle: id.to_owned(),
        name: name.cloned(),
        mime: mime.map(str::to_owned),
        bytes,
    };
    let mut found = Vec::new();
    // The same picture in several sizes; the largest is what was sent.
    let photo =
        message.photo.iter().flatten().max_by_key(|size| u64::from(size.width) * u64::from(size.height));
    if let Some(photo) = photo {
        found.push(file(Media::Image, &photo.file_id, None, Some("image/jpeg"), photo.file_size));
    }
    if let Some(voice) = &message.voice {
        let mime = voice.mime_type.as_deref().or(Some("audio/ogg"));
        found.push(file(Media::Voice, &voice.file_id, None, mime, voice.file_size));
    }
    if let Some(audio) = &message.audio {
        let (name, mime) = (audio.file_name.as_ref(), audio.mime_type.as_deref());
        found.push(file(Media::Audio, &audio.file_id, name, mime, audio.file_size));
    }
    if let Some(video) = &message.video {
        let (name, mime) = (video.file_name.as_ref(), video.mime_type.as_deref());
        found.push(file(Media::Video, &video.file_id, name, mime, video.file_size));
    }
    if let Some(note) = &message.video_note {
        found.push(file(Media::Video, &note.file_id, None, Some("video/mp4"), note.file_size));
    }
    match (&message.animation, &message.document) {
        // An animation comes as a document, too, for those who do not know animations.
        (Some(animation), _) => {
            let (name, mime) = (animation.file_name.as_ref(), animation.mime_type.as_deref());
            found.push(file(Media::Video, &animation.file_id, name, mime, animation.file_size));
        }
        (None, Some(document)) => {
            let mime = document.mime_type.as_deref();
            let media = match mime.and_then(|mime| mime.split('/').next()) {
                Some("image") => Media::Image,
                Some("video") => Media::Video,
                Some("audio") => Media::Audio,
                _ => Media::Document,
            };
            found.push(file(media, &document.file_id, document.file_name.as_ref(), mime, document.file_size));
        }
        (None, None) => {}
    }
    if let Some(sticker) =
        message.sticker.as_deref().filter(|sticker| !sticker.is_animated && !sticker.is_video)
    {
        found.push(file(Media::Image, &sticker.file_id, None, Some("image/webp"), sticker.file_size));
    }
    found
}

/// Words for what has none.
fn described(message: &Message) -> Option<String> {
    if let Some(sticker) = &message.sticker {
        return Some(sticker_in_words(sticker));
    }
    if let Some(contact) = &message.contact {
        let name = full_name(Some(contact.first_name.as_str()), contact.last_name.as_deref());
        return Some(format!("[A contact: {}, {}]", name.unwrap_or_default(), contact.phone_number));
    }
    let place = message.venue.as_ref().map(|venue| &venue.location).or(message.location.as_deref())?;
    let named = message.venue.as_ref().map(|venue| format!("{}, {}, at ", venue.title, venue.address));
    Some(format!(
        "[A place: {}latitude {}, longitude {}]",
        named.unwrap_or_default(),
        place.latitude,
        place.longitude
    ))
}

fn sticker_in_words(sticker: &Sticker) -> String {
    let emoji = sticker.emoji.as_deref().map(|emoji| format!(" {emoji}"));
    let set = sticker.set_name.as_deref().map(|set| format!(" of the set {set}"));
    format!("[A sticker{}{}]", emoji.unwrap_or_default(), set.unwrap_or_default())
}

fn pressed(query: &CallbackQuery) -> TelegramUpdateEvent {
    let Some(message) = &query.message else {
        return TelegramUpdateEvent::Nothing(
            "a button under a message that Telegram does not name".to_owned(),
        );
    };
    let (chat, id, thread, text) = match message {
        MaybeInaccessibleMessage::Message(message) => {
            (&*message.chat, message.message_id, thread(message), message.text.clone())
        }
        MaybeInaccessibleMessage::InaccessibleMessage(message) => {
            (&message.chat, message.message_id, None, None)
        }
    };
    let read = query.data.as_deref().and_then(button::read);
    let (reference, verdict) = match read {
        Some((reference, verdict)) => (Some(reference), verdict),
        None => (None, Verdict::Expired),
    };
    TelegramUpdateEvent::Pressed(Box::new(Pressed {
        query: query.id.clone(),
        source: source_of(chat, Some(&query.from), thread, None, &[]),
        reference,
        verdict,
        name: query.from.first_name.clone(),
        message: id,
        text,
    }))
}

/// What we read of an update, and nothing beside it.
fn reduced(update: &Value) -> Value {
    const KEPT: [&str; 66] = [
        "update_id",
        "message",
        "edited_message",
        "channel_post",
        "edited_channel_post",
        "callback_query",
        "message_id",
        "message_thread_id",
        "from",
        "date",
        "edit_date",
        "chat",
        "is_topic_message",
        "reply_to_message",
        "quote",
        "text",
        "caption",
        "entities",
        "caption_entities",
        "photo",
        "voice",
        "audio",
        "video",
        "video_note",
        "document",
        "location",
        "venue",
        "contact",
        "id",
        "is_bot",
        "first_name",
        "last_name",
        "username",
        "type",
        "title",
        "is_forum",
        "file_id",
        "file_unique_id",
        "width",
        "height",
        "duration",
        "length",
        "mime_type",
        "file_name",
        "file_size",
        "latitude",
        "longitude",
        "address",
        "phone_number",
        "user_id",
        "position",
        "offset",
        "user",
        "data",
        "chat_instance",
        "forum_topic_created",
        "name",
        "icon_color",
        "animation",
        "sticker",
        "emoji",
        "set_name",
        "is_animated",
        "is_video",
        "sender_chat",
        "media_group_id",
    ];
    match update {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| KEPT.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), reduced(value))).collect::<Map<_, _>>())
        }
        Value::Array(values) => Value::Array(values.iter().map(reduced).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
