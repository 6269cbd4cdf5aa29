//! What holds for tools, line by line, for `throughline config`.
//!
//! Only what is configured is shown, and what follows for each platform: defaults are not known here.
//! Secrets show their length.

use super::*;
use crate::toolset::Toolsets;
use std::fmt;

/// One line: a setting or a consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRow {
    pub name: String,
    pub value: String,
    /// None: it is not configured; it follows from defaults.
    pub by: Option<By>,
}

/// The groups that have tools in this program. Hermes has more, and switches them on by default.
const HERE: [&str; 9] =
    ["clarify", "delegation", "file", "memory", "messaging", "session_search", "skills", "terminal", "todo"];

/// The surfaces that every home has.
const PLATFORMS: [&str; 2] = ["cli", "api_server"];

impl Tools {
    pub fn rows(&self) -> Vec<ReportRow> {
        let mut rows = ReportRows { rows: Vec::new(), lists: &self.lists };
        self.toolset_rows(&mut rows);
        self.server_rows(&mut rows);
        self.approvals.rows(&mut rows);
        self.terminal.rows(&mut rows);
        self.skills.rows(&mut rows);
        self.memory.rows(&mut rows);
        self.delegation.rows(&mut rows);
        rows.given("agent.clarify_timeout", &self.clarify_timeout);
        self.limit_rows(&mut rows);
        rows.rows
    }

    fn toolset_rows(&self, rows: &mut ReportRows<'_>) {
        let written: &[(String, ListSetting<At<String>>)] = match &self.switches.platforms {
            ListSetting::Entries(lists) => lists,
            _ => &[],
        };
        let mut platforms: Vec<&str> = PLATFORMS.to_vec();
        platforms
            .extend(written.iter().map(|(name, _)| name.as_str()).filter(|name| !PLATFORMS.contains(name)));
        for platform in platforms {
            let list = written.iter().find(|(name, _)| name == platform).map(|(_, list)| list);
            let by = list.and_then(place_of).map(By::File);
            let toolsets = Toolsets::for_platform(&self.switches, platform);
            let (here, absent): (Vec<String>, Vec<String>) = toolsets
                .names()
                .into_iter()
                .map(|name| name.to_string())
                .partition(|name| HERE.contains(&name.as_str()) || self.switches.servers.contains(name));
            rows.add(&format!("tools on {platform}"), or_nothing(&here.join(", ")), by);
            if !absent.is_empty() && by.is_some() {
                rows.add(&format!("not here, on {platform}"), absent.join(", "), by);
            }
        }
        if let ListSetting::Entries(names) = &self.switches.disabled {
            let shown: Vec<_> = names.iter().map(|at| at.value.as_str()).collect();
            let by = names.first().map(|at| By::File(at.place));
            rows.add("agent.disabled_toolsets", or_nothing(&shown.join(", ")), by);
        }
        let mut told: Vec<&str> = Vec::new();
        for off in &self.switches.off {
            if !told.contains(&off.toolset) {
                rows.add(&format!("toolset {}", off.toolset), format!("off: {}", off.why), Some(off.by));
                told.push(off.toolset);
            }
        }
    }

    fn server_rows(&self, rows: &mut ReportRows<'_>) {
        for server in &self.servers {
            let state = if server.enabled { "on" } else { "off" };
            let transport = match server.transport {
                Transport::Stdio { .. } => "stdio",
                Transport::Http(_) => "http",
                Transport::Sse(_) => "sse",
                Transport::None => "no transport",
            };
            let by = Some(By::File(server.place));
            rows.add(&format!("mcp_servers.{}", server.name), format!("{state}, {transport}"), by);
        }
    }

    fn limit_rows(&self, rows: &mut ReportRows<'_>) {
        rows.given("tool_output.max_bytes", &self.output.max_bytes);
        rows.given("tool_output.max_lines", &self.output.max_lines);
        rows.given("tool_output.max_line_length", &self.output.max_line_length);
        rows.given("file_read_max_chars", &self.output.file_read_max_chars);
        rows.given("context_file_max_chars", &self.output.context_file_max_chars);
        rows.given("security.redact_secrets", &self.security.redact_secrets);
    }
}

impl ApprovalSettings {
    fn rows(&self, rows: &mut ReportRows<'_>) {
        rows.given("approvals.mode", &self.mode);
        rows.given("approvals.timeout", &self.timeout);
        let cron = self.cron_approves.as_ref();
        let cron =
            cron.map(|given| Given { value: if given.value { "approve" } else { "deny" }, by: given.by });
        rows.given("approvals.cron_mode", &cron);
        rows.list("approvals.deny", &self.deny);
        rows.list("command_allowlist", &self.allowlist);
    }
}

