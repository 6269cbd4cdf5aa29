//! Channels and servers, as far as a message's origin is made of them. Looked up when a message arrives
//! there for the first time, and again after they have changed.
//!
//! Events carry more of this than is used here, but only to a new session: a resumed one would see
//! other names than a new one. So everybody asks.

use super::payload::{DiscordChannel, Guild, Id};
use super::rest::{Rest, RestError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Places that are remembered: more than an agent is spoken to in between two starts.
const PLACES_MAX: usize = 4_096;

/// Kinds of channels, by Discord's numbers.
pub mod kind {
    pub const TEXT: u8 = 0;
    pub const DIRECT: u8 = 1;
    pub const NEWS: u8 = 5;
    pub const THREADS: std::ops::RangeInclusive<u8> = 10..=12;
    pub const FORUMS: std::ops::RangeInclusive<u8> = 15..=16;
}

#[derive(Default)]
pub struct DiscordPlaces {
    channels: Mutex<HashMap<Id, Arc<DiscordChannel>>>,
    guilds: Mutex<HashMap<Id, Arc<str>>>,
}

/// A channel, and what is around it.
#[derive(Clone, Debug)]
pub struct DiscordPlace {
    pub channel: Arc<DiscordChannel>,
    /// Of a thread.
    pub parent: Option<Arc<DiscordChannel>>,
    pub guild: Option<Arc<str>>,
}

impl DiscordPlace {
    pub fn is_thread(&self) -> bool {
        kind::THREADS.contains(&self.channel.kind)
    }

    pub fn is_direct(&self) -> bool {
        self.channel.kind == kind::DIRECT
    }

    /// Whether a thread can be begun at a message here.
    pub fn has_threads(&self) -> bool {
        matches!(self.channel.kind, kind::TEXT | kind::NEWS)
    }

    fn is_post(&self) -> bool {
        self.parent.as_ref().is_some_and(|parent| kind::FORUMS.contains(&parent.kind))
    }

    /// As Hermes shows it.
    pub fn name(&self) -> String {
        let name = self.channel.name.clone().unwrap_or_else(|| self.channel.id.to_string());
        let parent = self.parent.as_ref().and_then(|parent| parent.name.as_deref());
        match (self.guild.as_deref(), parent) {
            (Some(guild), Some(forum)) if self.is_post() => format!("{guild} / {forum} / {name}"),
            (Some(guild), Some(parent)) => format!("{guild} / #{parent} / {name}"),
            (None, Some(parent)) => format!("{parent} / {name}"),
            (Some(guild), None) if !self.is_thread() => format!("{guild} / #{name}"),
            _ => name,
        }
    }

    /// What the channel is about. A post inherits it from its forum.
    pub fn topic(&self) -> Option<String> {
        let own = self.channel.topic.clone().filter(|topic| !topic.is_empty());
        own.or_else(|| self.parent.as_ref().filter(|_| self.is_post())?.topic.clone())
    }

    /// Every way in which a list of channels may name it: by id, or by name with or without a `#`;
    /// a thread is also meant by a rule that names the channel it is in.
    pub fn is_in(&self, list: &[String]) -> bool {
        let channels = [Some(&self.channel), self.parent.as_ref()];
        channels.into_iter().flatten().any(|channel| {
            let id = channel.id.to_string();
            list.iter().any(|entry| {
                let bare = entry.strip_prefix('#').unwrap_or(entry);
                *entry == id || channel.name.as_deref() == Some(bare)
            })
        })
    }
}

impl DiscordPlaces {
    /// The place of this channel. `guild` where the event says so.
    pub async fn look_up(
        &self,
        rest: &Rest,
        channel: Id,
        guild: Option<Id>,
    ) -> Result<DiscordPlace, RestError> {
        let channel = self.channel(rest, channel).await?;
        let parent = match channel.parent_id.filter(|_| kind::THREADS.contains(&channel.kind)) {
            Some(parent) => settled(self.channel(rest, parent).await)?,
            None => None,
        };
        let guild = match guild.or(channel.guild_id) {
            Some(guild) => settled(self.guild(rest, guild).await)?,
            None => None,
        };
        Ok(DiscordPlace { channel, parent, guild })
    }

    /// What is known without asking, or what the event itself says of it.
    pub fn at_hand(&self, told: DiscordChannel, guild: Option<Id>) -> DiscordPlace {
        let channels = self.channels.lock().expect("nothing panics while it holds the channels");
        let guilds = self.guilds.lock().expect("nothing panics while it holds the servers");
        let channel = channels.get(&told.id).cloned().unwrap_or_else(|| Arc::new(told));
        let parent = channel.parent_id.filter(|_| kind::THREADS.contains(&channel.kind));
        DiscordPlace {
            parent: parent.and_then(|parent| channels.get(&parent).cloned()),
            guild: guild.and_then(|guild| guilds.get(&guild).cloned()),
            channel,
        }
    }

    pub fn forget(&self, channel: Id) {
        self.channels.lock().expect("nothing panics while it holds the channels").remove(&channel);
    }

    pub fn forget_guild(&self, guild: Id) {
        self.guilds.lock().expect("nothing panics while it holds the servers").remove(&guild);
    }

    pub fn name_guild(&self, guild: Id, name: &str) {
        let mut guilds = self.guilds.lock().expect("nothing panics while it holds the servers");
        bound(&mut guilds);
        guilds.insert(guild, name.into());
    }

    async fn channel(&self, rest: &Rest, id: Id) -> Result<Arc<DiscordChannel>, RestError> {
        let known =
            self.channels.lock().expect("nothing panics while it holds the channels").get(&id).cloned();
        if let Some(channel) = known {
            return Ok(channel);
        }
        let channel: Arc<DiscordChannel> = Arc::new(rest.get(&format!("/channels/{id}")).await?);
        let mut channels = self.channels.lock().expect("nothing panics while it holds the channels");
        bound(&mut channels);
        channels.insert(id, channel.clone());
        Ok(channel)
    }

    async fn guild(&self, rest: &Rest, id: Id) -> Result<Arc<str>, RestError> {
        let known = self.guilds.lock().expect("nothing panics while it holds the servers").get(&id).cloned();
        if let Some(name) = known {
            return Ok(name);
        }
        let guild: Guild = rest.get(&format!("/guilds/{id}")).await?;
        let name = guild.name.unwrap_or_else(|| id.to_string());
        self.name_guild(id, &name);
        Ok(name.into())
    }
}

/// What is only a name is done without where Discord will not give it.
fn settled<T>(found: Result<T, RestError>) -> Result<Option<T>, RestError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(fault) if fault.will_pass() => Err(fault),
        Err(_) => Ok(None),
    }
}

/// All of it can be asked for again.
fn bound<T>(known: &mut HashMap<Id, T>) {
    if known.len() >= PLACES_MAX {
        known.clear();
    }
}
