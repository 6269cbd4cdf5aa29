//! What a chat's session is called.
//!
//! In this order: the name that the user wrote down for the directory, what a person called the
//! session, the chat's key, and then what the strategy says. A level at which nothing is left to read
//! gives way to the next. A name that is in use is kept by the store, so none of this renames anything.
//!
//! - a name has 1 to 100 characters of `[A-Za-z0-9_-]`; a longer one ends in a hash of what it was made from
//! - names of a person, a chat or a session are theirs: two that look alike are told apart; names of a
//!   directory, a repository or a workspace are there to be shared, by the agent's owner: a user for whom
//!   a program speaks has a name of their own instead

use super::HonchoSurroundings;
use super::settings::{HonchoSettings, SessionStrategy};
use crate::person_name;
use sha2::{Digest, Sha256};
use throughline_core::memory::{Naming, Scope};

/// What every version of the server accepts.
pub const LENGTH_MAX: usize = 100;
/// Of a hash at the end of a long name, as Hermes writes it.
const SHORT: usize = 8;
/// Of a hash that tells two owners of one name apart: no name has one of this length by itself.
const LONG: usize = 16;
/// If even the workspace has no readable name.
const LAST: &str = "hermes";

pub fn naming(settings: &HonchoSettings, surroundings: &HonchoSurroundings, scope: &Scope) -> Naming {
    let directory = surroundings.directory.as_str();
    let client = person_name::of_client(scope);

    let written = settings.sessions.get(directory).filter(|_| client.is_none());
    if let Some(name) = written.and_then(|name| fitted(name, "")) {
        return Naming { name, otherwise: None };
    }
    if let Some(title) = titled(settings, scope) {
        return title;
    }
    if let Some(chat) = &scope.chat
        && let Some(name) = fitted(chat.as_str(), &settings.session_prefix())
    {
        return owned(name, chat.as_str());
    }
    if settings.strategy == SessionStrategy::PerSession
        && let Some(name) = fitted(scope.session.as_str(), &settings.session_prefix())
    {
        return owned(name, scope.session.as_str());
    }
    if let Some(client) = client {
        // No other person's, so all conversations of this user may share it.
        return Naming { name: of_client(settings, &client), otherwise: None };
    }
    let repository =
        surroundings.repository.as_deref().filter(|_| settings.strategy == SessionStrategy::PerRepository);
    let base = directory.trim_end_matches('/').rsplit('/').next();
    let base = base.filter(|_| settings.strategy != SessionStrategy::Global);
    let shared =
        [repository, base].into_iter().flatten().find_map(|text| fitted(text, &settings.session_prefix()));
    let name = shared.or_else(|| fitted(&settings.workspace, "")).unwrap_or_else(|| LAST.to_owned());
    Naming { name, otherwise: None }
}

/// Whether what lies under this name was said in the scope's own conversations. A chat shares one only by what
/// was written down for directories. Without a chat, a name that only a setting or a title of earlier days could
/// explain is taken for another person's: too little is shown then, never too much.
pub fn is_own(settings: &HonchoSettings, scope: &Scope, name: &str) -> bool {
    if scope.chat.is_some() {
        return settings.sessions.values().all(|written| fitted(written, "").as_deref() != Some(name));
    }
    let (session, prefix) = (scope.session.as_str(), settings.session_prefix());
    let by_session = fitted(session, &prefix).map(|name| owned(name, session));
    let mut names = by_session.into_iter().chain(titled(settings, scope));
    let is_client = person_name::of_client(scope).is_some_and(|client| of_client(settings, &client) == name);
    is_client || names.any(|naming| naming.name == name || naming.otherwise.as_deref() == Some(name))
}

/// What a person called the session.
fn titled(settings: &HonchoSettings, scope: &Scope) -> Option<Naming> {
    let owner = scope.chat.as_ref().map_or(scope.session.as_str(), |chat| chat.as_str());
    let title = scope.title.as_ref()?;
    let name = fitted(title, &settings.session_prefix())?;
    Some(owned(name, &format!("{title}\n{owner}")))
}

/// Always with the hash: two users whose names read alike must not meet.
fn of_client(settings: &HonchoSettings, client: &str) -> String {
    hashed(&format!("{}{}", settings.session_prefix(), readable(client)), client, LONG)
}

/// Whether the server can be asked for a session of this name. It answers some others with an error
/// that looks as if trying again could help.
pub fn is_valid(name: &str) -> bool {
    (1..=LENGTH_MAX).contains(&name.len()) && name.chars().all(is_id)
}

/// `name` as it was recorded, or what can be made of it if something else recorded it.
pub fn valid(name: &str) -> String {
    match is_valid(name) {
        true => name.to_owned(),
        false => hashed(&readable(name), name, LONG),
    }
}

/// Each character that an id cannot have is a `-`. May be empty, if `text` is.
pub fn id(text: &str) -> String {
    text.chars().map(|character| if is_id(character) { character } else { '-' }).collect()
}

/// The same, within what a server accepts.
pub fn bounded_id(text: &str) -> String {
    let id = id(text);
    if id.len() <= LENGTH_MAX { id } else { hashed(&id, text, SHORT) }
}

pub fn digest(text: &str, length: usize) -> String {
    let bytes = Sha256::digest(text.as_bytes());
    let mut hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(length);
    hex
}

/// `prefix` and what can be read of `text`, or None if nothing can.
fn fitted(text: &str, prefix: &str) -> Option<String> {
    let readable = readable(text);
    if readable.is_empty() {
        return None;
    }
    let name = format!("{prefix}{readable}");
    Some(if name.len() <= LENGTH_MAX { name } else { hashed(&name, text, SHORT) })
}

/// A name that is `key`'s alone.
fn owned(name: String, key: &str) -> Naming {
    let otherwise = hashed(&name, key, LONG);
    Naming { name, otherwise: Some(otherwise) }
}

/// Runs of other characters as one `-`, and none at the ends.
pub(super) fn readable(text: &str) -> String {
    let words = text.split(|character| !is_id(character)).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").trim_matches('-').to_owned()
}

/// As much of `name` as leaves room for the hash of `key`. Every character of it is one byte.
fn hashed(name: &str, key: &str, length: usize) -> String {
    let head = name.get(..name.len().min(LENGTH_MAX - length - 1)).unwrap_or_default();
    format!("{}-{}", head.trim_end_matches('-'), digest(key, length)).trim_start_matches('-').to_owned()
}

fn is_id(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

#[cfg(test)]
pub(super) mod tests;
