//! `POST /v1/responses` and `GET /v1/responses/{id}`.
//!
//! `previous_response_id` names a turn. If nothing came after it, the input is appended to its
//! session; if something did, a new session begins with the history up to that turn. Without it,
//! the input is placed as a chat completion's messages are.
//!
//! Two requests that continue the same response meet here: the second sees the first, and branches.
//!
//! Tools that the client brings along are its own to run: their calls are items of the output, and a request whose input
//! holds their results goes on from there.
//!
//! With `"store": false` a response has an id that leads nowhere: it cannot be read back or continued by it, and no
//! other conversation is reminded of it. The agent's own transcript keeps it, as that of any turn.
//!
//! Deliberately absent: reasoning items (what a model thought is counted, not shown), stored
//! copies (a response is its turn, read back), `conversation`, `background` and `prompt`.

use crate::App;
use crate::client_conversation::ClientConversation;
use crate::client_tools::{self, RequestTools, ToolFormat};
use crate::error::ApiError;
use crate::json_response;
use crate::path_and_query::PathName;
use crate::request_body::{self, RequestFields, wrong_type};
use crate::response_id::ResponseId;
use crate::response_input;
use crate::sampling;
use crate::sessions;
use crate::sse::{self, StreamFormat, ToolEvent};
use crate::streamed_text::StreamedText;
use crate::submission::{ApiCaller, ApiRequest, PlacedInput, ResponseStamp};
use crate::turn_follower::{ClientReply, FinishReason, StopOnHangUp, TurnFollower};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::message::{Body, ToolCall};
use throughline_core::port::{Delta, Question, Reading, Receipt, Refusal, Settled, Submission};
use throughline_core::route::Target;
use throughline_core::{Content, Message, RowId, Time, history, turn};
use throughline_offload as offload;
use tokio::time::timeout;

/// How long a reader waits for a turn that settled long ago to be read back.
const SETTLED_WITHIN: Duration = Duration::from_millis(200);

pub async fn create(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let request_body::RequestBody { bytes, room } =
        request_body::read(&head.headers, body, app.options.body_bytes_max).await?;
    let bytes = resolved(&app, &head.headers, bytes).await?;
    let at = app.api.now();
    let read = offload::run(bytes.len(), || ResponseRequest::read(&app, &head.headers, &bytes));
    let ResponseRequest { caller, manner, said } = read?;
    let receipt = match said {
        ResponseInput::Begins(submission) => app.api.submit(*submission).await?,
        ResponseInput::Follows { id, ask, conversation } => {
            go_on(&app, &caller, &ask, conversation, &id).await?
        }
    };
    drop(room);
    let stamp = caller.stamp(&receipt);
    let mut follower = TurnFollower::new(app.api.clone(), receipt);
    let mut leaving = StopOnHangUp::of(&follower, caller.stops(&app));
    let response = ResponseOf::new(&app, &stamp, manner, at);
    if response.manner.streams {
        let voice = ResponseEvents::new(response);
        return Ok(sse::stream(voice, follower, leaving, &stamp, app.options.keep_alive));
    }
    let settled = follower.settled().await;
    leaving.is_over();
    let answered = match settled {
        Ok(settled) => ClientReply::of(&settled).map(|reply| {
            let json = response.since(settled.began).answered(&reply);
            json_response::whole(json, &stamp, Some(follower.delivery()))
        }),
        Err(error) => Err(error),
    };
    Ok(answered.unwrap_or_else(|error| {
        let mut response = error.into_response();
        stamp.put(response.headers_mut());
        response
    }))
}

/// A request, read.
struct ResponseRequest {
    caller: ApiCaller,
    manner: ResponseOptions,
    said: ResponseInput,
}

enum ResponseInput {
    Begins(Box<Submission>),
    /// After the response of this id, which the gateway has to look up.
    Follows {
        id: String,
        ask: ApiRequest,
        conversation: ClientConversation,
    },
}

