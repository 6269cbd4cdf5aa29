//! Who speaks in a session: one peer for the person, one for the agent.
//!
//! The person's is, in this order: the configured name if it is pinned, the alias of the platform's
//! user id, the id with the configured prefix, the id, the configured name, and at last one that is
//! made from the session's name. As Hermes has them, so what it learned of a person stays theirs; but where
//! several people talk at once the configured name is not used, unless it is pinned, and a user for whom a client
//! of the API speaks is no user of a platform.

use super::session_name::{bounded_id, digest, id};
use super::settings::HonchoSettings;
use crate::person_name;
use throughline_core::memory::Scope;

/// A hash is lengthened until no person whom the user named has the peer.
const LENGTHS: [usize; 6] = [8, 12, 16, 24, 32, 64];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPeers {
    pub user: String,
    pub agent: String,
}

pub fn peers(settings: &HonchoSettings, scope: &Scope, session: &str) -> SessionPeers {
    SessionPeers { user: user(settings, scope, session), agent: agent(settings) }
}

pub fn agent(settings: &HonchoSettings) -> String {
    bounded_id(&settings.ai_peer)
}

fn user(settings: &HonchoSettings, scope: &Scope, session: &str) -> String {
    let named = settings.peer_name.as_deref();
    if let Some(name) = named.filter(|_| settings.pin_user_peer) {
        return bounded_id(name);
    }
    let Some(platform_id) = person_name::of(scope) else {
        let named = named.filter(|_| scope.is_private());
        return named.map_or_else(|| bounded_id(&format!("user-default-{session}")), bounded_id);
    };
    if let Some(alias) = settings.user_peer_aliases.get(&platform_id) {
        return bounded_id(alias);
    }
    let raw = format!("{}{platform_id}", settings.runtime_peer_prefix);
    let clean = id(&raw);
    // Hermes tells ids apart only if they have a prefix. No person may be the agent.
    let is_contested = match settings.runtime_peer_prefix.is_empty() {
        true => clean == agent(settings) || person_name::of_client(scope).is_some(),
        false => clean != raw || clean == agent(settings) || is_named(settings, &clean),
    };
    match is_contested {
        true => told_apart(settings, &clean, &raw),
        false => bounded_id(&raw),
    }
}

fn told_apart(settings: &HonchoSettings, clean: &str, raw: &str) -> String {
    let candidates = LENGTHS.map(|length| bounded_id(&format!("{clean}-{}", digest(raw, length))));
    let free = candidates.iter().find(|candidate| !is_named(settings, candidate));
    free.unwrap_or(&candidates[LENGTHS.len() - 1]).clone()
}

/// Whether the user gave this peer to a person by name.
fn is_named(settings: &HonchoSettings, peer: &str) -> bool {
    let names = settings.peer_name.iter().chain(settings.user_peer_aliases.values());
    names.into_iter().any(|name| bounded_id(name) == peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::honcho::session_name::tests::scope;
    use crate::honcho::settings::tests::settings;
    use throughline_core::memory::Place;

    #[test]
    fn a_person_is_who_the_settings_say_they_are() {
        let hash = |text: &str| digest(text, 8);
        for (configured, user, peer) in [
            (r#"{"peerName": "Jan K."}"#, Some("42"), "42".to_owned()),
            (r#"{"peerName": "Jan K.", "pinUserPeer": true}"#, Some("42"), "Jan-K-".to_owned()),
            (r#"{"peerName": "jan", "pinPeerName": true}"#, None, "jan".to_owned()),
            (r#"{"peerName": "jan"}"#, None, "jan".to_owned()),
            (r#"{}"#, None, "user-default-chat".to_owned()),
            (r#"{"userPeerAliases": {"42": " ann "}}"#, Some(" 42 "), "ann".to_owned()),
            (r#"{"userPeerAliases": {"42": "ann"}}"#, Some("43"), "43".to_owned()),
            (r#"{"runtimePeerPrefix": "tg_"}"#, Some("42"), "tg_42".to_owned()),
            (r#"{"runtimePeerPrefix": "tg_"}"#, Some("a:b"), format!("tg_a-b-{}", hash("tg_a:b"))),
            (r#"{"runtimePeerPrefix": "j", "peerName": "jan"}"#, Some("an"), format!("jan-{}", hash("jan"))),
            (r#"{}"#, Some("@a:b"), "-a-b".to_owned()),
            (r#"{}"#, Some("hermes"), format!("hermes-{}", hash("hermes"))),
            (
                r#"{"hosts": {"hermes": {"userPeerAliases": {}}}, "userPeerAliases": {"42": "ann"}}"#,
                Some("42"),
                "42".to_owned(),
            ),
        ] {
            let scope = Scope { user: user.map(str::to_owned), ..scope() };
            assert_eq!(peers(&settings(configured), &scope, "chat").user, peer, "{configured} {user:?}");
        }
    }

    #[test]
    fn p31_a_group_is_not_its_owner_and_a_client_s_user_is_no_platform_s() {
        let place = |kind: &str| Place { kind: Some(kind.to_owned()), ..Place::default() };
        let who = |configured: &str, platform: &str, user: Option<&str>, kind: &str| {
            let (platform, user) = (platform.to_owned(), user.map(str::to_owned));
            let scope = Scope { platform, user, place: place(kind), ..scope() };
            peers(&settings(configured), &scope, "chat").user
        };
        let named = r#"{"peerName": "jan"}"#;
        assert_eq!(who(named, "telegram", None, "dm"), "jan");
        assert_eq!(who(named, "telegram", None, "group"), "user-default-chat");
        assert_eq!(who(r#"{"peerName": "jan", "pinUserPeer": true}"#, "telegram", None, "group"), "jan");
        assert_eq!(who(named, "api_server", Some("42"), "dm"), format!("api-42-{}", digest("api:42", 8)));
        let aliases = r#"{"userPeerAliases": {"42": "ann", "api:43": "bob"}}"#;
        assert_eq!(who(aliases, "telegram", Some("42"), "dm"), "ann");
        assert_ne!(who(aliases, "api_server", Some("42"), "dm"), "ann");
        assert_eq!(who(aliases, "api_server", Some("43"), "dm"), "bob");
    }

    #[test]
    fn every_peer_fits_into_an_id() {
        let long = "x:".repeat(300);
        for configured in [
            "{}".to_owned(),
            r#"{"runtimePeerPrefix": "p"}"#.to_owned(),
            format!(r#"{{"peerName": "{long}"}}"#),
        ] {
            for user in [None, Some(long.clone())] {
                let scope = Scope { user, ..scope() };
                let peers = peers(&settings(&configured), &scope, &"s".repeat(100));
                assert!(peers.user.len() <= 100 && peers.user != peers.agent, "{peers:?}");
            }
        }
    }
}
