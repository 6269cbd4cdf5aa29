//! A copy of a home's database, whole and verified, and the way back.
//!
//! Both ways are SQLite's own: a copy is one state of the database, also while others write, and what is
//! put back takes the place of everything in one transaction.

use crate::open::{Home, OpenError};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::Watch;

/// So many at a time, so that the watcher sees it go on.
const PAGES: i32 = 2_000;
/// Another process writes at this moment: it takes milliseconds.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSES_MAX: usize = 500;

/// What a database holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    pub sessions: i64,
    pub messages: i64,
    /// The number of the last message.
    pub last_row: i64,
}

impl Home {
    /// Copies the database into a new file, and reads the copy back.
    pub fn copy_to(&self, file: &Path, watch: Watch<'_>) -> Result<Holds, OpenError> {
        let source = self.open_to_read(&self.database)?;
        let mut copy = Connection::open(file).map_err(|error| self.sorted(error))?;
        self.transfer(&source, &mut copy, watch)?;
        drop(copy);
        let whole = self.verified(file)?;
        let there = self.count(&source)?;
        match whole == there {
            true => Ok(whole),
            false => Err(OpenError::Busy(self.database.clone())), // written to meanwhile: not what a repair begins with
        }
    }

    /// The database is again what this copy holds, whole or not at all.
    pub fn put_back(&self, file: &Path, watch: Watch<'_>) -> Result<Holds, OpenError> {
        let wanted = self.verified(file)?;
        let source = self.open_to_read(file)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut there =
            Connection::open_with_flags(&self.database, flags).map_err(|error| self.sorted(error))?;
        self.transfer(&source, &mut there, watch)?;
        drop(there);
        let found = self.verified(&self.database)?;
        match found == wanted {
            true => Ok(found),
            false => Err(self.damaged("what was put back is not what the backup holds")),
        }
    }

    pub fn holds(&self) -> Result<Holds, OpenError> {
        self.count(&self.open_to_read(&self.database)?)
    }

    /// How many messages came after this one.
    pub fn messages_after(&self, row: i64) -> Result<i64, OpenError> {
        let conn = self.open_to_read(&self.database)?;
        conn.query_row("SELECT count(*) FROM messages WHERE id > ?1", [row], |row| row.get(0))
            .map_err(|error| self.sorted(error))
    }

    pub fn has_session(&self, id: &str) -> Result<bool, OpenError> {
        let conn = self.open_to_read(&self.database)?;
        let known =
            conn.prepare("SELECT 1 FROM sessions WHERE id = ?1").and_then(|mut known| known.exists([id]));
        known.map_err(|error| self.sorted(error))
    }

    fn open_to_read(&self, file: &Path) -> Result<Connection, OpenError> {
        if !file.exists() {
            return Err(OpenError::Missing(file.to_owned()));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(file, flags).map_err(|error| self.sorted(error))
    }

    fn transfer(&self, from: &Connection, to: &mut Connection, watch: Watch<'_>) -> Result<(), OpenError> {
        let backup = Backup::new(from, to).map_err(|error| self.sorted(error))?;
        let mut pauses = 0;
        loop {
            let stepped = backup.step(PAGES).map_err(|error| self.sorted(error))?;
            let progress = backup.progress();
            let (left, all) = (progress.remaining.max(0) as u64, progress.pagecount.max(0) as u64);
            watch("copying the database", all.saturating_sub(left), all);
            match stepped {
                StepResult::Done => return Ok(()),
                StepResult::More => {}
                _ if pauses < PAUSES_MAX => {
                    pauses += 1;
                    sleep(PAUSE);
                }
                _ => return Err(OpenError::Busy(self.database.clone())),
            }
        }
    }

    fn verified(&self, file: &Path) -> Result<Holds, OpenError> {
        let conn = self.open_to_read(file)?;
        let opinion: String = conn
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| self.sorted(error))?;
        match opinion.as_str() {
            "ok" => self.count(&conn),
            _ => Err(self.damaged(&opinion)),
        }
    }

    fn count(&self, conn: &Connection) -> Result<Holds, OpenError> {
        let sql = "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM messages),
                          (SELECT COALESCE(max(id), 0) FROM messages)";
        let held = conn.query_row(sql, [], |row| {
            Ok(Holds { sessions: row.get(0)?, messages: row.get(1)?, last_row: row.get(2)? })
        });
        held.map_err(|error| self.sorted(error))
    }

    fn damaged(&self, detail: &str) -> OpenError {
        OpenError::Damaged { path: self.database.clone(), detail: detail.to_owned() }
    }
}
