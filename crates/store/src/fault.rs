//! What can go wrong inside the store, and how it is said outside.
//!
//! SQLite's codes are sorted by what the caller can do: wait, free some space, or give the home up.

use rusqlite::{ErrorCode, ffi};
use std::path::Path;
use throughline_core::port::StoreError;

/// Inside the store: a refusal that is already in the caller's words, or a failure that is not.
#[derive(Debug)]
pub(crate) enum StoreFault {
    Refused(StoreError),
    Sql(rusqlite::Error),
    /// A stored value that we could not have written.
    Malformed(String),
}

impl From<rusqlite::Error> for StoreFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for StoreFault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl StoreFault {
    /// In the words of the port. `doing` completes "could not …".
    pub(crate) fn while_doing(self, doing: &'static str) -> StoreError {
        match self {
            StoreFault::Refused(error) => error,
            StoreFault::Sql(error) => sorted(error, doing),
            StoreFault::Malformed(what) => StoreError::Broken { doing, source: what.into() },
        }
    }

    /// A database that cannot be written is named, with what to do about it.
    pub(crate) fn of(self, database: &Path) -> Self {
        match self {
            StoreFault::Sql(error) if is_unwritable(&error) => {
                StoreFault::Refused(StoreError::Unwritable(unwritable(&error, database)))
            }
            other => other,
        }
    }

    /// The whole batch fails with it, not only the commit that met it.
    pub(crate) fn ends_the_batch(&self) -> bool {
        match self {
            StoreFault::Refused(_) | StoreFault::Malformed(_) => false,
            StoreFault::Sql(error) => is_locked(error) || is_unwritable(error),
        }
    }
}

pub(crate) fn sorted(error: rusqlite::Error, doing: &'static str) -> StoreError {
    if is_locked(&error) {
        return StoreError::Busy;
    }
    match is_unwritable(&error) {
        true => StoreError::Unwritable(error.to_string()),
        false => StoreError::Broken { doing, source: Box::new(error) },
    }
}

pub(crate) fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn is_unwritable(error: &rusqlite::Error) -> bool {
    let unwritable =
        [ErrorCode::DiskFull, ErrorCode::ReadOnly, ErrorCode::SystemIoFailure, ErrorCode::CannotOpen];
    error.sqlite_error_code().is_some_and(|code| unwritable.contains(&code))
}

/// What happened, to which file, and what to do.
fn unwritable(error: &rusqlite::Error, database: &Path) -> String {
    let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
    let detail = match extended {
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC => {
            " in fsync: the disk did not confirm what was written"
        }
        ffi::SQLITE_IOERR_WRITE => " in write",
        ffi::SQLITE_IOERR_TRUNCATE => " in truncate",
        ffi::SQLITE_IOERR_READ => " in read",
        _ => "",
    };
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "Free some space on its file system",
        Some(ErrorCode::ReadOnly) => {
            "Make its file system writable again (mount -o remount,rw), and see in the system's log (dmesg) why it is not"
        }
        Some(ErrorCode::CannotOpen) => {
            "See whether its directory is there and belongs to this user, and whether the process may open more files \
             (ulimit -n)"
        }
        _ => {
            "See in the system's log (dmesg) what is wrong with the disk, and whether its file system is still writable"
        }
    };
    let path = database.display();
    format!(
        "{path}: {error}{detail}. {advice}. What was acknowledged is kept; the gateway goes on as soon as it can write"
    )
}

/// Attaches what was being done to a fault, where a method of the port ends.
pub(crate) trait While<T> {
    fn while_doing(self, doing: &'static str) -> Result<T, StoreError>;
}

impl<T, F: Into<StoreFault>> While<T> for Result<T, F> {
    fn while_doing(self, doing: &'static str) -> Result<T, StoreError> {
        self.map_err(|fault| fault.into().while_doing(doing))
    }
}
