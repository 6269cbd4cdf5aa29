//! What a log says about compressions, and whether it can be true of sessions that keep their thread.
//!
//! [`Audit::read`] takes the lines of a log in order and returns what is wrong as soon as that is
//! certain; [`Audit::finish`] returns what only the end of the log shows. Memory grows with the sessions
//! that are compressed, up to a bound, and not with the log.
//!
//! - a line that names its operation is paired by that name; one of a writer that has no such names, by
//!   session, by the number of messages (which stands in both lines) and by log context
//! - a crash is no violation. Lines are written after the commit they report, so the last line before a
//!   crash may be missing; and the next owner of a session says once more what is in flight there, under
//!   the same name. So what is done was begun in the log of the same process
//! - the log may begin anywhere, and end anywhere: what was begun before it or ends after it is no
//!   violation, either
//! - a writer without names has no line for a failure: its starts without an end are not held against it
//!
//! Deliberately absent: how a line looks, files, and what is in the store.

use crate::id::SNAPSHOT_INFIX;
use crate::time::Time;
use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// A context that is full again so soon after a compression was not compressed, or is another one.
const DISCONTINUITY: Duration = Duration::from_secs(120);
/// The threshold is not in the log. A compression begins when the context has reached it, and turns
/// that go on meanwhile add a little; so it is taken for this part of what the last one began with.
const THRESHOLD_PERCENT: u64 = 90;
/// A start without an end, of a writer that reports no failures, is given up after this long: longer
/// than any summariser is waited for.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How many operations of one session are remembered as being in flight. One is right, two are a
/// violation; more only have to be told apart.
const OPEN_MAX: usize = 8;
/// How many sessions are remembered, a few hundred bytes each. Then those that were quiet for longest
/// are forgotten, and nothing that depends on them counts as a violation.
const SESSIONS_MAX: usize = 65_536;

/// Where a line stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Of several files that make up one log, in their order.
    pub file: u32,
    pub line: u64,
}

/// A line that says something about compression, or about the process that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub place: Place,
    pub at: Option<Time>,
    pub news: News,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A process began to write: what the one before it had in flight has ended, or is taken up again.
    Began,
    Compression(Report),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which agent of the process: two may have sessions of the same name.
    pub agent: Option<String>,
    /// The session that the log context names.
    pub context: Option<String>,
    /// The session that the line itself names.
    pub session: String,
    pub operation: Option<String>,
    pub step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Started {
        messages: Option<u64>,
        tokens: Option<u64>,
    },
    Done {
        /// How many there were before.
        messages: Option<u64>,
        /// How many were left, where the log can be trusted to say.
        left: Option<u64>,
        snapshot: Option<String>,
    },
    Skipped,
    Failed,
    Stale,
}

/// What may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    IdChanged,
    ForeignContext,
    Overlap,
    Discontinuity,
    Unpaired,
    ForeignSnapshot,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::IdChanged,
        Kind::ForeignContext,
        Kind::Overlap,
        Kind::Discontinuity,
        Kind::Unpaired,
        Kind::ForeignSnapshot,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::IdChanged => "id_changed",
            Kind::ForeignContext => "foreign_context",
            Kind::Overlap => "overlap",
            Kind::Discontinuity => "discontinuity",
            Kind::Unpaired => "unpaired",
            Kind::ForeignSnapshot => "foreign_snapshot",
        }
    }

    /// What it means to a reader.
    pub fn says(self) -> &'static str {
        match self {
            Kind::IdChanged => "a compression ended under another session id than it began with",
            Kind::ForeignContext => "the log context named another session than the one that was compressed",
            Kind::Overlap => "two compressions of one session were in flight at once",
            Kind::Discontinuity => "a context was full again within two minutes, with half its messages gone",
            Kind::Unpaired => "a compression began without an end, or ended without a beginning",
            Kind::ForeignSnapshot => "a snapshot is not the session's, or not later than its last one",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: Kind,
    /// Whom it concerns; the session that was to be compressed first.
    pub sessions: Vec<String>,
    /// The lines that show it, in order.
    pub places: Vec<Place>,
    pub says: String,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub started: u64,
    pub done: u64,
    pub skipped: u64,
    pub failed: u64,
    pub stale: u64,
    /// In flight when the log ended.
    pub open: u64,
    /// How often a process began.
    pub processes: u64,
}

