//! What is wrong with a home, and how it is made right.
//!
//! Hermes splits a conversation when it compresses, and forgets to lead its chat along; it rewrites
//! transcripts from a copy that is too old; a crash between two of its commits leaves a route to nowhere.
//! Here is the one place that judges a home and the one place that repairs it.
//!
//! - [`Examiner::examine`] only reads. It works beside a running Hermes, in one look, and a home that was
//!   never ours stays byte for byte as it was
//! - a [`Finding`] names what it is about (sessions, rows) and what a repair would do, or what a person can
//!   do where we do not repair by ourselves
//! - [`Surgeon::mend`] is one transaction each: killed at any moment, a home is as before or as after it
//! - **no repair deletes a message.** What leaves a view stays under a snapshot's name, readable and
//!   findable; rows are moved, marked or added, and a repair that deletes one fails
//! - what cannot be told from messages' identity and order is not guessed: it is kept and said
//!
//! Deliberately absent: the backup before a repair, the question whether to repair, and what only files know.
//! Those are the program's (`src/doctor.rs`), which hands in what it read.

mod collapse;
mod copy;
pub(crate) mod file;
mod gap;
mod index;
mod lineage;
mod references;
mod route;
mod run;
mod state;
mod transcript;
mod tree;

#[cfg(test)]
mod tests;

pub use copy::Holds;
pub(crate) use tree::UNMARKED;

use crate::commit::transact;
use crate::fault::{StoreFault, While};
use crate::open::{Home, OpenError};
use crate::read::StoreReader;
use rusqlite::config::DbConfig;
use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use throughline_core::Message;
use throughline_core::port::StoreError;
use throughline_core::time::Time;

/// How bad it is, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Words are not where the agent looks, or are at risk.
    Grave,
    /// A conversation goes astray, or is told twice.
    Serious,
    /// Nothing is lost; something is untidy, or may surprise.
    Minor,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal, $severity:ident, $says:literal;)*) => {
        /// What can be wrong. Names are stable; the order is that of a report.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingKind {
            $($(#[$doc])* $kind,)*
        }

        impl FindingKind {
            pub const ALL: &[FindingKind] = &[$(FindingKind::$kind),*];

            pub fn name(self) -> &'static str {
                match self { $(FindingKind::$kind => $name,)* }
            }

            pub fn severity(self) -> Severity {
                match self { $(FindingKind::$kind => Severity::$severity,)* }
            }

            /// What it means, for a person.
            pub fn says(self) -> &'static str {
                match self { $(FindingKind::$kind => $says,)* }
            }
        }
    };
}

kinds! {
    Integrity: "integrity", Grave, "the database file is damaged";
    RowsWithoutSession: "rows_without_session", Grave, "messages belong to a session that does not exist";
    TranscriptGap: "transcript_gap", Grave, "a transcript was rewritten, and a file still holds what it lost";
    ForkedSiblings: "forked_siblings", Grave, "compressions split one conversation into parallel ones";
    ArchivedUnsummarised: "archived_unsummarised", Grave,
        "messages were archived by a compression that never saw them";
    RotatedChain: "rotated_chain", Serious, "compressions changed the id of a conversation";
    DeadEnd: "dead_end", Serious, "a conversation ended with a compression that nothing followed";
    RouteToEnded: "route_to_ended", Serious, "a chat leads to a session that has ended";
    UnreadableRoutes: "unreadable_routes", Serious, "the file that says where chats lead cannot be read";
    TwoLiveSessions: "two_live_sessions", Serious, "a chat has more than one live session";
    DuplicatedRows: "duplicated_rows", Serious, "messages stand in a transcript twice";
    BrokenToolGroup: "broken_tool_group", Serious, "a tool call has no result, or a result no call";
    FinalisedAlive: "finalised_alive", Serious, "a session was handed over as ended, and goes on";
    BrokenInvariant: "broken_invariant", Serious, "something that only we write is not as it should be";
    SecretInLog: "secret_in_log", Serious, "a log holds what looks like a secret";
    UnsafePermissions: "unsafe_permissions", Serious, "others on this machine can read private files";
    MemoryOverLimit: "memory_over_limit", Serious, "a memory file is larger than its limit";
    RouteToMissing: "route_to_missing", Minor, "a chat leads to a session that does not exist";
    EmptyOrphan: "empty_orphan", Minor, "a compression left an empty session behind";
    EndedNotFinalised: "ended_not_finalised", Minor, "a session ended by itself, and was never handed over";
    DeadResumeFlag: "dead_resume_flag", Minor, "a chat waits to be resumed, too long after it was interrupted";
    StaleCompressionLock: "stale_compression_lock", Minor, "a compression's lock outlived it";
    RowsOutOfOrder: "rows_out_of_order", Minor, "messages are in another order than the clock says";
    IndexOutOfStep: "index_out_of_step", Minor, "the search index does not match the messages";
    LargeLog: "large_wal", Minor, "the write-ahead log was never folded back into the database";
    MemoryDuplicated: "memory_duplicated", Minor, "a memory file says something twice";
    MemoryDrifted: "memory_drifted", Minor, "a memory file was changed outside, and its older text kept aside";
    MemoryClaim: "memory_claim", Minor, "a memory claims amnesia or another self; it is damage that was remembered";
    ProviderRenamed: "provider_renamed", Minor, "a memory provider's sessions would get other names";
}

