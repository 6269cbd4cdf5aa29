//! What a message follows from. A human's own message has no trace.

use super::{Readable, StoredText, UnreadableColumn, parsed, session, written};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use throughline_core::input::{Root, Trace};

#[derive(Serialize, Deserialize)]
pub(super) struct StoredTrace<'a> {
    origin: StoredText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<StoredRoot<'a>>,
    hops: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign: Option<StoredText<'a>>,
}

/// `[home, session]`
#[derive(Serialize, Deserialize)]
struct StoredRoot<'a>(StoredText<'a>, StoredText<'a>);

/// None for the trace of a human's own message.
pub(crate) fn trace_text(trace: &Trace) -> Option<String> {
    StoredTrace::of(trace).map(|stored| written(&stored))
}

pub(crate) fn trace(text: Option<&str>) -> Readable<Trace> {
    match text {
        Some(text) => parsed::<StoredTrace<'_>>(text)?.try_into(),
        None => Ok(Trace::default()),
    }
}

impl<'a> StoredTrace<'a> {
    pub(super) fn of(trace: &'a Trace) -> Option<Self> {
        if *trace == Trace::default() {
            return None;
        }
        let root = |root: &'a Root| StoredRoot(Cow::Borrowed(&root.home), root.session.as_str().into());
        Some(Self {
            origin: Cow::Borrowed(&trace.origin),
            root: trace.root.as_ref().map(root),
            hops: trace.hops,
            foreign: trace.foreign.as_deref().map(Cow::Borrowed),
        })
    }
}

impl TryFrom<StoredTrace<'_>> for Trace {
    type Error = UnreadableColumn;

    fn try_from(stored: StoredTrace<'_>) -> Readable<Self> {
        let root = |StoredRoot(home, id): StoredRoot<'_>| {
            Ok::<_, UnreadableColumn>(Root { home: home.into(), session: session(&id, "root[1]")? })
        };
        Ok(Self {
            origin: stored.origin.into(),
            root: stored.root.map(root).transpose()?,
            hops: stored.hops,
            foreign: stored.foreign.map(Into::into),
        })
    }
}
