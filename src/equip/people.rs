//! Who can reach an agent through chats, and who of them it belongs to. Looked up whenever it is asked: somebody
//! who was paired a moment ago counts already.

use crate::config::Settings;
use crate::hermes_state_files::DIRECTORY_FILE;
use crate::home::Home;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use throughline_core::tool::Caller;
use throughline_gateway::{AddressBook, Owners};
use throughline_hermes::config::platforms::Platform;
use throughline_hermes::state::Directory;
use throughline_memory::honcho::Audience;
use throughline_platforms::Pairings;

const API: &str = "api_server";

pub struct People {
    platforms: Vec<Platform>,
    pairings: Pairings,
}

impl People {
    pub fn of(home: &Home, settings: &Settings) -> Self {
        let chats = settings.platforms.all.iter().filter(|platform| platform.enabled && platform.name != API);
        Self { platforms: chats.cloned().collect(), pairings: Pairings::of(home.path()) }
    }

    /// Whether one person at most can reach the agent through chats.
    pub fn audience(&self) -> Audience {
        let mut people: BTreeSet<(&str, String)> = BTreeSet::new();
        for platform in &self.platforms {
            let access = &platform.access;
            let many = access.open
                || access.gateway_open
                || access.signed
                || !access.group_users.is_empty()
                || !access.group_chats.is_empty()
                || access.roles.len() > access.names().count()
                || access.users.iter().chain(&access.gateway_users).any(|user| user == "*");
            if many {
                return Audience::Many;
            }
            let listed = access.users.iter().chain(&access.gateway_users).cloned();
            let paired = self.pairings.approved(&platform.name).into_iter().map(|person| person.id);
            people.extend(listed.chain(paired).map(|user| (platform.name.as_str(), user)));
        }
        // One on each of two platforms may be two.
        match people.len() {
            0 | 1 => Audience::One,
            _ => Audience::Many,
        }
    }

    /// Whether anybody is known as the owner. Where everybody may write, nobody is listed and nobody was paired, no one is.
    pub fn has_owner(&self) -> bool {
        let is_named = |platform: &Platform| {
            let lists = platform.access.users.iter().chain(&platform.access.gateway_users);
            let admins = &platform.access.orders.direct.admins;
            !admins.is_empty() || lists.into_iter().any(|user| user != "*")
        };
        self.audience() == Audience::One
            || self.platforms.iter().any(is_named)
            || self.platforms.iter().any(|platform| !self.pairings.approved(&platform.name).is_empty())
    }

    /// Whether people read along who are not this caller. What they see must hold nothing that one of them told the
    /// agent alone, no matter who of them began the conversation.
    pub fn is_among_others(&self, caller: &Caller) -> bool {
        !caller.is_private && self.audience() == Audience::Many
    }

    /// Whether this is the owner: the only one, or an administrator, or else the first on the allow-list, or else
    /// the first who was paired. What comes from no chat and names nobody (the terminal, a schedule, another agent)
    /// is the owner's.
    pub fn is_owner(&self, platform: &str, user: Option<&str>) -> bool {
        if self.audience() == Audience::One {
            return true;
        }
        let Some(user) = user else {
            return self.platforms.iter().all(|known| known.name != platform);
        };
        self.owners().iter().any(|(its, owner)| its == platform && owner == user)
    }

    /// Those who are known as owners, by platform and user: the administrators, or else the first on each allow-list,
    /// or else the first who was paired.
    pub fn owners(&self) -> Vec<(String, String)> {
        let admins = |platform: &Platform| platform.access.orders.direct.admins.clone();
        let listed = |platform: &Platform| {
            let lists = platform.access.users.iter().chain(&platform.access.gateway_users);
            lists.filter(|user| *user != "*").take(1).cloned().collect::<Vec<_>>()
        };
        for named in [&admins as &dyn Fn(&Platform) -> Vec<String>, &listed] {
            let owners = self
                .platforms
                .iter()
                .flat_map(|platform| named(platform).into_iter().map(|user| (platform.name.clone(), user)));
            let owners: Vec<_> = owners.collect();
            if !owners.is_empty() {
                return owners;
            }
        }
        let paired = self.platforms.iter().flat_map(|known| {
            let people = self.pairings.approved(&known.name).into_iter();
            people.map(|person| (person.since.unwrap_or(f64::MAX), known.name.as_str(), person.id))
        });
        let first = paired.min_by(|one, other| one.0.total_cmp(&other.0));
        first.map(|(_, platform, id)| (platform.to_owned(), id)).into_iter().collect()
    }
}

