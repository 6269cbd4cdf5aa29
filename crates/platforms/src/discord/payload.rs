//! What is read of Discord's events and answers: only what is used, and forgiving about the rest. A
//! field of an unexpected form costs that field, never the message.

use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;
use std::str::FromStr;
use throughline_core::Time;
use throughline_hermes::access::NAMED;

/// A snowflake: it says when it was made, and a later one is larger. It is a number also because it
/// becomes part of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

/// 2015, in milliseconds since 1970: where snowflakes begin to count.
const EPOCH_MS: u64 = 1_420_070_400_000;
/// The bits below the milliseconds.
const CLOCK_SHIFT: u32 = 22;

impl Id {
    pub fn at(self) -> Time {
        let micros = ((self.0 >> CLOCK_SHIFT) + EPOCH_MS) * 1_000;
        Time(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// The first that can be made then.
    pub fn made_at(time: Time) -> Self {
        let milliseconds = u64::try_from(time.0 / 1_000).unwrap_or(0);
        Self(milliseconds.saturating_sub(EPOCH_MS) << CLOCK_SHIFT)
    }

    /// What an id made so much earlier would have been at least.
    pub fn before(self, milliseconds: u64) -> Self {
        Self((self.0 >> CLOCK_SHIFT).saturating_sub(milliseconds) << CLOCK_SHIFT)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for Id {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Snowflake;
        impl Visitor<'_> for Snowflake {
            type Value = Id;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an id")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Id, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Id, E> {
                Ok(Id(number))
            }
        }
        deserializer.deserialize_any(Snowflake)
    }
}

/// One frame of the gateway.
#[derive(Deserialize)]
pub struct Frame<'a> {
    pub op: u8,
    pub s: Option<u64>,
    pub t: Option<String>,
    #[serde(borrow)]
    pub d: Option<&'a RawValue>,
}

impl Frame<'_> {
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.d.map_or("null", RawValue::get))
    }
}

#[derive(Deserialize)]
pub struct Ready {
    pub session_id: String,
    pub resume_gateway_url: String,
    #[serde(default, deserialize_with = "those_readable")]
    pub guilds: Vec<WithId>,
}

/// Anything that has an id.
#[derive(Deserialize)]
pub struct WithId {
    pub id: Id,
}

#[derive(Deserialize)]
pub struct Guild {
    pub id: Id,
    #[serde(default, deserialize_with = "if_readable")]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "those_readable")]
    pub channels: Vec<DiscordChannel>,
    #[serde(default, deserialize_with = "those_readable")]
    pub threads: Vec<DiscordChannel>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct DiscordChannel {
    pub id: Id,
    #[serde(rename = "type", default, deserialize_with = "or_nothing")]
    pub kind: u8,
    #[serde(default, deserialize_with = "if_readable")]
    pub guild_id: Option<Id>,
    #[serde(default, deserialize_with = "if_readable")]
    pub parent_id: Option<Id>,
    #[serde(default, deserialize_with = "if_readable")]
    pub owner_id: Option<Id>,
    #[serde(default, deserialize_with = "if_readable")]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    pub topic: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    pub last_message_id: Option<Id>,
}

#[derive(Clone, Deserialize)]
pub struct DiscordMessage {
    pub id: Id,
    pub channel_id: Id,
    pub author: User,
    #[serde(default, deserialize_with = "if_readable")]
    pub guild_id: Option<Id>,
    #[serde(default, deserialize_with = "if_readable")]
    pub member: Option<GuildMember>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub content: String,
    #[serde(rename = "type", default, deserialize_with = "or_nothing")]
    pub kind: u8,
    #[serde(default, deserialize_with = "or_nothing")]
    pub flags: u64,
    #[serde(default, deserialize_with = "those_readable")]
    pub mentions: Vec<User>,
    #[serde(default, deserialize_with = "those_readable")]
    pub attachments: Vec<DiscordFile>,
    #[serde(default, deserialize_with = "if_readable")]
    pub referenced_message: Option<Box<DiscordMessage>>,
    #[serde(default, deserialize_with = "if_readable")]
    pub message_reference: Option<MessageReference>,
    #[serde(default, deserialize_with = "those_readable")]
    pub message_snapshots: Vec<MessageSnapshot>,
    #[serde(default, deserialize_with = "if_readable")]
    pub edited_timestamp: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    pub webhook_id: Option<Id>,
}

#[derive(Clone, Deserialize)]
pub struct User {
    pub id: Id,
    #[serde(default, deserialize_with = "or_nothing")]
    pub username: String,
    #[serde(default, deserialize_with = "if_readable")]
    pub global_name: Option<String>,
    /// `0`: the user name is unique.
    #[serde(default, deserialize_with = "or_nothing")]
    pub discriminator: String,
    #[serde(default, deserialize_with = "or_nothing")]
    pub bot: bool,
}

impl User {
    /// The one name that is unique, as it stands among the roles. Names of bots and of webhooks, and those
    /// that people show, can be anyone's.
    pub fn handle(&self) -> Option<String> {
        let is_unique = !self.bot && self.discriminator == "0" && !self.username.is_empty();
        is_unique.then(|| format!("{NAMED}{}", self.username.to_lowercase()))
    }
}

#[derive(Clone, Default, Deserialize)]
pub struct GuildMember {
    #[serde(default, deserialize_with = "if_readable")]
    pub user: Option<User>,
    #[serde(default, deserialize_with = "if_readable")]
    pub nick: Option<String>,
    #[serde(default, deserialize_with = "those_readable")]
    pub roles: Vec<Id>,
}

/// What others see where a name belongs.
pub fn display_name(user: &User, member: Option<&GuildMember>) -> String {
    let nick = member.and_then(|member| member.nick.clone());
    nick.or_else(|| user.global_name.clone())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| user.username.clone())
}

