//! What the user wrote below `mcp_servers`, as plain data.
//!
//! The caller has read the file and put values in the place of `${VAR}`. Nothing here knows
//! YAML, and nothing here checks: an address that is none is an error of the server that has it,
//! shown in its status, and no reason for the others to stay away.

use std::path::PathBuf;
use std::time::Duration;
use throughline_core::redact::Secret;

/// How long a call may take (`timeout`).
pub const TIMEOUT: Duration = Duration::from_secs(300);
/// How long a server may take from its start to its list of tools (`connect_timeout`).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a quiet connection is asked whether it lives (`keepalive_interval`).
pub const KEEPALIVE: Duration = Duration::from_secs(180);
/// More often than this is never (a smaller number in the file means this).
pub const KEEPALIVE_MIN: Duration = Duration::from_secs(5);

/// One entry of `mcp_servers`. [`ServerSettings::new`] has Hermes' defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// The key of the entry.
    pub name: String,
    /// `enabled`: a server that is off is listed and never reached.
    pub enabled: bool,
    pub reach: ServerReach,
    /// `timeout`
    pub timeout: Duration,
    /// `connect_timeout`
    pub connect_timeout: Duration,
    /// `keepalive_interval`
    pub keepalive: Duration,
    /// `idle_timeout_seconds`, there or below `lifecycle`: a process without a call for so long
    /// ends, and begins again at the next call. None (and 0 in the file): it stays.
    pub idle_max: Option<Duration>,
    /// `max_lifetime_seconds`, likewise, with or without calls.
    pub lifetime_max: Option<Duration>,
    /// `supports_parallel_tool_calls`: without it calls of one server wait for each other.
    pub parallel: bool,
    pub choice: OfferFilter,
}

/// Where a server is. An entry with both a `url` and a `command` has Hermes' meaning: the `url`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerReach {
    /// A process of our own, spoken to through its standard input and output.
    Stdio {
        /// `command`, with `~` as it was written.
        command: String,
        args: Vec<String>,
        /// `env`: joins the few variables that every server gets.
        env: Vec<(String, Secret)>,
        /// `cwd`. None: the gateway's own.
        cwd: Option<PathBuf>,
    },
    /// `url`, as streamable HTTP.
    Http(RemoteSettings),
    /// `url` with `transport: sse` (or `type: sse`): the older pair of an event stream and a mailbox.
    Sse(RemoteSettings),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSettings {
    pub url: String,
    pub headers: Vec<(String, Secret)>,
    /// `ssl_verify`
    pub verify: VerifyTls,
    /// `client_cert` and `client_key`
    pub identity: Option<ClientCertificate>,
    /// `auth: oauth`: a person has to log in, and what that left in the home is sent along.
    pub oauth: Option<OAuthSettings>,
}

/// How to log in (`oauth`). Everything may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    /// `client_id`: a client that was registered by hand. None: one is registered at the login.
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    /// `client_name`, under which we are registered.
    pub client_name: Option<String>,
    /// `scope`, separated by spaces. None: what the server asks for.
    pub scope: Option<String>,
    /// `redirect_uri`: where the browser comes back to. None: to this machine.
    pub redirect_uri: Option<String>,
    /// `redirect_host`: what this machine is called there, instead of 127.0.0.1.
    pub redirect_host: Option<String>,
    /// `redirect_port`: at which port. None: one that is free.
    pub redirect_port: Option<u16>,
    /// `timeout`: how long a login waits for the person.
    pub patience: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyTls {
    /// `true`: against the roots of this machine.
    Roots,
    /// A path: against these roots instead.
    Bundle(PathBuf),
    /// `false`: not at all.
    Nothing,
}

/// PEM files by which the gateway names itself to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    pub cert: PathBuf,
    /// None: the key is in the file of the certificate.
    pub key: Option<PathBuf>,
}

/// What of a server's offer the agent is told of (`tools`). Names are the server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferFilter {
    /// `tools.include`: if it names any, only these.
    pub include: Vec<String>,
    /// `tools.exclude`: all but these, unless `include` names any.
    pub exclude: Vec<String>,
    /// `tools.resources`: whether resources can be listed and read.
    pub resources: bool,
    /// `tools.prompts`
    pub prompts: bool,
}

impl Default for OfferFilter {
    fn default() -> Self {
        Self { include: Vec::new(), exclude: Vec::new(), resources: true, prompts: true }
    }
}

impl OfferFilter {
    pub fn takes(&self, tool: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == tool);
        if self.include.is_empty() { !named(&self.exclude) } else { named(&self.include) }
    }
}

impl ServerSettings {
    pub fn new(name: impl Into<String>, reach: ServerReach) -> Self {
        Self {
            name: name.into(),
            enabled: true,
            reach,
            timeout: TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            keepalive: KEEPALIVE,
            idle_max: None,
            lifetime_max: None,
            parallel: false,
            choice: OfferFilter::default(),
        }
    }
}

impl RemoteSettings {
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new(), verify: VerifyTls::Roots, identity: None, oauth: None }
    }
}
