//! Slack, by Socket Mode: nothing has to be reachable from outside.
//!
//! - an envelope is acknowledged when the intake has its message on disk, never before; what was not
//!   acknowledged Slack delivers again, on this connection or the next
//! - Slack takes no key with a message, so one whose outcome is unknown is sent again with a mark
//! - a refusal that concerns the account (a revoked token, a missing scope) is the account's state, with
//!   what to do about it; one that concerns a chat is the end of that message only
//!
//! Deliberately absent: who may speak and when a mention is needed (the intake knows), several
//! workspaces behind one app, and blocks for ordinary replies.

mod api;
mod event;
#[cfg(test)]
mod linear;
mod settings;
mod socket;
pub mod text;

use crate::adapter::{self, Adapter, ListenEnded, StopSignal};
use crate::incoming::{Attachment, Intake};
use crate::media;
use api::{CallBody, SlackApi, SlackFailure, TokenKind};
use event::{ChannelKind, SlackApp};
use serde_json::{Value, json};
pub use settings::{SlackOptions, SlackSettings};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use throughline_core::input::Destination;
use throughline_core::port::{Health, Outgoing, Pending, Platform, Promise, SendError};
use throughline_core::redact::Secret;
use throughline_core::tool::Question;

const PLATFORM: &str = "slack";
pub const BASE: &str = "https://slack.com/api";
/// What is only nice to have does not hold up what must be kept: Slack waits three seconds for a
/// receipt.
const COURTESY: Duration = Duration::from_secs(2);
/// Names, kinds of channels and signs that are remembered; a large workspace talks to its bot from
/// fewer places in a day.
const REMEMBERED_MAX: usize = 5000;
/// What is told of a thread that we are called into: messages, and characters of each.
const THREAD_MAX: &str = "30";
const LINE_MAX: usize = 1000;
/// The whole file is held while it is sent.
const FILE_MAX: u64 = 64 << 20;
/// Slack's limits for a question: a section's text, a button's label, a button's value.
const SECTION_MAX: usize = 2900;
const LABEL_MAX: usize = 72;
const VALUE_MAX: usize = 2000;
const BUTTONS_MAX: usize = 20;

pub struct Slack {
    api: SlackApi,
    account: String,
    settings: SlackSettings,
    state: Mutex<SlackState>,
    /// The workspace shows no status; asking again changes nothing.
    mute: AtomicBool,
}

struct SlackState {
    link: Health,
    /// What a call was refused with that concerns all of them, until one succeeds.
    refusal: Option<String>,
    me: Option<SlackApp>,
    names: BTreeMap<String, String>,
    kinds: BTreeMap<String, ChannelKind>,
    /// Up to where a thread's messages were kept: channel and thread.
    heard: BTreeMap<(String, String), String>,
    /// The sign we put on a message.
    signs: BTreeMap<(String, String), &'static str>,
}

