//! Logging in to a server, staying logged in, and what is said when that ends: with a server and an authorization
//! server of a few lines of Python.

use crate::common::{call, skips, start, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use throughline_mcp::client::{McpSurroundings, ServerPhase};
use throughline_mcp::login::{LoginError, PendingLogin};
use throughline_mcp::settings::{OAuthSettings, RemoteSettings, ServerReach, ServerSettings};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A server that needs a token, and the one who gives tokens. `/test/<word>` changes what it does: `revoke` ends all
/// access tokens, `forget` all that renew them.
const SERVER: &str = r#"
import base64, hashlib, json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

codes, access, refresh, log, count = {}, set(), set(), [], [0]
lifetime = int(sys.argv[1])

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def say(self, status, value=None, **headers):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def base(self):
        return "http://127.0.0.1:%d" % self.server.server_address[1]
    def tokens(self):
        count[0] += 1
        access.add("access-%d" % count[0])
        refresh.add("refresh-%d" % count[0])
        return {"access_token": "access-%d" % count[0], "token_type": "Bearer", "expires_in": lifetime,
                "refresh_token": "refresh-%d" % count[0], "scope": "read"}
    def do_GET(self):
        url = urlparse(self.path)
        if url.path == "/.well-known/oauth-protected-resource/mcp":
            return self.say(200, {"resource": self.base() + "/mcp", "authorization_servers": [self.base()]})
        if url.path == "/.well-known/oauth-authorization-server":
            return self.say(200, {"issuer": self.base(), "authorization_endpoint": self.base() + "/authorize",
                "token_endpoint": self.base() + "/token", "registration_endpoint": self.base() + "/register",
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"]})
        if url.path == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(url.query).items()}
            log.append(["authorize", asked])
            codes["code"] = asked
            return self.say(302, Location="%s?code=code&state=%s" % (asked["redirect_uri"], asked["state"]))
        if url.path == "/test/log":
            return self.say(200, log)
        if url.path == "/test/revoke":
            access.clear()
            return self.say(200)
        if url.path == "/test/forget":
            access.clear()
            refresh.clear()
            return self.say(200)
        self.say(405 if url.path == "/mcp" else 404)
    def do_DELETE(self):
        self.say(200)
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if self.path == "/register":
            log.append(["register", json.loads(body)])
            return self.say(201, dict(json.loads(body), client_id="client-1"))
        if self.path == "/token":
            form = {name: values[0] for name, values in parse_qs(body).items()}
            log.append(["token", form])
            if form["grant_type"] == "authorization_code":
                asked = codes.pop(form["code"])
                made = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
                good = made.decode().rstrip("=") == asked["code_challenge"]
            else:
                good = form["refresh_token"] in refresh
                refresh.discard(form["refresh_token"])
            return self.say(200, self.tokens()) if good else self.say(400, {"error": "invalid_grant"})
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in access:
            where = self.base() + "/.well-known/oauth-protected-resource/mcp"
            challenge = 'Bearer resource_metadata="%s", scope="read"' % where
            return self.say(401, {"error": "invalid_token"}, WWW_Authenticate=challenge)
        message = json.loads(body)
        method, id = message.get("method"), message.get("id")
        if id is None:
            return self.say(202)
        result = {}
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "test", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            log.append(["call", message["params"]["name"]])
            result = {"content": [{"type": "text", "text": "done"}]}
            if (message["params"].get("arguments") or {}).get("leak"):
                result = {"isError": True, "content": [{"type": "text", "text": "no: " + self.headers["Authorization"].split()[1]}]}
        self.say(200, {"jsonrpc": "2.0", "id": id, "result": result})

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

struct Served {
    _child: Child,
    base: String,
    browser: reqwest::Client,
}

impl Served {
    /// `lifetime`: how many seconds a token is good.
    async fn start(lifetime: u32) -> Self {
        let mut command = Command::new("python3");
        command.args(["-B", "-c", SERVER, &lifetime.to_string()]).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next_line().await.unwrap().expect("the server says its port");
        throughline_net::install_tls(); // for the client of this test
        let browser = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { _child: child, base: format!("http://127.0.0.1:{port}"), browser }
    }

    fn settings(&self) -> ServerSettings {
        let remote = RemoteSettings {
            oauth: Some(OAuthSettings::default()),
            ..RemoteSettings::new(format!("{}/mcp", self.base))
        };
        ServerSettings::new("far", ServerReach::Http(remote))
    }

    async fn asked(&self, path: &str) -> Value {
        let answer = self.browser.get(format!("{}{path}", self.base)).send().await.unwrap();
        answer.json().await.unwrap_or_default()
    }

    async fn count(&self, what: &str) -> usize {
        let log = self.asked("/test/log").await;
        log.as_array().unwrap().iter().filter(|entry| entry[0] == what).count()
    }

    /// What a person does, in a browser.
    async fn logs_in(&self, home: &Path) -> std::path::PathBuf {
        let surroundings = McpSurroundings { home: home.to_owned(), environment: Vec::new(), asks: true };
        let login = PendingLogin::begin(&self.settings(), &surroundings, None).await.unwrap();
        let (address, browser) = (login.address.clone(), self.browser.clone());
        let allowed = tokio::spawn(async move { browser.get(address).send().await.unwrap().status() });
        let logged_in = login.finish(Box::pin(std::future::pending())).await.unwrap();
        assert!(allowed.await.unwrap().is_success());
        logged_in.path
    }
}

fn act() -> Value {
    json!({})
}

#[tokio::test]
async fn a_person_logs_in_and_the_agent_stays_logged_in() {
    if skips("python3") {
        return;
    }
    let server = Served::start(3600).await;
    let home = tempfile::tempdir().unwrap();
    let client = start(home.path(), vec![server.settings()]);
    client.settled(Duration::from_secs(60)).await;
    let before = client.status().remove(0);
    assert!(before.needs_login && before.phase == ServerPhase::Away, "{before:?}");
    assert!(before.error.unwrap().contains("Run `throughline mcp login far`"));
    client.stop().await;

    let path = server.logs_in(home.path()).await;
    assert_eq!(path, home.path().join("mcp-tokens/far.json"));
    let log = server.asked("/test/log").await;
    let asked = &log.as_array().unwrap().iter().find(|entry| entry[0] == "authorize").unwrap()[1];
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["resource"], format!("{}/mcp", server.base));
    assert_eq!(asked["scope"], "read");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        for file in ["far.json", "far.client.json", "far.meta.json"] {
            let mode =
                std::fs::metadata(home.path().join("mcp-tokens").join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }

    let client = crate::common::connected(home.path(), vec![server.settings()]).await;
    assert_eq!(call(&client, "mcp__far__act", act()).await, r#"{"result": "done"}"#);
    // The server ends the token: it is renewed, and the call made once.
    server.asked("/test/revoke").await;
    assert_eq!(call(&client, "mcp__far__act", act()).await, r#"{"result": "done"}"#);
    assert_eq!((server.count("token").await, server.count("call").await), (2, 2));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((&kept["access_token"], &kept["refresh_token"]), (&json!("access-2"), &json!("refresh-2")));
    // What it says of the token does not reach the model.
    let leaked = call(&client, "mcp__far__act", json!({"leak": true})).await;
    assert_eq!(leaked, r#"{"error": "no: [REDACTED]"}"#);
    // It cannot be renewed any more: a person is asked for, and what was kept stays.
    server.asked("/test/forget").await;
    let refused: Value = serde_json::from_str(&call(&client, "mcp__far__act", act()).await).unwrap();
    assert_eq!((&refused["needs_reauth"], &refused["server"]), (&json!(true), &json!("far")));
    assert!(refused["error"].as_str().unwrap().contains("`throughline mcp login far`"), "{refused}");
    assert_eq!(server.count("call").await, 3);
    until("that a login is needed is in the status", 20, async || client.status()[0].needs_login).await;
    assert!(path.exists());
    client.stop().await;
    // Logged in again, it is there again.
    server.logs_in(home.path()).await;
    let client = crate::common::connected(home.path(), vec![server.settings()]).await;
    assert!(!client.status()[0].needs_login);
    client.stop().await;
}

#[tokio::test]
async fn a_token_that_is_about_to_end_is_renewed_before_it_is_used() {
    if skips("python3") {
        return;
    }
    let server = Served::start(5).await; // each is about to end when it is given
    let home = tempfile::tempdir().unwrap();
    server.logs_in(home.path()).await;
    let client = crate::common::connected(home.path(), vec![server.settings()]).await;
    assert_eq!(call(&client, "mcp__far__act", act()).await, r#"{"result": "done"}"#);
    let log = server.asked("/test/log").await;
    let renewals: Vec<&Value> = log.as_array().unwrap().iter().filter(|entry| entry[0] == "token").collect();
    assert!(renewals.len() >= 3, "{log}");
    assert_eq!(renewals[1][1]["grant_type"], "refresh_token");
    assert_eq!(renewals[1][1]["resource"], format!("{}/mcp", server.base));
    client.stop().await;
}

#[tokio::test]
async fn a_login_that_fails_changes_nothing_and_says_why() {
    if skips("python3") {
        return;
    }
    let server = Served::start(3600).await;
    let home = tempfile::tempdir().unwrap();
    let path = server.logs_in(home.path()).await;
    let before = std::fs::read_to_string(&path).unwrap();
    let surroundings = McpSurroundings { home: home.path().to_owned(), environment: Vec::new(), asks: true };
    for (answer, expected) in [
        (
            "error=access_denied&error_description=no%20thanks",
            "the authorization was refused: access_denied (no thanks)",
        ),
        ("code=code&state=forged", "Authorization state not found"),
    ] {
        let login = PendingLogin::begin(&server.settings(), &surroundings, None).await.unwrap();
        let pasted = format!("http://127.0.0.1:1/callback?{answer}");
        let error = login.finish(Box::pin(std::future::ready(pasted))).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    }
    let mut slow = server.settings();
    if let ServerReach::Http(remote) = &mut slow.reach {
        remote.oauth =
            Some(OAuthSettings { patience: Some(Duration::from_millis(50)), ..OAuthSettings::default() });
    }
    let login = PendingLogin::begin(&slow, &surroundings, None).await.unwrap();
    let error = login.finish(Box::pin(std::future::pending())).await.unwrap_err();
    assert!(matches!(error, LoginError::Unanswered(_)), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);

    let program = crate::common::stdio("here", "true", &[]);
    let error = PendingLogin::begin(&program, &surroundings, None).await.err().unwrap();
    assert!(matches!(error, LoginError::Pointless(_)), "{error}");
}
