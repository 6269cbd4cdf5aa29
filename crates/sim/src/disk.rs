//! A disk that forgets what was not synced, under the real SQLite.
//!
//! [`Disk`] is a set of files in memory, reached through a SQLite VFS of its own ([`Disk::vfs_name`]).
//! Reads see every write; power loss ([`Disk::crash`], or [`Disk::strike_at`] in the middle of an
//! operation) does not respect them. All fate is drawn from the seed.
//!
//! What holds:
//! - what was synced survives; what was not survives whole, torn between 512-byte sectors, or not at all,
//!   in any mixture, regardless of the order in which it was written
//! - a sector reaches the disk as it stood at some moment: never a later write without the earlier ones
//!   to the same sector, never damage beside the bytes that were written
//! - a file that grew may have its new length without its new bytes, and then shows zeros or junk
//! - names are as mortal as bytes: a new file may vanish until it is synced, a deleted one may return until
//!   its directory is (which the first sync of a journal does, too, as SQLite's Unix VFS has it)
//! - a connection that outlives [`Disk::crash`] or [`Disk::kill_process`] can neither read nor change
//!   anything, so the order in which a simulated process is torn down does not matter
//! - the same seed and the same calls give the same [`Disk::fingerprint`], regardless of what other disks do meanwhile
//!
//! What is absent:
//! - locks and shared memory. One connection at a time, which must say `PRAGMA locking_mode=EXCLUSIVE`
//!   before it first touches a WAL database: the WAL index then lives on its heap. A second connection to
//!   an open database is refused with `SQLITE_BUSY`
//! - faults of hardware that lies: bit rot, misdirected writes, a sync that reports success without having
//!   done anything, a sync that fails while power stays
//! - a truncation or deletion in parts, renames, and directories as such: a name is text, its directory is
//!   what stands before the last `/`
//! - SQLite's own random numbers. `random()`, `randomblob()` and the salts in a WAL come from one generator
//!   per process, which no VFS can seed; the fingerprint therefore looks past salts and checksums

mod content;
#[cfg(test)]
mod tests;
mod vfs;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::ffi;

use self::content::Content;
use crate::seed::Seed;

/// What a disk writes whole or not at all.
const SECTOR: u64 = 512;

/// What only a connection that has the database open may open.
const JOURNALS: c_int = ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL;

/// What the clock shows until [`Disk::set_time`]: 2026-01-01T00:00:00Z.
const START: Duration = Duration::from_secs(1_767_225_600);

/// A simulated disk. Clones are the same disk; it goes when the last clone and the last connection have.
#[derive(Clone)]
pub struct Disk {
    shared: Arc<Shared>,
}

/// The durable state of a disk at one moment, to begin other disks from. Bytes are shared, not copied.
#[derive(Clone)]
pub struct Image {
    files: Arc<BTreeMap<String, Content>>,
}

