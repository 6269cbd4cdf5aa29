//! What came in. Its number and its time are columns.

use super::call::StoredResult;
use super::command::StoredCommand;
use super::content::StoredContent;
use super::destination::StoredDestination;
use super::trace::StoredTrace;
use super::{
    Readable, StoredText, UnreadableColumn, borrowed, digest, hex, is_false, json, json_text, owned, parsed,
    session, written,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use throughline_core::id::Seq;
use throughline_core::input::{ClientTools, DedupeKey, Input, Kind, Request, Sender, Task};
use throughline_core::message::{JsonText, ToolResult};
use throughline_core::time::Time;

#[derive(Serialize, Deserialize)]
struct StoredInput<'a> {
    key: StoredText<'a>,
    #[serde(flatten)]
    kind: StoredKind<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<StoredDestination<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<StoredSender<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform_id: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<StoredTrace<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredKind<'a> {
    Chat(StoredContent<'a>),
    Request(StoredRequest<'a>),
    Command(StoredCommand<'a>),
}

/// `[id, name]`
#[derive(Serialize, Deserialize)]
struct StoredSender<'a>(StoredText<'a>, #[serde(default)] Option<StoredText<'a>>);

#[derive(Serialize, Deserialize)]
struct StoredRequest<'a> {
    content: StoredContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    implicit_key: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<StoredTask<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<StoredClientTools<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    results: Vec<StoredResult<'a>>,
    #[serde(default, skip_serializing_if = "is_false")]
    stateless: bool,
}

/// `[list, names]`
#[derive(Serialize, Deserialize)]
struct StoredClientTools<'a>(StoredText<'a>, Cow<'a, [String]>);

#[derive(Serialize, Deserialize)]
struct StoredTask<'a> {
    parent: StoredText<'a>,
    source: StoredText<'a>,
    depth: u32,
    steps_max: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toolsets: Option<Cow<'a, [String]>>,
}

pub(crate) fn input_text(input: &Input) -> String {
    written(&StoredInput::from(input))
}

pub(crate) fn input(seq: Seq, at: Time, text: &str) -> Readable<Arc<Input>> {
    parsed::<StoredInput<'_>>(text)?.at(seq, at).map(Arc::new)
}

impl<'a> From<&'a Input> for StoredInput<'a> {
    fn from(input: &'a Input) -> Self {
        Self {
            key: input.key.as_str().into(),
            kind: (&input.kind).into(),
            reply_to: input.reply_to.as_ref().map(StoredDestination::from),
            sender: input.sender.as_ref().map(StoredSender::from),
            platform_id: borrowed(&input.platform_id),
            trace: StoredTrace::of(&input.trace),
        }
    }
}

impl StoredInput<'_> {
    fn at(self, seq: Seq, at: Time) -> Readable<Input> {
        let sender = |StoredSender(id, name): StoredSender<'_>| Sender { id: id.into(), name: owned(name) };
        Ok(Input {
            seq,
            at,
            key: DedupeKey::stored(&self.key),
            kind: self.kind.try_into()?,
            reply_to: self.reply_to.map(Into::into),
            sender: self.sender.map(sender),
            platform_id: owned(self.platform_id),
            trace: self.trace.map(TryInto::try_into).transpose()?.unwrap_or_default(),
            left: None,
        })
    }
}

impl<'a> From<&'a Kind> for StoredKind<'a> {
    fn from(kind: &'a Kind) -> Self {
        match kind {
            Kind::Chat(content) => Self::Chat(content.into()),
            Kind::Request(request) => Self::Request(request.into()),
            Kind::Command(command) => Self::Command(command.into()),
        }
    }
}

impl TryFrom<StoredKind<'_>> for Kind {
    type Error = UnreadableColumn;

    fn try_from(stored: StoredKind<'_>) -> Readable<Self> {
        Ok(match stored {
            StoredKind::Chat(content) => Self::Chat(content.into()),
            StoredKind::Request(request) => Self::Request(request.try_into()?),
            StoredKind::Command(command) => Self::Command(command.try_into()?),
        })
    }
}

impl<'a> From<&'a Sender> for StoredSender<'a> {
    fn from(sender: &'a Sender) -> Self {
        Self(sender.id.as_str().into(), borrowed(&sender.name))
    }
}

impl<'a> From<&'a Request> for StoredRequest<'a> {
    fn from(request: &'a Request) -> Self {
        let tools = |tools: &'a ClientTools| {
            StoredClientTools(tools.list.as_str().into(), tools.names.as_slice().into())
        };
        Self {
            content: (&request.content).into(),
            body: hex(request.body),
            thread: hex(request.thread),
            implicit_key: hex(request.implicit_key),
            system: borrowed(&request.system),
            sampling: json_text(&request.sampling),
            task: request.task.as_ref().map(StoredTask::from),
            tools: request.tools.as_ref().map(tools),
            results: request.results.iter().map(StoredResult::from).collect(),
            stateless: request.stateless,
        }
    }
}

impl TryFrom<StoredRequest<'_>> for Request {
    type Error = UnreadableColumn;

    fn try_from(stored: StoredRequest<'_>) -> Readable<Self> {
        let tools = |StoredClientTools(list, names): StoredClientTools<'_>| ClientTools {
            list: JsonText::from_valid(list),
            names: names.into_owned(),
        };
        Ok(Self {
            content: stored.content.into(),
            body: digest(stored.body, "body")?,
            thread: digest(stored.thread, "thread")?,
            implicit_key: digest(stored.implicit_key, "implicit_key")?,
            system: owned(stored.system),
            sampling: json(stored.sampling),
            task: stored.task.map(Task::try_from).transpose()?,
            tools: stored.tools.map(tools),
            results: stored.results.into_iter().map(ToolResult::from).collect(),
            stateless: stored.stateless,
        })
    }
}

impl<'a> From<&'a Task> for StoredTask<'a> {
    fn from(task: &'a Task) -> Self {
        Self {
            parent: task.parent.as_str().into(),
            source: task.source.as_str().into(),
            depth: task.depth,
            steps_max: task.steps_max,
            tokens_max: task.tokens_max,
            toolsets: task.toolsets.as_deref().map(Cow::Borrowed),
        }
    }
}

impl TryFrom<StoredTask<'_>> for Task {
    type Error = UnreadableColumn;

    fn try_from(stored: StoredTask<'_>) -> Readable<Self> {
        Ok(Self {
            parent: session(&stored.parent, "parent")?,
            source: stored.source.into_owned(),
            depth: stored.depth,
            steps_max: stored.steps_max,
            tokens_max: stored.tokens_max,
            toolsets: stored.toolsets.map(Cow::into_owned),
        })
    }
}
