//! `sessions.json`, as a repair changes it: only the entries it is about, whole or not at all.
//!
//! A file and a database cannot be written at once. So the repair's own transaction keeps the entries that the file is
//! to have, and which file that is; it is written when all repairs are done, and if that
//! failed, by the process that opens the home next. A file that another program has written since stays.

use super::{Look, route};
use crate::commit::transact;
use crate::fault::StoreFault;
use crate::open::Home;
use crate::projection::{FILE, hex, replace};
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use throughline_core::port::StoreError;
use throughline_hermes::json;

/// In `tl_meta`: the hash of the file that is replaced. Followed by a space and a chat: what its entry becomes, as
/// JSON, or nothing if it goes. So what a repair writes is as much as it changes, however many chats there are.
const WANTED: &str = "sessions.json wanted";

/// What becomes of an entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EntryEdit {
    Same,
    Changed(Map<String, Value>),
    Gone,
}

/// Given a chat and its entry.
pub(super) type Editing = Box<dyn Fn(&str, &Map<String, Value>) -> EntryEdit>;

/// What becomes of which chat's entry; None: it goes.
pub(super) type Edits = Vec<(String, Option<Map<String, Value>>)>;

/// The file as a run of repairs finds it and changes it.
pub(super) struct SessionsFile {
    hash: String,
    /// Whether a chat is led by it, see [`counts`].
    pub counts: bool,
    entries: Map<String, Value>,
}

impl SessionsFile {
    /// None: there is no file, or none that can be read. It is left as it is then.
    pub fn of(home: &Home, conn: &Connection) -> Option<Self> {
        let text = fs::read_to_string(directory(home)?.join(FILE)).ok()?;
        let hash = hex(text.as_bytes());
        let counts = counts(conn, &hash).unwrap_or(true);
        Some(Self { hash, counts, entries: parsed(&text)? })
    }

    /// What a repair changes in it.
    pub fn edits(&self, editing: &Editing) -> Edits {
        let mut edits = Vec::new();
        for (chat, entry) in self.entries.iter().filter(|(chat, _)| !chat.starts_with('_')) {
            let Value::Object(entry) = entry else { continue };
            match editing(chat, entry) {
                EntryEdit::Same => {}
                EntryEdit::Changed(entry) => edits.push((chat.clone(), Some(entry))),
                EntryEdit::Gone => edits.push((chat.clone(), None)),
            }
        }
        edits
    }

    pub fn apply(&mut self, edits: Edits) {
        apply(&mut self.entries, edits);
    }

    pub fn entry(&self, chat: &str) -> Option<&Value> {
        self.entries.get(chat)
    }

    /// Within the repair's transaction.
    pub fn want(&self, conn: &Connection, edits: &Edits) -> Result<(), StoreFault> {
        let sql = "INSERT INTO tl_meta (key, value) VALUES (?1, ?2)
                   ON CONFLICT(key) DO UPDATE SET value = excluded.value";
        let mut statement = conn.prepare_cached(sql)?;
        statement.execute([WANTED, &self.hash])?;
        for (chat, entry) in edits {
            let text = entry.as_ref().map_or(String::new(), |entry| Value::Object(entry.clone()).to_string());
            statement.execute([&format!("{WANTED} {chat}"), &text])?;
        }
        Ok(())
    }
}

/// Whether the file of this hash says where chats lead: unless the home is ours and we wrote it, and so know better.
fn counts(conn: &Connection, hash: &str) -> Result<bool, StoreFault> {
    if !route::is_ours(conn)? {
        return Ok(true);
    }
    let sql = "SELECT value FROM tl_meta WHERE key = 'sessions.json'";
    let known: Option<String> = conn.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(!known.is_some_and(|known| known.split(' ').any(|known| known == hash)))
}

fn parsed(text: &str) -> Option<Map<String, Value>> {
    match serde_json::from_str(&json::read(text)?) {
        Ok(Value::Object(entries)) => Some(entries),
        _ => None,
    }
}

