//! Chat keys, built as Hermes builds them, and only from ids that stay.
//!
//! `agent:<namespace>:<platform>:dm:<chat>[:<thread>]` for one person, and
//! `agent:<namespace>:<platform>:<type>[:<chat>][:<thread>][:<participant>]` for many, where the
//! participant is named if each has a session of their own. Titles, names and message ids are
//! deliberately absent: a chat that is renamed is the same chat.

use crate::source::Source;
use std::collections::BTreeSet;
use throughline_core::id::{ChatKey, InvalidId};

/// A person has a phone number, a hidden id and a few devices; a walk longer than this is a mistake.
const ALIASES_MAX: usize = 64;

/// What a home's configuration says about keys.
#[derive(Clone, Copy)]
pub struct KeyRules<'a> {
    /// Outside threads, each participant of a group has a session of their own.
    pub group_sessions_per_user: bool,
    /// And inside threads.
    pub thread_sessions_per_user: bool,
    /// Set where one gateway serves several profiles; `default` is the same as none.
    pub profile: Option<&'a str>,
    /// What the WhatsApp bridge has noted for an id: the contents of `lid-mapping-<id>.json` and of
    /// `lid-mapping-<id>_reverse.json`, where they exist.
    pub whatsapp: &'a dyn Fn(&str) -> Vec<String>,
}

impl Default for KeyRules<'_> {
    fn default() -> Self {
        Self {
            group_sessions_per_user: true,
            thread_sessions_per_user: false,
            profile: None,
            whatsapp: &|_| Vec::new(),
        }
    }
}

/// The chat that `source` is in. An id with spaces or control characters in it makes no key.
pub fn chat_key(source: &Source, rules: &KeyRules<'_>) -> Result<ChatKey, InvalidId> {
    let namespace = match rules.profile {
        None | Some("" | "default") => "main",
        Some(profile) => profile,
    };
    let mut parts =
        vec!["agent".to_owned(), namespace.to_owned(), source.platform.clone(), source.chat_type.clone()];
    match is_direct(source) {
        true => parts.extend(direct_parts(source, rules)),
        false => parts.extend(shared_parts(source, rules)),
    }
    parts.join(":").parse()
}

/// Whether several people speak in the session that this key leads to.
pub fn is_shared(source: &Source, rules: &KeyRules<'_>) -> bool {
    !is_direct(source) && !is_isolated(source, rules)
}

fn is_direct(source: &Source) -> bool {
    source.chat_type == "dm"
}

fn is_isolated(source: &Source, rules: &KeyRules<'_>) -> bool {
    match thread(source) {
        Some(_) => rules.thread_sessions_per_user,
        None => rules.group_sessions_per_user,
    }
}

/// The chat, or else the person, so that no two people share a session by accident.
fn direct_parts(source: &Source, rules: &KeyRules<'_>) -> impl Iterator<Item = String> {
    let chat = Some(stable(source, &source.chat_id, rules)).filter(|chat| !chat.is_empty());
    let place = chat.or_else(|| participant(source, rules));
    place.into_iter().chain(thread(source).map(str::to_owned))
}

fn shared_parts(source: &Source, rules: &KeyRules<'_>) -> impl Iterator<Item = String> {
    let chat = Some(source.chat_id.clone()).filter(|chat| !chat.is_empty());
    // Inside a thread, a participant is named only if groups are divided as well.
    let divided = is_isolated(source, rules) && rules.group_sessions_per_user;
    let person = divided.then(|| participant(source, rules)).flatten();
    chat.into_iter().chain(thread(source).map(str::to_owned)).chain(person)
}

fn thread(source: &Source) -> Option<&str> {
    source.thread_id.as_deref().filter(|thread| !thread.is_empty())
}

fn participant(source: &Source, rules: &KeyRules<'_>) -> Option<String> {
    let known = |id: &Option<String>| id.clone().filter(|id| !id.is_empty());
    let id = known(&source.user_id_alt).or_else(|| known(&source.user_id))?;
    let stable = stable(source, &id, rules);
    Some(if stable.is_empty() { id } else { stable })
}

/// WhatsApp shows one person under several ids; everywhere else an id is an id.
fn stable(source: &Source, id: &str, rules: &KeyRules<'_>) -> String {
    match source.platform.as_str() {
        "whatsapp" => canonical_whatsapp(id, rules.whatsapp),
        _ => id.to_owned(),
    }
}

/// Of all ids the bridge knows for a person the shortest, and of those the first.
fn canonical_whatsapp(id: &str, noted: &dyn Fn(&str) -> Vec<String>) -> String {
    let id = bare_whatsapp(id);
    let mut known = BTreeSet::new();
    let mut open = vec![id.clone()];
    while let Some(next) = open.pop().filter(|_| known.len() < ALIASES_MAX) {
        if is_whatsapp_id(&next) && known.insert((next.len(), next.clone())) {
            open.extend(noted(&next).iter().map(|alias| bare_whatsapp(alias)));
        }
    }
    // An id that WhatsApp does not give stands for itself. Hermes fails on it.
    known.into_iter().next().map_or(id, |(_, shortest)| shortest)
}

/// Without a plus, device and domain: `+15551234567:47@s.whatsapp.net` is `15551234567`.
fn bare_whatsapp(id: &str) -> String {
    let id = id.trim().replacen('+', "", 1);
    let id = id.split(':').next().unwrap_or_default();
    id.split('@').next().unwrap_or_default().to_owned()
}

fn is_whatsapp_id(id: &str) -> bool {
    !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '@' | '.' | '+' | '-'))
}

#[cfg(test)]
mod tests;
