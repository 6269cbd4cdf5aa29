//! What people can order that only the program itself can do: models, personalities, skills by their names,
//! the user's own `quick_commands`, and what is written to `config.yaml` and `.env`.
//!
//! Files are read at each command: what was written a moment ago counts. A command that is done twice ends as if
//! it were done once, but for a `quick_commands` entry that runs a program: that is begun at most once for an
//! order, and an order whose outcome is unknown says so.

pub mod lists;

use crate::equip::Mcp;
use crate::equip::plugins::Plugins;
use serde_json::{Value as Json, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::command::{self, Found};
use throughline_core::input::Trace;
use throughline_core::port::{Assignment, Expansion, HostCommands, Model, Models, Promise};
use throughline_core::prompt::Digest;
use throughline_core::redact::redacted;
use throughline_core::session::{Personality, Preferences};
use throughline_core::tool::{Call, Caller, Done, Returned, Tools};
use throughline_core::{SessionId, Time};
use throughline_gateway::{Clock, GatewayTools, SystemClock};
use throughline_hermes::config::edit::{self, Scalar};
use throughline_hermes::config::{Config, Node, Value};
use throughline_home::config::{EFFORTS, Environment, Overrides};
use throughline_home::home::Home;
use throughline_mcp::client::{ServerPhase, ServerStatus};
use throughline_memory::Memory;

/// As long as Hermes waits for a program of `quick_commands`.
const EXEC_PATIENCE: Duration = Duration::from_secs(30);
/// More of what such a program says does not fit into a chat.
const OUTPUT_CHARS_MAX: usize = 3_500;
/// Where orders that run a program leave their mark.
const ORDERS: &str = "throughline/orders";

/// `/memory` as an owner typed it, and what it works on.
pub struct TypedMemory {
    pub argument: String,
    /// The surface that it was typed on.
    pub source: String,
    pub now: Time,
    pub memory: Memory,
    pub provider: Option<throughline_gateway::Memory>,
}

/// Carries out `/memory`. Its words are those of `throughline memory`, which only the binary knows.
pub trait MemoryCommands: Send + Sync {
    fn run(&self, typed: TypedMemory) -> Promise<'static, String>;
}

/// Carries out the commands of one agent's chats.
pub struct HostCommandRunner {
    home: Home,
    name: String,
    environment: Environment,
    tools: Arc<dyn Tools>,
    memory: Memory,
    memory_commands: Arc<dyn MemoryCommands>,
    /// What the process was started with.
    pub overrides: Overrides,
    /// Starts the process again. None: it cannot.
    pub restart: Option<Box<dyn Fn() + Send + Sync>>,
    /// Of the Model Context Protocol.
    pub servers: Option<Arc<Mcp>>,
    /// Programs of others, some of which know orders of their own, and who knows on whose behalf.
    pub plugins: Option<(Arc<Plugins>, Arc<GatewayTools>)>,
    /// The memory outside.
    pub provider: Option<throughline_gateway::Memory>,
}

/// The models that the home's configuration can reach.
pub struct Providers {
    pub home: Home,
    pub environment: Environment,
    pub overrides: Overrides,
    pub http: throughline_net::Client,
}

impl Models for Providers {
    fn names(&self) -> Vec<String> {
        let Ok(config) = read(&self.home, &self.environment) else { return Vec::new() };
        let text = |path: &str| config.root.get(path).and_then(text_of);
        let listed = ["model.default", "model.fallback", "auxiliary.compression.model"];
        let mut names: Vec<String> = listed.iter().filter_map(|path| text(path)).collect();
        names.dedup();
        names
    }

    fn choose(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        let overrides = Overrides { model: Some(name.to_owned()), ..self.overrides.clone() };
        let report = self.home.report(&self.environment, overrides);
        let report = report.map_err(|error| format!("The configuration cannot be read: {error:#}."))?;
        let (settings, _) =
            report.into_settings().map_err(|error| format!("{name} cannot be used: {error:#}."))?;
        crate::models::model(&settings.model, &self.environment, &self.http)
            .map_err(|error| format!("{name} cannot be used: {error:#}."))
    }
}

impl HostCommandRunner {
    pub fn new(
        home: &Home,
        name: &str,
        environment: &Environment,
        tools: Arc<dyn Tools>,
        memory: Memory,
        memory_commands: Arc<dyn MemoryCommands>,
    ) -> Self {
        let (home, environment) = (home.clone(), environment.clone());
        Self {
            home,
            name: name.to_owned(),
            environment,
            tools,
            memory,
            memory_commands,
            overrides: Overrides::default(),
            restart: None,
            servers: None,
            plugins: None,
            provider: None,
        }
    }

    fn config(&self) -> Result<Config, String> {
        read(&self.home, &self.environment)
    }

    // -------------------------------------------------------------------------------------- names

    async fn meant(&self, asked: &Assignment) -> Option<Expansion> {
        if let Some(quick) = self.quick(&asked.name) {
            return Some(match (field(&quick, "type").as_deref(), field(&quick, "target")) {
                (Some("alias"), Some(target)) => {
                    let target = target.trim_start_matches('/');
                    Expansion::Typed(format!("/{target} {}", asked.argument).trim_end().to_owned())
                }
                _ => Expansion::HostCommand,
            });
        }
        if self.plugin_orders().iter().any(|(name, _)| *name == asked.name) {
            return Some(Expansion::HostCommand);
        }
        let skills = self.skills(asked).await;
        let wanted = slug(&asked.name);
        let (name, _) = skills.into_iter().find(|(name, _)| slug(name) == wanted)?;
        let shown = self.ask(asked, "skill_view", json!({ "name": name })).await?;
        let content = shown.get("content").and_then(Json::as_str)?;
        Some(Expansion::Words(command::skill::invoked(&name, content, &asked.argument)))
    }

    fn quick(&self, name: &str) -> Option<Node> {
        self.config().ok()?.root.get("quick_commands")?.entry(name).map(|entry| entry.node.clone())
    }

    /// Names and descriptions of the skills there are.
    async fn skills(&self, asked: &Assignment) -> Vec<(String, String)> {
        let listed = self.ask(asked, "skills_list", json!({})).await;
        let listed = listed.as_ref().and_then(|listed| listed.get("skills")).and_then(Json::as_array);
        let text = |skill: &Json, name: &str| skill.get(name).and_then(Json::as_str).map(str::to_owned);
        let skills = listed.into_iter().flatten();
        skills
            .filter_map(|skill| Some((text(skill, "name")?, text(skill, "description").unwrap_or_default())))
            .collect()
    }

    /// Asks one of the agent's own tools, as this caller.
    async fn ask(&self, asked: &Assignment, tool: &str, arguments: Json) -> Option<Json> {
        let caller = caller(asked);
        let (key, name, arguments) = (asked.key.clone(), tool.to_owned(), arguments.to_string());
        match self.tools.call(&Call { key, name, arguments, caller, grant: None }).await {
            Returned::Done(Done { content, .. }) => serde_json::from_str(&content.plain()).ok(),
            Returned::Ask { .. } => None,
        }
    }

    // ------------------------------------------------------------------------------------- deferred_commands

    async fn done(&self, asked: &Assignment) -> Option<Found> {
        let argument = asked.argument.trim();
        Some(match asked.name.as_str() {
            "profile" => {
                Found::Said(format!("This is {}, at home in {}.", self.name, self.home.path().display()))
            }
            "model" => return self.global_model(argument),
            "reasoning" => return self.global_reasoning(argument),
            "personality" => self.personality(argument, &asked.preferences),
            "memory" => Found::Said(self.memory(argument, asked).await),
            "sethome" => Found::Said(self.set_home(asked)),
            "reload-skills" => {
                let found = self.skills(asked).await.len();
                Found::Said(format!(
                    "{found} skills are there. They are looked up when they are used; a new conversation also lists them."
                ))
            }
            "reload-mcp" => Found::Said(self.reload_servers().await),
            "restart" => match &self.restart {
                Some(_) => {
                    crate::restart_notice::await_it(&self.home, asked);
                    Found::Restart(
                        "The gateway starts again as soon as what runs is done. What you write meanwhile is kept."
                            .into(),
                    )
                }
                None => Found::Said("On the machine itself `throughline restart` does it.".into()),
            },
            name => match self.listed(asked).await {
                Some(said) => Found::Said(said),
                None => match self.exec(name, asked).await {
                    Some(found) => found,
                    None => Found::Said(self.ask_plugin(asked).await?),
                },
            },
        })
    }

    /// As config.yaml and .env say now. What is said of them is what they answered.
    async fn reload_servers(&self) -> String {
        let Some(servers) = &self.servers else { return "There are no MCP servers here.".into() };
        let report = match self.home.report(&self.environment, self.overrides.clone()) {
            Ok(report) => report,
            Err(error) => {
                return format!("The configuration cannot be read: {error:#}. Nothing was changed.");
            }
        };
        let (settings, _) = match report.into_settings() {
            Ok(settings) => settings,
            Err(error) => {
                return format!("The configuration cannot be used: {error:#}. Nothing was changed.");
            }
        };
        reloaded(&servers.reload(self.home.path(), &settings).await)
    }

    fn global_model(&self, argument: &str) -> Option<Found> {
        let name = argument.strip_suffix("--global")?.trim();
        let providers = Providers {
            home: self.home.clone(),
            environment: self.environment.clone(),
            overrides: self.overrides.clone(),
            http: crate::models::http(),
        };
        if let Err(why) = providers.choose(name) {
            return Some(Found::Said(format!("{why} Nothing was changed.")));
        }
        Some(Found::Said(match self.edit("model.default", Scalar::Text(name)) {
            Ok(()) => format!(
                "{name} is in config.yaml as model.default, and answers from the next start on. /model {name} chooses it here now."
            ),
            Err(why) => why,
        }))
    }

    fn global_reasoning(&self, argument: &str) -> Option<Found> {
        let level = argument.strip_suffix("--global")?.trim().to_lowercase();
        if !EFFORTS.contains(&level.as_str()) {
            let levels = EFFORTS.join(", ");
            return Some(Found::Said(format!("{level:?} is no level: {levels}. Nothing was changed.")));
        }
        Some(Found::Said(match self.edit("agent.reasoning_effort", Scalar::Text(&level)) {
            Ok(()) => format!(
                "agent.reasoning_effort is {level} in config.yaml, and counts from the next start on."
            ),
            Err(why) => why,
        }))
    }

    fn personality(&self, argument: &str, preferences: &Preferences) -> Found {
        let config = match self.config() {
            Ok(config) => config,
            Err(why) => return Found::Said(why),
        };
        let known = config.root.get("agent.personalities").map(Node::entries).unwrap_or_default();
        let names: Vec<&str> = known.iter().map(|entry| entry.key.as_str()).collect();
        let wanted = argument.to_lowercase();
        let set = |personality: Option<Personality>, said: String| Found::Preferred {
            preferences: Preferences { personality, ..preferences.clone() },
            said,
        };
        let found = known.iter().find(|entry| entry.key.to_lowercase() == wanted);
        match (wanted.as_str(), found) {
            ("", _) if names.is_empty() => Found::Said(
                "No personalities are configured; agent.personalities in config.yaml names them.".into(),
            ),
            ("", _) => {
                let now = preferences.personality.as_ref().map_or("none", |personality| &personality.name);
                Found::Said(format!("Now: {now}. There are: none, {}.", names.join(", ")))
            }
            ("none" | "default" | "neutral", _) => {
                set(None, "The agent speaks as configured, from the next message on.".into())
            }
            (_, Some(entry)) => {
                let personality = Personality { name: entry.key.clone(), prompt: manner(&entry.node) };
                let said = format!(
                    "The agent speaks as {} in this conversation, from the next message on. What the provider had \
                     cached of it is read anew once.",
                    entry.key
                );
                set(Some(personality), said)
            }
            (_, None) => Found::Said(format!(
                "There is no personality {argument:?}. There are: none, {}. Nothing was changed.",
                names.join(", ")
            )),
        }
    }

    /// What `throughline memory` does, for those whose memory it is.
    async fn memory(&self, argument: &str, asked: &Assignment) -> String {
        let caller = caller(asked);
        if !self.memory.belongs_to(&caller) || !self.memory.is_about(&caller) {
            return "This memory belongs to the owner of this agent, and only the owner is shown it, in private. \
                    Nothing was shown or changed."
                .into();
        }
        let typed = TypedMemory {
            argument: argument.to_owned(),
            source: asked.source.clone(),
            now: SystemClock::new().now(),
            memory: self.memory.clone(),
            provider: self.provider.clone(),
        };
        cut(&self.memory_commands.run(typed).await, OUTPUT_CHARS_MAX)
    }

    fn set_home(&self, asked: &Assignment) -> String {
        let Some(place) = &asked.place else {
            return "Only a chat can be a home channel: say it where replies should go.".into();
        };
        let name = home_variable(&place.platform);
        let thread = (format!("{name}_THREAD_ID"), place.thread.clone().unwrap_or_default());
        match self.write_env(&[(name.clone(), place.chat.clone()), thread]) {
            Ok(()) => format!("This chat ({}) is the home channel now: {name} in .env.", place.chat),
            Err(why) => why,
        }
    }

    async fn exec(&self, name: &str, asked: &Assignment) -> Option<Found> {
        let quick = self.quick(name)?;
        let kind = field(&quick, "type").unwrap_or_default();
        let Some(command) = field(&quick, "command").filter(|_| kind == "exec") else {
            return Some(Found::Said(format!(
                "quick_commands.{name} in config.yaml must have `type: exec` and a `command`, or `type: alias` and a `target`."
            )));
        };
        if !self.mark(&asked.key) {
            return Some(Found::Said(format!(
                "/{name} was begun before the gateway stopped, and how it ended is unknown. Order it again if it should run again."
            )));
        }
        Some(Found::Said(run(&command, self.home.path(), &self.environment).await))
    }

    fn plugin_orders(&self) -> Vec<(String, String)> {
        self.plugins.as_ref().map(|(plugins, _)| plugins.commands()).unwrap_or_default()
    }

    /// An order that a plugin knows. None: none does.
    async fn ask_plugin(&self, asked: &Assignment) -> Option<String> {
        let (plugins, gateway_tools) = self.plugins.as_ref()?;
        if !self.plugin_orders().iter().any(|(name, _)| *name == asked.name) {
            return None;
        }
        if !self.mark(&asked.key) {
            return Some(format!(
                "/{} was begun before the gateway stopped, and how it ended is unknown. Order it again if it should run again.",
                asked.name
            ));
        }
        let scope = match gateway_tools.scope_of(&caller(asked)).await {
            Ok(scope) => scope,
            Err(_) => return Some("The store cannot be read. Try again later.".into()),
        };
        Some(match plugins.command(&scope, &asked.name, &asked.argument).await? {
            Ok(text) if text.trim().is_empty() => format!("/{} is done, and had nothing to say.", asked.name),
            Ok(text) => text,
            Err(error) => format!("/{} came to nothing: {error}", asked.name),
        })
    }

    /// Leaves the mark of an order. False: it was there.
    fn mark(&self, key: &str) -> bool {
        let directory = self.home.path().join(ORDERS);
        let file = directory.join(&Digest::of(&[key.as_bytes()]).to_hex()[..32]);
        let made = fs::create_dir_all(&directory)
            .and_then(|()| fs::OpenOptions::new().write(true).create_new(true).open(file))
            .and_then(|file| file.sync_all());
        made.is_ok()
    }

    // --------------------------------------------------------------------------------------- files

    fn edit(&self, key: &str, value: Scalar<'_>) -> Result<(), String> {
        let file = self.home.path().join("config.yaml");
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("could not read {}: {error}", file.display())),
        };
        let text = edit::set(&text, key, value).map_err(|error| error.to_string())?;
        replace(&file, &text)
    }

    /// Each variable on one line of its own, where it was or at the end; everything else stays to the letter.
    fn write_env(&self, variables: &[(String, String)]) -> Result<(), String> {
        let file = self.home.path().join(".env");
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("could not read {}: {error}", file.display())),
        };
        replace(&file, &with_variables(&text, variables))
    }
}

