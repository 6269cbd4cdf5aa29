//! `send_message`: words for another chat, or for another agent of this process. They leave through
//! the outbox, in the commit of the result.

use super::{error, spec as of, text};
use crate::agent::Home;
use crate::bridge::Agents;
use serde_json::{Map, Value, json};
use throughline_core::Content;
use throughline_core::input::{AGENT_PLATFORM, Destination};
use throughline_core::tool::{Call, Done, Letter, Returned, Spec};

pub const NAME: &str = "send_message";

/// Finds the chat of a platform, and its thread, that messages go to which name none.
type HomeChannel<'a> = &'a dyn Fn(&str) -> Option<(String, Option<String>)>;

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

pub fn run(
    home: &Home,
    agents: &Agents,
    home_channel: HomeChannel<'_>,
    call: &Call,
    arguments: &Map<String, Value>,
) -> Returned {
    match text(arguments, "action").unwrap_or("send") {
        "send" => send(home, agents, home_channel, call, arguments),
        "list" => Returned::text(json!({ "targets": targets(home, agents) }).to_string()),
        action @ ("react" | "unreact") => {
            error(&format!("{action} is not supported by any connected platform."))
        }
        other => error(&format!("Unknown action: {other}. Use send, list, react or unreact.")),
    }
}

fn send(
    home: &Home,
    agents: &Agents,
    home_channel: HomeChannel<'_>,
    call: &Call,
    arguments: &Map<String, Value>,
) -> Returned {
    let (Some(target), Some(message)) = (text(arguments, "target"), text(arguments, "message")) else {
        return error("Both 'target' and 'message' are required when action='send'");
    };
    let (platform, rest) = target.split_once(':').unwrap_or((target, ""));
    let platform = platform.to_ascii_lowercase();
    let destination = match platform.as_str() {
        AGENT_PLATFORM => to_agent(home, agents, rest),
        name if home.platforms.contains_key(name) => to_chat(call, name, rest, home_channel(name)),
        name => Err(format!("Platform '{name}' is not configured. Available: {}", available(home))),
    };
    match destination {
        Ok(destination) => {
            let said = json!({
                "success": true,
                "platform": destination.platform,
                "chat_id": if platform == AGENT_PLATFORM { &destination.account } else { &destination.chat },
                "note": "Written to the outbox; it is sent once this step is saved."
            });
            let letter = Letter { destination, text: message.to_owned() };
            Returned::Done(Done { content: Content::text(said.to_string()), sends: vec![letter] })
        }
        Err(message) => error(&message),
    }
}

fn to_agent(home: &Home, agents: &Agents, name: &str) -> Result<Destination, String> {
    let names = agents.names();
    if name == &*home.rules.agent {
        return Err("That is this agent itself.".into());
    }
    if !names.iter().any(|known| known == name) {
        let others: Vec<_> = names.into_iter().filter(|known| *known != *home.rules.agent).collect();
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

fn to_chat(
    call: &Call,
    platform: &str,
    rest: &str,
    home: Option<(String, Option<String>)>,
) -> Result<Destination, String> {
    let (chat, thread) = match (rest, home) {
        ("", Some((chat, thread))) => (chat, thread.unwrap_or_default()),
        ("", None) => {
            return Err(format!(
                "No home channel set for {platform} to determine where to send the message. Give the chat: {platform}:<chat_id>."
            ));
        }
        (rest, _) => {
            let (chat, thread) = rest.split_once(':').unwrap_or((rest, ""));
            (chat.to_owned(), thread.to_owned())
        }
    };
    if chat.starts_with('#') {
        return Err(format!(
            "Could not resolve '{chat}' on {platform}. Use send_message(action='list') to see available targets."
        ));
    }
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

fn available(home: &Home) -> String {
    let names: Vec<_> = home.platforms.keys().map(String::as_str).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn targets(home: &Home, agents: &Agents) -> String {
    let mut lines = Vec::new();
    for platform in home.platforms.keys().filter(|name| *name != AGENT_PLATFORM) {
        lines.push(format!("{platform}:<chat_id>"));
    }
    let others = agents.names().into_iter().filter(|name| **name != *home.rules.agent);
    lines.extend(others.map(|name| format!("{AGENT_PLATFORM}:{name}")));
    if lines.is_empty() { "No messaging platforms are connected.".into() } else { lines.join("\n") }
}
