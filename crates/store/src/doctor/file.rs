//! `sessions.json`, as a repair changes it: only the entries it is about, whole or not at all.
//!
//! A file and a database cannot be written at once. So the repair's own transaction keeps the text that the file is to
//! have, and which file it is to replace; it is written after the commit, and by whoever opens the home next if that
//! was not to be. A file that somebody else has written since stays.

use super::Look;
use crate::commit::transact;
use crate::fault::Fault;
use crate::open::Home;
use crate::projection::{FILE, hex, replace};
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use throughline_core::port::StoreError;
use throughline_hermes::json;

/// In `tl_meta`: the hash of the file that is replaced, a line break, and the text.
const WANTED: &str = "sessions.json wanted";

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    Same,
    Changed,
    Gone,
}

/// Given a chat and its entry.
pub(super) type Editing = Box<dyn Fn(&str, &mut Map<String, Value>) -> Edit>;

impl Look<'_> {
    /// The text of the file, where this home keeps one: as it is to be, if a repair was cut short before it.
    /// Malformed: it is there, and no text.
    pub(super) fn sessions_file(&self) -> Result<Option<String>, Fault> {
        let Some(directory) = directory(self.home) else { return Ok(None) };
        let text = match fs::read_to_string(directory.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Fault::Malformed(format!("{FILE} cannot be read: {error}"))),
        };
        let wanted = wanted(&self.reader.conn)?.filter(|wanted| wanted.replaces == hex(text.as_bytes()));
        Ok(Some(wanted.map_or(text, |wanted| wanted.text)))
    }

    /// The text as it is to be; None if nothing changes in it. What cannot be read is left as it is.
    pub(super) fn edited_file(&self, editing: &Editing) -> Result<Option<String>, Fault> {
        let Ok(Some(text)) = self.sessions_file() else { return Ok(None) };
        let Some(text) = json::read(&text) else { return Ok(None) };
        let Ok(Value::Object(mut entries)) = serde_json::from_str::<Value>(&text) else { return Ok(None) };
        let mut gone = Vec::new();
        let mut changed = false;
        for (chat, entry) in entries.iter_mut().filter(|(chat, _)| !chat.starts_with('_')) {
            let Value::Object(entry) = entry else { continue };
            match editing(chat, entry) {
                Edit::Same => {}
                Edit::Changed => changed = true,
                Edit::Gone => gone.push(chat.clone()),
            }
        }
        if !changed && gone.is_empty() {
            return Ok(None);
        }
        entries.retain(|chat, _| !gone.contains(chat));
        Ok(Some(json::dumps_indented(&Value::Object(entries))))
    }

    /// Within the repair's transaction.
    pub(super) fn want_file(&self, text: &str) -> Result<(), Fault> {
        let Some(directory) = directory(self.home) else { return Ok(()) };
        let there = fs::read(directory.join(FILE)).unwrap_or_default();
        let sql = "INSERT INTO tl_meta (key, value) VALUES (?1, ?2)
                   ON CONFLICT(key) DO UPDATE SET value = excluded.value";
        let value = format!("{}\n{text}", hex(&there));
        self.reader.conn.prepare_cached(sql)?.execute([WANTED, &value])?;
        Ok(())
    }
}

struct Wanted {
    replaces: String,
    text: String,
}

fn wanted(conn: &Connection) -> Result<Option<Wanted>, Fault> {
    let sql = "SELECT value FROM tl_meta WHERE key = ?1";
    let value: Option<String> = conn.prepare_cached(sql)?.query_row([WANTED], |row| row.get(0)).optional()?;
    Ok(value
        .as_deref()
        .and_then(|value| value.split_once('\n'))
        .map(|(replaces, text)| Wanted { replaces: replaces.to_owned(), text: text.to_owned() }))
}

fn directory(home: &Home) -> Option<&Path> {
    match home.vfs {
        Some(_) => None,
        None => home.sessions.as_deref(),
    }
}

/// The file gets the text that a repair wants it to have. Only for whoever owns the home.
pub(crate) fn finish_file(conn: &Connection, home: &Home) -> Result<(), Fault> {
    let (Some(wanted), Some(directory)) = (wanted(conn)?, directory(home)) else { return Ok(()) };
    let there = fs::read(directory.join(FILE)).unwrap_or_default();
    if hex(&there) == wanted.replaces {
        replace(directory, wanted.text.as_bytes()).map_err(|error| {
            let file = directory.join(FILE);
            StoreError::Unwritable(format!("{} could not be written: {error}", file.display()))
        })?;
    }
    transact(conn, |conn| {
        conn.prepare_cached("DELETE FROM tl_meta WHERE key = ?1")?.execute([WANTED])?;
        Ok(())
    })
}
