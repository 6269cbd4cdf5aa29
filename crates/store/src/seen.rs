//! Keys of messages as they are kept for ever: as digests.
//!
//! A digest recognises a message that a platform delivers again, and tells nothing of it. The key itself lies with its
//! message and goes with it.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use sha2::{Digest as _, Sha256};

/// A key as `tl_seen` has it.
pub(crate) fn seen_as(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `tl_digest(text)`, for migrations and checks: NULL of NULL.
pub(crate) fn define(conn: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    conn.create_scalar_function("tl_digest", 1, flags, |context| {
        let key: Option<String> = context.get(0)?;
        Ok(key.as_deref().map(seen_as))
    })
}
