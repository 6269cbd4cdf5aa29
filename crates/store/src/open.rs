//! Opening a home: what the file is, whether it may be written, and what it needs first.
//!
//! A file is looked at before anything about it is changed. One that is not Hermes' store, is
//! damaged, or is newer than we know is left as it was found, with a sentence about what to do.

use crate::column_variants::ColumnVariants;
use crate::commit::StoreWriter;
use crate::fault::While;
use crate::filesystem;
use crate::place::{self, FileId};
use crate::read::StoreReader;
use crate::seen;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;
use throughline_core::port::StoreError;
use throughline_core::time::Time;
use throughline_hermes::schema::{FRESH, Verdict, verdict};

/// Ours, in order. A file here is never edited once released.
const MIGRATIONS: [&str; 9] = [
    include_str!("migrations/001.sql"),
    include_str!("migrations/002.sql"),
    include_str!("migrations/003.sql"),
    include_str!("migrations/004.sql"),
    include_str!("migrations/005.sql"),
    include_str!("migrations/006.sql"),
    include_str!("migrations/007.sql"),
    include_str!("migrations/008.sql"),
    include_str!("migrations/009.sql"),
];

/// Hermes' own writes take milliseconds; a process that holds the lock longer than this is stuck.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Every statement of a turn, and some more.
const STATEMENTS_KEPT: usize = 96;
/// A few thousand pages per checkpoint share its fsyncs; the log stays within some tens of megabytes.
const CHECKPOINT_PAGES: u32 = 4_000;
const LOG_BYTES_KEPT: u32 = 32 << 20;
/// Of pages kept in memory: what a busy writer comes back to, and what one question needs.
const WRITER_CACHE_KIB: i32 = 8_192;
const READER_CACHE_KIB: i32 = 2_048;

/// Where a home keeps its conversations.
#[derive(Clone, Debug)]
pub struct Home {
    /// Hermes' `state.db`.
    pub database: PathBuf,
    /// The directory of `sessions.json`; None: the file is neither read nor written.
    pub sessions: Option<PathBuf>,
    /// What this home's routes are filed under in `gateway_routing`: the resolved path of that directory.
    pub scope: String,
    pub filesystem: FileSystem,
    /// SQLite's layer below the file, by name. With one of these the file belongs to this process
    /// alone, and nothing but SQLite touches a disk.
    pub vfs: Option<String>,
    pub durability: Durability,
}

/// Whether a commit is on disk when it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    #[default]
    Full,
    /// It may be lost with the power. Here only so that the simulator can show that it would notice.
    Relaxed,
}

/// Whether a database may be reached through a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkPolicy {
    Followed,
    Refused,
}

/// Whether the file system must be one on which a write-ahead log is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSystem {
    #[default]
    Checked,
    /// The user says that it is.
    Trusted,
}

/// Why a home was not opened, by what its owner can do about it. The file is as it was found.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("there is no {}; name a home that has one, or start the gateway to make it", .0.display())]
    Missing(PathBuf),
    #[error(
        "{} is not a SQLite database; it was left as it is. Move it away to begin afresh, or name another home",
        .0.display()
    )]
    NotADatabase(PathBuf),
    #[error(
        "{} is damaged ({detail}); it was left as it is. Restore a backup, or try `sqlite3 state.db .recover` on a copy",
        path.display()
    )]
    Damaged { path: PathBuf, detail: String },
    #[error(
        "{} is a SQLite database of something else (it has no {lacking}); it was left as it is. Name another home",
        path.display()
    )]
    Foreign { path: PathBuf, lacking: String },
    #[error("{}: {}", path.display(), Verdict::TooOld(*version))]
    TooOld { path: PathBuf, version: i64 },
    #[error("{}: {}", path.display(), Verdict::ReadOnly(*version))]
    TooNew { path: PathBuf, version: i64 },
    #[error(
        "{} was last used by a newer Throughline (its tables are at {found}, this program knows {}); use that one",
        path.display(), MIGRATIONS.len()
    )]
    NewerOwner { path: PathBuf, found: usize },
    #[error(
        "{} was last used by an older Throughline; start the gateway on it once, then read it",
        .0.display()
    )]
    OlderOwner(PathBuf),
    #[error(
        "{} lies on {filesystem}, where SQLite's write-ahead log is not safe and a crash could corrupt it. \
         Move the home to a local disk; if you are certain that only this machine uses it, say so with \
         `throughline.allow_unsafe_filesystem: true` in config.yaml",
        path.display()
    )]
    UnsafeFileSystem { path: PathBuf, filesystem: String },
    #[error(
        "{} cannot use a write-ahead log (SQLite stays in mode {mode:?}); stop other programs that use the file, \
         and check that its directory can be written",
        path.display()
    )]
    NoLog { path: PathBuf, mode: String },
    #[error("{} is locked by another process; stop it, or wait, and try again", .0.display())]
    Busy(PathBuf),
    #[error("{} cannot be opened for this: {detail}. Check its permissions and the space on its disk", path.display())]
    Unwritable { path: PathBuf, detail: String },
    #[error(
        "{} was deleted or replaced while the gateway ran. Put it back, or restore a backup, and start the gateway again",
        .0.display()
    )]
    Displaced(PathBuf),
    #[error("{} could not be opened", path.display())]
    Broken {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Busy(_) => StoreError::Busy,
            OpenError::Unwritable { .. } | OpenError::Displaced(_) => {
                StoreError::Unwritable(error.to_string())
            }
            error => StoreError::Broken { doing: "open the home", source: Box::new(error) },
        }
    }
}

