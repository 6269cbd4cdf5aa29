//! What may follow from one human message among agents: the budget that ends every loop between bots.
//!
//! Each message of a person (or schedule, or webhook) is an **origin**. All that agents say because of it carries
//! its name ([`Trace`]), however it fans out and through whichever process. Before a bot's message begins a turn,
//! and before each request to the model in such a turn, a share is taken from the origin's budget in one ledger
//! for all agents of a user ([`crate::port::Ledger`]); the turn begins in a commit that comes after it. So:
//!
//! - a crash counts a share too many, never one too few
//! - a ledger that cannot be reached grants nothing: the message is stored, and waits
//! - what exceeds the budget is stored as a user row like any message, and begins no turn
//!
//! What a bot says that is none of ours has no origin that could be known. It counts in its chat, in the session's
//! own state, since a person last wrote there: see [`Foreign`].

use crate::input::{DedupeKey, Root, Trace};
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// How much one origin may spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many agents a message may pass through.
    pub hops_max: u32,
    /// How many turns messages of bots may begin, of all agents together.
    pub turns_max: u32,
    /// How many requests to models these turns may make.
    pub calls_max: u32,
    /// After so long without a message of theirs, bots that are none of ours are heard again.
    pub quiet: Duration,
    /// Other limits for single platforms.
    pub platforms: Vec<PlatformLimits>,
}

/// What is left out is as everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformLimits {
    pub platform: String,
    pub turns_max: Option<u32>,
    pub calls_max: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hops_max: 32,
            turns_max: 100,
            calls_max: 400,
            quiet: Duration::from_secs(3600),
            platforms: Vec::new(),
        }
    }
}

impl Limits {
    pub fn turns_max(&self, platform: &str) -> u32 {
        self.on(platform).and_then(|limits| limits.turns_max).unwrap_or(self.turns_max)
    }

    pub fn calls_max(&self, platform: &str) -> u32 {
        self.on(platform).and_then(|limits| limits.calls_max).unwrap_or(self.calls_max)
    }

    fn on(&self, platform: &str) -> Option<&PlatformLimits> {
        self.platforms.iter().find(|limits| limits.platform == platform)
    }
}

/// What is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Turn,
    /// One request to a model.
    Call,
}

/// A share of an origin's budget, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub origin: Arc<str>,
    /// Who is told if there is none left.
    pub root: Option<Root>,
    pub hops: u32,
    pub amount: Amount,
    /// Who asks, so that a question that is repeated gets the same answer.
    pub asker: Root,
    /// Where people would read that the chain was cut. None: no people read there.
    pub place: Option<String>,
    pub hops_max: u32,
    pub turns_max: u32,
    pub calls_max: u32,
}

/// What an origin has spent, as the ledger knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub turns: u32,
    pub calls: u32,
    /// How often a person has opened it again.
    pub opened: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    Granted,
    Refused(Cut),
}

/// One end of a chain. What is refused afterwards, until a person opens it again, belongs to the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub number: u32,
    pub why: Exceeded,
    /// No other session has announced it in this place.
    pub announce: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    Hops,
    Turns,
    Calls,
}

impl Exceeded {
    pub fn name(self) -> &'static str {
        match self {
            Exceeded::Hops => "hops",
            Exceeded::Turns => "turns",
            Exceeded::Calls => "calls",
        }
    }
}

impl Share {
    /// What is left of the budget after it, or which limit it would exceed.
    pub fn of(&self, spent: Spent) -> Result<Spent, Exceeded> {
        match self.amount {
            _ if self.hops > self.hops_max => Err(Exceeded::Hops),
            _ if spent.calls >= self.calls_max => Err(Exceeded::Calls),
            Amount::Turn if spent.turns >= self.turns_max => Err(Exceeded::Turns),
            Amount::Turn => Ok(Spent { turns: spent.turns + 1, ..spent }),
            Amount::Call => Ok(Spent { calls: spent.calls + 1, ..spent }),
        }
    }
}

