//! Discord: a bot's account, over the gateway and the HTTP API.
//!
//! - a restart resumes the session where it was left, and what a long stop missed is read from the channels
//! - a reply carries a nonce made of its key, which Discord is told to enforce: within a few minutes the
//!   same key twice is one message
//! - a person who mentions the bot in a channel gets a thread. It is begun only once the message is kept, and
//!   has the message's own id, so there is at most one; a reply that finds none begins it
//! - nothing the agent says can ring for everyone, unless its operator wants that
//!
//! Deliberately absent: who may speak, voice channels, and more than one connection per account.

mod buttons;
mod channels;
mod commands;
mod cursor;
mod event;
mod gateway;
mod history;
#[cfg(test)]
mod linear;
mod payload;
mod rest;
mod settings;
mod split;

use crate::adapter::{Adapter, ListenEnded, StopSignal};
use crate::incoming::{Attachment, Intake};
use crate::media;
use base64::Engine;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use channels::DiscordPlaces;
use event::{NewThread, thread_name};
use payload::Id;
use reqwest::{Method, Url};
use rest::{FileUpload, Rest, RestBody, RestError, code};
use serde_json::{Value, json};
pub use settings::{AllowedMentions, DiscordSettings, ReplyTo, Slash};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throughline_core::input::Destination;
use throughline_core::port::{Health, Outgoing, Pending, Platform, Promise, SendError};
use tokio::time::sleep;

/// As in [`Destination::platform`].
pub const NAME: &str = "discord";
const REST: &str = "https://discord.com";
const VERSION: &str = "/api/v10";
/// Discord's servers for files that people attach.
const FILES: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];
/// How long Discord is sure to know a nonce. It says "a few minutes"; this is fewer.
const NONCE_MEMORY: Duration = Duration::from_secs(120);
const NONCE_LENGTH: usize = 25;
/// An answer of Discord's takes half a second; after this the adapter gives up.
const PATIENCE: Duration = Duration::from_secs(20);
/// What every server takes, boosted or not.
const UPLOAD_BYTES_MAX: u64 = 10 << 20;
/// As many as Hermes reads.
const HISTORY: usize = 50;
/// What Discord gives out at once.
const HISTORY_MAX: usize = 100;
/// A day without a word, and the thread is put away.
const THREAD_MINUTES: u32 = 1_440;
const THREAD_TRIES: u32 = 3;
/// Messages of which is known what sign is on them.
const SIGNS_MAX: usize = 1_024;

const REVOKED: &str = "Discord does not accept the bot's token: it was revoked or mistyped. Open the bot's page in the \
                       Discord Developer Portal, reset its token under Bot, put it into .env as DISCORD_BOT_TOKEN and \
                       restart the gateway.";

pub struct Discord {
    settings: DiscordSettings,
    account: String,
    rest: Rest,
    places: DiscordPlaces,
    health: Mutex<Health>,
    /// The sign we put on a message, by channel and message.
    signs: Mutex<HashMap<(Id, Id), String>>,
}

impl Discord {
    pub fn new(settings: DiscordSettings) -> Self {
        let base = settings.rest_url.as_deref().unwrap_or(REST).trim_end_matches('/').to_owned();
        Self {
            account: account(settings.token.expose()),
            rest: Rest::new(&format!("{base}{VERSION}"), settings.token.clone(), settings.patience),
            places: DiscordPlaces::default(),
            health: Mutex::new(Health::Starting),
            signs: Mutex::default(),
            settings,
        }
    }

    fn feels(&self, health: Health) {
        *self.health.lock().expect("nothing panics while it holds the health") = health;
    }

    /// The origin of an address that may be a gateway of Discord's, or the one in its place.
    fn gateway_at(&self, address: &str) -> Option<String> {
        let url = Url::parse(address).ok()?;
        let host = url.host_str()?;
        let is_one = match self.settings.gateway_url.as_deref().and_then(|base| Url::parse(base).ok()) {
            Some(base) => (base.scheme(), base.host_str()) == (url.scheme(), Some(host)),
            None => url.scheme() == "wss" && (host == "discord.gg" || host.ends_with(".discord.gg")),
        };
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        is_one.then(|| format!("{}://{host}{port}", url.scheme()))
    }

