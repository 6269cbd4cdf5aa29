//! A response as JSON: its status, its items and its usage, as OpenAI writes them.

use super::ResponseOptions;
use crate::App;
use crate::error::ApiError;
use crate::response_id::ResponseId;
use crate::submission::ResponseStamp;
use crate::turn_follower::{ClientReply, FinishReason};
use serde::Serialize;
use throughline_core::message::ToolCall;
use throughline_core::{Time, turn};

/// A response, before it is known what it says.
pub(super) struct ResponseOf {
    id: String,
    pub(super) item: String,
    pub(super) created: i64,
    pub(super) manner: ResponseOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResponseStatus {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

#[derive(Serialize)]
pub(super) struct ResponseObject<'a> {
    id: &'a str,
    object: &'static str,
    created_at: i64,
    pub(super) status: ResponseStatus,
    background: bool,
    error: Option<ResponseError<'a>>,
    incomplete_details: Option<Incomplete>,
    instructions: Option<&'a str>,
    max_output_tokens: Option<u64>,
    model: &'a str,
    output: &'a [OutputItem<'a>],
    parallel_tool_calls: bool,
    previous_response_id: Option<&'a str>,
    reasoning: ReasoningOptions,
    store: bool,
    temperature: Option<f64>,
    text: TextOptions,
    tool_choice: &'static str,
    tools: [(); 0],
    top_p: Option<f64>,
    truncation: &'static str,
    usage: Option<ResponseUsage>,
    user: Option<&'a str>,
    metadata: EmptyObject,
}

#[derive(Serialize)]
pub(super) struct EmptyObject {}

#[derive(Serialize)]
pub(super) struct ResponseError<'a> {
    code: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
pub(super) struct Incomplete {
    reason: &'static str,
}

#[derive(Serialize)]
pub(super) struct ReasoningOptions {
    effort: Option<&'static str>,
    summary: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct TextOptions {
    format: TextFormat,
}

#[derive(Serialize)]
pub(super) struct TextFormat {
    r#type: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum OutputItem<'a> {
    Message(MessageItem<'a>),
    Call(CallItem<'a>),
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct MessageItem<'a> {
    pub(super) r#type: &'static str,
    pub(super) id: &'a str,
    pub(super) status: ResponseStatus,
    pub(super) role: &'static str,
    pub(super) content: &'a [OutputText<'a>],
}

/// A call for the client to run.
#[derive(Clone, Serialize)]
pub(super) struct CallItem<'a> {
    pub(super) r#type: &'static str,
    pub(super) id: String,
    pub(super) status: ResponseStatus,
    pub(super) call_id: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct OutputText<'a> {
    r#type: &'static str,
    text: &'a str,
    annotations: [(); 0],
    logprobs: [(); 0],
}

impl<'a> OutputText<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { r#type: "output_text", text, annotations: [], logprobs: [] }
    }
}

#[derive(Serialize)]
pub(super) struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Serialize)]
pub(super) struct InputDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Serialize)]
pub(super) struct OutputDetails {
    reasoning_tokens: u64,
}

impl From<turn::Usage> for ResponseUsage {
    fn from(usage: turn::Usage) -> Self {
        Self {
            input_tokens: usage.prompt(),
            input_tokens_details: InputDetails {
                cached_tokens: usage.cache_read,
                cache_write_tokens: usage.cache_write,
            },
            output_tokens: usage.output,
            output_tokens_details: OutputDetails { reasoning_tokens: usage.reasoning },
            total_tokens: usage.prompt() + usage.output,
        }
    }
}

/// How a response of this finish stands, and why it is not whole.
pub(super) fn standing(finish: FinishReason) -> (ResponseStatus, Option<Incomplete>) {
    match finish {
        FinishReason::Stop | FinishReason::Calls => (ResponseStatus::Completed, None),
        FinishReason::Length => {
            (ResponseStatus::Incomplete, Some(Incomplete { reason: "max_output_tokens" }))
        }
        FinishReason::Filtered => (ResponseStatus::Incomplete, Some(Incomplete { reason: "content_filter" })),
    }
}

