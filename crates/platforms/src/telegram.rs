//! Telegram: one bot, by long polling or by webhook.
//!
//! - an update is acknowledged (by the next offset, or by a 200) only when the intake has it on disk;
//!   one that cannot be read is noted and acknowledged, so that it never blocks those behind it
//! - a reply leaves as HTML that is valid by construction, and as plain text if Telegram disagrees
//! - whether a reply arrived is never guessed: what was sent and not answered is of unknown outcome
//! - the account's name is the number before the colon of its token: it stays when the rest is renewed
//!
//! Deliberately absent: who may write and what must be said to be heard (the intake's), streaming
//! (the live view's), and any queue. Telegram keeps what we have not acknowledged.

mod api;
mod button;
mod code_fence;
mod format;
#[cfg(test)]
mod linear;
mod listen;
mod rate_limit;
mod reply_parts;
mod send;
mod split;
mod update;

pub use update::NamedTopic;

use crate::adapter::{self, Adapter, ListenEnded, StopSignal};
use crate::incoming::{Attachment, Intake};
use crate::media;
use api::TelegramApi;
use rate_limit::RateLimit;
use reply_parts::{ReplyPart, items};
use split::TelegramPiece;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::input::Destination;
use throughline_core::port::{CallId, Health, Outgoing, Pending, Platform, Promise, SendError};
use throughline_core::redact::Secret;

/// Questions whose names did not fit on their buttons. Older ones are found among those that wait.
const QUESTIONS_MAX: usize = 256;

/// One bot, as the configuration describes it.
#[derive(Clone, Debug)]
pub struct TelegramSettings {
    /// Hermes' `TELEGRAM_BOT_TOKEN`.
    pub token: Secret,
    /// Hermes' `platforms.telegram.extra.base_url`, with or without `/bot` at its end.
    pub base_url: Option<String>,
    /// Hermes' `base_file_url`.
    pub base_file_url: Option<String>,
    /// Hermes' `local_mode`: a Bot API server of one's own that hands out paths of this machine.
    pub local_files: bool,
    /// The directory that such a server keeps files in. None: the one that is called after the bot's token, as every Bot
    /// API server has it (`<its directory>/<token>/photos/…`). Files elsewhere are not taken from it.
    pub local_directory: Option<PathBuf>,
    /// Hermes' `TELEGRAM_PROXY`.
    pub proxy: Option<String>,
    pub mode: UpdateMode,
    /// Hermes' `TELEGRAM_REPLY_TO_MODE`.
    pub replies: Replies,
    /// Off with Hermes' `disable_link_previews`.
    pub link_previews: bool,
    /// Hermes' `exclusive_bot_mentions`: a message that names other bots, and not us, is theirs.
    pub exclusive_mentions: bool,
    /// Hermes' `dm_topics` and `group_topics`.
    pub topics: Vec<NamedTopic>,
    /// Which files a reply may send.
    pub media: media::MediaRules,
    pub patience: TelegramTimeouts,
}

impl TelegramSettings {
    pub fn new(token: Secret) -> Self {
        Self {
            token,
            base_url: None,
            base_file_url: None,
            local_files: false,
            local_directory: None,
            proxy: None,
            mode: UpdateMode::Polling,
            replies: Replies::First,
            link_previews: true,
            exclusive_mentions: true,
            topics: Vec::new(),
            media: media::MediaRules::default(),
            patience: TelegramTimeouts::default(),
        }
    }
}

impl TelegramSettings {
    /// The directory of the local server that a file it names lies in, by its name alone.
    fn directory_of(&self, path: &Path) -> Option<PathBuf> {
        if let Some(directory) = &self.local_directory {
            return Some(directory.clone());
        }
        let token = self.token.expose();
        // Windows has no `:` in names; the server writes `~` there.
        let names = [token.to_owned(), token.replace(':', "~")];
        let is_token = |directory: &&Path| {
            directory.file_name().is_some_and(|name| names.iter().any(|known| name == known.as_str()))
        };
        path.ancestors().skip(1).find(is_token).map(Path::to_owned)
    }
}