    /// Sends one part. The same key always has the same nonce.
    async fn deliver(&self, outgoing: &Outgoing, mark: Option<&str>) -> Result<Option<String>, SendError> {
        let address = DiscordAddress::of(&outgoing.destination)?;
        let content = self.content(&outgoing.text, mark).await?;
        let is_first = is_first(&outgoing.key);
        let shown = match self.settings.reply_to {
            ReplyTo::Off => false,
            ReplyTo::First => is_first,
            ReplyTo::All => true,
        };
        let letter = OutgoingMessage {
            answers: address.message.filter(|_| shown),
            nonce: Some(nonce(&outgoing.key)),
            components: None,
            content,
        };
        self.mail(&address, letter).await
    }

    /// A reply takes the place of its preview. Saying so twice is saying it once, so what may have
    /// arrived can simply be said again.
    pub async fn become_reply(
        &self,
        outgoing: &Outgoing,
        preview: &str,
        mark: Option<&str>,
    ) -> Result<Option<String>, SendError> {
        let (address, id) = (DiscordAddress::of(&outgoing.destination)?, message_id(preview)?);
        let content = self.content(&outgoing.text, mark).await?;
        let body =
            json!({"content": content.text, "allowed_mentions": self.allowed_mentions(), "components": []});
        let path = format!("/channels/{}/messages/{id}", address.channel);
        let changed = self.rest.ask(Method::PATCH, &path, content.over(body)).await;
        changed.map_err(|fault| fault.sending(&format!("channel {}", address.channel)))?;
        Ok(Some(id.to_string()))
    }

    /// A reply that puts a question, with its buttons.
    pub async fn inquire(
        &self,
        outgoing: &Outgoing,
        question: &Pending,
        mark: Option<&str>,
    ) -> Result<Option<String>, SendError> {
        let letter = OutgoingMessage {
            content: self.content(&outgoing.text, mark).await?,
            answers: None,
            nonce: Some(nonce(&outgoing.key)),
            components: buttons::rows(question),
        };
        self.mail(&DiscordAddress::of(&outgoing.destination)?, letter).await
    }

    /// Text, or the files that it names.
    async fn content(&self, text: &str, mark: Option<&str>) -> Result<MessageContent, SendError> {
        let Some(paths) = media::all_tagged(text) else {
            let text = mark.map_or_else(|| text.to_owned(), |mark| format!("{mark}\n{text}"));
            return Ok(MessageContent { text, files: Vec::new() });
        };
        let mut files = Vec::new();
        for path in paths {
            let file = media::read(path, &self.settings.media, UPLOAD_BYTES_MAX).await;
            let file = file.map_err(|message| SendError::Never { message })?;
            files.push(FileUpload { name: file.name, bytes: file.bytes });
        }
        Ok(MessageContent { text: mark.unwrap_or_default().to_owned(), files })
    }

    /// Posts it there, and gets out of the way what can be got out of the way.
    async fn mail(
        &self,
        address: &DiscordAddress,
        letter: OutgoingMessage,
    ) -> Result<Option<String>, SendError> {
        let first = self.create(address.channel, &letter).await;
        let again = match &first {
            Err(fault) if fault.code() == code::UNKNOWN_CHANNEL => match address.born_at {
                Some(birth) => self.mail_to_newborn(address, birth, &letter).await,
                None => first,
            },
            // What it answers is gone, or is nothing that can be answered.
            Err(fault) if letter.answers.is_some() && is_about_reference(fault) => {
                self.create(address.channel, &OutgoingMessage { answers: None, ..letter }).await
            }
            _ => first,
        };
        let answer = again.map_err(|fault| fault.sending(&format!("channel {}", address.channel)))?;
        Ok(answer["id"].as_str().map(str::to_owned))
    }

    /// Begins the thread that the reply belongs to. If that may not be, the reply is given where the
    /// question was asked: better in the wrong place than nowhere.
    async fn mail_to_newborn(
        &self,
        address: &DiscordAddress,
        birth: ThreadStart,
        letter: &OutgoingMessage,
    ) -> Result<Value, RestError> {
        let path = format!("/channels/{}/messages/{}", birth.channel, birth.message);
        let name = match self.rest.get::<payload::DiscordMessage>(&path).await {
            Ok(message) => thread_name(&message.content),
            Err(fault) if fault.will_pass() => return Err(not_sent(fault)),
            Err(_) => thread_name(""),
        };
        let thread = NewThread { channel: birth.channel, message: birth.message, name };
        match self.begin_thread(&thread).await {
            Ok(()) => self.create(address.channel, letter).await,
            Err(fault) if fault.will_pass() => Err(not_sent(fault)),
            Err(fault) => {
                tracing::warn!(%fault, channel = %birth.channel, "no thread can be begun; the reply goes to its channel");
                let letter = OutgoingMessage { answers: Some(birth.message), ..letter.clone() };
                self.create(birth.channel, &letter).await
            }
        }
    }

