//! `send_message`: words for another chat, or for another agent of this process. They leave through
//! the outbox, in the commit of the result.

use super::{AddressBook, error, spec as of, text};
use crate::agent::Home;
use crate::bridge::Agents;
use serde_json::{Map, Value, json};
use throughline_core::Content;
use throughline_core::chain::{Amount, Share};
use throughline_core::input::{AGENT_PLATFORM, Destination, Root};
use throughline_core::tool::{Call, Done, Letter, Returned, Spec};

pub const NAME: &str = "send_message";

/// For a model that writes to an agent that will not answer.
const NOT_HEARD: &str = "Written to the outbox. Other agents will store it and read it with their next turn, but it \
                         begins none: the agents have used up what one message of a person may cause. Only a person \
                         can let them go on. Do not send more; answer now, and say what is left to do.";

/// Finds the chat of a platform, and its thread, that messages go to which name none.
type HomeChannel<'a> = &'a (dyn Fn(&str) -> Option<(String, Option<String>)> + Sync);

pub fn spec() -> Spec {
    let parameters = json!({
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": ["send", "list", "react", "unreact"],
                "description": "send (the default) or list, which names the targets there are. react and unreact set and remove an emoji where the platform can."
            },
            "target": {
                "type": "string",
                "description": "platform, platform:chat_id, platform:chat_id:thread_id or platform:#name; agent:name for another agent of this gateway, whose answer arrives as a message of its own."
            },
            "message": {"type": "string", "description": "The text. A line MEDIA:<path> attaches a file where the platform can."},
            "emoji": {"type": "string", "description": "For react: the emoji."},
            "message_id": {"type": "string", "description": "For react and unreact: which message; the newest if left out."}
        },
        "required": []
    });
    let description = "Write to another chat or to another agent. To reach a particular person or channel, \
                       ask for the list first. Do not use it to answer the conversation you are in: your \
                       answer goes there by itself.";
    of(NAME, "messaging", description, parameters)
}

/// What has to be known to write somewhere.
pub struct Around<'a> {
    pub home: &'a Home,
    pub agents: &'a Agents,
    pub home_channel: HomeChannel<'a>,
    pub addresses: Option<&'a dyn AddressBook>,
}

