//! What leaves: replies, previews, questions, files and small signs.
//!
//! Telegram says in words why it refuses. A refusal did nothing, so what it objects to (a thread that
//! is gone, a message that cannot be answered any more, a mark that it cannot read) is left out and the
//! rest is sent. Everything else is told apart by one question: can it have arrived?

use super::api::TelegramFailure;
use super::rate_limit::SendPurpose;
use super::split::{self, LENGTH_MAX, beginning, units};
use super::update::GENERAL;
use super::{Bot, Replies, button, format};
use crate::incoming::Attachment;
use crate::media::{self, NotKept, OutgoingFile as Upload};
use frankenstein::ParseMode;
use frankenstein::methods::{
    DeleteMessageParams, EditMessageTextParams, GetFileParams, SendChatActionParams, SendMessageParams,
    SetMessageReactionParams, SetMyCommandsParams,
};
use frankenstein::types::{
    BotCommand, ChatAction, ChatId, File, InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions,
    ReactionType, ReactionTypeEmoji, ReplyMarkup, ReplyParameters,
};
use reqwest::multipart::{Form, Part};
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;
use throughline_core::input::Destination;
use throughline_core::port::{Outgoing, Pending, SendError};
use throughline_core::tool::{Grant, Question, Verdict};
use tokio::time::{Instant, sleep};

/// A reply waits this long for its turn; beyond that the outbox waits instead, which knows it on disk.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How many of Telegram's objections to one message are met.
const OBJECTIONS_MAX: usize = 4;
/// What the public Bot API takes and gives.
const PHOTO_BYTES_MAX: usize = 10 << 20;
const UPLOAD_BYTES_MAX: u64 = 50 << 20;
/// And what one's own takes. Two gigabytes are allowed; this much is held in memory.
const LOCAL_UPLOAD_BYTES_MAX: u64 = 512 << 20;
const COMMANDS_MAX: usize = 100;
const COMMAND_LENGTH_MAX: usize = 32;
const DESCRIPTION_LENGTH_MAX: usize = 256;
/// Of a command that is asked about: the rest of the message needs room as well.
const QUESTION_UNITS_MAX: usize = 2400;

#[derive(Deserialize)]
struct SentMessage {
    message_id: i64,
}

/// Where a message goes, as Telegram says it.
#[derive(Clone)]
struct TelegramAddress {
    chat: ChatId,
    thread: Option<i32>,
    reply_to: Option<i32>,
}

impl TelegramAddress {
    fn of(place: &Destination) -> Self {
        let chat = place.chat.parse().map_or_else(|_| ChatId::String(place.chat.clone()), ChatId::Integer);
        let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
        // The General topic has a number that may be read and must not be written.
        let thread = place.thread.clone().filter(|thread| thread != GENERAL);
        Self { chat, thread: number(&thread), reply_to: number(&place.reply_to) }
    }

    /// Leaves out what Telegram objected to. False: it objected to something else.
    fn yields_to(&mut self, failure: &TelegramFailure) -> bool {
        let gone = failure.says("thread not found") || failure.says("topic_deleted");
        let unanswerable = failure.says("replied not found")
            || failure.says("reply message not found")
            || failure.says("message to reply not found");
        match failure {
            TelegramFailure::Refused { moved_to: Some(chat), .. } if self.chat != ChatId::Integer(*chat) => {
                self.chat = ChatId::Integer(*chat);
                true
            }
            _ if gone && self.thread.is_some() => {
                (self.thread, self.reply_to) = (None, None);
                true
            }
            _ if unanswerable && self.reply_to.is_some() => {
                self.reply_to = None;
                true
            }
            _ => false,
        }
    }

    fn answered(&self) -> Option<ReplyParameters> {
        // Telegram itself may leave it out, too: then nothing has to be sent twice.
        let answer = |id| ReplyParameters::builder().message_id(id).allow_sending_without_reply(true).build();
        self.reply_to.map(answer)
    }
}

/// How a text is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TelegramMarkup {
    Html,
    Plain,
}

impl Bot {
    pub(super) async fn send(
        &self,
        outgoing: &Outgoing,
        mark: Option<&str>,
    ) -> Result<Option<String>, SendError> {
        let place = self.place(outgoing);
        if let Some(paths) = media::all_tagged(&outgoing.text) {
            return self.send_files(&place, &paths, mark).await;
        }
        if outgoing.text.trim().is_empty() {
            return Ok(None); // there is nothing that could arrive
        }
        self.turn(&place.chat, SendPurpose::Reply).await?;
        let text = marked(&outgoing.text, mark);
        let sent = self.write(TelegramAddress::of(&place), &text, None).await;
        sent.map(Some).map_err(|failure| self.error(&failure, &place))
    }

