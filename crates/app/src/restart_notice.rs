//! The chat in which `/restart` was ordered is told when the gateway is back.
//!
//! Where that is to be said is written down before the process ends, and said by the next one under the order's
//! own key: however often that one dies meanwhile, it is said once. Hermes' `gateway_restart_notification` of the
//! platform switches it off.

use crate::host_commands::replace;
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use throughline_core::command::Command;
use throughline_core::input::{Birth, DedupeKey, Destination, Kind, Trace};
use throughline_core::port::{AgentApi, Assignment, Submission};
use throughline_core::route::Target;
use throughline_core::{SessionId, Time};
use throughline_hermes::config::platforms::Platforms;
use throughline_home::home::{Home, private_directory};

const BACK: &str = "The gateway is back, and this conversation goes on.";

/// Who waits for the next process.
#[derive(Clone, Debug, PartialEq)]
struct Waiter {
    /// Of the order.
    key: String,
    session: SessionId,
    place: Destination,
}

impl Waiter {
    fn to_json(&self) -> Value {
        let Destination { platform, account, chat, thread, .. } = &self.place;
        json!({
            "key": self.key, "session": self.session.as_str(), "platform": platform, "account": account,
            "chat": chat, "thread": thread,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Self {
            key: text("key")?,
            session: text("session")?.parse().ok()?,
            place: Destination {
                platform: text("platform")?,
                account: text("account")?,
                chat: text("chat")?,
                thread: text("thread"),
                reply_to: None, // it answers nothing
            },
        })
    }
}

fn file(home: &Home) -> PathBuf {
    home.path().join("throughline/comeback.json")
}

/// Before the order is carried out. It is a courtesy: an order whose place cannot be written down is obeyed
/// all the same.
pub fn await_it(home: &Home, asked: &Assignment) {
    let (Some(session), Some(place)) = (asked.session.clone(), asked.place.clone()) else { return };
    let waiter = Waiter { key: asked.key.clone(), session, place };
    let file = file(home);
    let directory = file.parent().unwrap_or(home.path());
    let made = private_directory().create(directory).map_err(|error| error.to_string());
    if let Err(why) = made.and_then(|()| replace(&file, &waiter.to_json().to_string())) {
        tracing::warn!(why, "no chat will be told when the gateway is back");
    }
}

/// In the process that follows: says it, unless it is not wanted on that platform. What is unreadable is gone, or
/// it would be complained of at every start.
pub async fn tell(home: &Home, platforms: &Platforms, api: &dyn AgentApi, now: Time) {
    let file = file(home);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => {
            return tracing::warn!(file = %file.display(), %error, "no chat is told that the gateway is back");
        }
    };
    let waiter = serde_json::from_str(&text).ok().and_then(|value| Waiter::from_json(&value));
    match waiter {
        Some(waiter) if is_wanted(platforms, &waiter.place.platform) => {
            if let Err(refusal) = api.submit(said(waiter, now)).await {
                tracing::warn!(%refusal, "no chat is told that the gateway is back");
            }
        }
        Some(_) => {}
        None => {
            tracing::warn!(file = %file.display(), "says nothing about who ordered the restart; it is removed")
        }
    }
    if let Err(error) = fs::remove_file(&file) {
        tracing::warn!(file = %file.display(), %error, "could not be removed");
    }
}

fn is_wanted(platforms: &Platforms, name: &str) -> bool {
    platforms
        .all
        .iter()
        .find(|platform| platform.name == name)
        .is_none_or(|platform| platform.restart_notification)
}

fn said(waiter: Waiter, now: Time) -> Submission {
    let Waiter { key, session, place } = waiter;
    Submission {
        target: Target::Session(session),
        birth: Birth { source: place.platform.clone(), ..Birth::default() },
        at: now,
        key: DedupeKey::of(&["back", &key]),
        kind: Kind::Command(Command::Notice { text: BACK.into() }),
        reply_to: Some(place),
        sender: None,
        platform_id: None,
        trace: Trace::default(),
        may_be_retry: false,
        can_answer: true,
        gathers: None,
    }
}
