//! A connection to one server: how it comes about, and how something is asked through it.

use super::cause;
use super::elicit::{self, Calls, Interview, Line, News};
use super::http;
use super::log::Log;
use super::oauth::Bearer;
use super::redact::Redactor;
use super::remote;
use super::sse::{SseError, Stream};
use super::stdio::{Obituary, Ordered, Process};
use super::suspicion;
use super::{MESSAGE_LENGTH_MAX, Surroundings};
use crate::settings::{Reach, Remote, ServerSettings};
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
/// How long a server is told that nobody waits any more, before that does not matter either.
const FAREWELL: Duration = Duration::from_secs(5);

/// As the library begins its error for a login that allows too little.
const SCOPE_MISSING: &str = "Insufficient scope";
/// Longer scopes are not shown to a person.
const SCOPE_LENGTH_MAX: usize = 1_000;

/// All that a call knows when its connection ends under it.
pub const CLOSED: &str = "the connection closed";

/// Why a question got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
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
    pub running: RunningService<RoleClient, Listener>,
    pub obituary: Obituary,
}

/// Our side of a connection: it hears that lists have changed, and writes down what servers log.
///
/// Requests for a completion (sampling) are refused as a method that is not there, and the list of roots is empty. Questions to
/// people (elicitation) are passed on to the call that they belong to, where there is anybody to ask.
#[derive(Clone)]
pub struct Listener {
    pub server: String,
    pub changed: Arc<Notify>,
    pub redactor: Redactor,
    pub calls: Arc<Calls>,
    /// People can be asked here.
    pub asks: bool,
}

#[expect(deprecated, reason = "logging leaves the protocol, and servers do not know it yet")]
impl ClientHandler for Listener {
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
            return Ok(elicit::declined());
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

/// Reaches the server and shakes hands. Whoever waits for this bounds it in time: dropping it ends
/// what it began.
pub async fn connect(
    settings: &ServerSettings,
    surroundings: &Arc<Surroundings>,
    log: &Log,
    listener: Listener,
) -> Result<Connection, Trouble> {
    let obituary = Obituary::default();
    let running = match &settings.reach {
        Reach::Stdio { command, args, env, cwd } => {
            if command.trim().is_empty() {
                return Err(Trouble::Lost(format!(
                    "MCP server '{}' has no 'command' in config",
                    settings.name
                )));
            }
            if let Some(reason) = suspicion::of(command, args) {
                return Err(Trouble::Lost(reason));
            }
            if let Some(cwd) = cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
                return Err(Trouble::Lost(format!("its cwd {} is not a directory", cwd.display())));
            }
            let ordered = Ordered { server: &settings.name, command, args, env, cwd: cwd.as_deref() };
            let process = Process::start(&ordered, surroundings, log, &listener.redactor, obituary.clone());
            let process = process.map_err(|error| Trouble::Lost(unstarted(command, &error)))?;
            listener.serve(process).await
        }
        Reach::Http(remote) => {
            let Prepared { client, url, bearer } =
                prepared(settings, remote, surroundings, &listener.redactor, None).await?;
            if let Some(bearer) = &bearer {
                bearer.token().await.map_err(unrenewed)?; // without one there is nothing to try
            }
            listener.serve(http::transport(client, &url, bearer)).await
        }
        Reach::Sse(remote) => {
            let url = remote::address(&settings.name, &remote.url).map_err(Trouble::Lost)?;
            // Its stream is one request: a token that ends while it lasts ends the stream, which begins again.
            let token = match Bearer::of(settings, remote, &url, &surroundings.home, &listener.redactor) {
                Some(bearer) => Some(bearer.token().await.map_err(unrenewed)?),
                None => None,
            };
            let Prepared { client, url, .. } =
                prepared(settings, remote, surroundings, &listener.redactor, token).await?;
            let stream = Stream::open(client, url, obituary.clone()).await.map_err(|error| match error {
                SseError::Unauthorised => Trouble::Unauthorised { scope: None },
                error => Trouble::Lost(error.to_string()),
            })?;
            listener.serve(stream).await
        }
    };
    match running {
        Ok(running) => Ok(Connection { running, obituary }),
        Err(error) => Err(unshaken(&error, &obituary)),
    }
}

struct Prepared {
    client: reqwest::Client,
    url: reqwest::Url,
    bearer: Option<Arc<Bearer>>,
}

fn unrenewed(error: AuthError) -> Trouble {
    match error {
        AuthError::AuthorizationRequired => Trouble::Unauthorised { scope: None },
        error => Trouble::Lost(format!("its login could not be renewed: {}", cause::of(&error))),
    }
}

