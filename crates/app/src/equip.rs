//! An agent's tools, put together from its settings: files, terminal, skills, memory, servers of the
//! Model Context Protocol, and the prompt that tells it about them. No logic beyond "which is which".

#[cfg(unix)]
mod allowlist;
#[cfg(unix)]
mod assessor;
pub mod compressor;
mod hooks;
pub mod people;
pub mod plugins;
#[cfg(unix)]
mod process_notices;
mod provider;
pub mod servers;
#[cfg(unix)]
mod terminal;

use crate::platform_accounts;
use people::person_of_caller;
use plugins::Plugins;
use std::path::{Path, PathBuf, is_separator};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::access::{self, NotesOwner, PeopleCount};
use throughline_core::port::{AgentApi, Engine, Model, SystemPrompt};
use throughline_core::session::review::Fill;
use throughline_core::tool::{Caller, Kit, Tools};
use throughline_gateway::{
    Agents, Delegation, EngineKit, Fills, GatewayTools, HandsSettings, Memory as Outside,
};
use throughline_hermes::config::Given;
use throughline_home::config::{ModelChoice, Settings};
use throughline_home::home::Home;
use throughline_mcp::client::{McpClient as Servers, ServerStatus};
use throughline_memory::{Memory, MemoryOwners, MemorySettings, NotesSharing, StoreSize};
use throughline_tools::files::{self, FileKit};
use throughline_tools::paths::FileReach;
use throughline_tools::skills::{SkillKit, SkillSettings};
use throughline_tools::spill::SpillDirectory;
use throughline_tools::system_prompt::{AgentPrompt, MemoryBlocks, PromptSettings};
use throughline_tools::todo::Todo;
use throughline_tools::toolbox::{ToolAccess, Toolbox};

/// Who the agent is where there is no `SOUL.md`.
const PERSONA: &str = "You are a helpful agent with a long memory. People talk to you over weeks and months; \
                       keep track of what was agreed, answer plainly, and say so when you do not know.";

/// How long the first prompt waits for servers that are still starting. Those that come later are
/// offered from then on, which costs one broken cache.
const SERVERS_PATIENCE: Duration = Duration::from_secs(3);

/// How long an order to reload waits for them.
const RELOAD_PATIENCE: Duration = Duration::from_secs(30);

/// What an agent works with.
pub struct Equipment {
    pub tools: Arc<dyn Tools>,
    pub gateway_tools: Arc<GatewayTools>,
    pub prompts: Arc<dyn SystemPrompt>,
    pub memory: Memory,
    pub servers: Arc<Servers>,
    pub mcp: Arc<Mcp>,
    pub hooks: Arc<hooks::AgentHooks>,
    pub plugins: Arc<Plugins>,
    /// Where the agent remembers beyond its own files.
    pub outside: Option<Outside>,
    /// How full the memory is.
    pub fills: Fills,
    /// What is off although it is built in, and why.
    pub off: Vec<String>,
    #[cfg(unix)]
    notices: Arc<process_notices::ProcessNotices>,
}

impl Equipment {
    /// Processes that end, or say what was waited for, are told through this door from now on.
    pub fn rings_at(&self, api: Arc<dyn AgentApi>) {
        #[cfg(unix)]
        self.notices.opens(api);
        #[cfg(not(unix))]
        drop(api); // where there is no terminal, nothing outlives a turn
    }
}

/// Where things are.
struct EquipmentPlace<'a> {
    home: &'a Path,
    homes: &'a [PathBuf],
    workspace: &'a Path,
    user_home: Option<&'a Path>,
}

