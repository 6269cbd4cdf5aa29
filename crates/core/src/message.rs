//! What was said. A message is one row of a transcript: who spoke, what, and when.
//!
//! Kinds that cannot occur cannot be written down: only an assistant calls tools, only a result
//! names the call it answers. What a provider sent beside the fields known here travels along as
//! opaque JSON text and comes out again as it went in. Nothing here parses JSON.

use crate::time::Time;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// JSON that this crate carries and never reads. The code that makes one has seen that it parses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// `text` must be valid JSON: this crate cannot check it.
    pub fn from_valid(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub at: Time,
    pub body: Body,
    /// The platform's own id of this message, where it came from or went to one.
    pub platform_id: Option<String>,
    /// The exact text sent to the model, where it differs from what was said (recalled memory
    /// joined to it, say). Replayed verbatim, so that the prefix of the prompt stays the same.
    pub sent_as: Option<String>,
    /// Heard in a group, not addressed to the agent.
    pub observed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    System(Content),
    User(Content),
    Assistant(Assistant),
    Result(ToolResult),
    /// A row that no model sees: a marker, or a role of a later Hermes.
    Other {
        role: String,
        content: Content,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assistant {
    pub content: Content,
    pub calls: Vec<ToolCall>,
    pub finish: Option<String>,
    pub reasoning: Reasoning,
}

/// What the model thought, in each of the shapes providers send. Sent back as it came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reasoning {
    pub text: Option<String>,
    /// An empty text means something else than none.
    pub content: Option<String>,
    pub details: Option<JsonText>,
    pub codex_reasoning_items: Option<JsonText>,
    pub codex_message_items: Option<JsonText>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// As the model wrote it: meant to be a JSON object, not always one.
    pub arguments: String,
    /// Fields of the call beside id, type and function, as a JSON object.
    pub extra: Option<JsonText>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    pub call_id: String,
    pub name: Option<String>,
    pub content: Content,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Content {
    #[default]
    Nothing,
    Text(String),
    Parts(Vec<Part>),
    /// Neither text nor a list: kept as it is.
    Opaque(JsonText),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text(String),
    /// A picture by address (`https:` or `data:`); `detail` as the client wished it.
    Image {
        url: String,
        detail: Option<String>,
    },
    /// A kind of part not known here.
    Opaque(JsonText),
}

/// Ids by which the calls of one answer are told apart. Models now and then give two calls one id,
/// or none: then results could not be told apart either, and providers refuse both.
pub fn distinct_ids(calls: &[ToolCall]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::with_capacity(calls.len());
    let mut taken = BTreeSet::from([String::new()]);
    for (position, call) in calls.iter().enumerate() {
        let mut id = call.id.clone();
        while !taken.insert(id.clone()) {
            id = format!("{id}_{position}");
        }
        ids.push(id);
    }
    ids
}

impl Content {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Joins a paragraph. Opaque content has no place for one.
    pub fn add_words(&mut self, words: &str) {
        match self {
            Content::Nothing => *self = Content::text(words),
            Content::Text(text) => {
                text.push_str("\n\n");
                text.push_str(words);
            }
            Content::Parts(parts) => parts.push(Part::Text(words.to_owned())),
            Content::Opaque(_) => {}
        }
    }

    /// What a person would read of it.
    pub fn plain(&self) -> String {
        match self {
            Content::Nothing | Content::Opaque(_) => String::new(),
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| match part {
                    Part::Text(text) => Some(text.as_str()),
                    Part::Image { .. } | Part::Opaque(_) => None,
                });
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// How long its texts are.
    pub fn bytes(&self) -> usize {
        match self {
            Content::Nothing => 0,
            Content::Text(text) => text.len(),
            Content::Parts(parts) => parts.iter().map(Part::bytes).sum(),
            Content::Opaque(json) => json.as_str().len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Content::Nothing => true,
            Content::Text(text) => text.is_empty(),
            Content::Parts(parts) => parts.is_empty(),
            Content::Opaque(_) => false,
        }
    }
}

impl Part {
    fn bytes(&self) -> usize {
        let own = match self {
            Part::Text(text) => text.len(),
            Part::Image { url, detail } => url.len() + detail.as_ref().map_or(0, String::len),
            Part::Opaque(json) => json.as_str().len(),
        };
        own + size_of::<Part>() // so that a great many empty parts are not nothing
    }
}

impl Message {
    pub fn new(at: Time, body: Body) -> Self {
        Self { at, body, platform_id: None, sent_as: None, observed: false }
    }

    pub fn user(at: Time, content: Content) -> Self {
        Self::new(at, Body::User(content))
    }

    pub fn content(&self) -> &Content {
        match &self.body {
            Body::System(content) | Body::User(content) | Body::Other { content, .. } => content,
            Body::Assistant(assistant) => &assistant.content,
            Body::Result(result) => &result.content,
        }
    }

    pub fn role(&self) -> &str {
        match &self.body {
            Body::System(_) => "system",
            Body::User(_) => "user",
            Body::Assistant(_) => "assistant",
            Body::Result(_) => "tool",
            Body::Other { role, .. } => role,
        }
    }

    /// How long what was said in it is, with the arguments of its calls. Counts, and reads none of it.
    pub fn bytes(&self) -> usize {
        let calls = self.calls().iter().map(|call| call.name.len() + call.arguments.len());
        self.content().bytes() + self.sent_as.as_deref().map_or(0, str::len) + calls.sum::<usize>()
    }

    pub fn calls(&self) -> &[ToolCall] {
        match &self.body {
            Body::Assistant(assistant) => &assistant.calls,
            _ => &[],
        }
    }
}
