//! A store, the machine that drives it, and the books that say what it must tell.

mod apply;
mod calls;
mod compare;
mod compressions;
mod deferred;
mod ends;
mod messages;
pub(crate) mod retention;

use crate::StoreSite;
use crate::book::SessionBook;
use crate::sample::{id, taken_up};
use crate::story::StoryMove;
use crate::world::retention::file;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use throughline_core::chain;
use throughline_core::chain::{Amount, Cut, Exceeded, Share, Shared, Spent};
use throughline_core::guard::Limits;
use throughline_core::id::{Boot, Generation, Seq, SessionId};
use throughline_core::input::{DedupeKey, Destination, Kind, Root, Trace};
use throughline_core::lifecycle::Reason;
use throughline_core::port::{Commit, Store, StoreError};
use throughline_core::prompt::Digest;
use throughline_core::session::lifecycle::Noticed;
use throughline_core::session::review::Intervals;
use throughline_core::session::{Act, BusyInput, Event, Job, Rules, Session};
use throughline_core::time::Time;
use throughline_core::turn::Answer;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpectedReply {
    pub(crate) key: String,
    pub(crate) text: String,
    pub(crate) destination: Destination,
    pub(crate) trace: Trace,
    pub(crate) session: SessionId,
    pub(crate) attempts: u32,
    pub(crate) attempting: Option<Boot>,
    /// Since when it is unknown whether it arrived.
    pub(crate) attempted: Option<Time>,
    pub(crate) marked: bool,
    pub(crate) not_before: Time,
    pub(crate) over: bool,
}

/// What a commit is expected to meet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExpectedResult {
    Accepted,
    Duplicate(SessionId, Seq),
    Fenced,
}

pub(crate) struct PlannedCommit {
    pub(crate) session: SessionId,
    pub(crate) expected: ExpectedResult,
    pub(crate) next: Session,
    pub(crate) acts: Vec<Act>,
    pub(crate) expect: Generation,
    pub(crate) answer: Option<Answer>,
}

/// Chats 0 and 1, API sessions 2 and 3, and a session that works for that of place 2.
pub(crate) const PLACES: usize = 5;

pub(crate) const CHILD: usize = 4;

pub(crate) const PARENT: usize = 2;

pub struct StoreWorld {
    pub(crate) site: Box<dyn StoreSite>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) rules: Rules,
    pub(crate) now: Time,
    pub(crate) number: u64,
    pub(crate) books: BTreeMap<SessionId, SessionBook>,
    pub(crate) places: Vec<SessionId>,
    pub(crate) seen: BTreeMap<DedupeKey, (SessionId, Seq)>,
    /// What each input was when it came in.
    pub(crate) words: BTreeMap<DedupeKey, Kind>,
    pub(crate) implicit: BTreeMap<Digest, (SessionId, Seq, Time, bool)>,
    pub(crate) replies: Vec<ExpectedReply>,
    /// Turns that are to be remembered: key, session, and whether they are due.
    pub(crate) kept: Vec<(String, SessionId, bool)>,
    pub(crate) notes: BTreeMap<String, u64>,
    pub(crate) batch: usize,
    pub(crate) planned: Vec<PlannedCommit>,
    pub(crate) boot: Boot,
    /// What each origin has spent, and whether it was cut.
    pub(crate) spent: BTreeMap<Arc<str>, (Spent, Option<Exceeded>)>,
}

/// A world with every rule switched to what makes most happen.
pub fn busy_rules(busy: BusyInput) -> Rules {
    let limits = Limits {
        steps_max: 4,
        turn_tokens_max: Some(400),
        chain: chain::Limits { hops_max: 3, turns_max: 2, calls_max: 9, ..chain::Limits::default() },
    };
    Rules {
        remembers: true,
        recalls: false,
        recollects: false,
        busy,
        hard_tokens: Some(250),
        limits,
        agent: "me".into(),
        home: "me".into(),
        baseline: None,
        review: Intervals { turns: 2, steps: 3 },
    }
}

impl StoreWorld {
    pub fn new(site: Box<dyn StoreSite>, rules: Rules) -> Self {
        let mut store = site.open();
        let now = Time(1_700_000_000_000_000);
        let boot = store.boot(now).expect("a fresh store counts its start");
        let places: Vec<SessionId> = (0..PLACES).map(|place| id(&format!("s{place}"))).collect();
        let books = places.iter().map(|id| (id.clone(), SessionBook::new(id.clone()))).collect();
        Self {
            site,
            store,
            rules,
            now,
            number: 0,
            books,
            places,
            seen: BTreeMap::new(),
            words: BTreeMap::new(),
            implicit: BTreeMap::new(),
            replies: Vec::new(),
            kept: Vec::new(),
            notes: BTreeMap::new(),
            batch: 1,
            planned: Vec::new(),
            boot,
            spent: BTreeMap::new(),
        }
    }

