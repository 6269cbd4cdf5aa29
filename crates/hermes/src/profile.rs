//! The profiles of a root: which names they have, and which messages belong to which.
//!
//! A root is a home, its profile `default`; further ones are complete homes below `profiles/`. A
//! gateway that serves them all knows whom a message is for by the bot it was written to, and, where
//! one bot serves several, by the rules in `gateway.profile_routes`.
//!
//! Deliberately absent: directories. The caller reads them and hands in names.

use crate::source::Source;

/// The profile that is the root itself.
pub const DEFAULT: &str = "default";
/// Where the others are, below the root.
pub const DIRECTORY: &str = "profiles";

const NAME_LENGTH_MAX: usize = 64;

/// Whether a directory of this name is a profile: `^[a-z0-9][a-z0-9_-]{0,63}$`.
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let begins = text.bytes().next().is_some_and(plain);
    begins && text.len() <= NAME_LENGTH_MAX && text.bytes().all(|byte| plain(byte) || b"_-".contains(&byte))
}

/// One rule: what is written there is for this profile. What it does not name, it does not ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileRoute {
    pub name: String,
    pub platform: String,
    pub profile: String,
    pub guild_id: Option<String>,
    pub chat_id: Option<String>,
    pub thread_id: Option<String>,
}

impl ProfileRoute {
    /// The more it asks for, the sooner it is asked.
    fn weight(&self) -> u8 {
        let asks = |part: &Option<String>, weight| if part.is_some() { weight } else { 0 };
        asks(&self.guild_id, 2) + asks(&self.chat_id, 4) + asks(&self.thread_id, 8)
    }

    /// A rule for a channel holds in its threads, too.
    fn matches(&self, source: &Source) -> bool {
        let holds = |asked: &Option<String>, found: Option<&str>| {
            asked.as_deref().is_none_or(|asked| found == Some(asked))
        };
        let here = holds(&self.chat_id, Some(&source.chat_id));
        let above = holds(&self.chat_id, source.parent_chat_id.as_deref());
        self.platform == source.platform
            && holds(&self.thread_id, source.thread_id.as_deref())
            && (here || above)
            && holds(&self.guild_id, source.scope_id.as_deref())
    }
}

/// All rules of a gateway, the most particular first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileRoutes(Vec<ProfileRoute>);

impl ProfileRoutes {
    /// Among rules that ask for as much, the first that was written counts.
    pub fn new(mut routes: Vec<ProfileRoute>) -> Self {
        routes.sort_by_key(|route| std::cmp::Reverse(route.weight()));
        Self(routes)
    }

    /// Whose message this is. None: of the profile whose bot it was written to.
    pub fn profile_of(&self, source: &Source) -> Option<&str> {
        self.0.iter().find(|route| route.matches(source)).map(|route| route.profile.as_str())
    }

    pub fn iter(&self) -> impl Iterator<Item = &ProfileRoute> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_hermes_takes() {
        for name in ["a", "0", "work", "a-b_c9", &"x".repeat(64)] {
            assert!(is_name(name), "{name:?}");
        }
        for name in ["", "-a", "_a", "A", "a.b", "a/b", "..", "ü", "a b", &"x".repeat(65)] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn the_most_particular_rule_counts_and_a_channel_holds_in_its_threads() {
        let route =
            |profile: &str, guild: Option<&str>, chat: Option<&str>, thread: Option<&str>| ProfileRoute {
                platform: "discord".into(),
                profile: profile.into(),
                guild_id: guild.map(str::to_owned),
                chat_id: chat.map(str::to_owned),
                thread_id: thread.map(str::to_owned),
                ..ProfileRoute::default()
            };
        let routes = ProfileRoutes::new(vec![
            route("server", Some("g"), None, None),
            route("channel", Some("g"), Some("c"), None),
            route("thread", None, Some("c"), Some("t")),
        ]);
        let source = |guild: &str, chat: &str, parent: Option<&str>, thread: Option<&str>| Source {
            scope_id: Some(guild.into()),
            parent_chat_id: parent.map(str::to_owned),
            thread_id: thread.map(str::to_owned),
            ..Source::new("discord", "channel", chat)
        };
        for (source, profile) in [
            (source("g", "x", None, None), Some("server")),
            (source("g", "c", None, None), Some("channel")),
            (source("g", "t", Some("c"), Some("t")), Some("thread")),
            (source("g", "u", Some("c"), Some("u")), Some("channel")),
            (source("h", "c", None, None), None),
            (Source { platform: "slack".into(), ..source("g", "c", None, None) }, None),
        ] {
            assert_eq!(routes.profile_of(&source), profile, "{source:?}");
        }
    }
}
