//! Slash commands, as Discord lists them to a person who types a `/`.
//!
//! They are looked at at every start and written only if they differ: Discord limits how often that
//! may be done, and shows nothing for a moment after it.

use super::payload::WithId;
use super::rest::{RestBody, RestError};
use super::{Discord, Slash};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// What Discord takes.
const COMMANDS_MAX: usize = 100;
const NAME_CHARACTERS_MAX: usize = 32;
const DESCRIPTION_CHARACTERS_MAX: usize = 100;
/// What follows a command is one text.
const ARGUMENT: &str = "args";
const STRING: u8 = 3;
const TRIES: u32 = 4;

impl Discord {
    /// Makes Discord's list ours. It is only a convenience: commands work when they are typed, too.
    pub(super) async fn register(&self) {
        for attempt in 0..TRIES {
            match self.registered().await {
                Ok(()) => return,
                Err(RestError::Limited(wait)) => sleep(wait).await,
                Err(fault) if fault.will_pass() => sleep(Duration::from_secs(5 << attempt)).await,
                Err(fault) => {
                    return tracing::warn!(%fault, "the slash commands could not be registered");
                }
            }
        }
        tracing::warn!("the slash commands could not be registered; it is tried again at the next start");
    }

    async fn registered(&self) -> Result<(), RestError> {
        let wanted = list(&self.settings.commands);
        let application: WithId = self.rest.get("/applications/@me").await?;
        let path = format!("/applications/{}/commands", application.id);
        let there: Value = self.rest.get(&path).await?;
        let there = there.as_array().map(|commands| commands.iter().map(essence).collect::<Vec<_>>());
        let is_same = there.is_some_and(|mut there| {
            there.sort_by_key(|command| command["name"].to_string());
            there == wanted
        });
        if !is_same {
            self.rest.ask(Method::PUT, &path, RestBody::Json(Value::Array(wanted))).await?;
        }
        Ok(())
    }
}

/// In the order of their names, each in the form in which it is compared.
fn list(commands: &[Slash]) -> Vec<Value> {
    let mut list: Vec<Value> = Vec::new();
    for command in commands.iter().filter(|command| is_name(&command.name)) {
        let known = list.iter().any(|known| known["name"] == command.name.as_str());
        if known || list.len() >= COMMANDS_MAX {
            tracing::warn!(command = command.name, "a command is not listed: Discord takes 100, once each");
            continue;
        }
        let description = command.description.trim();
        let description = if description.is_empty() { &command.name } else { description };
        let description: String = description.chars().take(DESCRIPTION_CHARACTERS_MAX).collect();
        let mut wanted = json!({"name": command.name, "description": description, "type": 1, "options": []});
        if command.takes_text {
            wanted["options"] = json!([{
                "type": STRING, "name": ARGUMENT, "description": "What follows the command", "required": false,
            }]);
        }
        list.push(essence(&wanted));
    }
    list.sort_by_key(|command| command["name"].to_string());
    list
}

/// What makes two commands the same: Discord adds fields of its own.
fn essence(command: &Value) -> Value {
    let options = command["options"].as_array().cloned().unwrap_or_default();
    let options = options.iter().map(|option| {
        json!({
            "type": option["type"], "name": option["name"], "description": option["description"],
            "required": option["required"].as_bool().unwrap_or(false),
        })
    });
    json!({
        "name": command["name"],
        "description": command["description"],
        "type": command["type"].as_u64().unwrap_or(1),
        "options": options.collect::<Vec<_>>(),
    })
}

fn is_name(name: &str) -> bool {
    let plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter);
    (1..=NAME_CHARACTERS_MAX).contains(&name.len()) && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_what_discord_takes() {
        let slash = |name: &str| Slash { name: name.into(), description: String::new(), takes_text: true };
        let mut commands: Vec<Slash> = (0..150).map(|number| slash(&format!("skill{number}"))).collect();
        commands.extend(["Upper", "with space", "", "skill1"].map(slash));
        let list = list(&commands);
        assert_eq!(list.len(), COMMANDS_MAX);
        assert!(
            list.iter().all(|command| command["description"].as_str().is_some_and(|text| !text.is_empty()))
        );
    }

    #[test]
    fn what_discord_adds_makes_no_difference() {
        let ours = list(&[Slash {
            name: "status".into(),
            description: "Where it stands".into(),
            takes_text: false,
        }]);
        let mut theirs = ours[0].clone();
        theirs["id"] = json!("7");
        theirs["version"] = json!("9");
        theirs.as_object_mut().unwrap().remove("options");
        assert_eq!(essence(&theirs), ours[0]);
    }
}
