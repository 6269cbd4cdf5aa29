//! Any server that speaks OpenAI's chat completions: OpenAI, OpenRouter, Ollama, vLLM, LM Studio …
//!
//! The body of a request is joined from segments as they are. Only three things are decided when
//! joining, all by configuration: whether adjacent user messages are merged, where cache marks go,
//! and which of a client's wishes are passed on.

mod answer;
pub(crate) mod encode;

use crate::UnusableModel;
use crate::call_id;
use crate::exchange::{self, Deltas};
use crate::json::{fields, push_field, string};
use crate::provider_error::{AskedEndpoint, ProviderError};
use answer::OpenAiDraft;
use std::borrow::Cow;
use std::fmt;
use throughline_core::message::{JsonText, Message};
use throughline_core::port::{Asked, Delta, Model, ModelError, Promise};
use throughline_core::prompt::{Prompt, Segment, SegmentRole};
use throughline_core::turn::Answer;
use throughline_net::{Client, Endpoint, Secret};

pub const OPENAI_URL: &str = "https://api.openai.com/v1";
pub const OPENROUTER_URL: &str = "https://openrouter.ai/api/v1";

/// What of a client's wishes reaches the model. Not among them: what we decide (`model`,
/// `messages`, `tools`, `stream`), and `n`, because there is one answer.
const SAMPLING: [&str; 22] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "response_format",
    "reasoning_effort",
    "reasoning",
    "verbosity",
    "prediction",
    "service_tier",
    "tool_choice",
    "parallel_tool_calls",
];

/// Refused by servers where there are no tools to choose from.
const NEED_TOOLS: [&str; 2] = ["tool_choice", "parallel_tool_calls"];

/// What not even the user's own additions may replace.
const OURS: [&str; 6] = ["model", "messages", "tools", "stream", "stream_options", "n"];

/// Where a provider caches only what is marked. Three of the four marks it allows.
const CACHE_MARK: &str = "\"cache_control\":{\"type\":\"ephemeral\"}";
const MARKED_MESSAGES: usize = 2;

/// What goes back to the model of what it thought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningReturn {
    /// `reasoning_content` and `reasoning_details`, where there are any.
    AsStored,
    /// Only `reasoning_details`: a router that takes no other.
    Details,
    /// Nothing: servers that refuse fields they do not know.
    Never,
    /// `reasoning_content` with every answer, a blank where there is none: servers that refuse its absence.
    Always,
}

impl ReasoningReturn {
    /// What the host of `base_url` is known to want.
    pub fn usual(base_url: &str) -> Self {
        const STRICT: [&str; 6] = [
            "api.openai.com",
            "openai.azure.com",
            "api.groq.com",
            "api.mistral.ai",
            "api.cerebras.ai",
            "api.sambanova.ai",
        ];
        const DEMANDING: [&str; 5] =
            ["api.deepseek.com", "api.kimi.com", "moonshot.ai", "moonshot.cn", "xiaomimimo.com"];
        let is_among = |hosts: &[&str]| hosts.iter().any(|host| is_at(base_url, host));
        match base_url {
            _ if is_among(&STRICT) => Self::Never,
            _ if is_among(&DEMANDING) => Self::Always,
            _ if is_at(base_url, "openrouter.ai") => Self::Details,
            _ => Self::AsStored,
        }
    }
}

/// `base_url` leads to this host or to one below it.
fn is_at(base_url: &str, domain: &str) -> bool {
    let host = Endpoint::new(base_url, "").map(|endpoint| endpoint.host().to_owned()).unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

#[derive(Clone)]
pub struct OpenAiConfig {
    /// Up to and with `/v1`.
    pub base_url: String,
    pub model: String,
    /// None for local servers that want none.
    pub key: Option<Secret>,
    /// What the user calls the key (`OPENAI_API_KEY`): errors name it.
    pub key_name: String,
    pub headers: Vec<(String, String)>,
    /// The longest answer, where neither client nor server decides it.
    pub max_tokens: Option<u32>,
    /// Further fields of every request, as a JSON object. A client's wish wins over them.
    pub extra_body: Option<JsonText>,
    /// Joins adjacent messages of the user, for servers that refuse them.
    pub merge_users: bool,
    pub reasoning: ReasoningReturn,
    /// Marks what is worth caching, for providers that cache nothing unmarked.
    pub cache_marks: bool,
    /// Asks for the usage of a stream. A few old servers refuse the question.
    pub stream_usage: bool,
}

impl OpenAiConfig {
    /// As this server is known to want it.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let (base_url, model) = (base_url.into(), model.into());
        Self {
            key: None,
            key_name: "the API key".to_owned(),
            headers: Vec::new(),
            max_tokens: None,
            extra_body: None,
            merge_users: false,
            reasoning: ReasoningReturn::usual(&base_url),
            cache_marks: is_at(&base_url, "openrouter.ai") && model.starts_with("anthropic/"),
            stream_usage: true,
            base_url,
            model,
        }
    }
}

