//! Our own columns of JSON: what came in, how it ended, where a reply goes, what a model called, how
//! a call stands, what a compression is about to put in place, and the parts of a state that are
//! mostly as at first.
//!
//! Each `Stored…` type of this module is a form: its definition is the format of a column. What is
//! written here is read back equal. JSON that only passes through is kept as a string inside ours,
//! because a parser may change its numbers or its order. Fields that are absent are left out, and read
//! as they are by default: what an older program wrote is read that way, too. The place of an input in
//! its inbox is a column, not part of its form.
//!
//! The version of all forms is the number of the last migration: a program reads no home with a higher
//! one. A form may get a field that older programs can overlook. Any other change of what is written
//! needs a migration, and a reader for what was written before it. `tests.rs` compares what is written
//! with a home of that migration, byte by byte. Queries look into these columns by path, too.

mod call;
mod command;
mod compression;
mod content;
mod destination;
mod input;
mod memory;
mod outcome;
mod state;
mod trace;

pub(crate) use call::{answer, answer_text, ask, ask_text, grant_from, grant_name, result, result_text};
pub(crate) use compression::{
    cause, cause_number, replaced_by, replacement, replacement_text, upkeep, upkeep_text,
};
pub(crate) use destination::{destination, destination_text};
pub(crate) use input::{input, input_text};
pub(crate) use memory::{scope, scope_text};
pub(crate) use outcome::{outcome, outcome_text};
pub(crate) use state::{rest_text, restore_rest};
pub(crate) use trace::{trace, trace_text};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use throughline_core::id::SessionId;
use throughline_core::message::JsonText;
use throughline_core::prompt::Digest;

/// Borrowed when it is written, owned when it was read.
type StoredText<'a> = Cow<'a, str>;

pub(crate) type Readable<T> = Result<T, UnreadableColumn>;

/// What could not be read of a column. It names fields and never repeats what they hold: people wrote that.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreadableColumn {
    #[error("JSON that does not parse")]
    NotJson,
    /// By its path.
    #[error("the field {0}")]
    Field(String),
    #[error("{0}")]
    Value(&'static str),
}

impl From<&'static str> for UnreadableColumn {
    fn from(value: &'static str) -> Self {
        Self::Value(value)
    }
}

fn written(form: &impl Serialize) -> String {
    serde_json::to_string(form).expect("texts, numbers and lists of them become JSON")
}

fn parsed<T: DeserializeOwned>(text: &str) -> Readable<T> {
    serde_json::from_str(text).map_err(|error| unreadable::<T>(text, &error))
}

/// Reads once more to learn where it failed.
fn unreadable<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> UnreadableColumn {
    if !error.is_data() {
        return UnreadableColumn::NotJson;
    }
    let again = serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_str(text));
    let Err(failed) = again.map(drop) else { return UnreadableColumn::NotJson };
    let message = failed.inner().to_string();
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let path = failed.path().to_string();
    match (path.as_str(), missing) {
        (".", None) => UnreadableColumn::Value("none of its known forms"),
        (".", Some(missing)) => UnreadableColumn::Field(missing.to_owned()),
        (_, None) => UnreadableColumn::Field(path),
        (_, Some(missing)) => UnreadableColumn::Field(format!("{path}.{missing}")),
    }
}

// ---------------------------------------------------------------------------------------- lists

/// Ids of rows, or numbers of inputs, in their order.
pub(crate) fn numbers_text(numbers: impl IntoIterator<Item = i64>) -> String {
    let mut json = Vec::new();
    let written = serde_json::Serializer::new(&mut json).collect_seq(numbers);
    written.expect("numbers become JSON");
    String::from_utf8(json).expect("JSON is UTF-8")
}

pub(crate) fn numbers(text: &str) -> Readable<Vec<i64>> {
    parsed(text)
}

pub(crate) fn texts_text(texts: &[String]) -> String {
    written(&texts)
}

pub(crate) fn texts(text: &str) -> Readable<Vec<String>> {
    parsed(text)
}

// --------------------------------------------------------------------------------------- pieces

fn borrowed(text: &Option<String>) -> Option<StoredText<'_>> {
    text.as_deref().map(Cow::Borrowed)
}

fn json_text(json: &Option<JsonText>) -> Option<StoredText<'_>> {
    json.as_ref().map(|json| Cow::Borrowed(json.as_str()))
}

fn owned(text: Option<StoredText<'_>>) -> Option<String> {
    text.map(Cow::into_owned)
}

fn json(text: Option<StoredText<'_>>) -> Option<JsonText> {
    text.map(JsonText::from_valid)
}

fn session(text: &str, name: &'static str) -> Readable<SessionId> {
    text.parse().map_err(|_| UnreadableColumn::Field(name.to_owned()))
}

fn hex(digest: Option<Digest>) -> Option<StoredText<'static>> {
    digest.map(|digest| Cow::Owned(digest.to_hex()))
}

fn digest(hex: Option<StoredText<'_>>, name: &'static str) -> Readable<Option<Digest>> {
    let Some(hex) = hex else { return Ok(None) };
    Digest::from_hex(&hex).map(Some).ok_or_else(|| UnreadableColumn::Field(name.to_owned()))
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

fn is_empty<T>(list: &[T]) -> bool {
    list.is_empty()
}

/// For a field that may hold null and must be there: the form is known by it.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

#[cfg(test)]
mod tests;
