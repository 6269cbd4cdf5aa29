//! When a conversation that its people leave ends by itself, and what they are told.
//!
//! Everything here is a function of a policy and of times that the shell has read. Where an hour
//! of the day lies is not known here either: the shell knows the time zone, and says when it last struck.
//!
//! - where no policy is written, nothing ends
//! - idleness is looked at before the hour of the day
//! - what happened before a home was taken over counts from then on, never from before

use crate::time::Time;
use std::time::Duration;

/// Messages that were written so long before a home was first taken over are its backlog: a platform's
/// clock and ours may differ by less.
pub const BACKLOG_AFTER: Duration = Duration::from_secs(120);

/// What makes a conversation end by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Never,
    /// A time without a message or an answer.
    Idle,
    /// An hour of the day.
    Daily,
    /// Whichever comes first.
    Both,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub mode: Mode,
    pub idle: Duration,
    /// From 0 to 23, by the clock on the wall.
    pub at_hour: u8,
    /// Its people are told.
    pub notify: bool,
    /// But not on these platforms.
    pub quiet_platforms: Vec<String>,
    /// A process that an agent left running keeps its conversation open for so long.
    pub process_age_max: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Never,
            idle: Duration::from_secs(1440 * 60),
            at_hour: 4,
            notify: true,
            quiet_platforms: vec!["api_server".into(), "webhook".into()],
            process_age_max: Duration::from_secs(24 * 3600),
        }
    }
}

/// Which policy holds where: the platform's own, else that of the kind of chat, else the common one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    pub common: Policy,
    pub by_type: Vec<(String, Policy)>,
    pub by_platform: Vec<(String, Policy)>,
}

impl Policies {
    pub fn of(&self, platform: &str, chat_type: &str) -> &Policy {
        let named =
            |list: &'_ [(String, Policy)], name: &str| list.iter().position(|(known, _)| known == name);
        match (named(&self.by_platform, platform), named(&self.by_type, chat_type)) {
            (Some(place), _) => &self.by_platform[place].1,
            (None, Some(place)) => &self.by_type[place].1,
            (None, None) => &self.common,
        }
    }

    /// Nothing ever ends by itself.
    pub fn are_never(&self) -> bool {
        let mut others = self.by_platform.iter().chain(&self.by_type);
        self.common.mode == Mode::Never && others.all(|(_, policy)| policy.mode == Mode::Never)
    }

    /// Every hour of the day at which something may end.
    pub fn all(&self) -> impl Iterator<Item = &Policy> {
        [&self.common]
            .into_iter()
            .chain(self.by_platform.iter().chain(&self.by_type).map(|(_, policy)| policy))
    }
}

/// Why a conversation ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Idle,
    Daily,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Idle => "idle",
            Reason::Daily => "daily",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        [Reason::Idle, Reason::Daily].into_iter().find(|reason| reason.as_str() == name)
    }
}

/// Whether a conversation in which something last happened at `active` is over by `now`. `struck` is
/// when the policy's hour last struck by then.
pub fn due(policy: &Policy, active: Time, now: Time, struck: Time) -> Option<Reason> {
    let is_idle = now > active.plus(policy.idle);
    let is_of_another_day = active < struck;
    match policy.mode {
        Mode::Idle | Mode::Both if is_idle => Some(Reason::Idle),
        Mode::Daily | Mode::Both if is_of_another_day => Some(Reason::Daily),
        _ => None,
    }
}

/// What the people of a chat read when the conversation before this one ended by itself. None: they
/// do not want to know, or there was nothing in it.
pub fn announcement(policy: &Policy, platform: &str, reason: Reason, had_activity: bool) -> Option<String> {
    if !policy.notify || !had_activity || policy.quiet_platforms.iter().any(|quiet| quiet == platform) {
        return None;
    }
    let why = match reason {
        Reason::Idle => format!("inactive for {}", in_words(policy.idle)),
        Reason::Daily => format!("daily schedule at {}:00", policy.at_hour),
    };
    Some(format!(
        "◐ Session automatically reset ({why}): a new conversation begins here.\n\
         The one before is kept; /resume brings it back.\n\
         When this happens is set in config.yaml, under session_reset."
    ))
}

fn in_words(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h {minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn policy(mode: Mode) -> Policy {
        Policy { mode, idle: Duration::from_secs(600), ..Policy::default() }
    }

    #[test]
    fn p20_idleness_is_looked_at_before_the_hour() {
        let (now, never, lately) = (Time(100 * MINUTE), Time(0), Time(95 * MINUTE));
        for (mode, active, struck, due_for) in [
            (Mode::Never, Time(0), lately, None),
            (Mode::Idle, Time(90 * MINUTE), never, None), // not before the last moment has passed
            (Mode::Idle, Time(90 * MINUTE - 1), never, Some(Reason::Idle)),
            (Mode::Idle, Time(94 * MINUTE), lately, None),
            (Mode::Daily, Time(94 * MINUTE), lately, Some(Reason::Daily)),
            (Mode::Daily, Time(95 * MINUTE), lately, None), // on the stroke it is a new day
            (Mode::Daily, Time(0), never, None),
            (Mode::Both, Time(94 * MINUTE), lately, Some(Reason::Daily)),
            (Mode::Both, Time(80 * MINUTE), lately, Some(Reason::Idle)),
            (Mode::Both, Time(96 * MINUTE), lately, None),
        ] {
            assert_eq!(due(&policy(mode), active, now, struck), due_for, "{mode:?} {active} {struck}");
        }
    }

    #[test]
    fn a_platform_goes_before_a_kind_of_chat_and_that_before_all() {
        let policies = Policies {
            common: policy(Mode::Never),
            by_type: vec![("group".into(), policy(Mode::Idle))],
            by_platform: vec![("here".into(), policy(Mode::Daily))],
        };
        for (platform, chat_type, mode) in [
            ("here", "group", Mode::Daily),
            ("here", "dm", Mode::Daily),
            ("there", "group", Mode::Idle),
            ("there", "dm", Mode::Never),
        ] {
            assert_eq!(policies.of(platform, chat_type).mode, mode, "{platform} {chat_type}");
        }
        assert!(!policies.are_never());
        assert!(Policies::default().are_never());
    }

    #[test]
    fn a_reset_is_announced_where_people_want_to_know_and_something_was_there() {
        let told = |policy: &Policy, platform: &str, had_activity| {
            announcement(policy, platform, Reason::Idle, had_activity).is_some()
        };
        let policy = policy(Mode::Both);
        assert!(told(&policy, "here", true));
        assert!(!told(&policy, "here", false));
        assert!(!told(&policy, "webhook", true));
        assert!(!told(&Policy { notify: false, ..policy }, "here", true));
        for (seconds, words) in [(600, "10m"), (3600, "1h"), (5400, "1h 30m")] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