/// How updates reach us.
#[derive(Clone, Debug)]
pub enum UpdateMode {
    Polling,
    /// Telegram calls us: Hermes' `TELEGRAM_WEBHOOK_URL`, `_PORT` (8443) and `_SECRET`.
    Webhook {
        url: String,
        listen: SocketAddr,
        secret: Secret,
    },
}

/// Which parts of a reply show what they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    Off,
    First,
    All,
}

/// How long what may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelegramTimeouts {
    /// How long Telegram holds a question for updates open.
    pub poll: Duration,
    /// For any other answer, and for that one beyond its time.
    pub answer: Duration,
    pub upload: Duration,
    /// Between two tries when something is in the way.
    pub again_min: Duration,
    pub again_max: Duration,
    /// Hermes' `HERMES_TELEGRAM_MEDIA_BATCH_DELAY_SECONDS`: for the other pictures of an album.
    pub album: Duration,
    /// Hermes' `HERMES_TELEGRAM_TEXT_BATCH_SPLIT_DELAY_SECONDS`: for what follows a text as long as a client lets
    /// one be.
    pub split: Duration,
}

impl Default for TelegramTimeouts {
    fn default() -> Self {
        Self {
            // Below the minute after which routers forget a silent connection.
            poll: Duration::from_secs(30),
            answer: Duration::from_secs(20),
            // Fifty megabytes over a slow line.
            upload: Duration::from_secs(300),
            again_min: Duration::from_secs(1),
            again_max: Duration::from_secs(60),
            album: Duration::from_millis(800),
            split: Duration::from_secs(1),
        }
    }
}

/// One bot.
#[derive(Clone)]
pub struct Telegram(Arc<Bot>);

struct Bot {
    account: String,
    settings: TelegramSettings,
    api: TelegramApi,
    pace: RateLimit,
    health: Mutex<Health>,
    questions: Mutex<Vec<CallId>>,
}

impl Telegram {
    /// The error says what in the settings cannot be.
    pub fn new(settings: TelegramSettings) -> Result<Self, String> {
        let token = settings.token.expose();
        let account = token.split_once(':').map(|(account, _)| account).unwrap_or_default();
        let is_token =
            account.parse::<u64>().is_ok() && token.chars().all(|c| c.is_ascii_graphic() && c != '/');
        if !is_token {
            return Err("TELEGRAM_BOT_TOKEN is not a bot's token. A token is a number, a colon and about \
                        35 letters; @BotFather gives it out."
                .to_owned());
        }
        if let UpdateMode::Webhook { url, secret, .. } = &settings.mode {
            check_webhook(url, secret)?;
        }
        let address = settings.base_url.as_deref().unwrap_or(api::ADDRESS);
        let api = TelegramApi::new(
            address,
            settings.base_file_url.as_deref(),
            settings.token.clone(),
            settings.proxy.clone(),
        );
        Ok(Self(Arc::new(Bot {
            account: account.to_owned(),
            api,
            settings,
            pace: RateLimit::default(),
            health: Mutex::new(Health::Starting),
            questions: Mutex::default(),
        })))
    }

    /// A preview that was streamed becomes the reply, or, if it is gone, a message of its own.
    pub async fn finish(&self, outgoing: &Outgoing, draft: &str) -> Result<Option<String>, SendError> {
        self.0.finish(outgoing, draft).await
    }

    /// Shows these commands, with their descriptions, in the menu beside the field for text. Telegram
    /// knows only small letters, digits and `_`: `reload-mcp` is shown as `reload_mcp`.
    pub async fn publish(&self, commands: &[(String, String)]) -> Result<(), SendError> {
        self.0.publish(commands).await
    }
}

fn check_webhook(url: &str, secret: &Secret) -> Result<(), String> {
    let secret = secret.expose();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if secret.is_empty() {
        return Err("TELEGRAM_WEBHOOK_URL is set, but TELEGRAM_WEBHOOK_SECRET is not: anybody could write \
                    in Telegram's name. Set it to the output of `openssl rand -hex 32`."
            .to_owned());
    }
    if secret.len() > 256 || !secret.chars().all(allowed) {
        return Err("TELEGRAM_WEBHOOK_SECRET may be up to 256 letters, digits, `_` and `-` long.".to_owned());
    }
    match reqwest::Url::parse(url) {
        Ok(url) if matches!(url.scheme(), "https" | "http") => Ok(()),
        _ => Err(format!("TELEGRAM_WEBHOOK_URL is {url:?}, which is no address that Telegram could call.")),
    }
}