/// Must be called within a runtime.
pub async fn equip(
    home: &Home,
    settings: &Settings,
    model: &Arc<dyn Model>,
    (agents, homes): (&Arc<Agents>, &[PathBuf]),
    engine: Arc<dyn Engine>,
    plugins: Arc<Plugins>,
    mut off: Vec<String>,
) -> Equipment {
    let path = home.path();
    let user_home = settings.environment.get("HOME").map(PathBuf::from);
    let workspace = workspace(path, settings);

    let memory = Memory::new(memory_settings(home, settings));
    off.extend(shared_notes(home, settings));
    let fills = fills(memory.clone());
    let servers = Servers::start(servers::settings(&settings.tools), servers::surroundings(path, settings));
    let place = EquipmentPlace { home: path, homes, workspace: &workspace, user_home: user_home.as_deref() };
    let files = FileKit::new(reach(&place, settings), file_settings(settings));
    let mut kits: Vec<Arc<dyn Kit>> = Vec::new();
    #[cfg(unix)]
    let notices = Arc::new(process_notices::ProcessNotices::default());
    #[cfg(not(unix))]
    let judge = None;
    #[cfg(unix)]
    let judge = terminal::judge(&place, settings, model);
    let skills = SkillKit::new(skill_settings(path, settings)).matching(files::replaced);
    #[cfg(unix)]
    let confine = terminal::confine(&place, settings, &mut off);
    #[cfg(unix)]
    let skills = match given(&settings.tools.skills.inline_shell) {
        Some(true) if backend_name(settings) != "local" => {
            off.push(format!(
                "skills.inline_shell: commands in skills would run on this machine, and terminal.backend is {}",
                backend_name(settings)
            ));
            skills
        }
        _ => skills.running(judge.clone(), confine.clone()),
    };
    let skills = Arc::new(skills);
    #[cfg(unix)]
    let files = {
        let rings = notices.clone().rings();
        let terminal = Arc::new(terminal::terminal(&place, settings, judge.clone(), confine, rings));
        let files = files.asking(judge.clone());
        kits.push(terminal.clone());
        files.following(Box::new(move |session: &throughline_core::SessionId| terminal.standing(session)))
    };
    #[cfg(not(unix))]
    off.extend(not_here(settings));
    #[cfg(unix)]
    let judge = Some(terminal::leave(judge));
    let shell = hooks::hooks(path, &workspace, settings, &mut off);
    let gateway_tools = GatewayTools::new(hands_settings(settings), agents.clone());
    let gateway_tools = gateway_tools.at_home(platform_accounts::home_channels(home, settings));
    let gateway_tools = Arc::new(gateway_tools.knowing(Arc::new(people::Acquaintances::of(home, settings))));
    let outside = provider::memory(home, settings, &workspace, &plugins, &mut off);
    let everywhere: [Arc<dyn Kit>; 7] = [
        Arc::new(files),
        skills.clone(),
        Arc::new(Todo::of_home(path)),
        Arc::new(memory.clone()),
        gateway_tools.clone(),
        servers.clone(),
        Arc::new(EngineKit { engine, gateway_tools: gateway_tools.clone() }),
    ];
    kits.extend(everywhere);
    kits.extend(outside.clone().map(|outside| Arc::new(outside) as Arc<dyn Kit>));
    let guarded = shell.is_guard().then(|| "a hook of yours in config.yaml".to_owned());
    kits.extend(plugins.kits(&gateway_tools, judge, guarded));
    let window = match &settings.model {
        ModelChoice::OpenAi(endpoint) | ModelChoice::Anthropic(endpoint) => {
            endpoint.context_length.as_ref().map(|length| length.value)
        }
        ModelChoice::Rehearsal => None,
    };
    let spill = Arc::new(SpillDirectory::of_home(path).for_window(window));
    let asked: Vec<_> = plugins.hooks(&gateway_tools).collect();
    let tools = plugins.offered(&settings.tools);
    let toolbox = Toolbox::new(kits, ToolAccess::of_settings(&tools), spill).heard_by(shell.clone());
    let toolbox = asked.iter().fold(toolbox, |toolbox, hooks| toolbox.heard_by(hooks.clone()));
    let toolbox = Arc::new(toolbox);
    let hooks = Arc::new(hooks::AgentHooks::new(shell, asked));
    off.extend(tools.switches.off.iter().map(|off| format!("{}: {}", off.toolset, off.why)));

    let known = toolbox.clone();
    let prompts = AgentPrompt::new(PromptSettings {
        workspace: Some(workspace),
        default_persona: PERSONA.to_owned(),
        timezone: settings.timezone.as_ref().map(|zone| zone.value.clone()),
        model: model.name().to_owned(),
        context_tokens: window,
        context_file_chars_max: count(&settings.tools.output.context_file_max_chars),
        terminal_backend: backend_name(settings).to_owned(),
        user_home,
        delegation_depth_max: hands_settings(settings).delegation.depth_max,
        toolset_of: Arc::new(move |tool| known.toolset_of(tool)),
        ..PromptSettings::of(path, skills, Arc::new(Remembered(memory.clone(), outside.clone())))
    });
    servers.settled(SERVERS_PATIENCE).await;
    let mcp = Mcp { servers: servers.clone(), toolbox: toolbox.clone(), tools, plugins: plugins.clone() };
    Equipment {
        tools: toolbox,
        mcp: Arc::new(mcp),
        gateway_tools,
        prompts: Arc::new(prompts),
        memory,
        servers,
        hooks,
        plugins,
        outside,
        fills,
        off,
        #[cfg(unix)]
        notices,
    }
}

