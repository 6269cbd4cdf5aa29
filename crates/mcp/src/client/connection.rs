//! A connection to one server: how it comes about, and how something is asked through it.

use super::elicitation::{self, CallNews, CallNewsReceiver, Interview, ServerCalls};
use super::error_cause;
use super::http;
use super::http_client;
use super::oauth::LoginTokens;
use super::redact::ErrorRedactor;
use super::sse::{SseError, Stream};
use super::stderr_log::ServerLog;
use super::stdio::{DisconnectReason, Ordered, ServerProcess};
use super::suspicious_commands;
use super::{MESSAGE_LENGTH_MAX, McpSurroundings};
use crate::settings::{RemoteSettings, ServerReach, ServerSettings};
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientCapabilities, ClientConfig, ClientRequest,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorData,
    FormElicitationCapability, Implementation, ProgressNotificationParam, ProtocolVersion, RequestId,
    UrlElicitationCapability,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, PeerRequestOptions, RequestContext, RunningService,
    ServiceError,
};
use rmcp::transport::auth::AuthError;
use rmcp::{ClientHandler, Peer, RoleClient, ServiceExt};
use serde_json::Value;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::port::Promise;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A log line of a server is cut here: it goes into our own log.
const LOG_LENGTH_MAX: usize = 2_000;
/// What is shown of an error that a server made up.
const ERROR_LENGTH_MAX: usize = 2_000;
/// How long a call may take that reports progress all the time.
const PROGRESS_TOTAL_MAX: Duration = Duration::from_secs(3600);
/// How long the cancellation of a call may take on its way to the server.
const FAREWELL: Duration = Duration::from_secs(5);

/// As the library begins its error for a login that allows too little.
const SCOPE_MISSING: &str = "Insufficient scope";
/// Longer scopes are not shown to a person.
const SCOPE_LENGTH_MAX: usize = 1_000;

/// All that a call knows when its connection ends under it.
pub const CLOSED: &str = "the connection closed";

/// Why a question got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The server said no, in the protocol's way.
    Refused { code: i32, message: String },
    /// It must be logged in to first; with this scope, if it named one that the login lacks.
    Unauthorised { scope: Option<String> },
    /// Nothing came in time.
    Late,
    /// The connection is gone, or what came through it was no answer.
    Lost(String),
}

pub struct Connection {
    pub running: RunningService<RoleClient, ConnectionHandler>,
    pub obituary: DisconnectReason,
}

/// Our side of a connection: it hears that lists have changed, and writes down what servers log.
///
/// Requests for a completion (sampling) are refused as a method that is not there, and the list of roots is empty. Questions to
/// people (elicitation) are passed on to the call that they belong to, where there is a person to ask.
#[derive(Clone)]
pub struct ConnectionHandler {
    pub server: String,
    pub changed: Arc<Notify>,
    pub redactor: ErrorRedactor,
    pub calls: Arc<ServerCalls>,
    /// People can be asked here.
    pub asks: bool,
}

#[expect(deprecated, reason = "logging leaves the protocol, and servers do not know it yet")]
impl ClientHandler for ConnectionHandler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("throughline", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        if self.asks {
            let form = FormElicitationCapability::new();
            let mut elicitation = ElicitationCapability::new();
            (elicitation.form, elicitation.url) = (Some(form), Some(UrlElicitationCapability::new()));
            capabilities.elicitation = Some(elicitation);
        }
        ClientConfig::new(capabilities, us).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(answered) = self.calls.ask(request) else {
            tracing::warn!(
                server = self.server,
                "a question of an MCP server is declined: it belongs to no call of one session that has a person"
            );
            return Ok(elicitation::declined());
        };
        tokio::select! {
            // Without an answer the call has ended under it.
            answer = answered => Ok(answer.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel))),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.calls.progress(&progress.progress_token);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_logging_message(
        &self,
        message: rmcp::model::LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let text = match &message.data {
            Value::String(text) => text.clone(),
            data => data.to_string(),
        };
        let text = self.redactor.clean(&shortened(&text, LOG_LENGTH_MAX));
        let level = serde_json::to_value(message.level).unwrap_or_default();
        match level.as_str().unwrap_or_default() {
            "debug" => tracing::debug!(server = self.server, "MCP server log: {text}"),
            "info" | "notice" => tracing::info!(server = self.server, "MCP server log: {text}"),
            _ => tracing::warn!(server = self.server, "MCP server log: {text}"),
        }
    }
}

