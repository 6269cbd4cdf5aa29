//! What can go wrong inside the store, and how it is said outside.
//!
//! SQLite's codes are sorted by what the caller can do: wait, free some space, or give the home up.

use rusqlite::ErrorCode;
use throughline_core::port::StoreError;

/// Inside the store: a refusal that is already in the caller's words, or a failure that is not.
#[derive(Debug)]
pub(crate) enum Fault {
    Refused(StoreError),
    Sql(rusqlite::Error),
    /// A stored value that we could not have written.
    Malformed(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl Fault {
    /// In the words of the port. `doing` completes "could not …".
    pub(crate) fn while_doing(self, doing: &'static str) -> StoreError {
        match self {
            Fault::Refused(error) => error,
            Fault::Sql(error) => sorted(error, doing),
            Fault::Malformed(what) => StoreError::Broken { doing, source: what.into() },
        }
    }

    /// The whole batch fails with it, not only the commit that met it.
    pub(crate) fn ends_the_batch(&self) -> bool {
        match self {
            Fault::Refused(_) | Fault::Malformed(_) => false,
            Fault::Sql(error) => is_locked(error) || is_unwritable(error),
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

/// Attaches what was being done to a fault, where a method of the port ends.
pub(crate) trait While<T> {
    fn while_doing(self, doing: &'static str) -> Result<T, StoreError>;
}

impl<T, F: Into<Fault>> While<T> for Result<T, F> {
    fn while_doing(self, doing: &'static str) -> Result<T, StoreError> {
        self.map_err(|fault| fault.into().while_doing(doing))
    }
}