impl TerminalSettings {
    fn rows(&self, rows: &mut ReportRows<'_>) {
        rows.given("terminal.backend", &self.backend);
        rows.given("terminal.cwd", &self.cwd);
        rows.given("terminal.timeout", &self.timeout);
        rows.given("terminal.lifetime_seconds", &self.lifetime_seconds);
        rows.given("terminal.daemon_term_grace_seconds", &self.daemon_term_grace_seconds);
        rows.list("terminal.env_passthrough", &self.env_passthrough);
        rows.given("terminal.home_mode", &self.home_mode);
        rows.list("terminal.shell_init_files", &self.shell_init_files);
        rows.given("terminal.auto_source_bashrc", &self.auto_source_bashrc);
        rows.list("terminal.credential_files", &self.credential_files);
        rows.given("terminal.ssh_host", &self.ssh.host);
        rows.given("terminal.ssh_user", &self.ssh.user);
        rows.given("terminal.ssh_port", &self.ssh.port);
        rows.given("terminal.ssh_key", &self.ssh.key);
        self.docker.rows(rows);
    }
}

impl DockerSettings {
    fn rows(&self, rows: &mut ReportRows<'_>) {
        rows.given("terminal.docker_image", &self.image);
        rows.list("terminal.docker_forward_env", &self.forward_env);
        let names: Vec<String> = self.env.iter().map(|(name, _)| name.clone()).collect();
        rows.list("terminal.docker_env", &names);
        rows.list("terminal.docker_volumes", &self.volumes);
        rows.given("terminal.docker_mount_cwd_to_workspace", &self.mount_cwd_to_workspace);
        rows.given("terminal.docker_network", &self.network);
        rows.list("terminal.docker_extra_args", &self.extra_args);
        rows.given("terminal.docker_run_as_host_user", &self.run_as_host_user);
        rows.given("terminal.docker_persist_across_processes", &self.persist_across_processes);
        rows.given("terminal.docker_orphan_reaper", &self.orphan_reaper);
        rows.given("terminal.container_cpu", &self.cpu);
        rows.given("terminal.container_memory", &self.memory);
        rows.given("terminal.container_disk", &self.disk);
        rows.given("terminal.container_persistent", &self.persistent);
    }
}

impl SkillSettings {
    fn rows(&self, rows: &mut ReportRows<'_>) {
        rows.list("skills.external_dirs", &self.external_dirs);
        rows.list("skills.disabled", &self.disabled);
        for (platform, names) in &self.platform_disabled {
            rows.list(&format!("skills.platform_disabled.{platform}"), names);
        }
        rows.given("skills.template_vars", &self.template_vars);
        rows.given("skills.inline_shell", &self.inline_shell);
        rows.given("skills.inline_shell_timeout", &self.inline_shell_timeout);
        rows.given("skills.guard_agent_created", &self.guard_agent_created);
        rows.given("skills.write_approval", &self.write_approval);
    }
}

impl MemorySettings {
    fn rows(&self, rows: &mut ReportRows<'_>) {
        rows.given("memory.memory_enabled", &self.memory_enabled);
        rows.given("memory.user_profile_enabled", &self.user_profile_enabled);
        rows.given("memory.write_approval", &self.write_approval);
        rows.given("memory.memory_char_limit", &self.memory_char_limit);
        rows.given("memory.user_char_limit", &self.user_char_limit);
        rows.given("memory.provider", &self.provider);
        rows.given("honcho.base_url", &self.honcho_base_url);
        rows.given("honcho.timeout", &self.honcho_timeout);
    }
}

impl DelegationSettings {
    fn rows(&self, rows: &mut ReportRows<'_>) {
        rows.given("delegation.max_iterations", &self.max_iterations);
        rows.given("delegation.max_concurrent_children", &self.max_concurrent_children);
        rows.given("delegation.max_spawn_depth", &self.max_spawn_depth);
        rows.given("delegation.orchestrator_enabled", &self.orchestrator_enabled);
        rows.given("delegation.inherit_mcp_toolsets", &self.inherit_mcp_toolsets);
        rows.given("delegation.subagent_auto_approve", &self.subagent_auto_approve);
    }
}

impl fmt::Display for ApprovalMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ApprovalMode::Manual => "manual",
            ApprovalMode::Smart => "smart",
            ApprovalMode::Off => "off",
        })
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Backend::Local => "local",
            Backend::Docker => "docker",
            Backend::Ssh => "ssh",
            Backend::Other(name) => name,
        })
    }
}

struct ReportRows<'a> {
    rows: Vec<ReportRow>,
    lists: &'a [(String, By)],
}

impl ReportRows<'_> {
    fn add(&mut self, name: &str, value: String, by: Option<By>) {
        self.rows.push(ReportRow { name: name.to_owned(), value, by });
    }

    fn given<T: fmt::Display>(&mut self, name: &str, given: &Option<Given<T>>) {
        if let Some(given) = given {
            self.add(name, given.value.to_string(), Some(given.by));
        }
    }

    fn list(&mut self, name: &str, entries: &[String]) {
        if !entries.is_empty() {
            let by = self.lists.iter().find(|(path, _)| path == name).map(|(_, by)| *by);
            self.add(name, entries.join(", "), by);
        }
    }
}

fn place_of(list: &ListSetting<At<String>>) -> Option<Place> {
    match list {
        ListSetting::Absent => None,
        ListSetting::Entries(names) => names.first().map(|at| at.place),
        ListSetting::Unreadable(place) => Some(*place),
    }
}

fn or_nothing(text: &str) -> String {
    if text.is_empty() { "none".to_owned() } else { text.to_owned() }
}