/// Address and headers may carry secrets, too.
impl fmt::Debug for OpenAiConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OpenAiConfig({})", self.model)
    }
}

pub struct OpenAi {
    place: AskedEndpoint,
    client: Client,
    max_tokens: Option<OpenAiField>,
    extra: Vec<OpenAiField>,
    merge_users: bool,
    reasoning: ReasoningReturn,
    cache_marks: bool,
    stream_usage: bool,
    /// The provider keeps the caches of sessions apart if it is told which is which.
    takes_cache_key: bool,
}

/// A field of the request and its value as JSON text.
type OpenAiField = (String, String);

impl OpenAi {
    pub fn new(config: OpenAiConfig, client: Client) -> Result<Self, UnusableModel> {
        let endpoint = endpoint(&config)
            .map_err(|reason| UnusableModel::Endpoint { model: config.model.clone(), reason })?;
        let extra = match &config.extra_body {
            Some(object) => {
                fields(object.as_str()).ok_or(UnusableModel::ExtraBody { model: config.model.clone() })?
            }
            None => Vec::new(),
        };
        let extra = extra.into_iter().filter(|(name, _)| !OURS.contains(&name.as_str()));
        let is_openai = is_at(&config.base_url, "api.openai.com");
        // The newer name is the only one that OpenAI's reasoning models take, and unknown elsewhere.
        let limit = if is_openai { "max_completion_tokens" } else { "max_tokens" };
        Ok(Self {
            place: AskedEndpoint { model: config.model, endpoint, key_name: config.key_name },
            client,
            max_tokens: config.max_tokens.map(|tokens| (limit.to_owned(), tokens.to_string())),
            extra: extra.map(|(name, value)| (name, value.get().to_owned())).collect(),
            merge_users: config.merge_users,
            reasoning: config.reasoning,
            cache_marks: config.cache_marks,
            stream_usage: config.stream_usage,
            takes_cache_key: is_openai,
        })
    }

    /// The exact bytes of a request.
    pub fn body(&self, asked: &Asked) -> String {
        let prompt = &asked.prompt;
        let length: usize = prompt.messages.iter().map(|segment| segment.bytes.len() + 1).sum();
        let mut out = String::with_capacity(length + 4096);
        out.push('{');
        push_field(&mut out, "model", &string(&self.place.model));
        out.push_str(",\"messages\":[");
        let messages = self.joined(prompt.system.iter().chain(&prompt.messages));
        push_list(&mut out, messages.iter().map(|(_, text)| text.as_ref()));
        out.push(']');
        if let Some(tools) = tools(prompt) {
            push_field(&mut out, "tools", tools);
        }
        push_field(&mut out, "stream", "true");
        if self.stream_usage {
            push_field(&mut out, "stream_options", "{\"include_usage\":true}");
        }
        for (name, value) in self.wishes(asked) {
            push_field(&mut out, &name, &value);
        }
        out.push('}');
        out
    }

    fn joined<'a>(&self, segments: impl Iterator<Item = &'a Segment>) -> Vec<(SegmentRole, Cow<'a, str>)> {
        let mut messages: Vec<(SegmentRole, Cow<'a, str>)> = Vec::new();
        for segment in segments {
            let text: &'a str = &segment.bytes;
            if self.merge_users
                && segment.role == SegmentRole::User
                && let Some((SegmentRole::User, last)) = messages.last_mut()
                && merge(last, text)
            {
                continue;
            }
            messages.push((segment.role, Cow::Borrowed(text)));
        }
        if self.cache_marks {
            mark(&mut messages);
        }
        messages
    }

    /// The fields beside the prompt: the user's additions, then the client's wishes, which win.
    fn wishes(&self, asked: &Asked) -> Vec<OpenAiField> {
        let mut wishes = self.extra.clone();
        let mut wish = |name: String, value: String| {
            wishes.retain(|(earlier, _)| *earlier != name);
            wishes.push((name, value));
        };
        if self.takes_cache_key && !asked.session.is_empty() {
            wish("prompt_cache_key".to_owned(), string(&asked.session));
        }
        let sampling = asked.sampling.as_ref().and_then(|object| fields(object.as_str())).unwrap_or_default();
        let passed = |name: &str| {
            SAMPLING.contains(&name) && (tools(&asked.prompt).is_some() || !NEED_TOOLS.contains(&name))
        };
        for (name, value) in sampling {
            if passed(&name) && value.get() != "null" {
                wish(name, value.get().to_owned());
            }
        }
        let is_limited =
            wishes.iter().any(|(name, _)| name == "max_tokens" || name == "max_completion_tokens");
        wishes.extend(self.max_tokens.clone().filter(|_| !is_limited));
        wishes
    }

    async fn exchange(&self, asked: Asked, deltas: Deltas<'_>) -> Result<Answer, ProviderError> {
        let mut draft = OpenAiDraft::default();
        exchange::ask(&self.client, &self.place.endpoint, self.body(&asked), &mut draft, deltas).await?;
        draft.finish(&self.place.model, call_id::maker(&asked.session, &asked.prompt))
    }
}