fn apply(entries: &mut Map<String, Value>, edits: Edits) {
    let mut gone = HashSet::new();
    for (chat, entry) in edits {
        match entry {
            Some(entry) => drop(entries.insert(chat, Value::Object(entry))),
            None => drop(gone.insert(chat)),
        }
    }
    if !gone.is_empty() {
        entries.retain(|chat, _| !gone.contains(chat)); // in the order of the file
    }
}

impl Look<'_> {
    /// The text of the file, where this home keeps one: as it is to be, if a repair was cut short before it.
    /// Malformed: it is there, and no text.
    pub(super) fn sessions_file(&self) -> Result<Option<String>, StoreFault> {
        let Some(directory) = directory(self.home) else { return Ok(None) };
        let text = match fs::read_to_string(directory.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreFault::Malformed(format!("{FILE} cannot be read: {error}"))),
        };
        let edited = wanted(&self.reader.conn)?.and_then(|wanted| wanted.edited(&text));
        Ok(Some(edited.unwrap_or(text)))
    }

    /// The same, if a chat is led by it.
    pub(super) fn leading_file(&self) -> Result<Option<String>, StoreFault> {
        let bytes = directory(self.home).and_then(|directory| fs::read(directory.join(FILE)).ok());
        match bytes {
            Some(bytes) if counts(&self.reader.conn, &hex(&bytes))? => self.sessions_file(),
            _ => Ok(None),
        }
    }
}

struct WantedFile {
    replaces: String,
    edits: Edits,
}

impl WantedFile {
    /// None: another program has written the file since.
    fn edited(self, text: &str) -> Option<String> {
        if hex(text.as_bytes()) != self.replaces {
            return None;
        }
        let mut entries = parsed(text)?;
        apply(&mut entries, self.edits);
        Some(json::dumps_indented(&Value::Object(entries)))
    }
}

fn wanted(conn: &Connection) -> Result<Option<WantedFile>, StoreFault> {
    let sql = "SELECT value FROM tl_meta WHERE key = ?1";
    let hash: Option<String> = conn.prepare_cached(sql)?.query_row([WANTED], |row| row.get(0)).optional()?;
    let Some(replaces) = hash else { return Ok(None) };
    let mut statement = conn.prepare_cached(&format!("SELECT key, value FROM tl_meta WHERE {ENTRIES}"))?;
    let rows =
        statement.query_map([WANTED], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let mut edits = Vec::new();
    for row in rows {
        let (key, value) = row?;
        let chat = key[WANTED.len() + 1..].to_owned();
        match serde_json::from_str(&value) {
            Ok(entry) => edits.push((chat, Some(entry))),
            Err(_) if value.is_empty() => edits.push((chat, None)),
            Err(_) => {
                return Err(StoreFault::Malformed(format!("what {FILE} is to say of {chat} cannot be read")));
            }
        }
    }
    Ok(Some(WantedFile { replaces, edits }))
}

/// The entries that are wanted: the key, a space, and all that begins so.
const ENTRIES: &str = "key > ?1 || ' ' AND key < ?1 || '!'";

fn directory(home: &Home) -> Option<&Path> {
    match home.vfs {
        Some(_) => None,
        None => home.sessions.as_deref(),
    }
}

/// The file gets the text that a repair wants it to have. Only for the owner of the home.
pub(crate) fn finish_file(conn: &Connection, home: &Home) -> Result<(), StoreFault> {
    let (Some(wanted), Some(directory)) = (wanted(conn)?, directory(home)) else { return Ok(()) };
    let there = fs::read_to_string(directory.join(FILE)).unwrap_or_default();
    if let Some(text) = wanted.edited(&there) {
        replace(directory, text.as_bytes()).map_err(|error| {
            let file = directory.join(FILE);
            StoreError::Unwritable(format!("{} could not be written: {error}", file.display()))
        })?;
    }
    transact(conn, |conn| {
        let sql = format!("DELETE FROM tl_meta WHERE key = ?1 OR {ENTRIES}");
        conn.prepare_cached(&sql)?.execute([WANTED])?;
        Ok(())
    })
}
