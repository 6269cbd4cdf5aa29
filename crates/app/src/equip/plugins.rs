//! Programs of others that work for an agent: those of our own table, and Hermes' Python with all that was written
//! for it.
//!
//! - each runs in a process and a directory of its own, once for each agent
//! - what is built in here wins over what Hermes has; `hermes:NAME` asks for Hermes' all the same
//! - what cannot be had is off, and says why; nothing else takes its place without a word
//! - nothing of Python runs in a home that needs nothing of it; where only tools of Hermes are needed, what they are
//!   is remembered, and a process is started by the first call

mod bundle;
mod python;

use anyhow::{anyhow, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::compression::boundary;
use throughline_core::compression::engine::is_full;
use throughline_core::memory::{Provider, Scope};
use throughline_core::port::{Engine, Summariser};
use throughline_core::redact::redacted;
use throughline_core::tool::{Caller, Kit};
use throughline_gateway::GatewayTools;
use throughline_hermes::config::Tools;
use throughline_hermes::config::plugins::Plugin;
use throughline_hermes::file_policy::{USER_SECRET_DIRECTORIES, USER_SECRET_FILES};
use throughline_hermes::toolset::is_toolset;
use throughline_home::config::Settings;
use throughline_home::home::{Home, profiles, usual};
use throughline_plugins::hooks::{ScopeOfSession, happens};
use throughline_plugins::protocol::{CommandRun, Initialized, ModelSaid};
use throughline_plugins::tools::{Guard, Judge, ScopeOf, toolset_of};
use throughline_plugins::{
    AnswerModel, CallError, Deadlines, Host, LOG_FILE, PluginEngine, PluginHooks, PluginKit, PluginProvider,
    PluginSettings, PluginState, PluginStatus, orphaned_processes, scope, settings,
};
use tokio::sync::Semaphore;

/// Where plugins are at home, below the agent's home.
pub const DIRECTORY: &str = "throughline.plugins";

/// The process that runs Hermes' Python.
pub const HERMES: &str = "hermes";

/// Asks for what Hermes has, though something of that name is built in here.
const OF_HERMES: &str = "hermes:";

/// Hermes' names for the engine that is built in here.
const BUILT_IN: [&str; 3] = ["", "compressor", "default"];

/// Whose plugins they are.
pub struct PluginPlace<'a> {
    pub home: &'a Home,
    pub agent: &'a str,
    /// The homes of all agents of this process.
    pub homes: &'a [PathBuf],
}

impl PluginPlace<'_> {
    /// Homes that are none of its business: of the other agents here, of the profiles beside it, and where homes usually
    /// are.
    fn foreign(&self, settings: &Settings) -> Vec<PathBuf> {
        if !settings.landlock.value {
            return Vec::new();
        }
        let profiles = profiles(self.home).unwrap_or_default().into_iter().map(|(_, home)| home);
        let usual = usual(&|name| settings.environment.get(name));
        let beside = profiles.chain(usual).map(|home| home.path().to_owned());
        self.homes.iter().cloned().chain(beside).filter(|home| home.is_dir()).collect()
    }
}

/// What Hermes' installer puts into a root beside the homes: programs, and nothing of any agent.
const INSTALLED: [&str; 3] = ["hermes-agent", "node", "bin"];

/// All plugins of one agent.
#[derive(Default)]
pub struct Plugins {
    hosts: Vec<Host>,
    /// What was asked of Hermes, also where its outcome is not known yet.
    toolsets: Vec<String>,
    engine: Option<Host>,
    provider: Option<Host>,
}

