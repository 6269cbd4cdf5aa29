//! Who may speak to an agent, and who may give it orders: Hermes' rules.
//!
//! No one may unless something says so. What says so, in this order: a chat whose members all may, a
//! platform's word that its bots may, a platform that is open to all, a role, an approved pairing
//! code, a list of people, a gateway that is open to all. The order matters only where an id is missing.
//!
//! - a list that exists closes what is open by [`AccessPolicy::gateway_open`] alone
//! - ids are compared in constant time, and every list is read to its end
//!
//! Deliberately absent: WhatsApp's and SimpleX' second names for a person, and adapters of Hermes that
//! decide for themselves (WeCom, Weixin, Yuanbao, QQ): this gateway has none of them.

use crate::source::Source;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use throughline_core::command;

/// What is configured about one platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Its messages are signed: a sender that could sign one may.
    pub signed: bool,
    /// `{PLATFORM}_ALLOW_ALL_USERS`
    pub open: bool,
    /// `GATEWAY_ALLOW_ALL_USERS`: counts only where no list is configured.
    pub gateway_open: bool,
    /// `{PLATFORM}_ALLOWED_USERS`
    pub users: Vec<String>,
    /// `GATEWAY_ALLOWED_USERS`
    pub gateway_users: Vec<String>,
    /// `TELEGRAM_GROUP_ALLOWED_USERS`: in groups only.
    pub group_users: Vec<String>,
    /// `TELEGRAM_GROUP_ALLOWED_CHATS`: everybody in these.
    pub group_chats: Vec<String>,
    /// `DISCORD_ALLOWED_ROLES`, and `@name` for everybody whom `DISCORD_ALLOWED_USERS` names instead of giving an id.
    pub roles: Vec<String>,
    /// `{PLATFORM}_ALLOW_BOTS`
    pub bots: Bots,
    /// What a stranger hears who writes to the agent alone.
    pub strangers: Strangers,
    pub orders: Orders,
}

/// What stands before a name that only one person can have, among the roles of that person.
pub const NAMED: char = '@';

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bots {
    #[default]
    None,
    /// Those that name us.
    Mentions,
    All,
}

/// `unauthorized_dm_behavior`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strangers {
    /// They get a pairing code.
    #[default]
    Pair,
    /// Nothing at all.
    Ignore,
}

/// Who writes.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    pub source: &'a Source,
    pub is_bot: bool,
    pub roles: &'a [String],
}

impl AccessPolicy {
    /// `is_paired` answers for the store of approved people.
    pub fn admits(&self, who: Who<'_>, is_paired: &dyn Fn(&str) -> bool) -> bool {
        let Who { source, is_bot, roles } = who;
        let kind = source.chat_type.as_str();
        let chat = source.chat_id.as_str();
        let in_group = matches!(kind, "group" | "forum");
        let in_open_chat =
            (in_group || kind == "channel") && !chat.is_empty() && holds(&self.group_chats, chat);
        if self.signed || in_open_chat || (is_bot && self.bots != Bots::None) {
            return true;
        }
        let Some(user) = source.user_id.as_deref().filter(|user| !user.is_empty()) else { return false };
        if self.open || self.has_role(roles) || is_paired(user) {
            return true;
        }
        let group_users: &[String] = if in_group { &self.group_users } else { &[] };
        let group_chats: &[String] = if in_group { &self.group_chats } else { &[] };
        let lists = [&self.users[..], group_users, &self.gateway_users];
        if lists.iter().all(|list| list.is_empty()) && group_chats.is_empty() {
            return self.gateway_open;
        }
        // Once this list named chats; ids of groups begin with a minus.
        let old_chats = group_users.iter().filter(|id| id.starts_with('-'));
        if !chat.is_empty() && is_one_of(chat, old_chats.map(String::as_str)) {
            return true;
        }
        let local = user.split('@').next().unwrap_or(user);
        lists.iter().fold(false, |found, list| found | holds(list, user) | holds(list, local))
    }

    /// People who were named rather than given by id.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().filter_map(|role| role.strip_prefix(NAMED))
    }

    /// Whether a person was named: strangers are not greeted where access is by list.
    pub fn has_list(&self) -> bool {
        ![&self.users, &self.gateway_users, &self.group_users, &self.group_chats]
            .iter()
            .all(|list| list.is_empty())
    }

    fn has_role(&self, roles: &[String]) -> bool {
        roles.iter().fold(false, |found, role| found | is_one_of(role, self.roles.iter().map(String::as_str)))
    }
}

/// Who may give orders, by the kind of chat. All who may speak, unless people are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// `allow_admin_from`, `user_allowed_commands`
    pub direct: UserRank,
    /// `group_allow_admin_from`, `group_user_allowed_commands`
    pub group: UserRank,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRank {
    /// They may give every order. Empty: so may everybody.
    pub admins: Vec<String>,
    /// Names of orders that the others may give, in lower case, without a slash.
    pub commands: Vec<String>,
}

/// So that everybody can find out what they may do.
const ALWAYS_ALLOWED: [&str; 2] = ["help", "whoami"];

impl Orders {
    /// Whether this person may give the order of this name (without a slash).
    pub fn permits(&self, source: &Source, command: &str) -> bool {
        let rank = self.rank(source);
        let command = canonical(command);
        rank.admins.is_empty()
            || source
                .user_id
                .as_deref()
                .is_some_and(|user| is_one_of(user, rank.admins.iter().map(String::as_str)))
            || ALWAYS_ALLOWED.contains(&command.as_str())
            || rank.commands.iter().any(|allowed| canonical(allowed) == command)
    }

    pub fn is_admin(&self, source: &Source) -> bool {
        let rank = self.rank(source);
        rank.admins.is_empty()
            || source
                .user_id
                .as_deref()
                .is_some_and(|user| is_one_of(user, rank.admins.iter().map(String::as_str)))
    }

    fn rank(&self, source: &Source) -> &UserRank {
        match source.chat_type.to_lowercase().as_str() {
            "dm" | "direct" | "private" => &self.direct,
            _ => &self.group,
        }
    }
}

/// The name that an order has in the list of them, whichever of its names was typed or written:
/// menus of platforms have no hyphens.
fn canonical(command: &str) -> String {
    let name = command.to_lowercase().replace('_', "-");
    command::find(&name).map_or(name, |entry| entry.name.to_owned())
}

/// `*` is everybody.
fn holds(list: &[String], id: &str) -> bool {
    is_one_of(id, list.iter().map(String::as_str)) | list.iter().any(|entry| entry == "*")
}

/// Whether two texts are the same, without telling by the time it takes how much of them is.
pub fn same(one: &str, other: &str) -> bool {
    bool::from(Sha256::digest(one.as_bytes()).as_slice().ct_eq(Sha256::digest(other.as_bytes()).as_slice()))
}

pub(crate) fn is_one_of<'a>(id: &str, list: impl Iterator<Item = &'a str>) -> bool {
    let wanted = Sha256::digest(id.as_bytes());
    let found = list.fold(Choice::from(0), |found, entry| {
        found | Sha256::digest(entry.as_bytes()).as_slice().ct_eq(wanted.as_slice())
    });
    bool::from(found)
}

#[cfg(test)]
mod tests;