#[derive(Clone, Deserialize)]
pub struct DiscordFile {
    pub url: String,
    #[serde(default, deserialize_with = "if_readable")]
    pub filename: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    pub content_type: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    pub size: Option<u64>,
    /// Only what was spoken into the app has one.
    #[serde(default, deserialize_with = "if_readable")]
    pub waveform: Option<String>,
}

#[derive(Clone, Deserialize)]
pub struct MessageReference {
    /// 0 answers a message, 1 passes one on.
    #[serde(rename = "type", default, deserialize_with = "or_nothing")]
    pub kind: u8,
    #[serde(default, deserialize_with = "if_readable")]
    pub message_id: Option<Id>,
}

#[derive(Clone, Deserialize)]
pub struct MessageSnapshot {
    pub message: Passed,
}

/// A message as it was when it was forwarded.
#[derive(Clone, Deserialize)]
pub struct Passed {
    #[serde(default, deserialize_with = "or_nothing")]
    pub content: String,
    #[serde(default, deserialize_with = "those_readable")]
    pub attachments: Vec<DiscordFile>,
}

#[derive(Deserialize)]
pub struct Interaction {
    pub id: Id,
    pub application_id: Id,
    #[serde(rename = "type")]
    pub kind: u8,
    pub token: String,
    #[serde(default, deserialize_with = "if_readable")]
    pub data: Option<InteractionChoice>,
    #[serde(default, deserialize_with = "if_readable")]
    pub guild_id: Option<Id>,
    #[serde(default, deserialize_with = "if_readable")]
    pub channel_id: Option<Id>,
    #[serde(default, deserialize_with = "if_readable")]
    pub channel: Option<DiscordChannel>,
    #[serde(default, deserialize_with = "if_readable")]
    pub member: Option<GuildMember>,
    #[serde(default, deserialize_with = "if_readable")]
    pub user: Option<User>,
}

/// A command, or a button.
#[derive(Deserialize)]
pub struct InteractionChoice {
    #[serde(default, deserialize_with = "or_nothing")]
    pub name: String,
    #[serde(default, deserialize_with = "or_nothing")]
    pub custom_id: String,
    #[serde(default, deserialize_with = "those_readable")]
    pub options: Vec<CommandChoice>,
}

#[derive(Deserialize)]
pub struct CommandChoice {
    #[serde(default, deserialize_with = "or_nothing")]
    pub value: Value,
}

fn if_readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

fn or_nothing<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(if_readable(deserializer)?.unwrap_or_default())
}

fn those_readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let Value::Array(values) = value else { return Ok(Vec::new()) };
    Ok(values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_only_a_name_that_nobody_else_can_have_counts_as_one() {
        let user = |fields: Value| serde_json::from_value::<User>(fields).unwrap().handle();
        let ada =
            serde_json::json!({"id": "1", "username": "Ada", "discriminator": "0", "global_name": "Root"});
        assert_eq!(user(ada.clone()).as_deref(), Some("@ada"));
        for (name, value) in [
            ("discriminator", Value::from("1234")),
            ("discriminator", Value::from("0000")),
            ("discriminator", Value::Null),
            ("bot", Value::from(true)),
            ("username", Value::from("")),
        ] {
            let mut other = ada.clone();
            other[name] = value;
            assert_eq!(user(other.clone()), None, "{other}");
        }
    }
}