impl ResponseRequest {
    fn read(app: &App, headers: &HeaderMap, bytes: &[u8]) -> Result<Self, ApiError> {
        let mut fields = request_body::parse(bytes)?;
        let digest = fields.digest();
        let caller = ApiCaller::new(app, headers, fields.text("user")?)?;
        let manner = ResponseOptions::take(app, &caller, &mut fields)?;
        let conversation = response_input::conversation(fields.take("input"), manner.instructions.clone())?;
        let RequestTools { tools, wishes } = client_tools::take(&mut fields, ToolFormat::Responses)?;
        let sampling = sampling::of_response(&mut fields, wishes)?;
        fields.refuse_rest()?;
        let ask =
            ApiRequest { endpoint: "responses", body: digest, sampling, tools, unkept: !manner.is_kept };
        let said = match manner.previous_response_id.clone() {
            Some(id) => ResponseInput::Follows { id, ask, conversation },
            None => ResponseInput::Begins(Box::new(caller.submission(
                app,
                &ask,
                caller.place(app, conversation)?,
            ))),
        };
        Ok(Self { caller, manner, said })
    }
}

/// The response as its turn tells it: what the request said beside its words is not kept.
pub async fn retrieve(State(app): State<Arc<App>>, PathName(id): PathName) -> Result<Response, ApiError> {
    let ticket = ResponseId::check(&id, &app.guard).ok_or_else(|| unknown(&id))?;
    let receipt = app.api.follow(ticket.session, ticket.seq).await.map_err(|refusal| lost(refusal, &id))?;
    let stamp = ResponseStamp::plain(&receipt);
    let mut follower = TurnFollower::new(app.api.clone(), receipt);
    let response = ResponseOf::new(&app, &stamp, ResponseOptions::unknown(&app), app.api.now());
    let json = match timeout(SETTLED_WITHIN, follower.settled()).await {
        Err(_) => response.object(ResponseStatus::InProgress, &[], None, None),
        Ok(settled) => {
            let settled = settled?;
            let response = response.since(settled.began);
            match ClientReply::of(&settled) {
                Ok(reply) => response.answered(&reply),
                Err(error) => response.object(ResponseStatus::Failed, &[], None, Some(&error)),
            }
        }
    };
    Ok(json_response::whole(json, &stamp, None))
}

fn unknown(id: &str) -> ApiError {
    let message = format!("There is no response {id:?}, or not for this API key.");
    ApiError::new(StatusCode::NOT_FOUND, message).code("response_not_found")
}

fn lost(refusal: Refusal, id: &str) -> ApiError {
    match refusal {
        Refusal::Unknown(_) => unknown(id),
        other => other.into(),
    }
}

// --------------------------------------------------------------------------- previous_response_id

async fn go_on(
    app: &App,
    caller: &ApiCaller,
    ask: &ApiRequest,
    mut conversation: ClientConversation,
    id: &str,
) -> Result<Receipt, ApiError> {
    let about = |error: ApiError| error.param("previous_response_id");
    let ticket = ResponseId::check(id, &app.guard).ok_or_else(|| about(unknown(id)))?;
    if caller.session.as_ref().is_some_and(|session| *session != ticket.session) {
        let message = "previous_response_id and X-Hermes-Session-Id name different sessions; leave one out.";
        return Err(ApiError::invalid("previous_response_id", message));
    }
    let system = conversation.system.take();
    let (results, content) = conversation.into_only_input().ok_or_else(|| {
        let message = "With previous_response_id, input may hold messages from the user and results of tools only: \
                       what was said before is kept here.";
        ApiError::invalid("input", message)
    })?;
    let placed = |target, imported| PlacedInput {
        target,
        system: system.clone(),
        imported,
        results: results.clone(),
        content: content.clone(),
        thread: None,
        at: app.api.now(),
    };
    let known = app.api.follow(ticket.session.clone(), ticket.seq).await;
    let previous = known.map_err(|refusal| about(lost(refusal, id)))?;
    let target = Target::After { session: ticket.session, seq: ticket.seq };
    match app.api.submit(caller.submission(app, ask, placed(target, Vec::new()))).await {
        // Its history can still begin another session, if the caller may see it.
        Err(Refusal::Ended(_) | Refusal::MovedOn | Refusal::NotYours(_)) => {}
        answer => return Ok(answer?),
    }
    let imported = history_up_to(app, caller, previous).await.map_err(about)?;
    Ok(app.api.submit(caller.submission(app, ask, placed(Target::Fresh, imported))).await?)
}

