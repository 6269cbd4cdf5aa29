//! Logging in to a server: OAuth 2.1 with a code and PKCE, as the protocol's chapter on authorization asks.
//!
//! Who authorizes is found by what the server says when it refuses us, and by its metadata (RFC 9728, RFC 8414). A
//! client is registered there (RFC 7591), unless the user has one. A person allows it in a browser, which comes back
//! to a port of this machine, or whose last address is pasted. What was kept before is replaced only when the whole
//! login has succeeded.
//!
//! Deliberately absent: opening a browser, and talking to the person. Both are the caller's.

use crate::client::McpSurroundings;
use crate::client::http_client;
use crate::client::oauth::{self, LoginFiles};
use crate::settings::{OAuthSettings, RemoteSettings, ServerReach, ServerSettings};
use reqwest::header::{ACCEPT, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig,
};
use serde_json::json;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// How long a person may take, unless the settings say otherwise; as in Hermes.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a server may take to refuse us.
const PROBE_WAIT: Duration = Duration::from_secs(30);
/// How long a browser may take to send what it has; several may come, and one may be silent.
const HEAD_WAIT: Duration = Duration::from_secs(2);
const HEAD_LENGTH_MAX: usize = 16 * 1024;
/// What a person reads where an application asks for leave.
const NAME: &str = "Throughline";

#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// There is nothing to log in to: change the settings.
    #[error("{0}")]
    Pointless(String),
    /// The server, or who authorizes for it, did not do its part.
    #[error("{0}")]
    Refused(String),
    /// The person did not come back, or said no.
    #[error("{0}")]
    Unanswered(String),
    /// What was given cannot be kept.
    #[error("the login succeeded and cannot be kept in {}: {error}", path.display())]
    Unkept { path: PathBuf, error: io::Error },
}

/// A login that waits for a person.
pub struct PendingLogin {
    server: String,
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
    config: OAuthClientConfig,
    name: String,
    files: LoginFiles,
    listener: TcpListener,
    patience: Duration,
    /// Where the person goes, in a browser.
    pub address: String,
}

/// A login that succeeded.
#[derive(Debug)]
pub struct LoggedIn {
    /// Where its tokens are kept.
    pub path: PathBuf,
}

impl PendingLogin {
    /// Finds out who authorizes, and introduces us there. `scope` goes before what the settings say.
    pub async fn begin(
        settings: &ServerSettings,
        surroundings: &McpSurroundings,
        scope: Option<&str>,
    ) -> Result<Self, LoginError> {
        let server = &settings.name;
        let remote = match &settings.reach {
            ServerReach::Http(remote) | ServerReach::Sse(remote) => remote,
            ServerReach::Stdio { .. } => {
                return Err(LoginError::Pointless(format!(
                    "MCP server '{server}' is a program of this machine: it has no login; give it what it needs below \
                     `mcp_servers.{server}.env`"
                )));
            }
        };
        let Some(oauth) = &remote.oauth else {
            return Err(LoginError::Pointless(format!(
                "MCP server '{server}' is not one to log in to: set `auth: oauth` below `mcp_servers.{server}` first"
            )));
        };
        let url = http_client::address(server, &remote.url).map_err(LoginError::Pointless)?;
        let challenge = refusal(settings, remote, &url).await?;
        let mut manager = oauth::manager(&url, remote).await.map_err(|error| refused(server, &error))?;
        let found = manager.resolve_metadata_from_challenge(challenge.header.as_deref()).await;
        let found = found.map_err(|error| refused(server, &error))?;
        if !challenge.is_refused && !found.source.is_discovered() {
            return Err(LoginError::Pointless(format!(
                "MCP server '{server}' answers without a login, and names nobody who could give one"
            )));
        }
        let metadata = found.metadata;
        manager.set_metadata(metadata.clone());
        let listener = listen(oauth).await.map_err(LoginError::Refused)?;
        let redirect = redirect(oauth, &listener).map_err(|error| LoginError::Refused(error.to_string()))?;
        let scopes = match scope.or(oauth.scope.as_deref()) {
            Some(scope) => scope.split_whitespace().map(str::to_owned).collect(),
            None => manager.select_initial_scopes(&[]).await,
        };
        let name = oauth.client_name.clone().unwrap_or_else(|| NAME.to_owned());
        let scope_refs: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let config = match &oauth.client_id {
            Some(id) => {
                let mut config = OAuthClientConfig::new(id.clone(), redirect).with_scopes(scopes.clone());
                config.client_secret = oauth.client_secret.as_ref().map(|secret| secret.expose().to_owned());
                manager.configure_client(config.clone()).map(|()| config)
            }
            None => manager.register_client(&name, &redirect, &scope_refs).await,
        };
        let config = config.map_err(|error| refused(server, &error))?;
        let address =
            manager.get_authorization_url(&scope_refs).await.map_err(|error| refused(server, &error))?;
        Ok(Self {
            server: server.clone(),
            manager,
            metadata,
            config,
            name,
            files: LoginFiles::new(&surroundings.home, server),
            listener,
            patience: oauth.patience.unwrap_or(PATIENCE),
            address,
        })
    }

