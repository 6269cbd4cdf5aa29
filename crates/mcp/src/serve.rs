//! The MCP server for the agent's own sessions: `throughline mcp serve`, on standard streams or over HTTP ([`serve_http`]).
//!
//! The tools have the names and shapes that users of `hermes mcp serve` know, where they mean the
//! same. Two are new: `sessions_search`, and `conversation_send`, which speaks to the agent and
//! waits for its answer (Hermes' `messages_send` speaks for it).
//!
//! Deliberately absent: the store, the control API, and any decision about who may see what. All of
//! it is behind [`Surface`].

#![expect(deprecated, reason = "logging leaves the protocol, and clients do not know it yet")]

mod events;
mod http;
mod surface;

pub use http::{PATH, serve_http};
pub use surface::{
    OpenQuestion, QuestionDecision, SearchHit, SendOutcome, SendTarget, ServedAttachment, ServedConversation,
    ServedMessage, ServedSpeaker, Surface, SurfaceAnswer, SurfaceError,
};

use events::ServedEvents;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, Tool, ToolAnnotations,
};
use rmcp::service::{NotificationContext, RequestContext, ServerInitializeError};
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use throughline_core::time::Time;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// What is shown of one message; the rest is in the conversation.
const MESSAGE_SHOWN_MAX: usize = 2000;
/// Between two looks while a client waits for news.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client spoke something else.
    #[error("the MCP client could not be understood: {0}")]
    Handshake(String),
    /// The server itself broke.
    #[error("the MCP server broke off: {0}")]
    Broken(String),
}

/// Serves on standard input and output until the client leaves.
pub async fn serve(surface: Arc<dyn Surface>) -> Result<(), ServeError> {
    let (input, output) = rmcp::transport::stdio();
    serve_on(surface, input, output).await
}

/// The same on any pair of pipes.
pub async fn serve_on(
    surface: Arc<dyn Surface>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    let served = ServedSessions::new(surface);
    // What is there now is no news. If the gateway does not answer yet, the first question sees to it.
    let _ = served.events.lock().await.look(served.surface.as_ref()).await;
    let running = match served.serve((input, output)).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()), // it looked in and left
        Err(error) => return Err(ServeError::Handshake(error.to_string())),
    };
    running.waiting().await.map(drop).map_err(|error| ServeError::Broken(error.to_string()))
}

struct ServedSessions {
    surface: Arc<dyn Surface>,
    events: Mutex<ServedEvents>,
    /// The client wants to hear what goes wrong (`logging/setLevel`), from this on.
    level: std::sync::Mutex<Option<LoggingLevel>>,
}

impl ServedSessions {
    fn new(surface: Arc<dyn Surface>) -> Self {
        Self { surface, events: Mutex::default(), level: std::sync::Mutex::default() }
    }
}

/// A result, or a sentence that says why there is none.
type ToolOutcome = Result<Value, String>;

impl ServerHandler for ServedSessions {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_logging().enable_tools().build())
            .with_server_info(Implementation::new("throughline", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "The conversations of an agent: list them, read and search what was said, speak to the agent \
                 and wait for its answer, follow what happens, and answer what it asks permission for.",
            )
    }

    /// What is there now is no news.
    async fn on_initialized(&self, _context: NotificationContext<RoleServer>) {
        let mut events = self.events.lock().await;
        let _ = events.look(self.surface.as_ref()).await; // if it fails, the first question sees to it
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools(self.surface.delivers())))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = ClientArguments(call.arguments.unwrap_or_default());
        let Some(outcome) = self.called(&call.name, &arguments).await else {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {}", call.name), None));
        };
        if let Err(reason) = &outcome {
            self.log(&context, &call.name, reason).await;
        }
        let text = |value: &Value| vec![ContentBlock::text(format!("{value:#}"))];
        Ok(match outcome {
            Ok(value) => CallToolResult::success(text(&value)),
            // A sentence, not JSON: clients put an error into a form of their own.
            Err(reason) => CallToolResult::error(vec![ContentBlock::text(reason)]),
        }
        .into())
    }
}