impl Disk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        Self::with_files(BTreeMap::new(), seed)
    }

    /// A disk that begins as another one stood when the image was taken; its fate is its own.
    pub fn from_image(image: &Image, seed: u64) -> Self {
        Self::with_files(BTreeMap::clone(&image.files), seed)
    }

    fn with_files(files: BTreeMap<String, Content>, seed: u64) -> Self {
        Self { shared: vfs::attach(State::new(files, Seed::new(seed))) }
    }

    /// Under which SQLite opens files on this disk. No other living disk has the name.
    pub fn vfs_name(&self) -> &'static str {
        self.shared.slot.name()
    }

    /// What would be left if power failed now and every pending operation were lost. To include those,
    /// [`Disk::settle`] first.
    pub fn image(&self) -> Image {
        let state = self.shared.state();
        let durable = state.durable_names.iter();
        let files = durable.map(|(name, id)| (name.clone(), state.files[id].durable.clone()));
        Image { files: Arc::new(files.collect()) }
    }

    /// Everything pending becomes durable, as on a machine left alone for a minute. Not an operation, and
    /// without effect while power is gone.
    pub fn settle(&self) {
        let mut state = self.shared.state();
        if state.struck {
            return;
        }
        state.files.values_mut().for_each(File::sync);
        state.durable_names = state.names.clone();
        state.collect();
    }

    /// Power fails, and returns: some of what is pending is kept, the rest is lost, and connections of
    /// before are dead. Ends a strike; a full disk stays full.
    pub fn crash(&self) {
        self.shared.state().crash();
    }

    /// The process dies and the machine does not: connections of before are dead, what is pending stays
    /// readable, and stays pending.
    pub fn kill_process(&self) {
        self.shared.state().end_lifetime();
    }

    /// Power fails during the `nth` operation from now, 1 being the next: it has some effect, all or none.
    /// From then on everything fails with `SQLITE_IOERR`, until [`Disk::crash`]. Replaces an earlier call.
    pub fn strike_at(&self, nth: u64) {
        assert!(nth > 0, "operations count from one");
        let mut state = self.shared.state();
        state.strike = Some(state.operations + nth);
    }

    /// Power does not fail after all. Ends what [`Disk::strike_at`] planned.
    pub fn stay_up(&self) {
        self.shared.state().strike = None;
    }

    /// Whether power is gone.
    pub fn has_struck(&self) -> bool {
        self.shared.state().struck
    }

    /// How many writes, syncs, truncations and deletions there have been.
    pub fn operations(&self) -> u64 {
        self.shared.state().operations
    }

    /// From now on a write that extends a file fails with `SQLITE_FULL`.
    pub fn fill(&self) {
        self.shared.state().full = true;
    }

    /// Ends [`Disk::fill`].
    pub fn free_space(&self) {
        self.shared.state().full = false;
    }

    /// The operator puts a copy of each file in its place. What has the old ones open goes on with those, which no name
    /// leads to any more. Not an operation, and safely on disk.
    pub fn replace_files(&self) {
        self.shared.state().replace_files();
    }

    /// From now on the disk hides whether a name leads to another file by now. Here only so that a judge can show that
    /// it would notice.
    pub fn hide_replacements(&self) {
        self.shared.state().hides_replacements = true;
    }

    /// The `nth` read from now, 1 being the next, fails once with `SQLITE_IOERR_READ`. Replaces an earlier
    /// call; a power loss forgets it.
    pub fn fail_reads_at(&self, nth: u64) {
        assert!(nth > 0, "reads count from one");
        let mut state = self.shared.state();
        state.failing_read = Some(state.reads + nth);
    }

    /// What SQLite takes for the current time (`datetime('now')`), counted from the Unix epoch. It stands
    /// still in between.
    pub fn set_time(&self, since_epoch: Duration) {
        self.shared.state().now = since_epoch;
    }

    /// A hash of all names, durable bytes and pending operations, comparable within one build. It does not
    /// see what SQLite draws from its process-wide generator: salts and checksums of a WAL, and the content
    /// of a rollback journal.
    pub fn fingerprint(&self) -> u64 {
        self.shared.state().fingerprint()
    }

    /// The files in which these bytes stand, somewhere, by their names.
    pub fn files_with(&self, bytes: &[u8]) -> Vec<String> {
        let state = self.shared.state();
        let holds = |id: &FileId| {
            let content = &state.files[id].live;
            let mut whole = vec![0; content.len() as usize];
            content.read(0, &mut whole);
            whole.windows(bytes.len()).any(|window| window == bytes)
        };
        state.names.iter().filter(|(_, id)| holds(id)).map(|(name, _)| name.clone()).collect()
    }

    /// How many files SQLite holds open, dead ones included. Zero once every connection is dropped.
    pub fn open_files(&self) -> usize {
        self.shared.state().open_files
    }
}

/// What clones of a disk, the files SQLite has open and (weakly) the VFS refer to.
struct Shared {
    state: Mutex<State>,
    slot: &'static vfs::Slot,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.slot.release();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct FileId(u64);

/// Fallible calls return the SQLite code that the VFS is to report.
struct State {
    /// Every file that a name may lead to, now or after power loss, and every open one.
    files: BTreeMap<FileId, File>,
    /// What an open finds.
    names: BTreeMap<String, FileId>,
    /// What is certain to be found after power loss.
    durable_names: BTreeMap<String, FileId>,
    next_id: u64,
    /// Rises when all connections die. A connection belongs to the one it was opened in.
    lifetime: u64,
    open_files: usize,
    operations: u64,
    strike: Option<u64>,
    struck: bool,
    full: bool,
    hides_replacements: bool,
    reads: u64,
    failing_read: Option<u64>,
    now: Duration,
    /// Drawn from by power loss alone, so that it depends on the operations and nothing else.
    fate: Seed,
    /// Drawn from by `xRandomness`.
    noise: Seed,
}

impl State {
    fn new(files: BTreeMap<String, Content>, mut seed: Seed) -> Self {
        let mut state = Self {
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            next_id: 0,
            lifetime: 0,
            open_files: 0,
            operations: 0,
            strike: None,
            struck: false,
            full: false,
            hides_replacements: false,
            reads: 0,
            failing_read: None,
            now: START,
            fate: seed.fork(),
            noise: seed.fork(),
        };
        for (name, content) in files {
            let id = state.create(File::new(Kind::of(&name), content));
            state.names.insert(name, id);
        }
        state.durable_names = state.names.clone();
        state
    }

