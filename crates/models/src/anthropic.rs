//! Anthropic's Messages, and servers that speak them.
//!
//! A segment is a whole message, so that its role is part of what is hashed; where two of one role
//! follow each other their blocks are joined, because the two sides must take turns. Cache marks
//! are set while joining, outside the segments: they move with every request, the bytes do not.

mod answer;
mod distinct_ids;
mod encode;

use crate::UnusableModel;
use crate::exchange::{self, Deltas};
use crate::json::{elements, fields, push_field, string};
use crate::provider_error::{AskedEndpoint, ProviderError};
use answer::AnthropicDraft;
use encode::ThinkingReturn;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;
use throughline_core::message::{JsonText, Message};
use throughline_core::port::{Asked, Delta, Model, ModelError, Promise};
use throughline_core::prompt::{Prompt, Segment, SegmentRole};
use throughline_core::turn::Answer;
use throughline_net::{Client, Endpoint, InvalidEndpoint, Secret};

pub const ANTHROPIC_URL: &str = "https://api.anthropic.com";

/// The version of the protocol that this file speaks.
const VERSION: &str = "2023-06-01";

/// What not even the user's own additions may replace.
const OURS: [&str; 5] = ["model", "messages", "system", "tools", "stream"];

/// Four marks are allowed: tools, system, and these. Two, because the mark of the request before
/// is where this one finds its prefix, and a long tool group lies between.
const MARKED_MESSAGES: usize = 2;

/// A conversation begins with the user. A view that was cut may not.
const OPENING: &str = "{\"type\":\"text\",\"text\":\"(earlier messages are not shown)\"}";

/// How long the provider keeps what it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLife {
    FiveMinutes,
    OneHour,
}

/// How the key is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// `x-api-key`
    ApiKey,
    /// `Authorization: Bearer`, as some compatible servers want it.
    Bearer,
}

#[derive(Clone)]
pub struct AnthropicConfig {
    /// With or without `/v1`.
    pub base_url: String,
    pub model: String,
    pub key: Option<Secret>,
    pub key_header: KeyHeader,
    /// What the user calls the key (`ANTHROPIC_API_KEY`): errors name it.
    pub key_name: String,
    pub headers: Vec<(String, String)>,
    /// The longest answer. The protocol demands one.
    pub max_tokens: u32,
    /// Further fields of every request (`thinking` …), as a JSON object. A client's wish wins over them.
    pub extra_body: Option<JsonText>,
    /// None: nothing is marked for the cache.
    pub cache: Option<CacheLife>,
    /// Passes a client's `temperature`, `top_p` and `top_k` on. Newer models refuse them.
    pub sampling: bool,
}

impl AnthropicConfig {
    /// As this model is known to want it.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let model = model.into();
        Self {
            base_url: base_url.into(),
            key: None,
            key_header: KeyHeader::ApiKey,
            key_name: "the API key".to_owned(),
            headers: Vec::new(),
            max_tokens: usual_max_tokens(&model),
            extra_body: None,
            cache: Some(CacheLife::FiveMinutes),
            sampling: takes_sampling(&model),
            model,
        }
    }
}

/// More is refused by the old models; with less, long answers and files break off.
fn usual_max_tokens(model: &str) -> u32 {
    match model {
        _ if model.contains("claude-3-5") => 8192,
        _ if model.contains("claude-3-7") => 32_000,
        _ if model.contains("claude-3-") => 4096,
        _ => 32_000,
    }
}

/// From Claude Opus 4.7 on, a temperature is an error.
fn takes_sampling(model: &str) -> bool {
    const TAKING: [&str; 9] = [
        "claude-2",
        "claude-3",
        "-4-0",
        "-4-1",
        "-4-2025",
        "-4-5",
        "-4-6",
        "claude-opus-4@",
        "claude-sonnet-4@",
    ];
    let name = model.to_ascii_lowercase().replace('.', "-");
    !name.contains("claude") || TAKING.iter().any(|family| name.contains(family))
}

/// Address and headers may carry secrets, too.
impl fmt::Debug for AnthropicConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AnthropicConfig({})", self.model)
    }
}

pub struct Anthropic {
    place: AskedEndpoint,
    client: Client,
    max_tokens: u32,
    extra: Vec<AnthropicField>,
    cache: Option<CacheLife>,
    sampling: bool,
    thinking: ThinkingReturn,
}

/// A field of the request and its value as JSON text.
type AnthropicField = (String, String);

impl Anthropic {
    pub fn new(config: AnthropicConfig, client: Client) -> Result<Self, UnusableModel> {
        let endpoint = endpoint(&config)
            .map_err(|reason| UnusableModel::Endpoint { model: config.model.clone(), reason })?;
        let extra = match &config.extra_body {
            Some(object) => {
                fields(object.as_str()).ok_or(UnusableModel::ExtraBody { model: config.model.clone() })?
            }
            None => Vec::new(),
        };
        let extra = extra.into_iter().filter(|(name, _)| !OURS.contains(&name.as_str()));
        // Only the maker checks its own signatures; others send thoughts without and want them back.
        let thinking = match endpoint.host().ends_with("anthropic.com") {
            true => ThinkingReturn::Signed,
            false => ThinkingReturn::All,
        };
        Ok(Self {
            place: AskedEndpoint { model: config.model, endpoint, key_name: config.key_name },
            client,
            max_tokens: config.max_tokens,
            extra: extra.map(|(name, value)| (name, value.get().to_owned())).collect(),
            cache: config.cache,
            sampling: config.sampling,
            thinking,
        })
    }