impl Plugins {
    /// Starts what the settings ask for, side by side. What does not start is off, and named.
    pub async fn start(
        place: &PluginPlace<'_>,
        settings: &Settings,
        writer: Option<Arc<dyn Summariser>>,
        off: &mut Vec<String>,
    ) -> Self {
        let home = place.home;
        let directory = home.path().join(DIRECTORY);
        let left = tokio::task::spawn_blocking(move || orphaned_processes::end_all(&directory)).await;
        for (plugin, process) in left.unwrap_or_default() {
            tracing::warn!(plugin, process, "a plugin of an earlier gateway was still there; it is ended");
        }
        let wanted = WantedPlugins::of(home, settings, off);
        let model = writer.map(answers);
        let own = settings.plugins.list.iter().filter(|plugin| plugin.enabled);
        let mut hosts: Vec<Host> =
            own.map(|plugin| Host::new(plugin_settings(plugin, place, settings), model.clone())).collect();
        let mut resting = None;
        if let Some(asked) = wanted.of_hermes() {
            let host = python::host(place, settings, asked);
            let host = host.map(|host| PluginSettings { guards: wanted.may_guard(home), ..host });
            match host {
                Ok(settings) if wanted.is_tools_only() => {
                    let mark = python::mark(&settings);
                    resting = Some((Host::new(settings, model), mark));
                }
                Ok(settings) => hosts.push(Host::new(settings, model)),
                Err(why) => off.extend(wanted.lost(&why)),
            }
        }
        for host in &hosts {
            writes_down(host, home, String::new());
        }
        let starting = hosts.iter().map(|host| host.start());
        let started = futures_util::future::join_all(starting).await;
        for (host, started) in hosts.iter().zip(started) {
            let directory = home.path().join(DIRECTORY).join(host.name());
            match started {
                Ok(abilities) => off.extend(unused(host.name(), &abilities)),
                Err(error) => {
                    let known = kept(&directory).map(|(_, abilities)| host.remembered_as(abilities));
                    // A plugin that is remembered is in its place already.
                    let places = [&wanted.engine, &wanted.provider]
                        .map(|name| name.clone().filter(|_| known.is_none()));
                    tried_again(host.clone(), places);
                    let consequence = match known {
                        Some(()) => "What it is to keep waits for it, and what is asked of it fails",
                        None => "What it brings is missing",
                    };
                    off.push(format!(
                        "plugin {}: {error} {consequence} until it can be started; see {}.",
                        host.name(),
                        directory.join(LOG_FILE).display()
                    ));
                }
            }
        }
        if let Some((host, mark)) = resting {
            writes_down(&host, home, mark.clone());
            match kept(&home.path().join(DIRECTORY).join(host.name())) {
                Some((known, abilities)) if known == mark => {
                    off.extend(unused(host.name(), &abilities));
                    host.settled_as(abilities);
                }
                _ => learn(host.clone()),
            }
            hosts.push(host);
        }
        let by = |name: &Option<String>, is: fn(&Initialized) -> Option<&str>| {
            let name = name.as_deref()?;
            let meant = |host: &&Host| {
                host.abilities().is_some_and(|abilities| {
                    is(&abilities).is_some_and(|known| [known, host.name()].contains(&name))
                })
            };
            hosts.iter().find(meant).cloned()
        };
        let engine = by(&wanted.engine, |abilities| Some(&abilities.engine.as_ref()?.name));
        let provider = by(&wanted.provider, |abilities| Some(&abilities.provider.as_ref()?.name));
        if let (Some(name), None) = (&wanted.engine, &engine) {
            off.push(format!(
                "context engine {name}: no plugin of that name runs; the built-in engine compresses instead. Name one \
                 under `throughline.plugins`, or empty `context.engine`."
            ));
        }
        Self { hosts, toolsets: wanted.toolsets, engine, provider }
    }

    /// The plugin with this engine and nothing beside it, even if the settings ask for more.
    pub async fn with_engine(
        place: &PluginPlace<'_>,
        settings: &Settings,
        engine: &str,
        writer: Arc<dyn Summariser>,
    ) -> anyhow::Result<Host> {
        let own = settings.plugins.list.iter().find(|plugin| plugin.name == engine);
        let settings = match own {
            Some(plugin) => plugin_settings(plugin, place, settings),
            None => {
                let name = engine.strip_prefix(OF_HERMES).unwrap_or(engine);
                let asked = json!({"engine": name, "tools": [], "hooks": false, "plugins": []});
                python::host(place, settings, asked).map_err(|why| {
                    anyhow!(
                        "context engine {engine}: no plugin of that name is listed under `throughline.plugins`, and \
                         it cannot be asked of Hermes: {why}"
                    )
                })?
            }
        };
        let host = Host::new(settings, Some(answers(writer)));
        match host.start().await {
            Ok(abilities) if abilities.engine.is_some() => Ok(host),
            Ok(_) => {
                host.stop().await;
                bail!("context engine {engine}: the plugin {} runs and brings no engine", host.name())
            }
            Err(error) => bail!("context engine {engine}: {error}"),
        }
    }

