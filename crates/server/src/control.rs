//! What the command line asks of a running gateway. `throughline chat` is its client.
//!
//! - `POST /api/control/chat` `{"text": …, "session": …, "key": …}`: one line from the terminal, as
//!   a stream of events. Without `session` a conversation begins (source `cli`); a line that begins
//!   with `/` is an order; `key` makes sending it twice one message; `"answers": true` says that the sender can answer
//!   what tools ask, which is denied at once otherwise. Events, each with JSON data:
//!   `accepted` `{session, seq, duplicate}`, `delta` `{text}`, `reasoning` `{text}`, `restarted`
//!   `{}` (what was streamed is void), `calling` `{id, tool, arguments}`, `called` `{id, tool}`,
//!   `unattended` `{id, tool}` (it would have had to ask, and no person could answer), `asked` (a tool waits for a person:
//!   see [`crate::approvals`]), `granted` `{id}` (a person has allowed what was asked), `troubled` `{message}` (the model does not answer, and is asked again), and one of
//!   `answer` `{text, finish, usage}`, `done` `{said,
//!   successor}`, `failed` `{code, message}`, `interrupted` `{code, message}` as the last
//! - `POST /api/sessions/{id}/commands` `{"command": "/new"}`: an order to a session, and what it said
//! - `POST /api/control/memory/retry` `{"turn": …}`: what the memory provider does not have yet is handed over again
//! - `POST /api/sessions/{id}/restore` `{"snapshot": …}`: a snapshot becomes the view of its session again
//! - `GET /api/control/status`: the gateway, in numbers
//! - `POST /api/control/halt`: ends every turn and silences the agent until a person writes again;
//!   `POST /api/control/release` lets it go on at once. With `{"all": true}` the answer also names the `others` of
//!   the process and their homes: a key moves its own agent only, so a client that means all asks each with its own
//! - `GET /api/control/why?message=…`: what happened to a message, by any of its names
//! - `GET /api/control/counts`: how often each named event happened
//! - `GET /api/control/check`: every invariant that does not hold, in words
//!
//! The holder of the key owns the agent, so orders reach every session. A session begun at the
//! terminal belongs to the terminal.

use crate::App;
use crate::client_options::ClientOptions;
use crate::error::ApiError;
use crate::json_views::{AskView, ListView, TraceView};
use crate::path_and_query::{PathName, UrlQuery};
use crate::request_body;
use crate::response_id::ResponseId;
use crate::sse::{self, StreamFormat, ToolEvent};
use crate::submission::{IDEMPOTENCY_KEY_LENGTH_MAX, ResponseStamp, named_session};
use crate::turn_follower::{ClientReply, FinishReason, StopOnHangUp, TurnFollower};
use crate::{ServerOptions, json_response, sessions};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_core::chain;
use throughline_core::command::{Command, DeferredCommand};
use throughline_core::id::SNAPSHOT_INFIX;
use throughline_core::input::{Birth, DedupeKey, Input, Kind, Trace};
use throughline_core::port::{CutChain, Delta, Question, Reading, Settled, Submission};
use throughline_core::redact::redacted;
use throughline_core::route::Target;
use throughline_core::session::{Act, Event, Outcome, Rules, Session};
use throughline_core::{Content, Seq, SessionId, Time};

/// The terminal's place among the sources of a home, as in Hermes.
const SOURCE: &str = "cli";
/// The owner of sessions begun at the terminal. Not a hash: no other caller can have it.
const TERMINAL: &str = "cli";

// ------------------------------------------------------------------------------------------- chat

pub async fn chat(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let request_body::RequestBody { bytes, room: _room } =
        request_body::read(&head.headers, body, app.options.body_bytes_max).await?;
    let mut fields = request_body::fields(&bytes)?;
    let text = fields.text("text")?.filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| ApiError::invalid("text", "text must hold what to say."))?;
    let named = fields.text("session")?.filter(|name| !name.is_empty());
    let session = named.map(|name| named_session(&name, "session")).transpose()?;
    let key = fields.text("key")?;
    let wishes = ClientOptions::of(&head.headers)?;
    let can_answer = wishes.approvals || fields.flag("answers")?;
    if can_answer {
        app.api.owner_is_here();
    }
    let command = Command::parse(&text, |what| app.api.mint(what.source(SOURCE)));
    let kind = match (&session, command) {
        // The user may have given a name to something: the gateway knows.
        (_, Some(Command::Unknown { .. })) => Kind::Chat(Content::Text(text)),
        (None, Some(command @ Command::Deferred(_))) => Kind::Command(command),
        (None, Some(command)) => return Ok(ordered_without_session(command, app.api.now())),
        (_, Some(command)) => Kind::Command(command),
        (_, None) => Kind::Chat(Content::Text(text)),
    };
    let submission = TerminalInput { session, kind, key, can_answer }.submission(&app).await?;
    let receipt = app.api.submit(submission).await?;
    let stamp = ResponseStamp::plain(&receipt);
    let voice =
        TerminalVoice { session: receipt.session.clone(), seq: receipt.seq, is_known: receipt.duplicate };
    let follower = TurnFollower::new(app.api.clone(), receipt);
    let leaving = StopOnHangUp::of(&follower, wishes.stops == Some(true));
    Ok(sse::stream(voice, follower, leaving, &stamp, app.options.keep_alive))
}