impl Slack {
    /// Fails only on an address that is none, or on a machine without certificates.
    pub fn new(mut settings: SlackSettings) -> Result<Self, String> {
        // Hermes takes one token for each workspace, separated by commas.
        let token = settings.bot_token.expose().to_owned();
        if let Some((first, _)) = token.split_once(',') {
            tracing::warn!("SLACK_BOT_TOKEN names several workspaces; all but the first are off");
            settings.bot_token = Secret::new(first.trim());
        }
        let api = SlackApi::new(&settings)?;
        let state = SlackState {
            link: Health::Starting,
            refusal: None,
            me: None,
            names: BTreeMap::new(),
            kinds: BTreeMap::new(),
            heard: BTreeMap::new(),
            signs: BTreeMap::new(),
        };
        Ok(Self {
            api,
            account: account(&settings.app_token),
            settings,
            state: Mutex::new(state),
            mute: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, SlackState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, health: Health) {
        self.state().link = health;
    }

    /// A call in the bot's name.
    async fn call(&self, method: &str, body: CallBody<'_>) -> Result<Value, SlackFailure> {
        let outcome = self.api.call(TokenKind::Bot, method, body).await;
        self.heed(method, &outcome);
        outcome
    }

    /// What a call says about the account.
    fn heed(&self, method: &str, outcome: &Result<Value, SlackFailure>) {
        // One scope of many is the account's state only where nothing works without it.
        let vital = matches!(method, "chat.postMessage" | "auth.test");
        match outcome {
            Ok(_) => self.state().refusal = None,
            Err(failure) if failure.is("missing_scope") && !vital => {}
            Err(failure) => {
                if let Some(words) = failure.refusal() {
                    self.state().refusal = Some(words);
                }
            }
        }
    }

    /// Sends one part of a reply. A message of ours that shows what was said so far, if there is one,
    /// becomes it: changing a message twice is changing it once, so that needs no mark.
    async fn reply(
        &self,
        outgoing: &Outgoing,
        draft: Option<&str>,
        mark: Option<&str>,
    ) -> Result<Option<String>, SendError> {
        let place = &outgoing.destination;
        if let Some(paths) = media::all_tagged(&outgoing.text) {
            return self.hand_over(place, &paths, mark).await;
        }
        if let Some(draft) = draft {
            let gone = ["message_not_found", "cant_update_message", "edit_window_closed", "msg_too_long"];
            match self.change(place, draft, &outgoing.text).await {
                Ok(()) => return Ok(Some(draft.to_owned())),
                Err(failure) if gone.iter().any(|name| failure.is(name)) => {}
                Err(failure) => return Err(failure.of_message(&place.chat)),
            }
        }
        let mut text = text::mrkdwn(&outgoing.text);
        if let Some(mark) = mark {
            text = format!("{mark}\n\n{text}");
        }
        let broadcast =
            self.settings.options.reply_broadcast && place.thread.is_some() && is_first(&outgoing.key);
        let extra = if broadcast { json!({"reply_broadcast": true}) } else { Value::Null };
        self.say(place, text, extra).await
    }

    /// Posts `text`, which is in Slack's form already. Returns its timestamp.
    async fn say(
        &self,
        place: &Destination,
        text: String,
        extra: Value,
    ) -> Result<Option<String>, SendError> {
        let mut message = json!({"channel": place.chat, "text": text, "mrkdwn": true});
        if let Some(thread) = &place.thread {
            message["thread_ts"] = json!(thread);
        }
        if let (Some(message), Some(extra)) = (message.as_object_mut(), extra.as_object()) {
            message.extend(extra.clone());
        }
        let answer = self.call("chat.postMessage", CallBody::Json(message)).await;
        let answer = answer.map_err(|failure| failure.of_message(&place.chat))?;
        Ok(answer["ts"].as_str().map(str::to_owned))
    }

    /// Uploads files and shows them in one message.
    async fn hand_over(
        &self,
        place: &Destination,
        paths: &[&str],
        mark: Option<&str>,
    ) -> Result<Option<String>, SendError> {
        let mut files = Vec::new();
        for path in paths {
            let file = media::read(path, &self.settings.media, FILE_MAX)
                .await
                .map_err(|message| SendError::Never { message })?;
            let id = self.upload(&file).await.map_err(|failure| match failure {
                // Nothing is shown before the upload is completed.
                SlackFailure::Unclear(message) => SendError::Later { after: None, message },
                other => other.of_message(&place.chat),
            })?;
            files.push(json!({"id": id, "title": file.name}));
        }
        let mut message = json!({"files": files, "channel_id": place.chat});
        if let Some(thread) = &place.thread {
            message["thread_ts"] = json!(thread);
        }
        if let Some(mark) = mark {
            message["initial_comment"] = json!(mark);
        }
        let answer = self.call("files.completeUploadExternal", CallBody::Json(message)).await;
        let answer = answer.map_err(|failure| failure.of_message(&place.chat))?;
        Ok(answer["files"][0]["id"].as_str().map(str::to_owned))
    }

    async fn upload(&self, file: &media::OutgoingFile) -> Result<String, SlackFailure> {
        let length = file.bytes.len().to_string();
        let form = [("filename", file.name.as_str()), ("length", length.as_str())];
        let answer = self.call("files.getUploadURLExternal", CallBody::Form(&form)).await?;
        let (Some(address), Some(id)) = (answer["upload_url"].as_str(), answer["file_id"].as_str()) else {
            return Err(SlackFailure::Unreached("Slack named no place for the file".to_owned()));
        };
        self.api.upload(address, file.bytes.clone()).await?;
        Ok(id.to_owned())
    }

    /// How a person is called. Decoration: a workspace that does not say is answered with the id.
    async fn name_of(&self, user: &str) -> String {
        if let Some(name) = self.state().names.get(user) {
            return name.clone();
        }
        let form = [("user", user)];
        let answer =
            self.api.call_within(COURTESY, TokenKind::Bot, "users.info", CallBody::Form(&form)).await;
        let name = match answer {
            Ok(answer) => {
                let profile = &answer["user"]["profile"];
                let names = [&profile["display_name"], &profile["real_name"], &answer["user"]["name"]];
                let named = names.iter().find_map(|name| name.as_str().filter(|name| !name.is_empty()));
                named.unwrap_or(user).to_owned()
            }
            Err(SlackFailure::No { .. }) => user.to_owned(),
            Err(_) => return user.to_owned(), // asked again next time
        };
        let names = &mut self.state().names;
        make_room(names);
        names.insert(user.to_owned(), name.clone());
        name
    }

    /// What kind of place a channel is. A mention does not say, and a circle has another key than a
    /// channel, so it is asked for rather than guessed.
    async fn kind_of(&self, channel: &str, said: Option<ChannelKind>) -> ChannelKind {
        let known = said.or_else(|| self.state().kinds.get(channel).copied());
        let kind = match known {
            Some(kind) => kind,
            None => {
                let form = [("channel", channel)];
                let ask = self.api.call_within(
                    COURTESY,
                    TokenKind::Bot,
                    "conversations.info",
                    CallBody::Form(&form),
                );
                match ask.await {
                    Ok(answer) if answer["channel"]["is_im"] == true => ChannelKind::Direct,
                    Ok(answer) if answer["channel"]["is_mpim"] == true => ChannelKind::Circle,
                    Ok(_) => ChannelKind::Channel,
                    Err(_) => return ChannelKind::Channel,
                }
            }
        };
        let kinds = &mut self.state().kinds;
        make_room(kinds);
        kinds.insert(channel.to_owned(), kind);
        kind
    }

    /// What was said in a thread before we were called into it, as far as Slack tells in time.
    async fn said_before(&self, channel: &str, thread: &str, before: &str, me: &SlackApp) -> Option<String> {
        let spot = (channel.to_owned(), thread.to_owned());
        let heard = self.state().heard.get(&spot).cloned().unwrap_or_default();
        let mut form = vec![("channel", channel), ("ts", thread), ("latest", before), ("limit", THREAD_MAX)];
        if !heard.is_empty() {
            form.push(("oldest", &heard));
        }
        let ask =
            self.api.call_within(COURTESY, TokenKind::Bot, "conversations.replies", CallBody::Form(&form));
        let answer = ask.await.ok()?;
        let mut lines = Vec::new();
        for (who, words) in event::unheard(&answer, me, &heard, before) {
            let name = self.name_of(&who).await;
            lines.push(format!("[{name}] {}", cut(&words, LINE_MAX)));
        }
        (!lines.is_empty()).then(|| format!("Said before in this thread:\n{}", lines.join("\n")))
    }

    fn has_heard(&self, channel: &str, thread: &str, ts: &str) {
        let heard = &mut self.state().heard;
        make_room(heard);
        heard.insert((channel.to_owned(), thread.to_owned()), ts.to_owned());
    }

    /// A word that only one person sees, gone with a reload.
    async fn whisper(&self, place: &Destination, user: &str, words: &str) {
        let mut message = json!({"channel": place.chat, "user": user, "text": text::mrkdwn(words)});
        if let Some(thread) = &place.thread {
            message["thread_ts"] = json!(thread);
        }
        let _ = self
            .api
            .call_within(COURTESY, TokenKind::Bot, "chat.postEphemeral", CallBody::Json(message))
            .await;
    }

    async fn change(&self, place: &Destination, id: &str, markdown: &str) -> Result<(), SlackFailure> {
        // Without blocks of its own a message would keep those it had: buttons that do nothing.
        let message = json!({"channel": place.chat, "ts": id, "text": text::clipped(markdown), "blocks": []});
        self.call("chat.update", CallBody::Json(message)).await.map(|_| ())
    }
}

/// The app's id stands in its token, and stays when the token is renewed.
fn account(token: &Secret) -> String {
    let id = token.expose().split('-').nth(2).filter(|id| {
        id.starts_with('A') && id.len() > 4 && id.chars().all(|letter| letter.is_ascii_alphanumeric())
    });
    id.unwrap_or("slack").to_owned()
}

/// Half of what is remembered goes when there is too much of it: it can be asked for again.
fn make_room<Key: Ord + Clone, Kept>(kept: &mut BTreeMap<Key, Kept>) {
    if kept.len() >= REMEMBERED_MAX {
        let middle = kept.keys().nth(REMEMBERED_MAX / 2).cloned();
        if let Some(middle) = middle {
            *kept = kept.split_off(&middle);
        }
    }
}

/// Whether a reply's key names its first part.
fn is_first(key: &str) -> bool {
    let number = key.rsplit_once('+').map(|(_, number)| number);
    !number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Platform for Slack {
    fn name(&self) -> &str {
        PLATFORM
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn parts(&self, text: &str) -> Vec<String> {
        text::parts(text)
    }

    fn health(&self) -> Health {
        let state = self.state();
        match &state.refusal {
            Some(words) => Health::Refused(words.clone()),
            None => state.link.clone(),
        }
    }

    fn send<'a>(
        &'a self,
        outgoing: &'a Outgoing,
        mark: Option<&'a str>,
    ) -> Promise<'a, Result<Option<String>, SendError>> {
        Box::pin(self.reply(outgoing, outgoing.draft.as_deref(), mark))
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

impl Adapter for Slack {
    fn account(&self) -> &str {
        &self.account
    }

    fn listen<'a>(&'a self, intake: Arc<dyn Intake>, stop: StopSignal) -> Promise<'a, ListenEnded> {
        Box::pin(self.attend(intake, stop))
    }

    fn typing<'a>(&'a self, place: &'a Destination) -> Promise<'a, ()> {
        Box::pin(async move {
            // Slack shows a status in threads only, and goes on showing it until something is said.
            let Some(thread) = &place.thread else { return };
            if self.mute.load(Ordering::Relaxed) {
                return;
            }
            let status = &self.settings.options.typing_status_text;
            let body = json!({"channel_id": place.chat, "thread_ts": thread, "status": status});
            let method = "assistant.threads.setStatus";
            let asked = self.api.call_within(COURTESY, TokenKind::Bot, method, CallBody::Json(body)).await;
            let hopeless = ["missing_scope", "unknown_method", "method_not_supported_for_channel_type"];
            if let Err(failure) = asked {
                self.mute.fetch_or(hopeless.iter().any(|name| failure.is(name)), Ordering::Relaxed);
            }
        })
    }

    fn post<'a>(&'a self, place: &'a Destination, text: &'a str) -> Promise<'a, Result<String, SendError>> {
        Box::pin(async move {
            let posted = self.say(place, text::clipped(text), Value::Null).await?;
            posted.ok_or_else(|| SendError::Unknown { message: "Slack did not name the message".to_owned() })
        })
    }