/// What had been said in a session when it had answered this input.
async fn history_up_to(app: &App, caller: &ApiCaller, previous: Receipt) -> Result<Vec<Message>, ApiError> {
    let session = sessions::find(app, previous.session.clone(), Some(caller.principal.clone())).await?.id;
    let settled = TurnFollower::new(app.api.clone(), previous).settled().await?;
    let Some(answer) = &settled.answer else {
        let message = "The previous response has no answer to go on from; send its input again first.";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, message).code("previous_response_failed"));
    };
    if !answer.said.calls.is_empty() {
        let message = "The previous response left calls to its client, and something else was said since; continue from \
                       a later one.";
        return Err(ApiError::new(StatusCode::CONFLICT, message).code("conversation_moved_on"));
    }
    let Reading::History(rows) = app.api.read(Question::History(session)).await? else {
        return Err(ApiError::unreadable());
    };
    up_to_answer(rows, &answer.said.content, settled.began).ok_or_else(|| {
        let message = "The previous response is no longer part of its session's live history, so nothing can \
                       branch off there; continue from a later one.";
        ApiError::new(StatusCode::CONFLICT, message).code("previous_response_compressed")
    })
}

/// A turn's answer is the first one with its words since the turn began: turns of one session do
/// not overlap. If the clock was set back in between, it is the last before.
fn up_to_answer(rows: Vec<(RowId, Message)>, words: &Content, began: Time) -> Option<Vec<Message>> {
    let is_answer = |message: &Message| matches!(&message.body, Body::Assistant(said) if said.calls.is_empty() && said.content == *words);
    let since = rows.iter().position(|(_, message)| is_answer(message) && message.at >= began);
    let end = since.or_else(|| rows.iter().rposition(|(_, message)| is_answer(message)))?;
    let live: Vec<_> = rows.into_iter().take(end + 1).map(|(_, message)| message).collect();
    Some(history::legal(&live).into_iter().map(|message| message.into_owned()).collect())
}

// ------------------------------------------------------------------------------------- the object

/// What the request said about how to answer.
struct ResponseOptions {
    streams: bool,
    model: String,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    /// `store`.
    is_kept: bool,
    /// Tells of tools, too.
    tells_more: bool,
}

impl ResponseOptions {
    fn take(app: &App, caller: &ApiCaller, fields: &mut RequestFields) -> Result<Self, ApiError> {
        for (name, instead) in [
            ("conversation", "use previous_response_id, or name a session in X-Hermes-Session-Id"),
            ("prompt", "send the text itself"),
        ] {
            if fields.take(name).is_some() {
                let message = format!("{name} is not supported; {instead}.");
                return Err(ApiError::invalid(name, message).code("unsupported_parameter"));
            }
        }
        if fields.flag("background")? {
            let message = "background is not supported; stream the response, or wait for it.";
            return Err(ApiError::invalid("background", message).code("unsupported_parameter"));
        }
        let options = match fields.take("stream_options") {
            None => None,
            Some(Value::Object(options)) => Some(options), // obfuscation of deltas: there is none
            Some(other) => return Err(wrong_type("stream_options", "an object", &other)),
        };
        let is_kept = match fields.take("store") {
            None => true,
            Some(Value::Bool(store)) => store,
            Some(other) => return Err(wrong_type("store", "true or false", &other)),
        };
        match fields.text("truncation")?.as_deref() {
            None | Some("disabled" | "auto") => {} // a conversation that grows too long is compressed
            Some(other) => {
                let message = format!("truncation is {other:?}; it can be auto or disabled.");
                return Err(ApiError::invalid("truncation", message).code("unsupported_value"));
            }
        }
        if let Some(include) = fields.take("include") {
            let wants = |name: &str| include.as_array().is_some_and(|list| list.iter().any(|it| it == name));
            if !include.is_array() || wants("message.output_text.logprobs") {
                let message = "include can ask for nothing that is not there anyway: probabilities of tokens are not known here.";
                return Err(ApiError::invalid("include", message).code("unsupported_value"));
            }
        }
        sampling::refuse_impossible(fields)?;
        let model = fields.text("model")?.filter(|model| !model.is_empty());
        Ok(Self {
            streams: fields.flag("stream")?,
            model: model.unwrap_or_else(|| app.options.model.clone()),
            instructions: fields.text("instructions")?,
            previous_response_id: fields.text("previous_response_id")?,
            is_kept,
            tells_more: caller.wishes.with_options(options.as_ref()).events,
        })
    }