/// Reads a log from its beginning to its end.
#[derive(Debug, Default)]
pub struct Audit {
    tally: Tally,
    /// Which process writes: rises when one begins. None was seen to begin: what it does may be older
    /// than the log.
    life: u64,
    /// A session was forgotten: an unknown session may be known.
    has_forgotten: bool,
    threads: HashMap<Key, Thread>,
    /// Whose the named operations in flight are.
    operations: HashMap<Named, Key>,
    /// Counts lines, to tell who was quiet for longest.
    clock: u64,
}

/// A session, of an agent.
type Key = (Option<String>, String);
/// An operation's name, and the agent.
type Named = (Option<String>, String);

/// What is remembered of one session.
#[derive(Debug, Default)]
struct Thread {
    touched: u64,
    open: Vec<Open>,
    /// The last compression that was done.
    settled: Option<Settled>,
    /// The last operation that was done, by name.
    ended: Option<(String, Place)>,
    snapshot: Option<String>,
    /// The session it was until a compression changed its id: contexts go on naming that.
    was: Option<String>,
}

/// A compression in flight.
#[derive(Clone, Debug)]
struct Open {
    operation: Option<String>,
    context: Option<String>,
    place: Place,
    at: Option<Time>,
    life: u64,
    messages: Option<u64>,
    tokens: Option<u64>,
    /// Where another one of the same session began.
    followed: Option<Place>,
    /// One that was in flight when this one began, and has ended since.
    beside: Option<[Place; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Settled {
    at: Option<Time>,
    place: Place,
    messages: Option<u64>,
    tokens: Option<u64>,
    left: Option<u64>,
}

/// A line, and what it says.
struct Seen<'a> {
    place: Place,
    at: Option<Time>,
    report: &'a Report,
}

impl Audit {
    pub fn read(&mut self, entry: &Entry) -> Vec<Finding> {
        match &entry.news {
            News::Began => self.begin(),
            News::Compression(report) => {
                self.clock += 1;
                let mut findings = Vec::new();
                let seen = Seen { place: entry.place, at: entry.at, report };
                self.count(&report.step);
                match &report.step {
                    Step::Started { messages, tokens } => {
                        self.start(&seen, *messages, *tokens, &mut findings);
                    }
                    _ => self.end(&seen, &mut findings),
                }
                self.forget();
                findings
            }
        }
    }

    /// What is wrong if nothing more comes, and how much was looked at.
    pub fn finish(mut self) -> (Vec<Finding>, Tally) {
        let mut findings = Vec::new();
        for (key, thread) in &mut self.threads {
            findings.extend(given_up(key, thread));
            self.tally.open += thread.open.iter().filter(|open| open.operation.is_some()).count() as u64;
        }
        findings.sort_by(|one, other| one.places.cmp(&other.places));
        (findings, self.tally)
    }

    fn begin(&mut self) -> Vec<Finding> {
        self.life += 1;
        self.tally.processes += 1;
        let mut findings = Vec::new();
        for (key, thread) in &mut self.threads {
            let before = findings.len();
            findings.extend(given_up(key, thread));
            if findings.len() > before {
                let lost =
                    |named: &Named| !thread.open.iter().any(|open| open.operation.as_ref() == Some(&named.1));
                self.operations.retain(|named, owner| owner != key || !lost(named));
            }
        }
        findings.sort_by(|one, other| one.places.cmp(&other.places));
        findings
    }