    pub(super) async fn finish(&self, outgoing: &Outgoing, draft: &str) -> Result<Option<String>, SendError> {
        if media::all_tagged(&outgoing.text).is_some() || outgoing.text.trim().is_empty() {
            return self.send(outgoing, None).await;
        }
        match self.edit(&outgoing.destination, draft, &outgoing.text, SendPurpose::Reply).await {
            Ok(()) => Ok(Some(draft.to_owned())),
            // The preview is gone or cannot be changed: nothing of the reply is there.
            Err(SendError::Never { .. }) => self.send(outgoing, None).await,
            Err(error) => Err(error),
        }
    }

    /// The destination, with what is answered only where the settings want it shown.
    fn place(&self, outgoing: &Outgoing) -> Destination {
        let is_first = outgoing
            .key
            .rsplit_once('+')
            .is_none_or(|(_, number)| number.is_empty() || number.contains(|c: char| !c.is_ascii_digit()));
        let shown = match self.settings.replies {
            Replies::Off => false,
            Replies::First => is_first,
            Replies::All => true,
        };
        let mut place = outgoing.destination.clone();
        place.reply_to = place.reply_to.filter(|_| shown);
        place
    }

    /// Waits for a place among the messages of this chat.
    async fn turn(&self, chat: &str, purpose: SendPurpose) -> Result<(), SendError> {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let now = Instant::now();
            match self.pace.take(chat, purpose, now) {
                Ok(()) => return Ok(()),
                Err(wait) if purpose == SendPurpose::Reply && now + wait <= deadline => sleep(wait).await,
                Err(wait) => {
                    let message = format!("chat {chat} has had as many messages as Telegram allows for now");
                    return Err(SendError::Later { after: Some(wait), message });
                }
            }
        }
    }

    /// Sends a text, leaving out what Telegram objects to. Returns the message's id.
    async fn write(
        &self,
        mut address: TelegramAddress,
        text: &str,
        keyboard: Option<&InlineKeyboardMarkup>,
    ) -> Result<String, TelegramFailure> {
        let mut script = TelegramMarkup::Html;
        for _ in 0..OBJECTIONS_MAX {
            let parameters = self.letter(&address, text, script, keyboard);
            match self.ask::<SentMessage>("sendMessage", &parameters).await {
                Ok(sent) => return Ok(sent.message_id.to_string()),
                Err(failure) if script == TelegramMarkup::Html && failure.says("can't parse entities") => {
                    tracing::warn!(%failure, "Telegram cannot read our formatting; sent as plain text");
                    script = TelegramMarkup::Plain;
                }
                Err(failure) if address.yields_to(&failure) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.ask::<SentMessage>("sendMessage", &self.letter(&address, text, script, keyboard))
            .await
            .map(|sent| sent.message_id.to_string())
    }

    fn letter(
        &self,
        address: &TelegramAddress,
        text: &str,
        script: TelegramMarkup,
        keyboard: Option<&InlineKeyboardMarkup>,
    ) -> SendMessageParams {
        let (text, mode) = written(text, script);
        SendMessageParams::builder()
            .chat_id(address.chat.clone())
            .text(text)
            .maybe_parse_mode(mode)
            .maybe_message_thread_id(address.thread)
            .maybe_reply_parameters(address.answered())
            .maybe_link_preview_options(self.previews())
            .maybe_reply_markup(keyboard.cloned().map(ReplyMarkup::InlineKeyboardMarkup))
            .build()
    }

    fn previews(&self) -> Option<LinkPreviewOptions> {
        (!self.settings.link_previews).then(|| LinkPreviewOptions::builder().is_disabled(true).build())
    }

    // ------------------------------------------------------------------------------------- files

    async fn send_files(
        &self,
        place: &Destination,
        paths: &[&str],
        mark: Option<&str>,
    ) -> Result<Option<String>, SendError> {
        let mut first = None;
        for path in paths {
            let sent = self.send_file(place, path, mark).await;
            match (sent, &first) {
                (Ok(id), None) => first = Some(id),
                (Ok(_), Some(_)) => {}
                (Err(error), None) => return Err(error),
                // Sending again would send the first ones twice.
                (Err(error), Some(_)) => {
                    return Err(SendError::Unknown {
                        message: format!("of {} files not all arrived: {error}", paths.len()),
                    });
                }
            }
        }
        Ok(first)
    }

    async fn send_file(
        &self,
        place: &Destination,
        path: &str,
        mark: Option<&str>,
    ) -> Result<String, SendError> {
        let never = |message| SendError::Never { message };
        let limit = if self.settings.local_files { LOCAL_UPLOAD_BYTES_MAX } else { UPLOAD_BYTES_MAX };
        let file = media::read(path, &self.settings.media, limit).await.map_err(never)?;
        if file.bytes.is_empty() {
            return Err(never(format!("the file {path} is empty, and Telegram takes no empty files")));
        }
        let (kind, name, bytes) = (FileKind::of(&file), file.name, bytes::Bytes::from(file.bytes));
        self.turn(&place.chat, SendPurpose::Reply).await?;
        let mut address = TelegramAddress::of(place);
        let mut kind = kind;
        for _ in 0..OBJECTIONS_MAX {
            let form = form(&address, kind, &name, bytes.clone(), mark);
            match self.api.upload::<SentMessage>(kind.method(), form, self.settings.patience.upload).await {
                Ok(sent) => return Ok(sent.message_id.to_string()),
                Err(failure) if address.yields_to(&failure) => {}
                // A picture that is none, a voice that may not be heard: as it lies there.
                Err(failure) if kind != FileKind::Document && is_about_the_file(&failure) => {
                    kind = FileKind::Document
                }
                Err(failure) => return Err(self.error(&failure, place)),
            }
        }
        Err(never(format!("Telegram refused the file {path} in every form")))
    }

    // ---------------------------------------------------------------------------------- courtesy

    pub(super) async fn typing(&self, place: &Destination) {
        let address = TelegramAddress::of(place);
        // Here, and only here, the General topic goes by its number.
        let thread = place.thread.as_deref().and_then(|thread| thread.parse().ok());
        let parameters = SendChatActionParams::builder()
            .chat_id(address.chat)
            .action(ChatAction::Typing)
            .maybe_message_thread_id(thread)
            .build();
        if self.pace.is_resting(&place.chat, Instant::now()) {
            return;
        }
        self.courtesy("sendChatAction", &parameters, place).await;
    }

    pub(super) async fn post(&self, place: &Destination, text: &str) -> Result<String, SendError> {
        self.turn(&place.chat, SendPurpose::Courtesy).await?;
        let sent = self.write(TelegramAddress::of(place), &preview(text), None).await;
        sent.map_err(|failure| self.error(&failure, place))
    }

    /// A change may be made twice without harm, so one of unknown outcome is simply made again.
    pub(super) async fn edit(
        &self,
        place: &Destination,
        id: &str,
        text: &str,
        purpose: SendPurpose,
    ) -> Result<(), SendError> {
        let Ok(message) = id.parse::<i32>() else {
            return Err(SendError::Never { message: format!("{id} is no message of Telegram's") });
        };
        self.turn(&place.chat, purpose).await?;
        let mut address = TelegramAddress::of(place);
        let text = preview(text);
        let mut script = TelegramMarkup::Html;
        for _ in 0..OBJECTIONS_MAX {
            let (text, mode) = written(&text, script);
            let parameters = EditMessageTextParams::builder()
                .chat_id(address.chat.clone())
                .message_id(message)
                .text(text)
                .maybe_parse_mode(mode)
                .maybe_link_preview_options(self.previews())
                .build();
            match self.ask::<serde_json::Value>("editMessageText", &parameters).await {
                Ok(_) => return Ok(()),
                Err(failure) if failure.says("message is not modified") => return Ok(()),
                Err(failure) if script == TelegramMarkup::Html && failure.says("can't parse entities") => {
                    script = TelegramMarkup::Plain;
                }
                Err(failure) if address.yields_to(&failure) => {}
                Err(failure) => {
                    return Err(match self.error(&failure, place) {
                        SendError::Unknown { message } => SendError::Later { after: None, message },
                        error => error,
                    });
                }
            }
        }
        Err(SendError::Never { message: format!("message {id} in chat {} cannot be changed", place.chat) })
    }

    pub(super) async fn remove(&self, place: &Destination, id: &str) -> Result<(), SendError> {
        let Ok(message) = id.parse::<i32>() else {
            return Err(SendError::Never { message: format!("{id} is no message of Telegram's") });
        };
        let chat = TelegramAddress::of(place).chat;
        let parameters = DeleteMessageParams::builder().chat_id(chat).message_id(message).build();
        match self.ask::<bool>("deleteMessage", &parameters).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.says("message to delete not found") => Ok(()),
            Err(failure) => Err(match self.error(&failure, place) {
                SendError::Unknown { message } => SendError::Later { after: None, message },
                error => error,
            }),
        }
    }

    pub(super) async fn react(&self, place: &Destination, message: &str, sign: &str) {
        let Ok(message) = message.parse::<i32>() else { return };
        let emoji = |sign: &str| ReactionType::Emoji(ReactionTypeEmoji::builder().emoji(sign).build());
        // Telegram knows a list of its own, without check mark and cross; these are Hermes' signs there.
        let sign = match sign {
            "✅" => "👍",
            "❌" => "👎",
            other => other,
        };
        let reaction = if sign.is_empty() { Vec::new() } else { vec![emoji(sign)] };
        let parameters = SetMessageReactionParams::builder()
            .chat_id(TelegramAddress::of(place).chat)
            .message_id(message)
            .reaction(reaction)
            .build();
        self.courtesy("setMessageReaction", &parameters, place).await;
    }

    async fn courtesy(&self, method: &str, parameters: &impl serde::Serialize, place: &Destination) {
        if let Err(failure) = self.ask::<serde_json::Value>(method, parameters).await {
            self.heed(&failure, &place.chat);
            tracing::debug!(method, chat = place.chat, %failure, "a courtesy failed");
        }
    }

    // --------------------------------------------------------------------------------- questions

    pub(super) async fn put(&self, place: &Destination, question: &Pending) -> Result<String, SendError> {
        self.turn(&place.chat, SendPurpose::Reply).await?;
        let button = |label: &str, verdict: Verdict| {
            InlineKeyboardButton::builder()
                .text(label)
                .callback_data(button::data(&question.call, &verdict))
                .build()
        };
        let (text, rows) = match &question.ask.question {
            Question::Approval { what, why, patterns } => {
                let once = button("✅ Once", Verdict::Granted(Grant::Once));
                let session = button("✅ This session", Verdict::Granted(Grant::Session));
                let always = button("✅ Always", Verdict::Granted(Grant::Always));
                let deny = button("❌ Deny", Verdict::Denied { reason: None });
                let rows = match patterns.is_empty() {
                    true => vec![vec![once, deny]],
                    false => vec![vec![once, session], vec![always, deny]],
                };
                let what = code(shortened(what));
                (format!("⚠️ **May I run this?**\n\n{what}\n\nWhy I ask: {}", literal(shortened(why))), rows)
            }
            Question::Clarify { question, choices } => {
                let mut text = format!("❓ {}", literal(shortened(question)));
                for (number, choice) in choices.iter().enumerate() {
                    text.push_str(&format!("\n{}. {}", number + 1, literal(choice)));
                }
                let numbers = 1..=choices.len().min(usize::from(u8::MAX));
                let rows = numbers.map(|number| {
                    let label = format!("{number}. {}", choices[number - 1]);
                    let label = &label[..beginning(&label, 40)]; // the whole of it stands above
                    vec![button(label, Verdict::Said(number.to_string()))]
                });
                (text, rows.collect())
            }
            Question::Elicitation { asked, .. } => {
                let choices = asked.choices.iter().take(usize::from(u8::MAX)).enumerate();
                let rows = choices.map(|(place, choice)| {
                    let label = format!("{}. {choice}", place + 1);
                    let label = &label[..beginning(&label, 40)]; // the whole of it stands above
                    vec![button(label, Verdict::Said((place + 1).to_string()))]
                });
                let decline = vec![button("❌ Decline", Verdict::Denied { reason: None })];
                let text = question.ask.question.in_words();
                (literal(shortened(&text)), rows.chain([decline]).collect())
            }
        };
        self.remember(&question.call);
        let keyboard = InlineKeyboardMarkup::builder().inline_keyboard(rows).build();
        let keyboard = (!keyboard.inline_keyboard.is_empty()).then_some(keyboard);
        let sent = self.write(TelegramAddress::of(place), &preview(&text), keyboard.as_ref()).await;
        sent.map_err(|failure| self.error(&failure, place))
    }

    // ------------------------------------------------------------------------------------- other

    pub(super) async fn publish(&self, commands: &[(String, String)]) -> Result<(), SendError> {
        let mut known: Vec<BotCommand> = Vec::new();
        for (name, description) in commands {
            let name = name.trim_start_matches('/').to_lowercase().replace('-', "_");
            let is_one = (1..=COMMAND_LENGTH_MAX).contains(&name.len())
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            let description: String = description.chars().take(DESCRIPTION_LENGTH_MAX).collect();
            if is_one && !description.is_empty() && known.iter().all(|known| known.command != name) {
                known.push(BotCommand::builder().command(name).description(description).build());
            }
        }
        known.truncate(COMMANDS_MAX);
        let parameters = SetMyCommandsParams::builder().commands(known).build();
        let done = self.ask::<bool>("setMyCommands", &parameters).await;
        done.map(|_| ()).map_err(|failure| match failure.retry_after() {
            Some(wait) => SendError::Later { after: Some(wait), message: failure.to_string() },
            None => SendError::Never { message: format!("the menu of commands was not changed: {failure}") },
        })
    }

    pub(super) async fn fetch(&self, attachment: &Attachment, limit: usize) -> Result<Vec<u8>, String> {
        let name = attachment.name.as_deref().unwrap_or("the file");
        let too_large = |bytes: u64| {
            format!("{name} has {:.1} MB, and up to {:.1} MB are taken", mega(bytes), mega(limit as u64))
        };
        if let Some(bytes) = attachment.bytes.filter(|bytes| *bytes > limit as u64) {
            return Err(too_large(bytes));
        }
        let parameters = GetFileParams::builder().file_id(attachment.handle.as_str()).build();
        let file = self.ask::<File>("getFile", &parameters).await;
        let file = file.map_err(|failure| match failure.says("file is too big") {
            true => format!("{name} is larger than the 20 MB that Telegram gives to a bot"),
            false => format!("Telegram does not give out {name}: {failure}"),
        })?;
        if let Some(bytes) = file.file_size.filter(|bytes| *bytes > limit as u64) {
            return Err(too_large(bytes));
        }
        let Some(path) = file.file_path else {
            return Err(format!("Telegram does not say where {name} lies; ask for it to be sent again"));
        };
        if self.settings.local_files && Path::new(&path).is_absolute() {
            return self.fetch_here(Path::new(&path), limit).await.map_err(|refused| match refused {
                NotKept::TooLong(bytes) => too_large(bytes),
                NotKept::Unread(error) => {
                    format!("{name} lies on the Bot API server but cannot be read here: {error}")
                }
                NotKept::Elsewhere => format!(
                    "{name} is not taken: the local Bot API server names a place that is not in its own directory; \
                     if it keeps its files elsewhere, name that directory in platforms.telegram.extra.local_files_dir"
                ),
                NotKept::Closed => format!(
                    "{name} is not taken: the local Bot API server names a place in an agent's home or among your keys"
                ),
            });
        }
        let got = self.api.download(&path, limit, self.settings.patience.upload).await;
        got.map(|bytes| bytes.to_vec()).map_err(|failure| match failure {
            TelegramFailure::TooLong => {
                format!("{name} is larger than the {:.1} MB that are taken", mega(limit as u64))
            }
            failure => format!("{name} could not be fetched: {failure}"),
        })
    }

    /// What a Bot API server on this machine has put down for us.
    async fn fetch_here(&self, path: &Path, limit: usize) -> Result<Vec<u8>, NotKept> {
        let directory = self.settings.directory_of(path).ok_or(NotKept::Elsewhere)?;
        media::read_kept(path, &directory, &self.settings.media, limit as u64).await
    }

    pub(super) async fn ask<R: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        parameters: &impl serde::Serialize,
    ) -> Result<R, TelegramFailure> {
        self.api.call(method, parameters, self.settings.patience.answer).await
    }

    /// When Telegram asks for a pause, all sending to the chat pauses.
    fn heed(&self, failure: &TelegramFailure, chat: &str) {
        if let Some(wait) = failure.retry_after() {
            self.pace.rest(chat, wait, Instant::now());
        }
    }

    /// What the outbox may do about it.
    fn error(&self, failure: &TelegramFailure, place: &Destination) -> SendError {
        self.heed(failure, &place.chat);
        let chat = &place.chat;
        match failure {
            TelegramFailure::Unreached(_) => SendError::Later { after: None, message: failure.to_string() },
            TelegramFailure::Lost(_) | TelegramFailure::TooLong => {
                SendError::Unknown { message: failure.to_string() }
            }
            TelegramFailure::Refused { code, description, retry_after, .. } => match code {
                429 => SendError::Later {
                    after: *retry_after,
                    message: format!("Telegram asks for patience with chat {chat}: {description}"),
                },
                401 | 404 => SendError::Later {
                    after: None,
                    message: format!(
                        "Telegram does not accept the bot's token ({description}); renew TELEGRAM_BOT_TOKEN"
                    ),
                },
                409 => SendError::Later { after: None, message: description.clone() },
                403 => SendError::Never {
                    message: format!("the bot may not write to chat {chat}: {description}"),
                },
                _ => SendError::Never {
                    message: format!("Telegram refused it for chat {chat}: {description}"),
                },
            },
        }
    }
}