/// The servers of the Model Context Protocol, and who may use them.
pub struct Mcp {
    servers: Arc<Servers>,
    toolbox: Arc<Toolbox>,
    /// As they were when the agent began: only its servers are read anew.
    tools: throughline_hermes::config::Tools,
    plugins: Arc<Plugins>,
}

impl Mcp {
    /// The group of a tool; None if there is none of that name.
    pub fn toolset_of(&self, tool: &str) -> Option<String> {
        self.toolbox.toolset_of(tool)
    }

    /// Lets all servers go, and connects those that the settings name now. Returns when each has been
    /// reached, or has failed once, or has had its time.
    pub async fn reload(&self, home: &Path, settings: &Settings) -> Vec<ServerStatus> {
        let mut tools = self.tools.clone();
        tools.switches.servers = self.plugins.offered(&settings.tools).switches.servers;
        let named = servers::settings(&settings.tools);
        self.servers.reload(named, servers::surroundings(home, settings)).await;
        self.toolbox.regate(ToolAccess::of_settings(&tools));
        self.servers.settled(RELOAD_PATIENCE).await;
        self.servers.status()
    }
}

/// What there is on Unix only.
#[cfg(not(unix))]
fn not_here(settings: &Settings) -> Vec<String> {
    let mut off = vec![
        "terminal: commands are run on Linux and macOS only; everything that needs no command works"
            .to_owned(),
    ];
    if given(&settings.tools.skills.inline_shell) == Some(true) {
        off.push("skills.inline_shell: commands in skills are run on Linux and macOS only".to_owned());
    }
    off
}

/// Where commands begin and relative paths count from: what the settings say, else the directory the
/// gateway was started in, unless that is a home itself.
fn workspace(home: &Path, settings: &Settings) -> PathBuf {
    let written = settings.tools.terminal.cwd.as_ref().map(|cwd| cwd.value.trim());
    let here = || std::env::current_dir().unwrap_or_else(|_| home.join("workspace"));
    match written {
        None | Some("" | "." | "auto" | "cwd") => here(),
        Some(path) => match (path.strip_prefix("~"), settings.environment.get("HOME")) {
            (Some(rest), Some(user)) => PathBuf::from(user).join(rest.trim_start_matches(is_separator)),
            _ => PathBuf::from(path),
        },
    }
}

fn reach(place: &EquipmentPlace<'_>, settings: &Settings) -> FileReach {
    let safe = settings.environment.get("HERMES_WRITE_SAFE_ROOT").unwrap_or_default();
    FileReach {
        workspace: place.workspace.to_owned(),
        home: place.home.to_owned(),
        homes: place.homes.to_vec(),
        user_home: place.user_home.map(Path::to_owned).unwrap_or_default(),
        confined: false,
        readable: Vec::new(),
        opened: settings.open_in_home.clone(),
        write_roots: std::env::split_paths(&safe).filter(|root| !root.as_os_str().is_empty()).collect(),
    }
}