    /// Whether a connection opened in `lifetime` can still do anything.
    fn check_alive(&self, lifetime: u64) -> Result<(), c_int> {
        match self.struck || lifetime != self.lifetime {
            true => Err(ffi::SQLITE_IOERR),
            false => Ok(()),
        }
    }

    fn open(&mut self, name: Option<&str>, flags: c_int) -> Result<FileId, c_int> {
        self.check_alive(self.lifetime)?;
        let wants = |flag| flags & flag != 0;
        let id = match name {
            Some(name) if !wants(ffi::SQLITE_OPEN_DELETEONCLOSE) => self.open_named(name, flags)?,
            _ => self.create(File::new(Kind::Temporary, Content::default())),
        };
        let file = self.file(id);
        file.owes_directory_sync |= wants(ffi::SQLITE_OPEN_CREATE) && wants(JOURNALS);
        if wants(ffi::SQLITE_OPEN_MAIN_DB) {
            if file.is_connected {
                return Err(ffi::SQLITE_BUSY);
            }
            file.is_connected = true;
        }
        file.handles += 1;
        self.open_files += 1;
        Ok(id)
    }

    fn open_named(&mut self, name: &str, flags: c_int) -> Result<FileId, c_int> {
        let wants = |flag| flags & flag != 0;
        if wants(JOURNALS) {
            self.check_connected(name)?;
        }
        match self.names.get(name) {
            Some(_) if wants(ffi::SQLITE_OPEN_EXCLUSIVE) => Err(ffi::SQLITE_CANTOPEN),
            Some(id) => Ok(*id),
            None if wants(ffi::SQLITE_OPEN_CREATE) => {
                let id = self.create(File::new(Kind::of(name), Content::default()));
                self.names.insert(name.to_owned(), id);
                Ok(id)
            }
            None => Err(ffi::SQLITE_CANTOPEN),
        }
    }

    fn close(&mut self, id: FileId, opened_in: u64, was_main: bool) {
        self.open_files -= 1;
        if opened_in == self.lifetime {
            let file = self.file(id);
            file.handles -= 1;
            file.is_connected &= !was_main;
            self.collect();
        }
    }

    fn read(&mut self, id: FileId, offset: u64, into: &mut [u8]) -> Result<(), c_int> {
        self.reads += 1;
        if self.failing_read == Some(self.reads) {
            return Err(ffi::SQLITE_IOERR_READ);
        }
        match self.file(id).live.read(offset, into) == into.len() {
            true => Ok(()),
            false => Err(ffi::SQLITE_IOERR_SHORT_READ),
        }
    }

    fn size(&mut self, id: FileId) -> u64 {
        self.file(id).live.len()
    }

    fn noise(&mut self, out: &mut [u8]) {
        for bytes in out.chunks_mut(8) {
            bytes.copy_from_slice(&self.noise.next_u64().to_le_bytes()[..bytes.len()]);
        }
    }

    fn write(&mut self, id: FileId, offset: u64, bytes: &[u8]) -> Result<(), c_int> {
        let end = offset + bytes.len() as u64;
        if self.full && end > self.file(id).live.len() {
            return Err(ffi::SQLITE_FULL);
        }
        let until = match self.begin_operation() {
            Extent::Nothing => offset,
            Extent::Part => {
                let mut cuts = sectors(offset, end).map(|sector| sector.start);
                let nth = self.fate.below(cuts.clone().count().max(1) as u64) as usize;
                cuts.nth(nth).unwrap_or(offset)
            }
            Extent::Whole => end,
        };
        if until > offset {
            let bytes = bytes[..(until - offset) as usize].into();
            self.file(id).change(Change::Write { offset, bytes });
        }
        self.end_operation()
    }

