//! `throughline mcp`: the servers that an agent uses (`list`, `test`, `login`), and the agent as a server (`serve`).
//!
//! `serve` offers the conversations of this home to any program that speaks the Model Context Protocol, on its
//! standard streams or over HTTP. It is a client of the running gateway, as the terminal is.

use crate::client::{Client, ClientError, Event, Line};
use crate::out::{Column, Page, Table, one_line, write_json};
use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::net::Ipv4Addr;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_app::http_listener::port_advice;
use throughline_core::port::Promise;
use throughline_core::redact::Secret;
use throughline_core::tool::{Asker, Elicitation, Question, Verdict};
use throughline_core::{SessionId, Time};
use throughline_mcp::client::{McpClient as Servers, McpSurroundings, ServerPhase, ServerStatus};
use throughline_mcp::login::PendingLogin as Authorization;
use throughline_mcp::serve::{
    self, OpenQuestion, QuestionDecision, SearchHit, SendOutcome, ServedConversation, ServedMessage,
    ServedSpeaker, Surface, SurfaceAnswer, SurfaceError,
};
use throughline_mcp::settings::{ServerReach, ServerSettings};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// As many conversations as a program looks through.
const CONVERSATIONS_MAX: usize = 200;
/// Where `serve --http` listens if nothing else is said: beside the API, which has 8642.
const HTTP_PORT: u16 = 8643;
/// What a list shows of an error.
const ERROR_SHOWN_MAX: usize = 120;

#[derive(Debug, clap::Subcommand)]
pub enum Mcp {
    Serve(Serve),
    List(List),
    Test(Test),
    Login(Login),
}

/// Offer sessions, search and sending to a program that speaks MCP
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// Over HTTP at this port of 127.0.0.1 (8643 if none is given), with the key of the API; without it, on standard
    /// input and output
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "8643", value_parser = super::port)]
    http: Option<u16>,
}