/// Reaches the server and shakes hands. The caller bounds it in time: dropping it ends what it
/// began.
pub async fn connect(
    settings: &ServerSettings,
    surroundings: &Arc<McpSurroundings>,
    log: &ServerLog,
    listener: ConnectionHandler,
) -> Result<Connection, RequestError> {
    let obituary = DisconnectReason::default();
    let running = match &settings.reach {
        ServerReach::Stdio { command, args, env, cwd } => {
            if command.trim().is_empty() {
                return Err(RequestError::Lost(format!(
                    "MCP server '{}' has no 'command' in config",
                    settings.name
                )));
            }
            if let Some(reason) = suspicious_commands::of(command, args) {
                return Err(RequestError::Lost(reason));
            }
            if let Some(cwd) = cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
                return Err(RequestError::Lost(format!("its cwd {} is not a directory", cwd.display())));
            }
            let ordered = Ordered { server: &settings.name, command, args, env, cwd: cwd.as_deref() };
            let process =
                ServerProcess::start(&ordered, surroundings, log, &listener.redactor, obituary.clone());
            let process = process.map_err(|error| RequestError::Lost(unstarted(command, &error)))?;
            listener.serve(process).await
        }
        ServerReach::Http(remote) => {
            let PreparedHttp { client, url, bearer } =
                prepared(settings, remote, surroundings, &listener.redactor, None).await?;
            if let Some(bearer) = &bearer {
                bearer.token().await.map_err(unrenewed)?; // without one there is nothing to try
            }
            listener.serve(http::transport(client, &url, bearer)).await
        }
        ServerReach::Sse(remote) => {
            let url = http_client::address(&settings.name, &remote.url).map_err(RequestError::Lost)?;
            // Its stream is one request: a token that ends while it lasts ends the stream, which begins again.
            let token = match LoginTokens::of(settings, remote, &url, &surroundings.home, &listener.redactor)
            {
                Some(bearer) => Some(bearer.token().await.map_err(unrenewed)?),
                None => None,
            };
            let PreparedHttp { client, url, .. } =
                prepared(settings, remote, surroundings, &listener.redactor, token).await?;
            let stream = Stream::open(client, url, obituary.clone()).await.map_err(|error| match error {
                SseError::Unauthorised => RequestError::Unauthorised { scope: None },
                error => RequestError::Lost(error.to_string()),
            })?;
            listener.serve(stream).await
        }
    };
    match running {
        Ok(running) => Ok(Connection { running, obituary }),
        Err(error) => Err(unshaken(&error, &obituary)),
    }
}

struct PreparedHttp {
    client: reqwest::Client,
    url: reqwest::Url,
    bearer: Option<Arc<LoginTokens>>,
}

fn unrenewed(error: AuthError) -> RequestError {
    match error {
        AuthError::AuthorizationRequired => RequestError::Unauthorised { scope: None },
        error => RequestError::Lost(format!("its login could not be renewed: {}", error_cause::of(&error))),
    }
}

async fn prepared(
    settings: &ServerSettings,
    remote: &RemoteSettings,
    surroundings: &Arc<McpSurroundings>,
    redactor: &ErrorRedactor,
    token: Option<String>,
) -> Result<PreparedHttp, RequestError> {
    let url = http_client::address(&settings.name, &remote.url).map_err(RequestError::Lost)?;
    let bearer = LoginTokens::of(settings, remote, &url, &surroundings.home, redactor);
    let (settings, remote) = (settings.clone(), remote.clone());
    let client =
        tokio::task::spawn_blocking(move || http_client::client(&settings, &remote, token.as_deref())).await;
    match client {
        Ok(client) => Ok(PreparedHttp { client: client.map_err(RequestError::Lost)?, url, bearer }),
        Err(error) => Err(RequestError::Lost(format!("no HTTP client can be made: {error}"))),
    }
}

fn unstarted(command: &str, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::NotFound {
        return format!("'{command}' could not be started: {error}");
    }
    let mut message = format!("missing executable '{command}'");
    if ["npx", "npm", "node"].contains(&command.rsplit('/').next().unwrap_or_default()) {
        message.push_str(
            " (ensure Node.js is installed and PATH includes its bin directory, or set \
             mcp_servers.<name>.command to an absolute path and include that directory in \
             mcp_servers.<name>.env.PATH)",
        );
    }
    message
}

fn unshaken(error: &ClientInitializeError, obituary: &DisconnectReason) -> RequestError {
    let text = whole(error);
    if error.is_authorization_required() || text.contains(SCOPE_MISSING) {
        return RequestError::Unauthorised { scope: scope_of(&text) };
    }
    let known = obituary.lock().ok().and_then(|reason| reason.clone());
    RequestError::Lost(known.unwrap_or_else(|| shortened(&error_cause::of(error), ERROR_LENGTH_MAX)))
}

/// `scope="…"` of what a server says when it refuses us.
pub fn scope_of(challenge: &str) -> Option<String> {
    let (_, rest) = challenge.split_once("scope=\"")?;
    let (scope, _) = rest.split_once('"')?;
    // It is shown between quotes, in a command that a person or an agent is told to run.
    let is_scope = |c: char| (c.is_ascii_graphic() || c == ' ') && !matches!(c, '\'' | '\\');
    (!scope.is_empty() && scope.len() <= SCOPE_LENGTH_MAX && scope.chars().all(is_scope))
        .then(|| scope.to_owned())
}

/// An error with its causes, each once. It is looked through for challenges, and not shown to people: see [`error_cause::of`].
fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

/// Asks, and waits as long as `patience` says. Dropping it tells the server that the call is cancelled.
pub async fn ask(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    patience: Duration,
) -> Result<Value, RequestError> {
    let answered = asked(peer, request, PeerRequestOptions::no_options());
    tokio::time::timeout(patience, answered).await.unwrap_or(Err(RequestError::Late))
}