    /// Waits for the person: for a browser that comes back, or for the address that one ended at. `pasted` never
    /// resolves where no person can paste.
    pub async fn finish(
        self,
        mut pasted: impl Future<Output = String> + Unpin,
    ) -> Result<LoggedIn, LoginError> {
        let seconds = self.patience.as_secs();
        let until = tokio::time::Instant::now() + self.patience;
        let late = || {
            LoginError::Unanswered(format!("no browser came back within {seconds} s; nothing was changed"))
        };
        let mut is_pasted = false;
        let back = loop {
            let back = tokio::select! {
                back = timeout(HEAD_WAIT, self.visit()) => back.ok().flatten(),
                text = &mut pasted, if !is_pasted => {
                    is_pasted = true;
                    Some(LoginCallback { address: text.trim().to_owned(), browser: None })
                }
                () = tokio::time::sleep_until(until) => return Err(late()),
            };
            match back {
                Some(back) if back.is_answer() => break back,
                Some(back) => back.say(StatusCode::NOT_FOUND, "This is not what the login waits for.").await,
                None => {}
            }
        };
        let done = self.exchange(&back.address).await;
        match &done {
            Ok(_) => back.say(StatusCode::OK, "You are logged in. You can close this page.").await,
            Err(error) => back.say(StatusCode::BAD_REQUEST, &format!("The login failed: {error}")).await,
        }
        done
    }

    async fn visit(&self) -> Option<LoginCallback> {
        let (mut stream, _) = self.listener.accept().await.ok()?;
        let mut head = Vec::new();
        let mut buffer = [0; 2048];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
            head.extend_from_slice(&buffer[..read]);
            if head.len() > HEAD_LENGTH_MAX {
                return None;
            }
        }
        let head = String::from_utf8_lossy(&head);
        let mut words = head.lines().next()?.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let address = if method == "GET" { format!("http://127.0.0.1{target}") } else { String::new() };
        Some(LoginCallback { address, browser: Some(stream) })
    }

    async fn exchange(&self, address: &str) -> Result<LoggedIn, LoginError> {
        if let Some(error) = parameter(address, "error") {
            let why =
                parameter(address, "error_description").map(|why| format!(" ({why})")).unwrap_or_default();
            return Err(LoginError::Unanswered(shown(&format!(
                "the authorization was refused: {error}{why}"
            ))));
        }
        let server = &self.server;
        let back =
            AuthorizationCallback::from_redirect_url(address).map_err(|error| refused(server, &error))?;
        let (code, state) = (&back.code, &back.csrf_token);
        let token =
            self.manager.exchange_code_for_token_with_issuer(code, state, back.issuer.as_deref()).await;
        let token = token.map_err(|error| refused(server, &error))?;
        let (files, config, metadata) = (self.files.clone(), self.config.clone(), self.metadata.clone());
        let name = self.name.clone();
        let kept = tokio::task::spawn_blocking(move || {
            files.keep_client(&config, &name, &metadata)?;
            files.keep_metadata(&metadata)?;
            files.keep_tokens(&token, &config.scopes) // the last: with them the login is there
        });
        let path = self.files.tokens();
        match kept.await.map_err(io::Error::other).and_then(|kept| kept) {
            Ok(()) => Ok(LoggedIn { path }),
            Err(error) => Err(LoginError::Unkept { path, error }),
        }
    }
}

fn refused(server: &str, error: &AuthError) -> LoginError {
    LoginError::Refused(shown(&format!("MCP server '{server}': {error}")))
}

/// What others said, in a sentence of ours.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(600).collect()
}

struct LoginRefusal {
    is_refused: bool,
    /// `WWW-Authenticate`
    header: Option<String>,
}

/// Says hello without a login: how a server refuses that tells who authorizes.
async fn refusal(
    settings: &ServerSettings,
    remote: &RemoteSettings,
    url: &Url,
) -> Result<LoginRefusal, LoginError> {
    let client = http_client::client(settings, remote, None).map_err(LoginError::Refused)?;
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "throughline", "version": env!("CARGO_PKG_VERSION")},
    }});
    let request = match settings.reach {
        ServerReach::Sse(_) => client.get(url.clone()).header(ACCEPT, "text/event-stream"),
        _ => client.post(url.clone()).header(ACCEPT, "application/json, text/event-stream").json(&hello),
    };
    let response = request.timeout(PROBE_WAIT).send().await.map_err(|error| {
        LoginError::Refused(format!(
            "MCP server '{}' cannot be reached: {}",
            settings.name,
            error.without_url()
        ))
    })?;
    let status = response.status();
    let header = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    let header = header.map(str::to_owned);
    let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    Ok(LoginRefusal { is_refused, header: header.filter(|_| is_refused) })
}

async fn listen(oauth: &OAuthSettings) -> Result<TcpListener, String> {
    let port = oauth.redirect_port.unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    listener.map_err(|error| format!("a browser cannot come back to port {port} of this machine: {error}"))
}

fn redirect(oauth: &OAuthSettings, listener: &TcpListener) -> io::Result<String> {
    if let Some(address) = oauth.redirect_uri.as_ref().filter(|address| !address.is_empty()) {
        return Ok(address.clone());
    }
    let host = oauth.redirect_host.as_deref().filter(|host| !host.is_empty()).unwrap_or("127.0.0.1");
    Ok(format!("http://{host}:{}/callback", listener.local_addr()?.port()))
}

fn parameter(address: &str, name: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// The browser's request that ends a login.
struct LoginCallback {
    address: String,
    browser: Option<TcpStream>,
}

impl LoginCallback {
    /// Browsers ask for other things as well, such as an icon.
    fn is_answer(&self) -> bool {
        parameter(&self.address, "code").is_some() || parameter(&self.address, "error").is_some()
    }

    async fn say(self, status: StatusCode, words: &str) {
        let Some(mut browser) = self.browser else { return };
        let page = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\nx-content-type-options: nosniff\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{words}",
            words.len()
        );
        let _ = timeout(HEAD_WAIT, browser.write_all(page.as_bytes())).await;
        let _ = timeout(HEAD_WAIT, browser.shutdown()).await;
    }
}