    /// How the plugin of that name is started in a `copy` of its home, and which engine and provider it is counted on
    /// for. None: there is no plugin of that name.
    pub fn checked(
        home: &Home,
        copy: &Home,
        settings: &mut Settings,
        name: &str,
    ) -> anyhow::Result<Option<(PluginSettings, [Option<String>; 2])>> {
        let wanted = WantedPlugins::of(home, settings, &mut Vec::new());
        let homes = [home.path().to_owned()];
        let place = PluginPlace { home: copy, agent: name, homes: &homes };
        if let Some(plugin) = settings.plugins.list.iter().find(|plugin| plugin.name == name) {
            let meant = |wanted: &Option<String>| wanted.clone().filter(|wanted| wanted == name);
            let counted_on = [meant(&wanted.engine), meant(&wanted.provider)];
            return Ok(Some((plugin_settings(plugin, &place, settings), counted_on)));
        }
        let Some(asked) = wanted.of_hermes().filter(|_| name == HERMES) else { return Ok(None) };
        // It lies beside the home, not beside the copy.
        let python =
            python::interpreter(home.path(), settings).map_err(|why| anyhow!("plugin {name}: {why}"))?;
        settings.plugins.hermes.python = Some(python.display().to_string());
        let host = python::host(&place, settings, asked).map_err(|why| anyhow!("plugin {name}: {why}"))?;
        Ok(Some((host, [None, None]))) // it fails by itself if what it is asked for is not there
    }

    /// Whether the settings ask for anything of Hermes' Python.
    pub fn need_python(home: &Home, settings: &Settings) -> bool {
        WantedPlugins::of(home, settings, &mut Vec::new()).of_hermes().is_some()
    }

    /// The engine that the user chose, if it is not the built-in one.
    pub fn engine(&self, shares: &boundary::Settings) -> Option<Arc<dyn Engine>> {
        let (window, shares) = (shares.window, shares.clone());
        let threshold = Arc::new(move |usage: &_| is_full(&shares, usage));
        PluginEngine::new(self.engine.clone()?, window, threshold)
            .map(|engine| Arc::new(engine) as Arc<dyn Engine>)
    }

    pub fn provider(&self) -> Option<Arc<dyn Provider>> {
        PluginProvider::new(self.provider.clone()?).map(|provider| Arc::new(provider) as Arc<dyn Provider>)
    }

    /// The tools that they bring along, beside those of engine and provider. `gateway_tools` knows on whose behalf.
    /// `judge` decides what people are asked; `guarded`: who else decides about tools, in a few words.
    pub fn kits(
        &self,
        gateway_tools: &Arc<GatewayTools>,
        judge: Option<Judge>,
        guarded: Option<String>,
    ) -> Vec<Arc<dyn Kit>> {
        let kit = |host: &Host| {
            let others: Vec<Host> =
                self.hosts.iter().filter(|other| other.name() != host.name()).cloned().collect();
            let guarded = guarded.clone();
            // A plugin's own guards are in its own process, and hear of what is called there.
            let guard: Guard = Arc::new(move || {
                let guard = others.iter().find(|other| other.is_guard());
                guarded.clone().or_else(|| guard.map(|guard| format!("the plugin {}", guard.name())))
            });
            let kit = PluginKit::new(host.clone(), scope_of(gateway_tools))
                .judged_by(judge.clone())
                .guarded_by(guard);
            Arc::new(kit) as Arc<dyn Kit>
        };
        self.hosts.iter().map(kit).collect()
    }

