//! What each session has read and written, as far as its next step depends on it.
//!
//! Only in memory and bounded: forgetting costs a page sent once more or a warning not given. A page
//! counts as known only within the turn that got it, because a turn is what the model surely still
//! sees: an earlier one may have been stopped, undone or summarised.

use std::collections::HashMap;
use std::fs::Metadata;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;
use throughline_core::id::SessionId;

/// Sessions at a time, and what is remembered of each: Hermes' numbers, where it has one.
const SESSIONS_MAX: usize = 256;
const PAGES_MAX: usize = 1000;
const FILES_MAX: usize = 1000;
const FAILURES_MAX: usize = 64;
const WRITERS_MAX: usize = 4096;

/// A map that forgets what was put in first.
struct BoundedMap<K, V> {
    max: usize,
    next: u64,
    entries: HashMap<K, (u64, V)>,
}

impl<K: Eq + Hash + Clone, V> BoundedMap<K, V> {
    fn new(max: usize) -> Self {
        Self { max, next: 0, entries: HashMap::new() }
    }

    fn put(&mut self, key: K, value: V) {
        self.next += 1;
        self.entries.insert(key, (self.next, value));
        if self.entries.len() > self.max
            && let Some(oldest) =
                self.entries.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| key.clone())
        {
            self.entries.remove(&oldest);
        }
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }
}

/// By what a changed file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    changed: Option<SystemTime>,
    length: u64,
    node: u64,
}

impl FileStamp {
    pub fn of(facts: &Metadata) -> Self {
        Self { changed: facts.modified().ok(), length: facts.len(), node: node(facts) }
    }

    pub fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|facts| Self::of(&facts))
    }
}

#[cfg(unix)]
fn node(facts: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(facts)
}

/// Windows does not tell with the rest.
#[cfg(not(unix))]
fn node(_: &Metadata) -> u64 {
    0
}

/// Which part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReadPage {
    pub path: PathBuf,
    pub offset: u64,
    pub limit: u64,
}

/// Which call looks.
#[derive(Clone, Copy)]
pub struct LookingCall<'a> {
    pub session: &'a SessionId,
    pub turn: &'a str,
    pub call: &'a str,
}

struct KnownPage {
    stamp: FileStamp,
    /// The call that got the page: run again, it needs it again.
    call: String,
    asked_again: u32,
}

struct ReadFile {
    stamp: FileStamp,
    at: u64,
    partial: bool,
}

struct SessionReads {
    used: u64,
    turn: String,
    last: String,
    in_a_row: u32,
    pages: BoundedMap<ReadPage, KnownPage>,
    files: BoundedMap<PathBuf, ReadFile>,
    failures: BoundedMap<PathBuf, u32>,
}

impl SessionReads {
    fn new() -> Self {
        Self {
            used: 0,
            turn: String::new(),
            last: String::new(),
            in_a_row: 0,
            pages: BoundedMap::new(PAGES_MAX),
            files: BoundedMap::new(FILES_MAX),
            failures: BoundedMap::new(FAILURES_MAX),
        }
    }
}

struct AllReads {
    now: u64,
    sessions: HashMap<SessionId, SessionReads>,
    writers: BoundedMap<PathBuf, (SessionId, u64)>,
}

pub struct ReadTracker {
    all: Mutex<AllReads>,
    turns: Mutex<HashMap<PathBuf, Weak<Mutex<()>>>>,
}

impl ReadTracker {
    pub fn new() -> Self {
        let all = AllReads { now: 0, sessions: HashMap::new(), writers: BoundedMap::new(WRITERS_MAX) };
        Self { all: Mutex::new(all), turns: Mutex::default() }
    }

    pub fn forget(&self, session: &SessionId) {
        self.lock().sessions.remove(session);
    }

    /// The session did something else: what it looks at next is no repetition.
    pub fn interrupt(&self, session: &SessionId) {
        if let Some(memory) = self.lock().sessions.get_mut(session) {
            memory.last.clear();
            memory.in_a_row = 0;
            for (_, known) in memory.pages.entries.values_mut() {
                known.asked_again = 0;
            }
        }
    }

    /// How often this session has now asked the same thing in a row.
    pub fn repeated(&self, who: LookingCall<'_>, what: &str) -> u32 {
        self.with(who, |memory, _| {
            if memory.last == what {
                memory.in_a_row += 1;
            } else {
                what.clone_into(&mut memory.last);
                memory.in_a_row = 1;
            }
            memory.in_a_row
        })
    }

    /// How often this page, which has not changed, has been asked for again. None: it is not known.
    pub fn known(&self, who: LookingCall<'_>, page: &ReadPage, stamp: FileStamp) -> Option<u32> {
        self.with(who, |memory, _| {
            let known =
                memory.pages.get_mut(page).filter(|known| known.stamp == stamp && known.call != who.call)?;
            known.asked_again += 1;
            Some(known.asked_again)
        })
    }

    pub fn read(&self, who: LookingCall<'_>, page: ReadPage, stamp: FileStamp, partial: bool) {
        self.with(who, |memory, at| {
            memory.files.put(page.path.clone(), ReadFile { stamp, at, partial });
            memory.pages.put(page, KnownPage { stamp, call: who.call.to_owned(), asked_again: 0 });
        });
    }