fn written(text: &str, script: TelegramMarkup) -> (String, Option<ParseMode>) {
    match script {
        TelegramMarkup::Html => (format::html(text), Some(ParseMode::Html)),
        TelegramMarkup::Plain => (text.to_owned(), None),
    }
}

/// With the mark before it, if one is due. The splitter has left room.
fn marked(text: &str, mark: Option<&str>) -> String {
    match mark {
        None => text.to_owned(),
        Some(mark) => {
            let room = LENGTH_MAX.saturating_sub(units(text) + 2);
            format!("{}\n\n{text}", &mark[..beginning(mark, room)])
        }
    }
}

/// As much as one message holds: the beginning, as the reply will have it.
pub(super) fn preview(text: &str) -> String {
    split::first(text).map_or_else(|| text.to_owned(), |piece| piece.text())
}

fn shortened(text: &str) -> String {
    match units(text) > QUESTION_UNITS_MAX {
        true => format!("{}…", &text[..beginning(text, QUESTION_UNITS_MAX)]),
        false => text.to_owned(),
    }
}

/// As code, with enough backticks around it.
fn code(text: String) -> String {
    let mark = match text.contains("```") {
        true => "~~~~~~~~",
        false => "```",
    };
    format!("{mark}\n{text}\n{mark}")
}