    async fn begin_thread(&self, thread: &NewThread) -> Result<(), RestError> {
        let path = format!("/channels/{}/messages/{}/threads", thread.channel, thread.message);
        let body = json!({"name": thread.name, "auto_archive_duration": THREAD_MINUTES});
        let mut attempt = 1;
        loop {
            match self.rest.post(&path, body.clone()).await {
                Ok(_) => return Ok(()),
                Err(fault) if fault.code() == code::HAS_THREAD => return Ok(()),
                Err(fault) if fault.will_pass() && attempt < THREAD_TRIES && !fault.is_unauthorized() => {
                    sleep(Duration::from_millis(750)).await;
                }
                Err(fault) => return Err(fault),
            }
            attempt += 1;
        }
    }

    async fn create(&self, channel: Id, letter: &OutgoingMessage) -> Result<Value, RestError> {
        let mut body = json!({"allowed_mentions": self.allowed_mentions()});
        if !letter.content.text.is_empty() {
            body["content"] = json!(letter.content.text);
        }
        if let Some(nonce) = &letter.nonce {
            body["nonce"] = json!(nonce);
            body["enforce_nonce"] = json!(true);
        }
        if let Some(message) = letter.answers {
            body["message_reference"] = json!({"message_id": message, "fail_if_not_exists": false});
        }
        if let Some(components) = &letter.components {
            body["components"] = components.clone();
        }
        let path = format!("/channels/{channel}/messages");
        self.rest.ask(Method::POST, &path, letter.content.clone().over(body)).await
    }

    fn allowed_mentions(&self) -> Value {
        let AllowedMentions { everyone, roles, users, replied_user } = self.settings.mentions;
        let kinds = [(everyone, "everyone"), (roles, "roles"), (users, "users")];
        let kinds: Vec<&str> =
            kinds.into_iter().filter(|(allowed, _)| *allowed).map(|(_, kind)| kind).collect();
        json!({"parse": kinds, "replied_user": replied_user})
    }

    async fn change(&self, place: &Destination, id: &str, text: &str) -> Result<(), SendError> {
        let (address, id) = (DiscordAddress::of(place)?, message_id(id)?);
        let body = json!({
            "content": split::shortened(text),
            "allowed_mentions": self.allowed_mentions(),
            "components": [], // a question that is answered has no buttons
        });
        let path = format!("/channels/{}/messages/{id}", address.channel);
        let changed = self.rest.ask(Method::PATCH, &path, RestBody::Json(body)).await;
        changed.map(|_| ()).map_err(|fault| fault.sending(&format!("channel {}", address.channel)))
    }

    async fn sign(&self, place: &Destination, message: &str, sign: &str) -> Result<(), RestError> {
        let (Ok(address), Ok(message)) = (DiscordAddress::of(place), message_id(message)) else {
            return Ok(());
        };
        // What began a thread is not in it.
        let channel = address
            .born_at
            .filter(|birth| birth.message == message)
            .map_or(address.channel, |birth| birth.channel);
        let before = {
            let mut signs = self.signs.lock().expect("nothing panics while it holds the signs");
            if signs.len() >= SIGNS_MAX {
                signs.clear();
            }
            match sign.is_empty() {
                true => signs.remove(&(channel, message)),
                false => signs.insert((channel, message), sign.to_owned()),
            }
        };
        let path = |sign: &str| {
            let sign: String = sign.bytes().map(|byte| format!("%{byte:02X}")).collect();
            format!("/channels/{channel}/messages/{message}/reactions/{sign}/@me")
        };
        if let Some(before) = before.filter(|before| before != sign) {
            self.rest.ask(Method::DELETE, &path(&before), RestBody::Nothing).await?;
        }
        if !sign.is_empty() {
            self.rest.ask(Method::PUT, &path(sign), RestBody::Nothing).await?;
        }
        Ok(())
    }

