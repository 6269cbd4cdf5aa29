//! What Slack says happened, as what a person wrote or pressed. Pure.
//!
//! - where a message belongs is decided as Hermes decides it: a direct message and a group of them are
//!   `dm`, everything else is `group`, and the thread is the one it was written in, or the one that
//!   an answer would open
//! - a message is named by its channel and timestamp, so that `message` and `app_mention` of the same
//!   words are one, and so is every redelivery of them
//! - names of people and channels are shown and never part of a key
//!
//! Deliberately absent: who may speak, and whether a mention is needed.

use super::text;
use super::{PLATFORM, SlackOptions};
use crate::incoming::{Attachment, Incoming, Media, Press, Quoted};
use serde_json::Value;
use throughline_core::Time;
use throughline_core::input::Destination;
use throughline_core::tool::{Grant, Verdict};
use throughline_hermes::source::Source;

/// A preview of a link says in a few lines what it is about.
const PREVIEW_MAX: usize = 500;
const PREVIEWS_MAX: usize = 10;
/// What the action of one of our buttons begins with.
pub(super) const ACTION: &str = "throughline:";

/// Who we are, as Slack told us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlackApp {
    pub user: String,
    pub bot: Option<String>,
    pub team: Option<String>,
}

/// What kind of place a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelKind {
    /// One person.
    Direct,
    /// A few people, by invitation: one conversation like a direct message, but seen by several.
    Circle,
    Channel,
}

impl ChannelKind {
    pub fn chat_type(self) -> &'static str {
        match self {
            ChannelKind::Direct | ChannelKind::Circle => "dm",
            ChannelKind::Channel => "group",
        }
    }
}

pub(super) struct SlackEventReader<'a> {
    pub me: &'a SlackApp,
    pub account: &'a str,
    pub options: &'a SlackOptions,
}

/// What is known of a message before anything else is looked up.
pub(super) struct SlackMessage<'a> {
    pub channel: &'a str,
    pub kind: Option<ChannelKind>,
    pub user: Option<&'a str>,
    body: &'a Value,
    team: Option<&'a str>,
    ts: &'a str,
    edit: Option<&'a str>,
}

impl<'a> SlackMessage<'a> {
    /// None for what is no message for us: our own, a deletion, a join, anything unknown.
    pub fn read(payload: &'a Value, me: &SlackApp) -> Option<Self> {
        let event = &payload["event"];
        let kind = event["type"].as_str()?;
        let subtype = event["subtype"].as_str().filter(|subtype| !subtype.is_empty());
        let (body, edit) = match (kind, subtype) {
            ("app_mention" | "message", None) => (event, None),
            ("message", Some("file_share" | "bot_message" | "thread_broadcast" | "me_message")) => {
                (event, None)
            }
            ("message", Some("message_changed")) => changed(event)?,
            _ => return None,
        };
        let text = |value: &'a Value| value.as_str().filter(|text| !text.is_empty());
        let channel = text(&event["channel"])?;
        let ts = text(&body["ts"])?;
        let user = text(&body["user"]);
        let bot = text(&body["bot_id"]);
        let ours = user == Some(me.user.as_str()) || (bot.is_some() && bot == me.bot.as_deref());
        if ours || body["hidden"] == true {
            return None;
        }
        let kind = match event["channel_type"].as_str() {
            Some("im") => Some(ChannelKind::Direct),
            Some("mpim") => Some(ChannelKind::Circle),
            Some(_) => Some(ChannelKind::Channel),
            None if channel.starts_with('D') => Some(ChannelKind::Direct),
            None => None,
        };
        let team = text(&payload["team_id"]).or_else(|| text(&event["team"]));
        Some(Self { channel, kind, user, body, team, ts, edit })
    }
}