impl ServedSessions {
    /// What goes wrong is a warning, for clients that asked to hear of those.
    async fn log(&self, context: &RequestContext<RoleServer>, tool: &str, reason: &str) {
        let level = *self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = matches!(
            level,
            Some(LoggingLevel::Debug | LoggingLevel::Info | LoggingLevel::Notice | LoggingLevel::Warning)
        );
        if is_wanted {
            let data = json!({"tool": tool, "error": reason});
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Warning, data);
            let _ = context.peer.notify_logging_message(message.with_logger("throughline")).await;
        }
    }

    /// None: there is no such tool.
    async fn called(&self, name: &str, arguments: &ClientArguments) -> Option<ToolOutcome> {
        Some(match name {
            "conversations_list" => self.conversations_list(arguments).await,
            "conversation_get" => self.conversation_get(arguments).await,
            "messages_read" => self.messages_read(arguments).await,
            "attachments_fetch" => self.attachments_fetch(arguments).await,
            "sessions_search" => self.sessions_search(arguments).await,
            "conversation_send" => self.conversation_send(arguments).await,
            "events_poll" => self.events_poll(arguments).await,
            "events_wait" => self.events_wait(arguments).await,
            "permissions_list_open" => self.permissions_list_open().await,
            "permissions_respond" => self.permissions_respond(arguments).await,
            "messages_send" if self.surface.delivers() => self.messages_send(arguments).await,
            "channels_list" if self.surface.delivers() => self.channels_list(arguments).await,
            _ => return None,
        })
    }

    async fn conversations_list(&self, arguments: &ClientArguments) -> ToolOutcome {
        let platform = arguments.text("platform").map(str::to_lowercase);
        let search = arguments.text("search").map(str::to_lowercase);
        let mut found = self.surface.conversations().await.map_err(told)?;
        found.retain(|one| {
            let names = [&one.display_name, &one.chat_name, &one.session_key];
            platform.as_ref().is_none_or(|platform| *platform == one.platform.to_lowercase())
                && search
                    .as_ref()
                    .is_none_or(|search| names.iter().any(|name| name.to_lowercase().contains(search)))
        });
        found.sort_by_key(|one| std::cmp::Reverse(one.updated_at));
        found.truncate(arguments.number("limit", 50, 1..=200) as usize);
        let shown: Vec<Value> = found
            .iter()
            .map(|one| {
                json!({
                    "session_key": one.session_key,
                    "session_id": one.session_id,
                    "platform": one.platform,
                    "chat_type": one.chat_type,
                    "display_name": one.display_name,
                    "chat_name": one.chat_name,
                    "user_name": one.user_name,
                    "updated_at": iso(one.updated_at),
                })
            })
            .collect();
        Ok(json!({"count": shown.len(), "conversations": shown}))
    }

    async fn conversation_get(&self, arguments: &ClientArguments) -> ToolOutcome {
        let key = arguments.required("session_key")?;
        let all = self.surface.conversations().await.map_err(told)?;
        let Some(one) = all.iter().find(|one| one.session_key == key || one.session_id == key) else {
            return Err(format!("Conversation not found: {key}"));
        };
        Ok(json!({
            "session_key": one.session_key,
            "session_id": one.session_id,
            "platform": one.platform,
            "chat_type": one.chat_type,
            "display_name": one.display_name,
            "user_name": one.user_name,
            "chat_name": one.chat_name,
            "chat_id": one.chat_id,
            "thread_id": one.thread_id,
            "updated_at": iso(one.updated_at),
            "created_at": iso(one.created_at),
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
            "total_tokens": one.input_tokens + one.output_tokens,
        }))
    }

    async fn messages_read(&self, arguments: &ClientArguments) -> ToolOutcome {
        let key = arguments.required("session_key")?;
        let mut said = self.surface.said(key).await.map_err(|error| told_of(key, error))?;
        said.retain(|one| !one.text.is_empty());
        let total = said.len();
        let limit = arguments.number("limit", 50, 1..=200) as usize;
        let shown: Vec<Value> = said[total.saturating_sub(limit)..]
            .iter()
            .map(|one| {
                let content: String = one.text.chars().take(MESSAGE_SHOWN_MAX).collect();
                json!({"id": one.id, "role": role(one.speaker), "content": content, "timestamp": one.at.as_seconds()})
            })
            .collect();
        Ok(json!({"session_key": key, "count": shown.len(), "total_in_session": total, "messages": shown}))
    }

    async fn attachments_fetch(&self, arguments: &ClientArguments) -> ToolOutcome {
        let key = arguments.required("session_key")?;
        let id = arguments.required("message_id")?;
        let said = self.surface.said(key).await.map_err(|error| told_of(key, error))?;
        let Some(one) = said.iter().find(|one| one.id == id) else {
            return Err(format!("Message not found: {id}"));
        };
        let mut shown: Vec<Value> =
            one.attachments.iter().map(|part| json!({"type": part.kind, "url": part.url})).collect();
        let tagged = one.text.split("MEDIA:").skip(1).filter_map(|rest| rest.split_whitespace().next());
        shown.extend(tagged.map(|path| json!({"type": "media", "path": path})));
        Ok(json!({"message_id": id, "count": shown.len(), "attachments": shown}))
    }

    async fn sessions_search(&self, arguments: &ClientArguments) -> ToolOutcome {
        let query = arguments.required("query")?;
        let limit = arguments.number("limit", 20, 1..=100) as usize;
        let mut found = self.surface.search(query, limit).await.map_err(told)?;
        found.truncate(limit);
        let shown: Vec<Value> = found
            .iter()
            .map(|one| {
                json!({
                    "session_key": one.session_key,
                    "session_id": one.session_id,
                    "platform": one.platform,
                    "message_id": one.message_id,
                    "role": role(one.speaker),
                    "excerpt": one.excerpt,
                    "timestamp": one.at.as_seconds(),
                })
            })
            .collect();
        Ok(json!({"query": query, "count": shown.len(), "results": shown}))
    }

    async fn conversation_send(&self, arguments: &ClientArguments) -> ToolOutcome {
        let message = arguments.required("message")?;
        let key = arguments.text("session_key");
        let once = arguments.text("idempotency_key");
        let patience = Duration::from_millis(arguments.number("timeout_ms", 120_000, 0..=600_000));
        let reply = self.surface.say(key, message, once, patience).await;
        let reply = reply
            .map_err(|error| key.map_or_else(|| error.to_string(), |key| told_of(key, error.clone())))?;
        Ok(match reply {
            SendOutcome::Answered { session_key, session_id, text } => {
                json!({"session_key": session_key, "session_id": session_id, "status": "answered", "answer": text})
            }
            SendOutcome::Working { session_key, session_id } => json!({
                "session_key": session_key,
                "session_id": session_id,
                "status": "working",
                "note": "The message is kept and the agent is still at work. Do not send it again: \
                         read the answer later with messages_read or events_wait.",
            }),
        })
    }

    async fn events_poll(&self, arguments: &ClientArguments) -> ToolOutcome {
        let after = arguments.number("after_cursor", 0, 0..=u64::MAX);
        let limit = arguments.number("limit", 20, 1..=200) as usize;
        let mut events = self.events.lock().await;
        events.look(self.surface.as_ref()).await.map_err(told)?;
        let (found, next) = events.after(after, arguments.text("session_key"), limit);
        Ok(json!({"events": found, "next_cursor": next}))
    }

    async fn events_wait(&self, arguments: &ClientArguments) -> ToolOutcome {
        let after = arguments.number("after_cursor", 0, 0..=u64::MAX);
        let until =
            Instant::now() + Duration::from_millis(arguments.number("timeout_ms", 30_000, 0..=300_000));
        loop {
            let (mut found, _) = {
                let mut events = self.events.lock().await;
                events.look(self.surface.as_ref()).await.map_err(told)?;
                events.after(after, arguments.text("session_key"), 1)
            };
            if let Some(event) = found.pop() {
                return Ok(json!({"event": event}));
            }
            if Instant::now() >= until {
                return Ok(json!({"event": null, "reason": "timeout"}));
            }
            sleep(LOOK_PAUSE.min(until.saturating_duration_since(Instant::now()))).await;
        }
    }

    async fn permissions_list_open(&self) -> ToolOutcome {
        let mut open = self.surface.questions().await.map_err(told)?;
        open.sort_by_key(|one| one.asked);
        let shown: Vec<Value> = open
            .iter()
            .map(|one| {
                json!({
                    "id": one.id,
                    "session_key": one.session_key,
                    "what": one.what,
                    "why": one.why,
                    "created_at": iso(one.asked),
                    "expires_at": iso(one.until),
                })
            })
            .collect();
        Ok(json!({"count": shown.len(), "approvals": shown}))
    }

    async fn permissions_respond(&self, arguments: &ClientArguments) -> ToolOutcome {
        let id = arguments.required("id")?;
        let word = arguments.required("decision")?;
        let decision = match word {
            "allow-once" => QuestionDecision::AllowOnce,
            "allow-always" => QuestionDecision::AllowAlways,
            "deny" => QuestionDecision::Deny,
            _ => return Err(format!("Invalid decision: {word}. Must be allow-once, allow-always, or deny")),
        };
        match self.surface.decide(id, decision).await {
            Ok(()) => Ok(json!({"resolved": true, "approval_id": id, "decision": word})),
            Err(SurfaceError::NotFound(_)) => Err(format!("Approval not found: {id}")),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn messages_send(&self, arguments: &ClientArguments) -> ToolOutcome {
        let (Some(target), Some(message)) = (arguments.text("target"), arguments.text("message")) else {
            return Err("Both target and message are required".to_owned());
        };
        self.surface.deliver(target, message).await.map_err(told)?;
        Ok(json!({"success": true, "target": target}))
    }

    async fn channels_list(&self, arguments: &ClientArguments) -> ToolOutcome {
        let platform = arguments.text("platform").map(str::to_lowercase);
        let mut channels = self.surface.channels().await.map_err(told)?;
        channels
            .retain(|one| platform.as_ref().is_none_or(|platform| *platform == one.platform.to_lowercase()));
        let shown: Vec<Value> = channels
            .iter()
            .map(|one| {
                json!({"target": one.target, "platform": one.platform, "name": one.name, "chat_type": one.chat_type})
            })
            .collect();
        Ok(json!({"count": shown.len(), "channels": shown}))
    }
}

fn told(error: SurfaceError) -> String {
    error.to_string()
}

fn told_of(key: &str, error: SurfaceError) -> String {
    match error {
        SurfaceError::NotFound(_) => format!("Conversation not found: {key}"),
        error => error.to_string(),
    }
}

fn role(speaker: ServedSpeaker) -> &'static str {
    match speaker {
        ServedSpeaker::User => "user",
        ServedSpeaker::Assistant => "assistant",
    }
}