    /// Plays a story, comparing after every batch and once more after a restart.
    pub fn play(&mut self, story: &[StoryMove]) {
        for step in story {
            self.take(step);
        }
        self.flush();
        self.reopen();
        self.compare_all();
        let broken = self.store.reader().check().expect("a store can be checked");
        assert_eq!(broken, [] as [String; 0], "after {story:?}");
    }

    /// A message that needs a share gets one, as long as there is something left for its origin.
    pub(crate) fn share_out(&mut self) {
        for place in 0..PLACES as u8 {
            loop {
                self.flush_if_busy(place);
                let state = &self.book(place).state;
                let Some(Job::Share { seq }) = state.jobs().first().cloned() else { break };
                let Some(input) = state.waiting.iter().find(|input| input.seq == seq) else { break };
                let limits = &self.rules.limits.chain;
                let share = Share {
                    origin: input.trace.origin.clone(),
                    root: input.trace.root.clone(),
                    hops: input.trace.hops,
                    amount: Amount::Turn,
                    asker: Root { home: self.rules.home.clone(), session: state.id.clone() },
                    place: None,
                    hops_max: limits.hops_max,
                    turns_max: limits.turns_max,
                    calls_max: limits.calls_max,
                };
                let spent = self.spent.entry(share.origin.clone()).or_default();
                let announce = spent.1.is_none();
                let shared = match share.of(spent.0) {
                    Ok(left) => {
                        spent.0 = left;
                        Shared::Granted
                    }
                    Err(why) => {
                        spent.1.get_or_insert(why);
                        Shared::Refused(Cut { number: 0, why, announce })
                    }
                };
                self.happens(place, Event::Shared { seq, shared });
            }
        }
    }

    pub(crate) fn take(&mut self, step: &StoryMove) {
        self.now = Time(self.now.0 + 1_001);
        self.share_out();
        match step {
            StoryMove::Says { place, text } => self.says(*place, text),
            StoryMove::SaysAgain { place } => self.says_again(*place),
            StoryMove::Orders { place, what } => self.orders(*place, *what),
            StoryMove::Answers { place, text, tokens } => self.answers(*place, text, *tokens),
            StoryMove::CallsTools { place, calls } => self.calls(*place, *calls),
            StoryMove::Returns { place, index } => self.returns(*place, *index, 0),
            StoryMove::Sends { place, index, letters } => self.returns(*place, *index, letters % 3),
            StoryMove::Asks { place, index, kind } => self.asks(*place, *index, *kind),
            StoryMove::Decides { place, index, verdict } => self.decides(*place, *index, *verdict),
            StoryMove::Hears { place, origin, hops } => self.hears(*place, *origin, *hops),
            StoryMove::Halts { place } => self.happens(*place, Event::Halted),
            StoryMove::Releases { place } => self.happens(*place, Event::Released),
            StoryMove::Echoes { place } => self.echoes(*place),
            StoryMove::Fails { place, kind } => self.fails(*place, *kind),
            StoryMove::Retries { place } => self.retries(*place),
            StoryMove::Reloads { place } => self.happens(*place, taken_up()),
            StoryMove::Resumes { place, repeatable } => {
                let repeatable = (0..8).filter(|bit| repeatable & (1 << bit) != 0).collect();
                self.happens(*place, Event::Loaded { repeatable });
            }
            StoryMove::Trespasses { place } => self.trespasses(*place),
            StoryMove::Surveys { place, how } => self.surveys(*place, *how),
            StoryMove::Summarises { place, how } => self.summarises(*place, *how),
            StoryMove::Reports { place } => self.reports(*place),
            StoryMove::Restores { place, which } => self.restores(*place, *which),
            StoryMove::DeferredCommands { place, what } => self.deferred_commands(*place, *what),
            StoryMove::Finds { place, how } => self.finds(*place, *how),
            StoryMove::Finalises { place } => self.finalises(*place),
            StoryMove::HandsOver { place, how } => self.hands_over(*place, *how),
            StoryMove::Reviews { place, how } => self.reviews(*place, *how),
            StoryMove::Expires { place, how } => {
                let reason = [Reason::Idle, Reason::Daily][usize::from(how % 2)];
                let noticed = [Noticed::Message, Noticed::Watch][usize::from(how / 2 % 2)];
                self.happens(*place, Event::Expired { reason, noticed });
            }
            StoryMove::Revives { place } => self.revives(*place),
            StoryMove::Delivers { reply, change } => self.delivers(*reply, *change),
            StoryMove::Written { place } => self.written(*place),
            StoryMove::Tends => {
                self.flush();
                let tended = self.store.tend(self.now).expect("a store can be tended");
                assert!(
                    tended.foreign.is_empty() && !tended.routes,
                    "no other process writes here: {tended:?}"
                );
            }
            StoryMove::Reopens => self.reopen(),
            StoryMove::Batches { size } => {
                self.flush();
                self.batch = 1 + usize::from(*size) % PLACES;
            }
        }
    }