impl SlackMessage<'_> {
    /// The thread it was written into and its own timestamp, if another message began that thread.
    pub fn joined_thread(&self, me: &SlackApp) -> Option<(&str, &str)> {
        let thread = self.body["thread_ts"].as_str().filter(|thread| *thread != self.ts)?;
        let ours = self.body["parent_user_id"].as_str() == Some(me.user.as_str());
        let raw = self.body["text"].as_str().unwrap_or_default();
        (!ours && self.edit.is_none() && text::mentions(raw, &me.user)).then_some((thread, self.ts))
    }

    /// The thread it belongs to.
    pub fn thread(&self) -> Option<&str> {
        self.body["thread_ts"].as_str()
    }

    pub fn ts(&self) -> &str {
        self.ts
    }
}

/// What others said in a thread since we last said or heard something: who, and what.
pub(super) fn unheard(answer: &Value, me: &SlackApp, heard: &str, before: &str) -> Vec<(String, String)> {
    let messages = answer["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = |message: &&Value| message["user"].as_str() == Some(me.user.as_str());
    let stamp = |message: &Value| message["ts"].as_str().map(str::to_owned).unwrap_or_default();
    let last = messages.iter().filter(ours).map(stamp).chain([heard.to_owned()]).max_by_key(|ts| time(ts));
    let since = time(&last.unwrap_or_default());
    let new = messages.iter().filter(|message| {
        let ts = time(&stamp(message));
        ts.is_some() && ts > since && ts < time(before)
    });
    new.filter_map(|message| {
        let words = text::plain(message["text"].as_str()?);
        let who = message["user"].as_str().or(message["username"].as_str()).unwrap_or("somebody");
        (!words.trim().is_empty()).then(|| (who.to_owned(), words))
    })
    .collect()
}

/// Only a change of words counts: Slack also reports previews, and what we change ourselves.
fn changed(event: &Value) -> Option<(&Value, Option<&str>)> {
    let (now, before) = (&event["message"], &event["previous_message"]);
    let edit = now["edited"]["ts"].as_str()?;
    let same = now["text"] == before["text"];
    let is_bot = now["bot_id"].is_string() || now["subtype"] == "bot_message";
    (!same && !is_bot).then_some((now, Some(edit)))
}

impl SlackEventReader<'_> {
    pub fn message(
        &self,
        message: &SlackMessage<'_>,
        kind: ChannelKind,
        user_name: Option<String>,
    ) -> Incoming {
        let SlackMessage { channel, body, ts, user, edit, .. } = message;
        let raw = body["text"].as_str().unwrap_or_default();
        let mentioned = text::mentions(raw, &self.me.user);
        let thread = body["thread_ts"].as_str().filter(|thread| !thread.is_empty());
        let within = thread.filter(|thread| thread != ts);
        let session_thread = self.session_thread(kind, thread, ts);
        let to_us = within.is_some() && body["parent_user_id"].as_str() == Some(self.me.user.as_str());
        let addressed = match kind {
            ChannelKind::Direct => true,
            _ => mentioned || (to_us && !self.options.strict_mention),
        };
        let from_bot = body["bot_id"].is_string() || body["subtype"] == "bot_message";
        let mut words = self.command(text::without_leading_mention(raw, &self.me.user));
        let mut context = previews(body);
        // What a program posts is often nothing but a card.
        if words.is_empty() {
            words = context.take().unwrap_or_default();
        }
        let mut identity = vec![(*channel).to_owned(), (*ts).to_owned()];
        identity.extend(edit.iter().flat_map(|edit| ["edit".to_owned(), (*edit).to_owned()]));
        Incoming {
            source: Source {
                chat_name: Some((*channel).to_owned()),
                user_id: user.map(str::to_owned),
                user_name: user_name.or_else(|| body["username"].as_str().map(str::to_owned)),
                thread_id: session_thread.clone(),
                scope_id: message.team.or(self.me.team.as_deref()).map(str::to_owned),
                message_id: Some((*ts).to_owned()),
                ..Source::new(PLATFORM, kind.chat_type(), *channel)
            },
            reply_to: Destination {
                platform: PLATFORM.to_owned(),
                account: self.account.to_owned(),
                chat: (*channel).to_owned(),
                thread: match self.options.reply_in_thread {
                    true => session_thread,
                    // A thread that only we would open stays closed.
                    false => within.map(str::to_owned),
                },
                reply_to: Some((*ts).to_owned()),
            },
            identity,
            at: time(ts).unwrap_or_default(),
            text: words,
            attachments: attachments(body),
            quoted: within.map(|thread| Quoted {
                id: thread.to_owned(),
                text: None,
                author: body["parent_user_id"].as_str().map(str::to_owned),
                ours: to_us,
            }),
            from_bot,
            addressed,
            mentioned,
            roles: Vec::new(),
            edited: edit.is_some(),
            context,
            skills: Vec::new(),
            gathers: None,
        }
    }

    /// The thread that names the session: as Hermes keys it.
    fn session_thread(&self, kind: ChannelKind, thread: Option<&str>, ts: &str) -> Option<String> {
        let opened = match kind {
            ChannelKind::Direct | ChannelKind::Circle => self.options.dm_top_level_threads_as_sessions,
            ChannelKind::Channel => self.options.reply_in_thread,
        };
        // A channel's message may name itself as its thread; it answers nothing.
        let thread = thread.filter(|thread| kind != ChannelKind::Channel || *thread != ts);
        thread.map(str::to_owned).or_else(|| opened.then(|| ts.to_owned()))
    }

    /// Slack knows no slash commands inside threads; there a command we have begins with `!`.
    fn command(&self, raw: &str) -> String {
        let text = text::plain(raw);
        let name = text.strip_prefix('!').map(|rest| {
            let first = rest.split_whitespace().next().unwrap_or_default();
            first.split('@').next().unwrap_or_default().to_lowercase()
        });
        match name.is_some_and(|name| self.options.commands.contains(&name)) {
            true => format!("/{}", &text[1..]),
            false => text,
        }
    }

    /// `/stop`, typed where Slack takes it for a command of its own.
    pub fn slash(&self, payload: &Value, now: Time) -> Option<Incoming> {
        let text = |name: &str| payload[name].as_str().map(str::trim).filter(|text| !text.is_empty());
        let channel = text("channel_id")?;
        let user = text("user_id")?;
        let identity = vec!["command".to_owned(), text("trigger_id")?.to_owned()];
        let name = text("command").unwrap_or_default().trim_start_matches('/');
        let arguments = text::plain(text("text").unwrap_or_default());
        let words = match (name, arguments.as_str()) {
            ("hermes" | "throughline" | "", "") => "/help".to_owned(),
            ("hermes" | "throughline" | "", words) => self.subcommand(words),
            (name, arguments) => format!("/{name} {arguments}").trim_end().to_owned(),
        };
        let kind = if channel.starts_with('D') { ChannelKind::Direct } else { ChannelKind::Channel };
        Some(Incoming {
            source: Source {
                user_id: Some(user.to_owned()),
                user_name: text("user_name").map(str::to_owned),
                scope_id: text("team_id").or(self.me.team.as_deref()).map(str::to_owned),
                ..Source::new(PLATFORM, kind.chat_type(), channel)
            },
            reply_to: Destination {
                platform: PLATFORM.to_owned(),
                account: self.account.to_owned(),
                chat: channel.to_owned(),
                thread: None,
                reply_to: None,
            },
            identity,
            at: now,
            text: words,
            attachments: Vec::new(),
            quoted: None,
            from_bot: false,
            addressed: true,
            mentioned: false,
            roles: Vec::new(),
            edited: false,
            context: None,
            skills: Vec::new(),
            gathers: None,
        })
    }

    /// `/hermes stop` is `/stop`; `/hermes how are you` is a question.
    fn subcommand(&self, words: &str) -> String {
        let first = words.split_whitespace().next().unwrap_or_default().to_lowercase();
        match self.options.commands.contains(&first) {
            true => format!("/{words}"),
            false => words.to_owned(),
        }
    }

    /// A button of ours that a person pressed.
    pub fn press(&self, payload: &Value) -> Option<Press> {
        let action = payload["actions"].as_array()?.first()?;
        let name = action["action_id"].as_str()?.strip_prefix(ACTION)?;
        let value = action["value"].as_str()?;
        let (call, said) = match value.split_once('\n') {
            Some((call, said)) => (call, Some(said)),
            None => (value, None),
        };
        let verdict = match (name, said) {
            ("once", _) => Verdict::Granted(Grant::Once),
            ("session", _) => Verdict::Granted(Grant::Session),
            ("always", _) => Verdict::Granted(Grant::Always),
            ("deny", _) => Verdict::Denied { reason: None },
            (_, Some(said)) => Verdict::Said(said.to_owned()),
            _ => return None,
        };
        let channel = payload["channel"]["id"].as_str()?;
        let user = payload["user"]["id"].as_str()?;
        let thread = payload["message"]["thread_ts"].as_str().or(payload["container"]["thread_ts"].as_str());
        let named = payload["user"]["username"].as_str().or(payload["user"]["name"].as_str());
        let kind = if channel.starts_with('D') { ChannelKind::Direct } else { ChannelKind::Channel };
        Some(Press {
            source: Source {
                user_id: Some(user.to_owned()),
                user_name: named.map(str::to_owned),
                thread_id: thread.map(str::to_owned),
                scope_id: payload["team"]["id"].as_str().or(self.me.team.as_deref()).map(str::to_owned),
                ..Source::new(PLATFORM, kind.chat_type(), channel)
            },
            call: call.parse().ok()?,
            verdict,
        })
    }
}