/// One thing said or ordered at the terminal.
struct TerminalInput {
    session: Option<SessionId>,
    kind: Kind,
    key: Option<String>,
    can_answer: bool,
}

impl TerminalInput {
    async fn submission(self, app: &App) -> Result<Submission, ApiError> {
        let Self { session, kind, key, can_answer } = self;
        let exists = match &session {
            None => false,
            Some(session) => match app.api.read(Question::Session(session.clone())).await? {
                Reading::Session(found) => found.is_some(),
                _ => return Err(ApiError::unreadable()),
            },
        };
        let named = session.as_ref().map_or("", |session| session.as_str());
        if key.as_ref().is_some_and(|key| key.len() > IDEMPOTENCY_KEY_LENGTH_MAX) {
            let message = format!("key must be at most {IDEMPOTENCY_KEY_LENGTH_MAX} bytes.");
            return Err(ApiError::invalid("key", message));
        }
        let key = match &key {
            Some(key) => DedupeKey::of(&["cli", named, key]),
            None => DedupeKey::of(&["cli", "", "", &app.api.unique()]),
        };
        Ok(Submission {
            target: session.map_or(Target::Fresh, Target::Session),
            birth: Birth {
                source: SOURCE.to_owned(),
                // No principal: the owner of the key, who may speak in any session there is.
                principal: (!exists).then(|| TERMINAL.to_owned()),
                ..Birth::default()
            },
            at: app.api.now(),
            key,
            kind,
            reply_to: None,
            sender: None,
            platform_id: None,
            trace: Trace::default(),
            may_be_retry: false,
            can_answer,
            gathers: None,
        })
    }
}

/// Before anything was said there is no session to order about. The answer is that of a session without
/// messages; nothing is stored.
fn ordered_without_session(command: Command, now: Time) -> Response {
    let id: SessionId = "none".parse().expect("four letters are an id");
    let input = Input {
        seq: Seq(1),
        at: now,
        key: DedupeKey::of(&["cli"]),
        kind: Kind::Command(command.clone()),
        reply_to: None,
        sender: None,
        platform_id: None,
        trace: Trace::default(),
        left: None,
    };
    let (_, acts) = Session::new(id).step(Event::Received(Arc::new(input)), now, &Rules::default());
    let outcome = acts.into_iter().find_map(|act| match act {
        Act::Settle { outcome: Outcome::Done { said, successor }, .. } => Some((said, successor)),
        _ => None,
    });
    let (said, successor) = match (command, outcome) {
        (Command::Status, _) => {
            ("There is no conversation yet; it begins with the first line.".to_owned(), None)
        }
        (_, Some(outcome)) => outcome,
        (_, None) => (String::new(), None), // every order is carried out at once where nothing waits
    };
    let mut out = Vec::new();
    sse::event(
        "done",
        &DoneEvent { said: &said, successor: successor.as_ref().map(SessionId::as_str) },
        &mut out,
    );
    ([(http::header::CONTENT_TYPE, "text/event-stream")], out).into_response()
}

/// A turn as the terminal hears it: everything, and what is void.
struct TerminalVoice {
    session: SessionId,
    seq: Seq,
    is_known: bool,
}

#[derive(Serialize)]
struct AcceptedEvent<'a> {
    session: &'a str,
    seq: u64,
    duplicate: bool,
}

#[derive(Serialize)]
struct DeltaEvent<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct DoneEvent<'a> {
    said: &'a str,
    successor: Option<&'a str>,
}

#[derive(Serialize)]
struct AnswerEvent<'a> {
    text: &'a str,
    finish: &'static str,
    usage: TokenCounts,
}

#[derive(Serialize)]
struct TokenCounts {
    input: u64,
    output: u64,
    cached: u64,
}

#[derive(Serialize)]
struct ErrorEvent<'a> {
    code: &'a str,
    message: &'a str,
}

