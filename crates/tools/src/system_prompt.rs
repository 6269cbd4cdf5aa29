//! The system prompt, assembled once per session.
//!
//! The order is fixed, and what seldom changes comes first, so that sessions share as long a
//! beginning as they can: persona, guidance on tools, skills, the machine, the profile, the surface;
//! then the instructions of the working directory; then memory, and the day.
//!
//! - the same files, settings and caller give the same bytes; of the time only the date is told
//! - what comes from files is scanned and bounded; nothing that is missing or broken fails a session
//! - without a usable `SOUL.md` the default persona speaks; a blocked one is named below it
//! - a session that works for another gets a short system prompt: no persona, no memory, no instructions
//!
//! Deliberately absent: a client's own layer of the prompt, which the gateway keeps, and anything
//! that is asked of a process or the network.

mod ascii_fold;
mod context;
mod guidance;
mod host;
#[cfg(test)]
mod linear;
mod platform_hints;
pub mod threats;

#[cfg(test)]
mod tests;

pub use guidance::{STEER_CLOSE, STEER_OPEN};

use crate::skills::{OfferedTools, SkillKit};
use context::{Limit, Persona};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use throughline_core::input::{Room, Task};
use throughline_core::port::{Promise, SystemPrompt};
use throughline_core::tool::Caller;

/// What is remembered, as blocks of text for a prompt.
pub trait MemoryBlocks: Send + Sync {
    /// As it is now, as far as it is this caller's to know. May read files.
    fn blocks(&self, caller: &Caller) -> Vec<String>;
}

/// No memory.
impl MemoryBlocks for () {
    fn blocks(&self, _: &Caller) -> Vec<String> {
        Vec::new()
    }
}

/// To which group a tool belongs; None for an unknown tool.
pub type ToolsetOf = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Whether a model is told to act instead of describing: `agent.tool_use_enforcement`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// Where the model is known to need it.
    #[default]
    Auto,
    Always,
    Never,
    /// Where the model's name contains one of these.
    Models(Vec<String>),
}

/// `platform_hints.<platform>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintOverride {
    pub replace: Option<String>,
    pub append: Option<String>,
}

/// What prompts are made from. A value that was not written has Hermes' default, as
/// [`PromptSettings::of`] gives it.
#[derive(Clone)]
pub struct PromptSettings {
    /// Where `SOUL.md` is.
    pub home: PathBuf,
    /// Where tools work (`terminal.cwd`). None: nowhere in particular, and no instructions.
    pub workspace: Option<PathBuf>,
    /// Who the agent is without a `SOUL.md`.
    pub default_persona: String,
    /// What it should know about the program it runs on.
    pub about: Option<String>,
    /// `timezone`, an IANA name. None: the system's.
    pub timezone: Option<String>,
    pub model: String,
    pub provider: String,
    /// The model's context window, in tokens, where it is known.
    pub context_tokens: Option<u64>,
    /// `context_file_max_chars`.
    pub context_file_chars_max: Option<usize>,
    /// Whether the prompt names the session (`--pass-session-id`).
    pub pass_session_id: bool,
    /// `agent.task_completion_guidance`.
    pub task_completion_guidance: bool,
    /// `agent.parallel_tool_call_guidance`.
    pub parallel_tool_call_guidance: bool,
    /// `agent.tool_use_enforcement`.
    pub tool_use_enforcement: Enforcement,
    /// `agent.environment_hint`.
    pub environment_hint: Option<String>,
    pub platform_hints: BTreeMap<String, HintOverride>,
    /// `terminal.backend`.
    pub terminal_backend: String,
    /// The home of the user this process runs as.
    pub user_home: Option<PathBuf>,
    /// `delegation.max_spawn_depth`.
    pub delegation_depth_max: u32,
    /// What a user says while the agent works comes within tool results, between [`STEER_OPEN`]
    /// and [`STEER_CLOSE`].
    pub steering_in_results: bool,
    pub skills: Arc<SkillKit>,
    pub memory: Arc<dyn MemoryBlocks>,
    pub toolset_of: ToolsetOf,
}

impl PromptSettings {
    /// Hermes' defaults.
    pub fn of(home: impl Into<PathBuf>, skills: Arc<SkillKit>, memory: Arc<dyn MemoryBlocks>) -> Self {
        Self {
            home: home.into(),
            workspace: None,
            default_persona: String::new(),
            about: None,
            timezone: None,
            model: String::new(),
            provider: String::new(),
            context_tokens: None,
            context_file_chars_max: None,
            pass_session_id: false,
            task_completion_guidance: true,
            parallel_tool_call_guidance: true,
            tool_use_enforcement: Enforcement::Auto,
            environment_hint: None,
            platform_hints: BTreeMap::new(),
            terminal_backend: "local".to_owned(),
            user_home: None,
            delegation_depth_max: 1,
            steering_in_results: false,
            skills,
            memory,
            toolset_of: Arc::new(|tool| toolset_of(tool).map(str::to_owned)),
        }
    }
}

