//! What the settings say about tools: which are on, and how each works.
//!
//! - what was not written is None; the module that uses it decides which default holds
//! - a setting that exists and cannot be read switches its toolset off ([`Off`]), and so does one
//!   that asks for something we do not have; nothing is weaker than what was written. Hermes falls
//!   back on its defaults there
//! - where Hermes reads an environment variable, too, the file wins, and [`Given`] says who spoke
//! - values that may be credentials are [`Secret`]
//!
//! Deliberately absent: files, and whether a program, a host or an image exists.

mod report;
mod server;

pub use report::ReportRow;
pub use server::{McpOAuth, RemoteMcpServer, Server, Transport};

use super::read;
use super::settings::At;
use super::support::{self, Support};
use super::tree::{self, Node, Notice, Place, Value};
use super::{expanded, reference};
use crate::toolset;
use throughline_core::redact::Secret;

/// A value and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<T> {
    pub value: T,
    pub by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    File(Place),
    /// The variable of this name, in `.env` or in the environment.
    Variable(&'static str),
}

/// A list in the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListSetting<T> {
    #[default]
    Absent,
    Entries(Vec<T>),
    /// Something is written there, and no list.
    Unreadable(Place),
}

/// Tools that stay off, even if a platform's list names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Off {
    pub toolset: &'static str,
    pub by: By,
    pub why: String,
}

/// Everything about tools.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    pub switches: Switches,
    pub approvals: ApprovalSettings,
    pub terminal: TerminalSettings,
    /// `mcp_servers`, those that are switched off included.
    pub servers: Vec<Server>,
    pub skills: SkillSettings,
    pub memory: MemorySettings,
    pub delegation: DelegationSettings,
    /// `agent.clarify_timeout`, in seconds.
    pub clarify_timeout: Option<Given<u64>>,
    pub output: Output,
    pub security: Security,
    /// Who gave the lists: their entries do not say.
    lists: Vec<(String, By)>,
}