/// Slack's timestamps are seconds and six digits, and exact.
fn time(ts: &str) -> Option<Time> {
    let (seconds, micros) = ts.split_once('.').unwrap_or((ts, "0"));
    let seconds: i64 = seconds.parse().ok()?;
    let micros: String = micros.chars().chain("000000".chars()).take(6).collect();
    Some(Time(seconds.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)?))
}

fn attachments(body: &Value) -> Vec<Attachment> {
    body["files"].as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(attachment).collect()
}

fn attachment(file: &Value) -> Option<Attachment> {
    let text = |name: &str| file[name].as_str().filter(|text| !text.is_empty());
    if matches!(text("mode"), Some("tombstone" | "hidden_by_limit")) {
        return None; // deleted, or too old for the workspace's plan
    }
    let address = text("url_private_download").or_else(|| text("url_private"));
    let handle = match (address, text("id")) {
        (Some(address), _) => address.to_owned(),
        // A file shared from another workspace is only named; it is looked up when it is wanted.
        (None, Some(id)) => format!("file:{id}"),
        (None, None) => return None,
    };
    let mime = text("mimetype");
    let media = match mime.unwrap_or_default() {
        _ if text("subtype") == Some("slack_audio") => Media::Voice,
        mime if mime.starts_with("image/") => Media::Image,
        mime if mime.starts_with("audio/") => Media::Audio,
        mime if mime.starts_with("video/") => Media::Video,
        _ => Media::Document,
    };
    Some(Attachment {
        media,
        handle,
        name: text("name").map(str::to_owned),
        mime: mime.map(str::to_owned),
        bytes: file["size"].as_u64(),
    })
}