impl Around<'_> {
    pub async fn run(&self, call: &Call, arguments: &Map<String, Value>) -> Returned {
        match text(arguments, "action").unwrap_or("send") {
            "send" => self.send(call, arguments).await,
            "list" => Returned::text(json!({ "targets": self.targets(call) }).to_string()),
            action @ ("react" | "unreact") => {
                error(&format!("{action} is not supported by any connected platform."))
            }
            other => error(&format!("Unknown action: {other}. Use send, list, react or unreact.")),
        }
    }

    async fn send(&self, call: &Call, arguments: &Map<String, Value>) -> Returned {
        let (Some(target), Some(message)) = (text(arguments, "target"), text(arguments, "message")) else {
            return error("Both 'target' and 'message' are required when action='send'");
        };
        let (platform, rest) = target.split_once(':').unwrap_or((target, ""));
        let platform = platform.trim().to_ascii_lowercase();
        let destination = match platform.as_str() {
            AGENT_PLATFORM => self.to_agent(rest),
            name if self.home.platforms.contains_key(name) => self.to_chat(call, name, rest.trim()),
            name => Err(format!("Platform '{name}' is not configured. Available: {}", self.available())),
        };
        match destination {
            Ok(destination) => {
                let note = match self.is_heard(call, &destination).await {
                    true => "Written to the outbox; it is sent once this step is saved.",
                    false => NOT_HEARD,
                };
                let said = json!({
                    "success": true,
                    "platform": destination.platform,
                    "chat_id": if platform == AGENT_PLATFORM { &destination.account } else { &destination.chat },
                    "note": note
                });
                let letter = Letter { destination, text: message.to_owned() };
                Returned::Done(Done { content: Content::text(said.to_string()), sends: vec![letter] })
            }
            Err(message) => error(&message),
        }
    }

    /// Whether it would begin a turn at another agent, as far as the ledger knows now.
    async fn is_heard(&self, call: &Call, destination: &Destination) -> bool {
        let limits = &self.home.rules.limits.chain;
        let trace = call.caller.trace.onward();
        let share = Share {
            origin: trace.origin,
            root: trace.root,
            hops: trace.hops,
            amount: Amount::Turn,
            asker: Root { home: self.home.rules.home.clone(), session: call.caller.session.clone() },
            place: None,
            hops_max: limits.hops_max,
            turns_max: limits.turns_max(&destination.platform),
            calls_max: limits.calls_max(&destination.platform),
        };
        // A ledger that cannot be reached keeps the message waiting; that is no reason not to send it.
        self.home.ledger.would_grant(share).await.unwrap_or(true)
    }

    fn to_agent(&self, name: &str) -> Result<Destination, String> {
        let names = self.agents.names();
        let own = &*self.home.rules.agent;
        if name == own {
            return Err("That is this agent itself.".into());
        }
        if !names.iter().any(|known| known == name) {
            let others: Vec<_> = names.into_iter().filter(|known| *known != own).collect();
            return Err(match others.is_empty() {
                true => "No other agent runs in this gateway.".into(),
                false => format!("No agent is called '{name}' here. Available: {}", others.join(", ")),
            });
        }
        Ok(Destination {
            platform: AGENT_PLATFORM.into(),
            account: name.to_owned(),
            chat: String::new(),
            thread: None,
            reply_to: None,
        })
    }

    fn to_chat(&self, call: &Call, platform: &str, rest: &str) -> Result<Destination, String> {
        let (chat, thread) = match (rest, (self.home_channel)(platform)) {
            ("", Some((chat, thread))) => (chat, thread.unwrap_or_default()),
            ("", None) => {
                return Err(format!(
                    "No home channel set for {platform} to determine where to send the message. Give the chat: {platform}:<chat_id>."
                ));
            }
            (rest, _) => {
                let named = || self.addresses?.find(&call.caller, platform, rest);
                let id = match is_id(platform, rest) {
                    true => Some(rest.to_owned()),
                    false => named(),
                };
                let id = id.ok_or_else(|| {
                    format!(
                        "Could not resolve '{rest}' on {platform}. Use send_message(action='list') to see available targets."
                    )
                })?;
                let (chat, thread) = id.split_once(':').unwrap_or((&id, ""));
                (chat.to_owned(), thread.to_owned())
            }
        };
        // The account the caller is spoken to through, if it is the same platform's.
        let account = call.caller.reply_to.as_ref().filter(|here| here.platform == platform);
        Ok(Destination {
            platform: platform.to_owned(),
            account: account.map(|here| here.account.clone()).unwrap_or_default(),
            chat,
            thread: Some(thread).filter(|thread| !thread.is_empty()),
            reply_to: None,
        })
    }

    fn available(&self) -> String {
        let names: Vec<_> = self.home.platforms.keys().map(String::as_str).collect();
        if names.is_empty() { "none".into() } else { names.join(", ") }
    }

    fn targets(&self, call: &Call) -> String {
        let chats = self.addresses.and_then(|addresses| addresses.list(&call.caller));
        let platforms = self.home.platforms.keys().filter(|name| *name != AGENT_PLATFORM);
        let ids = || platforms.map(|platform| format!("{platform}:<chat_id>")).collect::<Vec<_>>();
        let mut lines = chats.map_or_else(ids, |chats| vec![chats]);
        let others = self.agents.names().into_iter().filter(|name| **name != *self.home.rules.agent);
        lines.extend(others.map(|name| format!("{AGENT_PLATFORM}:{name}")));
        if lines.is_empty() { "No messaging platforms are connected.".into() } else { lines.join("\n") }
    }
}

/// What can be nothing but an id, as each platform makes them; elsewhere anything that is no `#name`.
fn is_id(platform: &str, text: &str) -> bool {
    let (chat, thread) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match platform {
        "telegram" if chat.starts_with('@') => thread.is_empty() && chat.len() > 1,
        "telegram" | "discord" => {
            number(chat.strip_prefix('-').unwrap_or(chat)) && (thread.is_empty() || number(thread))
        }
        "slack" => {
            chat.starts_with(['C', 'G', 'D'])
                && chat.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
                && chat.bytes().any(|byte| byte.is_ascii_digit())
        }
        _ => !text.starts_with('#'),
    }
}