impl Model for OpenAi {
    fn name(&self) -> &str {
        &self.place.model
    }

    fn is_real(&self) -> bool {
        true
    }

    fn encode(&self, message: &Message) -> Segment {
        encode::message(message, self.reasoning)
    }

    fn encode_system(&self, text: &str) -> Segment {
        encode::system(text)
    }

    fn ask<'a>(
        &'a self,
        asked: Asked,
        deltas: &'a (dyn Fn(Delta) + Send + Sync),
    ) -> Promise<'a, Result<Answer, ModelError>> {
        Box::pin(async move { self.exchange(asked, deltas).await.map_err(|fault| self.place.explain(fault)) })
    }
}

fn endpoint(config: &OpenAiConfig) -> Result<Endpoint, throughline_net::InvalidEndpoint> {
    const PATH: &str = "chat/completions";
    // Some people paste the whole address.
    let is_whole = config.base_url.trim_end_matches('/').ends_with(PATH);
    let mut endpoint = Endpoint::new(&config.base_url, if is_whole { "" } else { PATH })?;
    if let Some(key) = &config.key {
        endpoint = endpoint.secret_header("authorization", "Bearer ", key)?;
    }
    config.headers.iter().try_fold(endpoint, |endpoint, (name, value)| endpoint.header(name, value))
}

/// An empty list is refused: none is meant.
fn tools(prompt: &Prompt) -> Option<&str> {
    prompt.tools.as_ref().map(|tools| &*tools.bytes).filter(|list| *list != "[]")
}

fn push_list<'a>(out: &mut String, items: impl Iterator<Item = &'a str>) {
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(item);
    }
}

/// Divides an encoded message whose content is one text: up to the text, and the text as JSON.
/// Its content is always written last.
fn text_content(message: &str) -> Option<(&str, &str)> {
    const CONTENT: &str = ",\"content\":";
    let text = message.find(",\"content\":\"")? + CONTENT.len();
    let end = message.strip_suffix('}').filter(|rest| rest.ends_with('"'))?.len();
    Some((&message[..text], message.get(text..end)?))
}

/// Adds the second text to the first, in place: a client may send a hundred thousand messages in a row. False if one of
/// them is more than a text.
fn merge(first: &mut Cow<'_, str>, second: &str) -> bool {
    let (Some(_), Some((_, text))) = (text_content(first), text_content(second)) else { return false };
    let Some(text) = text.strip_prefix('"') else { return false };
    let first = first.to_mut();
    first.truncate(first.len() - "\"}".len());
    first.extend(["\\n\\n", text, "}"]);
    true
}

/// Marks the system prompt and the last messages that can carry a mark. A client that sets marks
/// itself has used up what is allowed.
fn mark(messages: &mut [(SegmentRole, Cow<'_, str>)]) {
    if messages.iter().any(|(_, text)| text.contains("\"cache_control\":")) {
        return;
    }
    let mut left = MARKED_MESSAGES;
    for (index, (role, text)) in messages.iter_mut().enumerate().rev() {
        let wanted = match role {
            SegmentRole::System => index == 0,
            SegmentRole::User | SegmentRole::Result => left > 0,
            SegmentRole::Assistant | SegmentRole::Tools => false,
        };
        if wanted && let Some(with_mark) = marked(text) {
            left = left.saturating_sub(usize::from(*role != SegmentRole::System));
            *text = Cow::Owned(with_mark);
        }
    }
}

fn marked(message: &str) -> Option<String> {
    let (head, text) = text_content(message)?;
    let is_blank =
        text.len() < 64 && serde_json::from_str::<String>(text).is_ok_and(|text| text.trim().is_empty());
    if is_blank {
        return None; // such a text cannot carry one
    }
    let mut out = String::with_capacity(message.len() + 96);
    out.push_str(head);
    out.push_str("[{\"type\":\"text\",\"text\":");
    out.push_str(text);
    out.push(',');
    out.push_str(CACHE_MARK);
    out.push_str("}]}");
    Some(out)
}

#[cfg(test)]
mod tests;