/// So that nothing in it is taken for a mark.
fn literal(text: impl AsRef<str>) -> String {
    let mut out = String::new();
    for c in text.as_ref().chars() {
        if matches!(c, '*' | '_' | '~' | '|' | '`' | '[' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn mega(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// How a file is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Photo,
    Voice,
    Audio,
    Video,
    Animation,
    Document,
}

impl FileKind {
    fn of(file: &Upload) -> Self {
        let ending = Path::new(&file.name).extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref().unwrap_or_default() {
            "jpg" | "jpeg" | "png" | "webp" if file.bytes.len() <= PHOTO_BYTES_MAX => FileKind::Photo,
            "ogg" | "oga" | "opus" => FileKind::Voice,
            "mp3" | "m4a" => FileKind::Audio,
            "mp4" | "mov" | "webm" | "3gp" => FileKind::Video,
            "gif" => FileKind::Animation,
            _ => FileKind::Document,
        }
    }

    fn method(self) -> &'static str {
        match self {
            FileKind::Photo => "sendPhoto",
            FileKind::Voice => "sendVoice",
            FileKind::Audio => "sendAudio",
            FileKind::Video => "sendVideo",
            FileKind::Animation => "sendAnimation",
            FileKind::Document => "sendDocument",
        }
    }

    fn field(self) -> &'static str {
        match self {
            FileKind::Photo => "photo",
            FileKind::Voice => "voice",
            FileKind::Audio => "audio",
            FileKind::Video => "video",
            FileKind::Animation => "animation",
            FileKind::Document => "document",
        }
    }
}

fn is_about_the_file(failure: &TelegramFailure) -> bool {
    ["photo", "image", "voice", "video", "audio", "animation", "wrong file", "file"]
        .iter()
        .any(|word| failure.code() == Some(400) && failure.says(word))
}

fn form(
    address: &TelegramAddress,
    kind: FileKind,
    name: &str,
    bytes: bytes::Bytes,
    mark: Option<&str>,
) -> Form {
    let chat = match &address.chat {
        ChatId::Integer(id) => id.to_string(),
        ChatId::String(name) => name.clone(),
    };
    let length = bytes.len() as u64;
    let file = Part::stream_with_length(reqwest::Body::from(bytes), length).file_name(name.to_owned());
    let mut form = Form::new().text("chat_id", chat).part(kind.field(), file);
    if let Some(thread) = address.thread {
        form = form.text("message_thread_id", thread.to_string());
    }
    if let Some(answered) = address.answered() {
        let answered = serde_json::to_string(&answered).expect("numbers and flags have a JSON form");
        form = form.text("reply_parameters", answered);
    }
    if let Some(mark) = mark {
        form = form.text("caption", mark.to_owned());
    }
    form
}