    fn unknown(app: &App) -> Self {
        Self {
            streams: false,
            model: app.options.model.clone(),
            instructions: None,
            previous_response_id: None,
            is_kept: true,
            tells_more: false,
        }
    }
}

/// A response, before it is known what it says.
struct ResponseOf {
    id: String,
    item: String,
    created: i64,
    manner: ResponseOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ResponseStatus {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

#[derive(Serialize)]
struct ResponseObject<'a> {
    id: &'a str,
    object: &'static str,
    created_at: i64,
    status: ResponseStatus,
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
struct EmptyObject {}

#[derive(Serialize)]
struct ResponseError<'a> {
    code: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct Incomplete {
    reason: &'static str,
}

#[derive(Serialize)]
struct ReasoningOptions {
    effort: Option<&'static str>,
    summary: Option<&'static str>,
}

#[derive(Serialize)]
struct TextOptions {
    format: TextFormat,
}

#[derive(Serialize)]
struct TextFormat {
    r#type: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum OutputItem<'a> {
    Message(MessageItem<'a>),
    Call(CallItem<'a>),
}

#[derive(Clone, Copy, Serialize)]
struct MessageItem<'a> {
    r#type: &'static str,
    id: &'a str,
    status: ResponseStatus,
    role: &'static str,
    content: &'a [OutputText<'a>],
}

/// A call for the client to run.
#[derive(Clone, Serialize)]
struct CallItem<'a> {
    r#type: &'static str,
    id: String,
    status: ResponseStatus,
    call_id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

#[derive(Clone, Copy, Serialize)]
struct OutputText<'a> {
    r#type: &'static str,
    text: &'a str,
    annotations: [(); 0],
    logprobs: [(); 0],
}

impl<'a> OutputText<'a> {
    fn new(text: &'a str) -> Self {
        Self { r#type: "output_text", text, annotations: [], logprobs: [] }
    }
}

#[derive(Serialize)]
struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Serialize)]
struct OutputDetails {
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
fn standing(finish: FinishReason) -> (ResponseStatus, Option<Incomplete>) {
    match finish {
        FinishReason::Stop | FinishReason::Calls => (ResponseStatus::Completed, None),
        FinishReason::Length => {
            (ResponseStatus::Incomplete, Some(Incomplete { reason: "max_output_tokens" }))
        }
        FinishReason::Filtered => (ResponseStatus::Incomplete, Some(Incomplete { reason: "content_filter" })),
    }
}

impl ResponseOf {
    fn new(app: &App, stamp: &ResponseStamp, manner: ResponseOptions, at: Time) -> Self {
        // An id that nothing is found by, where nothing is to be found.
        let id = match manner.is_kept {
            true => ResponseId { session: stamp.session.clone(), seq: stamp.seq }.issue(&app.guard),
            false => stamp.name("resp_"),
        };
        Self { item: item_name("msg_", &id), id, created: at.whole_seconds(), manner }
    }