    pub fn hooks(&self, gateway_tools: &Arc<GatewayTools>) -> impl Iterator<Item = Arc<PluginHooks>> {
        let gateway_tools = gateway_tools.clone();
        let scope_of: ScopeOfSession = Arc::new(move |session, successor| {
            let gateway_tools = gateway_tools.clone();
            Box::pin(async move { gateway_tools.scope_of_session(&session, successor.as_ref()).await })
        });
        let provider = self.provider.as_ref().map(|host| host.name().to_owned());
        self.hosts.iter().map(move |host| {
            let hooks = PluginHooks::new(host.clone(), scope_of.clone());
            let is_provider = provider.as_deref() == Some(host.name());
            Arc::new(if is_provider { hooks.mirroring() } else { hooks })
        })
    }

    /// The gateway takes messages, on these platforms.
    pub fn hear_of_the_start(&self, platforms: &[String]) {
        let of_none: ScopeOfSession = Arc::new(|_, _| Box::pin(async { None })); // it is about no session
        for host in &self.hosts {
            PluginHooks::new(host.clone(), of_none.clone()).started(platforms);
        }
    }

    /// The tools of a home with the toolsets that plugins bring: each is on wherever servers of the Model Context
    /// Protocol are, and what one of them carries is no longer off.
    pub fn offered(&self, tools: &Tools) -> Tools {
        let mut tools = tools.clone();
        let unknown = self.toolsets.iter().filter(|name| !is_toolset(name));
        tools.switches.servers.extend(unknown.cloned());
        for (host, abilities) in self.hosts.iter().filter_map(|host| Some((host, host.abilities()?))) {
            for tool in &abilities.tools {
                let toolset = toolset_of(host, tool);
                tools.switches.off.retain(|off| off.toolset != toolset);
                if !is_toolset(&toolset) && !tools.switches.servers.contains(&toolset) {
                    tools.switches.servers.push(toolset);
                }
            }
        }
        tools
    }

    /// Orders that they know, each with a few words.
    pub fn commands(&self) -> Vec<(String, String)> {
        let known = self.hosts.iter().filter_map(Host::abilities);
        known
            .flat_map(|abilities| abilities.commands.clone())
            .map(|command| (command.name, command.description))
            .collect()
    }

    /// None: no plugin knows this order.
    pub async fn command(
        &self,
        scope: &Scope,
        name: &str,
        argument: &str,
    ) -> Option<Result<String, CallError>> {
        let knows = |host: &&Host| {
            host.abilities().is_some_and(|known| known.commands.iter().any(|command| command.name == name))
        };
        let host = self.hosts.iter().find(knows)?;
        let scope = scope::of_memory(scope);
        Some(host.command(&CommandRun { scope, name: name.to_owned(), arguments: argument.to_owned() }).await)
    }

    /// How they are doing, for `throughline status` and `plugin list`.
    pub fn status(&self) -> Value {
        self.hosts.iter().map(|host| shown(&host.status(), host.abilities().as_deref())).collect()
    }

    pub async fn stop(&self) {
        futures_util::future::join_all(self.hosts.iter().map(Host::stop)).await;
    }
}

/// Tries a plugin that did not start until it does: nothing else would, because what to ask of it is not known. An engine
/// or a provider that was chosen by one of these names comes too late then: conversations have begun without it.
fn tried_again(host: Host, [engine, provider]: [Option<String>; 2]) {
    tokio::spawn(async move {
        let mut pause = RETRY;
        loop {
            tokio::time::sleep(pause).await;
            if host.status().state == PluginState::Stopped {
                return;
            }
            match host.start().await {
                Ok(abilities) => {
                    let plugin = host.name();
                    tracing::info!(plugin, "a plugin that had not started has");
                    let is_meant = |wanted: &Option<String>, name: Option<&String>| {
                        let named =
                            |wanted: &String| name == Some(wanted) || (name.is_some() && wanted == plugin);
                        wanted.as_ref().is_some_and(named)
                    };
                    let parts = [
                        (
                            "context engine",
                            is_meant(&engine, abilities.engine.as_ref().map(|part| &part.name)),
                        ),
                        (
                            "memory provider",
                            is_meant(&provider, abilities.provider.as_ref().map(|part| &part.name)),
                        ),
                    ];
                    for (part, _) in parts.iter().filter(|(_, is_meant)| *is_meant) {
                        host.note(format!(
                            "It came up after the agent had begun without it: its {part} counts from the next start of \
                             the gateway on."
                        ));
                    }
                    return;
                }
                Err(_) => pause = (pause * 2).min(RETRY_MAX), // its status says why
            }
        }
    });
}