impl ResponseOf {
    pub(super) fn new(app: &App, stamp: &ResponseStamp, manner: ResponseOptions, at: Time) -> Self {
        // An id that nothing is found by, where nothing is to be found.
        let id = match manner.is_kept {
            true => ResponseId { session: stamp.session.clone(), seq: stamp.seq }.issue(&app.guard),
            false => stamp.name("resp_"),
        };
        Self { item: item_name("msg_", &id), id, created: at.whole_seconds(), manner }
    }

    pub(super) fn since(mut self, began: Time) -> Self {
        self.created = began.whole_seconds();
        self
    }

    pub(super) fn view<'a>(
        &'a self,
        status: ResponseStatus,
        output: &'a [OutputItem<'a>],
    ) -> ResponseObject<'a> {
        ResponseObject {
            id: &self.id,
            object: "response",
            created_at: self.created,
            status,
            background: false,
            error: None,
            incomplete_details: None,
            instructions: self.manner.instructions.as_deref(),
            max_output_tokens: None,
            model: &self.manner.model,
            output,
            parallel_tool_calls: true,
            previous_response_id: self.manner.previous_response_id.as_deref(),
            reasoning: ReasoningOptions { effort: None, summary: None },
            store: self.manner.is_kept,
            temperature: None,
            text: TextOptions { format: TextFormat { r#type: "text" } },
            tool_choice: "auto",
            tools: [],
            top_p: None,
            truncation: "disabled",
            usage: None,
            user: None,
            metadata: EmptyObject {},
        }
    }

    pub(super) fn object(
        &self,
        status: ResponseStatus,
        output: &[OutputItem<'_>],
        usage: Option<ResponseUsage>,
        error: Option<&ApiError>,
    ) -> Vec<u8> {
        let object = ResponseObject { usage, error: error.map(fault), ..self.view(status, output) };
        serde_json::to_vec(&object).expect("a response is texts and numbers")
    }

    pub(super) fn failed<'a>(&'a self, error: &'a ApiError) -> ResponseObject<'a> {
        ResponseObject { error: Some(fault(error)), ..self.view(ResponseStatus::Failed, &[]) }
    }

    /// Calls `tell` with the response that says `reply`.
    pub(super) fn tell_answered<T>(
        &self,
        reply: &ClientReply<'_>,
        tell: impl FnOnce(&ResponseObject<'_>) -> T,
    ) -> T {
        let (status, incomplete_details) = standing(reply.finish);
        let content = [OutputText::new(&reply.text)];
        let mut output = Vec::with_capacity(reply.calls.len() + 1);
        if reply.has_words() {
            let id = &self.item;
            let message = MessageItem { r#type: "message", id, status, role: "assistant", content: &content };
            output.push(OutputItem::Message(message));
        }
        let calls = reply.calls.iter().enumerate();
        output.extend(calls.map(|(index, call)| OutputItem::Call(self.call(index, call, &call.arguments))));
        let usage = Some(reply.usage.into());
        tell(&ResponseObject { incomplete_details, usage, ..self.view(status, &output) })
    }

    pub(super) fn call<'a>(&self, index: usize, call: &'a ToolCall, arguments: &'a str) -> CallItem<'a> {
        CallItem {
            r#type: "function_call",
            id: item_name(&format!("fc_{index}_"), &self.id),
            status: ResponseStatus::Completed,
            call_id: &call.id,
            name: &call.name,
            arguments,
        }
    }

    pub(super) fn answered(&self, reply: &ClientReply<'_>) -> Vec<u8> {
        self.tell_answered(reply, |object| {
            serde_json::to_vec(object).expect("a response is texts and numbers")
        })
    }
}

/// What an item of a response is called: a client that refers to it by that name means what the response says there.
fn item_name(prefix: &str, response: &str) -> String {
    format!("{prefix}{}", response.strip_prefix(RESPONSE).unwrap_or(response))
}

/// What the ids of responses begin with.
pub(super) const RESPONSE: &str = "resp_";

fn fault(error: &ApiError) -> ResponseError<'_> {
    ResponseError { code: error.code_or("server_error"), message: error.message() }
}