/// Under which the people of a chain hear that it was cut, wherever that is said.
pub fn notice_name(origin: &str, number: u32) -> String {
    format!("cut/{origin}/{number}")
}

/// What they hear.
pub fn notice(why: Exceeded) -> String {
    let limit = match why {
        Exceeded::Hops => {
            "their messages have passed through as many agents as one message of a person may cause"
        }
        Exceeded::Turns => "they have used up the turns that one message of a person may cause",
        Exceeded::Calls => "they have used up the model requests that one message of a person may cause",
    };
    format!(
        "Agents have been answering each other: {limit}. What they write now is kept and begins no turn. \
         Write again, or /continue, if they should go on."
    )
}

/// Turns begun in one chat by bots that are none of ours, since a person last wrote there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// The last human message heard there, as far as the platform told.
    pub heard: Arc<str>,
    /// Rises whenever they may begin anew.
    pub period: u32,
    pub turns: u32,
    /// When one of them last wrote.
    pub last: Time,
}

impl Foreign {
    /// A person wrote.
    pub fn reset(&mut self) {
        if *self != Self::default() {
            *self = Self { heard: self.heard.clone(), period: self.period + 1, turns: 0, last: self.last };
        }
    }

    /// How it stands once such a bot has written: a person may have been heard there since, or it was quiet for
    /// long enough.
    #[must_use]
    pub fn after(&self, heard: &Arc<str>, at: Time, quiet: Duration) -> Self {
        let mut next = Self { last: at.max(self.last), ..self.clone() };
        // After a start the platform has heard no person yet. That is no news.
        let spoken = !heard.is_empty() && **heard != *self.heard;
        if spoken {
            next.heard = heard.clone();
        }
        let was_quiet = self.last != Time::default() && at.since(self.last) >= quiet;
        if spoken || was_quiet {
            (next.period, next.turns) = (self.period + 1, 0);
        }
        next
    }

    /// The origin of all that follows from what they say.
    pub fn origin(&self, here: &Root) -> Arc<str> {
        DedupeKey::of(&["bots", &here.home, here.session.as_str(), &self.period.to_string()]).as_str().into()
    }
}

