//! A copy of a database, as it was at one moment, while others go on writing to it.
//!
//! - beside a write-ahead log the copy is read within one transaction: it is of one moment however long it takes,
//!   and no writer waits for it
//! - without one it is made in short steps, and begins anew whenever another process wrote in between
//! - what was copied is counted on both sides, and looked through; damage that the original has is copied, and told
//!
//! Any SQLite database can be copied, not only Hermes': a home has several. The original is never written to.

use crate::open::{Home, LinkPolicy, OpenError};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// A few megabytes: often enough for the watcher.
const PAGES_AT_ONCE: i32 = 1_000;
/// Another process holds the original; a minute of that is not a moment.
const BUSY_MAX: u32 = 600;
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// So that a writer without a log gets in between two steps.
const STEP_PAUSE: Duration = Duration::from_millis(5);
/// More kinds of damage than these would not be read.
const DAMAGE_MAX: usize = 20;

/// What a copy holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub bytes: u64,
    /// By table.
    pub rows: BTreeMap<String, u64>,
    /// What SQLite finds wrong with it; the original has the same.
    pub damage: Vec<String>,
}

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("{} is held by another process for too long; try again when it is less busy", .0.display())]
    Busy(PathBuf),
    #[error("{} could not be copied", path.display())]
    Broken {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(
        "the copy of {} has {copied} rows in {table}, the original {counted}; it was not kept",
        path.display()
    )]
    Uneven { path: PathBuf, table: String, counted: u64, copied: u64 },
}

/// Makes `to`, which must not be there. No link is followed on the way to `from`. `progress` hears how many bytes are done, and of how many.
pub fn copy(from: &Path, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Copied, CopyError> {
    let broken = |source: rusqlite::Error| CopyError::Broken { path: from.to_owned(), source: source.into() };
    let original = Home::database_alone(from)
        .connect_to_read(LinkPolicy::Refused)
        .map_err(|error| CopyError::Broken { path: from.to_owned(), source: error.into() })?;
    let mode: String = original.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(broken)?;
    let is_held = mode == "wal";
    if is_held {
        original.execute_batch("BEGIN").map_err(broken)?;
        // A transaction begins with what it reads.
        original.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(())).map_err(broken)?;
    }
    transfer(&original, from, to, if is_held { Duration::ZERO } else { STEP_PAUSE }, progress)?;
    let rows = if is_held { Some(counted(&original, &mut Vec::new()).map_err(broken)?) } else { None };
    let copied = inspect(to)?;
    // What a damaged file answers is not worth comparing.
    if let Some(rows) = rows.filter(|_| copied.damage.is_empty()) {
        for (table, &rows) in &rows {
            let copied = copied.rows.get(table).copied().unwrap_or(0);
            if copied != rows {
                let table = table.clone();
                return Err(CopyError::Uneven { path: from.to_owned(), table, counted: rows, copied });
            }
        }
    }
    Ok(copied)
}

fn transfer(
    original: &Connection,
    from: &Path,
    to: &Path,
    pause: Duration,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), CopyError> {
    let broken = |source: rusqlite::Error| CopyError::Broken { path: from.to_owned(), source: source.into() };
    let page: u64 = original
        .query_row("PRAGMA page_size", [], |row| row.get::<_, i64>(0))
        .map_err(broken)?
        .try_into()
        .unwrap_or(4_096);
    let mut copy = Connection::open(to).map_err(broken)?;
    // The caller puts it on disk when it is whole.
    copy.execute_batch("PRAGMA synchronous = OFF").map_err(broken)?;
    let backup = Backup::new(original, &mut copy).map_err(broken)?;
    let mut busy = 0;
    loop {
        let step = backup.step(PAGES_AT_ONCE).map_err(broken)?;
        let about = backup.progress();
        let (total, left) = (about.pagecount.max(0) as u64, about.remaining.max(0) as u64);
        progress((total - left.min(total)) * page, total * page);
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {
                busy = 0;
                if !pause.is_zero() {
                    sleep(pause);
                }
            }
            _ if busy == BUSY_MAX => return Err(CopyError::Busy(from.to_owned())),
            _ => {
                busy += 1;
                sleep(BUSY_PAUSE);
            }
        }
    }
}

/// Looks through a database that no other process has open. Nothing is written, not even a log beside it.
pub fn inspect(path: &Path) -> Result<Copied, CopyError> {
    let look = || -> rusqlite::Result<Copied> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let uri = crate::open::unchanging(path);
        let database = Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?;
        let mut damage = Vec::new();
        let mut statement = database.prepare(&format!("PRAGMA integrity_check({DAMAGE_MAX})"))?;
        for line in statement.query_map([], |row| row.get::<_, String>(0))? {
            match line {
                Ok(line) if line == "ok" => {}
                Ok(line) => damage.push(line),
                Err(error) if is_damage(&error) => {
                    damage.push(error.to_string()); // too bad to be looked through to its end
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let bytes = std::fs::metadata(path).map_or(0, |about| about.len());
        let rows = counted(&database, &mut damage)?;
        Ok(Copied { bytes, rows, damage })
    };
    look().map_err(|source| CopyError::Broken { path: path.to_owned(), source: source.into() })
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

impl CopyError {
    /// Whether the original is too badly damaged to be copied as a database.
    pub fn is_damage(&self) -> bool {
        let CopyError::Broken { source, .. } = self else { return false };
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&**source);
        while let Some(error) = next {
            if error.downcast_ref().is_some_and(is_damage)
                || matches!(error.downcast_ref(), Some(OpenError::Damaged { .. }))
            {
                return true;
            }
            next = error.source();
        }
        false
    }
}

/// Tables proper: an index for searching says nothing that they do not. One that is too damaged to be counted is left
/// out, and told.
fn counted(database: &Connection, damage: &mut Vec<String>) -> rusqlite::Result<BTreeMap<String, u64>> {
    let sql = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
               AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = database.prepare(sql)?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let names = names.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut rows = BTreeMap::new();
    for name in names {
        let sql = format!("SELECT count(*) FROM \"{}\"", name.replace('"', "\"\""));
        match database.query_row(&sql, [], |row| row.get::<_, i64>(0)) {
            Ok(count) => drop(rows.insert(name, count.max(0) as u64)),
            Err(error) if is_damage(&error) => damage.push(format!("{name} cannot be counted: {error}")),
            Err(error) => return Err(error),
        }
    }
    Ok(rows)
}
