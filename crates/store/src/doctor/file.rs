//! `sessions.json`, as a repair changes it: only the entries it is about, whole or not at all.

use super::Look;
use crate::fault::Fault;
use crate::projection::{FILE, replace};
use serde_json::{Map, Value};
use std::fs;
use throughline_core::port::StoreError;
use throughline_hermes::json;

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
    /// The text of the file, where this home keeps one.
    pub(super) fn sessions_file(&self) -> Option<String> {
        match self.home.vfs {
            Some(_) => None,
            None => fs::read_to_string(self.home.sessions.as_deref()?.join(FILE)).ok(),
        }
    }

    /// What cannot be read is left as it is; so is a file in which nothing changes.
    pub(super) fn lead_in_file(&self, editing: &Editing) -> Result<(), Fault> {
        let (Some(text), Some(directory)) = (self.sessions_file(), self.home.sessions.as_deref()) else {
            return Ok(());
        };
        let Some(text) = json::read(&text) else { return Ok(()) };
        let Ok(Value::Object(mut entries)) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
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
            return Ok(());
        }
        entries.retain(|chat, _| !gone.contains(chat));
        let text = json::dumps_indented(&Value::Object(entries));
        replace(directory, text.as_bytes()).map_err(|error| {
            let file = directory.join(FILE);
            StoreError::Unwritable(format!("{} could not be written: {error}", file.display())).into()
        })
    }
}
