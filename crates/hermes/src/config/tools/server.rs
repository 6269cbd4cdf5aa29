//! `mcp_servers`: programs and addresses that offer tools.
//!
//! A server whose settings cannot be read is off, alone; the others are not its business.

use super::*;

/// One entry of `mcp_servers`.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub name: String,
    pub place: Place,
    pub enabled: bool,
    pub transport: Transport,
    /// Seconds for one call.
    pub timeout: Option<Given<f64>>,
    pub connect_timeout: Option<Given<f64>>,
    pub keepalive_interval: Option<Given<f64>>,
    pub idle_timeout_seconds: Option<Given<f64>>,
    pub max_lifetime_seconds: Option<Given<f64>>,
    /// Only these tools, if there are any; they weigh more than `exclude`.
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    /// Whether its resources and prompts are offered as tools, too.
    pub resources: Option<Given<bool>>,
    pub prompts: Option<Given<bool>>,
    pub supports_parallel_tool_calls: Option<Given<bool>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// A program that speaks on its standard streams. Arguments carry tokens as often as not.
    Stdio {
        command: String,
        args: Vec<Secret>,
        env: Vec<(String, Secret)>,
        cwd: Option<String>,
    },
    Http(RemoteMcpServer),
    Sse(RemoteMcpServer),
    /// Neither a command nor an address: there is nothing to start.
    None,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RemoteMcpServer {
    pub url: Secret,
    pub headers: Vec<(String, Secret)>,
    /// `oauth` and the like. None: the headers are enough.
    pub auth: Option<String>,
    pub oauth: McpOAuth,
    pub verify: Option<bool>,
    /// A file with the certificates to trust.
    pub authority: Option<String>,
    pub client_cert: Option<String>,
    pub client_key: Option<String>,
}

/// `oauth` of a server: how to log in to it. Everything may be left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpOAuth {
    /// A client that was registered by hand.
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub client_name: Option<String>,
    pub scope: Option<String>,
    /// Where the browser comes back to.
    pub redirect_uri: Option<String>,
    pub redirect_host: Option<String>,
    pub redirect_port: Option<u16>,
    /// Seconds to wait for the person.
    pub timeout: Option<f64>,
}