impl fmt::Display for FindingKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for FindingKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        FindingKind::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<_> = FindingKind::ALL.iter().map(|kind| kind.name()).collect();
            format!("there is no kind of finding called {name:?}; there are {}", names.join(", "))
        })
    }
}

/// The order in which repairs build on each other: what is missing first, then who goes on, then where
/// chats lead, then what follows from both.
const MENDING: &[FindingKind] = &[
    FindingKind::RowsWithoutSession,
    FindingKind::TranscriptGap,
    FindingKind::DuplicatedRows,
    FindingKind::ArchivedUnsummarised,
    FindingKind::EmptyOrphan,
    FindingKind::ForkedSiblings,
    FindingKind::RotatedChain,
    FindingKind::DeadEnd,
    FindingKind::RouteToEnded,
    FindingKind::RouteToMissing,
    FindingKind::TwoLiveSessions,
    FindingKind::FinalisedAlive,
    FindingKind::DeadResumeFlag,
    FindingKind::StaleCompressionLock,
    FindingKind::IndexOutOfStep,
];

/// Where a finding's repair comes among the others.
pub fn turn_of(kind: FindingKind) -> usize {
    MENDING.iter().position(|other| *other == kind).unwrap_or(MENDING.len())
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    /// The one it is about first.
    pub sessions: Vec<String>,
    /// Rows of `messages`, as far as they help to find it.
    pub rows: Vec<i64>,
    pub evidence: Vec<String>,
    pub remedy: Remedy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// What a repair would do.
    Repair(String),
    /// We do not touch it: what a person can do, or why nothing needs to be done.
    Advice(String),
}

impl Finding {
    pub fn is_repairable(&self) -> bool {
        matches!(self.remedy, Remedy::Repair(_))
    }

    /// The session, chat or file it is about.
    pub fn subject(&self) -> &str {
        self.sessions.first().map_or("", String::as_str)
    }
}

/// How many rows a finding names. All are counted in its evidence.
const ROWS_MAX: usize = 50;
/// How many findings of one kind about one file or table are worth naming one by one.
const EACH_MAX: usize = 10_000;

/// A transcript that lies beside the database, as the program read it.
#[derive(Clone, Debug)]
pub struct Transcript {
    pub session: String,
    pub file: String,
    pub messages: Vec<Message>,
}

/// What the database does not know.
pub struct Outside<'a> {
    /// One after the other: together they may be larger than memory.
    pub transcripts: &'a mut dyn Iterator<Item = Transcript>,
    /// Whether a gateway runs on this home: what has just begun is then no damage.
    pub is_running: bool,
    pub is_due: Due<'a>,
}

/// Whether a conversation on this platform, in this kind of chat, in which something last happened then, has ended by
/// itself meanwhile.
pub type Due<'a> = &'a dyn Fn(&str, &str, Time) -> bool;

/// How many steps SQLite takes between two beats: some milliseconds.
const STEPS_PER_BEAT: i32 = 100_000;

