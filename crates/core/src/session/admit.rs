//! Whether a session takes a message in: a pure question, asked again with what it wants to be looked up.
//!
//! - nothing is taken in for a caller whose session it is not, nor into a conversation that has ended or gone on
//! - a client's retry leads to the message that it repeats
//! - a conversation whose time has come ends first: the message begins the next one
//! - the operator's silence ends when a person writes, and not because a platform delivers something again

use super::{Phase, Proposal, Reply, Rules, SessionState};
use crate::command::Command;
use crate::id::{SessionId, TurnId};
use crate::input::{Birth, Input, Kind, Request, Room, Root, Trace};
use crate::lifecycle::{BACKLOG_AFTER, Policy, Reason, announcement};
use crate::memory::is_private;
use crate::message::{Body, Content, Message};
use crate::port::{Reset, Submission};
use crate::session::Event;
use crate::time::Time;
use crate::{ChatKey, Seq};
use std::sync::Arc;
use std::time::Duration;

/// What is fixed when a session begins: whose it is, and where it belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// There is a row for it.
    pub born: bool,
    /// By our hand or by Hermes'.
    pub ended: bool,
    pub principal: Option<String>,
    pub source: String,
    pub user: Option<String>,
    /// It belongs to no chat in which several people read.
    pub is_private: bool,
}

impl Profile {
    pub fn of(birth: &Birth) -> Self {
        Self {
            born: true,
            ended: false,
            principal: birth.principal.clone(),
            source: birth.source.clone(),
            user: birth.user.clone(),
            is_private: is_private(birth.chat.as_ref().map(|chat| chat.chat_type.as_str())),
        }
    }
}

/// What the sender of an input believes about the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Anything,
    /// That no one has it: its id was made a moment ago.
    Unborn,
    /// That it ends with this turn.
    Tip(TurnId),
}

/// What has been looked up for one message so far.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// A session that had ended was looked at again: another program may have opened it a moment ago.
    pub looked_again: bool,
    /// The message that this one repeats.
    pub repeats: Option<Option<Seq>>,
    /// Nothing was said since the turn that it expects to be the last.
    pub is_tip: Option<bool>,
    /// It came in before: a platform delivers it again.
    pub seen: Option<bool>,
    /// Why the conversation is over by its policy, as far as clock, tools and outbox know.
    pub due: Option<Option<Reason>>,
    /// How the last conversation of its chat ended by itself, and under which policy.
    pub reset: Option<Option<(Reset, Policy)>>,
    /// The operator has silenced the home.
    pub halted: bool,
}

/// What is to be looked up before a message can be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookUp {
    WhetherOpenedAgain,
    Repeated,
    Tip(TurnId),
    Seen,
    Due { platform: String, chat_type: String },
    Reset(ChatKey),
}

/// Why a message is not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    Ended,
    NotYours,
    /// It is this message once more.
    Repeats(Seq),
    /// The session is not what the sender believed: another conversation got the same id, or this one went on.
    Unexpected,
    /// What a client's tools returned does not fit what was left to it.
    Results(String),
}

#[derive(Clone, Debug)]
pub enum Admission {
    /// Look this up, and ask again.
    LookUp(LookUp),
    Refused(Refused),
    /// The conversation ends first, and the message begins the next one.
    Expires(Reason),
    /// The session slept when the operator silenced the others: it is silenced first.
    Silence,
    /// A person writes: the operator's silence ends first.
    LiftSilence,
    Accepted(Box<Accepted>),
}

/// A message that is taken in as soon as its commit is on disk.
#[derive(Clone, Debug)]
pub struct Accepted {
    input: Arc<Input>,
    more: Option<Duration>,
    /// Set if it begins the session.
    birth: Option<Birth>,
    /// The people of the chat are told that the conversation before this one has ended.
    announcement: Option<Reply>,
    /// What its place adds to a prompt. None: it came by another way than the chat.
    pub room: Option<Room>,
    /// Its sender can answer what a tool asks.
    pub can_answer: bool,
    /// A person says something, rather than orders it.
    pub speaks: bool,
}

impl Accepted {
    pub fn seq(&self) -> Seq {
        self.input.seq
    }

    /// A person orders that chains between agents go on.
    pub fn reopens_chains(&self) -> bool {
        matches!(self.input.kind, Kind::Command(Command::Continue))
    }

    pub fn profile(&self) -> Option<Profile> {
        self.birth.as_ref().map(Profile::of)
    }

