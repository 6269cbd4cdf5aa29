//! Who owns an agent, who may see which memory, and whose notes a conversation uses.
//!
//! The shell gathers facts (settings, pairings, who asks) and asks here whenever it needs an answer: a person who was
//! paired a moment ago counts already. Where one person at most can reach the agent, everything is theirs. Among several,
//! what one of them told the agent alone is shown to none of the others.
//!
//! Deliberately absent: the names of platforms, and where lists of people are kept.

use std::collections::BTreeSet;

/// The people of one chat platform, as its settings and its pairings stand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlatformPeople {
    pub platform: String,
    /// It also lets in people whom no list names: everyone, members of a group or a role, signed requests.
    pub is_open: bool,
    pub admins: Vec<String>,
    /// Those on its allow-lists, in order.
    pub listed: Vec<String>,
    pub paired: Vec<PairedPerson>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PairedPerson {
    pub user: String,
    /// Seconds since 1970. None: unknown, and later than any that is known.
    pub since: Option<f64>,
}

/// Everyone who can reach one agent through chats.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct People {
    pub platforms: Vec<PlatformPeople>,
}

/// How many people can reach an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeopleCount {
    OneAtMost,
    /// More than one, or it is not known.
    Several,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface<'a> {
    /// The terminal of the machine: a person there can read the files anyway.
    Terminal,
    /// A client of the API. It says by itself for whom it speaks, which proves nothing.
    Api,
    /// A chat platform, a schedule or another agent, by its name.
    Named(&'a str),
}

impl<'a> Surface<'a> {
    /// By the name that a session has for its source.
    pub fn of(source: &'a str) -> Self {
        match source {
            "cli" => Surface::Terminal,
            "api_server" => Surface::Api,
            name => Surface::Named(name),
        }
    }

    fn is_platform(self, platform: &str) -> bool {
        self == Surface::of(platform)
    }
}

/// Who speaks with the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person<'a> {
    pub surface: Surface<'a>,
    /// The platform's id. None: the surface names no one.
    pub user: Option<&'a str>,
    /// Only this person reads what is answered.
    pub is_private: bool,
}