    fn count(&mut self, step: &Step) {
        let counter = match step {
            Step::Started { .. } => &mut self.tally.started,
            Step::Done { .. } => &mut self.tally.done,
            Step::Skipped => &mut self.tally.skipped,
            Step::Failed => &mut self.tally.failed,
            Step::Stale => &mut self.tally.stale,
        };
        *counter += 1;
    }

    fn thread(&mut self, key: &Key) -> &mut Thread {
        let thread = self.threads.entry(key.clone()).or_default();
        thread.touched = self.clock;
        thread
    }

    // ------------------------------------------------------------------------------------ a start

    fn start(
        &mut self,
        seen: &Seen,
        messages: Option<u64>,
        tokens: Option<u64>,
        findings: &mut Vec<Finding>,
    ) {
        let key = key(seen.report);
        let life = self.life;
        let mut open = Open {
            operation: seen.report.operation.clone(),
            context: seen.report.context.clone(),
            place: seen.place,
            at: seen.at,
            life,
            messages,
            tokens,
            followed: None,
            beside: None,
        };
        if let Some(named) = named(seen.report) {
            match self.operations.insert(named, key.clone()) {
                Some(owner) if owner == key => open = self.taken_up(&key, open),
                Some(owner) => findings.push(self.moved(&owner, seen)),
                None => {}
            }
        }
        let thread = self.thread(&key);
        findings.extend(foreign_context(seen, thread));
        findings.extend(discontinuity(seen, thread, messages, tokens));
        findings.extend(begun_after_its_end(seen, thread));
        let mut lost = Vec::new();
        thread.open.retain_mut(|other| {
            if !other.may_be_in_flight(&open) {
                lost.extend(other.operation.clone());
                return false;
            }
            other.followed.get_or_insert(open.place);
            true
        });
        if thread.open.len() == OPEN_MAX {
            let oldest = thread.open.remove(0);
            lost.extend(oldest.operation.clone());
            findings.extend(oldest.without_end(&key));
        }
        thread.open.push(open);
        for operation in lost {
            self.operations.remove(&(key.0.clone(), operation));
        }
    }

    /// The same operation again: another attempt, or its session was taken up again.
    fn taken_up(&mut self, key: &Key, mut open: Open) -> Open {
        let thread = self.thread(key);
        let Some(nth) = thread.open.iter().position(|other| other.operation == open.operation) else {
            return open;
        };
        let before = thread.open.remove(nth);
        open.followed = before.followed.filter(|_| before.life == open.life);
        self.tally.started -= 1;
        open
    }

    /// An operation that began under one id and begins again under another.
    fn moved(&mut self, owner: &Key, seen: &Seen) -> Finding {
        let thread = self.thread(owner);
        let is_it = |open: &Open| open.operation == seen.report.operation;
        let before = thread.open.iter().position(is_it).map(|nth| thread.open.remove(nth).place);
        let operation = seen.report.operation.as_deref().unwrap_or_default();
        Finding {
            kind: Kind::IdChanged,
            sessions: vec![owner.1.clone(), seen.report.session.clone()],
            places: before.into_iter().chain([seen.place]).collect(),
            says: format!(
                "operation {operation} began as one of {} and again as one of {}",
                owner.1, seen.report.session
            ),
        }
    }

    // ------------------------------------------------------------------------------------- an end

    fn end(&mut self, seen: &Seen, findings: &mut Vec<Finding>) {
        let key = key(seen.report);
        let found = match named(seen.report) {
            Some(named) => self.take_named(&named),
            None => self.take_unnamed(seen, &key),
        };
        match found {
            Some((owner, open)) => self.close(seen, &key, &owner, open, findings),
            None => self.end_of_nothing(seen, &key, findings),
        }
        self.remember(seen, &key, findings);
    }