/// What is being done, how much of it is done, and how much there is.
pub type Watch<'a> = &'a mut dyn FnMut(&'static str, u64, u64);

/// Reads a home, and changes nothing.
pub struct Examiner {
    reader: StoreReader,
    home: Home,
}

/// Repairs a home that its process has claimed.
pub struct Surgeon {
    examiner: Examiner,
    /// Where chats lead, as the repairs so far have left it; None: not asked yet, or a repair failed.
    entries: Option<route::Entries>,
    /// `sessions.json`, as the repairs so far want it.
    sessions_file: Option<file::SessionsFile>,
}

/// So that no repair has to count: a repair that would delete a message fails, and changes nothing.
const NO_MESSAGE_GOES: &str = "CREATE TEMP TRIGGER tl_no_message_goes BEFORE DELETE ON main.messages BEGIN
    SELECT RAISE(ABORT, 'a repair would have deleted a message; nothing was changed'); END";

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mended {
    /// In one sentence.
    Done(String),
    /// It was no longer there.
    Unneeded,
    /// It could not be decided after all; nothing was changed. In one sentence.
    Left(String),
}

/// How long ago something must have begun beside a running gateway to count as left behind.
const SETTLED_AFTER_SECONDS: f64 = 3_600.0;

/// What every part of an examination is given.
pub(crate) struct Look<'a> {
    pub reader: &'a StoreReader,
    pub home: &'a Home,
    pub now: Time,
    pub is_running: bool,
    /// None: only an examination asks.
    is_due: Option<Due<'a>>,
    /// Where chats lead, once that was asked.
    entries: OnceCell<route::Entries>,
    /// The sessions that they lead to.
    routed: OnceCell<HashSet<String>>,
    /// Chats whose routes a repair has changed.
    touched: RefCell<Vec<String>>,
}

impl<'a> Look<'a> {
    fn new(examiner: &'a Examiner, now: Time) -> Self {
        let Examiner { reader, home } = examiner;
        let (entries, routed, touched) = Default::default();
        Self { reader, home, now, is_running: false, is_due: None, entries, routed, touched }
    }

    /// Whether something that began then is finished with, one way or the other.
    pub fn is_settled(&self, began: f64) -> bool {
        !self.is_running || self.now.as_seconds() - began > SETTLED_AFTER_SECONDS
    }
}

impl Home {
    pub fn examiner(&self) -> Result<Examiner, OpenError> {
        Ok(Examiner { reader: self.reader()?, home: self.clone() })
    }

    /// Only for a process that owns the home.
    pub fn surgeon(&self, now: Time) -> Result<Surgeon, OpenError> {
        let reader = self.mending(now)?;
        self.finish_routes(&reader.conn)?;
        let led = if reader.variants.can.has_gateway_routing { route::LED } else { "" };
        let own = format!("{NO_MESSAGE_GOES};{led}");
        reader.conn.execute_batch(&own).map_err(|error| self.sorted(error))?;
        let sessions_file = file::SessionsFile::of(self, &reader.conn);
        Ok(Surgeon { examiner: Examiner { reader, home: self.clone() }, entries: None, sessions_file })
    }
}

impl Examiner {
    /// Calls this now and then while SQLite works: its check of a large file takes a minute, and says nothing by itself.
    pub fn beating(mut self, mut pulse: impl FnMut() + Send + 'static) -> Result<Self, OpenError> {
        let beats = move || {
            pulse();
            false // go on
        };
        let set = self.reader.conn.progress_handler(STEPS_PER_BEAT, Some(beats));
        set.map_err(|error| self.home.sorted(error))?;
        Ok(self)
    }

    /// Everything that is wrong with the database and with what it was given from outside, worst first.
    pub fn examine(
        &self,
        outside: Outside<'_>,
        now: Time,
        watch: Watch<'_>,
    ) -> Result<Vec<Finding>, StoreError> {
        let Outside { transcripts, is_running, is_due } = outside;
        let look = Look { is_running, is_due: Some(is_due), ..Look::new(self, now) };
        let found = self.reader.at_once(|| look.all(transcripts, watch));
        let mut found = found.while_doing("examine the home")?;
        found.sort_by(|one, other| (one.kind, &one.sessions).cmp(&(other.kind, &other.sessions)));
        Ok(found)
    }
}

impl Look<'_> {
    fn all(
        &self,
        transcripts: &mut dyn Iterator<Item = Transcript>,
        watch: Watch<'_>,
    ) -> Result<Vec<Finding>, StoreFault> {
        let mut found = Vec::new();
        watch("checking the file", 0, 1);
        found.extend(self.damage()?);
        if found.iter().any(|finding| finding.kind == FindingKind::Integrity) {
            // What a damaged file answers is not worth judging, as far as it answers at all.
            found.extend(self.lineage().unwrap_or_default());
            return Ok(found);
        }
        watch("following compressions", 0, 1);
        found.extend(self.lineage()?);
        found.extend(self.routes()?);
        found.extend(self.states()?);
        watch("checking the search index", 0, 1);
        found.extend(self.index()?);
        found.extend(self.transcripts(watch)?);
        found.extend(self.gaps(transcripts, watch)?);
        Ok(found)
    }
}