impl ToolSettingsReader<'_> {
    pub(super) fn servers(&mut self) -> Vec<Server> {
        let root = self.root;
        self.section("mcp_servers");
        let entries = root.get("mcp_servers").map(Node::entries).unwrap_or_default();
        entries.iter().filter_map(|entry| self.server(&entry.key, &entry.node, entry.place)).collect()
    }

    fn server(&mut self, name: &str, written: &Node, place: Place) -> Option<Server> {
        if !matches!(written.value, Value::Map(_)) {
            let text = format!("`mcp_servers.{name}` takes a mapping of settings; the server is off");
            self.notices.push(Notice { place, text });
            return None;
        }
        let mut node = written.clone();
        expand_env(&mut node, self.variable);
        let mut reader = ToolSettingsReader::new(&node, self.variable);
        let mut server = reader.read_server(name, place);
        let unread: Vec<Notice> = std::mem::take(&mut reader.notices);
        for Notice { place, text } in unread {
            // What merely refers to a variable that is not set can still be tried.
            let broken = !text.contains("which is not set");
            let consequence = if broken { "; the server is off until it is corrected" } else { "" };
            let text = text.replace("; what is written is not used", "");
            let text = format!("MCP server `{name}`: {text}{consequence}");
            server.enabled &= !broken;
            self.notices.push(Notice { place, text });
        }
        self.check_server(&mut server);
        Some(server)
    }

    fn check_server(&mut self, server: &mut Server) {
        let name = &server.name;
        let text = match &server.transport {
            Transport::None if server.enabled => {
                server.enabled = false;
                format!("MCP server `{name}` has neither `command` nor `url`: it is off")
            }
            _ if server.enabled && toolset::is_toolset(name) => {
                format!(
                    "MCP server `{name}` is called like a toolset; lists of toolsets mean that one, not the server"
                )
            }
            _ => return,
        };
        self.notices.push(Notice { place: server.place, text });
    }

    fn read_server(&mut self, name: &str, place: Place) -> Server {
        self.section("tools");
        self.section("lifecycle");
        self.section("oauth");
        Server {
            name: name.to_owned(),
            place,
            enabled: self.boolean("enabled", None).is_none_or(|given| given.value),
            transport: self.transport(),
            timeout: self.number("timeout", None),
            connect_timeout: self.number("connect_timeout", None),
            keepalive_interval: self.number("keepalive_interval", None),
            idle_timeout_seconds: self.lifecycle("idle_timeout_seconds"),
            max_lifetime_seconds: self.lifecycle("max_lifetime_seconds"),
            include: self.list_or_one("tools.include"),
            exclude: self.list_or_one("tools.exclude"),
            resources: self.boolean("tools.resources", None),
            prompts: self.boolean("tools.prompts", None),
            supports_parallel_tool_calls: self.boolean("supports_parallel_tool_calls", None),
        }
    }

    fn lifecycle(&mut self, key: &str) -> Option<Given<f64>> {
        self.number(key, None).or_else(|| self.number(&format!("lifecycle.{key}"), None))
    }

    /// As Hermes: an address weighs more than a command.
    fn transport(&mut self) -> Transport {
        if let Some(url) = self.text("url", None) {
            let remote = self.remote(url.value);
            let sse = self.text("transport", None).is_some_and(|name| name.value == "sse");
            return if sse { Transport::Sse(remote) } else { Transport::Http(remote) };
        }
        match self.text("command", None) {
            Some(command) => Transport::Stdio {
                command: command.value,
                args: self.list("args", None).into_iter().map(Secret::new).collect(),
                env: self.pairs("env", None),
                cwd: self.text("cwd", None).map(|cwd| cwd.value),
            },
            None => Transport::None,
        }
    }

    fn oauth(&mut self) -> McpOAuth {
        let mut text = |key: &str| self.text(&format!("oauth.{key}"), None).map(|given| given.value);
        let [client_id, client_name, scope] = ["client_id", "client_name", "scope"].map(&mut text);
        let [redirect_uri, redirect_host] = ["redirect_uri", "redirect_host"].map(&mut text);
        let client_secret = text("client_secret").map(Secret::new);
        let port = self.number("oauth.redirect_port", None).map(|given| given.value);
        McpOAuth {
            client_id,
            client_secret,
            client_name,
            scope,
            redirect_uri,
            redirect_host,
            // 0 is any, in Hermes, too.
            redirect_port: port.filter(|port| (1.0..=65535.0).contains(port)).map(|port| port as u16),
            timeout: self.number("oauth.timeout", None).map(|given| given.value),
        }
    }

    fn remote(&mut self, url: String) -> RemoteMcpServer {
        let plain = |given: Option<Given<String>>| given.map(|given| given.value);
        // `true` or `false`, or the name of a file.
        let verify = self.root.get("ssl_verify").map(|node| node.value.clone());
        let (verify, authority) = match verify {
            Some(Value::Text(path)) if read::as_boolean(&Value::Text(path.clone())).is_none() => {
                (None, Some(path))
            }
            _ => (self.boolean("ssl_verify", None).map(|given| given.value), None),
        };
        RemoteMcpServer {
            url: Secret::new(url),
            headers: self.pairs("headers", None),
            auth: plain(self.text("auth", None)).map(|auth| auth.to_lowercase()),
            oauth: self.oauth(),
            verify,
            authority,
            client_cert: plain(self.text("client_cert", None)),
            client_key: plain(self.text("client_key", None)),
        }
    }
}

/// `${env:NAME}`, as other programs write it, is `${NAME}` here, and only here.
fn expand_env(node: &mut Node, variable: ToolVariable<'_>) {
    let named = |name: &str| name.strip_prefix("env:").and_then(variable);
    match &mut node.value {
        Value::Text(text) if text.contains("${env:") => *text = expanded(text, &named),
        Value::List(items) => items.iter_mut().for_each(|item| expand_env(item, variable)),
        Value::Map(entries) => entries.iter_mut().for_each(|entry| expand_env(&mut entry.node, variable)),
        _ => {}
    }
}