    fn take_named(&mut self, named: &Named) -> Option<(Key, Open)> {
        let owner = self.operations.remove(named)?;
        let thread = self.threads.get_mut(&owner)?;
        let nth = thread.open.iter().position(|open| open.operation.as_ref() == Some(&named.1))?;
        Some((owner, thread.open.remove(nth)))
    }

    /// The start that this is most likely the end of. Of several that fit, the latest: a start without
    /// an end has failed, and was tried again.
    fn take_unnamed(&mut self, seen: &Seen, key: &Key) -> Option<(Key, Open)> {
        let context = seen.report.context.as_ref();
        let messages = match seen.report.step {
            Step::Done { messages, .. } => messages,
            _ => None,
        };
        let rank = |owner: &Key, open: &Open| {
            let same_size = messages.is_none() || open.messages.is_none() || open.messages == messages;
            let same_context = open.context.as_ref() == context;
            let ours = owner == key;
            match (ours, same_size) {
                (true, true) => Some((if same_context { 4 } else { 3 }, open.place)),
                // Another id, which only the log context or the size gives away.
                (false, true) if messages.is_some() && context == Some(&owner.1) => Some((2, open.place)),
                (false, true) if messages.is_some() && same_context => Some((1, open.place)),
                (true, false) => Some((0, open.place)),
                _ => None,
            }
        };
        let best = |(owner, thread): (&Key, &Thread)| {
            let open = thread.open.iter().enumerate();
            let open = open.filter(|(_, open)| open.operation.is_none() && open.is_recent(seen.at));
            let ranked = open.filter_map(|(nth, open)| rank(owner, open).map(|rank| (rank, nth)));
            ranked.max().map(|(rank, nth)| (rank, owner.clone(), nth))
        };
        let near =
            [Some(&key.1), context].into_iter().flatten().map(|session| (key.0.clone(), session.clone()));
        let near = near.filter_map(|near| self.threads.get_key_value(&near)).filter_map(best).max();
        let near = match near.filter(|((points, _), ..)| *points > 0) {
            None => self.threads.iter().filter(|(owner, _)| owner.0 == key.0).filter_map(best).max(),
            near => near,
        };
        let (_, owner, nth) = near?;
        let open = self.threads.get_mut(&owner)?.open.remove(nth);
        Some((owner, open))
    }

    fn close(&mut self, seen: &Seen, key: &Key, owner: &Key, open: Open, findings: &mut Vec<Finding>) {
        if owner != key {
            findings.push(Finding {
                kind: Kind::IdChanged,
                sessions: vec![owner.1.clone(), key.1.clone()],
                places: vec![open.place, seen.place],
                says: format!("a compression of {} ended as one of {}", owner.1, key.1),
            });
        }
        let is_skipped = seen.report.step == Step::Skipped;
        let is_named = open.operation.is_some();
        let left = match &seen.report.step {
            Step::Done { left, .. } => *left,
            _ => None,
        };
        let settled =
            Settled { at: seen.at, place: seen.place, messages: open.messages, tokens: open.tokens, left };
        let thread = self.thread(owner);
        if !is_named && is_skipped {
            // It saw that another one was in flight, and kept out of its way.
            for other in &mut thread.open {
                other.followed = other.followed.filter(|place| *place != open.place);
            }
        } else {
            findings.extend(overlap(seen, owner, &open, thread));
        }
        if matches!(seen.report.step, Step::Done { .. }) {
            thread.settled = Some(settled);
        }
        let is_reported = open.context == seen.report.context && open.context.as_ref() != Some(&owner.1);
        let was = thread.was.clone().unwrap_or_else(|| owner.1.clone());
        let thread = self.thread(key);
        if owner != key {
            thread.was = Some(was);
            thread.settled = Some(settled);
        } else if !is_reported {
            findings.extend(foreign_context(seen, thread));
        }
    }

