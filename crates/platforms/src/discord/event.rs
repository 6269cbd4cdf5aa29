//! A Discord message as everybody else reads it.
//!
//! - chat keys are made of ids that stay: a thread is its own chat, under any name
//! - a message is itself by its id alone: Discord shows the first message of a thread in two places
//! - a thread that is begun at a message has that message's id, so the chat of a message that gets a
//!   thread is known before there is one, and asking for it twice gives the same
//!
//! Who may speak and who must mention us is deliberately absent, except for what only Discord's own
//! data can tell: that a message names others and not us.

use super::channels::DiscordPlace;
use super::payload::{DiscordFile, DiscordMessage, GuildMember, Id, User, display_name};
use super::{DiscordSettings, NAME};
use crate::incoming::{Attachment, Incoming, Media, Quoted};
use throughline_core::input::Destination;
use throughline_hermes::source::Source;

const ORDINARY: u8 = 0;
const REPLY: u8 = 19;
/// A thread has been begun at it.
const HAS_THREAD: u64 = 1 << 5;
const IS_VOICE: u64 = 1 << 13;
/// A reference that passes a message on rather than answering it.
const FORWARD: u8 = 1;
const THREAD_NAME_CHARACTERS: usize = 80;
const THREAD_NAME_OTHERWISE: &str = "Hermes";

/// What reads: the account, and what its operator wants.
#[derive(Clone, Copy)]
pub struct DiscordEventReader<'a> {
    pub settings: &'a DiscordSettings,
    pub account: &'a str,
    pub me: Id,
}

/// A message that is to be handed in.
pub struct ReadMessage {
    pub incoming: Incoming,
    /// The thread that is to be begun at it.
    pub thread: Option<NewThread>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewThread {
    pub channel: Id,
    pub message: Id,
    pub name: String,
}

/// Whether it is a new delivery, or a change of an old one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    Written,
    Changed,
}