impl HostCommands for HostCommandRunner {
    fn expand<'a>(&'a self, asked: &'a Assignment) -> Promise<'a, Option<Expansion>> {
        Box::pin(self.meant(asked))
    }

    fn carry_out<'a>(&'a self, asked: &'a Assignment) -> Promise<'a, Option<Found>> {
        Box::pin(self.done(asked))
    }

    fn names<'a>(&'a self, asked: &'a Assignment) -> Promise<'a, Vec<(String, String)>> {
        Box::pin(async move {
            let mut names = self.quick_names();
            names.extend(self.plugin_orders());
            for (name, does) in self.skills(asked).await {
                let name = slug(&name);
                // What stands for something else already is that, as it is when it is typed.
                if command::find(&name).is_none() && !names.iter().any(|(known, _)| *known == name) {
                    names.push((name, does));
                }
            }
            names
        })
    }

    fn restart(&self) {
        if let Some(restart) = &self.restart {
            restart();
        }
    }
}

/// Who asked, as tools know them.
fn caller(asked: &Assignment) -> Caller {
    let none = || "nobody".parse::<SessionId>().expect("a plain id");
    Caller {
        session: asked.session.clone().unwrap_or_else(none),
        source: asked.source.clone(),
        principal: asked.principal.clone(),
        user: asked.user.clone(),
        is_private: asked.is_private,
        reply_to: asked.place.clone(),
        trace: Trace::default(),
        task: None,
        allowed: Vec::new(),
        tokens_left: None,
        now: Time::default(),
    }
}

