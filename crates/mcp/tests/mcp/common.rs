//! What the tests of the client have in common: a home, a client on it, and programs to talk to.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::id::SessionId;
use throughline_core::message::Content;
use throughline_core::redact::Secret;
use throughline_core::tool::{Call, Caller, Kit, Returned};
use throughline_mcp::client::{McpClient, McpSurroundings, ServerPhase};
use throughline_mcp::settings::{ServerReach, ServerSettings};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// Whether programs of other people are to be left out (`THROUGHLINE_PEERS=skip`). In every other
/// case one that is not there is a failure.
pub fn skips(peer: &str) -> bool {
    let skips = std::env::var("THROUGHLINE_PEERS").is_ok_and(|value| value == "skip");
    if skips {
        println!("skipped: {peer} (THROUGHLINE_PEERS=skip)");
    }
    skips
}

/// A package of the Node environment that `tests/peers/install mcp` makes; None if peers are skipped.
pub fn package(name: &str) -> Option<PathBuf> {
    if skips(name) {
        return None;
    }
    let environment = root().join(".cache/peers/mcp");
    assert!(
        environment.join(".complete").exists(),
        "{name} is not installed: run `tests/peers/install mcp` (THROUGHLINE_PEERS=skip leaves these tests out)"
    );
    Some(environment.join("node_modules").join(name))
}

pub fn environment() -> Vec<(String, String)> {
    std::env::vars().collect()
}

pub fn stdio(name: &str, command: &str, args: &[&str]) -> ServerSettings {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    ServerSettings::new(
        name,
        ServerReach::Stdio { command: command.to_owned(), args, env: Vec::new(), cwd: None },
    )
}

/// A server of a few lines of Python. `behaviour` may define `call(id, name, arguments)`, `tools()`
/// and `begin()`; it has `send`, `reply`, `text`, `message` (what is
/// being answered), `capabilities`, `os`, `sys`, `time` and `json`.
pub fn python(home: &Path, name: &str, behaviour: &str) -> ServerSettings {
    let path = home.join(format!("{name}.py"));
    std::fs::write(&path, format!("{PRELUDE}\n{behaviour}\n{LOOP}")).expect("a script can be written");
    let mut settings = stdio(name, "python3", &["-B", &path.display().to_string()]);
    settings.timeout = Duration::from_secs(20);
    settings
}

const PRELUDE: &str = r#"
import json, os, sys, time

def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()

def reply(id, result):
    send({"jsonrpc": "2.0", "id": id, "result": result})

def text(id, text):
    reply(id, {"content": [{"type": "text", "text": text}]})

capabilities = {"tools": {"listChanged": True}}

def begin():
    pass

def tools():
    return [{"name": "act", "inputSchema": {"type": "object"}}]

def call(id, name, arguments):
    text(id, "done")
"#;

const LOOP: &str = r#"
begin()
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if "LOG" in os.environ:
        open(os.environ["LOG"], "a").write(line)
    if method == "initialize":
        reply(id, {"protocolVersion": "2025-06-18", "capabilities": capabilities,
                   "serverInfo": {"name": "test", "version": "1"}})
    elif method == "tools/list":
        reply(id, {"tools": tools()})
    elif method in ("ping", "logging/setLevel"):
        reply(id, {})
    elif method == "tools/call":
        call(id, message["params"]["name"], message["params"].get("arguments") or {})
"#;

pub fn with_env(mut settings: ServerSettings, name: &str, value: &str) -> ServerSettings {
    if let ServerReach::Stdio { env, .. } = &mut settings.reach {
        env.push((name.to_owned(), Secret::new(value)));
    }
    settings
}

pub fn start(home: &Path, servers: Vec<ServerSettings>) -> Arc<McpClient> {
    McpClient::start(
        servers,
        McpSurroundings { home: home.to_owned(), environment: environment(), asks: true },
    )
}

/// Started, and every server reached.
pub async fn connected(home: &Path, servers: Vec<ServerSettings>) -> Arc<McpClient> {
    let client = start(home, servers);
    client.settled(Duration::from_secs(60)).await;
    for server in client.status() {
        assert_eq!(server.phase, ServerPhase::Connected, "{server:?}");
    }
    // What it offers is remembered beside its first use, in a file that gets its name when it is complete.
    let is_whole = |file: &std::fs::DirEntry| file.path().extension().is_some_and(|end| end == "json");
    let files = || std::fs::read_dir(home.join("throughline/mcp")).into_iter().flatten();
    let remembered = || files().filter_map(Result::ok).filter(is_whole).count();
    until("what each server offers is remembered", 60, async || remembered() >= client.status().len()).await;
    client
}

pub fn a_call(name: &str, arguments: Value) -> Call {
    Call {
        key: "s/1/1/0".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
        caller: Caller::in_private(
            "20260101_000000_abcdef01".parse::<SessionId>().expect("it is an id"),
            "cli",
        ),
        grant: None,
    }
}

pub async fn call(client: &McpClient, name: &str, arguments: Value) -> String {
    match client.call(&a_call(name, arguments)).await {
        Returned::Done(done) => match done.content {
            Content::Text(text) => text,
            other => panic!("{other:?} is no text"),
        },
        other => panic!("{other:?} is no result"),
    }
}

pub fn names(client: &McpClient) -> Vec<String> {
    client.specs().into_iter().map(|spec| spec.name).collect()
}

/// One without a listener, below the range from which the kernel gives out ports.
pub fn free_port() -> u16 {
    let first = std::process::id().wrapping_mul(61) % 20_000;
    let mut ports = (first..20_000).chain(0..first).map(|nth| u16::try_from(12_000 + nth).unwrap());
    ports.find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("some port is free")
}

/// Waits until something holds, and fails if it does not within `seconds`.
pub async fn until(what: &str, seconds: u64, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..seconds * 10 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what} did not happen within {seconds} s");
}

pub fn is_alive(pid: &str) -> bool {
    // A zombie is dead, and only waits for its parent to look.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}
