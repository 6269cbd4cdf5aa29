//! `POST /v1/chat/completions`.
//!
//! With `X-Hermes-Session-Id` the session's own history wins and the body's last message is the
//! input; without, the client's copy of the conversation says which session it continues. The
//! answer's id and time derive from the turn: a plain replay is the same bytes, a streamed one the
//! same text under the same id.
//!
//! The agent's own tools run on this side, and their calls never show in an answer. Tools that the client brings along are
//! the client's to run: an answer that calls them ends with `tool_calls`, and the request with their results goes on
//! from there. What cannot be honoured is refused; nothing that a client asks for is dropped in silence.
//!
//! A stream is OpenAI's and nothing else, unless the client asks for more (see [`crate::client_options`]).

use crate::App;
use crate::client_conversation::ClientConversation;
use crate::client_tools::{self, RequestTools, ToolFormat};
use crate::error::ApiError;
use crate::json_response;
use crate::request_body::{self, RequestFields, wrong_type};
use crate::sampling;
use crate::sse::{self, StreamFormat, ToolEvent};
use crate::streamed_text::StreamedText;
use crate::submission::{ApiCaller, ApiRequest, COMPLETION, ResponseStamp};
use crate::turn_follower::{ClientReply, FinishReason, StopOnHangUp, TurnFollower};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use throughline_core::Time;
use throughline_core::message::ToolCall;
use throughline_core::port::{Delta, Settled, Submission};
use throughline_core::turn;
use throughline_offload as offload;

pub async fn create(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let request_body::RequestBody { bytes, room } =
        request_body::read(&head.headers, body, app.options.body_bytes_max).await?;
    let read = offload::run(bytes.len(), || ChatRequest::read(&app, &head.headers, &bytes));
    let ChatRequest { caller, manner, submission } = read?;
    let at = submission.at;
    let receipt = app.api.submit(submission).await?;
    drop(room);
    let stamp = caller.stamp(&receipt);
    let mut follower = TurnFollower::new(app.api.clone(), receipt);
    let mut leaving = StopOnHangUp::of(&follower, caller.stops(&app));
    if manner.streams {
        let voice = Chunks::new(&stamp, manner, at);
        return Ok(sse::stream(voice, follower, leaving, &stamp, app.options.keep_alive));
    }
    let settled = follower.settled().await;
    leaving.is_over();
    let response = match settled {
        Ok(settled) => completion(&settled, &stamp, &manner)
            .map(|json| json_response::whole(json, &stamp, Some(follower.delivery()))),
        Err(error) => Err(error),
    };
    Ok(response.unwrap_or_else(|error| {
        let mut response = error.into_response();
        stamp.put(response.headers_mut());
        response
    }))
}

/// A request, read.
struct ChatRequest {
    caller: ApiCaller,
    manner: CompletionOptions,
    submission: Submission,
}

impl ChatRequest {
    fn read(app: &App, headers: &HeaderMap, bytes: &[u8]) -> Result<Self, ApiError> {
        let mut fields = request_body::parse(bytes)?;
        let digest = fields.digest();
        let caller = ApiCaller::new(app, headers, fields.text("user")?)?;
        let manner = CompletionOptions::take(app, &caller, &mut fields)?;
        let conversation = ClientConversation::from_messages(fields.take("messages"))?;
        let RequestTools { tools, wishes } = client_tools::take(&mut fields, ToolFormat::Chat)?;
        let sampling = sampling::of_chat(&mut fields, wishes)?;
        fields.refuse_rest()?;
        let ask = ApiRequest { endpoint: "chat", body: digest, sampling, tools, unkept: false };
        let submission = caller.submission(app, &ask, caller.place(app, conversation)?);
        Ok(Self { caller, manner, submission })
    }
}

/// How the answer is to be told.
struct CompletionOptions {
    streams: bool,
    includes_usage: bool,
    /// Tells of tools, too.
    tells_more: bool,
    /// As the client named it: which model answers is the agent's affair.
    model: String,
}