impl Surgeon {
    pub fn examiner(&self) -> &Examiner {
        &self.examiner
    }

    /// One repair, in one transaction. What it is about is looked at again first: others may have changed it.
    pub fn mend(
        &mut self,
        finding: &Finding,
        transcript: Option<&Transcript>,
        now: Time,
    ) -> Result<Mended, StoreError> {
        self.mended(finding, transcript, now).while_doing("repair what was found")
    }

    /// When there is nothing more to repair: `sessions.json` gets what the repairs want it to say. A process that is killed
    /// before leaves that to the next start of a gateway, or to the next repair.
    pub fn finish(self) -> Result<(), StoreError> {
        file::finish_file(&self.examiner.reader.conn, &self.examiner.home).while_doing("write sessions.json")
    }

    fn mended(
        &mut self,
        finding: &Finding,
        transcript: Option<&Transcript>,
        now: Time,
    ) -> Result<Mended, StoreFault> {
        if !finding.is_repairable() {
            return Ok(Mended::Left("this is not repaired by itself".to_owned()));
        }
        let look = Look::new(&self.examiner, now);
        if let Some(entries) = self.entries.take() {
            let _ = look.entries.set(entries); // it is new, and has none
        }
        let conn = &self.examiner.reader.conn;
        // Rows that only change whose they are stay in the search index as they are. Hermes' triggers would take each out
        // and put it in again, which is most of the work; those of this connection alone are not switched off.
        let moves_rows = matches!(finding.kind, FindingKind::ForkedSiblings | FindingKind::RotatedChain);
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, !moves_rows)?;
        let (mended, edits) = transact(conn, |_| {
            let edits = match (&self.sessions_file, look.leads(finding)?) {
                (Some(sessions_file), Some(leads)) => sessions_file.edits(&leads),
                _ => Vec::new(),
            };
            let mended = match finding.kind {
                FindingKind::RowsWithoutSession => look.found_sessions(finding),
                FindingKind::TranscriptGap => look.close_gap(finding, transcript),
                FindingKind::DuplicatedRows => look.set_copies_aside(finding),
                FindingKind::ArchivedUnsummarised => look.bring_back(finding),
                FindingKind::EmptyOrphan => look.remove_orphan(finding),
                FindingKind::ForkedSiblings | FindingKind::RotatedChain => look.collapse(finding.subject()),
                FindingKind::DeadEnd => look.reopen_dead_end(finding.subject()),
                FindingKind::RouteToEnded | FindingKind::RouteToMissing => look.lead_on(finding),
                FindingKind::TwoLiveSessions => look.end_others(finding),
                FindingKind::FinalisedAlive => look.unfinalise(finding, !edits.is_empty()),
                FindingKind::DeadResumeFlag => look.clear_resume_flag(finding, !edits.is_empty()),
                FindingKind::StaleCompressionLock => look.release_lock(finding),
                FindingKind::IndexOutOfStep => look.put_in_step(),
                _ => Ok(Mended::Left("this is not repaired by itself".to_owned())),
            }?;
            match (&mended, &self.sessions_file) {
                (Mended::Done(_), Some(sessions_file)) if !edits.is_empty() => {
                    sessions_file.want(conn, &edits)?
                }
                _ => {}
            }
            Ok((mended, edits))
        })?;
        let mut touched = look.touched.take();
        if matches!(mended, Mended::Done(_)) {
            touched.extend(edits.iter().map(|(chat, _)| chat.clone()));
            self.sessions_file.iter_mut().for_each(|sessions_file| sessions_file.apply(edits.clone()));
        }
        let mut entries = look.entries.into_inner();
        if let Some(entries) = &mut entries {
            let look = Look::new(&self.examiner, now);
            for chat in touched {
                let sessions_file = self.sessions_file.as_ref().filter(|sessions_file| sessions_file.counts);
                let sessions_file = sessions_file.and_then(|sessions_file| sessions_file.entry(&chat));
                match look.entry_of(&chat, sessions_file)? {
                    Some(entry) => drop(entries.insert(chat, entry)),
                    None => drop(entries.remove(&chat)),
                }
            }
        }
        self.entries = entries;
        Ok(mended)
    }
}

/// `1 message`, `2 messages`
pub(crate) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