/// What holds for every connection of the process.
///
/// - SQLite counts every byte it asks for, behind one lock: the readers and writers of all homes would wait for each
///   other there. No code reads these counts
/// - a connection takes memory for twenty pages at once, and for as long as it is open: of hundreds of homes at rest
///   that is most of what they hold. Pages are taken one by one instead
/// - and 48 KB for small things, of which one at rest needs next to nothing: it gets a sixth of that
#[allow(unsafe_code)]
fn configure() {
    use rusqlite::ffi::{
        SQLITE_CONFIG_LOOKASIDE, SQLITE_CONFIG_MEMSTATUS, SQLITE_CONFIG_PAGECACHE, sqlite3_config,
    };
    const NONE: i32 = 0;
    const SMALL_BYTES: i32 = 1200;
    const SMALL_COUNT: i32 = 6;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the options take one integer; a pointer, which may be null, and two integers; and two integers. Where
        // a connection is open already they are refused, and nothing changes.
        unsafe {
            sqlite3_config(SQLITE_CONFIG_MEMSTATUS, NONE);
            sqlite3_config(SQLITE_CONFIG_PAGECACHE, std::ptr::null_mut::<std::ffi::c_void>(), NONE, NONE);
            sqlite3_config(SQLITE_CONFIG_LOOKASIDE, SMALL_BYTES, SMALL_COUNT);
        }
    });
}

/// What a file turned out to be.
enum FoundFile {
    Empty,
    Hermes(ColumnVariants),
}

impl Home {
    /// The usual places below a home's directory.
    pub fn at(directory: &Path) -> Self {
        let sessions = directory.join("sessions");
        Self {
            database: directory.join("state.db"),
            scope: resolved(&sessions).to_string_lossy().into_owned(),
            sessions: Some(sessions),
            filesystem: FileSystem::Checked,
            vfs: None,
            durability: Durability::Full,
        }
    }

    /// A database by itself, to be read.
    pub(crate) fn database_alone(path: &Path) -> Self {
        Self {
            database: path.to_owned(),
            sessions: None,
            scope: String::new(),
            filesystem: FileSystem::Trusted,
            vfs: None,
            durability: Durability::Full,
        }
    }