    fn truncate(&mut self, id: FileId, len: u64) -> Result<(), c_int> {
        match self.begin_operation() {
            Extent::Nothing => {}
            Extent::Part | Extent::Whole => self.file(id).change(Change::Truncate(len)),
        }
        self.end_operation()
    }

    fn sync(&mut self, id: FileId) -> Result<(), c_int> {
        let extent = self.begin_operation();
        let file = self.files.get_mut(&id).expect("an open file is kept");
        let keeps_name = match extent {
            Extent::Nothing => false,
            Extent::Part => {
                file.lose_some(&mut self.fate);
                self.fate.chance(1, 2)
            }
            Extent::Whole => {
                file.sync();
                true
            }
        };
        let syncs_directory = keeps_name && std::mem::take(&mut file.owes_directory_sync);
        let name = self.names.iter().find(|(_, named)| **named == id).map(|(name, _)| name.clone());
        if keeps_name && let Some(name) = name {
            if syncs_directory {
                self.sync_directory(directory(&name));
            }
            self.durable_names.insert(name, id);
            self.collect();
        }
        self.end_operation()
    }

    fn delete(&mut self, name: &str, and_then: Directory) -> Result<(), c_int> {
        self.check_alive(self.lifetime)?;
        self.check_connected(name)?;
        if !self.names.contains_key(name) {
            return Err(ffi::SQLITE_IOERR_DELETE_NOENT);
        }
        match (self.begin_operation(), and_then) {
            (Extent::Nothing, _) => {}
            (Extent::Part, _) | (Extent::Whole, Directory::Waits) => {
                self.names.remove(name);
            }
            (Extent::Whole, Directory::Syncs) => {
                self.names.remove(name);
                self.sync_directory(directory(name));
            }
        }
        self.collect();
        self.end_operation()
    }

    /// As SQLite on Unix has it: an empty file does not exist, so that an empty journal is not hot.
    fn exists(&self, name: &str) -> Result<bool, c_int> {
        self.check_alive(self.lifetime)?;
        Ok(self.names.get(name).is_some_and(|id| self.files[id].live.len() > 0))
    }

    fn crash(&mut self) {
        self.end_lifetime();
        self.strike = None;
        self.struck = false;
        self.failing_read = None;
        let names: BTreeSet<_> = self.names.keys().chain(self.durable_names.keys()).cloned().collect();
        for name in names {
            let (durable, live) = (self.durable_names.get(&name).copied(), self.names.get(&name).copied());
            let survivor = match (durable, live) {
                (durable, live) if durable == live => durable,
                // Deleted and created anew: between the two there was nothing.
                (Some(_), Some(_)) => [durable, live, None][self.fate.below(3) as usize],
                _ => [durable, live][self.fate.below(2) as usize],
            };
            match survivor {
                Some(id) => self.durable_names.insert(name, id),
                None => self.durable_names.remove(&name),
            };
        }
        self.names = self.durable_names.clone();
        self.collect();
        for file in self.files.values_mut() {
            file.lose_some(&mut self.fate);
        }
    }

    fn replace_files(&mut self) {
        let named: Vec<_> = self.names.iter().map(|(name, id)| (name.clone(), *id)).collect();
        for (name, id) in named {
            let copy = File::new(Kind::of(&name), self.file(id).live.clone());
            let copy = self.create(copy);
            self.names.insert(name, copy);
        }
        self.durable_names = self.names.clone();
        self.collect();
    }

    /// Whether no name leads to this file.
    fn has_moved(&self, id: FileId) -> bool {
        !self.hides_replacements && !self.names.values().any(|named| *named == id)
    }

    fn end_lifetime(&mut self) {
        self.lifetime += 1;
        for file in self.files.values_mut() {
            file.handles = 0;
            file.is_connected = false;
            file.owes_directory_sync = false;
        }
        self.collect();
    }

    /// How far the operation that begins now will get. The last one before darkness is the only one that
    /// may fall short.
    fn begin_operation(&mut self) -> Extent {
        self.operations += 1;
        self.struck = self.strike == Some(self.operations);
        match self.struck {
            true => [Extent::Nothing, Extent::Part, Extent::Whole][self.fate.below(3) as usize],
            false => Extent::Whole,
        }
    }