async fn prepared(
    settings: &ServerSettings,
    remote: &Remote,
    surroundings: &Arc<Surroundings>,
    redactor: &Redactor,
    token: Option<String>,
) -> Result<Prepared, Trouble> {
    let url = remote::address(&settings.name, &remote.url).map_err(Trouble::Lost)?;
    let bearer = Bearer::of(settings, remote, &url, &surroundings.home, redactor);
    let (settings, remote) = (settings.clone(), remote.clone());
    let client =
        tokio::task::spawn_blocking(move || remote::client(&settings, &remote, token.as_deref())).await;
    match client {
        Ok(client) => Ok(Prepared { client: client.map_err(Trouble::Lost)?, url, bearer }),
        Err(error) => Err(Trouble::Lost(format!("no HTTP client can be made: {error}"))),
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

fn unshaken(error: &ClientInitializeError, obituary: &Obituary) -> Trouble {
    let text = whole(error);
    if error.is_authorization_required() || text.contains(SCOPE_MISSING) {
        return Trouble::Unauthorised { scope: scope_of(&text) };
    }
    let known = obituary.lock().ok().and_then(|reason| reason.clone());
    Trouble::Lost(known.unwrap_or_else(|| shortened(&cause::of(error), ERROR_LENGTH_MAX)))
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

/// An error with its causes, each once. It is looked through for challenges, and not shown to people: see [`cause::of`].
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

/// Asks, and waits as long as `patience` says. Dropping it tells the server that nobody waits.
pub async fn ask(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    patience: Duration,
) -> Result<Value, Trouble> {
    let answered = asked(peer, request, PeerRequestOptions::no_options());
    tokio::time::timeout(patience, answered).await.unwrap_or(Err(Trouble::Late))
}

/// The same for work that may take long: each report of progress lets the patience begin again, up to
/// [`PROGRESS_TOTAL_MAX`] in all. While a person is asked on behalf of the work, no time runs, up to [`elicit::ASKING_MAX`].
pub async fn ask_for_work(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    patience: Duration,
    mut line: Line,
    interview: Option<Interview<'_>>,
) -> Result<Value, Trouble> {
    let sending = peer.send_request_with_option(request, PeerRequestOptions::no_options());
    let handle = match tokio::time::timeout(patience, sending).await {
        Ok(sent) => sent.map_err(trouble)?,
        Err(_) => return Err(Trouble::Late), // the connection does not take it
    };
    line.is_called(&handle.progress_token);
    let mut waiting = Waiting { peer, id: Some(handle.id.clone()) };
    let mut answer = std::pin::pin!(handle.await_response());
    let (mut silent_until, mut until) =
        (Instant::now() + patience, Instant::now() + PROGRESS_TOTAL_MAX.max(patience));
    let mut person: Option<(Instant, Promise<'_, ()>)> = None;
    let mut left = elicit::ASKING_MAX;
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
                    .map_err(|error| Trouble::Lost(error.to_string()));
            }
            () = asking => {
                let took = person.take().map_or(Duration::ZERO, |(began, _)| began.elapsed());
                left = left.saturating_sub(took);
                (silent_until, until) = (silent_until + took, until + took);
            }
            Some(news) = line.news.recv(), if !is_asking => match (news, &interview) {
                (News::Progress, _) => silent_until = Instant::now() + patience,
                (News::Asked(params, answer), Some(interview)) => {
                    person = Some((Instant::now(), Box::pin(interview.hold(*params, answer, left))));
                }
                (News::Asked(_, answer), None) => drop(answer.send(elicit::declined())),
            },
            () = sleep_until(silent_until.min(until)), if !is_asking => return Err(Trouble::Late),
        }
    }
}

async fn asked(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    options: PeerRequestOptions,
) -> Result<Value, Trouble> {
    let handle = peer.send_request_with_option(request, options).await.map_err(trouble)?;
    let mut waiting = Waiting { peer, id: Some(handle.id.clone()) };
    let answer = handle.await_response().await;
    waiting.id = None;
    serde_json::to_value(answer.map_err(trouble)?).map_err(|error| Trouble::Lost(error.to_string()))
}

/// A request that is on its way. Dropped while it is: the server hears that it may stop.
struct Waiting<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Waiting<'_> {
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

fn trouble(error: ServiceError) -> Trouble {
    match error {
        ServiceError::McpError(ErrorData { code, message, .. }) => {
            Trouble::Refused { code: code.0, message: shortened(&message, ERROR_LENGTH_MAX) }
        }
        ServiceError::TransportClosed => Trouble::Lost(CLOSED.to_owned()),
        ServiceError::Timeout { .. } => Trouble::Late,
        ServiceError::TransportSend(error) => {
            let text = whole(&error);
            if text.contains("Auth required") || text.contains(SCOPE_MISSING) {
                Trouble::Unauthorised { scope: scope_of(&text) }
            } else {
                Trouble::Lost(shortened(&cause::of(error.error.as_ref()), ERROR_LENGTH_MAX))
            }
        }
        error => Trouble::Lost(shortened(&cause::of(&error), ERROR_LENGTH_MAX)),
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