/// The groups of Hermes' own tools.
pub fn toolset_of(tool: &str) -> Option<&str> {
    Some(match tool {
        "skills_list" | "skill_view" | "skill_manage" => "skills",
        "read_file" | "write_file" | "patch" | "search_files" => "file",
        "terminal" | "process" => "terminal",
        "web_search" | "web_extract" => "web",
        "delegate_task" => "delegation",
        "send_message" => "messaging",
        "memory" | "session_search" | "todo" | "clarify" => tool,
        _ => return None,
    })
}

/// Writes the prompts of one agent.
pub struct AgentPrompt {
    settings: Arc<PromptSettings>,
}

impl AgentPrompt {
    pub fn new(settings: PromptSettings) -> Self {
        Self { settings: Arc::new(settings) }
    }
}

impl SystemPrompt for AgentPrompt {
    fn assemble<'a>(&'a self, caller: &'a Caller, tools: &'a [String]) -> Promise<'a, String> {
        let (settings, caller, tools) = (self.settings.clone(), caller.clone(), tools.to_vec());
        Box::pin(async move {
            let persona = settings.default_persona.clone();
            let written = tokio::task::spawn_blocking(move || {
                PromptWriter { settings: &settings, caller: &caller, tools: &tools }.prompt()
            });
            written.await.unwrap_or_else(|error| {
                tracing::error!(%error, "the prompt could not be assembled; the default persona stands in");
                persona
            })
        })
    }

    fn assemble_in<'a>(
        &'a self,
        caller: &'a Caller,
        tools: &'a [String],
        room: &'a Room,
    ) -> Promise<'a, String> {
        Box::pin(async move {
            let mut parts = vec![self.assemble(caller, tools).await];
            parts.extend(room.prompt.clone());
            let (skills, names, caller) = (self.settings.skills.clone(), room.skills.clone(), caller.clone());
            let loaded = tokio::task::spawn_blocking(move || {
                names.iter().filter_map(|name| loaded(&skills, name, &caller)).collect::<Vec<_>>()
            });
            parts.extend(loaded.await.unwrap_or_default());
            parts.retain(|part| !part.is_empty());
            parts.join("\n\n")
        })
    }
}

/// A skill that a place wants loaded from the start.
fn loaded(skills: &SkillKit, name: &str, caller: &Caller) -> Option<String> {
    let content = skills.content(name, caller);
    if content.is_none() {
        tracing::warn!(name, "a skill that a channel is bound to is not there, or is switched off");
    }
    content.map(|content| {
        format!("[IMPORTANT: The \"{name}\" skill is auto-loaded. Follow its instructions for this session.]\n\n{content}")
    })
}

struct PromptWriter<'w> {
    settings: &'w PromptSettings,
    caller: &'w Caller,
    tools: &'w [String],
}