/// Between two tries of a plugin that does not start: twice as long each time, up to this.
const RETRY: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(120);

/// What a plugin could do when it was last met: a provider that cannot be started today is still owed every turn, and
/// tools are listed without a process that runs for them.
const ABILITIES: &str = "abilities.json";

/// What it was told of itself then, among the abilities.
const MARK: &str = "mark";

/// What it says of itself from now on is known to the next process.
fn writes_down(host: &Host, home: &Home, mark: String) {
    let directory = home.path().join(DIRECTORY).join(host.name());
    host.introduces_itself_to(Arc::new(move |abilities| {
        let written = serde_json::to_value(abilities).map_err(|error| error.to_string());
        let written = written.and_then(|mut text| {
            text[MARK] = json!(mark);
            crate::host_commands::replace(&directory.join(ABILITIES), &text.to_string())
        });
        if let Err(error) = written {
            tracing::warn!(error, "what a plugin can do could not be written down");
        }
    }));
}

/// With the mark of that time.
fn kept(directory: &Path) -> Option<(String, Initialized)> {
    let text = std::fs::read_to_string(directory.join(ABILITIES)).ok()?;
    let mut known: Value = serde_json::from_str(&text).ok()?;
    let mark = known.as_object_mut()?.remove(MARK);
    let mark = mark.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    Some((mark, serde_json::from_value(known).ok()?))
}

/// Finds out what tools there are, beside everything else, and lets the process go again. Those that it finds are
/// offered from then on. One agent after the other: each of them is a whole Hermes.
fn learn(host: Host) {
    static ONE: Semaphore = Semaphore::const_new(1);
    tokio::spawn(async move {
        let Ok(_alone) = ONE.acquire().await else { return };
        match host.start().await {
            Ok(abilities) => {
                for words in unused(host.name(), &abilities) {
                    tracing::warn!(words, "something of a plugin is off");
                }
                host.settled_as(abilities.as_ref().clone());
                host.rest().await;
            }
            Err(error) => {
                tracing::warn!(%error, "Hermes' tools are missing until the next start of the gateway")
            }
        }
    });
}

/// What of a plugin comes to nothing here, in sentences.
fn unused(plugin: &str, abilities: &Initialized) -> Vec<String> {
    let unheard = abilities.hooks.iter().filter(|hook| !happens(&hook.event));
    let unheard = unheard.map(|hook| {
        format!("hook {} of {plugin}: nothing called {} happens in this version", hook.name, hook.event)
    });
    abilities.notes.iter().cloned().chain(unheard).collect()
}

fn scope_of(gateway_tools: &Arc<GatewayTools>) -> ScopeOf {
    let gateway_tools = gateway_tools.clone();
    Arc::new(move |caller: &Caller| {
        let (gateway_tools, caller) = (gateway_tools.clone(), caller.clone());
        Box::pin(async move { gateway_tools.scope_of(&caller).await })
    })
}

fn shown(status: &PluginStatus, abilities: Option<&Initialized>) -> Value {
    let (state, why) = match &status.state {
        PluginState::Idle => ("idle", None),
        PluginState::Running => ("running", None),
        PluginState::BackingOff(time) => {
            ("died", Some(format!("it is started again in {} s at the earliest", time.as_secs())))
        }
        PluginState::Broken(time) => {
            ("silent", Some(format!("it is asked again in {} s at the earliest", time.as_secs())))
        }
        PluginState::Refused(why) => ("unusable", Some(why.clone())),
        PluginState::Failed => ("failed", status.last_error.clone()),
        PluginState::Stopped => ("stopped", None),
    };
    json!({
        "name": status.plugin,
        "version": status.version,
        "state": state,
        "why": why,
        "what": abilities.map(what).unwrap_or_default(),
        "process": status.process,
        "calls": status.calls,
        "failures": status.failures,
        "timeouts": status.timeouts,
        "restarts": status.restarts,
        "nonsense": status.nonsense,
        "last_error": status.last_error,
        "notes": status.notes,
    })
}