    /// The exact bytes of a request.
    pub fn body(&self, asked: &Asked) -> String {
        let prompt = &asked.prompt;
        let length: usize = prompt.messages.iter().map(|segment| segment.bytes.len() + 1).sum();
        let mut out = String::with_capacity(length + 4096);
        out.push('{');
        push_field(&mut out, "model", &string(&self.place.model));
        if let Some(tools) = tools(prompt) {
            out.push_str(",\"tools\":");
            out.push_str(tools.strip_suffix(']').unwrap_or(tools));
            self.mark(&mut out);
            out.push(']');
        }
        if let Some(system) = prompt.system.as_ref().filter(|system| !system.bytes.is_empty()) {
            out.push_str(",\"system\":[");
            out.push_str(&system.bytes);
            self.mark(&mut out);
            out.push(']');
        }
        out.push_str(",\"messages\":[");
        self.push_messages(&mut out, &prompt.messages);
        out.push(']');
        push_field(&mut out, "stream", "true");
        for (name, value) in self.wishes(asked) {
            push_field(&mut out, &name, &value);
        }
        out.push('}');
        out
    }

    fn push_messages(&self, out: &mut String, segments: &[Segment]) {
        let segments = distinct_ids::told(segments);
        let messages = taking_turns(&segments);
        let users = messages.iter().enumerate().filter(|(_, message)| message.side == Side::User);
        let marked: Vec<usize> = users.map(|(index, _)| index).rev().take(MARKED_MESSAGES).collect();
        if messages.first().is_some_and(|message| message.side == Side::Assistant) {
            out.push_str(&encode::whole(Side::User, OPENING));
            out.push(',');
        }
        for (index, message) in messages.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(message.side.opening());
            for (place, blocks) in message.blocks.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(blocks);
            }
            if marked.contains(&index) {
                self.mark(out);
            }
            out.push_str(encode::CLOSING);
        }
    }

    /// Marks the block that was just written.
    fn mark(&self, out: &mut String) {
        let mark = match self.cache {
            None => return,
            Some(CacheLife::FiveMinutes) => "{\"type\":\"ephemeral\"}",
            Some(CacheLife::OneHour) => "{\"type\":\"ephemeral\",\"ttl\":\"1h\"}",
        };
        if out.ends_with('}') {
            out.pop();
            push_field(out, "cache_control", mark);
            out.push('}');
        }
    }

    /// The fields beside the prompt: the user's additions, then the client's wishes, which win.
    fn wishes(&self, asked: &Asked) -> Vec<AnthropicField> {
        let sampling = asked.sampling.as_ref().and_then(|object| serde_json::from_str(object.as_str()).ok());
        let sampling: Value = sampling.unwrap_or(Value::Null);
        let has_tools = tools(&asked.prompt).is_some();
        let mut wishes = self.extra.clone();
        let mut wish = |name: &str, value: Value| {
            wishes.retain(|(earlier, _)| earlier != name);
            wishes.push((name.to_owned(), value.to_string()));
        };
        if self.sampling {
            for (name, value) in tempers(&sampling) {
                wish(name, value);
            }
        }
        if let Some(stops) = stop_sequences(&sampling) {
            wish("stop_sequences", stops);
        }
        if has_tools && let Some(choice) = tool_choice(&sampling) {
            wish("tool_choice", choice);
        }
        let limit =
            ["max_completion_tokens", "max_tokens"].iter().find_map(|name| sampling.get(name)?.as_u64());
        if let Some(limit) = limit.filter(|limit| *limit > 0) {
            wish("max_tokens", json!(limit));
        } else if !self.extra.iter().any(|(name, _)| name == "max_tokens") {
            wish("max_tokens", json!(self.max_tokens));
        }
        wishes
    }

    async fn exchange(&self, asked: Asked, deltas: Deltas<'_>) -> Result<Answer, ProviderError> {
        let mut draft = AnthropicDraft::default();
        exchange::ask(&self.client, &self.place.endpoint, self.body(&asked), &mut draft, deltas).await?;
        draft.finish(&self.place.model)
    }
}

impl Model for Anthropic {
    fn name(&self) -> &str {
        &self.place.model
    }

    fn is_real(&self) -> bool {
        true
    }

    fn encode(&self, message: &Message) -> Segment {
        encode::message(message, self.thinking)
    }

    fn encode_system(&self, text: &str) -> Segment {
        encode::system(text)
    }

    fn encode_tools(&self, list: &JsonText) -> Segment {
        encode::tools(list)
    }