impl PromptWriter<'_> {
    fn prompt(&self) -> String {
        let parts = match &self.caller.task {
            Some(task) => self.child(task),
            None => self.full(),
        };
        let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("\n\n")
    }

    fn full(&self) -> Vec<String> {
        let mut parts = self.persona();
        parts.extend(self.settings.about.clone());
        parts.extend(self.tool_guidance());
        parts.push(self.skills());
        parts.push(self.host());
        parts.extend(self.settings.environment_hint.clone());
        parts.push(self.profile());
        parts.push(self.surface());
        parts.push(self.instructions());
        parts.extend(self.settings.memory.blocks(self.caller));
        parts.push(self.day());
        parts
    }

    /// What a session gets that works for another.
    fn child(&self, task: &Task) -> Vec<String> {
        let mut parts = vec![guidance::CHILD.to_owned()];
        if let Some(workspace) = &self.settings.workspace {
            parts.push(format!(
                "WORKSPACE PATH:\n{}\nUse exactly this path unless the task says otherwise.",
                workspace.display()
            ));
        }
        if self.has("delegate_task") {
            parts.push(self.spawning(task));
        }
        parts.extend(self.enforcement());
        parts.push(self.skills());
        parts.push(self.host());
        parts.push(self.day());
        parts
    }

    fn spawning(&self, task: &Task) -> String {
        let (depth, max) = (task.depth, self.settings.delegation_depth_max);
        let below = match depth + 1 >= max {
            true => "Those you start cannot delegate further.",
            false => "Those you start may delegate further only if you give them role='orchestrator'.",
        };
        format!(
            "## Subagent Spawning (Orchestrator Role)\nYou may start subagents of your own with delegate_task, for parts that \
             are independent of each other or would fill your conversation. Not for single steps, and not to pass your whole \
             task on. Their results are yours to check and to sum up.\nYou are at depth {depth}; the tree is capped at \
             max_spawn_depth={max}. {below}"
        )
    }

    fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|name| name == tool)
    }

    fn limit(&self) -> Limit {
        Limit::of(self.settings.context_file_chars_max, self.settings.context_tokens)
    }

    fn persona(&self) -> Vec<String> {
        let default = self.settings.default_persona.clone();
        match context::persona(&self.settings.home, self.limit()) {
            Persona::Missing => vec![default],
            Persona::Text(text) => vec![text],
            Persona::Blocked(line) => vec![default, line],
        }
    }

    fn tool_guidance(&self) -> Vec<String> {
        if self.tools.is_empty() {
            return Vec::new();
        }
        let mut parts = Vec::new();
        if self.settings.task_completion_guidance {
            parts.push(guidance::FINISHING.to_owned());
        }
        if self.settings.parallel_tool_call_guidance {
            parts.push(guidance::PARALLEL.to_owned());
        }
        let known = [
            ("memory", guidance::MEMORY),
            ("session_search", guidance::SESSION_SEARCH),
            ("skill_manage", guidance::SKILL_MANAGE),
            ("todo", guidance::TODO),
        ];
        let told: Vec<_> = known.iter().filter(|(tool, _)| self.has(tool)).map(|(_, text)| *text).collect();
        parts.push(told.join("\n"));
        if self.settings.steering_in_results {
            parts.push(guidance::steering());
        }
        parts.extend(self.enforcement());
        parts
    }

    fn enforcement(&self) -> Vec<String> {
        let model = self.settings.model.to_lowercase();
        let names_one = |name: &str| model.contains(&name.to_lowercase());
        let applies = match &self.settings.tool_use_enforcement {
            Enforcement::Always => true,
            Enforcement::Never => false,
            Enforcement::Auto => guidance::ENFORCED_MODELS.iter().any(|name| names_one(name)),
            Enforcement::Models(names) => names.iter().any(|name| names_one(name)),
        };
        if self.tools.is_empty() || !applies {
            return Vec::new();
        }
        let mut parts = vec![guidance::TOOL_USE.to_owned()];
        if ["gemini", "gemma"].iter().any(|family| model.contains(family)) {
            parts.push(guidance::GOOGLE.to_owned());
        }
        if ["gpt", "codex", "grok"].iter().any(|family| model.contains(family)) {
            parts.push(guidance::OPENAI.to_owned());
        }
        parts
    }

    fn skills(&self) -> String {
        if !["skills_list", "skill_view", "skill_manage"].iter().any(|tool| self.has(tool)) {
            return String::new();
        }
        let toolsets: BTreeSet<String> =
            self.tools.iter().filter_map(|tool| (self.settings.toolset_of)(tool)).collect();
        let toolsets: Vec<_> = toolsets.into_iter().collect();
        let offered = OfferedTools { tools: self.tools, toolsets: &toolsets, source: &self.caller.source };
        self.settings.skills.index(offered)
    }

    fn host(&self) -> String {
        let settings = self.settings;
        host::hint(&settings.terminal_backend, settings.user_home.as_deref(), settings.workspace.as_deref())
    }

    fn profile(&self) -> String {
        let profile = self.settings.skills.settings().profile();
        let (home, root) = (self.settings.home.display(), self.settings.skills.settings().root().display());
        match profile.as_str() {
            "default" => format!(
                "Active Hermes profile: default. Other profiles, if any, are in {home}/profiles/<name>/, each with skills, \
                 plugins, cron jobs and memories of its own. Change those only if the user asks for it."
            ),
            profile => format!(
                "Active Hermes profile: {profile}. This session uses {home}/. The default profile's skills, plugins, cron jobs \
                 and memories are in {root}/ and belong to other sessions, as do those of other profiles. Change them only if \
                 the user asks for it."
            ),
        }
    }

    fn surface(&self) -> String {
        let source = self.caller.source.trim().to_lowercase();
        let given = |text: &Option<String>| {
            text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let ours = self.settings.platform_hints.get(&source);
        let hint = ours.and_then(|ours| given(&ours.replace)).or_else(|| platform_hints::hint(&source));
        let more = ours.and_then(|ours| given(&ours.append));
        hint.into_iter().chain(more).collect::<Vec<_>>().join("\n\n")
    }

    /// A scheduled job has its own instructions.
    fn instructions(&self) -> String {
        match &self.settings.workspace {
            Some(workspace) if self.caller.source != "cron" => {
                context::instructions(workspace, &self.settings.home, self.limit())
            }
            _ => String::new(),
        }
    }

    /// The date alone: a time would make every prompt another one.
    fn day(&self) -> String {
        let now = jiff::Timestamp::from_microsecond(self.caller.now.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let zone = self.settings.timezone.as_deref().and_then(|name| {
            let zone = jiff::tz::TimeZone::get(name);
            zone.inspect_err(
                |error| tracing::warn!(timezone = name, %error, "unknown time zone; the system's is used"),
            )
            .ok()
        });
        let day = now.to_zoned(zone.unwrap_or_else(jiff::tz::TimeZone::system));
        let mut lines = vec![format!("Conversation started: {}", day.strftime("%A, %B %d, %Y"))];
        if self.settings.pass_session_id {
            lines.push(format!("Session ID: {}", self.caller.session.as_str()));
        }
        for (label, value) in [("Model", &self.settings.model), ("Provider", &self.settings.provider)] {
            if !value.is_empty() {
                lines.push(format!("{label}: {value}"));
            }
        }
        lines.join("\n")
    }
}