impl Trace {
    /// The trace of a message as it comes in, under `key`, to the session `here` where such bots stand at `foreign`.
    #[must_use]
    pub fn rooted(self, key: &str, here: Root, foreign: &Foreign) -> Trace {
        match (self.is_human(), &self.foreign) {
            // What a human writes begins a chain of its own, here.
            (true, _) => {
                let origin = match self.origin.is_empty() {
                    true => DedupeKey::of(&[&here.home, key]).as_str().into(),
                    false => self.origin,
                };
                Trace { origin, root: Some(here), hops: 0, foreign: None }
            }
            (false, Some(_)) => Trace { origin: foreign.origin(&here), root: Some(here), ..self },
            // A process that was left running has forgotten what it was for, but not for whom.
            (false, None) => Trace { root: Some(self.root.unwrap_or(here)), ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(amount: Amount, hops: u32) -> Share {
        let asker = Root { home: "h".into(), session: "s".parse().expect("a plain id") };
        Share {
            origin: "o".into(),
            root: None,
            hops,
            amount,
            asker,
            place: None,
            hops_max: 3,
            turns_max: 2,
            calls_max: 4,
        }
    }

    #[test]
    fn p6_an_origin_spends_what_it_has_and_no_more() {
        let (mut spent, mut turns, mut calls) = (Spent::default(), 0, 0);
        for _ in 0..20 {
            for amount in [Amount::Turn, Amount::Call] {
                if let Ok(after) = share(amount, 1).of(spent) {
                    spent = after;
                    match amount {
                        Amount::Turn => turns += 1,
                        Amount::Call => calls += 1,
                    }
                }
            }
        }
        assert_eq!((turns, calls), (2, 4));
        assert_eq!(share(Amount::Turn, 1).of(Spent { turns: 0, calls: 4, opened: 0 }), Err(Exceeded::Calls));
        assert_eq!(share(Amount::Turn, 4).of(Spent::default()), Err(Exceeded::Hops));
    }

    #[test]
    fn p6_bots_of_others_begin_anew_when_a_person_was_heard_or_after_a_long_silence() {
        let minute = Duration::from_secs(60);
        let at = |seconds: i64| Time(seconds * 1_000_000);
        let nobody: Arc<str> = "".into();
        let first = Foreign::default().after(&nobody, at(1), minute);
        assert_eq!(first.period, 0, "the first message begins nothing anew");
        let counted = Foreign { turns: 5, ..first };
        for (heard, when, turns) in [
            ("", 30, 5),  // a start forgets who was heard, and grants nothing
            ("", 61, 0),  // quiet for long enough
            ("m7", 2, 0), // a person was heard there
        ] {
            let after = counted.after(&heard.into(), at(when), minute);
            assert_eq!(after.turns, turns, "{heard:?} at {when}");
            assert_eq!(after.period != counted.period, turns == 0, "{heard:?} at {when}");
        }
        let known = counted.after(&"m7".into(), at(2), minute);
        let again = Foreign { turns: 3, ..known }.after(&"m7".into(), at(3), minute);
        assert_eq!(again.turns, 3, "the same person's message counts once");
    }

    #[test]
    fn p6_each_limit_holds_at_its_number_and_no_sooner() {
        let spent = |turns, calls| Spent { turns, calls, opened: 7 };
        for (amount, hops, before, after) in [
            (Amount::Turn, 3, spent(1, 3), Ok(spent(2, 3))), // the last turn, over the last hop
            (Amount::Call, 3, spent(2, 3), Ok(spent(2, 4))), // the last call, and it is no turn
            (Amount::Call, 1, spent(9, 0), Ok(spent(9, 1))),
            (Amount::Turn, 1, spent(2, 0), Err(Exceeded::Turns)),
            (Amount::Turn, 1, spent(0, 4), Err(Exceeded::Calls)), // a turn that could ask nothing
            (Amount::Call, 1, spent(0, 4), Err(Exceeded::Calls)),
            (Amount::Turn, 4, spent(0, 0), Err(Exceeded::Hops)),
            (Amount::Call, 4, spent(0, 0), Err(Exceeded::Hops)),
        ] {
            assert_eq!(share(amount, hops).of(before), after, "{amount:?} after {hops} hops of {before:?}");
        }
    }

    #[test]
    fn p6_a_platform_has_its_own_limits_where_they_are_given() {
        let on = |platform: &str, turns_max, calls_max| PlatformLimits {
            platform: platform.into(),
            turns_max,
            calls_max,
        };
        let platforms = vec![on("a", Some(5), None), on("b", None, Some(6)), on("c", Some(0), Some(0))];
        let limits = Limits { platforms, ..Limits::default() };
        for (platform, turns, calls) in
            [("a", 5, 400), ("b", 100, 6), ("c", 0, 0), ("d", 100, 400), ("", 100, 400)]
        {
            assert_eq!(
                (limits.turns_max(platform), limits.calls_max(platform)),
                (turns, calls),
                "{platform}"
            );
        }
    }

    #[test]
    fn p6_each_cut_of_each_chain_is_told_by_a_name_of_its_own_and_says_which_limit() {
        let names = [("h", 0), ("h", 1), ("i", 0)].map(|(origin, number)| notice_name(origin, number));
        assert!(names[0] != names[1] && names[0] != names[2] && names[1] != names[2], "{names:?}");
        for (why, word) in
            [(Exceeded::Hops, "passed through"), (Exceeded::Turns, "turns"), (Exceeded::Calls, "requests")]
        {
            let said = notice(why);
            assert!(said.contains(word) && said.contains("/continue"), "{said}");
        }
    }

    #[test]
    fn p6_a_person_who_writes_gives_bots_of_others_a_new_budget() {
        let mut untouched = Foreign::default();
        untouched.reset();
        assert_eq!(untouched, Foreign::default(), "where none of them wrote there is nothing to begin anew");
        let counted = Foreign { heard: "m1".into(), period: 2, turns: 5, last: Time(9) };
        let mut anew = counted.clone();
        anew.reset();
        assert_eq!(anew, Foreign { period: 3, turns: 0, ..counted });
    }

    #[test]
    fn p6_how_long_bots_of_others_were_quiet_is_counted_from_the_last_of_them() {
        let minute = Duration::from_secs(60);
        let at = |seconds: i64| Time(seconds * 1_000_000);
        let counted = Foreign { heard: "m1".into(), period: 2, turns: 5, last: at(100) };
        for (heard, when, expected) in [
            ("m1", 159, Foreign { last: at(159), ..counted.clone() }), // not yet
            ("m1", 160, Foreign { last: at(160), period: 3, turns: 0, ..counted.clone() }), // just
            ("m1", 40, counted.clone()), // a clock that went back does not count as silence
            ("m2", 101, Foreign { heard: "m2".into(), last: at(101), period: 3, turns: 0 }),
        ] {
            assert_eq!(counted.after(&heard.into(), at(when), minute), expected, "{heard} at {when}");
        }
        let first = Foreign::default().after(&"".into(), at(1_000), minute);
        assert_eq!((first.period, first.last), (0, at(1_000)), "the first was not quiet before it wrote");
    }

    fn root(home: &str, session: &str) -> Root {
        Root { home: home.into(), session: session.parse().expect("a plain id") }
    }

    #[test]
    fn p6_what_bots_of_others_cause_has_an_origin_for_each_chat_and_period() {
        let period = |period| Foreign { period, ..Foreign::default() };
        let origin = period(1).origin(&root("h", "s"));
        assert_eq!(
            origin,
            Foreign { turns: 4, ..period(1) }.origin(&root("h", "s")),
            "counting changes none"
        );
        for other in [
            period(2).origin(&root("h", "s")),
            period(1).origin(&root("h", "t")),
            period(1).origin(&root("i", "s")),
        ] {
            assert_ne!(origin, other);
        }
    }

    #[test]
    fn p6_a_message_begins_a_chain_or_goes_on_with_the_one_it_follows_from() {
        let (here, there) = (root("h", "s"), root("i", "t"));
        let foreign = Foreign { period: 3, ..Foreign::default() };
        let rooted = |trace: &Trace, key: &str, at: &Root| trace.clone().rooted(key, at.clone(), &foreign);
        // A person begins one of their own, wherever they write.
        let person = Trace { root: Some(there.clone()), foreign: Some("m0".into()), ..Trace::default() };
        let one = rooted(&person, "k1", &here);
        assert_eq!((&one.root, one.hops, &one.foreign), (&Some(here.clone()), 0, &None));
        assert_eq!(one, rooted(&person, "k1", &here), "the same message begins the same one");
        for (key, at) in [("k2", &here), ("k1", &there)] {
            assert_ne!(one.origin, rooted(&person, key, at).origin, "{key} at {at:?}");
        }
        // One whose name is known already keeps it: who heard it elsewhere gave it that.
        let named = Trace { origin: "o".into(), ..Trace::default() };
        assert_eq!(rooted(&named, "k1", &here), Trace { root: Some(here.clone()), ..named.clone() });
        // A bot of others counts here, in this period.
        let bot =
            Trace { origin: "o".into(), hops: 2, foreign: Some("m1".into()), root: Some(there.clone()) };
        let heard = Trace { origin: foreign.origin(&here), root: Some(here.clone()), ..bot.clone() };
        assert_eq!(rooted(&bot, "k1", &here), heard);
        // One of ours goes on with its own, for those who began it; where that is lost, for those who are here.
        let ours = Trace { origin: "o".into(), hops: 2, foreign: None, root: Some(there) };
        assert_eq!(rooted(&ours, "k1", &here), ours);
        let lost = Trace { root: None, ..ours };
        assert_eq!(rooted(&lost, "k1", &here), Trace { root: Some(here.clone()), ..lost.clone() });
    }
}