/// The same for work that may take long: each report of progress lets the patience begin again, up to
/// [`PROGRESS_TOTAL_MAX`] in all. While a person is asked on behalf of the work, no time runs, up to [`elicitation::ASKING_MAX`].
pub async fn ask_for_work(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    patience: Duration,
    mut line: CallNewsReceiver,
    interview: Option<Interview<'_>>,
) -> Result<Value, RequestError> {
    let sending = peer.send_request_with_option(request, PeerRequestOptions::no_options());
    let handle = match tokio::time::timeout(patience, sending).await {
        Ok(sent) => sent.map_err(trouble)?,
        Err(_) => return Err(RequestError::Late), // the connection does not take it
    };
    line.is_called(&handle.progress_token);
    let mut waiting = RequestInFlight { peer, id: Some(handle.id.clone()) };
    let mut answer = std::pin::pin!(handle.await_response());
    let (mut silent_until, mut until) =
        (Instant::now() + patience, Instant::now() + PROGRESS_TOTAL_MAX.max(patience));
    let mut person: Option<(Instant, Promise<'_, ()>)> = None;
    let mut left = elicitation::ASKING_MAX;
    loop {
        let is_asking = person.is_some();
        let asking = async {
            match &mut person {
                Some((_, interview)) => interview.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = &mut answer => {
                waiting.id = None;
                line.ended();
                return serde_json::to_value(answer.map_err(trouble)?)
                    .map_err(|error| RequestError::Lost(error.to_string()));
            }
            () = asking => {
                let took = person.take().map_or(Duration::ZERO, |(began, _)| began.elapsed());
                left = left.saturating_sub(took);
                (silent_until, until) = (silent_until + took, until + took);
            }
            Some(news) = line.news.recv(), if !is_asking => match (news, &interview) {
                (CallNews::Progress, _) => silent_until = Instant::now() + patience,
                (CallNews::Asked(params, answer), Some(interview)) => {
                    person = Some((Instant::now(), Box::pin(interview.hold(*params, answer, left))));
                }
                (CallNews::Asked(_, answer), None) => drop(answer.send(elicitation::declined())),
            },
            () = sleep_until(silent_until.min(until)), if !is_asking => return Err(RequestError::Late),
        }
    }
}

async fn asked(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    options: PeerRequestOptions,
) -> Result<Value, RequestError> {
    let handle = peer.send_request_with_option(request, options).await.map_err(trouble)?;
    let mut waiting = RequestInFlight { peer, id: Some(handle.id.clone()) };
    let answer = handle.await_response().await;
    waiting.id = None;
    serde_json::to_value(answer.map_err(trouble)?).map_err(|error| RequestError::Lost(error.to_string()))
}

/// A request that is on its way. Dropped while it is: the server hears that it may stop.
struct RequestInFlight<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for RequestInFlight<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = Some("nobody waits for the answer any more".to_owned());
            let notice = CancelledNotification::new(CancelledNotificationParam::new(Some(id), reason));
            let _ = tokio::time::timeout(FAREWELL, peer.send_notification(notice.into())).await;
        });
    }
}

fn trouble(error: ServiceError) -> RequestError {
    match error {
        ServiceError::McpError(ErrorData { code, message, .. }) => {
            RequestError::Refused { code: code.0, message: shortened(&message, ERROR_LENGTH_MAX) }
        }
        ServiceError::TransportClosed => RequestError::Lost(CLOSED.to_owned()),
        ServiceError::Timeout { .. } => RequestError::Late,
        ServiceError::TransportSend(error) => {
            let text = whole(&error);
            if text.contains("Auth required") || text.contains(SCOPE_MISSING) {
                RequestError::Unauthorised { scope: scope_of(&text) }
            } else {
                RequestError::Lost(shortened(&error_cause::of(error.error.as_ref()), ERROR_LENGTH_MAX))
            }
        }
        error => RequestError::Lost(shortened(&error_cause::of(&error), ERROR_LENGTH_MAX)),
    }
}

fn shortened(text: &str, length: usize) -> String {
    debug_assert!(length < MESSAGE_LENGTH_MAX);
    if text.len() <= length {
        return text.to_owned();
    }
    format!("{}… [truncated]", &text[..text.floor_char_boundary(length)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_only_a_scope_that_can_be_shown_is_read_out_of_a_refusal() {
        for (challenge, expected) in [
            (r#"Bearer error="insufficient_scope", scope="read write""#, Some("read write")),
            (r#"Bearer scope="""#, None),
            (r#"Bearer scope="read"#, None),
            ("Bearer scope=\"a\u{1b}[2J\"", None),
            (r#"Bearer scope="a'; rm -rf ~ '""#, None),
            ("Bearer", None),
        ] {
            assert_eq!(scope_of(challenge).as_deref(), expected, "{challenge}");
        }
        assert_eq!(scope_of(&format!("scope=\"{}\"", "x".repeat(100_000))), None);
    }
}