    pub fn propose(self, session: &SessionState, now: Time, rules: &Rules) -> Proposal {
        let event = match self.more {
            Some(more) => Event::ReceivedPart { input: self.input, more },
            None => Event::Received(self.input),
        };
        match self.birth {
            Some(birth) => session.clone().propose_birth(birth, self.announcement, event, now, rules),
            None => session.propose(event, now, rules),
        }
    }
}

/// Judges a message. The shell asks it again with each look-up that it wants, and with the session as it is then.
pub fn admit(
    session: &SessionState,
    profile: &Profile,
    submission: &Submission,
    expected: Expected,
    known: &Known,
    now: Time,
    rules: &Rules,
) -> Admission {
    let asked = Asked { session, profile, submission, expected, known, now, rules };
    match asked.judged() {
        Ok(accepted) => Admission::Accepted(Box::new(accepted)),
        Err(admission) => admission,
    }
}

#[derive(Clone, Copy)]
struct Asked<'a> {
    session: &'a SessionState,
    profile: &'a Profile,
    submission: &'a Submission,
    expected: Expected,
    known: &'a Known,
    now: Time,
    rules: &'a Rules,
}

impl Asked<'_> {
    fn judged(self) -> Result<Accepted, Admission> {
        self.is_open()?;
        self.is_theirs()?;
        self.is_new()?;
        self.is_as_expected()?;
        self.results_fit()?;
        let speaks = self.speaks();
        if speaks {
            self.is_not_over()?;
        }
        self.is_not_silenced(speaks)?;
        self.accepted(speaks)
    }

    fn is_open(self) -> Result<(), Admission> {
        let Profile { ended, .. } = self.profile;
        if *ended && !self.known.looked_again {
            return Err(Admission::LookUp(LookUp::WhetherOpenedAgain));
        }
        // People whose conversation has ended can still be told something: where they last wrote.
        let is_notice = matches!(self.submission.kind, Kind::Command(Command::Notice { .. }));
        match !is_notice && (*ended || matches!(self.session.phase, Phase::Closed(_))) {
            true => Err(Admission::Refused(Refused::Ended)),
            false => Ok(()),
        }
    }

    fn is_theirs(self) -> Result<(), Admission> {
        let birth = &self.submission.birth;
        let theirs = match (&self.profile.principal, &birth.principal) {
            (Some(owner), Some(caller)) => owner == caller,
            (None, Some(_)) => !(self.profile.born && birth.one_of_many),
            (_, None) => true,
        };
        if theirs { Ok(()) } else { Err(Admission::Refused(Refused::NotYours)) }
    }

    fn is_new(self) -> Result<(), Admission> {
        let has_key =
            matches!(&self.submission.kind, Kind::Request(request) if request.implicit_key.is_some());
        if !(has_key && self.submission.may_be_retry && self.profile.born) {
            return Ok(());
        }
        match self.known.repeats {
            None => Err(Admission::LookUp(LookUp::Repeated)),
            Some(Some(seq)) => Err(Admission::Refused(Refused::Repeats(seq))),
            Some(None) => Ok(()),
        }
    }

    fn is_as_expected(self) -> Result<(), Admission> {
        let as_expected = match (self.expected, self.known.is_tip) {
            (Expected::Anything, _) => true,
            (Expected::Unborn, _) => !self.profile.born,
            (Expected::Tip(turn), None) => return Err(Admission::LookUp(LookUp::Tip(turn))),
            (Expected::Tip(_), Some(is_tip)) => is_tip,
        };
        if as_expected { Ok(()) } else { Err(Admission::Refused(Refused::Unexpected)) }
    }

    /// One that came in before is answered as it was then, no matter what has become of its calls since.
    fn results_fit(self) -> Result<(), Admission> {
        let Kind::Request(request) = &self.submission.kind else { return Ok(()) };
        let Some(why) = self.refuses_results(request) else { return Ok(()) };
        match self.is_seen()? {
            true => Ok(()),
            false => Err(Admission::Refused(Refused::Results(why))),
        }
    }

    /// Why what a client's tools returned cannot be taken. Beside new words it is only left out.
    fn refuses_results(self, request: &Request) -> Option<String> {
        if request.results.is_empty() || request.content != Content::Nothing {
            return None;
        }
        let imported = &self.submission.birth.imported;
        match &self.session.client_calls {
            Some(calls) => calls.take(&request.results).err(),
            // A session that begins takes over the client's copy, with the calls in it.
            None if !self.profile.born
                && matches!(imported.last(), Some(Message { body: Body::Result(_), .. })) =>
            {
                None
            }
            None => Some("no call waits for a result here; the conversation has moved on".into()),
        }
    }

    fn is_seen(self) -> Result<bool, Admission> {
        self.known.seen.ok_or(Admission::LookUp(LookUp::Seen))
    }

    /// Words of a person, rather than an order or what a program says. What a platform delivers from before our time was
    /// written by no one who writes now.
    fn speaks(self) -> bool {
        let Submission { kind, trace, at, .. } = self.submission;
        let words = match kind {
            Kind::Command(command) => command.wakes(),
            Kind::Chat(_) | Kind::Request(_) => true,
        };
        let baseline = self.rules.baseline_at(self.now).unwrap_or_default();
        words && trace.is_human() && at.plus(BACKLOG_AFTER) >= baseline
    }

    fn is_not_over(self) -> Result<(), Admission> {
        let Some(chat) = &self.submission.birth.chat else { return Ok(()) };
        if !may_be_over(self.session, self.profile, self.known.halted) {
            return Ok(());
        }
        let (platform, chat_type) = (chat.platform.clone(), chat.chat_type.clone());
        match self.known.due {
            None => Err(Admission::LookUp(LookUp::Due { platform, chat_type })),
            Some(Some(reason)) => Err(Admission::Expires(reason)),
            Some(None) => Ok(()),
        }
    }

    fn is_not_silenced(self, speaks: bool) -> Result<(), Admission> {
        if !self.known.halted {
            return Ok(());
        }
        if speaks && !self.is_seen()? {
            return Err(Admission::LiftSilence);
        }
        if self.session.halted { Ok(()) } else { Err(Admission::Silence) }
    }

    fn accepted(self, speaks: bool) -> Result<Accepted, Admission> {
        let Submission { birth, at, key, kind, reply_to, sender, platform_id, trace, .. } = self.submission;
        let trace = self.traced(trace.clone(), key.as_str(), *at);
        let reply_to = self.session.answer_to(&trace, &self.rules.home, reply_to.clone());
        let seq = self.session.received.next();
        let (birth, announcement) = match self.profile.born {
            true => (None, None),
            false => {
                let (birth, told) = self.born(birth.clone())?;
                let reply = told.zip(reply_to.clone()).map(|(text, destination)| {
                    let (key, trace) = (format!("{}/reset", self.session.id), Trace::default());
                    Reply { key, destination, text, trace }
                });
                (Some(birth), reply)
            }
        };
        let room = Some(&self.submission.birth.room).filter(|room| !room.is_plain()).cloned();
        let input = Input {
            seq,
            at: *at,
            key: key.clone(),
            kind: kind.clone(),
            reply_to,
            sender: sender.clone(),
            platform_id: platform_id.clone(),
            trace,
            left: None,
        };
        let Submission { can_answer, gathers: more, .. } = *self.submission;
        Ok(Accepted { input: Arc::new(input), more, birth, announcement, room, can_answer, speaks })
    }

    /// The conversation before this one may have ended by itself: then it is known, and its people are told where they
    /// write next.
    fn born(self, mut birth: Birth) -> Result<(Birth, Option<String>), Admission> {
        let Some(chat) = &birth.chat else { return Ok((birth, None)) };
        let Some(reset) = &self.known.reset else {
            return Err(Admission::LookUp(LookUp::Reset(chat.key.clone())));
        };
        let Some((Reset { session, reason, had_activity, .. }, policy)) = reset else {
            return Ok((birth, None));
        };
        let text = announcement(policy, &chat.platform, *reason, *had_activity);
        birth.predecessor.get_or_insert_with(|| SessionId::clone(session));
        Ok((birth, text))
    }

    fn traced(self, trace: Trace, key: &str, at: Time) -> Trace {
        let (session, rules) = (self.session, self.rules);
        let foreign = match &trace.foreign {
            Some(heard) => session.foreign.after(heard, at, rules.limits.chain.quiet),
            None => session.foreign.clone(),
        };
        trace.rooted(key, Root { home: rules.home.clone(), session: session.id.clone() }, &foreign)
    }
}

impl SessionState {
    /// Nothing runs, and nothing that waits says anything.
    pub fn only_orders_wait(&self) -> bool {
        let is_order =
            |input: &Arc<Input>| matches!(&input.kind, Kind::Command(command) if command.words().is_none());
        self.phase == Phase::Idle && self.waiting.iter().all(is_order)
    }
}

/// Whether a conversation could be over: nothing goes on in it, and nothing holds it.
pub fn may_be_over(session: &SessionState, profile: &Profile, halted: bool) -> bool {
    profile.born && !profile.ended && !halted && session.may_expire()
}

/// When something last happened in a session, as its policy counts. What was there before our time counts from then on.
pub fn last_active(session: &SessionState, rules: &Rules, now: Time) -> Time {
    session.active.max(rules.baseline_at(now).unwrap_or_default())
}

#[cfg(test)]
mod tests;
