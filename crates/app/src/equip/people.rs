//! Who can reach an agent through chats, gathered from its settings and pairings for [`throughline_core::access`], which
//! decides. Gathered anew for each decision: a person who was paired a moment ago counts already.

use std::fs;
use std::sync::Arc;
use throughline_core::access::{PairedPerson, People, Person, PlatformPeople, Surface};
use throughline_core::memory::Scope;
use throughline_core::tool::Caller;
use throughline_gateway::{AddressBook, Owners};
use throughline_hermes::config::platforms::Platform;
use throughline_hermes::state::Directory;
use throughline_home::config::Settings;
use throughline_home::home::{CHANNELS_FILE, Home};
use throughline_platforms::Pairings;

const API: &str = "api_server";

pub struct PeopleLookup {
    platforms: Vec<Platform>,
    pairings: Pairings,
}

impl PeopleLookup {
    pub fn of(home: &Home, settings: &Settings) -> Self {
        let chats = settings.platforms.all.iter().filter(|platform| platform.enabled && platform.name != API);
        Self { platforms: chats.cloned().collect(), pairings: Pairings::of(home.path()) }
    }

    /// As it stands now.
    pub fn now(&self) -> People {
        let platforms = self.platforms.iter().map(|platform| {
            let access = &platform.access;
            let names = || access.users.iter().chain(&access.gateway_users);
            let is_open = access.open
                || access.gateway_open
                || access.signed
                || !access.group_users.is_empty()
                || !access.group_chats.is_empty()
                || access.roles.len() > access.names().count()
                || names().any(|user| user == "*");
            let paired = self.pairings.approved(&platform.name).into_iter();
            PlatformPeople {
                platform: platform.name.clone(),
                is_open,
                admins: access.orders.direct.admins.clone(),
                listed: names().filter(|user| *user != "*").cloned().collect(),
                paired: paired.map(|person| PairedPerson { user: person.id, since: person.since }).collect(),
            }
        });
        People { platforms: platforms.collect() }
    }
}

/// Who calls a tool.
pub fn person_of_caller(caller: &Caller) -> Person<'_> {
    Person {
        surface: Surface::of(&caller.source),
        user: caller.user.as_deref(),
        is_private: caller.is_private,
    }
}

/// Who a conversation is with.
pub fn person_of_scope(scope: &Scope) -> Person<'_> {
    Person {
        surface: Surface::of(&scope.platform),
        user: scope.user.as_deref(),
        is_private: scope.is_private(),
    }
}

/// Who owns the agent of a home, as it stands whenever the gateway asks.
pub fn owners(home: &Home, settings: &Settings) -> Owners {
    let people = PeopleLookup::of(home, settings);
    Arc::new(move || people.now().owners())
}

/// The chats that the home knows, as `channel_directory.json` names them. Among several people only the owner hears
/// who else speaks with the agent in private.
pub struct Acquaintances {
    home: Home,
    people: PeopleLookup,
}

impl Acquaintances {
    pub fn of(home: &Home, settings: &Settings) -> Self {
        Self { home: home.clone(), people: PeopleLookup::of(home, settings) }
    }

    fn known_to(&self, caller: &Caller) -> Directory {
        let text = fs::read_to_string(self.home.path().join(CHANNELS_FILE)).unwrap_or_default();
        let mut directory = Directory::read(&text);
        if !self.people.now().may_see_private_chats(person_of_caller(caller)) {
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
    use throughline_core::Time;
    use throughline_core::access::PeopleCount;
    use throughline_home::config::Environment;
    use throughline_home::home::ChosenBy;

    const NOW: Time = Time(1_800_000_000_000_000);

    struct World {
        directory: tempfile::TempDir,
        people: PeopleLookup,
    }

    impl World {
        fn with(variables: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join(".env"), format!("TELEGRAM_BOT_TOKEN=1:a\n{variables}")).unwrap();
            let home = Home::new(directory.path(), ChosenBy::CommandLine);
            let people = PeopleLookup::of(&home, &home.settings(&Environment::from([])).unwrap());
            Self { directory, people }
        }

        fn pairs(&self, user: &str, now: Time) {
            let pairings = Pairings::of(self.directory.path()); // as the intake sees them
            let code = pairings.request("telegram", user, "", now).unwrap().unwrap();
            pairings.approve("telegram", &code, now).unwrap().unwrap();
        }
    }

    #[test]
    fn p31_a_paired_person_counts_at_once() {
        let world = World::with("");
        assert_eq!(world.people.now().count(), PeopleCount::OneAtMost);
        world.pairs("42", NOW);
        assert_eq!(world.people.now().count(), PeopleCount::OneAtMost);
        world.pairs("7", NOW);
        assert_eq!(world.people.now().count(), PeopleCount::Several);
        let listed = World::with("TELEGRAM_ALLOWED_USERS=42\n");
        assert_eq!(listed.people.now().count(), PeopleCount::OneAtMost);
        listed.pairs("42", NOW);
        assert_eq!(listed.people.now().count(), PeopleCount::OneAtMost);
        listed.pairs("7", NOW);
        assert_eq!(listed.people.now().count(), PeopleCount::Several);
    }

    fn person<'a>(platform: &'a str, user: Option<&'a str>) -> Person<'a> {
        Person { surface: Surface::of(platform), user, is_private: true }
    }

    #[test]
    fn p31_among_several_people_one_is_the_owner() {
        let owner = |world: &World, user: &str| world.people.now().is_owner(person("telegram", Some(user)));
        let listed = World::with("TELEGRAM_ALLOWED_USERS=42,7\n");
        assert!(
            owner(&listed, "42")
                && !owner(&listed, "7")
                && !listed.people.now().is_owner(person("slack", Some("42")))
        );
        assert!(!listed.people.now().is_owner(person("telegram", None)));
        let paired = World::with("");
        paired.pairs("42", NOW);
        paired.pairs("7", Time(NOW.0 + 1_000_000));
        assert!(owner(&paired, "42") && !owner(&paired, "7"));
        assert!(owner(&World::with("TELEGRAM_ALLOWED_USERS=42\n"), "42"));
    }
}