    fn since(mut self, began: Time) -> Self {
        self.created = began.whole_seconds();
        self
    }

    fn view<'a>(&'a self, status: ResponseStatus, output: &'a [OutputItem<'a>]) -> ResponseObject<'a> {
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

    fn object(
        &self,
        status: ResponseStatus,
        output: &[OutputItem<'_>],
        usage: Option<ResponseUsage>,
        error: Option<&ApiError>,
    ) -> Vec<u8> {
        let object = ResponseObject { usage, error: error.map(fault), ..self.view(status, output) };
        serde_json::to_vec(&object).expect("a response is texts and numbers")
    }

    /// Calls `tell` with the response that says `reply`.
    fn tell_answered<T>(&self, reply: &ClientReply<'_>, tell: impl FnOnce(&ResponseObject<'_>) -> T) -> T {
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

    fn call<'a>(&self, index: usize, call: &'a ToolCall, arguments: &'a str) -> CallItem<'a> {
        CallItem {
            r#type: "function_call",
            id: item_name(&format!("fc_{index}_"), &self.id),
            status: ResponseStatus::Completed,
            call_id: &call.id,
            name: &call.name,
            arguments,
        }
    }

    fn answered(&self, reply: &ClientReply<'_>) -> Vec<u8> {
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
const RESPONSE: &str = "resp_";

/// The body with every `item_reference` in its input replaced by what it refers to.
async fn resolved(app: &App, headers: &HeaderMap, bytes: Bytes) -> Result<Bytes, ApiError> {
    const REFERENCE: &str = "item_reference";
    if !bytes.windows(REFERENCE.len()).any(|window| window == REFERENCE.as_bytes()) {
        return Ok(bytes);
    }
    let Ok(mut body) = serde_json::from_slice::<Value>(&bytes) else { return Ok(bytes) }; // it is refused in its place
    let user = body.get("user").and_then(Value::as_str).map(str::to_owned);
    let principal = ApiCaller::new(app, headers, user)?.principal;
    let Some(items) = body.get_mut("input").and_then(Value::as_array_mut) else { return Ok(bytes) };
    for item in items {
        if item.get("type").and_then(Value::as_str) == Some(REFERENCE) {
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            *item = referred(app, &principal, &id).await?.ok_or_else(|| {
                let message = format!("There is no item {id:?}, or not for this API key.");
                ApiError::new(StatusCode::NOT_FOUND, message).code("item_not_found").param("input")
            })?;
        }
    }
    Ok(body.to_string().into())
}

/// The item that was called so in an earlier response.
async fn referred(app: &App, principal: &str, id: &str) -> Result<Option<Value>, ApiError> {
    let (place, rest) = match (id.strip_prefix("msg_"), id.strip_prefix("fc_")) {
        (Some(rest), _) => (None, rest),
        (None, Some(call)) => match call.split_once('_') {
            Some((index, rest)) => (index.parse::<usize>().ok(), rest),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let Some(ticket) = ResponseId::check(&format!("{RESPONSE}{rest}"), &app.guard) else { return Ok(None) };
    // What was said to another caller is none of this one's.
    if sessions::find(app, ticket.session.clone(), Some(principal.to_owned())).await.is_err() {
        return Ok(None);
    }
    let Ok(receipt) = app.api.follow(ticket.session, ticket.seq).await else { return Ok(None) };
    let settled = TurnFollower::new(app.api.clone(), receipt).settled().await?;
    let reply = ClientReply::of(&settled)?;
    let call = place.and_then(|place| reply.calls.get(place));
    Ok(match (place, call) {
        (None, _) => Some(json!({"type": "message", "role": "assistant", "content": reply.text})),
        (Some(_), Some(call)) => Some(json!({
            "type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments,
        })),
        (Some(_), None) => None,
    })
}

fn fault(error: &ApiError) -> ResponseError<'_> {
    ResponseError { code: error.code_or("server_error"), message: error.message() }
}

// ------------------------------------------------------------------------------------- the stream

/// A response as it happens. The deltas may hold more than the answer (see `shown`); the events
/// that end it carry the answer alone.
struct ResponseEvents {
    response: ResponseOf,
    next_number: u64,
    is_open: bool,
    shown: StreamedText,
}

#[derive(Serialize)]
struct ResponseEvent<'a, T> {
    r#type: &'static str,
    sequence_number: u64,
    #[serde(flatten)]
    what: &'a T,
}

#[derive(Serialize)]
struct OfResponse<'a> {
    response: &'a ResponseObject<'a>,
}

#[derive(Serialize)]
struct OfItem<'a, T> {
    output_index: usize,
    item: &'a T,
}