/// What Slack shows below a message: links, cards of other programs.
fn previews(body: &Value) -> Option<String> {
    let cards = body["attachments"].as_array()?;
    let shown: Vec<String> = cards.iter().filter_map(preview).take(PREVIEWS_MAX).collect();
    (!shown.is_empty()).then(|| shown.join("\n\n"))
}

fn preview(card: &Value) -> Option<String> {
    let text = |name: &str| card[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    let address = text("title_link").or_else(|| text("from_url"));
    let head = match (text("title"), address) {
        (Some(title), Some(address)) => Some(format!("📎 [{}]({address})", text::plain(title))),
        (Some(title), None) => Some(format!("📎 {}", text::plain(title))),
        (None, Some(address)) => Some(format!("📎 {address}")),
        (None, None) => None,
    };
    let body = text("text").or_else(|| text("fallback")).map(text::plain).map(|body| {
        match body.char_indices().nth(PREVIEW_MAX) {
            Some((end, _)) => format!("{}…", &body[..end]),
            None => body,
        }
    });
    match (head, body) {
        (Some(head), Some(body)) => Some(format!("{head}\n   {body}")),
        (None, Some(body)) => Some(format!("📎 {body}")),
        (head, None) => head,
    }
}

#[cfg(test)]
mod tests;