fn iso(time: Time) -> String {
    jiff::Timestamp::from_microsecond(time.0).map(|time| time.to_string()).unwrap_or_default()
}

/// What a client wrote. Numbers that are none count as not given: clients are models.
struct ClientArguments(Map<String, Value>);

impl ClientArguments {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str().filter(|text| !text.is_empty())
    }

    fn required(&self, key: &str) -> Result<&str, String> {
        self.text(key).ok_or_else(|| format!("Missing required parameter '{key}'"))
    }

    fn number(&self, key: &str, default: u64, range: std::ops::RangeInclusive<u64>) -> u64 {
        let given = self.0.get(key).and_then(|value| match value {
            Value::String(text) => text.trim().parse().ok(),
            value => value.as_f64().map(|number| number.max(0.0) as u64),
        });
        given.unwrap_or(default).clamp(*range.start(), *range.end())
    }
}

fn tools(delivers: bool) -> Vec<Tool> {
    let key = json!({"type": "string", "description": "The session_key from conversations_list"});
    let text = |description: &str| json!({"type": "string", "description": description});
    let count = |description: &str, default: u64| json!({"type": "integer", "description": description, "default": default});
    let mut tools = vec![
        reads(
            "conversations_list",
            "Lists open conversations, the latest first, each with the session_key that the other tools take.",
            json!({
                "platform": text("Only this platform (cli, api_server, telegram …)"),
                "limit": count("How many at most (1 to 200)", 50),
                "search": text("Only conversations with this text in their name"),
            }),
            &[],
        ),
        reads(
            "conversation_get",
            "Everything known about one conversation.",
            json!({"session_key": key}),
            &["session_key"],
        ),
        reads(
            "messages_read",
            "The latest messages of a conversation, in the order in which they were written.",
            json!({"session_key": key, "limit": count("How many at most (1 to 200)", 50)}),
            &["session_key"],
        ),
        reads(
            "attachments_fetch",
            "Lists pictures, files and other parts of a message that are not text.",
            json!({"session_key": key, "message_id": text("The id of a message from messages_read")}),
            &["session_key", "message_id"],
        ),
        reads(
            "sessions_search",
            "Searches the text of all conversations, past and present.",
            json!({"query": text("The words to look for"), "limit": count("How many at most (1 to 100)", 20)}),
            &["query"],
        ),
        acts(
            "conversation_send",
            "Says something to the agent and waits for its answer. Without a session_key a conversation begins.",
            json!({
                "message": text("What to say"),
                "session_key": key,
                "timeout_ms": count("How long to wait for the answer (at most 600000); the agent works on after that", 120_000),
                "idempotency_key": text("A name for this message: sent again under the same name, it is not said twice"),
            }),
            &["message"],
        ),
        reads(
            "events_poll",
            "New messages and permission requests after a cursor (message, approval_requested, approval_resolved). \
             Pass next_cursor the next time.",
            json!({
                "after_cursor": count("Only events after this one", 0),
                "session_key": key,
                "limit": count("How many at most (1 to 200)", 20),
            }),
            &[],
        ),
        reads(
            "events_wait",
            "Waits for the next event after a cursor.",
            json!({
                "after_cursor": count("Only events after this one", 0),
                "session_key": key,
                "timeout_ms": count("How long to wait (at most 300000)", 30_000),
            }),
            &[],
        ),
        reads("permissions_list_open", "What the agent waits for permission to do.", json!({}), &[]),
        acts(
            "permissions_respond",
            "Answers a request for permission.",
            json!({
                "id": text("The id from permissions_list_open"),
                "decision": {"type": "string", "enum": ["allow-once", "allow-always", "deny"], "description": "The answer"},
            }),
            &["id", "decision"],
        ),
    ];
    if delivers {
        tools.push(acts(
            "messages_send",
            "Sends a message to a chat on a platform, as the agent. Targets are listed by channels_list.",
            json!({"target": text("platform:chat_id"), "message": text("The text to send")}),
            &["target", "message"],
        ));
        tools.push(reads(
            "channels_list",
            "Lists the chats that messages_send can reach.",
            json!({"platform": text("Only this platform")}),
            &[],
        ));
    }
    tools
}

fn reads(name: &'static str, description: &'static str, properties: Value, required: &[&str]) -> Tool {
    tool(name, description, properties, required)
        .annotate(ToolAnnotations::new().read_only(true).open_world(false))
}

fn acts(name: &'static str, description: &'static str, properties: Value, required: &[&str]) -> Tool {
    tool(name, description, properties, required).annotate(ToolAnnotations::new().read_only(false))
}

fn tool(name: &'static str, description: &'static str, properties: Value, required: &[&str]) -> Tool {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), properties);
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    Tool::new(name, description, schema)
}