    fn end_of_nothing(&mut self, seen: &Seen, key: &Key, findings: &mut Vec<Finding>) {
        let (life, may_be_known) = (self.life, self.has_forgotten);
        let session = &seen.report.session;
        let is_known = self.threads.contains_key(key);
        let thread = self.thread(key);
        let finding = |kind, places, says| Finding { kind, sessions: vec![session.clone()], places, says };
        let twice =
            thread.ended.as_ref().filter(|(operation, _)| seen.report.operation.as_ref() == Some(operation));
        if let Some((operation, place)) = twice {
            let says = format!("operation {operation} of {session} ended although it was done already");
            findings.push(finding(Kind::Unpaired, vec![*place, seen.place], says));
        } else if matches!(seen.report.step, Step::Done { .. }) {
            let may_be_older = match &seen.report.operation {
                Some(_) => !is_known && (life == 0 || may_be_known),
                // The context stays what it was at the start: if it agrees, only the start is missing.
                None => is_known || may_be_known || seen.report.context.as_ref() == Some(session),
            };
            if !may_be_older && !is_known {
                let says = format!("{session} occurs only where a compression is done");
                findings.push(finding(Kind::IdChanged, vec![seen.place], says));
                return;
            }
            if !may_be_older {
                let operation = seen.report.operation.as_deref().unwrap_or_default();
                let says = format!("operation {operation} of {session} was done and never began");
                findings.push(finding(Kind::Unpaired, vec![seen.place], says));
            }
        }
        findings.extend(foreign_context(seen, self.thread(key)));
    }

    /// What later lines of the session are compared with.
    fn remember(&mut self, seen: &Seen, key: &Key, findings: &mut Vec<Finding>) {
        let Step::Done { snapshot, .. } = &seen.report.step else { return };
        let thread = self.thread(key);
        if let Some(operation) = &seen.report.operation {
            thread.ended = Some((operation.clone(), seen.place));
        }
        let Some(snapshot) = snapshot else { return };
        let says = match snapshot.strip_prefix(&key.1).is_some_and(|rest| rest.starts_with(SNAPSHOT_INFIX)) {
            false => format!("{snapshot} is no snapshot of {}", key.1),
            true => match thread.snapshot.replace(snapshot.clone()) {
                Some(last) if last >= *snapshot => {
                    format!("the snapshot {snapshot} is not later than {last}")
                }
                _ => return,
            },
        };
        let sessions = vec![key.1.clone()];
        findings.push(Finding { kind: Kind::ForeignSnapshot, sessions, places: vec![seen.place], says });
    }

    // ---------------------------------------------------------------------------------- the bound

    fn forget(&mut self) {
        if self.threads.len() <= SESSIONS_MAX {
            return;
        }
        self.has_forgotten = true;
        let mut touched: Vec<u64> = self.threads.values().map(|thread| thread.touched).collect();
        let (_, middle, _) = touched.select_nth_unstable(SESSIONS_MAX / 2);
        let middle = *middle;
        self.threads.retain(|_, thread| thread.touched > middle);
        let threads = mem::take(&mut self.threads);
        self.operations.retain(|_, owner| threads.contains_key(owner));
        self.threads = threads;
    }
}

impl Open {
    /// Whether it can still be in flight when `later` begins.
    fn may_be_in_flight(&self, later: &Open) -> bool {
        self.life == later.life && (self.operation.is_some() || self.is_recent(later.at))
    }

    fn is_recent(&self, now: Option<Time>) -> bool {
        match (self.at, now) {
            (Some(at), Some(now)) => now.since(at) <= PATIENCE,
            _ => true,
        }
    }

    fn name(&self) -> &str {
        self.operation.as_deref().unwrap_or("without a name")
    }