impl StreamFormat for TerminalVoice {
    fn begin(&mut self, _: Option<Time>, out: &mut Vec<u8>) {
        let accepted =
            AcceptedEvent { session: self.session.as_str(), seq: self.seq.0, duplicate: self.is_known };
        sse::event("accepted", &accepted, out);
    }

    fn delta(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        match delta {
            Delta::Text(text) => sse::event("delta", &DeltaEvent { text }, out),
            Delta::Reasoning(text) => sse::event("reasoning", &DeltaEvent { text }, out),
        }
    }

    fn restarted(&mut self, out: &mut Vec<u8>) {
        sse::event("restarted", &json!({}), out);
    }

    fn working(&mut self, work: &ToolEvent<'_>, out: &mut Vec<u8>) {
        match work {
            ToolEvent::Calling { id, tool, arguments } => {
                sse::event("calling", &json!({"id": id, "tool": tool, "arguments": arguments}), out);
            }
            ToolEvent::Called { id, tool } => sse::event("called", &json!({"id": id, "tool": tool}), out),
            ToolEvent::Unattended { id, tool } => {
                sse::event("unattended", &json!({"id": id, "tool": tool}), out);
            }
            ToolEvent::Asked(pending) => sse::event("asked", &AskView::from(*pending), out),
            ToolEvent::Granted(call) => sse::event("granted", &json!({"id": call.to_string()}), out),
        }
    }

    fn troubled(&mut self, why: &str, out: &mut Vec<u8>) {
        sse::event("troubled", &json!({ "message": why }), out);
    }

    fn settled(&mut self, settled: &Settled, out: &mut Vec<u8>) -> bool {
        if let Outcome::Done { said, successor } = &settled.outcome {
            let successor = successor.as_ref().map(SessionId::as_str);
            sse::event("done", &DoneEvent { said, successor }, out);
            return true;
        }
        match ClientReply::of(settled) {
            Ok(reply) => {
                let finish = match reply.finish {
                    FinishReason::Stop => "stop",
                    FinishReason::Length => "length",
                    FinishReason::Filtered => "content_filter",
                    FinishReason::Calls => "tool_calls",
                };
                let usage = TokenCounts {
                    input: reply.usage.prompt(),
                    output: reply.usage.output,
                    cached: reply.usage.cache_read,
                };
                sse::event("answer", &AnswerEvent { text: &reply.text, finish, usage }, out);
                true
            }
            Err(error) => {
                sse::event("failed", &trouble(&error), out);
                false
            }
        }
    }

    fn broken(&mut self, error: ApiError, out: &mut Vec<u8>) {
        sse::event("interrupted", &trouble(&error), out);
    }
}

fn trouble(error: &ApiError) -> ErrorEvent<'_> {
    ErrorEvent { code: error.code_or("server_error"), message: error.message() }
}

// --------------------------------------------------------------------------------------- commands