    fn ask<'a>(
        &'a self,
        asked: Asked,
        deltas: &'a (dyn Fn(Delta) + Send + Sync),
    ) -> Promise<'a, Result<Answer, ModelError>> {
        Box::pin(async move { self.exchange(asked, deltas).await.map_err(|fault| self.place.explain(fault)) })
    }
}

fn endpoint(config: &AnthropicConfig) -> Result<Endpoint, InvalidEndpoint> {
    let base = config.base_url.trim().trim_end_matches('/');
    let path = match base {
        _ if base.ends_with("/messages") => "",
        _ if base.ends_with("/v1") => "messages",
        _ => "v1/messages",
    };
    let mut endpoint = Endpoint::new(base, path)?.header("anthropic-version", VERSION)?;
    if let Some(key) = &config.key {
        endpoint = match config.key_header {
            KeyHeader::ApiKey => endpoint.secret_header("x-api-key", "", key)?,
            KeyHeader::Bearer => endpoint.secret_header("authorization", "Bearer ", key)?,
        };
    }
    config.headers.iter().try_fold(endpoint, |endpoint, (name, value)| endpoint.header(name, value))
}

/// An empty list is refused: none is meant.
fn tools(prompt: &Prompt) -> Option<&str> {
    prompt.tools.as_ref().map(|tools| &*tools.bytes).filter(|list| *list != "[]")
}

/// Who speaks: there are only two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    User,
    Assistant,
}

impl Side {
    fn of(role: SegmentRole) -> Self {
        match role {
            SegmentRole::Assistant => Self::Assistant,
            SegmentRole::User | SegmentRole::Result | SegmentRole::System | SegmentRole::Tools => Self::User,
        }
    }

    fn opening(self) -> &'static str {
        match self {
            Self::User => "{\"role\":\"user\",\"content\":[",
            Self::Assistant => "{\"role\":\"assistant\",\"content\":[",
        }
    }
}

/// One message as it is sent: the blocks of one or more segments.
struct AnthropicMessage<'a> {
    side: Side,
    blocks: Vec<Cow<'a, str>>,
}

fn taking_turns(segments: &[Segment]) -> Vec<AnthropicMessage<'_>> {
    let mut messages: Vec<AnthropicMessage<'_>> = Vec::new();
    for segment in segments {
        let side = Side::of(segment.role);
        let Some(blocks) = encode::blocks(&segment.bytes, side) else { continue };
        match messages.last_mut() {
            Some(last) if last.side == side => last.blocks.extend(continued(blocks, side)),
            _ => messages.push(AnthropicMessage { side, blocks: vec![blocks.into()] }),
        }
    }
    messages
}

/// Blocks that follow others in one message. A signed thought holds only where the answer began.
fn continued(blocks: &str, side: Side) -> Option<Cow<'_, str>> {
    if side == Side::User || !blocks.contains("thinking") {
        return Some(blocks.into());
    }
    let list = format!("[{blocks}]");
    let kept = elements(&list)?.into_iter().filter(|block| !encode::is_thought(block.get()));
    let kept: Vec<&str> = kept.map(|block| block.get()).collect();
    (!kept.is_empty()).then(|| kept.join(",").into())
}

/// Only one of `temperature` and `top_p` is taken, and no temperature above 1.
fn tempers(sampling: &Value) -> Vec<(&'static str, Value)> {
    let number = |name: &str| sampling.get(name).filter(|value| value.is_number());
    let mut tempers = Vec::new();
    if let Some(temperature) = number("temperature") {
        let is_hot = temperature.as_f64().is_some_and(|degree| degree > 1.0);
        tempers.push(("temperature", if is_hot { json!(1) } else { temperature.clone() }));
    } else if let Some(top_p) = number("top_p") {
        tempers.push(("top_p", top_p.clone()));
    }
    tempers.extend(number("top_k").map(|top_k| ("top_k", top_k.clone())));
    tempers
}

fn stop_sequences(sampling: &Value) -> Option<Value> {
    let stops: Vec<&str> = match sampling.get("stop")? {
        Value::String(stop) => vec![stop],
        Value::Array(stops) => stops.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let stops: Vec<&str> = stops.into_iter().filter(|stop| !stop.trim().is_empty()).collect();
    (!stops.is_empty()).then(|| json!(stops))
}

fn tool_choice(sampling: &Value) -> Option<Value> {
    let mut choice = match sampling.get("tool_choice") {
        Some(Value::String(word)) => match word.as_str() {
            "none" => return Some(json!({"type": "none"})),
            "required" => json!({"type": "any"}),
            _ => json!({"type": "auto"}),
        },
        Some(choice) => match choice.pointer("/function/name").and_then(Value::as_str) {
            Some(name) => json!({"type": "tool", "name": name}),
            None => json!({"type": "auto"}),
        },
        None => json!({"type": "auto"}),
    };
    let one_by_one = sampling.get("parallel_tool_calls") == Some(&Value::Bool(false));
    if one_by_one {
        choice["disable_parallel_tool_use"] = Value::Bool(true);
    }
    (one_by_one || sampling.get("tool_choice").is_some_and(|choice| !choice.is_null())).then_some(choice)
}

#[cfg(test)]
mod tests;