    async fn file(&self, attachment: &Attachment, limit: usize) -> Result<Vec<u8>, String> {
        let name = attachment.name.as_deref().unwrap_or("the file");
        if attachment.bytes.is_some_and(|bytes| bytes > limit as u64) {
            return Err(format!("{name} is larger than {limit} bytes"));
        }
        let url =
            self.file_at(&attachment.handle).ok_or_else(|| format!("{name} does not lie with Discord"))?;
        let mut found = self.rest.download(url, limit).await;
        if let Err(RestError::Status { status: 403 | 404 | 410, .. }) = found {
            // Its address has expired; Discord gives out a new one.
            let body = json!({"attachment_urls": [attachment.handle]});
            let answer = self.rest.post("/attachments/refresh-urls", body).await;
            let fresh = answer
                .ok()
                .and_then(|answer| self.file_at(answer["refreshed_urls"][0]["refreshed"].as_str()?));
            if let Some(url) = fresh {
                found = self.rest.download(url, limit).await;
            }
        }
        found.map_err(|fault| format!("{name} could not be fetched: {fault}"))
    }

    /// An address is followed only where Discord, or what stands in its place, keeps files.
    fn file_at(&self, address: &str) -> Option<Url> {
        let url = Url::parse(address).ok()?;
        let at_discord = url.scheme() == "https" && FILES.iter().any(|host| url.host_str() == Some(host));
        let base = self.settings.rest_url.as_deref().and_then(|base| Url::parse(base).ok());
        let at_base = base.is_some_and(|base| base.origin() == url.origin());
        (at_discord || at_base).then_some(url)
    }
}

#[derive(Clone)]
struct OutgoingMessage {
    content: MessageContent,
    answers: Option<Id>,
    nonce: Option<String>,
    components: Option<Value>,
}

#[derive(Clone)]
struct MessageContent {
    text: String,
    files: Vec<FileUpload>,
}

impl MessageContent {
    /// The files, with the message they belong to.
    fn over(self, message: Value) -> RestBody {
        match self.files.is_empty() {
            true => RestBody::Json(message),
            false => RestBody::Files(message, self.files),
        }
    }
}

/// A [`Destination`], as Discord sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DiscordAddress {
    /// A thread is a channel.
    channel: Id,
    /// The message in it that is answered.
    message: Option<Id>,
    /// The message that the thread belongs to, in another channel.
    born_at: Option<ThreadStart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadStart {
    channel: Id,
    message: Id,
}

impl DiscordAddress {
    fn of(place: &Destination) -> Result<Self, SendError> {
        let name = place.thread.as_deref().unwrap_or(&place.chat);
        let channel = name.parse().map_err(|_| SendError::Never {
            message: format!("{name:?} is not a channel of Discord; a channel is named by its number"),
        })?;
        let reply_to = place.reply_to.as_deref();
        let born_at = reply_to.and_then(|text| text.split_once('/')).and_then(|(channel, message)| {
            Some(ThreadStart { channel: channel.parse().ok()?, message: message.parse().ok()? })
        });
        Ok(Self { channel, message: reply_to.and_then(|text| text.parse().ok()), born_at })
    }
}

fn message_id(text: &str) -> Result<Id, SendError> {
    text.parse().map_err(|_| SendError::Never { message: format!("{text:?} is not a message of Discord") })
}

/// The reply itself was not sent; what had to be done first failed.
fn not_sent(fault: RestError) -> RestError {
    match fault {
        RestError::Lost(reason) => RestError::Unreachable(reason),
        RestError::Status { status: 408 | 500.., message, .. } => RestError::Unreachable(message),
        other => other,
    }
}

fn is_about_reference(fault: &RestError) -> bool {
    match fault {
        RestError::Status { code: code::UNKNOWN_MESSAGE, .. } => true,
        RestError::Status { code: code::INVALID_FORM, message, .. } => message.contains("message_reference"),
        _ => false,
    }
}

/// The first row of a reply; the others have a number behind its key.
fn is_first(key: &str) -> bool {
    key.rsplit_once('+').is_none_or(|(_, number)| number.parse::<u32>().is_err())
}

/// What a key is to Discord.
fn nonce(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(digest)[..NONCE_LENGTH].to_owned()
}