    fn edit<'a>(
        &'a self,
        place: &'a Destination,
        id: &'a str,
        text: &'a str,
    ) -> Promise<'a, Result<(), SendError>> {
        Box::pin(async move {
            self.change(place, id, text).await.map_err(|failure| failure.of_message(&place.chat))
        })
    }

    fn remove<'a>(&'a self, place: &'a Destination, id: &'a str) -> Promise<'a, Result<(), SendError>> {
        Box::pin(async move {
            let message = json!({"channel": place.chat, "ts": id});
            match self.call("chat.delete", CallBody::Json(message)).await {
                Err(failure) if failure.is("message_not_found") => Ok(()), // gone is gone
                outcome => outcome.map(|_| ()).map_err(|failure| failure.of_message(&place.chat)),
            }
        })
    }

    fn put<'a>(
        &'a self,
        place: &'a Destination,
        question: &'a Pending,
    ) -> Promise<'a, Result<String, SendError>> {
        Box::pin(async move {
            let words = text::clipped(&question.ask.question.in_words());
            let blocks = json!({"blocks": blocks(question)});
            let posted = self.say(place, words, blocks).await?;
            posted.ok_or_else(|| SendError::Unknown { message: "Slack did not name the message".to_owned() })
        })
    }

    fn react<'a>(&'a self, place: &'a Destination, message: &'a str, sign: &'a str) -> Promise<'a, ()> {
        Box::pin(async move {
            let spot = (place.chat.clone(), message.to_owned());
            let name = emoji(sign);
            let before = self.state().signs.remove(&spot);
            let ask = async |method: &str, name: &str| {
                let body = json!({"channel": place.chat, "timestamp": message, "name": name});
                let _ = self.api.call_within(COURTESY, TokenKind::Bot, method, CallBody::Json(body)).await;
            };
            if let Some(before) = before.filter(|before| Some(*before) != name) {
                ask("reactions.remove", before).await;
            }
            if let Some(name) = name {
                ask("reactions.add", name).await;
                let signs = &mut self.state().signs;
                make_room(signs);
                signs.insert(spot, name);
            }
        })
    }

    fn fetch<'a>(&'a self, attachment: &'a Attachment, limit: usize) -> Promise<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            if attachment.bytes.is_some_and(|bytes| bytes > limit as u64) {
                return Err(format!("the file is larger than {limit} bytes"));
            }
            let Some(id) = attachment.handle.strip_prefix("file:") else {
                return self.api.download(&attachment.handle, limit).await;
            };
            let answer = self.call("files.info", CallBody::Form(&[("file", id)])).await;
            let answer = answer.map_err(|failure| failure.in_words())?;
            let file = &answer["file"];
            let address = file["url_private_download"].as_str().or(file["url_private"].as_str());
            let address = address.ok_or_else(|| "Slack does not say where the file is".to_owned())?;
            self.api.download(address, limit).await
        })
    }
}