/// What decides which tools are on: see [`crate::toolset::Toolsets`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// `platform_toolsets`: platform and list.
    pub platforms: ListSetting<(String, ListSetting<At<String>>)>,
    /// `agent.disabled_toolsets`
    pub disabled: ListSetting<At<String>>,
    /// The MCP servers that are on.
    pub servers: Vec<String>,
    /// `context.engine`, in lower case.
    pub context_engine: Option<String>,
    pub has_home_assistant: bool,
    pub has_xai: bool,
    pub off: Vec<Off>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalSettings {
    pub mode: Option<Given<ApprovalMode>>,
    /// Seconds that a question waits for its answer.
    pub timeout: Option<Given<u64>>,
    /// Whether a scheduled job may do what would need an answer.
    pub cron_approves: Option<Given<bool>>,
    /// Patterns of commands that are refused without a question.
    pub deny: Vec<String>,
    /// `command_allowlist`: what a person allowed for good.
    pub allowlist: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalMode {
    Manual,
    Smart,
    Off,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TerminalSettings {
    pub backend: Option<Given<Backend>>,
    pub cwd: Option<Given<String>>,
    pub timeout: Option<Given<u64>>,
    pub lifetime_seconds: Option<Given<u64>>,
    pub daemon_term_grace_seconds: Option<Given<f64>>,
    pub env_passthrough: Vec<String>,
    /// `auto`, `real` or `profile`.
    pub home_mode: Option<Given<String>>,
    pub shell_init_files: Vec<String>,
    pub auto_source_bashrc: Option<Given<bool>>,
    pub credential_files: Vec<String>,
    pub docker: DockerSettings,
    pub ssh: SshSettings,
}

/// Where commands run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    Local,
    Docker,
    Ssh,
    /// One that Hermes has and we do not, or an unknown one.
    Other(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DockerSettings {
    pub image: Option<Given<String>>,
    /// Names of variables that a container gets.
    pub forward_env: Vec<String>,
    pub env: Vec<(String, Secret)>,
    pub volumes: Vec<String>,
    pub mount_cwd_to_workspace: Option<Given<bool>>,
    pub network: Option<Given<bool>>,
    pub extra_args: Vec<String>,
    pub run_as_host_user: Option<Given<bool>>,
    pub persist_across_processes: Option<Given<bool>>,
    pub orphan_reaper: Option<Given<bool>>,
    pub cpu: Option<Given<f64>>,
    /// In MB, as the disk.
    pub memory: Option<Given<u64>>,
    pub disk: Option<Given<u64>>,
    pub persistent: Option<Given<bool>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshSettings {
    pub host: Option<Given<String>>,
    pub user: Option<Given<String>>,
    pub port: Option<Given<u64>>,
    /// A file.
    pub key: Option<Given<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillSettings {
    pub external_dirs: Vec<String>,
    pub disabled: Vec<String>,
    /// By platform, beside those that are disabled everywhere.
    pub platform_disabled: Vec<(String, Vec<String>)>,
    pub template_vars: Option<Given<bool>>,
    pub inline_shell: Option<Given<bool>>,
    pub inline_shell_timeout: Option<Given<u64>>,
    pub guard_agent_created: Option<Given<bool>>,
    pub write_approval: Option<Given<bool>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemorySettings {
    pub memory_enabled: Option<Given<bool>>,
    pub user_profile_enabled: Option<Given<bool>>,
    pub write_approval: Option<Given<bool>>,
    pub memory_char_limit: Option<Given<u64>>,
    pub user_char_limit: Option<Given<u64>>,
    pub provider: Option<Given<String>>,
    /// `honcho.base_url`: a server of one's own.
    pub honcho_base_url: Option<Given<String>>,
    /// `honcho.timeout` or `honcho.request_timeout`, in seconds.
    pub honcho_timeout: Option<Given<f64>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DelegationSettings {
    pub max_iterations: Option<Given<u64>>,
    pub max_concurrent_children: Option<Given<u64>>,
    pub max_spawn_depth: Option<Given<u64>>,
    pub orchestrator_enabled: Option<Given<bool>>,
    pub inherit_mcp_toolsets: Option<Given<bool>>,
    pub subagent_auto_approve: Option<Given<bool>>,
}

/// `tool_output`, and the limits beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub max_bytes: Option<Given<u64>>,
    pub max_lines: Option<Given<u64>>,
    pub max_line_length: Option<Given<u64>>,
    pub file_read_max_chars: Option<Given<u64>>,
    pub context_file_max_chars: Option<Given<u64>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    pub redact_secrets: Option<Given<bool>>,
    /// A scanner of commands that is not part of this program.
    pub tirith_enabled: Option<Given<bool>>,
    /// Whether commands may run where the scanner is missing.
    pub tirith_fail_open: Option<Given<bool>>,
}

type ToolVariable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads all of it. `root` is expanded already.
pub(super) fn read(root: &Node, variable: ToolVariable<'_>) -> (Tools, Vec<Notice>) {
    let mut reader = ToolSettingsReader::new(root, variable);
    let mut tools = Tools {
        switches: reader.switches(),
        approvals: reader.approvals(),
        terminal: reader.terminal(),
        servers: reader.servers(),
        skills: reader.skills(),
        memory: reader.memory(),
        delegation: reader.delegation(),
        clarify_timeout: reader.guarded(&["clarify"], |r| r.count("agent.clarify_timeout", None)),
        output: reader.output(),
        security: reader.security(),
        lists: Vec::new(),
    };
    tools.switches.servers =
        tools.servers.iter().filter(|server| server.enabled).map(|server| server.name.clone()).collect();
    reader.refuse();
    tools.switches.off = reader.off;
    tools.lists = reader.lists;
    let mut notices = reader.notices;
    notices.extend(toolset::notices(&tools.switches));
    (tools, notices)
}

struct ToolSettingsReader<'a> {
    root: &'a Node,
    variable: ToolVariable<'a>,
    /// The toolsets that are off if something cannot be read now.
    guarding: &'static [&'static str],
    notices: Vec<Notice>,
    off: Vec<Off>,
    lists: Vec<(String, By)>,
}

impl<'a> ToolSettingsReader<'a> {
    fn new(root: &'a Node, variable: ToolVariable<'a>) -> Self {
        Self { root, variable, guarding: &[], notices: Vec::new(), off: Vec::new(), lists: Vec::new() }
    }

    /// What cannot be honoured safely is not done at all.
    fn refuse(&mut self) {
        for set in support::set(self.root) {
            if set.key.support != Support::Refused {
                continue;
            }
            let why = format!("`{}`: {}", set.path, set.key.why);
            for toolset in set.key.feature.split(' ') {
                self.off.push(Off { toolset, by: By::File(set.place), why: why.clone() });
            }
            let text = format!("{why}; these tools are off: {}", set.key.feature.replace(' ', ", "));
            self.notices.push(Notice { place: set.place, text });
        }
    }

    fn switches(&mut self) -> Switches {
        let set = |name: &str| (self.variable)(name).is_some_and(|value| !value.trim().is_empty());
        let (has_home_assistant, has_xai) = (set("HASS_TOKEN"), set("XAI_API_KEY"));
        let context_engine = self.text("context.engine", None).map(|engine| engine.value.to_lowercase());
        Switches {
            platforms: self.platforms(),
            disabled: self.names("agent.disabled_toolsets", "all tools are off until it is corrected"),
            context_engine,
            has_home_assistant,
            has_xai,
            servers: Vec::new(),
            off: Vec::new(),
        }
    }

    fn platforms(&mut self) -> ListSetting<(String, ListSetting<At<String>>)> {
        let Some(node) = self.root.get("platform_toolsets") else { return ListSetting::Absent };
        match &node.value {
            Value::Null => ListSetting::Absent,
            Value::Map(entries) => ListSetting::Entries(
                entries
                    .iter()
                    .map(|entry| {
                        let path = format!("platform_toolsets.{}", entry.key);
                        let consequence = format!("{} has no tools until it is corrected", entry.key);
                        (entry.key.clone(), self.list_of(&entry.node, &path, &consequence))
                    })
                    .collect(),
            ),
            _ => {
                let text = "`platform_toolsets` takes a list for each platform; all tools are off until it is corrected";
                self.notices.push(Notice { place: node.place, text: text.to_owned() });
                ListSetting::Unreadable(node.place)
            }
        }
    }

    fn names(&mut self, path: &str, consequence: &str) -> ListSetting<At<String>> {
        match self.root.get(path) {
            None => ListSetting::Absent,
            Some(node) => self.list_of(node, path, consequence),
        }
    }

    fn list_of(&mut self, node: &Node, path: &str, consequence: &str) -> ListSetting<At<String>> {
        let items = match &node.value {
            Value::Null => return ListSetting::Absent,
            Value::List(items) => items.iter().map(|item| Some(At { value: name(item)?, place: item.place })),
            _ => {
                self.notices.push(Notice { place: node.place, text: no_list(path, consequence) });
                return ListSetting::Unreadable(node.place);
            }
        };
        match items.collect() {
            Some(names) => ListSetting::Entries(names),
            None => {
                self.notices.push(Notice { place: node.place, text: no_list(path, consequence) });
                ListSetting::Unreadable(node.place)
            }
        }
    }

    /// What cannot be read here may be a rule against a command: then there are no commands.
    fn approvals(&mut self) -> ApprovalSettings {
        self.guarded(&["terminal", "code_execution"], |r| {
            r.section("approvals");
            ApprovalSettings {
                mode: r.approval_mode(),
                timeout: r.count("approvals.timeout", None),
                cron_approves: r.text("approvals.cron_mode", None).map(|mode| {
                    let approves =
                        matches!(mode.value.to_lowercase().as_str(), "approve" | "off" | "allow" | "yes");
                    Given { value: approves, by: mode.by }
                }),
                deny: r.list_or_one("approvals.deny"),
                allowlist: r.guarded(&[], |r| r.list("command_allowlist", None)),
            }
        })
    }

    /// `off` without quotes is `false` in YAML, and is meant.
    fn approval_mode(&mut self) -> Option<Given<ApprovalMode>> {
        let node = self.root.get("approvals.mode").filter(|node| !read::is_nothing(&node.value))?;
        let by = By::File(node.place);
        let mode = match &node.value {
            Value::Bool(false) => Some(ApprovalMode::Off),
            Value::Bool(true) => Some(ApprovalMode::Manual),
            Value::Text(text) => match text.trim().to_lowercase().as_str() {
                "manual" => Some(ApprovalMode::Manual),
                "smart" => Some(ApprovalMode::Smart),
                "off" => Some(ApprovalMode::Off),
                _ => None,
            },
            _ => None,
        };
        if mode.is_none() {
            let text =
                "`approvals.mode` is `manual`, `smart` or `off`; every dangerous command is asked about";
            self.notices.push(Notice { place: node.place, text: text.to_owned() });
        }
        Some(Given { value: mode.unwrap_or(ApprovalMode::Manual), by })
    }

    fn terminal(&mut self) -> TerminalSettings {
        const TOOLS: &[&str] = &["terminal", "code_execution"];
        let (backend, docker_guard) = self.guarded(TOOLS, |r| {
            r.section("terminal");
            let backend = r.backend();
            // What another backend would have used may be as it likes.
            let docker = matches!(&backend, Some(given) if given.value == Backend::Docker);
            (backend, if docker { TOOLS } else { &[] })
        });
        let docker = self.guarded(docker_guard, ToolSettingsReader::docker);
        let terminal = self.guarded(TOOLS, |r| TerminalSettings {
            backend,
            cwd: r.text("terminal.cwd", Some("TERMINAL_CWD")),
            timeout: r.count("terminal.timeout", Some("TERMINAL_TIMEOUT")),
            lifetime_seconds: r.count("terminal.lifetime_seconds", Some("TERMINAL_LIFETIME_SECONDS")),
            daemon_term_grace_seconds: r.number("terminal.daemon_term_grace_seconds", None),
            env_passthrough: r.list("terminal.env_passthrough", None),
            home_mode: r.text("terminal.home_mode", None),
            shell_init_files: r.list("terminal.shell_init_files", None),
            auto_source_bashrc: r.boolean("terminal.auto_source_bashrc", None),
            credential_files: r.list("terminal.credential_files", None),
            docker,
            ssh: SshSettings {
                host: r.text("terminal.ssh_host", Some("TERMINAL_SSH_HOST")),
                user: r.text("terminal.ssh_user", Some("TERMINAL_SSH_USER")),
                port: r.count("terminal.ssh_port", Some("TERMINAL_SSH_PORT")),
                key: r.text("terminal.ssh_key", Some("TERMINAL_SSH_KEY")),
            },
        });
        self.check_backend(&terminal);
        terminal
    }

    fn backend(&mut self) -> Option<Given<Backend>> {
        let written = self.text("terminal.backend", None).or_else(|| self.text("terminal.env_type", None));
        let written = written.or_else(|| self.text("terminal.backend", Some("TERMINAL_ENV")))?;
        let value = match written.value.to_lowercase().as_str() {
            "local" => Backend::Local,
            "docker" => Backend::Docker,
            "ssh" => Backend::Ssh,
            _ => Backend::Other(written.value),
        };
        Some(Given { value, by: written.by })
    }

    /// A sandbox that was asked for and is not there must not become the machine itself. Files count
    /// as well: Hermes reads and writes them through the backend, and our own file tools, which act
    /// on this machine, would be a way round it.
    fn check_backend(&mut self, terminal: &TerminalSettings) {
        let Some(backend) = &terminal.backend else { return };
        const FILES: [&str; 1] = ["file"];
        const ALL: [&str; 3] = ["terminal", "file", "code_execution"];
        let (why, off): (String, &[&'static str]) = match &backend.value {
            Backend::Other(name) => (
                format!("`terminal.backend: {name}` is not supported (there are local, docker and ssh)"),
                &ALL,
            ),
            Backend::Ssh if terminal.ssh.host.is_none() || terminal.ssh.user.is_none() => {
                ("`terminal.backend: ssh` needs `terminal.ssh_host` and `terminal.ssh_user`".to_owned(), &ALL)
            }
            Backend::Docker => ("`terminal.backend: docker` keeps work in a container".to_owned(), &FILES),
            Backend::Ssh => ("`terminal.backend: ssh` keeps work on another machine".to_owned(), &FILES),
            Backend::Local => return,
        };
        for toolset in off {
            self.off.push(Off { toolset, by: backend.by, why: why.clone() });
        }
        let what = if off.len() > 1 {
            "the terminal and file tools are off"
        } else {
            "the file tools are off; use the terminal"
        };
        self.notices.push(Notice { place: place(backend.by), text: format!("{why}: {what}") });
    }

    fn docker(&mut self) -> DockerSettings {
        let r = self;
        DockerSettings {
            image: r.text("terminal.docker_image", Some("TERMINAL_DOCKER_IMAGE")),
            forward_env: r.list("terminal.docker_forward_env", Some("TERMINAL_DOCKER_FORWARD_ENV")),
            env: r.pairs("terminal.docker_env", Some("TERMINAL_DOCKER_ENV")),
            volumes: r.list("terminal.docker_volumes", Some("TERMINAL_DOCKER_VOLUMES")),
            mount_cwd_to_workspace: r.boolean(
                "terminal.docker_mount_cwd_to_workspace",
                Some("TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE"),
            ),
            network: r.boolean("terminal.docker_network", Some("TERMINAL_DOCKER_NETWORK")),
            extra_args: r.list("terminal.docker_extra_args", Some("TERMINAL_DOCKER_EXTRA_ARGS")),
            run_as_host_user: r
                .boolean("terminal.docker_run_as_host_user", Some("TERMINAL_DOCKER_RUN_AS_HOST_USER")),
            persist_across_processes: r.boolean(
                "terminal.docker_persist_across_processes",
                Some("TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES"),
            ),
            orphan_reaper: r.boolean("terminal.docker_orphan_reaper", Some("TERMINAL_DOCKER_ORPHAN_REAPER")),
            cpu: r.number("terminal.container_cpu", Some("TERMINAL_CONTAINER_CPU")),
            memory: r.count("terminal.container_memory", Some("TERMINAL_CONTAINER_MEMORY")),
            disk: r.count("terminal.container_disk", Some("TERMINAL_CONTAINER_DISK")),
            persistent: r.boolean("terminal.container_persistent", Some("TERMINAL_CONTAINER_PERSISTENT")),
        }
    }

    fn skills(&mut self) -> SkillSettings {
        self.guarded(&["skills"], |r| {
            r.section("skills");
            SkillSettings {
                external_dirs: r.list_or_one("skills.external_dirs"),
                disabled: r.list_or_one("skills.disabled"),
                platform_disabled: r.platform_disabled(),
                template_vars: r.boolean("skills.template_vars", None),
                inline_shell: r.boolean("skills.inline_shell", None),
                inline_shell_timeout: r.count("skills.inline_shell_timeout", None),
                guard_agent_created: r.boolean("skills.guard_agent_created", None),
                write_approval: r.boolean("skills.write_approval", None),
            }
        })
    }

    fn platform_disabled(&mut self) -> Vec<(String, Vec<String>)> {
        self.section("skills.platform_disabled");
        let root = self.root;
        let entries = root.get("skills.platform_disabled").map(Node::entries).unwrap_or_default();
        let named = entries.iter().map(|entry| {
            let path = format!("skills.platform_disabled.{}", entry.key);
            (entry.key.clone(), self.list_in(&entry.node, &path, true))
        });
        named.collect()
    }

    fn memory(&mut self) -> MemorySettings {
        self.guarded(&["memory"], |r| {
            r.section("memory");
            r.section("honcho");
            MemorySettings {
                memory_enabled: r.boolean("memory.memory_enabled", None),
                user_profile_enabled: r.boolean("memory.user_profile_enabled", None),
                write_approval: r.boolean("memory.write_approval", None),
                memory_char_limit: r.count("memory.memory_char_limit", None),
                user_char_limit: r.count("memory.user_char_limit", None),
                provider: r.text("memory.provider", None),
                honcho_base_url: r.text("honcho.base_url", None),
                honcho_timeout: r
                    .number("honcho.timeout", None)
                    .or_else(|| r.number("honcho.request_timeout", None)),
            }
        })
    }

    fn delegation(&mut self) -> DelegationSettings {
        self.guarded(&["delegation"], |r| {
            r.section("delegation");
            DelegationSettings {
                max_iterations: r.count("delegation.max_iterations", None),
                max_concurrent_children: r
                    .count("delegation.max_concurrent_children", Some("DELEGATION_MAX_CONCURRENT_CHILDREN")),
                max_spawn_depth: r.count("delegation.max_spawn_depth", None),
                orchestrator_enabled: r.boolean("delegation.orchestrator_enabled", None),
                inherit_mcp_toolsets: r.boolean("delegation.inherit_mcp_toolsets", None),
                subagent_auto_approve: r.boolean("delegation.subagent_auto_approve", None),
            }
        })
    }

    fn output(&mut self) -> Output {
        Output {
            max_bytes: self.count("tool_output.max_bytes", None),
            max_lines: self.count("tool_output.max_lines", None),
            max_line_length: self.count("tool_output.max_line_length", None),
            file_read_max_chars: self.count("file_read_max_chars", None),
            context_file_max_chars: self.count("context_file_max_chars", None),
        }
    }

    fn security(&mut self) -> Security {
        Security {
            redact_secrets: self.boolean("security.redact_secrets", Some("HERMES_REDACT_SECRETS")),
            tirith_enabled: self.boolean("security.tirith_enabled", None),
            tirith_fail_open: self.boolean("security.tirith_fail_open", None),
        }
    }

    // ------------------------------------------------------------------------------ plain values

    /// While this runs, what cannot be read switches `toolsets` off.
    fn guarded<T>(&mut self, toolsets: &'static [&'static str], read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.guarding, toolsets);
        let value = read(self);
        self.guarding = outer;
        value
    }

    /// A section that is no mapping has no meaning.
    fn section(&mut self, path: &str) {
        let root = self.root;
        if let Some(node) = root.get(path)
            && !matches!(node.value, Value::Map(_))
            && !read::is_nothing(&node.value)
        {
            self.wrong(path, By::File(node.place), "a mapping of settings");
        }
    }

    fn text(&mut self, path: &str, variable: Option<&'static str>) -> Option<Given<String>> {
        let given = self.value(path, variable, read::as_text, "text")?;
        if let (Some((_, name)), By::File(place)) = (reference(&given.value), given.by) {
            let text = format!("`{path}` refers to `${{{name}}}`, which is not set");
            self.notices.push(Notice { place, text });
        }
        Some(given)
    }

    fn count(&mut self, path: &str, variable: Option<&'static str>) -> Option<Given<u64>> {
        self.value(path, variable, read::as_count, read::COUNT)
    }

    fn number(&mut self, path: &str, variable: Option<&'static str>) -> Option<Given<f64>> {
        self.value(path, variable, read::as_number, read::NUMBER)
    }

    fn boolean(&mut self, path: &str, variable: Option<&'static str>) -> Option<Given<bool>> {
        self.value(path, variable, read::as_boolean, read::BOOLEAN)
    }

    fn value<T>(
        &mut self,
        path: &str,
        variable: Option<&'static str>,
        read: fn(&Value) -> Option<T>,
        expected: &str,
    ) -> Option<Given<T>> {
        let (value, by) = match self.root.get(path).filter(|node| !read::is_nothing(&node.value)) {
            Some(node) => (read(&node.value), By::File(node.place)),
            None => {
                let name = variable?;
                let text = (self.variable)(name).filter(|text| !text.trim().is_empty())?;
                (read(&Value::Text(text)), By::Variable(name))
            }
        };
        match value {
            Some(value) => Some(Given { value, by }),
            None => {
                self.wrong(path, by, expected);
                None
            }
        }
    }

    fn list(&mut self, path: &str, variable: Option<&'static str>) -> Vec<String> {
        match self.node(path, variable) {
            Some((node, By::File(_))) => self.list_in(&node, path, false),
            Some((node, by)) => match self.noted(path, by, strings(&node)) {
                Some(items) => items,
                None => self.nothing_but_wrong(path, by, "a list"),
            },
            None => Vec::new(),
        }
    }

    /// Where Hermes takes one entry for a list of one.
    fn list_or_one(&mut self, path: &str) -> Vec<String> {
        let root = self.root;
        root.get(path).map(|node| self.list_in(node, path, true)).unwrap_or_default()
    }

    fn list_in(&mut self, node: &Node, path: &str, one_is_enough: bool) -> Vec<String> {
        let items = match &node.value {
            Value::Null => Some(Vec::new()),
            Value::Text(text) if text.trim().is_empty() => Some(Vec::new()),
            Value::Text(text) if one_is_enough => Some(vec![text.trim().to_owned()]),
            _ => strings(node),
        };
        match self.noted(path, By::File(node.place), items) {
            Some(items) => items,
            None => self.nothing_but_wrong(path, By::File(node.place), "a list"),
        }
    }

    fn pairs(&mut self, path: &str, variable: Option<&'static str>) -> Vec<(String, Secret)> {
        let Some((node, by)) = self.node(path, variable) else { return Vec::new() };
        match self.noted(path, by, secrets(&node)) {
            Some(pairs) => pairs,
            None => self.nothing_but_wrong(path, by, "a mapping of names and values"),
        }
    }

    /// A command that shows a list can say where it stands.
    fn noted<T>(&mut self, path: &str, by: By, list: T) -> T {
        self.lists.push((path.to_owned(), by));
        list
    }

    /// What is written, or a variable that holds it as JSON, which is YAML.
    fn node(&self, path: &str, variable: Option<&'static str>) -> Option<(Node, By)> {
        if let Some(node) = self.root.get(path).filter(|node| !read::is_nothing(&node.value)) {
            return Some((node.clone(), By::File(node.place)));
        }
        let name = variable?;
        let text = (self.variable)(name).filter(|text| !text.trim().is_empty())?;
        let parsed = tree::parse(&format!("value: {text}\n")).ok();
        let value = parsed.and_then(|document| document.root.get("value").cloned());
        let unreadable = Node { value: Value::Text(text), ..self.root.clone() };
        Some((value.unwrap_or(unreadable), By::Variable(name)))
    }

    fn nothing_but_wrong<T: Default>(&mut self, path: &str, by: By, expected: &str) -> T {
        self.wrong(path, by, expected);
        T::default()
    }

    fn wrong(&mut self, path: &str, by: By, expected: &str) {
        let who = match by {
            By::File(_) => format!("`{path}`"),
            By::Variable(name) => format!("{name} (`{path}`)"),
        };
        let why = format!("{who} takes {expected}");
        let consequence = match self.guarding {
            [] => "what is written is not used".to_owned(),
            toolsets => format!("the toolset `{}` is off until it is corrected", toolsets[0]),
        };
        self.notices.push(Notice { place: place(by), text: format!("{why}; {consequence}") });
        for toolset in self.guarding {
            self.off.push(Off { toolset, by, why: why.clone() });
        }
    }
}

/// Variables have no place in the file: what is said about them stands at its top.
fn place(by: By) -> Place {
    match by {
        By::File(place) => place,
        By::Variable(_) => Place { line: 1, column: 1 },
    }
}

fn no_list(path: &str, consequence: &str) -> String {
    format!("`{path}` takes a list of names; {consequence}")
}

/// As Hermes: what is a number in YAML is a name by its digits.
fn name(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        other => read::as_text(other),
    }
}

/// Empty entries are dropped.
fn strings(node: &Node) -> Option<Vec<String>> {
    let Value::List(items) = &node.value else { return None };
    let items = items.iter().filter(|item| !read::is_nothing(&item.value));
    items.map(|item| read::as_text(&item.value)).collect()
}

fn secrets(node: &Node) -> Option<Vec<(String, Secret)>> {
    let Value::Map(entries) = &node.value else { return None };
    let entries = entries.iter().filter(|entry| entry.node.value != Value::Null);
    entries
        .map(|entry| match &entry.node.value {
            Value::Text(text) => Some((entry.key.clone(), Secret::new(text.as_str()))),
            other => Some((entry.key.clone(), Secret::new(read::as_text(other)?))),
        })
        .collect()
}

#[cfg(test)]
mod tests;