    /// The one writer of this home. An empty place becomes a home that Hermes can open, too.
    pub fn writer(&self, now: Time) -> Result<StoreWriter, OpenError> {
        self.refuse_unsafe_filesystem()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        self.reserve();
        let conn = self.connect(flags)?;
        let found = self.inspect(&conn)?;
        self.refuse_newer(&conn)?;
        self.switch_to_log(&conn)?;
        self.settle_log(&conn)?;
        let variants = match found {
            FoundFile::Hermes(variants) => variants,
            FoundFile::Empty => self.found(&conn)?,
        };
        self.migrate(&conn)?;
        self.set_baseline(&conn, now)?;
        if variants.defers_indexing {
            let off = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false);
            off.map_err(|error| self.sorted(error))?;
        }
        self.finish_routes(&conn)?;
        let writer = StoreWriter::new(StoreReader { conn, variants }, self.clone());
        writer.adopted(now).map_err(|error| self.store_error(error))
    }

    /// The writer of the same file once more. Where that is gone, nothing is made in its place.
    pub fn writer_of(&self, file: FileId, now: Time) -> Result<StoreWriter, OpenError> {
        match place::file_id(&self.database) {
            Ok(Some(found)) if found == file => self.writer(now),
            _ => Err(OpenError::Displaced(self.database.clone())),
        }
    }

    /// A reader, with or without a writer beside it. It never changes the file.
    pub fn reader(&self) -> Result<StoreReader, OpenError> {
        if self.vfs.is_none() && !self.database.exists() {
            return Err(OpenError::Missing(self.database.clone()));
        }
        let conn = self.connect_to_read(LinkPolicy::Followed)?;
        let FoundFile::Hermes(variants) = self.inspect(&conn)? else {
            return Err(OpenError::Missing(self.database.clone()));
        };
        match self.owner(&conn)? {
            0 => self.run(&conn, &temporary(&MIGRATIONS.concat()))?,
            found if found > MIGRATIONS.len() => {
                return Err(OpenError::NewerOwner { path: self.database.clone(), found });
            }
            found if found < MIGRATIONS.len() => return Err(OpenError::OlderOwner(self.database.clone())),
            _ => {}
        }
        Ok(StoreReader { conn, variants })
    }

    /// To repair a home that this process has claimed: as a writer, but nothing is taken over from Hermes
    /// first, and Hermes' triggers stay on, because a repair changes rows that it wrote.
    pub(crate) fn mending(&self, now: Time) -> Result<StoreReader, OpenError> {
        self.refuse_unsafe_filesystem()?;
        if self.vfs.is_none() && !self.database.exists() {
            return Err(OpenError::Missing(self.database.clone()));
        }
        let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        let FoundFile::Hermes(variants) = self.inspect(&conn)? else {
            return Err(OpenError::Missing(self.database.clone()));
        };
        self.refuse_newer(&conn)?;
        self.switch_to_log(&conn)?;
        self.migrate(&conn)?;
        self.set_baseline(&conn, now)?;
        Ok(StoreReader { conn, variants })
    }

    fn refuse_unsafe_filesystem(&self) -> Result<(), OpenError> {
        if self.vfs.is_some() || self.filesystem == FileSystem::Trusted {
            return Ok(());
        }
        match filesystem::unsafe_for_wal(&self.database) {
            Some(filesystem) => Err(OpenError::UnsafeFileSystem { path: self.database.clone(), filesystem }),
            None => Ok(()),
        }
    }

    /// Makes the file for its owner alone, if there is none; SQLite gives its mode to the log and its index. What
    /// goes wrong here goes wrong when it is opened, and is told then.
    fn reserve(&self) {
        #[cfg(unix)]
        if self.vfs.is_none() && !self.database.exists() {
            let mut options = std::fs::OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let _ = options.create_new(true).write(true).open(&self.database);
        }
    }

    fn connect(&self, flags: OpenFlags) -> Result<Connection, OpenError> {
        configure();
        let opened = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.database, flags, vfs.as_str()),
            None => Connection::open_with_flags(&self.database, flags),
        };
        let conn = opened.map_err(|error| self.sorted(error))?;
        if self.vfs.is_some() {
            // Before anything is read: without shared memory a log can only be opened by its one owner.
            self.run(&conn, "PRAGMA locking_mode = EXCLUSIVE")?;
        }
        self.prepare(&conn)?;
        Ok(conn)
    }

    /// A home on a disk that cannot be written has no place for the log's index. If there is no
    /// log either, the file is all there is, and can be read without one.
    pub(crate) fn connect_to_read(&self, links: LinkPolicy) -> Result<Connection, OpenError> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if links == LinkPolicy::Refused {
            flags |= OpenFlags::SQLITE_OPEN_NOFOLLOW;
        }
        let conn = self.connect(flags)?;
        let looked = conn.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()));
        let log = PathBuf::from(format!("{}-wal", self.database.display()));
        match looked {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) && !log.exists() => {
                let conn = Connection::open_with_flags(
                    unchanging(&self.database),
                    flags | OpenFlags::SQLITE_OPEN_URI,
                )
                .map_err(|error| self.sorted(error))?;
                self.prepare(&conn)?;
                Ok(conn)
            }
            _ => Ok(conn), // the inspection finds any other fault
        }
    }

    fn prepare(&self, conn: &Connection) -> Result<(), OpenError> {
        let prepared = conn.busy_timeout(BUSY_TIMEOUT).and_then(|()| {
            seen::define(conn)?;
            conn.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
            conn.execute_batch(&format!(
                "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{READER_CACHE_KIB};"
            ))
        });
        prepared.map_err(|error| self.sorted(error))
    }

    fn inspect(&self, conn: &Connection) -> Result<FoundFile, OpenError> {
        let path = || self.database.clone();
        let count = |sql: &str| -> Result<i64, OpenError> {
            conn.query_row(sql, [], |row| row.get(0)).map_err(|error| self.sorted(error))
        };
        if count("SELECT count(*) FROM sqlite_master")? == 0 {
            return Ok(FoundFile::Empty);
        }
        let known = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('schema_version', 'sessions')";
        if count(known)? < 2 {
            return Err(OpenError::Foreign { path: path(), lacking: "table of Hermes' sessions".into() });
        }
        let version = conn
            .query_row("SELECT version FROM schema_version LIMIT 1", [], |row| row.get(0))
            .optional()
            .map_err(|error| self.sorted(error))?;
        match version.map(verdict) {
            None => Err(OpenError::Foreign { path: path(), lacking: "schema version".into() }),
            Some(Verdict::TooOld(version)) => Err(OpenError::TooOld { path: path(), version }),
            Some(Verdict::ReadOnly(version)) if !conn.is_readonly("main").unwrap_or(false) => {
                Err(OpenError::TooNew { path: path(), version })
            }
            Some(Verdict::Open | Verdict::ReadOnly(_)) => {
                let variants = ColumnVariants::read(conn).map_err(|error| self.sorted(error))?;
                variants
                    .map(FoundFile::Hermes)
                    .map_err(|lacking| OpenError::Foreign { path: path(), lacking })
            }
        }
    }

    /// At which of our migrations the file is; 0 if we never owned it.
    fn owner(&self, conn: &Connection) -> Result<usize, OpenError> {
        let read = || -> rusqlite::Result<usize> {
            if !conn.table_exists(None, "tl_meta")? {
                return Ok(0);
            }
            let value: Option<String> = conn
                .query_row("SELECT value FROM tl_meta WHERE key = 'schema'", [], |row| row.get(0))
                .optional()?;
            Ok(value.and_then(|value| value.parse().ok()).unwrap_or(0))
        };
        read().map_err(|error| self.sorted(error))
    }

    fn refuse_newer(&self, conn: &Connection) -> Result<(), OpenError> {
        match self.owner(conn)? {
            found if found > MIGRATIONS.len() => {
                Err(OpenError::NewerOwner { path: self.database.clone(), found })
            }
            _ => Ok(()),
        }
    }

    fn switch_to_log(&self, conn: &Connection) -> Result<(), OpenError> {
        let mode: String = conn
            .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
            .map_err(|error| self.sorted(error))?;
        if mode != "wal" {
            return Err(OpenError::NoLog { path: self.database.clone(), mode });
        }
        let synchronous = match self.durability {
            Durability::Full => "FULL",
            Durability::Relaxed => "NORMAL",
        };
        self.run(
            conn,
            &format!(
                "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
                 PRAGMA journal_size_limit = {LOG_BYTES_KEPT}; PRAGMA cache_size = -{WRITER_CACHE_KIB};"
            ),
        )
    }

    /// A log that a killed process left may hold pages that the system no longer means to write: after an fsync that
    /// failed they count as clean. They can be read, so what they hold would be taken for durable, and what is written
    /// behind them would be lost with them. So the database gets the whole log, and confirms it, before anything is added.
    fn settle_log(&self, conn: &Connection) -> Result<(), OpenError> {
        let sql = "PRAGMA wal_checkpoint(PASSIVE)"; // waits for no reader; one beside us may keep some of the log
        conn.query_row(sql, [], |_| Ok(())).map_err(|error| self.sorted(error))
    }

    /// Hermes' whole schema in one transaction, unless another process was quicker.
    fn found(&self, conn: &Connection) -> Result<ColumnVariants, OpenError> {
        let founded = in_one_transaction(conn, || {
            let empty: bool =
                conn.query_row("SELECT count(*) = 0 FROM sqlite_master", [], |row| row.get(0))?;
            let statements = if empty { FRESH } else { &[] };
            statements.iter().try_for_each(|statement| conn.execute_batch(statement))
        });
        founded.map_err(|error| self.sorted(error))?;
        match self.inspect(conn)? {
            FoundFile::Hermes(variants) => Ok(variants),
            FoundFile::Empty => Err(OpenError::Missing(self.database.clone())),
        }
    }

    fn migrate(&self, conn: &Connection) -> Result<(), OpenError> {
        let known = self.owner(conn)?;
        if known >= MIGRATIONS.len() {
            return Ok(());
        }
        // All of them or none: a process that is killed in between must not leave a home that no reader opens.
        let migrated = in_one_transaction(conn, || {
            MIGRATIONS.iter().skip(known).try_for_each(|migration| conn.execute_batch(migration))?;
            let record = "INSERT INTO tl_meta (key, value) VALUES ('schema', ?1)
                          ON CONFLICT(key) DO UPDATE SET value = excluded.value";
            conn.execute(record, [MIGRATIONS.len().to_string()]).map(drop)
        });
        migrated.map_err(|error| self.sorted(error))
    }

    /// Once: what was there before this moment is not ours to act on.
    fn set_baseline(&self, conn: &Connection, now: Time) -> Result<(), OpenError> {
        let known = conn.prepare("SELECT 1 FROM tl_meta WHERE key = 'baseline'");
        let known = known.and_then(|mut known| known.exists([])).map_err(|error| self.sorted(error))?;
        if known {
            return Ok(());
        }
        let sql = "INSERT OR IGNORE INTO tl_meta (key, value) VALUES ('baseline', ?1)";
        conn.execute(sql, [now.0.to_string()]).map(drop).map_err(|error| self.sorted(error))
    }

    fn run(&self, conn: &Connection, sql: &str) -> Result<(), OpenError> {
        conn.execute_batch(sql).map_err(|error| self.sorted(error))
    }

    pub(crate) fn sorted(&self, error: rusqlite::Error) -> OpenError {
        let path = self.database.clone();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotADatabase(path),
            Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged { path, detail: error.to_string() },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Busy(path),
            Some(
                ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure,
            ) => OpenError::Unwritable { path, detail: error.to_string() },
            _ => OpenError::Broken { path, source: Box::new(error) },
        }
    }

    /// What a repair that was cut short wanted `sessions.json` to say.
    pub(crate) fn finish_routes(&self, conn: &Connection) -> Result<(), OpenError> {
        let finished = crate::doctor::file::finish_file(conn, self).while_doing("write sessions.json");
        finished.map_err(|error| self.store_error(error))
    }

    fn store_error(&self, error: StoreError) -> OpenError {
        let path = self.database.clone();
        match error {
            StoreError::Busy => OpenError::Busy(path),
            StoreError::Unwritable(detail) => OpenError::Unwritable { path, detail },
            error => OpenError::Broken { path, source: Box::new(error) },
        }
    }
}

fn in_one_transaction(
    conn: &Connection,
    work: impl FnOnce() -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let worked = work().and_then(|()| conn.execute_batch("COMMIT"));
    if worked.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    worked
}

/// The same tables, empty and for this connection only: a home we never owned reads like one in
/// which we have done nothing yet.
fn temporary(migration: &str) -> String {
    migration
        .replace("CREATE TABLE ", "CREATE TEMP TABLE ")
        .replace("CREATE INDEX ", "CREATE INDEX temp.")
        .replace("CREATE UNIQUE INDEX ", "CREATE UNIQUE INDEX temp.")
}

/// As Python resolves it: links are followed as far as there is something to follow.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for ancestor in absolute.ancestors() {
        if let (Ok(real), Ok(rest)) = (ancestor.canonicalize(), absolute.strip_prefix(ancestor)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    absolute
}

/// A file that no process changes, and that is read without a log.
pub(crate) fn unchanging(path: &Path) -> String {
    format!("file:{}?immutable=1", percent_encoded(path))
}

fn percent_encoded(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
    let text = path.to_string_lossy();
    text.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