/// Show the MCP servers of config.yaml, and how they are doing
#[derive(Debug, clap::Args)]
pub struct List {
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Connect to an MCP server of config.yaml, and show what it offers
#[derive(Debug, clap::Args)]
pub struct Test {
    /// Its name below `mcp_servers`
    name: String,
    /// Call this tool, by the server's own name of it or by ours
    #[arg(long, value_name = "TOOL")]
    call: Option<String>,
    /// What the tool is called with
    #[arg(long, value_name = "JSON", default_value = "{}", requires = "call")]
    arguments: String,
    /// Answer what the server asks meanwhile from standard input, a line for each question, also without a terminal
    #[arg(long, requires = "call")]
    answers: bool,
}

/// Log in to an MCP server that has `auth: oauth`, in a browser
#[derive(Debug, clap::Args)]
pub struct Login {
    /// Its name below `mcp_servers`
    name: String,
    /// What the login is to allow, separated by spaces: what the server asks for if not given
    #[arg(long)]
    scope: Option<String>,
    /// Only print the address; do not open a browser
    #[arg(long)]
    no_browser: bool,
}

impl Serve {
    pub async fn run(self, client: Client, key: &Secret) -> anyhow::Result<ExitCode> {
        let surface = Arc::new(Gateway(client));
        let Some(port) = self.http else {
            serve::serve(surface).await?;
            return Ok(ExitCode::SUCCESS);
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.map_err(|error| {
            let option = format!("--http PORT, {HTTP_PORT} for example");
            let advice = port_advice(port, &error, &option);
            let advice = advice.unwrap_or_else(|| format!("Choose another port with {option}"));
            anyhow!("MCP cannot be served at port {port} of 127.0.0.1 ({error}). {advice}")
        })?;
        eprintln!(
            "MCP is served at http://{}{}; clients send the key of the API as `Authorization: Bearer …`. Ctrl-C ends it.",
            listener.local_addr()?,
            serve::PATH
        );
        serve::serve_http(surface, listener, key, asked_to_stop()).await;
        Ok(ExitCode::SUCCESS)
    }
}

async fn asked_to_stop() {
    #[cfg(unix)]
    {
        let mut ended = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(ended) => ended,
            Err(_) => return drop(tokio::signal::ctrl_c().await),
        };
        tokio::select! {
            _ = ended.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
    #[cfg(not(unix))]
    drop(tokio::signal::ctrl_c().await);
}

impl List {
    /// `running`: what the gateway says of them, if one runs.
    pub fn run(
        self,
        written: &[ServerSettings],
        running: Option<Value>,
        page: &Page,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let told = running.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let shown: Vec<Value> = written
            .iter()
            .map(|server| {
                let told = told.iter().find(|told| told["name"] == server.name.as_str());
                told.cloned().unwrap_or_else(|| {
                    let state = if server.enabled { "no gateway runs" } else { "off" };
                    json!({"name": server.name, "transport": transport(server), "state": state})
                })
            })
            .collect();
        if self.json {
            write_json(&json!({"object": "list", "data": shown}), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        if shown.is_empty() {
            writeln!(out, "config.yaml names no MCP servers (`mcp_servers`).")?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new([
            Column::text("SERVER"),
            Column::text("TRANSPORT"),
            Column::text("STATE"),
            Column::number("TOOLS"),
            Column::flexible("LAST ERROR"),
        ]);
        for server in &shown {
            let text = |name: &str| server[name].as_str().unwrap_or_default().to_owned();
            let mut error = one_line(server["last_error"].as_str().unwrap_or_default());
            if let Some((end, _)) = error.char_indices().nth(ERROR_SHOWN_MAX) {
                error.truncate(end);
                error.push('…');
            }
            let tools = server["tools"].as_array().map_or("-".to_owned(), |tools| tools.len().to_string());
            table.row([text("name"), text("transport"), text("state"), tools, error]);
        }
        table.write(page, out)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn transport(server: &ServerSettings) -> &'static str {
    match server.reach {
        ServerReach::Stdio { .. } => "stdio",
        ServerReach::Http(_) => "http",
        ServerReach::Sse(_) => "sse",
    }
}

/// One server in a line, from what `shown` says of it.
pub fn line(server: &Value, now: Time) -> String {
    let said = |name: &str| one_line(server[name].as_str().unwrap_or_default());
    let tools = server["tools"].as_array().map_or(0, Vec::len);
    let mut line = format!("MCP server {}: {}, {tools} tools", said("name"), said("state"));
    let last = server["error"].as_str().map(|error| ("", error));
    if let Some((when, error)) = last.or(server["last_error"].as_str().map(|error| ("last error: ", error))) {
        line.push_str(&format!("; {when}{}", one_line(error)));
    }
    if let Some(at) = server["next_try"].as_f64() {
        let left = Time::from_seconds(at).since(now).as_secs();
        line.push_str(&format!("; next try in {left} s"));
    }
    line
}

/// Whether a server is away or wants a login, from what `shown` says of it: also in the moment in which it is tried again.
pub fn needs_a_person(server: &Value) -> bool {
    server["error"].is_string() || server["needs_login"] == true
}

/// The one of them that has this name.
pub fn named(servers: Vec<ServerSettings>, name: &str) -> anyhow::Result<ServerSettings> {
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    match servers.into_iter().find(|server| server.name == name) {
        Some(server) => Ok(server),
        None if names.is_empty() => bail!("config.yaml names no MCP servers (`mcp_servers`)"),
        None => bail!("config.yaml names no MCP server '{name}'; it names {}", names.join(", ")),
    }
}

impl Test {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub async fn run(
        self,
        mut server: ServerSettings,
        mut surroundings: McpSurroundings,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        server.enabled = true; // asked for by name
        surroundings.asks = self.answers || (self.call.is_some() && io::stdin().is_terminal());
        let patience = server.connect_timeout + Duration::from_secs(5);
        let began = Instant::now();
        let servers = Servers::start(vec![server], surroundings);
        servers.settled(patience).await;
        let took = began.elapsed().as_millis();
        let status = servers.status().pop().context("the server has no status")?;
        let code = self.told(&servers, &status, took, out).await;
        servers.stop().await;
        code
    }

    async fn told(
        &self,
        servers: &Servers,
        status: &ServerStatus,
        took: u128,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let name = &status.name;
        if status.phase != ServerPhase::Connected {
            let why = status.error.as_deref().unwrap_or("it was not ready in time");
            writeln!(out, "{name}: not connected after {took} ms: {}", one_line(why))?;
            return Ok(ExitCode::FAILURE);
        }
        writeln!(out, "{name}: connected in {took} ms ({}), {} tools", status.transport, status.tools.len())?;
        for remark in &status.remarks {
            writeln!(out, "  ! {}", one_line(remark))?;
        }
        let Some(tool) = &self.call else {
            for tool in &status.tools {
                writeln!(out, "  {tool}")?;
            }
            return Ok(ExitCode::SUCCESS);
        };
        match servers.try_tool(tool, &self.arguments, Some(&Typist)).await {
            Some(result) => {
                writeln!(out, "{result}")?;
                let is_error = result.starts_with(r#"{"error""#);
                Ok(if is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
            }
            None => bail!("{name} offers no tool '{tool}'; it offers {}", status.tools.join(", ")),
        }
    }
}

impl Login {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub async fn run(
        self,
        server: ServerSettings,
        surroundings: McpSurroundings,
        out: &mut dyn Write,
    ) -> anyhow::Result<ExitCode> {
        let login = Authorization::begin(&server, &surroundings, self.scope.as_deref()).await?;
        writeln!(out, "Open this address in a browser, and allow Throughline to use '{}':\n", server.name)?;
        writeln!(out, "  {}\n", login.address)?;
        let pastes = io::stdin().is_terminal();
        if pastes {
            writeln!(out, "If the browser is on another machine: paste the address that it ends at here.")?;
        }
        out.flush()?;
        if !self.no_browser {
            open(&login.address, &surroundings);
        }
        let logged_in = login.finish(Box::pin(pasted(pastes))).await?;
        writeln!(out, "Logged in to '{}'; the tokens are in {}.", server.name, logged_in.path.display())?;
        out.flush()?;
        let test = Test { name: self.name, call: None, arguments: "{}".to_owned(), answers: false };
        let code = test.run(server, surroundings, out).await?;
        writeln!(out, "A running gateway uses the login at its next try, and at once after `/reload-mcp`.")?;
        Ok(code)
    }
}

/// The person who tries a server out. The end of the input is no answer.
struct Typist;

impl Asker for Typist {
    fn ask(&self, asked: Elicitation, patience: Duration) -> Promise<'_, Verdict> {
        Box::pin(async move {
            let question = Question::Elicitation { asked, number: 1 };
            let _ = writeln!(io::stderr(), "{}\n", question.in_words());
            let (told, heard) = tokio::sync::oneshot::channel();
            // Reading cannot be given up: a thread of its own ends with the process.
            std::thread::spawn(move || {
                let mut line = String::new();
                if io::stdin().read_line(&mut line).unwrap_or(0) > 0 {
                    let _ = told.send(line);
                }
            });
            match timeout(patience, heard).await {
                Ok(Ok(line)) => Verdict::Said(line),
                Ok(Err(_)) | Err(_) => Verdict::Expired,
            }
        })
    }
}

/// A line that is typed. Without a terminal none ever comes.
async fn pasted(is_possible: bool) -> String {
    if !is_possible {
        return std::future::pending().await;
    }
    let (told, heard) = tokio::sync::oneshot::channel();
    // Reading cannot be given up: a thread of its own ends with the process.
    std::thread::spawn(move || {
        let mut line = String::new();
        while line.trim().is_empty() {
            line.clear();
            if io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
        }
        let _ = told.send(line);
    });
    match heard.await {
        Ok(line) => line,
        Err(_) => std::future::pending().await,
    }
}

/// As other programs do: `$BROWSER`, or what the desktop has. Whether that worked shows when it comes back.
fn open(address: &str, surroundings: &McpSurroundings) {
    let variable =
        |name: &str| surroundings.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let browser = match variable("BROWSER").filter(|browser| !browser.trim().is_empty()) {
        Some(browser) => browser.clone(),
        None if cfg!(target_os = "macos") => "open".to_owned(),
        None if variable("DISPLAY").or(variable("WAYLAND_DISPLAY")).is_some() => "xdg-open".to_owned(),
        None => return,
    };
    let mut words = browser.split_whitespace();
    let Some(program) = words.next() else { return };
    let mut command = std::process::Command::new(program);
    command.args(words).arg(address);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.spawn(); // the address is on the screen
}

/// The running gateway, as the server sees it.
struct Gateway(Client);

impl Gateway {
    async fn list(&self) -> Result<Vec<ServedConversation>, SurfaceError> {
        let list = self.0.session_list(CONVERSATIONS_MAX).await.map_err(because)?;
        let open = list.iter().filter(|session| session["end_reason"].is_null());
        Ok(open.map(conversation).collect())
    }

    /// A conversation is named by the key of its chat, or by its session.
    async fn session(&self, key: &str) -> Result<SessionId, SurfaceError> {
        let known = self.list().await?;
        let found = known.iter().find(|one| one.session_key == key || one.session_id == key);
        let id = found.map_or(key, |one| one.session_id.as_str());
        let unknown = || SurfaceError::NotFound(format!("Conversation not found: {key}"));
        let id: SessionId = id.parse().map_err(|_| unknown())?;
        match self.0.session(&id).await.map_err(because)? {
            Some(_) => Ok(id),
            None => Err(unknown()),
        }
    }

    async fn follow(&self, line: &Line, session: &mut Option<SessionId>) -> Result<String, SurfaceError> {
        let mut saying = self.0.say(line).await.map_err(because)?;
        loop {
            match saying.next().await.map_err(because)? {
                Event::Accepted { session: taken } => *session = Some(taken),
                Event::Answer { text, .. } => return Ok(text),
                Event::Done { said, .. } => return Ok(said),
                Event::Failed { message } => return Err(SurfaceError::Refused(message)),
                Event::Interrupted { message } => return Err(SurfaceError::Unavailable(message)),
                _ => {}
            }
        }
    }
}

impl Surface for Gateway {
    fn conversations(&self) -> SurfaceAnswer<'_, Vec<ServedConversation>> {
        Box::pin(self.list())
    }

    fn said<'a>(&'a self, session_key: &'a str) -> SurfaceAnswer<'a, Vec<ServedMessage>> {
        Box::pin(async move {
            let session = self.session(session_key).await?;
            let messages = self.0.messages(&session).await.map_err(because)?;
            Ok(messages.iter().filter_map(said).collect())
        })
    }

    fn search<'a>(&'a self, query: &'a str, limit: usize) -> SurfaceAnswer<'a, Vec<SearchHit>> {
        Box::pin(async move {
            let hits = self.0.search(query, limit).await.map_err(because)?;
            Ok(hits.iter().map(found).collect())
        })
    }

    fn say<'a>(
        &'a self,
        session_key: Option<&'a str>,
        text: &'a str,
        once: Option<&'a str>,
        patience: Duration,
    ) -> SurfaceAnswer<'a, SendOutcome> {
        Box::pin(async move {
            let mut session = match session_key {
                Some(key) => Some(self.session(key).await?),
                None => None,
            };
            let key = once.map_or_else(Line::unique, |once| format!("mcp-{once}"));
            // What tools ask is answered through `permissions_respond`.
            let line = Line { text: text.to_owned(), session: session.clone(), key, is_attended: true };
            let answered = timeout(patience, self.follow(&line, &mut session)).await;
            let id = session.map(|session| session.to_string()).unwrap_or_default();
            let session_key = session_key.map_or_else(|| id.clone(), str::to_owned);
            match answered {
                Ok(text) => Ok(SendOutcome::Answered { session_key, session_id: id, text: text? }),
                Err(_) if !id.is_empty() => Ok(SendOutcome::Working { session_key, session_id: id }),
                Err(_) => Err(SurfaceError::Unavailable(
                    "the gateway has not said whether it took the message; give it a name and send it again"
                        .into(),
                )),
            }
        })
    }

    fn questions(&self) -> SurfaceAnswer<'_, Vec<OpenQuestion>> {
        Box::pin(async move {
            let asks = self.0.asks().await.map_err(because)?;
            Ok(asks.iter().map(question).collect())
        })
    }

    fn decide<'a>(&'a self, question: &'a str, decision: QuestionDecision) -> SurfaceAnswer<'a, ()> {
        let body = match decision {
            QuestionDecision::AllowOnce => json!({"decision": "approve", "scope": "once"}),
            QuestionDecision::AllowAlways => json!({"decision": "approve", "scope": "always"}),
            QuestionDecision::Deny => json!({"decision": "deny"}),
        };
        Box::pin(async move { self.0.decide(question, &body).await.map_err(because) })
    }
}

fn because(error: ClientError) -> SurfaceError {
    match error {
        ClientError::Refused { code, message } if code.ends_with("not_found") => {
            SurfaceError::NotFound(message)
        }
        ClientError::Refused { message, .. } => SurfaceError::Refused(message),
        error => SurfaceError::Unavailable(error.to_string()),
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn time(value: &Value, name: &str) -> Time {
    Time::from_seconds(value[name].as_f64().unwrap_or(0.0))
}

fn conversation(session: &Value) -> ServedConversation {
    let id = text(session, "id");
    let chat = text(session, "chat");
    ServedConversation {
        session_key: if chat.is_empty() { id.clone() } else { chat },
        session_id: id,
        platform: text(session, "source"),
        display_name: session["title"].as_str().map_or_else(|| text(session, "preview"), str::to_owned),
        created_at: time(session, "started_at"),
        updated_at: time(session, "last_active"),
        input_tokens: session["input_tokens"].as_u64().unwrap_or(0),
        output_tokens: session["output_tokens"].as_u64().unwrap_or(0),
        ..ServedConversation::default()
    }
}

fn speaker(role: &str) -> Option<ServedSpeaker> {
    match role {
        "user" => Some(ServedSpeaker::User),
        "assistant" => Some(ServedSpeaker::Assistant),
        _ => None,
    }
}

fn said(message: &Value) -> Option<ServedMessage> {
    let words = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    Some(ServedMessage {
        id: message["id"].to_string(),
        speaker: speaker(message["role"].as_str()?)?,
        text: words,
        at: time(message, "timestamp"),
        attachments: Vec::new(),
    })
    .filter(|said| !said.text.is_empty())
}

fn found(hit: &Value) -> SearchHit {
    let session = text(hit, "session_id");
    SearchHit {
        session_key: session.clone(),
        session_id: session,
        message_id: hit["message_id"].to_string(),
        speaker: speaker(hit["role"].as_str().unwrap_or_default()).unwrap_or_default(),
        excerpt: text(hit, "snippet"),
        at: time(hit, "timestamp"),
        ..SearchHit::default()
    }
}

fn question(ask: &Value) -> OpenQuestion {
    let what = ask["command"].as_str().or(ask["question"].as_str()).unwrap_or_default();
    OpenQuestion {
        id: text(ask, "id"),
        session_key: text(ask, "session"),
        what: what.to_owned(),
        why: text(ask, "reason"),
        asked: time(ask, "asked_at"),
        until: time(ask, "expires_at"),
    }
}
