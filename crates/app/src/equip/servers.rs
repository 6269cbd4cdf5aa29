//! `mcp_servers`, as the client of the Model Context Protocol takes them.

use super::given;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_hermes::config::Given;
use throughline_hermes::config::tools::{self, Server, Transport};
use throughline_home::config::Settings;
use throughline_mcp::client::{McpSurroundings, ServerPhase, ServerStatus};
use throughline_mcp::settings::{
    ClientCertificate, OAuthSettings, OfferFilter, RemoteSettings, ServerReach, ServerSettings, VerifyTls,
};

pub fn settings(tools: &tools::Tools) -> Vec<ServerSettings> {
    tools.servers.iter().filter_map(server).collect()
}

pub fn surroundings(home: &Path, settings: &Settings) -> McpSurroundings {
    let environment = settings
        .environment
        .names()
        .filter_map(|name| Some((name.to_owned(), settings.environment.get(name)?)));
    McpSurroundings { home: home.to_owned(), environment: environment.collect(), asks: true }
}

fn server(written: &Server) -> Option<ServerSettings> {
    let reach = match &written.transport {
        Transport::Stdio { command, args, env, cwd } => ServerReach::Stdio {
            command: command.clone(),
            args: args.iter().map(|argument| argument.expose().to_owned()).collect(),
            env: env.clone(),
            cwd: cwd.as_ref().map(PathBuf::from),
        },
        Transport::Http(remote) => ServerReach::Http(address(remote)),
        Transport::Sse(remote) => ServerReach::Sse(address(remote)),
        Transport::None => return None, // said when the settings were read
    };
    let usual = ServerSettings::new(written.name.clone(), reach);
    Some(ServerSettings {
        enabled: written.enabled,
        timeout: seconds(&written.timeout).unwrap_or(usual.timeout),
        connect_timeout: seconds(&written.connect_timeout).unwrap_or(usual.connect_timeout),
        keepalive: seconds(&written.keepalive_interval).unwrap_or(usual.keepalive),
        idle_max: seconds(&written.idle_timeout_seconds).filter(|time| !time.is_zero()),
        lifetime_max: seconds(&written.max_lifetime_seconds).filter(|time| !time.is_zero()),
        parallel: given(&written.supports_parallel_tool_calls).unwrap_or(usual.parallel),
        choice: OfferFilter {
            include: written.include.clone(),
            exclude: written.exclude.clone(),
            resources: given(&written.resources).unwrap_or(true),
            prompts: given(&written.prompts).unwrap_or(true),
        },
        ..usual
    })
}

fn address(written: &tools::RemoteMcpServer) -> RemoteSettings {
    let verify = match (&written.authority, written.verify) {
        (Some(bundle), _) => VerifyTls::Bundle(PathBuf::from(bundle)),
        (None, Some(false)) => VerifyTls::Nothing,
        (None, _) => VerifyTls::Roots,
    };
    let key = written.client_key.as_ref().map(PathBuf::from);
    RemoteSettings {
        headers: written.headers.clone(),
        verify,
        identity: written
            .client_cert
            .as_ref()
            .map(|cert| ClientCertificate { cert: PathBuf::from(cert), key }),
        oauth: written.auth.as_deref().filter(|auth| *auth == "oauth").map(|_| oauth(&written.oauth)),
        ..RemoteSettings::new(written.url.expose())
    }
}

fn oauth(written: &tools::McpOAuth) -> OAuthSettings {
    OAuthSettings {
        client_id: written.client_id.clone(),
        client_secret: written.client_secret.clone(),
        client_name: written.client_name.clone(),
        scope: written.scope.clone(),
        redirect_uri: written.redirect_uri.clone(),
        redirect_host: written.redirect_host.clone(),
        redirect_port: written.redirect_port,
        patience: written.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    }
}

fn seconds(written: &Option<Given<f64>>) -> Option<Duration> {
    given(written).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// How servers are doing, as `/api/status` has it. Times are seconds since 1970.
pub fn shown(servers: &[ServerStatus]) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let one = |server: &ServerStatus| {
        json!({
            "name": server.name,
            "transport": server.transport,
            "state": state(server.phase),
            "tools": server.tools,
            "error": server.error,
            "last_error": server.last_error.as_ref().map(|(error, _)| error),
            "last_error_at": server.last_error.as_ref().map(|(_, ago)| now.saturating_sub(*ago).as_secs_f64()),
            "next_try": server.next_try.map(|left| (now + left).as_secs_f64()),
            "needs_login": server.needs_login,
            "remarks": server.remarks,
        })
    };
    servers.iter().map(one).collect()
}

fn state(phase: ServerPhase) -> &'static str {
    match phase {
        ServerPhase::Off => "off",
        ServerPhase::Connecting => "connecting",
        ServerPhase::Connected => "connected",
        ServerPhase::Resting => "resting",
        ServerPhase::Away => "away",
        ServerPhase::Stopped => "stopped",
    }
}