/// What it brings, in a few words.
fn what(abilities: &Initialized) -> String {
    let several = |count: usize, one: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {one}s")),
    };
    let mut parts = Vec::new();
    parts.extend(abilities.engine.as_ref().map(|engine| format!("engine {}", engine.name)));
    parts.extend(abilities.provider.as_ref().map(|provider| format!("memory provider {}", provider.name)));
    parts.extend(several(abilities.tools.len(), "tool"));
    parts.extend(several(abilities.hooks.len(), "hook"));
    parts.extend(several(abilities.commands.len(), "command"));
    parts.join(", ")
}

/// What is configured, for a look that starts nothing: its name, what it is as far as that is known, and
/// where it comes from; and what is off, with why.
pub fn configured(home: &Home, settings: &Settings) -> (Vec<[String; 3]>, Vec<String>) {
    let (mut rows, mut off) = (Vec::new(), Vec::new());
    let wanted = WantedPlugins::of(home, settings, &mut off);
    let known = |name: &str| kept(&home.path().join(DIRECTORY).join(name)).map(|(_, abilities)| abilities);
    for plugin in &settings.plugins.list {
        let known = known(&plugin.name).filter(|_| plugin.enabled);
        off.extend(known.iter().flat_map(|abilities| unused(&plugin.name, abilities)));
        let is = match (plugin.enabled, &known) {
            (false, _) => "off: `enabled` is false".to_owned(),
            (true, Some(abilities)) => what(abilities),
            (true, None) => redacted(&plugin.command.join(" ")),
        };
        rows.push([format!("plugin {}", plugin.name), is, format!("config.yaml:{}", plugin.place.line)]);
    }
    if wanted.of_hermes().is_some() {
        match python::interpreter(home.path(), settings) {
            Ok(python) => {
                off.extend(known(HERMES).iter().flat_map(|abilities| unused(HERMES, abilities)));
                rows.push([format!("plugin {HERMES}"), wanted.parts(), python.display().to_string()]);
            }
            Err(why) => off.extend(wanted.lost(&why)),
        }
    }
    (rows, off)
}

/// What is switched on, is Hermes' own, and stays behind because its Python was not found: and why.
pub fn without_python(home: &Home, settings: &Settings) -> Option<(Vec<String>, String)> {
    let why = python::interpreter(home.path(), settings).err()?;
    let hermes = &settings.plugins.hermes;
    let is_named_elsewhere = hermes.off || hermes.tools.is_some(); // with all else that is lost
    let names = if is_named_elsewhere { Vec::new() } else { python::switched_on(settings) };
    (!names.is_empty()).then_some((names, why))
}

/// The version of the Hermes that this home is used with, by what is installed: of what its unit runs, else of the
/// interpreter that we would use.
pub fn hermes_version(home: &Home, settings: Option<&Settings>, programs: &[PathBuf]) -> Option<String> {
    let ours = settings.and_then(|settings| python::interpreter(home.path(), settings).ok());
    programs.iter().chain(&ours).find_map(|python| python::version(python))
}

/// The model that summarises for the built-in engine answers plugins, too.
fn answers(writer: Arc<dyn Summariser>) -> AnswerModel {
    Arc::new(move |asked| {
        let writer = writer.clone();
        Box::pin(async move {
            match writer.ask(&asked.prompt).await {
                Ok(written) => Ok(ModelSaid { text: written.text, model: writer.name().to_owned() }),
                Err(error) => Err(error.to_string()),
            }
        })
    })
}