impl CompletionOptions {
    fn take(app: &App, caller: &ApiCaller, fields: &mut RequestFields) -> Result<Self, ApiError> {
        match fields.take("n") {
            None => {}
            Some(Value::Number(n)) if n.as_u64() == Some(1) => {}
            Some(_) => {
                let message = "n must be 1: a conversation goes on with one answer.";
                return Err(ApiError::invalid("n", message).code("unsupported_value"));
            }
        }
        let options = match fields.take("stream_options") {
            None => None,
            Some(Value::Object(options)) => Some(options),
            Some(other) => return Err(wrong_type("stream_options", "an object", &other)),
        };
        let includes_usage = options.as_ref().and_then(|options| options.get("include_usage")?.as_bool());
        fields.flag("store")?; // it is kept in any case, as the agent's conversation
        sampling::refuse_impossible(fields)?;
        if let Some(kinds) = fields.take("modalities").filter(|kinds| *kinds != serde_json::json!(["text"])) {
            let message = format!("modalities is {kinds}; answers are text.");
            return Err(ApiError::invalid("modalities", message).code("unsupported_value"));
        }
        for (name, instead) in [("functions", "tools"), ("function_call", "tool_choice")] {
            if fields.take(name).is_some() {
                let message = format!("{name} is not supported; use {instead}.");
                return Err(ApiError::invalid(name, message).code("unsupported_parameter"));
            }
        }
        let model = fields.text("model")?.filter(|model| !model.is_empty());
        Ok(Self {
            streams: fields.flag("stream")?,
            includes_usage: includes_usage.unwrap_or(false),
            tells_more: caller.wishes.with_options(options.as_ref()).events,
            model: model.unwrap_or_else(|| app.options.model.clone()),
        })
    }
}

#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    choices: [CompletionChoice<'a>; 1],
    usage: CompletionUsage,
}

#[derive(Serialize)]
struct CompletionChoice<'a> {
    index: u32,
    message: CompletionMessage<'a>,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct CompletionMessage<'a> {
    role: &'static str,
    /// Null where there is nothing but calls.
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallOf<'a>>,
    refusal: Option<()>,
}

/// A call for the client to run.
#[derive(Serialize)]
struct CallOf<'a> {
    /// Only in pieces.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    id: &'a str,
    r#type: &'static str,
    function: FunctionOf<'a>,
}

#[derive(Serialize)]
struct FunctionOf<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> CallOf<'a> {
    fn new(call: &'a ToolCall, index: Option<usize>) -> Self {
        let function = FunctionOf { name: &call.name, arguments: &call.arguments };
        Self { index, id: &call.id, r#type: "function", function }
    }
}

#[derive(Serialize)]
struct CompletionUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl From<turn::Usage> for CompletionUsage {
    fn from(usage: turn::Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt(),
            completion_tokens: usage.output,
            total_tokens: usage.prompt() + usage.output,
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cache_read },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning },
        }
    }
}

fn finish_reason(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::Filtered => "content_filter",
        FinishReason::Calls => "tool_calls",
    }
}

fn completion(
    settled: &Settled,
    stamp: &ResponseStamp,
    manner: &CompletionOptions,
) -> Result<Vec<u8>, ApiError> {
    let reply = ClientReply::of(settled)?;
    let message = CompletionMessage {
        role: "assistant",
        content: Some(&*reply.text).filter(|text| !text.is_empty() || reply.calls.is_empty()),
        reasoning_content: reply.reasoning,
        tool_calls: reply.calls.iter().map(|call| CallOf::new(call, None)).collect(),
        refusal: None,
    };
    let completion = Completion {
        id: &stamp.name(COMPLETION),
        object: "chat.completion",
        created: settled.began.whole_seconds(),
        model: &manner.model,
        choices: [CompletionChoice {
            index: 0,
            message,
            logprobs: None,
            finish_reason: finish_reason(reply.finish),
        }],
        usage: reply.usage.into(),
    };
    Ok(serde_json::to_vec(&completion).expect("a completion is texts and numbers"))
}

/// A completion in pieces.
struct Chunks {
    id: String,
    created: i64,
    manner: CompletionOptions,
    shown: StreamedText,
    has_reasoned: bool,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    choices: &'a [ChunkChoice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<CompletionUsage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throughline: Option<Torn<'a>>,
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: u32,
    delta: ChunkDelta<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct ChunkDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallOf<'a>>,
}

