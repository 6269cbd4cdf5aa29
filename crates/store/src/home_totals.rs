//! How much a home holds, before an agent runs in it: read only, beside any other process.

use crate::open::{Home, OpenError};
use std::fs;
use throughline_core::Time;

/// A home in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeTotals {
    /// Hermes' version of its tables.
    pub schema: i64,
    pub sessions: u64,
    pub messages: u64,
    /// The last message, by any author.
    pub newest: Option<Time>,
    /// Of the database with its log.
    pub bytes: u64,
}

impl Home {
    /// None: there is no database, so nothing was said here.
    pub fn totals(&self) -> Result<Option<HomeTotals>, OpenError> {
        let reader = match self.reader() {
            Err(OpenError::Missing(_)) => return Ok(None),
            reader => reader?,
        };
        let counted = reader.conn.query_row(
            "SELECT (SELECT version FROM schema_version LIMIT 1), (SELECT count(*) FROM sessions),
                    (SELECT count(*) FROM messages), (SELECT max(timestamp) FROM messages)",
            [],
            |row| {
                let newest: Option<f64> = row.get(3)?;
                Ok(HomeTotals {
                    schema: row.get(0)?,
                    sessions: row.get::<_, i64>(1)?.unsigned_abs(),
                    messages: row.get::<_, i64>(2)?.unsigned_abs(),
                    newest: newest.map(Time::from_seconds),
                    bytes: 0,
                })
            },
        );
        let size = |suffix: &str| {
            fs::metadata(format!("{}{suffix}", self.database.display())).map_or(0, |file| file.len())
        };
        let totals = counted.map_err(|error| self.sorted(error))?;
        Ok(Some(HomeTotals { bytes: size("") + size("-wal"), ..totals }))
    }
}