impl DiscordEventReader<'_> {
    /// None: it was not said to us.
    pub fn read(
        &self,
        message: &DiscordMessage,
        place: &DiscordPlace,
        told: Delivered,
    ) -> Option<ReadMessage> {
        let bot = message.author.bot || message.webhook_id.is_some();
        let is_said = matches!(message.kind, ORDINARY | REPLY) && message.author.id != self.me;
        let unedited = told == Delivered::Changed && message.edited_timestamp.is_none(); // a preview of a link came in
        if !is_said || unedited || self.is_for_others(message, place) {
            return None;
        }
        let mentioned = match bot && self.settings.bots_require_inline_mention {
            true => self.names_us(&message.content),
            false => {
                self.names_us(&message.content) || message.mentions.iter().any(|user| user.id == self.me)
            }
        };
        let quoted = quoted(message, self.me);
        let ours = place.channel.owner_id == Some(self.me) && place.is_thread();
        let answers = quoted.as_ref().is_some_and(|quoted| quoted.ours);
        let text = self.without_us(&content(message));
        let thread = self.new_thread(message, place, mentioned, told);
        let source = self.source(message, place, thread.as_ref());
        let mut identity = vec![message.id.to_string()];
        if let (Delivered::Changed, Some(edited)) = (told, &message.edited_timestamp) {
            identity.extend(["edit".to_owned(), edited.clone()]);
        }
        let incoming = Incoming {
            reply_to: self.reply_to(&source, message, thread.as_ref()),
            identity,
            at: message.id.at(),
            text,
            attachments: attachments(message),
            from_bot: bot,
            addressed: place.is_direct() || mentioned || answers || ours,
            mentioned,
            roles: roles(&message.author, message.member.as_ref()),
            edited: told == Delivered::Changed,
            quoted,
            source,
            context: None,
            skills: Vec::new(),
            gathers: None,
        };
        Some(ReadMessage { incoming, thread: thread.filter(|_| told == Delivered::Written) })
    }

    /// Whether things may have been said around it that a session has not seen.
    pub fn has_history(&self, read: &ReadMessage, place: &DiscordPlace) -> bool {
        let ReadMessage { incoming, thread } = read;
        let unheard = incoming.mentioned && self.settings.require_mention && !self.is_free(place);
        let begins = place.is_direct() || thread.is_some();
        self.settings.history > 0 && !begins && (unheard || incoming.quoted.is_some())
    }

    /// What was typed as a command: where, by whom, and where the answer goes.
    pub fn source_of(&self, place: &DiscordPlace, user: &User, name: String) -> Source {
        let channel = place.channel.id.to_string();
        let thread = place.is_thread().then(|| channel.clone());
        Source {
            platform: NAME.to_owned(),
            chat_name: match place.is_direct() {
                true => Some(user.username.clone()),
                false => Some(place.name()),
            },
            chat_type: chat_type(place).to_owned(),
            user_id: Some(user.id.to_string()),
            user_name: Some(name),
            thread_id: thread,
            chat_topic: place.topic(),
            scope_id: place.channel.guild_id.map(|guild| guild.to_string()),
            parent_chat_id: place.channel.parent_id.filter(|_| place.is_thread()).map(|id| id.to_string()),
            chat_id: channel,
            ..Source::default()
        }
    }

    pub fn destination(&self, source: &Source, reply_to: Option<String>) -> Destination {
        Destination {
            platform: NAME.to_owned(),
            account: self.account.to_owned(),
            chat: source.chat_id.clone(),
            thread: source.thread_id.clone(),
            reply_to,
        }
    }

    fn source(&self, message: &DiscordMessage, place: &DiscordPlace, thread: Option<&NewThread>) -> Source {
        let name = display_name(&message.author, message.member.as_ref());
        let guild = message.guild_id.or(place.channel.guild_id);
        let mut source = self.source_of(place, &message.author, name);
        source.scope_id = guild.map(|guild| guild.to_string());
        source.message_id = Some(message.id.to_string());
        if let Some(thread) = thread {
            let parent = std::mem::replace(&mut source.chat_id, thread.message.to_string());
            source.parent_chat_id = Some(parent);
            source.thread_id = Some(thread.message.to_string());
            source.chat_type = "thread".to_owned();
            source.auto_thread_created = true;
            source.auto_thread_initial_name = Some(thread.name.clone());
        }
        source
    }

    /// The message that gets a thread is not in it: it is named together with its channel, which is
    /// also what the thread can be begun from, should it not be there yet.
    fn reply_to(&self, source: &Source, message: &DiscordMessage, thread: Option<&NewThread>) -> Destination {
        let reply_to = match thread {
            Some(thread) => format!("{}/{}", thread.channel, thread.message),
            None => message.id.to_string(),
        };
        self.destination(source, Some(reply_to))
    }

    /// As Hermes does: a person who speaks to us in a channel gets a thread, unless they answer something, or
    /// the channel is one where people just talk.
    fn new_thread(
        &self,
        message: &DiscordMessage,
        place: &DiscordPlace,
        mentioned: bool,
        told: Delivered,
    ) -> Option<NewThread> {
        let settings = self.settings;
        let begun = message.flags & HAS_THREAD != 0;
        let free = place.is_in(&settings.no_thread_channels) || self.is_free(place);
        let wanted = settings.auto_thread && place.has_threads() && !free && message.kind != REPLY;
        let spoken_to = mentioned || !settings.require_mention;
        // A change of a message that never got one stays where it was.
        let now = told == Delivered::Written || begun;
        (wanted && spoken_to && now).then(|| NewThread {
            channel: message.channel_id,
            message: message.id,
            name: thread_name(&message.content),
        })
    }

    /// It names others, and not us: another bot, or people who talk to each other.
    fn is_for_others(&self, message: &DiscordMessage, place: &DiscordPlace) -> bool {
        let named = |user: &User| user.id == self.me;
        if place.is_direct() || message.mentions.is_empty() {
            return false;
        }
        if message.mentions.iter().any(named) || self.names_us(&message.content) {
            return false;
        }
        let to_a_bot = message.mentions.iter().any(|user| user.bot);
        to_a_bot || (self.settings.ignore_no_mention && !self.is_free(place))
    }

    fn is_free(&self, place: &DiscordPlace) -> bool {
        let free = &self.settings.free_response_channels;
        free.iter().any(|entry| entry == "*") || place.is_in(free)
    }

    fn names_us(&self, content: &str) -> bool {
        self.mentions().iter().any(|mention| content.contains(mention))
    }

    fn without_us(&self, content: &str) -> String {
        let [plain, nick] = self.mentions();
        content.replace(&plain, "").replace(&nick, "").trim().to_owned()
    }

    fn mentions(&self) -> [String; 2] {
        [format!("<@{}>", self.me), format!("<@!{}>", self.me)]
    }
}