/// A sign by its name in Slack. Others are not shown.
fn emoji(sign: &str) -> Option<&'static str> {
    Some(match sign.trim_end_matches('\u{fe0f}') {
        "👀" => "eyes",
        "✅" => "white_check_mark",
        "❌" => "x",
        "⏳" => "hourglass_flowing_sand",
        "👍" => "+1",
        "👎" => "-1",
        "🤔" => "thinking_face",
        "⚠" => "warning",
        "🛑" => "octagonal_sign",
        "♻" => "recycle",
        "📥" => "inbox_tray",
        _ => return None,
    })
}

fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A question with its buttons. What does not fit on one can still be answered in words.
fn blocks(question: &Pending) -> Value {
    let call = question.call.to_string();
    let button = |name: &str, label: &str, value: String, style: Option<&str>| {
        let mut button = json!({
            "type": "button",
            "action_id": format!("{}{name}", event::ACTION),
            "text": {"type": "plain_text", "text": cut(label, LABEL_MAX), "emoji": true},
            "value": value,
        });
        if let Some(style) = style {
            button["style"] = json!(style);
        }
        button
    };
    let (words, buttons) = match &question.ask.question {
        Question::Approval { what, why, patterns } => {
            let mut escaped = text::mrkdwn(&format!("```\n{what}\n```"));
            if escaped.chars().count() > SECTION_MAX - 600 {
                escaped = format!("{}\n```", cut(escaped.trim_end_matches('`'), SECTION_MAX - 600));
            }
            let why = cut(&text::mrkdwn(why), 500);
            let mut buttons = vec![button("once", "Allow once", call.clone(), Some("primary"))];
            if !patterns.is_empty() {
                buttons.push(button("session", "Allow for this session", call.clone(), None));
                buttons.push(button("always", "Always allow", call.clone(), None));
            }
            buttons.push(button("deny", "Deny", call, Some("danger")));
            (format!("⚠️ *May I run this?*\n{escaped}\nWhy I ask: {why}"), buttons)
        }
        Question::Clarify { question, choices } => {
            let choice = |(number, choice): (usize, &String)| {
                let value = format!("{call}\n{choice}");
                (value.chars().count() <= VALUE_MAX)
                    .then(|| button(&format!("choice:{number}"), choice, value, None))
            };
            let buttons = choices.iter().take(BUTTONS_MAX).enumerate().filter_map(choice).collect();
            (cut(&text::mrkdwn(question), SECTION_MAX), buttons)
        }
        Question::Elicitation { asked, .. } => {
            let choice = |(number, choice): (usize, &String)| {
                let value = format!("{call}\n{choice}");
                (value.chars().count() <= VALUE_MAX)
                    .then(|| button(&format!("choice:{number}"), choice, value, None))
            };
            let choices = asked.choices.iter().take(BUTTONS_MAX - 1).enumerate().filter_map(choice);
            let deny = button("deny", "Decline", call.clone(), Some("danger"));
            (cut(&question.ask.question.in_words(), SECTION_MAX), choices.chain([deny]).collect())
        }
    };
    // A server's words are shown as they are: no link has another text than its address.
    let form = match &question.ask.question {
        Question::Elicitation { .. } => "plain_text",
        Question::Approval { .. } | Question::Clarify { .. } => "mrkdwn",
    };
    let mut blocks = vec![json!({"type": "section", "text": {"type": form, "text": words}})];
    if !buttons.is_empty() {
        blocks.push(json!({"type": "actions", "elements": buttons}));
    }
    Value::Array(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_the_app_whatever_its_token() {
        for (token, expected) in [
            ("xapp-1-A0123456789-1111-deadbeef", "A0123456789"),
            ("xapp-1-A0123456789-2222-cafe", "A0123456789"),
            ("xapp-odd", "slack"),
            ("", "slack"),
            ("xapp-1-A0/../..-1-2", "slack"),
        ] {
            assert_eq!(account(&Secret::new(token)), expected);
        }
    }

    #[test]
    fn only_the_first_part_is_shown_in_the_channel() {
        assert!(is_first("reply/s/3") && is_first("a+b") && is_first("a+"));
        assert!(!is_first("reply/s/3+2"));
    }

    #[tokio::test]
    async fn p10_a_preview_becomes_the_reply_and_one_that_is_gone_is_replaced() {
        use throughline_servers::slack::{APP_TOKEN, BOT_TOKEN, Fault, SlackServer};
        let server = SlackServer::start().await;
        let settings = SlackSettings { base: server.base(), ..SlackSettings::new(BOT_TOKEN, APP_TOKEN) };
        let slack = Slack::new(settings).unwrap();
        let destination = Destination {
            platform: PLATFORM.to_owned(),
            account: slack.account.clone(),
            chat: "C1".to_owned(),
            thread: None,
            reply_to: None,
        };
        let outgoing = Outgoing {
            attempted: None,
            draft: None,
            question: None,
            key: "reply/1".to_owned(),
            session: "20260528_093510_66bfaec7".parse().unwrap(),
            destination,
            text: "**done**".to_owned(),
            trace: Default::default(),
            attempts: 1,
            attempting: None,
            marked: false,
            not_before: Default::default(),
        };
        let draft = slack.post(&outgoing.destination, "do…").await.unwrap();
        // Changed, and the answer got lost: changing it again is the same.
        server.fail_next("chat.update", Fault::CloseAfter);
        let lost = slack.reply(&outgoing, Some(&draft), None).await;
        assert!(matches!(lost, Err(SendError::Unknown { .. })));
        assert_eq!(slack.reply(&outgoing, Some(&draft), Some("again")).await, Ok(Some(draft.clone())));
        let texts = || server.sent().into_iter().map(|sent| sent.text).collect::<Vec<_>>();
        assert_eq!(texts(), ["*done*"]);
        slack.remove(&outgoing.destination, &draft).await.unwrap();
        let sent = slack.reply(&outgoing, Some(&draft), None).await.unwrap();
        assert_ne!(sent, Some(draft));
        assert_eq!(texts(), ["*done*"]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut kept: BTreeMap<usize, ()> = BTreeMap::new();
        for number in 0..3 * REMEMBERED_MAX {
            make_room(&mut kept);
            kept.insert(number, ());
        }
        assert!(kept.len() <= REMEMBERED_MAX);
        assert!(kept.contains_key(&(3 * REMEMBERED_MAX - 1)));
    }
}