    fn end_operation(&self) -> Result<(), c_int> {
        self.check_alive(self.lifetime)
    }

    /// A journal is opened and deleted by the connection that has its database open. If none has,
    /// a dead connection reaches for it.
    fn check_connected(&self, journal: &str) -> Result<(), c_int> {
        let database = journal.strip_suffix("-wal").or_else(|| journal.strip_suffix("-journal"));
        let is_connected = match database {
            Some(name) => self.names.get(name).is_some_and(|id| self.files[id].is_connected),
            None => self.files.values().any(|file| file.is_connected),
        };
        if is_connected { Ok(()) } else { Err(ffi::SQLITE_IOERR) }
    }

    fn sync_directory(&mut self, synced: &str) {
        self.durable_names.retain(|name, _| directory(name) != synced);
        let live = self.names.iter().filter(|(name, _)| directory(name) == synced);
        self.durable_names.extend(live.map(|(name, id)| (name.clone(), *id)));
    }

    fn create(&mut self, file: File) -> FileId {
        let id = FileId(self.next_id);
        self.next_id += 1;
        self.files.insert(id, file);
        id
    }

    fn file(&mut self, id: FileId) -> &mut File {
        self.files.get_mut(&id).expect("`collect` keeps a file that has handles")
    }

    /// Forgets files that nothing leads to any more.
    fn collect(&mut self) {
        let (names, durable_names) = (&self.names, &self.durable_names);
        let is_named = |id: &FileId| names.values().chain(durable_names.values()).any(|named| named == id);
        self.files.retain(|id, file| file.handles > 0 || is_named(id));
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.names, &self.durable_names).hash(&mut hasher);
        for (id, file) in &self.files {
            id.hash(&mut hasher);
            file.hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// How much of an operation happens.
#[derive(Clone, Copy)]
enum Extent {
    Nothing,
    Part,
    Whole,
}

/// What becomes of the directory after a deletion.
enum Directory {
    Waits,
    Syncs,
}

fn directory(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// What a file is to SQLite. It matters to nothing but the fingerprint and how long bytes may live.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Database,
    Wal,
    Journal,
    /// Nameless: ends with its connection, so nothing of it is ever pending.
    Temporary,
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            name if name.ends_with("-wal") => Self::Wal,
            name if name.ends_with("-journal") => Self::Journal,
            _ => Self::Database,
        }
    }
}

struct File {
    kind: Kind,
    durable: Content,
    /// Since the last sync, oldest first.
    pending: Vec<Change>,
    /// `durable` with all of `pending`.
    live: Content,
    /// Of this lifetime.
    handles: usize,
    /// Whether one of the handles is a connection's database.
    is_connected: bool,
    /// SQLite on Unix syncs the directory, too, when it first syncs a journal it opened to create. Without
    /// that a rollback journal could return beside the WAL that replaced it, and undo the whole database.
    owes_directory_sync: bool,
}

enum Change {
    Write { offset: u64, bytes: Box<[u8]> },
    Truncate(u64),
}

impl File {
    fn new(kind: Kind, content: Content) -> Self {
        let live = content.clone();
        Self {
            kind,
            durable: content,
            pending: Vec::new(),
            live,
            handles: 0,
            is_connected: false,
            owes_directory_sync: false,
        }
    }

    fn change(&mut self, change: Change) {
        match &change {
            Change::Write { offset, bytes } => self.live.write(*offset, bytes),
            Change::Truncate(len) => self.live.set_len(*len),
        }
        if self.kind != Kind::Temporary {
            self.pending.push(change);
        }
    }

    fn sync(&mut self) {
        if self.pending.iter().any(|change| matches!(change, Change::Truncate(_))) {
            self.durable = self.live.clone();
            self.pending.clear();
        }
        for change in self.pending.drain(..) {
            if let Change::Write { offset, bytes } = change {
                self.durable.adopt(&self.live, offset, bytes.len());
            }
        }
    }

