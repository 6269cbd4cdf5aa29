//! What a session remembers between two compressions, and what one of them is about to put in place.

use super::call::{StoredAnswer, StoredResult};
use super::content::StoredContent;
use super::{
    Readable, StoredText, UnreadableColumn, borrowed, is_empty, is_false, is_zero, owned, parsed, written,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use throughline_core::compression::{Cause, Kind as Replaced, Replacement, Upkeep};
use throughline_core::id::RowId;
use throughline_core::message::{Body, Message};
use throughline_core::time::Time;

#[derive(Serialize, Deserialize)]
struct StoredUpkeep<'a> {
    context: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    wanted: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    operations: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    failures: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    unworthy: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    not_before: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    snapshot: i64,
    #[serde(default, skip_serializing_if = "is_empty")]
    recent: Cow<'a, [i64]>,
}

#[derive(Serialize, Deserialize)]
struct StoredReplacement<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    cut: u64,
    replaced: usize,
    rows: Vec<StoredMessage<'a>>,
    kind: StoredText<'a>,
    before: u64,
    after_tokens: u64,
    model: StoredText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<StoredText<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StoredMessage<'a> {
    at: i64,
    #[serde(flatten)]
    body: StoredBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform_id: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_as: Option<StoredText<'a>>,
    #[serde(default, skip_serializing_if = "is_false")]
    observed: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredBody<'a> {
    System(StoredContent<'a>),
    User(StoredContent<'a>),
    Assistant(StoredAnswer<'a>),
    Result(StoredResult<'a>),
    /// `[role, content]`
    Other(StoredText<'a>, StoredContent<'a>),
}

pub(crate) fn upkeep_text(upkeep: &Upkeep) -> String {
    written(&StoredUpkeep::from(upkeep))
}

pub(crate) fn upkeep(text: &str) -> Readable<Upkeep> {
    parsed::<StoredUpkeep<'_>>(text).map(Upkeep::from)
}

pub(crate) fn replacement_text(replacement: &Replacement) -> String {
    written(&StoredReplacement::from(replacement))
}

pub(crate) fn replacement(text: &str) -> Readable<Replacement> {
    parsed::<StoredReplacement<'_>>(text)?.try_into()
}

pub(crate) fn replaced_by(name: &str) -> Readable<Replaced> {
    match name {
        "summary" => Ok(Replaced::Summary),
        "digest" => Ok(Replaced::Digest),
        "restored" => Ok(Replaced::Restored),
        "undone" => Ok(Replaced::Undone),
        "mended" => Ok(Replaced::Mended),
        _ => Err(UnreadableColumn::Value("a replacement of an unknown kind")),
    }
}

pub(crate) fn cause_number(cause: Cause) -> i64 {
    match cause {
        Cause::Ahead => 0,
        Cause::Need => 1,
        Cause::Order => 2,
    }
}

pub(crate) fn cause(number: i64) -> Cause {
    match number {
        0 => Cause::Ahead,
        1 => Cause::Need,
        _ => Cause::Order,
    }
}

impl<'a> From<&'a Upkeep> for StoredUpkeep<'a> {
    fn from(upkeep: &'a Upkeep) -> Self {
        let Upkeep { context, wanted, operations, failures, not_before, unworthy, recent, snapshot } = upkeep;
        Self {
            context: *context,
            wanted: *wanted,
            operations: *operations,
            failures: *failures,
            unworthy: *unworthy,
            not_before: not_before.0,
            snapshot: snapshot.0,
            recent: recent.iter().map(|at| at.0).collect(),
        }
    }
}

impl From<StoredUpkeep<'_>> for Upkeep {
    fn from(stored: StoredUpkeep<'_>) -> Self {
        Self {
            context: stored.context,
            wanted: stored.wanted,
            operations: stored.operations,
            failures: stored.failures,
            not_before: Time(stored.not_before),
            unworthy: stored.unworthy,
            recent: stored.recent.iter().map(|at| Time(*at)).collect(),
            snapshot: Time(stored.snapshot),
        }
    }
}

impl<'a> From<&'a Replacement> for StoredReplacement<'a> {
    fn from(replacement: &'a Replacement) -> Self {
        let Replacement { after, cut, replaced, rows, kind, before, after_tokens, model, remark } =
            replacement;
        Self {
            after: after.map(|row| row.0),
            cut: cut.0,
            replaced: *replaced,
            rows: rows.iter().map(StoredMessage::from).collect(),
            kind: kind.to_string().into(),
            before: *before,
            after_tokens: *after_tokens,
            model: model.into(),
            remark: borrowed(remark),
        }
    }
}

impl TryFrom<StoredReplacement<'_>> for Replacement {
    type Error = UnreadableColumn;

    fn try_from(stored: StoredReplacement<'_>) -> Readable<Self> {
        Ok(Self {
            after: stored.after.map(RowId),
            cut: RowId(stored.cut),
            replaced: stored.replaced,
            rows: stored.rows.into_iter().map(Message::from).collect(),
            kind: replaced_by(&stored.kind)?,
            before: stored.before,
            after_tokens: stored.after_tokens,
            model: stored.model.into_owned(),
            remark: owned(stored.remark),
        })
    }
}

impl<'a> From<&'a Message> for StoredMessage<'a> {
    fn from(message: &'a Message) -> Self {
        let body = match &message.body {
            Body::System(content) => StoredBody::System(content.into()),
            Body::User(content) => StoredBody::User(content.into()),
            Body::Assistant(said) => StoredBody::Assistant(said.into()),
            Body::Result(result) => StoredBody::Result(result.into()),
            Body::Other { role, content } => StoredBody::Other(role.into(), content.into()),
        };
        Self {
            at: message.at.0,
            body,
            platform_id: borrowed(&message.platform_id),
            sent_as: borrowed(&message.sent_as),
            observed: message.observed,
        }
    }
}

impl From<StoredMessage<'_>> for Message {
    fn from(stored: StoredMessage<'_>) -> Self {
        let body = match stored.body {
            StoredBody::System(content) => Body::System(content.into()),
            StoredBody::User(content) => Body::User(content.into()),
            StoredBody::Assistant(said) => Body::Assistant(said.into()),
            StoredBody::Result(result) => Body::Result(result.into()),
            StoredBody::Other(role, content) => {
                Body::Other { role: role.into_owned(), content: content.into() }
            }
        };
        Self {
            at: Time(stored.at),
            body,
            platform_id: owned(stored.platform_id),
            sent_as: owned(stored.sent_as),
            observed: stored.observed,
        }
    }
}