/// A token begins with the id of its bot. Anything else is no token, and still has a name that
/// tells nothing about it.
fn account(token: &str) -> String {
    let first = token.split('.').next().unwrap_or_default().trim_end_matches('=');
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(first).or_else(|_| BASE64_STANDARD_NO_PAD.decode(first));
    let id =
        decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok()).filter(|id| id.parse::<Id>().is_ok());
    id.unwrap_or_else(|| {
        Sha256::digest(token.as_bytes())[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    })
}

impl Platform for Discord {
    fn name(&self) -> &str {
        NAME
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn key_memory(&self) -> Option<Duration> {
        Some(NONCE_MEMORY)
    }

    fn parts(&self, text: &str) -> Vec<String> {
        split::parts(text)
    }

    fn health(&self) -> Health {
        self.health.lock().expect("nothing panics while it holds the health").clone()
    }

    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        match &outgoing.draft {
            Some(id) => Box::pin(self.become_reply(outgoing, id, mark)),
            None => Box::pin(self.deliver(outgoing, mark)),
        }
    }

    fn ask<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        question: &'a Pending,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        Box::pin(self.inquire(outgoing, question, mark))
    }
}

impl Adapter for Discord {
    fn account(&self) -> &str {
        &self.account
    }

    fn listen<'a>(&'a self, intake: Arc<dyn Intake>, stop: StopSignal) -> Promise<'a, ListenEnded> {
        Box::pin(async move { self.attend(intake.as_ref(), stop).await })
    }

    fn typing<'a>(&'a self, place: &'a Destination) -> Promise<'a, ()> {
        Box::pin(async move {
            if let Ok(address) = DiscordAddress::of(place) {
                let path = format!("/channels/{}/typing", address.channel);
                let _ = self.rest.ask(Method::POST, &path, RestBody::Nothing).await;
            }
        })
    }

    fn post<'a>(&'a self, place: &'a Destination, text: &'a str) -> Promise<'a, Result<String, SendError>> {
        Box::pin(async move {
            let content = MessageContent { text: split::shortened(text), files: Vec::new() };
            let letter = OutgoingMessage { content, answers: None, nonce: None, components: None };
            let id = self.mail(&DiscordAddress::of(place)?, letter).await?;
            id.ok_or_else(|| SendError::Unknown { message: "Discord did not say which message it is".into() })
        })
    }

    fn edit<'a>(
        &'a self,
        place: &'a Destination,
        id: &'a str,
        text: &'a str,
    ) -> Promise<'a, Result<(), SendError>> {
        Box::pin(self.change(place, id, text))
    }

    fn remove<'a>(&'a self, place: &'a Destination, id: &'a str) -> Promise<'a, Result<(), SendError>> {
        Box::pin(async move {
            let (address, id) = (DiscordAddress::of(place)?, message_id(id)?);
            let path = format!("/channels/{}/messages/{id}", address.channel);
            match self.rest.ask(Method::DELETE, &path, RestBody::Nothing).await {
                Err(fault) if fault.code() != code::UNKNOWN_MESSAGE => {
                    Err(fault.sending(&format!("channel {}", address.channel)))
                }
                _ => Ok(()), // it is gone already
            }
        })
    }

    fn put<'a>(
        &'a self,
        place: &'a Destination,
        question: &'a Pending,
    ) -> Promise<'a, Result<String, SendError>> {
        Box::pin(async move {
            let text = split::shortened(&question.ask.question.in_words());
            let letter = OutgoingMessage {
                content: MessageContent { text, files: Vec::new() },
                answers: None,
                // The same question twice, as after a restart, is one message for a while.
                nonce: Some(nonce(&format!("ask {}", question.call))),
                components: buttons::rows(question),
            };
            let id = self.mail(&DiscordAddress::of(place)?, letter).await?;
            id.ok_or_else(|| SendError::Unknown { message: "Discord did not say which message it is".into() })
        })
    }

    fn react<'a>(&'a self, place: &'a Destination, message: &'a str, sign: &'a str) -> Promise<'a, ()> {
        Box::pin(async move {
            if self.settings.reactions {
                let _ = self.sign(place, message, sign).await;
            }
        })
    }

    fn fetch<'a>(&'a self, attachment: &'a Attachment, limit: usize) -> Promise<'a, Result<Vec<u8>, String>> {
        Box::pin(self.file(attachment, limit))
    }
}

#[cfg(test)]
mod tests;