pub fn chat_type(place: &DiscordPlace) -> &'static str {
    match (place.is_direct(), place.is_thread()) {
        (true, _) => "dm",
        (_, true) => "thread",
        _ => "group",
    }
}

/// What its author is in the server, and the name that is theirs alone.
pub fn roles(author: &User, member: Option<&GuildMember>) -> Vec<String> {
    let roles = member.into_iter().flat_map(|member| &member.roles);
    roles.map(Id::to_string).chain(author.handle()).collect()
}

/// What was written, or else what was passed on.
fn content(message: &DiscordMessage) -> String {
    let own = message.content.trim();
    let passed = message.message_snapshots.iter().map(|snapshot| snapshot.message.content.trim());
    match own.is_empty() {
        true => passed.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n"),
        false => own.to_owned(),
    }
}

fn quoted(message: &DiscordMessage, me: Id) -> Option<Quoted> {
    let reference = message.message_reference.as_ref().filter(|reference| reference.kind != FORWARD)?;
    let original = message.referenced_message.as_deref();
    Some(Quoted {
        id: reference.message_id.or(original.map(|original| original.id))?.to_string(),
        text: original.map(content).filter(|text| !text.is_empty()),
        author: original.map(|original| display_name(&original.author, None)),
        ours: original.is_some_and(|original| original.author.id == me),
    })
}

/// Its own files, then those of what it passes on, then those of what it answers.
fn attachments(message: &DiscordMessage) -> Vec<Attachment> {
    let voice = message.flags & IS_VOICE != 0;
    let own = message.attachments.iter().map(|file| attachment(file, voice));
    let passed = message.message_snapshots.iter().flat_map(|snapshot| &snapshot.message.attachments);
    let answered = message.referenced_message.iter().flat_map(|original| &original.attachments);
    own.chain(passed.chain(answered).map(|file| attachment(file, false))).collect()
}

fn attachment(file: &DiscordFile, voice: bool) -> Attachment {
    let mime = file.content_type.as_deref().unwrap_or_default();
    let media = match mime.split('/').next() {
        Some("image") => Media::Image,
        Some("video") => Media::Video,
        Some("audio") if voice || file.waveform.is_some() => Media::Voice,
        Some("audio") => Media::Audio,
        _ => Media::Document,
    };
    Attachment {
        media,
        handle: file.url.clone(),
        name: file.filename.clone(),
        mime: file.content_type.clone(),
        bytes: file.size,
    }
}

/// What a new thread is called at first: how its first message begins, without
/// mentions, which show as numbers there.
pub fn thread_name(content: &str) -> String {
    let mut words = String::new();
    let mut rest = content;
    while let Some(start) = rest.find('<') {
        let (before, from) = rest.split_at(start);
        words.push_str(before);
        let after = mention_end(from).unwrap_or(1);
        if after == 1 {
            words.push('<');
        }
        rest = &from[after..];
    }
    words.push_str(rest);
    let name = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match name.chars().count() {
        0 => THREAD_NAME_OTHERWISE.to_owned(),
        length if length > THREAD_NAME_CHARACTERS => {
            name.chars().take(THREAD_NAME_CHARACTERS - 3).collect::<String>() + "..."
        }
        _ => name,
    }
}

/// Where `<@1>`, `<@!1>`, `<@&1>` or `<#1>` ends, if the text begins with one.
fn mention_end(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('<')?;
    let id = match inside.strip_prefix('@') {
        Some(user) => user.trim_start_matches(['!', '&']),
        None => inside.strip_prefix('#')?,
    };
    let rest = id.trim_start_matches(|digit: char| digit.is_ascii_digit());
    (rest.len() < id.len() && rest.starts_with('>')).then_some(text.len() - rest.len() + 1)
}

#[cfg(test)]
mod tests;