    /// Another one began, and this one never ended.
    fn without_end(&self, key: &Key) -> Option<Finding> {
        let followed = self.followed.filter(|_| self.operation.is_some())?;
        Some(Finding {
            kind: Kind::Unpaired,
            sessions: vec![key.1.clone()],
            places: vec![self.place, followed],
            says: format!(
                "operation {} of {} has no end, and another one began after it",
                self.name(),
                key.1
            ),
        })
    }
}

fn key(report: &Report) -> Key {
    (report.agent.clone(), report.session.clone())
}

fn named(report: &Report) -> Option<Named> {
    Some((report.agent.clone(), report.operation.clone()?))
}

/// Those that have no end although the session went on.
fn given_up(key: &Key, thread: &mut Thread) -> Vec<Finding> {
    let (lost, open) = mem::take(&mut thread.open).into_iter().partition(|open| open.followed.is_some());
    thread.open = open;
    let lost: Vec<Open> = lost;
    lost.iter().filter_map(|open| open.without_end(key)).collect()
}

/// A writer that names its operations also names their context.
fn foreign_context(seen: &Seen, thread: &Thread) -> Option<Finding> {
    let session = &seen.report.session;
    let (others, place) = match &seen.report.context {
        None if seen.report.operation.is_none() => return None,
        None => (vec![], "outside any session's context".to_owned()),
        Some(context) if context == session || thread.was.as_ref() == Some(context) => return None,
        Some(context) => (vec![context.clone()], format!("in the context of {context}")),
    };
    Some(Finding {
        kind: Kind::ForeignContext,
        sessions: [vec![session.clone()], others].concat(),
        places: vec![seen.place],
        says: format!("a compression of {session} was logged {place}"),
    })
}

fn discontinuity(
    seen: &Seen,
    thread: &Thread,
    messages: Option<u64>,
    tokens: Option<u64>,
) -> Option<Finding> {
    let settled = thread.settled?;
    let passed = seen.at?.since(settled.at?);
    let (messages, messages_before) = (messages?, settled.messages?);
    let (tokens, tokens_before) = (tokens?, settled.tokens?);
    let is_full_again = tokens.saturating_mul(100) >= tokens_before.saturating_mul(THRESHOLD_PERCENT);
    if passed > DISCONTINUITY || !is_full_again || messages.saturating_mul(2) >= messages_before {
        return None;
    }
    // All that was left is still there: what was said since is simply long.
    if settled.left.is_some_and(|left| messages >= left) {
        return None;
    }
    let session = &seen.report.session;
    Some(Finding {
        kind: Kind::Discontinuity,
        sessions: vec![session.clone()],
        places: vec![settled.place, seen.place],
        says: format!(
            "{} s after {session} was compressed it has {tokens} tokens again (it had {tokens_before}), \
             in {messages} messages (there were {messages_before})",
            passed.as_secs()
        ),
    })
}

fn begun_after_its_end(seen: &Seen, thread: &Thread) -> Option<Finding> {
    let (operation, place) = thread.ended.as_ref()?;
    (seen.report.operation.as_ref() == Some(operation)).then(|| Finding {
        kind: Kind::Unpaired,
        sessions: vec![seen.report.session.clone()],
        places: vec![*place, seen.place],
        says: format!("operation {operation} of {} began again after it was done", seen.report.session),
    })
}

/// Whether another one of the session was in flight beside the one that ends here.
fn overlap(seen: &Seen, owner: &Key, open: &Open, thread: &mut Thread) -> Option<Finding> {
    let mut places = match (open.beside, open.followed) {
        (Some([start, end]), _) => vec![start, open.place, end, seen.place],
        (None, Some(follower)) => {
            let other = thread.open.iter_mut().find(|other| other.place == follower);
            match other {
                // It may yet say that it kept out of the way.
                Some(other) if open.operation.is_none() => {
                    other.beside = Some([open.place, seen.place]);
                    return None;
                }
                _ => vec![open.place, follower, seen.place],
            }
        }
        (None, None) => return None,
    };
    places.sort();
    Some(Finding {
        kind: Kind::Overlap,
        sessions: vec![owner.1.clone()],
        places,
        says: format!("{} was being compressed when another compression of it began", owner.1),
    })
}
