//! A call to a server: sent at most once, and always a result that a model can read.

use super::super::connection::{self, RequestError};
use super::super::elicitation::Interview;
use super::super::offer::ServerAction;
use super::super::result::{self, ResultReader};
use super::super::{ServerPhase, python_json};
use super::{FAILURES_MAX, McpCaller, McpServer, OBITUARY_WAIT, RETURN_WAIT, UNREACHABLE, WAKE_WAIT};
use crate::settings::ServerReach;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, GetPromptRequest, GetPromptRequestParams,
    ReadResourceRequest, ReadResourceRequestParams,
};
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::time::{Instant, timeout};

impl McpServer {
    /// Always a result that a model can read, after every failure.
    pub async fn call(
        self: &Arc<Self>,
        action: &ServerAction,
        arguments: Map<String, Value>,
        person: &McpCaller<'_>,
    ) -> String {
        if let Some(refusal) = self.refusal() {
            return python_json::error(refusal);
        }
        let peer = match self.peer().await {
            Ok(peer) => peer,
            Err(message) => return python_json::error(message),
        };
        let Ok(Ok(_turn)) = timeout(self.settings.timeout, self.call_permits.acquire()).await else {
            return python_json::error(format!(
                "MCP server '{}' is still busy with earlier calls; this one was not sent. Try again later.",
                self.settings.name
            ));
        };
        let _busy = BusyServer::new(self);
        let began = Instant::now();
        match self.acted(&peer, action, arguments, person).await {
            Ok(result) => {
                self.state().failures = 0;
                result
            }
            Err(trouble) => self.failed(trouble, began).await,
        }
    }

    /// After too many failures in a row, until a minute has passed.
    fn refusal(&self) -> Option<String> {
        let state = self.state();
        let age = state.failed.elapsed();
        (state.failures >= FAILURES_MAX && age < UNREACHABLE).then(|| {
            format!(
                "MCP server '{}' is unreachable after {} consecutive failures. Auto-retry available in ~{}s. \
                 Do NOT retry this tool yet — use alternative approaches or ask the user to check the MCP server.",
                self.settings.name,
                state.failures,
                (UNREACHABLE - age).as_secs().max(1)
            )
        })
    }

