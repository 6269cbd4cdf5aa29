//! The settings of a Discord account, by Hermes' names.

use super::{HISTORY, HISTORY_MAX, PATIENCE};
use crate::media;
use std::time::Duration;
use throughline_core::redact::Secret;

/// What the operator wants, by Hermes' names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscordSettings {
    /// `DISCORD_BOT_TOKEN`.
    pub token: Secret,
    /// Where the HTTP API is, without its version; none for Discord itself.
    pub rest_url: Option<String>,
    /// And the gateway, as `wss://host`.
    pub gateway_url: Option<String>,
    /// How long an answer of the HTTP API may take.
    pub patience: Duration,
    /// `DISCORD_AUTO_THREAD`
    pub auto_thread: bool,
    /// `DISCORD_NO_THREAD_CHANNELS`, by id or name.
    pub no_thread_channels: Vec<String>,
    /// `DISCORD_FREE_RESPONSE_CHANNELS`, by id or name; `*` for all. They get no threads either.
    pub free_response_channels: Vec<String>,
    /// `DISCORD_REQUIRE_MENTION`: a message without one gets no thread.
    pub require_mention: bool,
    /// `DISCORD_IGNORE_NO_MENTION`: people who name each other do not talk to us.
    pub ignore_no_mention: bool,
    /// `DISCORD_BOTS_REQUIRE_INLINE_MENTION`: an answer of a bot does not mention us by itself.
    pub bots_require_inline_mention: bool,
    /// `DISCORD_HISTORY_BACKFILL` and its limit: how many messages of a channel are read for what was said
    /// there before a mention. 0: none.
    pub history: usize,
    /// `DISCORD_ALLOW_BOTS`, unless it is `none`: what bots said is part of it.
    pub history_with_bots: bool,
    /// `DISCORD_REPLY_TO_MODE`
    pub reply_to: ReplyTo,
    /// `DISCORD_ALLOW_MENTION_*`
    pub mentions: AllowedMentions,
    /// `DISCORD_REACTIONS`
    pub reactions: bool,
    /// What Discord lists to a person who types a `/`. Empty: Discord's list is left as it is.
    pub commands: Vec<Slash>,
    /// Which files may leave.
    pub media: media::MediaRules,
}

impl DiscordSettings {
    /// As Hermes does without being told.
    pub fn new(token: Secret) -> Self {
        Self {
            token,
            rest_url: None,
            gateway_url: None,
            patience: PATIENCE,
            auto_thread: true,
            no_thread_channels: Vec::new(),
            free_response_channels: Vec::new(),
            require_mention: true,
            ignore_no_mention: true,
            bots_require_inline_mention: false,
            history: HISTORY,
            history_with_bots: false,
            reply_to: ReplyTo::First,
            mentions: AllowedMentions { everyone: false, roles: false, users: true, replied_user: true },
            reactions: true,
            commands: Vec::new(),
            media: media::MediaRules::default(),
        }
    }

    /// And as the environment, or what a configuration file puts in its place, says.
    pub fn told(token: Secret, variable: impl Fn(&str) -> Option<String>) -> Self {
        let plain = Self::new(token);
        let text = |name: &str| {
            variable(name).map(|text| text.trim().to_lowercase()).filter(|text| !text.is_empty())
        };
        let flag = |name: &str, otherwise: bool| match text(name).as_deref() {
            Some("true" | "1" | "yes" | "on") => true,
            Some("false" | "0" | "no" | "off") => false,
            _ => otherwise,
        };
        let list = |name: &str| -> Vec<String> {
            let entries = variable(name).unwrap_or_default();
            entries.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
        };
        Self {
            auto_thread: flag("DISCORD_AUTO_THREAD", plain.auto_thread),
            no_thread_channels: list("DISCORD_NO_THREAD_CHANNELS"),
            free_response_channels: list("DISCORD_FREE_RESPONSE_CHANNELS"),
            require_mention: flag("DISCORD_REQUIRE_MENTION", plain.require_mention),
            ignore_no_mention: flag("DISCORD_IGNORE_NO_MENTION", plain.ignore_no_mention),
            bots_require_inline_mention: flag("DISCORD_BOTS_REQUIRE_INLINE_MENTION", false),
            history: match flag("DISCORD_HISTORY_BACKFILL", true) {
                true => {
                    let limit = text("DISCORD_HISTORY_BACKFILL_LIMIT").and_then(|limit| limit.parse().ok());
                    limit.unwrap_or(plain.history).min(HISTORY_MAX)
                }
                false => 0,
            },
            history_with_bots: text("DISCORD_ALLOW_BOTS").is_some_and(|bots| bots != "none"),
            reply_to: match text("DISCORD_REPLY_TO_MODE").as_deref() {
                Some("off") => ReplyTo::Off,
                Some("all") => ReplyTo::All,
                _ => ReplyTo::First,
            },
            mentions: AllowedMentions {
                everyone: flag("DISCORD_ALLOW_MENTION_EVERYONE", plain.mentions.everyone),
                roles: flag("DISCORD_ALLOW_MENTION_ROLES", plain.mentions.roles),
                users: flag("DISCORD_ALLOW_MENTION_USERS", plain.mentions.users),
                replied_user: flag("DISCORD_ALLOW_MENTION_REPLIED_USER", plain.mentions.replied_user),
            },
            reactions: flag("DISCORD_REACTIONS", plain.reactions),
            ..plain
        }
    }
}

/// Which parts of a reply show what they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyTo {
    Off,
    First,
    All,
}

/// Whom the agent's words may ring for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedMentions {
    pub everyone: bool,
    pub roles: bool,
    pub users: bool,
    pub replied_user: bool,
}

/// A command as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slash {
    /// Without the slash.
    pub name: String,
    pub description: String,
    pub takes_text: bool,
}