impl Platform for Telegram {
    fn name(&self) -> &str {
        update::PLATFORM
    }

    fn is_idempotent(&self) -> bool {
        false // the Bot API takes no key
    }

    fn parts(&self, text: &str) -> Vec<String> {
        let parts: Vec<String> = items(text)
            .into_iter()
            .flat_map(|item| match item {
                ReplyPart::Text(text) => split::split(&text).iter().map(TelegramPiece::text).collect(),
                ReplyPart::File(line) => vec![line],
            })
            .collect();
        match parts.is_empty() {
            true => vec![text.to_owned()],
            false => parts,
        }
    }

    fn health(&self) -> Health {
        self.0.health.lock().expect("nothing panics while it holds the health").clone()
    }

    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        match &outgoing.draft {
            Some(draft) => Box::pin(self.0.finish(outgoing, draft)),
            None => Box::pin(self.0.send(outgoing, mark)),
        }
    }

    fn ask<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        question: &'a Pending,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        Box::pin(adapter::ask(self, outgoing, question, mark))
    }
}

impl Adapter for Telegram {
    fn account(&self) -> &str {
        &self.0.account
    }

    fn listen<'a>(&'a self, intake: Arc<dyn Intake>, stop: StopSignal) -> Promise<'a, ListenEnded> {
        Box::pin(listen::listen(&self.0, intake, stop))
    }

    fn typing<'a>(&'a self, place: &'a Destination) -> Promise<'a, ()> {
        Box::pin(self.0.typing(place))
    }

    fn post<'a>(&'a self, place: &'a Destination, text: &'a str) -> Promise<'a, Result<String, SendError>> {
        Box::pin(self.0.post(place, text))
    }

    fn edit<'a>(
        &'a self,
        place: &'a Destination,
        id: &'a str,
        text: &'a str,
    ) -> Promise<'a, Result<(), SendError>> {
        Box::pin(self.0.edit(place, id, text, rate_limit::SendPurpose::Courtesy))
    }

    fn remove<'a>(&'a self, place: &'a Destination, id: &'a str) -> Promise<'a, Result<(), SendError>> {
        Box::pin(self.0.remove(place, id))
    }

    fn put<'a>(
        &'a self,
        place: &'a Destination,
        question: &'a Pending,
    ) -> Promise<'a, Result<String, SendError>> {
        Box::pin(self.0.put(place, question))
    }

    fn react<'a>(&'a self, place: &'a Destination, message: &'a str, sign: &'a str) -> Promise<'a, ()> {
        Box::pin(self.0.react(place, message, sign))
    }

    fn fetch<'a>(&'a self, attachment: &'a Attachment, limit: usize) -> Promise<'a, Result<Vec<u8>, String>> {
        Box::pin(self.0.fetch(attachment, limit))
    }
}

impl Bot {
    fn is(&self, health: Health) {
        let mut current = self.health.lock().expect("nothing panics while it holds the health");
        if *current != health {
            match &health {
                Health::Starting => {}
                Health::Up => tracing::info!(account = self.account, "Telegram is connected"),
                Health::Waiting(why) => tracing::warn!(account = self.account, why, "Telegram waits"),
                Health::Refused(why) => tracing::error!(account = self.account, why, "Telegram is off"),
            }
            *current = health;
        }
    }

    fn remember(&self, call: &CallId) {
        let mut questions = self.questions.lock().expect("nothing panics while it holds the questions");
        if questions.len() >= QUESTIONS_MAX {
            questions.remove(0);
        }
        questions.push(call.clone());
    }

    fn remembered(&self, reference: &button::QuestionReference) -> Option<CallId> {
        let questions = self.questions.lock().expect("nothing panics while it holds the questions");
        questions.iter().find(|call| reference.is(call)).cloned()
    }
}
