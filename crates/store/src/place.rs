//! Whether a home's files are still where they were opened.
//!
//! A file that is deleted or replaced stays open: SQLite writes to it, syncs it and reports success, and all of it goes
//! with the process. So the writer asks before each commit, and again before it is acknowledged, whether the names of
//! the database, its log and the log's index still lead to the files that it has open. An inode that is open is not
//! given to another file, so device and inode are enough.
//!
//! Deliberately absent: a file that is overwritten in place (`cp` onto it). Its inode stays, and its bytes change with
//! every checkpoint of ours, too (`docs/limits.md`).

use crate::open::Home;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use throughline_core::port::StoreError;

/// A file under any name. Windows lets no process delete or replace one that is open, so there is nothing to tell
/// apart there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

/// The files of one connection, as they were when it was opened.
pub(crate) enum OpenFiles {
    /// By their names in the file system. The database is the first.
    Named(Vec<(PathBuf, Option<FileId>)>),
    /// Only SQLite's own layer knows them.
    Layered { database: PathBuf },
}

/// What became of a file's name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Displaced {
    path: PathBuf,
    is_database: bool,
    state: NameState,
}

#[derive(Debug, PartialEq, Eq)]
enum NameState {
    Gone,
    /// Another file has its name.
    Replaced,
    /// It cannot be asked.
    Unreadable(String),
}

impl OpenFiles {
    /// To be called once the connection has read something: before that it has no log.
    pub fn of(conn: &Connection, home: &Home) -> Self {
        if home.vfs.is_some() {
            return Self::Layered { database: home.database.clone() };
        }
        // SQLite follows links first: the log lies beside what a link leads to.
        let resolved =
            conn.path().filter(|path| !path.is_empty()).map_or(home.database.clone(), PathBuf::from);
        let beside = |suffix: &str| {
            let mut name = resolved.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        let paths = [home.database.clone(), beside("-wal"), beside("-shm")];
        Self::Named(paths.into_iter().map(|path| (path.clone(), file_id(&path).ok().flatten())).collect())
    }

    /// The database itself.
    pub fn database(&self) -> Option<FileId> {
        match self {
            Self::Named(files) => files.first().and_then(|(_, id)| *id),
            Self::Layered { .. } => None,
        }
    }

    /// The first file whose name leads elsewhere, or nowhere.
    pub fn displaced(&self, conn: &Connection) -> Option<Displaced> {
        match self {
            Self::Named(files) => files.iter().enumerate().find_map(|(nth, (path, id))| {
                let state = (*id).and_then(|id| state_of(path, id))?;
                Some(Displaced { path: path.clone(), is_database: nth == 0, state })
            }),
            Self::Layered { database } => {
                let is_database = layered::has_database_moved(conn);
                (is_database || layered::has_log_moved(conn)).then(|| Displaced {
                    path: database.clone(),
                    is_database,
                    state: NameState::Replaced,
                })
            }
        }
    }
}

impl Displaced {
    pub fn is_database(&self) -> bool {
        self.is_database
    }

    /// What happened, to which file, and what to do.
    pub fn told(&self) -> StoreError {
        let path = self.path.display();
        let why = match &self.state {
            NameState::Gone if self.is_database => format!(
                "{path} was deleted or moved away while the gateway ran. What is written now would be lost, so nothing \
                 more is accepted. Put the file back, or restore a backup, and start the gateway again"
            ),
            NameState::Replaced if self.is_database => format!(
                "{path} was replaced by another file while the gateway ran. What is written now would be lost, so \
                 nothing more is accepted. Start the gateway again to go on with the file that is there now"
            ),
            NameState::Gone | NameState::Replaced => format!(
                "{path} was deleted or replaced while the gateway ran, and belongs to the database beside it. What is \
                 written now could be lost, so nothing more is accepted. What was in it is kept: start the gateway again, \
                 and leave files that end in -wal and -shm alone while it runs"
            ),
            NameState::Unreadable(error) => {
                format!(
                    "{path} cannot be looked at any more ({error}), so nothing more is accepted until it can"
                )
            }
        };
        StoreError::Unwritable(why)
    }
}

fn state_of(path: &Path, opened: FileId) -> Option<NameState> {
    match file_id(path) {
        Ok(Some(found)) if found == opened => None,
        Ok(Some(_)) => Some(NameState::Replaced),
        Ok(None) => Some(NameState::Gone),
        Err(error) => Some(NameState::Unreadable(error.to_string())),
    }
}

/// None: there is nothing of that name.
#[cfg(unix)]
pub(crate) fn file_id(path: &Path) -> std::io::Result<Option<FileId>> {
    use std::io::ErrorKind;
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(path) {
        Ok(found) => Ok(Some(FileId { device: found.dev(), inode: found.ino() })),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
pub(crate) fn file_id(_: &Path) -> std::io::Result<Option<FileId>> {
    Ok(Some(FileId { device: 0, inode: 0 }))
}

/// The same question to a layer of SQLite's own. One that does not know it says nothing, which counts as "no".
#[allow(unsafe_code)]
mod layered {
    use rusqlite::Connection;
    use rusqlite::ffi::{
        SQLITE_FCNTL_HAS_MOVED, SQLITE_FCNTL_JOURNAL_POINTER, sqlite3_file, sqlite3_file_control,
    };
    use std::ffi::{c_int, c_void};

    const MAIN: &std::ffi::CStr = c"main";

    pub fn has_database_moved(conn: &Connection) -> bool {
        let mut moved: c_int = 0;
        // SAFETY: the handle is that of an open connection, and this question writes one integer.
        unsafe {
            sqlite3_file_control(
                conn.handle(),
                MAIN.as_ptr(),
                SQLITE_FCNTL_HAS_MOVED,
                (&raw mut moved).cast::<c_void>(),
            );
        }
        moved != 0
    }

    pub fn has_log_moved(conn: &Connection) -> bool {
        let mut log: *mut sqlite3_file = std::ptr::null_mut();
        let mut moved: c_int = 0;
        // SAFETY: the handle is that of an open connection; the first question writes one pointer, to a file that the
        // connection keeps open while it is borrowed here, and the second writes one integer.
        unsafe {
            sqlite3_file_control(
                conn.handle(),
                MAIN.as_ptr(),
                SQLITE_FCNTL_JOURNAL_POINTER,
                (&raw mut log).cast::<c_void>(),
            );
            if let Some(file) = log.as_ref()
                && let Some(methods) = file.pMethods.as_ref()
                && let Some(ask) = methods.xFileControl
            {
                ask(log, SQLITE_FCNTL_HAS_MOVED, (&raw mut moved).cast::<c_void>());
            }
        }
        moved != 0
    }
}