#[derive(Serialize)]
struct OfArguments<'a> {
    item_id: &'a str,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
}

#[derive(Serialize)]
struct OfPart<'a> {
    item_id: &'a str,
    output_index: u32,
    content_index: u32,
    part: OutputText<'a>,
}

#[derive(Serialize)]
struct OfText<'a> {
    item_id: &'a str,
    output_index: u32,
    content_index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    logprobs: [(); 0],
}

#[derive(Serialize)]
struct OfError<'a> {
    code: &'a str,
    message: &'a str,
    param: Option<&'a str>,
}

/// Numbers the events of one stream.
struct Teller<'a> {
    next_number: &'a mut u64,
    out: &'a mut Vec<u8>,
}

impl Teller<'_> {
    fn tell(&mut self, name: &'static str, what: &impl Serialize) {
        let happening = ResponseEvent { r#type: name, sequence_number: *self.next_number, what };
        sse::event(name, &happening, self.out);
        *self.next_number += 1;
    }
}

impl ResponseEvents {
    fn new(response: ResponseOf) -> Self {
        Self { response, next_number: 0, is_open: false, shown: StreamedText::default() }
    }

    fn open(&mut self, out: &mut Vec<u8>) {
        if self.is_open {
            return;
        }
        self.is_open = true;
        let id = self.response.item.as_str();
        let item = MessageItem {
            r#type: "message",
            id,
            status: ResponseStatus::InProgress,
            role: "assistant",
            content: &[],
        };
        let mut teller = Teller { next_number: &mut self.next_number, out };
        teller.tell("response.output_item.added", &OfItem { output_index: 0, item: &item });
        let part = OfPart { item_id: id, output_index: 0, content_index: 0, part: OutputText::new("") };
        teller.tell("response.content_part.added", &part);
    }

    fn say(&mut self, words: &str, out: &mut Vec<u8>) {
        if words.is_empty() {
            return;
        }
        self.open(out);
        let mut teller = Teller { next_number: &mut self.next_number, out };
        teller.tell("response.output_text.delta", &of_text(&self.response.item, Some(words), None));
    }

    fn end(&mut self, reply: &ClientReply<'_>, out: &mut Vec<u8>) {
        let rest = self.shown.finish(&reply.text);
        self.say(&rest, out);
        let spoke = self.is_open || reply.has_words();
        if spoke {
            self.open(out);
        }
        let Self { response, next_number, .. } = self;
        let mut teller = Teller { next_number, out };
        if spoke {
            let id = response.item.as_str();
            teller.tell("response.output_text.done", &of_text(id, None, Some(&reply.text)));
            let part =
                OfPart { item_id: id, output_index: 0, content_index: 0, part: OutputText::new(&reply.text) };
            teller.tell("response.content_part.done", &part);
            let (content, (status, _)) = ([OutputText::new(&reply.text)], standing(reply.finish));
            let item = MessageItem { r#type: "message", id, status, role: "assistant", content: &content };
            teller.tell("response.output_item.done", &OfItem { output_index: 0, item: &item });
        }
        for (index, call) in reply.calls.iter().enumerate() {
            let output_index = index + usize::from(spoke);
            let begun = CallItem { status: ResponseStatus::InProgress, ..response.call(index, call, "") };
            teller.tell("response.output_item.added", &OfItem { output_index, item: &begun });
            let done = response.call(index, call, &call.arguments);
            let of = |delta, arguments| OfArguments { item_id: &done.id, output_index, delta, arguments };
            teller.tell("response.function_call_arguments.delta", &of(Some(done.arguments), None));
            teller.tell("response.function_call_arguments.done", &of(None, Some(done.arguments)));
            teller.tell("response.output_item.done", &OfItem { output_index, item: &done });
        }
        response.tell_answered(reply, |object| {
            let name = match object.status {
                ResponseStatus::Incomplete => "response.incomplete",
                _ => "response.completed",
            };
            teller.tell(name, &OfResponse { response: object });
        });
    }
}

fn of_text<'a>(item_id: &'a str, delta: Option<&'a str>, text: Option<&'a str>) -> OfText<'a> {
    OfText { item_id, output_index: 0, content_index: 0, delta, text, logprobs: [] }
}