    pub(crate) fn reopen(&mut self) {
        self.flush();
        self.store.close(self.now).expect("a store can be closed");
        self.store = self.site.open();
        let boot = self.store.boot(self.now).expect("a start can be counted");
        assert!(boot > self.boot, "every start has a higher number");
        self.boot = boot;
        self.compare_all();
    }

    pub(crate) fn plan(&self, place: u8, event: Event, first: Vec<Act>) -> PlannedCommit {
        let session = self.places[self.at(place)].clone();
        self.plan_for(&session, event, first)
    }

    pub(crate) fn plan_for(&self, session: &SessionId, event: Event, first: Vec<Act>) -> PlannedCommit {
        let book = &self.books[session];
        let (mut next, mut acts) = book.state.step(event, self.now, &self.rules);
        self.read_texts(&mut next, &mut acts);
        acts.iter_mut().for_each(|act| file(&book.state.id, act));
        PlannedCommit {
            session: session.clone(),
            expected: ExpectedResult::Accepted,
            next,
            acts: first.into_iter().chain(acts).collect(),
            expect: book.expect,
            answer: None,
        }
    }

    /// What a step takes up is committed whole, as any shell does it.
    pub(crate) fn read_texts(&self, next: &mut Session, acts: &mut Vec<Act>) {
        let mut read = BTreeMap::new();
        for seq in next.unread(acts) {
            let accepted = acts.iter().find_map(|act| match act {
                Act::Accept(input) if input.seq == seq => Some(input.clone()),
                _ => None,
            });
            let stored = || self.store.reader().input(&next.id, seq).expect("an input can be read");
            read.insert(seq, accepted.or_else(stored).expect("what waits is there"));
        }
        next.take_in_whole(&read, self.now, &self.rules, acts);
    }

    /// A session's next commit follows from its last: they cannot share a batch.
    pub(crate) fn flush_if_busy(&mut self, place: u8) {
        let session = &self.places[self.at(place)];
        if self.planned.iter().any(|planned| planned.session == *session) {
            self.flush();
        }
    }

    pub(crate) fn enqueue(&mut self, planned: PlannedCommit) {
        self.planned.push(planned);
        if self.planned.len() >= self.batch {
            self.flush();
        }
    }

    pub(crate) fn flush(&mut self) {
        let planned = std::mem::take(&mut self.planned);
        if planned.is_empty() {
            return;
        }
        let commits: Vec<Commit> = planned
            .iter()
            .map(|planned| Commit::Session {
                expect: planned.expect,
                state: Box::new(planned.next.clone()),
                acts: planned.acts.clone(),
                at: self.now,
            })
            .collect();
        let results = self.store.commit(&commits);
        assert_eq!(results.len(), planned.len(), "one result for each commit");
        let mut touched = BTreeSet::new();
        for (planned, result) in planned.into_iter().zip(results) {
            let session = planned.session.clone();
            match (&planned.expected, result) {
                (ExpectedResult::Accepted, Ok(committed)) => self.apply(planned, &committed, &mut touched),
                (
                    ExpectedResult::Duplicate(session, seq),
                    Err(StoreError::Duplicate { session: s, seq: n, .. }),
                ) => {
                    assert_eq!((session, seq), (&s, &n), "a duplicate is led to the first");
                }
                (ExpectedResult::Fenced, Err(StoreError::Fenced { .. })) => {}
                (expected, result) => panic!("{session}: expected {expected:?}, got {result:?}"),
            }
            touched.insert(session);
        }
        touched.iter().for_each(|session| self.compare(session));
        touched.iter().for_each(|session| self.learn(session));
        self.compare_keys();
        self.compare_replies();
        self.compare_unfinished();
        self.compare_asks();
        self.compare_kept();
    }
}
