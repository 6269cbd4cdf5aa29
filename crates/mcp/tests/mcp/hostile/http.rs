//! Servers over HTTP that misbehave.

use crate::common::{call, connected, free_port, skips, start, until};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use throughline_core::redact::Secret;
use throughline_mcp::settings::{RemoteSettings, ServerReach, ServerSettings};
use tokio::process::{Child, Command};

/// An HTTP server of a few lines that answers the handshake and then `call`s.
pub(super) async fn web(home: &Path, behaviour: &str) -> (Child, String) {
    let port = free_port();
    let script = home.join("web.py");
    std::fs::write(&script, WEB.replace("BEHAVIOUR", behaviour)).unwrap();
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).arg(port.to_string()).kill_on_drop(true);
    command.stderr(std::process::Stdio::null());
    let child = command.spawn().unwrap();
    until("the server's port", 20, async || {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
    })
    .await;
    (child, format!("http://127.0.0.1:{port}/mcp"))
}

const WEB: &str = r#"
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def head(self, status, kind, **more):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in more.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def answer(self, id, result):
        self.head(200, "application/json")
        self.wfile.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode())

    def do_GET(self):
        self.head(405, "text/plain")

    def do_DELETE(self):
        self.head(405, "text/plain")

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            self.answer(id, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}})
        elif method == "tools/list":
            self.answer(id, {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})
        elif method == "ping":
            self.answer(id, {})
        elif id is None:
            self.head(202, "text/plain")
        else:
            self.call(id)

BEHAVIOUR

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

#[tokio::test]
async fn a_flood_over_http_is_cut_off_too_as_json_and_as_events() {
    if skips("python3") {
        return;
    }
    for (kind, head) in [("application/json", ""), ("text/event-stream", "data: ")] {
        let home = tempfile::tempdir().unwrap();
        let behaviour = format!(
            "    def call(self, id):\n        self.head(200, '{kind}')\n        self.wfile.write(b'{head}')\n        \
             for _ in range(100):\n            self.wfile.write(b'x' * (1 << 20))"
        );
        let (_server, url) = web(home.path(), &behaviour).await;
        let mut settings = ServerSettings::new("w", ServerReach::Http(RemoteSettings::new(url)));
        settings.timeout = Duration::from_secs(20);
        let client = connected(home.path(), vec![settings]).await;
        let failed = call(&client, "mcp__w__act", json!({})).await;
        assert!(failed.starts_with(r#"{"error": "MCP call failed: "#), "{kind}: {failed}");
        if kind == "application/json" {
            assert!(failed.contains("it sent a message of more than 16 MB"), "{failed}");
        }
        client.stop().await;
    }
}

#[tokio::test]
async fn p31_an_event_stream_that_sends_us_elsewhere_is_not_followed() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let behaviour = "    def do_GET(self):\n        self.head(200, 'text/event-stream')\n        \
                     self.wfile.write(b'event: endpoint\\ndata: http://127.0.0.2:9/take\\n\\n')";
    let (_server, url) = web(home.path(), behaviour).await;
    let client =
        start(home.path(), vec![ServerSettings::new("w", ServerReach::Sse(RemoteSettings::new(url)))]);
    client.settled(Duration::from_secs(20)).await;
    assert_eq!(
        client.status()[0].error.as_deref(),
        Some("the endpoint it named (http://127.0.0.2:9/take) is not at the same place as its stream")
    );
    client.stop().await;
}

#[tokio::test]
async fn a_web_page_and_a_locked_door_are_named_as_what_they_are() {
    if skips("python3") {
        return;
    }
    for (head, expected) in [
        ("self.head(200, 'text/html')", "text/html"),
        (
            "self.head(401, 'text/plain', WWW_Authenticate='Bearer realm=x')",
            "it requires a login. Set `auth: oauth`",
        ),
        ("self.head(503, 'text/plain')", "HTTP 503"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let behaviour =
            format!("    def do_POST(self):\n        {head}\n        self.wfile.write(b'<html>')");
        let (_server, url) = web(home.path(), &behaviour).await;
        let mut remote = RemoteSettings::new(url);
        remote.headers.push(("Authorization".to_owned(), Secret::new("Bearer secret-token-1")));
        let client = start(home.path(), vec![ServerSettings::new("w", ServerReach::Http(remote))]);
        client.settled(Duration::from_secs(20)).await;
        let status = client.status();
        let error = status[0].error.clone().unwrap_or_default();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(!error.contains("secret-token"), "{error}");
        client.stop().await;
    }
}