    pub(super) async fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let name = &self.settings.name;
        let patience = match self.phase() {
            ServerPhase::Off | ServerPhase::Stopped => {
                return Err(format!("MCP server '{name}' is not connected"));
            }
            // The first start may take its time: the server has not failed yet.
            ServerPhase::Connecting if !*self.settled.borrow() => self.settings.connect_timeout,
            ServerPhase::Resting => WAKE_WAIT,
            ServerPhase::Connected | ServerPhase::Connecting | ServerPhase::Away => RETURN_WAIT,
        };
        let mut link = self.link.subscribe();
        let there = link.borrow().clone();
        if let Some(peer) = there {
            return Ok(peer);
        }
        self.wanted.notify_one();
        let arrived = timeout(patience.min(self.settings.timeout), link.wait_for(Option::is_some)).await;
        if let Ok(Ok(peer)) = arrived
            && let Some(peer) = peer.clone()
        {
            return Ok(peer);
        }
        self.count_failure();
        let reason = self.error().map(|error| format!(" Last error: {error}")).unwrap_or_default();
        Err(format!(
            "MCP server '{name}' transport is down; reconnect requested. Do NOT retry this tool immediately — \
             give it a few seconds to come back.{reason}"
        ))
    }

    async fn acted(
        self: &Arc<Self>,
        peer: &Peer<RoleClient>,
        action: &ServerAction,
        arguments: Map<String, Value>,
        person: &McpCaller<'_>,
    ) -> Result<String, RequestError> {
        let patience = self.settings.timeout;
        match action {
            ServerAction::Tool(name) => {
                let params = CallToolRequestParams::new(name.clone()).with_arguments(arguments);
                let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
                let asker = person.asker.filter(|_| self.surroundings.asks);
                let line = self.calls.begin(person.session, asker.is_some());
                let (server, redactor) = (self.settings.name.as_str(), &self.redactor);
                let interview = asker.map(|asker| Interview { server, redactor, asker });
                let answer = connection::ask_for_work(peer, request, patience, line, interview).await?;
                self.rendered(answer, |reader, answer| reader.tool(answer)).await
            }
            ServerAction::ListResources => {
                Ok(result::resources(&self.pages(peer, "resources", patience).await?))
            }
            ServerAction::ListPrompts => Ok(result::prompts(&self.pages(peer, "prompts", patience).await?)),
            ServerAction::ReadResource => {
                let Some(uri) = text_of(&arguments, "uri") else { return Ok(missing("uri")) };
                let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
                let answer =
                    connection::ask(peer, ClientRequest::ReadResourceRequest(request), patience).await?;
                self.rendered(answer, |reader, answer| reader.resource(answer)).await
            }
            ServerAction::GetPrompt => {
                let Some(name) = text_of(&arguments, "name") else { return Ok(missing("name")) };
                let mut params = GetPromptRequestParams::new(name);
                if let Some(Value::Object(given)) = arguments.get("arguments") {
                    params = params.with_arguments(given.clone());
                }
                let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
                Ok(result::prompt(&connection::ask(peer, request, patience).await?))
            }
        }
    }

    /// Results may hold files, and files are written elsewhere.
    async fn rendered(
        self: &Arc<Self>,
        answer: Value,
        render: fn(&ResultReader<'_>, &Value) -> String,
    ) -> Result<String, RequestError> {
        match answer["resultType"].as_str() {
            None | Some("complete") => {}
            Some(kind) => {
                let message = format!("it answered with '{kind}', which this client does not take up");
                return Ok(python_json::error(format!("MCP call failed: {message}")));
            }
        }
        let server = self.clone();
        let rendered = tokio::task::spawn_blocking(move || {
            let home = &server.surroundings.home;
            let (name, prefix) = (&server.settings.name, &server.prefix);
            render(&ResultReader { server: name, prefix, home, redactor: &server.redactor }, &answer)
        });
        rendered.await.map_err(|error| RequestError::Lost(format!("the answer could not be read: {error}")))
    }

    /// What the model reads of a call that failed. People read [`McpServer::words`].
    async fn failed(&self, trouble: RequestError, began: Instant) -> String {
        let name = &self.settings.name;
        let trouble = match trouble {
            RequestError::Lost(reason) => {
                self.count_failure();
                self.doubted.notify_one();
                RequestError::Lost(self.last_words(reason).await)
            }
            trouble => trouble,
        };
        let told = self.redactor.clean(&format!("a call failed: {}", self.words(&trouble)));
        tracing::warn!(server = name, "MCP server: {told}");
        self.state().trouble = Some((told, Instant::now()));
        let message = match trouble {
            RequestError::Refused { message, .. } => {
                self.state().failures = 0; // it is there, and has an opinion
                if message.to_lowercase().contains("session") {
                    self.doubted.notify_one(); // perhaps ours has ended on its side
                }
                format!("MCP call failed: McpError: {message}")
            }
            RequestError::Unauthorised { scope } => {
                self.count_failure();
                let how = self.how_to_log_in(scope.as_deref());
                self.state().needs_login = true;
                let error = format!(
                    "MCP server '{name}' requires re-authentication. {how}. Do NOT retry this tool — ask the user to \
                     re-authenticate."
                );
                return python_json::written(&json!({"error": error, "needs_reauth": true, "server": name}));
            }
            RequestError::Late => {
                self.count_failure();
                self.doubted.notify_one();
                format!(
                    "MCP call failed: TimeoutError: MCP call timed out after {:.1}s (configured timeout: {:.1}s). \
                     Whether it took effect is not known.",
                    began.elapsed().as_secs_f64(),
                    self.settings.timeout.as_secs_f64()
                )
            }
            RequestError::Lost(reason) => format!(
                "MCP call failed: ConnectionError: the connection to MCP server '{name}' was lost: {reason}. \
                 Whether the call took effect is not known; the server is being connected again."
            ),
        };
        python_json::error(self.redactor.clean(&message))
    }

    /// Who runs the connection knows better why it closed, a moment after the call knows that it did.
    async fn last_words(&self, reason: String) -> String {
        if reason != connection::CLOSED {
            return reason;
        }
        let mut link = self.link.subscribe();
        let gone = timeout(OBITUARY_WAIT, link.wait_for(Option::is_none)).await.is_ok();
        self.error().filter(|_| gone).unwrap_or(reason)
    }

    fn count_failure(&self) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        state.failed = Instant::now();
    }

    /// What a person has to do, told to the model as well.
    fn how_to_log_in(&self, scope: Option<&str>) -> String {
        let name = &self.settings.name;
        let is_login = match &self.settings.reach {
            ServerReach::Http(remote) | ServerReach::Sse(remote) => remote.oauth.is_some(),
            ServerReach::Stdio { .. } => false,
        };
        match (scope, is_login) {
            (Some(scope), _) => {
                format!("Run `throughline mcp login {name} --scope '{scope}'`: its login allows less")
            }
            (None, true) => format!("Run `throughline mcp login {name}`"),
            (None, false) => format!(
                "Set `auth: oauth` below `mcp_servers.{name}` and run `throughline mcp login {name}`, or set a valid \
                 Authorization below its headers"
            ),
        }
    }

    /// What happened, for people: in the status, in the log.
    pub(super) fn words(&self, trouble: &RequestError) -> String {
        match trouble {
            RequestError::Refused { message, .. } => format!("it refused: {message}"),
            RequestError::Unauthorised { scope } => {
                format!("it requires a login. {}", self.how_to_log_in(scope.as_deref()))
            }
            RequestError::Late => "it did not answer in time".to_owned(),
            RequestError::Lost(reason) => reason.clone(),
        }
    }
}

/// Some servers say it in words only.
pub(super) fn is_unknown_method(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("method not found") || message.contains("unknown method")
}

fn text_of(arguments: &Map<String, Value>, key: &str) -> Option<String> {
    arguments.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn missing(parameter: &str) -> String {
    python_json::error(format!("Missing required parameter '{parameter}'"))
}

/// A call that is under way; the last one's end is when the server becomes idle.
struct BusyServer<'a>(&'a McpServer);

impl<'a> BusyServer<'a> {
    pub(super) fn new(server: &'a McpServer) -> Self {
        server.state().busy += 1;
        Self(server)
    }
}

impl Drop for BusyServer<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.busy -= 1;
        state.called = Instant::now();
    }
}