    /// Power fails: some of what is pending has reached the disk, and the rest never will.
    fn lose_some(&mut self, fate: &mut Seed) {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        // Drawn once for all, so that losing nothing, everything and a single write are all common.
        let kept_in_4 = fate.below(5);
        let torn_in_4 = fate.below(2);
        let shows_junk = fate.chance(1, 4);

        // The newest write to have reached each sector. It took along what was written there before.
        let mut newest = BTreeMap::new();
        let mut is_kept = Vec::with_capacity(pending.len());
        for (nth, change) in pending.iter().enumerate() {
            is_kept.push(fate.chance(kept_in_4, 4));
            if let (true, Change::Write { offset, bytes }) = (is_kept[nth], change) {
                let is_torn = fate.chance(torn_in_4, 4);
                for sector in sectors(*offset, offset + bytes.len() as u64) {
                    if !(is_torn && fate.chance(1, 2)) {
                        newest.insert(sector.start / SECTOR, nth);
                    }
                }
            }
        }

        let mut untouched = self.durable.len();
        for (nth, change) in pending.iter().enumerate() {
            match change {
                Change::Write { offset, bytes } => {
                    let end = offset + bytes.len() as u64;
                    for sector in sectors(*offset, end) {
                        if newest.get(&(sector.start / SECTOR)).is_some_and(|newest| *newest >= nth) {
                            let range = (sector.start - offset) as usize..(sector.end - offset) as usize;
                            self.durable.write(sector.start, &bytes[range]);
                        }
                    }
                    if is_kept[nth] && fate.chance(1, 2) && end > self.durable.len() {
                        self.durable.set_len(end); // the length is metadata, and travels alone
                    }
                }
                Change::Truncate(len) if is_kept[nth] => {
                    self.durable.set_len(*len);
                    untouched = untouched.min(*len);
                }
                Change::Truncate(_) => {}
            }
        }
        if shows_junk {
            for sector in sectors(untouched.next_multiple_of(SECTOR), self.durable.len()) {
                if !newest.contains_key(&(sector.start / SECTOR)) {
                    let junk = fate.next_u64().to_le_bytes().repeat(SECTOR as usize / 8);
                    self.durable.write(sector.start, &junk[..(sector.end - sector.start) as usize]);
                }
            }
        }
        self.live = self.durable.clone();
    }
}

/// The parts of a range of bytes that lie in one sector each.
fn sectors(start: u64, end: u64) -> impl Iterator<Item = Range<u64>> + Clone {
    let first = start / SECTOR;
    (first..end.div_ceil(SECTOR))
        .map(move |sector| (sector * SECTOR).max(start)..((sector + 1) * SECTOR).min(end))
}

impl Hash for File {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.hash_bytes(0, self.durable.to_vec(), hasher);
        self.pending.len().hash(hasher);
        for change in &self.pending {
            match change {
                Change::Write { offset, bytes } => self.hash_bytes(*offset, bytes.to_vec(), hasher),
                Change::Truncate(len) => len.hash(hasher),
            }
        }
    }
}

impl File {
    /// Without what SQLite drew from its process-wide generator, or derived from that: in a WAL (a header of
    /// 32 bytes, then pages with 24 bytes before each) eight bytes of salt and eight of checksum per header;
    /// in a rollback journal a nonce per header and a checksum per page, at places that only a parser knows.
    fn hash_bytes<H: Hasher>(&self, offset: u64, mut bytes: Vec<u8>, hasher: &mut H) {
        (offset, bytes.len()).hash(hasher);
        let end = offset + bytes.len() as u64;
        let mut blank = |from: u64, until: u64| {
            let clamp = |at: u64| at.clamp(offset, end) - offset;
            bytes[clamp(from) as usize..clamp(until) as usize].fill(0);
        };
        match self.kind {
            Kind::Database | Kind::Temporary => {}
            Kind::Journal => blank(0, u64::MAX),
            Kind::Wal => {
                blank(16, 32);
                let stride = 24 + self.wal_page_size();
                let frames = offset.saturating_sub(32) / stride..end.saturating_sub(32).div_ceil(stride);
                frames.map(|frame| 32 + frame * stride).for_each(|header| blank(header + 8, header + 24));
            }
        }
        bytes.hash(hasher);
    }

    /// As its header has it, unless the header is torn.
    fn wal_page_size(&self) -> u64 {
        let mut field = [0; 4];
        self.live.read(8, &mut field);
        let size = u32::from_be_bytes(field);
        let is_plausible = size.is_power_of_two() && (512..=65_536).contains(&size);
        u64::from(if is_plausible { size } else { 4096 })
    }
}