fn file_settings(settings: &Settings) -> files::FileSettings {
    let usual = files::FileSettings::default();
    let output = &settings.tools.output;
    files::FileSettings {
        read_chars_max: count(&output.file_read_max_chars).unwrap_or(usual.read_chars_max),
        lines_max: given(&output.max_lines).unwrap_or(usual.lines_max),
        line_chars_max: count(&output.max_line_length).unwrap_or(usual.line_chars_max),
        redact: given(&settings.tools.security.redact_secrets).unwrap_or(usual.redact),
    }
}

fn skill_settings(home: &Path, settings: &Settings) -> SkillSettings {
    let written = &settings.tools.skills;
    let usual = SkillSettings::of(home);
    SkillSettings {
        external_dirs: written.external_dirs.iter().map(|dir| expanded(dir, settings)).collect(),
        disabled: written.disabled.clone(),
        platform_disabled: written.platform_disabled.iter().cloned().collect(),
        template_vars: given(&written.template_vars).unwrap_or(usual.template_vars),
        inline_shell: given(&written.inline_shell).unwrap_or(usual.inline_shell),
        inline_shell_timeout_seconds: given(&written.inline_shell_timeout)
            .unwrap_or(usual.inline_shell_timeout_seconds),
        guard_agent_created: given(&written.guard_agent_created).unwrap_or(usual.guard_agent_created),
        write_approval: given(&written.write_approval).unwrap_or(usual.write_approval),
        terminal_backend: backend_name(settings).to_owned(),
        variables: settings.environment.names().map(str::to_owned).collect(),
        environments: SkillSettings::detect_environments(),
        ..usual
    }
}

fn expanded(path: &str, settings: &Settings) -> PathBuf {
    match (path.strip_prefix("~/"), settings.environment.get("HOME")) {
        (Some(rest), Some(user)) => PathBuf::from(user).join(rest),
        _ => PathBuf::from(path),
    }
}

/// What the agent of a home is called by those who remember for it.
pub fn agent_name(home: &Home) -> String {
    provider::profile_of(home)
}

/// What the memory outside is called, if there is one. Err: why it is off.
pub fn memory_outside(home: &Home, settings: &Settings) -> Result<Option<String>, String> {
    let name = settings.tools.memory.provider.as_ref().map_or("", |provider| provider.value.trim());
    if !provider::is_native(name) {
        return Ok(Some(name.to_owned())); // a plugin's, which only a gateway can ask
    }
    let mut off = Vec::new();
    let workspace = workspace(home.path(), settings);
    let outside = provider::memory(home, settings, &workspace, &Plugins::default(), &mut off);
    match off.pop() {
        Some(why) => Err(why),
        None => Ok(outside.map(|outside| outside.provider.name().to_owned())),
    }
}

/// Also for commands that look at the files without an agent.
pub fn memory_settings(home: &Home, settings: &Settings) -> MemorySettings {
    let written = &settings.tools.memory;
    let usual = MemorySettings::new(home.path());
    let people = Arc::new(people::PeopleLookup::of(home, settings));
    let owns = |caller: &Caller| access::may_use_agent_memory(person_of_caller(caller));
    let known = people.clone();
    let is_owner = move |caller: &Caller| known.now().may_see_owner_profile(person_of_caller(caller));
    let notes = match settings.memory_per_person.value {
        false => NotesSharing::Shared,
        true => NotesSharing::PerPerson(Arc::new(move |caller: &Caller| notes_name(&people.now(), caller))),
    };
    MemorySettings {
        memory_enabled: given(&written.memory_enabled).unwrap_or(usual.memory_enabled),
        user_profile_enabled: given(&written.user_profile_enabled).unwrap_or(usual.user_profile_enabled),
        memory_char_limit: count(&written.memory_char_limit).unwrap_or(usual.memory_char_limit),
        user_char_limit: count(&written.user_char_limit).unwrap_or(usual.user_char_limit),
        write_approval: given(&written.write_approval).unwrap_or(usual.write_approval),
        owners: MemoryOwners::Those(Arc::new(owns)),
        subjects: MemoryOwners::Those(Arc::new(is_owner)),
        notes,
        ..usual
    }
}

