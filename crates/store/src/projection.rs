//! `sessions.json`, for Hermes: written behind the truth, at most once a second, whole or not at all.
//!
//! A file that we wrote must not be mistaken for one that Hermes wrote, even if we were killed while
//! writing it. So the hash of what is about to be written is on disk before the file is, beside the
//! hash of the one it replaces. What Hermes wrote is taken over before it is replaced; what no program
//! can read is moved aside.

use crate::commit::{StoreWriter, transact};
use crate::fault::StoreFault;
use crate::route::stored_entry;
use crate::write::note;
use rusqlite::OptionalExtension;
use sha2::{Digest, Sha256};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use throughline_core::port::StoreError;
use throughline_core::time::Time;
use throughline_hermes::sessions_json::{Index, Standing};

pub(crate) const FILE: &str = "sessions.json";
/// Where a file goes that is not what it should be.
const UNREADABLE: &str = "sessions.json.unreadable";
/// Hermes looks for its own leftovers under this pattern.
const TEMPORARY: &str = ".sessions_throughline.tmp";
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Projection {
    /// Routes have changed since the file was written.
    pub dirty: bool,
    /// The last file of Hermes' that was taken over.
    pub seen: Option<String>,
    written: Option<Time>,
}

impl StoreWriter {
    /// The directory of the file, where this home keeps one.
    fn directory(&self) -> Option<&Path> {
        match self.home.vfs {
            Some(_) => None,
            None => self.home.sessions.as_deref(),
        }
    }

    pub(crate) fn project(&mut self, now: Time) -> Result<(), StoreFault> {
        let recent = self.projection.written.is_some_and(|written| now.since(written) < INTERVAL);
        match self.projection.dirty && !recent {
            true => self.project_now(now),
            false => Ok(()),
        }
    }

    pub(crate) fn project_now(&mut self, now: Time) -> Result<(), StoreFault> {
        let Some(directory) = self.directory().map(Path::to_owned) else { return Ok(()) };
        if !self.projection.dirty {
            return Ok(());
        }
        let there = fs::read(directory.join(FILE)).ok().map(|bytes| hex(&bytes));
        if self.is_foreign(there.as_ref())? {
            self.adopt_routes(now)?;
        }
        let text = self.index_text()?;
        let hash = hex(text.as_bytes());
        let nothing = there.is_none() && !self.has_routes()?;
        if there.as_ref() != Some(&hash) && !nothing {
            let unreadable = self.is_foreign(there.as_ref())?;
            self.remember(&[hash, there.unwrap_or_default()])?;
            let written = match unreadable {
                true => fs::rename(directory.join(FILE), directory.join(UNREADABLE)),
                false => Ok(()),
            };
            written.and_then(|()| replace(&directory, text.as_bytes())).map_err(|error| {
                let file = directory.join(FILE);
                StoreError::Unwritable(format!("{} could not be written: {error}", file.display()))
            })?;
            if unreadable {
                self.note_unreadable(now)?;
            }
        }
        self.projection.dirty = false;
        self.projection.written = Some(now);
        Ok(())
    }

    fn note_unreadable(&self, now: Time) -> Result<(), StoreFault> {
        let detail = format!("{FILE} could not be read; it is now {UNREADABLE}");
        transact(&self.reader.conn, |conn| note(conn, None, "sessions_file_unreadable", &detail, now))
    }

    fn has_routes(&self) -> Result<bool, StoreFault> {
        Ok(self.reader.conn.prepare_cached("SELECT 1 FROM tl_route")?.exists([])?)
    }

    /// Whether a file of this hash is neither of ours nor taken over.
    fn is_foreign(&self, hash: Option<&String>) -> Result<bool, StoreFault> {
        let Some(hash) = hash else { return Ok(false) };
        Ok(self.projection.seen.as_ref() != Some(hash) && !self.hashes()?.contains(hash))
    }

    fn index_text(&self) -> Result<String, StoreFault> {
        let mut statement = self.reader.conn.prepare_cached("SELECT entry FROM tl_route ORDER BY chat")?;
        let texts = statement.query_map([], |row| row.get::<_, String>(0))?;
        let entries = texts.map(|text| stored_entry(&text?)).collect::<Result<Vec<_>, _>>()?;
        let standing = match self.reader.variants.can.has_gateway_routing {
            true => Standing::Mirror,
            false => Standing::Only,
        };
        Ok(Index::text(entries.iter().map(|entry| (&entry.session_key, entry)), standing))
    }

    /// The file, if Hermes wrote it since we last looked, and it can be read.
    pub(crate) fn foreign_index(&self) -> Result<Option<(Index, String)>, StoreFault> {
        let Some(directory) = self.directory() else { return Ok(None) };
        let Ok(text) = fs::read_to_string(directory.join(FILE)) else { return Ok(None) };
        let hash = hex(text.as_bytes());
        match self.is_foreign(Some(&hash))? {
            true => Ok(Index::parse(&text).ok().map(|index| (index, hash))),
            false => Ok(None),
        }
    }

    /// Of the file as we last wrote it, and of the one before.
    fn hashes(&self) -> Result<Vec<String>, StoreFault> {
        let sql = "SELECT value FROM tl_meta WHERE key = 'sessions.json'";
        let value: Option<String> =
            self.reader.conn.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        Ok(value.iter().flat_map(|value| value.split(' ')).map(str::to_owned).collect())
    }

    fn remember(&self, hashes: &[String]) -> Result<(), StoreFault> {
        let sql = "INSERT INTO tl_meta (key, value) VALUES ('sessions.json', ?1)
                   ON CONFLICT(key) DO UPDATE SET value = excluded.value";
        transact(&self.reader.conn, |conn| {
            conn.prepare_cached(sql)?.execute([hashes.join(" ")])?;
            Ok(())
        })
    }
}

/// The old file or the new one, whenever the power fails.
pub(crate) fn replace(directory: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let temporary = directory.join(TEMPORARY);
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600); // it names people and their chats
    let mut file = options.open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, directory.join(FILE))?;
    #[cfg(unix)]
    fs::File::open(directory)?.sync_all()?; // the name is on disk, too; Windows keeps a journal of names
    Ok(())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