    /// The file is now as this session made it.
    pub fn wrote(&self, who: LookingCall<'_>, path: &Path) {
        let stamp = FileStamp::at(path);
        self.with(who, |memory, at| {
            memory.pages.entries.retain(|page, _| page.path != path);
            memory.failures.entries.remove(path);
            match stamp {
                Some(stamp) => memory.files.put(path.to_owned(), ReadFile { stamp, at, partial: false }),
                None => {
                    memory.files.entries.remove(path);
                }
            }
        });
        let mut all = self.lock();
        let now = all.now;
        all.writers.put(path.to_owned(), (who.session.clone(), now));
    }

    /// How often in a row a patch has failed at this file.
    pub fn failed(&self, who: LookingCall<'_>, path: &Path) -> u32 {
        self.with(who, |memory, _| match memory.failures.get_mut(&path.to_owned()) {
            Some(count) => {
                *count += 1;
                *count
            }
            None => {
                memory.failures.put(path.to_owned(), 1);
                1
            }
        })
    }

    /// Why what this session believes of the file may be wrong.
    pub fn stale(&self, who: LookingCall<'_>, path: &Path) -> Option<String> {
        let current = FileStamp::at(path)?;
        let shown = path.display();
        let writer =
            self.lock().writers.get_mut(&path.to_owned()).map(|(session, at)| (session.clone(), *at));
        self.with(who, |memory, _| {
            let read = memory.files.get_mut(&path.to_owned());
            if let Some((writer, written)) = writer.filter(|(writer, _)| writer != who.session) {
                let writer = writer.as_str();
                match &read {
                    None => {
                        return Some(format!(
                            "{shown} was modified by sibling subagent '{writer}' but this agent never read it. Read \
                             the file before writing to avoid overwriting the sibling's changes."
                        ));
                    }
                    Some(read) if written > read.at => {
                        return Some(format!(
                            "{shown} was modified by sibling subagent '{writer}' after this agent's last read. \
                             Re-read the file before writing."
                        ));
                    }
                    Some(_) => {}
                }
            }
            let read = read?;
            if read.stamp != current {
                return Some(format!(
                    "{shown} was modified since you last read it on disk (external edit or unrecorded writer). \
                     Re-read the file before writing."
                ));
            }
            read.partial.then(|| {
                format!(
                    "{shown} was last read with offset/limit pagination (partial view). Re-read the whole file before \
                     overwriting it."
                )
            })
        })
    }

    /// The turn of each of these files: a call that reads, changes and writes one waits for the others.
    pub fn turns(&self, paths: &[PathBuf]) -> Vec<Arc<Mutex<()>>> {
        let mut paths: Vec<&PathBuf> = paths.iter().collect();
        paths.sort();
        paths.dedup();
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let locks = paths.into_iter().map(|path| {
            let turn = turns.get(path).and_then(Weak::upgrade).unwrap_or_default();
            turns.insert(path.clone(), Arc::downgrade(&turn));
            turn
        });
        locks.collect()
    }

    fn lock(&self) -> MutexGuard<'_, AllReads> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, who: LookingCall<'_>, act: impl FnOnce(&mut SessionReads, u64) -> R) -> R {
        let mut all = self.lock();
        all.now += 1;
        let now = all.now;
        if all.sessions.len() >= SESSIONS_MAX
            && !all.sessions.contains_key(who.session)
            && let Some(idle) =
                all.sessions.iter().min_by_key(|(_, memory)| memory.used).map(|(id, _)| id.clone())
        {
            all.sessions.remove(&idle);
        }
        let memory = all.sessions.entry(who.session.clone()).or_insert_with(SessionReads::new);
        memory.used = now;
        if memory.turn != who.turn {
            who.turn.clone_into(&mut memory.turn);
            memory.last.clear();
            memory.in_a_row = 0;
            memory.pages.entries.clear();
        }
        act(memory, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_bounds() {
        let seen = ReadTracker::new();
        let file = tempfile::NamedTempFile::new().unwrap();
        let stamp = FileStamp::at(file.path()).unwrap();
        for nth in 0..SESSIONS_MAX + 50 {
            let session: SessionId = format!("s{nth}").parse().unwrap();
            let who = LookingCall { session: &session, turn: "1", call: "c" };
            for offset in 0..3 {
                seen.read(who, ReadPage { path: file.path().into(), offset, limit: 1 }, stamp, false);
            }
        }
        let session: SessionId = "busy".parse().unwrap();
        let who = LookingCall { session: &session, turn: "1", call: "c" };
        for nth in 0..PAGES_MAX as u64 + 50 {
            seen.read(who, ReadPage { path: format!("/x{nth}").into(), offset: nth, limit: 1 }, stamp, false);
            seen.failed(who, Path::new(&format!("/x{nth}")));
        }
        let all = seen.lock();
        assert_eq!(all.sessions.len(), SESSIONS_MAX);
        let busy = &all.sessions[&session];
        assert_eq!(
            (busy.pages.entries.len(), busy.files.entries.len(), busy.failures.entries.len()),
            (PAGES_MAX, FILES_MAX, FAILURES_MAX)
        );
    }
}