/// Who owns the agent of a home, as it stands whenever the gateway asks.
pub fn owners(home: &Home, settings: &Settings) -> Owners {
    let people = People::of(home, settings);
    Arc::new(move || people.owners())
}

/// The chats that the home knows, as `channel_directory.json` names them. Among several people only the owner hears
/// who else speaks with the agent in private.
pub struct Acquaintances {
    home: Home,
    people: People,
}

impl Acquaintances {
    pub fn of(home: &Home, settings: &Settings) -> Self {
        Self { home: home.clone(), people: People::of(home, settings) }
    }

    fn known_to(&self, caller: &Caller) -> Directory {
        let text = fs::read_to_string(self.home.path().join(DIRECTORY_FILE)).unwrap_or_default();
        let mut directory = Directory::read(&text);
        let user = caller.user.as_deref();
        let is_owner = !self.people.is_among_others(caller) && self.people.is_owner(&caller.source, user);
        if caller.source != "cli" && !is_owner {
            let here = caller.reply_to.as_ref();
            directory.retain(|platform, channel| {
                let chat = channel.id.split(':').next().unwrap_or_default();
                channel.kind != "dm"
                    || here.is_some_and(|here| here.platform == platform && here.chat == chat)
            });
        }
        directory
    }
}

impl AddressBook for Acquaintances {
    fn list(&self, caller: &Caller) -> Option<String> {
        self.known_to(caller).shown()
    }

    fn find(&self, caller: &Caller, platform: &str, name: &str) -> Option<String> {
        self.known_to(caller).find(platform, name).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Overrides, Written};
    use crate::home::ChosenBy;
    use throughline_core::Time;

    const NOW: Time = Time(1_800_000_000_000_000);

    struct World {
        directory: tempfile::TempDir,
        people: People,
    }

    impl World {
        fn with(variables: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join(".env"), format!("TELEGRAM_BOT_TOKEN=1:a\n{variables}")).unwrap();
            let home = Home::new(directory.path(), ChosenBy::CommandLine);
            let written = Written::read(&home, &Environment::from([]), Overrides::default()).unwrap();
            let Ok(written) = written else { panic!("the settings cannot be read") };
            let people = People::of(&home, &written.report().settings.unwrap());
            Self { directory, people }
        }

        fn pairs(&self, user: &str, now: Time) {
            let pairings = Pairings::of(self.directory.path()); // as the intake sees them
            let code = pairings.request("telegram", user, "", now).unwrap().unwrap();
            pairings.approve("telegram", &code, now).unwrap().unwrap();
        }
    }

    #[test]
    fn p31_whoever_is_paired_counts_at_once() {
        let world = World::with("");
        assert_eq!(world.people.audience(), Audience::One);
        world.pairs("42", NOW);
        assert_eq!(world.people.audience(), Audience::One);
        world.pairs("7", NOW);
        assert_eq!(world.people.audience(), Audience::Many);
        let listed = World::with("TELEGRAM_ALLOWED_USERS=42\n");
        assert_eq!(listed.people.audience(), Audience::One);
        listed.pairs("42", NOW);
        assert_eq!(listed.people.audience(), Audience::One);
        listed.pairs("7", NOW);
        assert_eq!(listed.people.audience(), Audience::Many);
    }

    #[test]
    fn p31_among_several_people_one_is_the_owner() {
        let owner = |world: &World, user: &str| world.people.is_owner("telegram", Some(user));
        let listed = World::with("TELEGRAM_ALLOWED_USERS=42,7\n");
        assert!(owner(&listed, "42") && !owner(&listed, "7") && !listed.people.is_owner("slack", Some("42")));
        assert!(!listed.people.is_owner("telegram", None));
        let paired = World::with("");
        paired.pairs("42", NOW);
        paired.pairs("7", Time(NOW.0 + 1_000_000));
        assert!(owner(&paired, "42") && !owner(&paired, "7"));
        assert!(owner(&World::with("TELEGRAM_ALLOWED_USERS=42\n"), "42"));
    }
}