/// What the notes of a conversation are called on disk where each person has their own. None: the owner's.
fn notes_name(people: &access::People, caller: &Caller) -> Option<String> {
    let chat = caller.reply_to.as_ref().map(|place| place.chat.as_str());
    let source = &caller.source;
    match people.notes_owner(person_of_caller(caller), chat) {
        NotesOwner::Owner => None,
        NotesOwner::User(user) => Some(format!("{source}\nuser\n{user}")),
        NotesOwner::Chat(chat) => Some(format!("{source}\nchat\n{chat}")),
        NotesOwner::Session => Some(format!("{source}\nsession\n{}", caller.session)),
    }
}

/// What is said at each start where one person's notes are in the prompts of others.
fn shared_notes(home: &Home, settings: &Settings) -> Option<String> {
    let is_shared = !settings.memory_per_person.value
        && given(&settings.tools.memory.memory_enabled).unwrap_or(true)
        && people::PeopleLookup::of(home, settings).now().count() == PeopleCount::Several;
    is_shared.then(|| {
        "notes of one's own for each person: several people can write, and what the agent notes in MEMORY.md is in \
         everybody's prompt, as in Hermes; `throughline.memory_per_person: true` keeps it apart"
            .to_owned()
    })
}

fn hands_settings(settings: &Settings) -> HandsSettings {
    let (usual, written) = (HandsSettings::default(), &settings.tools.delegation);
    let small = |written: &Option<Given<u64>>| given(written).and_then(|value| u32::try_from(value).ok());
    HandsSettings {
        clarify_patience: given(&settings.tools.clarify_timeout)
            .map_or(usual.clarify_patience, Duration::from_secs),
        delegation: Delegation {
            steps_max: small(&written.max_iterations).unwrap_or(usual.delegation.steps_max),
            children_max: count(&written.max_concurrent_children).unwrap_or(usual.delegation.children_max),
            depth_max: small(&written.max_spawn_depth).unwrap_or(usual.delegation.depth_max),
        },
    }
}

fn backend_name(settings: &Settings) -> &str {
    use throughline_hermes::config::tools::Backend;
    match settings.tools.terminal.backend.as_ref().map(|backend| &backend.value) {
        None | Some(Backend::Local) => "local",
        Some(_) if cfg!(not(unix)) => "local", // nothing runs anywhere else either
        Some(Backend::Docker) => "docker",
        Some(Backend::Ssh) => "ssh",
        Some(Backend::Other(name)) => name,
    }
}

fn given<T: Clone>(written: &Option<Given<T>>) -> Option<T> {
    written.as_ref().map(|given| given.value.clone())
}

fn count(written: &Option<Given<u64>>) -> Option<usize> {
    given(written).and_then(|value| usize::try_from(value).ok())
}

/// A prompt holds it only for those whose memory it is.
fn fills(memory: Memory) -> Fills {
    Arc::new(move |caller| {
        let memory = memory.clone();
        Box::pin(async move {
            let sizes =
                tokio::task::spawn_blocking(move || memory.sizes_for(&caller)).await.unwrap_or_default();
            let fill = |StoreSize { target, chars, chars_max, entries }| {
                let target = String::from(target);
                Fill { target, chars, chars_max, entries }
            };
            sizes.into_iter().map(fill).collect()
        })
    })
}

/// The memory as prompts show it.
struct Remembered(Memory, Option<Outside>);

impl MemoryBlocks for Remembered {
    fn blocks(&self, caller: &Caller) -> Vec<String> {
        let mut blocks = self.0.blocks_for(caller);
        let outside = self.1.as_ref().filter(|_| caller.task.is_none());
        blocks.extend(outside.and_then(|outside| outside.provider.prompt()));
        blocks
    }
}
