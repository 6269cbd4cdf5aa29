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

mod branch;
mod object;
mod references;
mod stream;

use crate::client_conversation::ClientConversation;
use crate::client_tools::{self, RequestTools, ToolFormat};
use crate::error::ApiError;
use crate::path_and_query::PathName;
use crate::request_body::{self, RequestFields, wrong_type};
use crate::response_id::ResponseId;
use crate::sse;
use crate::submission::{ApiCaller, ApiRequest, ResponseStamp};
use crate::turn_follower::{ClientReply, StopOnHangUp, TurnFollower};
use crate::{App, json_response, response_input, sampling};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use branch::go_on;
use http::{HeaderMap, StatusCode};
use object::{ResponseOf, ResponseStatus};
use references::resolved;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use stream::ResponseEvents;
use throughline_core::port::{Refusal, Submission};
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