impl HostCommandRunner {
    fn quick_names(&self) -> Vec<(String, String)> {
        let Ok(config) = self.config() else { return Vec::new() };
        let quick = config.root.get("quick_commands").map(Node::entries).unwrap_or_default();
        let does = |node: &Node| {
            field(node, "description").or_else(|| field(node, "target")).or_else(|| field(node, "command"))
        };
        quick.iter().map(|entry| (entry.key.clone(), does(&entry.node).unwrap_or_default())).collect()
    }
}

fn reloaded(servers: &[ServerStatus]) -> String {
    if servers.is_empty() {
        return "config.yaml names no MCP servers; none is connected.".into();
    }
    let line = |server: &ServerStatus| {
        let ServerStatus { name, phase, tools, error, .. } = server;
        let because = error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        match phase {
            ServerPhase::Off => format!("{name}: off in config.yaml"),
            ServerPhase::Connected | ServerPhase::Resting => match tools.len() {
                0 => format!("{name}: connected, without tools"),
                _ => format!("{name}: {}", tools.join(", ")),
            },
            ServerPhase::Connecting => format!("{name}: not connected yet; it is tried on"),
            ServerPhase::Away | ServerPhase::Stopped => format!("{name}: not reached{because}"),
        }
    };
    let lines: Vec<String> = servers.iter().map(line).collect();
    let connected = servers.iter().filter(|server| server.phase == ServerPhase::Connected).count();
    let head = format!("{connected} of {} MCP servers are connected.", servers.len());
    let tail = "Other tools in a conversation that goes on mean that its provider reads it anew once.";
    cut(&format!("{head}\n{}\n{tail}", lines.join("\n")), OUTPUT_CHARS_MAX)
}