fn plugin_settings(plugin: &Plugin, place: &PluginPlace<'_>, settings: &Settings) -> PluginSettings {
    let home = place.home;
    let directory = home.path().join(DIRECTORY).join(&plugin.name);
    let usual = Deadlines::default();
    let deadlines = match plugin.call_seconds.map(Duration::from_secs) {
        Some(time) => Deadlines {
            start: usual.start,
            decide: usual.decide.min(time),
            recall: usual.recall.min(time),
            stop: usual.stop,
            ..Deadlines::all(time)
        },
        None => usual,
    };
    let start = plugin.start_seconds.map_or(usual.start, Duration::from_secs);
    let mut foreign = place.foreign(settings);
    let listed = plugin.readable.iter().map(|path| expanded(path, settings));
    let readable = installed(&foreign).into_iter().chain(listed).collect();
    if settings.landlock.value {
        foreign.extend(keys(settings.environment.get("HOME").map(PathBuf::from).as_deref()));
    }
    PluginSettings {
        environment: environment(settings, &plugin.environment, BTreeMap::new(), (home.path(), &directory)),
        readable,
        foreign,
        writable: plugin.writable.iter().map(|path| expanded(path, settings)).collect(),
        confined: settings.landlock.value,
        guards: plugin.guards,
        settings: plugin.settings.clone(),
        home: home.path().to_owned(),
        agent: place.agent.to_owned(),
        deadlines: Deadlines { start, ..deadlines },
        command: plugin.command.iter().map(|word| expanded(word, settings).display().to_string()).collect(),
        ..PluginSettings::new(&plugin.name, Vec::new(), directory)
    }
}

/// What a plugin may know: what carries no key, what the user listed, what is given.
fn environment(
    settings: &Settings,
    listed: &[String],
    given: BTreeMap<String, String>,
    (home, directory): (&Path, &Path),
) -> BTreeMap<String, String> {
    let named = settings.environment.names();
    let ours = named.filter_map(|name| Some((name.to_owned(), settings.environment.get(name)?)));
    let secrets = settings.secrets.iter().filter(|(name, _)| listed.contains(name));
    let secrets = secrets.map(|(name, secret)| (name.clone(), secret.expose().to_owned()));
    let environment = settings::environment(ours.chain(secrets), listed, &given);
    settings::at_home(environment, listed, home, directory)
}

/// Where the user keeps keys. Programs of Hermes read there as under Hermes: closing a directory below `~` to them would
/// also keep them from creating anything in `~` itself.
fn keys(user: Option<&Path>) -> Vec<PathBuf> {
    let names = USER_SECRET_DIRECTORIES.iter().chain(&USER_SECRET_FILES);
    user.into_iter().flat_map(|user| names.clone().map(move |name| user.join(name))).collect()
}

fn installed(foreign: &[PathBuf]) -> Vec<PathBuf> {
    foreign.iter().flat_map(|home| INSTALLED.map(|name| home.join(name))).collect()
}

/// A tilde in front is the user's directory.
fn expanded(path: &str, settings: &Settings) -> PathBuf {
    match (path.strip_prefix("~/"), settings.environment.get("HOME")) {
        (Some(rest), Some(user)) => Path::new(&user).join(rest),
        _ => PathBuf::from(path),
    }
}

/// What the settings ask of plugins.
struct WantedPlugins {
    /// By their plain names.
    engine: Option<String>,
    provider: Option<String>,
    /// Those of them that only Hermes can have.
    engine_of_hermes: bool,
    provider_of_hermes: bool,
    /// Hooks with a handler in Python.
    handlers: Vec<String>,
    /// Hermes' plugins that its lists let run, wherever they lie.
    plugins: Vec<String>,
    /// Toolsets that are on and not built in.
    toolsets: Vec<String>,
}