pub async fn command(
    State(app): State<Arc<App>>,
    PathName(name): PathName,
    UrlQuery(wanted): UrlQuery<sessions::SessionQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let request_body::RequestBody { bytes, room: _room } =
        request_body::read(&head.headers, body, app.options.body_bytes_max).await?;
    let mut fields = request_body::fields(&bytes)?;
    let text = fields.text("command")?.unwrap_or_default();
    let key = fields.text("key")?;
    let command = match Command::parse(&text, |what| app.api.mint(what.source(SOURCE))) {
        Some(Command::Unknown { name }) if app.api.carries_out(&name, argument(&text)).await => {
            let argument = argument(&text).to_owned();
            Command::Deferred(DeferredCommand::Other { name, argument })
        }
        Some(Command::Unknown { .. }) | None => {
            let message = format!(
                "{text:?} is not a command; those there are: {}.",
                throughline_core::command::ALL
                    .iter()
                    .map(|entry| format!("/{}", entry.name))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            return Err(ApiError::invalid("command", message).code("unknown_command"));
        }
        Some(command) => command,
    };
    // A front end that asks for one person among several orders nothing in the sessions of others.
    let session = sessions::visible(&app, &name, &head.headers, &wanted).await?.id;
    let said = match &command {
        Command::Steer { text } if !text.is_empty() => Some("It joins the turn after its next step."),
        Command::Queue { text } if !text.is_empty() => Some("It waits for the next turn."),
        Command::Deferred(DeferredCommand::Retry) => Some("It is asked again."),
        _ => None,
    };
    let line = TerminalInput { session: Some(session), kind: Kind::Command(command), key, can_answer: true };
    let receipt = app.api.submit(line.submission(&app).await?).await?;
    let stamp = ResponseStamp::plain(&receipt);
    if let Some(said) = said {
        // Words for the model: they are on disk, and settled with the turn that takes them in.
        let json = json!({"object": "throughline.command", "said": said, "successor": null});
        return Ok(json_response::whole(json.to_string().into_bytes(), &stamp, None));
    }
    let mut follower = TurnFollower::new(app.api.clone(), receipt);
    let settled = follower.settled().await?;
    let Outcome::Done { said, successor } = &settled.outcome else {
        return Err(ClientReply::of(&settled).err().unwrap_or_else(ApiError::unreadable));
    };
    let successor = successor.as_ref().map(SessionId::as_str);
    let json = json!({"object": "throughline.command", "said": said, "successor": successor});
    Ok(json_response::whole(json.to_string().into_bytes(), &stamp, Some(follower.delivery())))
}

/// What stands behind the name of an order.
fn argument(text: &str) -> &str {
    throughline_core::command::split(text).map_or("", |(_, argument)| argument)
}

/// Returns when it is on disk.
pub async fn retry_memory(State(app): State<Arc<App>>, request: Request) -> Result<Json<Value>, ApiError> {
    let (head, body) = request.into_parts();
    let request_body::RequestBody { bytes, room: _room } =
        request_body::read(&head.headers, body, app.options.body_bytes_max).await?;
    let turn = request_body::fields(&bytes)?.text("turn")?;
    let retried = app.api.retry_memory(turn).await?;
    Ok(Json(json!({"object": "throughline.memory_retried", "retried": retried})))
}

/// Returns when it is on disk.
pub async fn restore(
    State(app): State<Arc<App>>,
    PathName(name): PathName,
    UrlQuery(wanted): UrlQuery<sessions::SessionQuery>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (head, body) = request.into_parts();
    let request_body::RequestBody { bytes, room: _room } =
        request_body::read(&head.headers, body, app.options.body_bytes_max).await?;
    let snapshot = request_body::fields(&bytes)?.text("snapshot")?.unwrap_or_default();
    // A front end that asks for one person among several orders nothing in the sessions of others.
    let session = sessions::visible(&app, &name, &head.headers, &wanted).await?.id;
    if !snapshot.starts_with(&format!("{session}{SNAPSHOT_INFIX}")) {
        let message = format!(
            "snapshot must be the name of a snapshot of {session}, as `throughline sessions snapshots {session}` lists them."
        );
        return Err(ApiError::invalid("snapshot", message).code("unknown_snapshot"));
    }
    app.api.restore(session.clone(), snapshot.clone()).await?;
    Ok(Json(json!({"object": "throughline.restored", "session_id": session.as_str(), "snapshot": snapshot})))
}

// ---------------------------------------------------------------------------------------- answers

pub async fn status(State(app): State<Arc<App>>) -> Json<Value> {
    let status = app.api.status();
    let (held, parked) = aside(&app).await;
    let cut = app.api.cuts().await;
    let cut: Vec<Value> = cut.iter().map(cut_chain).collect();
    Json(json!({
        "agent": app.options.agent,
        "version": app.options.version,
        "model": status.model,
        "model_trouble": status.model_trouble.as_deref().map(redacted),
        "shown_as": app.options.model,
        "ready": status.ready,
        "draining": status.draining,
        "unwritable": status.unwritable,
        "active_sessions": status.active_sessions,
        "running_turns": status.running_turns,
        "waiting_inputs": status.waiting_inputs,
        "undelivered": status.undelivered,
        "finalising": status.finalising,
        "held": held,
        "parked": parked,
        "cut_chains": cut,
        "halted": status.halted,
        "commits": status.commits,
        "batches": status.batches,
        "tended": status.tended,
        "engine": status.engine,
    }))
}

/// A chain between agents that has used up what one message of a person may cause.
pub(crate) fn cut_chain(cut: &CutChain) -> Value {
    json!({
        "session_id": cut.root.session.as_str(),
        "exceeded": cut.why.name(),
        "at": cut.at.as_seconds(),
        "notice": chain::notice(cut.why),
    })
}

/// What waits for a person: messages that are held, oldest first, and hand-overs that were
/// set aside. A store that cannot be read now says nothing about it.
async fn aside(app: &App) -> (Vec<Value>, Vec<Value>) {
    let held = match app.api.read(Question::Backlog).await {
        Ok(Reading::Backlog(held)) => held,
        _ => Vec::new(),
    };
    let parked = match app.api.read(Question::Parked).await {
        Ok(Reading::Parked(parked)) => parked,
        _ => Vec::new(),
    };
    let now = app.api.now();
    let held = held.iter().map(|it| {
        json!({
            "session_id": it.session.as_str(),
            "waiting": it.waiting,
            "oldest": it.oldest.as_seconds(),
            "age_seconds": now.since(it.oldest).as_secs(),
            "from_before": it.from_before,
        })
    });
    let parked = parked.iter().map(|it| {
        json!({
            "session_id": it.session.as_str(),
            "epoch": it.epoch.0,
            "step": it.why,
            "attempts": it.attempts,
            "at": it.at.as_seconds(),
        })
    });
    (held.collect(), parked.collect())
}

/// An order to the gateway.
pub(crate) struct RestartOrder {
    /// Every agent of the process was meant, as far as the client has their keys.
    pub all: bool,
    /// It is for this agent: none is named, or this one.
    pub is_ours: bool,
}

pub(crate) async fn order(app: &App, request: Request) -> Result<RestartOrder, ApiError> {
    let (head, body) = request.into_parts();
    let request_body::RequestBody { bytes, room: _room } =
        request_body::read(&head.headers, body, app.options.body_bytes_max).await?;
    let (all, named) = match bytes.is_empty() {
        true => (false, None),
        false => {
            let mut body = request_body::fields(&bytes)?;
            (body.flag("all")?, body.text("agent")?)
        }
    };
    Ok(RestartOrder { all, is_ours: named.is_none_or(|named| named == app.options.agent) })
}

/// The other agents of the process, for a client that meant all of them. One agent's key moves no other agent: who has the
/// key of each, as the command line has, asks each.
fn others(app: &App, order: &RestartOrder) -> Vec<Value> {
    let hosted = if order.all { app.options.host.hosted_agents() } else { Vec::new() };
    let others = hosted.into_iter().filter(|member| member.home != app.options.home);
    others.map(|member| json!({"agent": member.name, "home": member.home})).collect()
}

pub async fn halt(State(app): State<Arc<App>>, request: Request) -> Result<Json<Value>, ApiError> {
    let order = order(&app, request).await?;
    let mut agents = Vec::new();
    if order.is_ours {
        let halted = app.api.halt().await?;
        let ServerOptions { agent, home, .. } = &app.options;
        let (turns, waiting) = (halted.turns, halted.waiting);
        agents.push(json!({"agent": agent, "home": home, "turns": turns, "waiting": waiting}));
    }
    let others = others(&app, &order);
    Ok(Json(json!({"object": "throughline.halted", "agents": agents, "others": others})))
}

pub async fn release(State(app): State<Arc<App>>, request: Request) -> Result<Json<Value>, ApiError> {
    let order = order(&app, request).await?;
    let mut agents = Vec::new();
    if order.is_ours {
        app.api.release().await?;
        agents.push(json!({"agent": app.options.agent, "home": app.options.home}));
    }
    let others = others(&app, &order);
    Ok(Json(json!({"object": "throughline.released", "agents": agents, "others": others})))
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct RestartReply {
    message: String,
}

pub async fn why(
    State(app): State<Arc<App>>,
    UrlQuery(about): UrlQuery<RestartReply>,
) -> Result<Response, ApiError> {
    let name = about.message.trim();
    if name.is_empty() {
        let message = "message must hold a name of the message: <session>/<number>, a platform's id, \
                       an idempotency key, or a response's id.";
        return Err(ApiError::invalid("message", message));
    }
    let name = match ResponseId::read(name) {
        Some(ResponseId { session, seq }) => format!("{session}/{seq}"),
        None => name.to_owned(),
    };
    let Reading::Traces(traces) = app.api.read(Question::Trace(name.clone())).await? else {
        return Err(ApiError::unreadable());
    };
    if traces.is_empty() {
        let message = format!("No message is known as {name:?}.");
        return Err(ApiError::new(StatusCode::NOT_FOUND, message).code("message_not_found"));
    }
    Ok(Json(ListView::<TraceView<'_>>::of(&traces, None)).into_response())
}

pub async fn counts(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let Reading::Counts(counts) = app.api.read(Question::Counts).await? else {
        return Err(ApiError::unreadable());
    };
    let data: Vec<_> = counts.iter().map(|(name, count)| json!({"name": name, "count": count})).collect();
    Ok(Json(json!({"object": "list", "data": data})))
}

pub async fn check(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let Reading::Violations(found) = app.api.read(Question::Check).await? else {
        return Err(ApiError::unreadable());
    };
    Ok(Json(json!({"object": "list", "data": found})))
}