fn read(home: &Home, environment: &Environment) -> Result<Config, String> {
    let file = home.path().join("config.yaml");
    let text = fs::read_to_string(&file).unwrap_or_default();
    Config::parse(&text, &|name| environment.get(name))
        .map_err(|error| format!("{} cannot be read: {}.", file.display(), error.message))
}

fn text_of(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn field(node: &Node, name: &str) -> Option<String> {
    node.get(name).and_then(text_of).filter(|text| !text.trim().is_empty())
}

/// What a personality says: a text, or a text with a tone and a style.
fn manner(node: &Node) -> String {
    if let Some(text) = text_of(node) {
        return text;
    }
    let parts = [("system_prompt", ""), ("tone", "Tone: "), ("style", "Style: ")];
    let parts = parts.iter().filter_map(|(name, label)| Some(format!("{label}{}", field(node, name)?)));
    parts.collect::<Vec<_>>().join("\n")
}

/// How a skill's name is typed: in small letters, with hyphens.
fn slug(name: &str) -> String {
    let plain = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    plain.replace([' ', '_'], "-")
}

/// The variable that names a platform's home channel, as Hermes calls it.
fn home_variable(platform: &str) -> String {
    match platform {
        "matrix" => "MATRIX_HOME_ROOM".into(),
        "email" => "EMAIL_HOME_ADDRESS".into(),
        platform => format!("{}_HOME_CHANNEL", platform.to_uppercase()),
    }
}

fn with_variables(text: &str, variables: &[(String, String)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (name, value) in variables {
        let own = |line: &String| {
            let line = line.trim_start();
            line.strip_prefix("export ").unwrap_or(line).split('=').next().map(str::trim) == Some(name)
        };
        let line = format!("{name}={value}");
        match lines.iter().position(own) {
            Some(place) => lines[place] = line,
            None if value.is_empty() => {}
            None => lines.push(line),
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The whole file or nothing of it, with the rights that it had; secrets may be in it.
pub fn replace(file: &Path, text: &str) -> Result<(), String> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let written = tempfile::NamedTempFile::new_in(directory).and_then(|mut new| {
        new.write_all(text.as_bytes())?;
        if let Ok(before) = fs::metadata(file) {
            new.as_file().set_permissions(before.permissions())?;
        }
        new.as_file().sync_all()?;
        new.persist(file).map_err(|error| error.error)?;
        throughline_home::home::sync_directory(directory)
    });
    written.map_err(|error| format!("could not write {}: {error}", file.display()))
}

/// Runs a command of the user's own, without the keys that the gateway was started with.
async fn run(command: &str, home: &Path, environment: &Environment) -> String {
    let mut shell = tokio::process::Command::new("sh");
    shell.arg("-c").arg(command).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    for name in ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TERM", "TMPDIR"] {
        shell.envs(environment.get(name).map(|value| (name, value)));
    }
    shell.env("HERMES_HOME", PathBuf::from(home));
    match tokio::time::timeout(EXEC_PATIENCE, shell.output()).await {
        Err(_) => format!("It ran longer than {} seconds and was ended.", EXEC_PATIENCE.as_secs()),
        Ok(Err(error)) => format!("It could not be run: {error}."),
        Ok(Ok(output)) => {
            let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
            match redacted(String::from_utf8_lossy(said).trim()).as_str() {
                "" => format!("It said nothing ({}).", output.status),
                said => cut(said, OUTPUT_CHARS_MAX),
            }
        }
    }
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_written_where_it_was() {
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        for (text, variables, expected) in [
            ("", vec![set("A", "1")], "A=1\n"),
            ("# note\nA=0\nB=2\n", vec![set("A", "1")], "# note\nA=1\nB=2\n"),
            ("export A = 0", vec![set("A", "1"), set("C", "")], "A=1\n"),
            ("AB=0\n", vec![set("A", "")], "AB=0\n"),
            ("A=7\n", vec![set("A", "")], "A=\n"),
        ] {
            assert_eq!(with_variables(text, &variables), expected, "{text:?}");
        }
    }

    #[test]
    fn names_are_typed_as_hermes_types_them() {
        assert_eq!(slug("writing/Plan_A trip"), "plan-a-trip");
        assert_eq!(home_variable("telegram"), "TELEGRAM_HOME_CHANNEL");
        assert_eq!(home_variable("matrix"), "MATRIX_HOME_ROOM");
    }
}