impl WantedPlugins {
    fn of(home: &Home, settings: &Settings, off: &mut Vec<String>) -> Self {
        let own =
            |name: &str| settings.plugins.list.iter().any(|plugin| plugin.enabled && plugin.name == name);
        let engine = settings.tools.switches.context_engine.as_deref().unwrap_or_default();
        let engine = Some(engine.trim()).filter(|name| !BUILT_IN.contains(name));
        let provider = settings.tools.memory.provider.as_ref().map_or("", |provider| provider.value.trim());
        let native = super::provider::is_native(provider);
        let provider = Some(provider).filter(|_| !native);
        let plain = |name: &str| name.strip_prefix(OF_HERMES).unwrap_or(name).to_owned();
        let hermes = &settings.plugins.hermes;
        let mut wanted = Self {
            engine: engine.map(plain),
            provider: provider.map(plain),
            engine_of_hermes: engine.is_some_and(|name| !own(name)),
            provider_of_hermes: provider.is_some_and(|name| !own(name)),
            handlers: python::handlers(home.path()),
            plugins: python::plugins(hermes),
            toolsets: match &hermes.tools {
                Some(named) => named.clone(),
                None if hermes.off => Vec::new(),
                None => python::toolsets(home.path(), settings),
            },
        };
        if hermes.off {
            off.extend(wanted.lost("`throughline.hermes.enabled` is false"));
            wanted = Self {
                engine_of_hermes: false,
                provider_of_hermes: false,
                handlers: Vec::new(),
                plugins: Vec::new(),
                toolsets: Vec::new(),
                ..wanted
            };
        }
        wanted
    }

    /// Nothing of Hermes' Python has to run before it is called.
    fn is_tools_only(&self) -> bool {
        !self.engine_of_hermes
            && !self.provider_of_hermes
            && self.handlers.is_empty()
            && self.plugins.is_empty()
    }

    /// Whether something of it may decide about tools.
    fn may_guard(&self, home: &Home) -> bool {
        let plugins =
            self.plugins.iter().any(|name| python::may_guard(&home.path().join("plugins").join(name)));
        let handlers =
            self.handlers.iter().any(|name| python::may_guard(&home.path().join("hooks").join(name)));
        plugins || handlers
    }

    /// What Hermes' Python is asked to be. None: nothing.
    fn of_hermes(&self) -> Option<Value> {
        let asked = json!({
            "engine": self.engine.as_ref().filter(|_| self.engine_of_hermes),
            "provider": self.provider.as_ref().filter(|_| self.provider_of_hermes),
            "tools": self.toolsets,
            "hooks": !self.handlers.is_empty(),
            "plugins": self.plugins,
        });
        let is_wanted = !self.is_tools_only() || !self.toolsets.is_empty();
        is_wanted.then_some(asked)
    }

    /// The same for people.
    fn parts(&self) -> String {
        let several = |kind: &str, names: &[String]| match names.is_empty() {
            true => None,
            false => Some(format!("{kind} {}", names.join(", "))),
        };
        let engine = self.engine.as_ref().filter(|_| self.engine_of_hermes);
        let provider = self.provider.as_ref().filter(|_| self.provider_of_hermes);
        let parts = [
            engine.map(|name| format!("engine {name}")),
            provider.map(|name| format!("memory provider {name}")),
            several("hooks", &self.handlers),
            several("plugins", &self.plugins),
            several("toolsets", &self.toolsets),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// What is missing without Hermes' Python, by name.
    fn lost(&self, why: &str) -> Vec<String> {
        let provider = self.provider.as_ref().filter(|_| self.provider_of_hermes);
        let engine = self.engine.as_ref().filter(|_| self.engine_of_hermes);
        let mut lost: Vec<String> = Vec::new();
        lost.extend(provider.map(|name| format!("memory provider {name}: {why}")));
        lost.extend(engine.map(|name| format!("context engine {name}: {why}")));
        lost.extend(
            self.handlers.iter().map(|name| format!("hook {name}: its handler.py needs Python, and {why}")),
        );
        lost.extend(self.plugins.iter().map(|name| format!("plugin {name}: {why}")));
        lost.extend(self.toolsets.iter().map(|name| format!("toolset {name} of Hermes: {why}")));
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_the_users_keys_are_closed_to_plugins() {
        let closed = keys(Some(Path::new("/home/u")));
        for name in [".ssh", ".aws", ".gnupg", ".netrc", ".config/gh", ".local/state/throughline"] {
            assert!(closed.contains(&Path::new("/home/u").join(name)), "{name}");
        }
        assert!(keys(None).is_empty());
    }
}