/// With the last chunk, where the pieces before it hold more than the answer: the answer alone.
#[derive(Serialize)]
struct Torn<'a> {
    restarted: bool,
    content: &'a str,
}

impl Chunks {
    fn new(stamp: &ResponseStamp, manner: CompletionOptions, at: Time) -> Self {
        Self {
            id: stamp.name(COMPLETION),
            created: at.whole_seconds(),
            manner,
            shown: StreamedText::default(),
            has_reasoned: false,
        }
    }

    fn chunk<'a>(&'a self, choices: &'a [ChunkChoice<'a>]) -> Chunk<'a> {
        Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.manner.model,
            choices,
            usage: self.manner.includes_usage.then_some(None),
            throughline: None,
        }
    }

    fn piece(&self, delta: ChunkDelta<'_>, out: &mut Vec<u8>) {
        sse::data(&self.chunk(&[ChunkChoice { index: 0, delta, logprobs: None, finish_reason: None }]), out);
    }

    fn content(&self, text: &str, out: &mut Vec<u8>) {
        if !text.is_empty() {
            self.piece(ChunkDelta { content: Some(text), ..ChunkDelta::default() }, out);
        }
    }

    fn end(&mut self, reply: &ClientReply<'_>, out: &mut Vec<u8>) {
        if let (false, Some(reasoning)) = (self.has_reasoned, reply.reasoning) {
            self.piece(ChunkDelta { reasoning_content: Some(reasoning), ..ChunkDelta::default() }, out);
        }
        let rest = self.shown.finish(&reply.text);
        self.content(&rest, out);
        for (index, call) in reply.calls.iter().enumerate() {
            let tool_calls = vec![CallOf::new(call, Some(index))];
            self.piece(ChunkDelta { tool_calls, ..ChunkDelta::default() }, out);
        }
        let choice = ChunkChoice {
            index: 0,
            delta: ChunkDelta::default(),
            logprobs: None,
            finish_reason: Some(finish_reason(reply.finish)),
        };
        let is_told = self.manner.tells_more && self.shown.is_torn();
        let torn = is_told.then_some(Torn { restarted: true, content: &reply.text });
        sse::data(&Chunk { throughline: torn, ..self.chunk(&[choice]) }, out);
        if self.manner.includes_usage {
            sse::data(&Chunk { usage: Some(Some(reply.usage.into())), ..self.chunk(&[]) }, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

impl StreamFormat for Chunks {
    fn begin(&mut self, began: Option<Time>, out: &mut Vec<u8>) {
        if let Some(began) = began {
            self.created = began.whole_seconds();
        }
        self.piece(ChunkDelta { role: Some("assistant"), content: Some(""), ..ChunkDelta::default() }, out);
    }

    fn delta(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        match delta {
            Delta::Text(text) => {
                let text = self.shown.delta(text);
                self.content(&text, out);
            }
            Delta::Reasoning(text) if text.is_empty() => {}
            Delta::Reasoning(text) => {
                self.has_reasoned = true;
                self.piece(ChunkDelta { reasoning_content: Some(text), ..ChunkDelta::default() }, out);
            }
        }
    }

    fn restarted(&mut self, out: &mut Vec<u8>) {
        self.shown.restart();
        out.extend_from_slice(b": the model was asked again\n\n");
    }

    fn working(&mut self, work: &ToolEvent<'_>, out: &mut Vec<u8>) {
        if matches!(work, ToolEvent::Calling { .. }) {
            self.shown.restart(); // what was said before a call is not the answer
        }
        if self.manner.tells_more {
            sse::progress(work, out);
        }
    }

    fn settled(&mut self, settled: &Settled, out: &mut Vec<u8>) -> bool {
        match ClientReply::of(settled) {
            Ok(reply) => self.end(&reply, out),
            Err(error) => {
                self.broken(error, out);
                return false;
            }
        }
        true
    }

    /// Without `[DONE]`: OpenAI's libraries raise what the event says.
    fn broken(&mut self, error: ApiError, out: &mut Vec<u8>) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&error.json());
        out.extend_from_slice(b"\n\n");
    }
}