impl StreamFormat for ResponseEvents {
    fn begin(&mut self, began: Option<Time>, out: &mut Vec<u8>) {
        if let Some(began) = began {
            self.response.created = began.whole_seconds();
        }
        let Self { response, next_number, .. } = self;
        let mut teller = Teller { next_number, out };
        let object = response.view(ResponseStatus::InProgress, &[]);
        teller.tell("response.created", &OfResponse { response: &object });
        teller.tell("response.in_progress", &OfResponse { response: &object });
    }

    fn delta(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        if let Delta::Text(words) = delta {
            let words = self.shown.delta(words);
            self.say(&words, out);
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
        if self.response.manner.tells_more {
            sse::progress(work, out);
        }
    }

    fn settled(&mut self, settled: &Settled, out: &mut Vec<u8>) -> bool {
        match ClientReply::of(settled) {
            Ok(reply) => {
                self.end(&reply, out);
                true
            }
            Err(error) => {
                let Self { response, next_number, .. } = self;
                let object = ResponseObject {
                    error: Some(fault(&error)),
                    ..response.view(ResponseStatus::Failed, &[])
                };
                Teller { next_number, out }.tell("response.failed", &OfResponse { response: &object });
                false
            }
        }
    }

    /// The response is still in progress; it is the stream that ends.
    fn broken(&mut self, error: ApiError, out: &mut Vec<u8>) {
        let what = OfError { code: error.code_or("server_error"), message: error.message(), param: None };
        Teller { next_number: &mut self.next_number, out }.tell("error", &what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_core::message::{Assistant, ToolResult};

    fn said(at: i64, text: &str) -> (RowId, Message) {
        let said = Assistant { content: Content::text(text), ..Assistant::default() };
        (RowId(0), Message::new(Time(at), Body::Assistant(said)))
    }

    fn asked(at: i64) -> (RowId, Message) {
        (RowId(0), Message::user(Time(at), Content::text("?")))
    }

    #[test]
    fn a_branch_begins_after_the_answer_of_its_turn() {
        let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{}".into(), extra: None };
        let calling = Assistant { content: Content::text("ok"), calls: vec![call], ..Assistant::default() };
        let result = ToolResult { call_id: "c".into(), name: None, content: Content::text("r") };
        let rows = || {
            vec![
                asked(10),
                said(11, "ok"),
                asked(20),
                (RowId(0), Message::new(Time(21), Body::Assistant(calling.clone()))),
                (RowId(0), Message::new(Time(21), Body::Result(result.clone()))),
                said(22, "ok"),
                asked(30),
                said(31, "ok"),
            ]
        };
        let length = |text: &str, began| {
            up_to_answer(rows(), &Content::text(text), Time(began)).map(|rows| rows.len())
        };
        assert_eq!(length("ok", 10), Some(2));
        assert_eq!(length("ok", 20), Some(6), "an answer with calls is not the end of its turn");
        assert_eq!(length("ok", 30), Some(8));
        assert_eq!(length("ok", 40), Some(8), "the clock was set back");
        assert_eq!(length("other", 10), None);
    }
}