/// Whose notes a conversation reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotesOwner<'a> {
    /// The owner of the agent.
    Owner,
    User(&'a str),
    /// All who read along in a chat.
    Chat(&'a str),
    /// This one conversation.
    Session,
}

impl People {
    pub fn count(&self) -> PeopleCount {
        let mut people: BTreeSet<(&str, &str)> = BTreeSet::new();
        for platform in &self.platforms {
            if platform.is_open {
                return PeopleCount::Several;
            }
            let paired = platform.paired.iter().map(|person| &person.user);
            let users = platform.listed.iter().chain(paired);
            people.extend(users.map(|user| (platform.platform.as_str(), user.as_str())));
        }
        // One on each of two platforms may be two.
        match people.len() {
            0 | 1 => PeopleCount::OneAtMost,
            _ => PeopleCount::Several,
        }
    }

    /// Whether an owner is known. There is none where everyone may write, no list names a person and no one was paired.
    pub fn has_owner(&self) -> bool {
        let is_known = |platform: &PlatformPeople| {
            !platform.admins.is_empty() || !platform.listed.is_empty() || !platform.paired.is_empty()
        };
        self.count() == PeopleCount::OneAtMost || self.platforms.iter().any(is_known)
    }

    /// Those who are known as owners, by platform and user: the administrators, or else the first on each allow-list,
    /// or else the first who was paired.
    pub fn owners(&self) -> Vec<(String, String)> {
        let named = |users: fn(&PlatformPeople) -> &[String]| -> Vec<(String, String)> {
            let owned = |platform: &PlatformPeople, user: &String| (platform.platform.clone(), user.clone());
            let users =
                self.platforms.iter().flat_map(|one| users(one).iter().map(move |user| owned(one, user)));
            users.collect()
        };
        let admins = named(|platform| &platform.admins);
        if !admins.is_empty() {
            return admins;
        }
        let listed = named(|platform| &platform.listed[..platform.listed.len().min(1)]);
        if !listed.is_empty() {
            return listed;
        }
        let paired = self.platforms.iter().flat_map(|platform| {
            platform
                .paired
                .iter()
                .map(|person| (person.since.unwrap_or(f64::MAX), &platform.platform, &person.user))
        });
        let first = paired.min_by(|one, other| one.0.total_cmp(&other.0));
        first.map(|(_, platform, user)| (platform.clone(), user.clone())).into_iter().collect()
    }

    /// Whether this is the owner. What comes from no chat and names no one (the terminal, a schedule, another agent) is
    /// the owner's.
    pub fn is_owner(&self, person: Person<'_>) -> bool {
        if self.count() == PeopleCount::OneAtMost {
            return true;
        }
        let Some(user) = person.user else {
            return !self.platforms.iter().any(|known| person.surface.is_platform(&known.platform));
        };
        self.owners().iter().any(|(platform, owner)| person.surface.is_platform(platform) && owner == user)
    }

    /// Whether people other than this one read along. What they see must hold nothing that one of them told the agent
    /// alone, no matter who of them began the conversation.
    pub fn is_among_others(&self, person: Person<'_>) -> bool {
        !person.is_private && self.count() == PeopleCount::Several
    }

    /// Whether what the agent remembers about its owner may be shown to this person, and changed on their word.
    pub fn may_see_owner_profile(&self, person: Person<'_>) -> bool {
        person.surface == Surface::Terminal || self.is_owner_alone(person)
    }

    /// Whether this person hears who else speaks with the agent in private.
    pub fn may_see_private_chats(&self, person: Person<'_>) -> bool {
        person.surface == Surface::Terminal || self.is_owner_alone(person)
    }

    fn is_owner_alone(&self, person: Person<'_>) -> bool {
        !self.is_among_others(person) && self.is_owner(person)
    }

    /// Whether a memory server may tell this person all it knows: there is no one else whose it could be. A group is never
    /// one person's, even if only one of it may speak to the agent: the others read along.
    pub fn may_see_whole_memory(&self, person: Person<'_>) -> bool {
        let is_one_of_many = person.surface == Surface::Api && person.user.is_some();
        person.is_private && !is_one_of_many && self.count() == PeopleCount::OneAtMost
    }

    /// Whether the home's memory files are about this person: the one at its terminal, the only one who can write, or the
    /// owner among several.
    pub fn are_files_about(&self, person: Person<'_>) -> bool {
        let is_at_terminal = person.surface == Surface::Terminal && person.user.is_none();
        let is_owner = || match self.count() {
            PeopleCount::OneAtMost => true,
            PeopleCount::Several => person.user.is_some() && self.is_owner(person),
        };
        person.is_private && (is_at_terminal || (person.surface != Surface::Api && is_owner()))
    }

    /// Whose notes a conversation uses where each person has their own. A chat that others read has notes of its own.
    pub fn notes_owner<'a>(&self, person: Person<'a>, chat: Option<&'a str>) -> NotesOwner<'a> {
        let is_among_others = self.is_among_others(person);
        let user = person.user.filter(|_| !is_among_others);
        if person.surface == Surface::Terminal || !is_among_others && self.is_owner(Person { user, ..person })
        {
            return NotesOwner::Owner;
        }
        match (user, chat) {
            (Some(user), _) => NotesOwner::User(user),
            (None, Some(chat)) => NotesOwner::Chat(chat),
            (None, None) => NotesOwner::Session,
        }
    }
}

/// Whether the agent's own memory is open to this person. A client that speaks for one user among several has no claim on
/// what the owner's agent remembers.
pub fn may_use_agent_memory(person: Person<'_>) -> bool {
    person.surface != Surface::Api || person.user.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(name: &str, listed: &[&str]) -> PlatformPeople {
        let listed = listed.iter().map(|user| (*user).to_owned()).collect();
        PlatformPeople { platform: name.to_owned(), listed, ..PlatformPeople::default() }
    }

    fn paired(name: &str, people: &[(&str, Option<f64>)]) -> PlatformPeople {
        let paired =
            people.iter().map(|(user, since)| PairedPerson { user: (*user).to_owned(), since: *since });
        PlatformPeople { paired: paired.collect(), ..platform(name, &[]) }
    }

    fn open(of: PlatformPeople) -> PlatformPeople {
        PlatformPeople { is_open: true, ..of }
    }

    fn led_by(admin: &str, of: PlatformPeople) -> PlatformPeople {
        PlatformPeople { admins: vec![admin.to_owned()], ..of }
    }

    fn people(platforms: &[PlatformPeople]) -> People {
        People { platforms: platforms.to_vec() }
    }

    fn alone<'a>(source: &'a str, user: Option<&'a str>) -> Person<'a> {
        Person { surface: Surface::of(source), user, is_private: true }
    }

    fn in_a_group<'a>(source: &'a str, user: Option<&'a str>) -> Person<'a> {
        Person { is_private: false, ..alone(source, user) }
    }

    #[test]
    fn p31_one_person_at_most_is_counted_and_the_owner_is_named() {
        use PeopleCount::{OneAtMost, Several};
        for (platforms, count, has_owner, owners) in [
            (vec![], OneAtMost, true, vec![]),
            (vec![platform("a", &["1"])], OneAtMost, true, vec![("a", "1")]),
            (vec![platform("a", &["1"]), paired("a", &[("1", None)])], OneAtMost, true, vec![("a", "1")]),
            (vec![platform("a", &["1", "2"])], Several, true, vec![("a", "1")]),
            (vec![platform("a", &["1"]), platform("b", &["1"])], Several, true, vec![("a", "1"), ("b", "1")]),
            (vec![open(platform("a", &[]))], Several, false, vec![]),
            (vec![open(platform("a", &["1"]))], Several, true, vec![("a", "1")]),
            (vec![led_by("9", open(platform("a", &["1"])))], Several, true, vec![("a", "9")]),
            (vec![paired("a", &[("1", Some(2.0)), ("2", Some(1.0))])], Several, true, vec![("a", "2")]),
            (vec![paired("a", &[("1", None), ("2", Some(9.0))])], Several, true, vec![("a", "2")]),
        ] {
            let people = people(&platforms);
            let named = people.owners();
            let named: Vec<_> = named.iter().map(|(one, other)| (one.as_str(), other.as_str())).collect();
            assert_eq!(
                (people.count(), people.has_owner(), named),
                (count, has_owner, owners),
                "{platforms:?}"
            );
        }
    }

    #[test]
    fn p31_only_the_owner_alone_is_shown_what_is_the_owners() {
        let one = people(&[platform("a", &["1"])]);
        let several = people(&[platform("a", &["1", "2"])]);
        // who asks; is the owner, sees the owner's profile, sees the whole memory, the files are about them
        for (people, person, expected) in [
            (&one, alone("a", Some("1")), [true, true, true, true]),
            (&one, in_a_group("a", Some("1")), [true, true, false, false]),
            (&one, alone("api_server", None), [true, true, true, false]),
            (&one, alone("api_server", Some("1")), [true, true, false, false]),
            (&several, alone("a", Some("1")), [true, true, false, true]),
            (&several, alone("a", Some("2")), [false, false, false, false]),
            (&several, in_a_group("a", Some("1")), [true, false, false, false]),
            (&several, alone("b", Some("1")), [false, false, false, false]),
            (&several, alone("a", None), [false, false, false, false]),
            (&several, alone("cron", None), [true, true, false, false]),
            (&several, alone("cli", None), [true, true, false, true]),
            (&several, in_a_group("cli", Some("2")), [false, true, false, false]),
            (&several, alone("api_server", Some("1")), [false, false, false, false]),
        ] {
            let seen = [
                people.is_owner(person),
                people.may_see_owner_profile(person),
                people.may_see_whole_memory(person),
                people.are_files_about(person),
            ];
            assert_eq!(seen, expected, "{person:?} of {people:?}");
            assert_eq!(
                people.may_see_private_chats(person),
                people.may_see_owner_profile(person),
                "{person:?}"
            );
        }
    }

    #[test]
    fn p31_notes_are_kept_apart_by_person_and_by_chat() {
        let several = people(&[platform("a", &["1", "2"])]);
        for (person, chat, owner) in [
            (alone("a", Some("1")), Some("c"), NotesOwner::Owner),
            (alone("a", Some("2")), Some("c"), NotesOwner::User("2")),
            (in_a_group("a", Some("1")), Some("c"), NotesOwner::Chat("c")),
            (in_a_group("a", Some("2")), None, NotesOwner::Session),
            (alone("cli", None), None, NotesOwner::Owner),
            (alone("cron", None), None, NotesOwner::Owner),
            (alone("api_server", Some("2")), None, NotesOwner::User("2")),
        ] {
            assert_eq!(several.notes_owner(person, chat), owner, "{person:?}");
        }
        let one = people(&[platform("a", &["1"])]);
        assert_eq!(one.notes_owner(in_a_group("a", Some("3")), Some("c")), NotesOwner::Owner);
    }

    #[test]
    fn p31_an_api_client_that_names_a_user_has_no_claim_on_the_agents_memory() {
        for (person, may) in [
            (alone("api_server", None), true),
            (alone("api_server", Some("1")), false),
            (alone("a", Some("1")), true),
            (alone("cli", None), true),
        ] {
            assert_eq!(may_use_agent_memory(person), may, "{person:?}");
        }
    }
}
