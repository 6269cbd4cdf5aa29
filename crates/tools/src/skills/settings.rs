//! What a user has set about skills, as plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Hermes' `skills:` section of `config.yaml`, and what else decides about skills. A value that was
/// not written has Hermes' default, as [`SkillSettings::of`] gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillSettings {
    /// The home of the agent. Its own skills are in `skills/` there; `.env` and `pending/` too.
    pub home: PathBuf,
    /// What users call that home: `~/.hermes`.
    pub shown_home: String,
    /// `skills.external_dirs`, with `~` and `${VAR}` replaced. Relative ones count from the home.
    pub external_dirs: Vec<PathBuf>,
    /// `skills.disabled`.
    pub disabled: Vec<String>,
    /// `skills.platform_disabled.<platform>`; adds to `disabled`.
    pub platform_disabled: BTreeMap<String, Vec<String>>,
    /// `skills.template_vars`: `${HERMES_SKILL_DIR}` and `${HERMES_SESSION_ID}` are replaced.
    pub template_vars: bool,
    /// `skills.inline_shell`: a skill's ``!`command` `` runs when it is viewed, and its output
    /// takes the place of the command.
    pub inline_shell: bool,
    /// `skills.inline_shell_timeout`, for each command.
    pub inline_shell_timeout_seconds: u64,
    /// `skills.guard_agent_created`: what the agent writes is scanned first.
    pub guard_agent_created: bool,
    /// `skills.write_approval`: what the agent writes is put aside until a person approves it.
    pub write_approval: bool,
    /// `terminal.backend`: where a skill's commands would run.
    pub terminal_backend: String,
    /// Names of the process's environment variables that have a value. Never the values. Those of
    /// the home's `.env` are read when a skill is viewed.
    pub variables: BTreeSet<String>,
    /// Which of `kanban`, `docker` and `s6` this process runs in: what a skill's `environments`
    /// are compared with.
    pub environments: BTreeSet<String>,
}

impl SkillSettings {
    /// Hermes' defaults for a home.
    pub fn of(home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        Self {
            shown_home: home.display().to_string(),
            home,
            external_dirs: Vec::new(),
            disabled: Vec::new(),
            platform_disabled: BTreeMap::new(),
            template_vars: true,
            inline_shell: false,
            inline_shell_timeout_seconds: 10,
            guard_agent_created: false,
            write_approval: false,
            terminal_backend: "local".to_owned(),
            variables: BTreeSet::new(),
            environments: BTreeSet::new(),
        }
    }

    /// The environments that leave marks in the file system: containers, and Hermes' own image.
    pub fn detect_environments() -> BTreeSet<String> {
        let exists = |path: &str| Path::new(path).exists();
        let in_cgroup = || {
            let cgroup = std::fs::read_to_string("/proc/1/cgroup").unwrap_or_default();
            let runtimes = ["docker", "podman", "/lxc/", "kubepods", "containerd", "crio"];
            runtimes.iter().any(|runtime| cgroup.contains(runtime))
        };
        let mut found = BTreeSet::new();
        if exists("/.dockerenv") || exists("/run/.containerenv") || in_cgroup() {
            found.insert("docker".to_owned());
        }
        if exists("/run/s6") || exists("/package/admin/s6-overlay") {
            found.insert("s6".to_owned());
        }
        found
    }

    pub fn skills_dir(&self) -> PathBuf {
        self.home.join("skills")
    }

    /// Which profile of a Hermes root the home is: `<root>/profiles/<name>`, or `default`.
    pub fn profile(&self) -> String {
        let parent = self.home.parent().and_then(Path::file_name);
        let name = self.home.file_name().filter(|_| parent.is_some_and(|parent| parent == "profiles"));
        name.map_or_else(|| "default".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// The home of all profiles.
    pub fn root(&self) -> &Path {
        match self.profile().as_str() {
            "default" => &self.home,
            _ => self.home.ancestors().nth(2).unwrap_or(&self.home),
        }
    }

    /// Whether a skill of this name is switched off where `source` is.
    pub fn is_disabled(&self, name: &str, source: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|entry| entry.trim() == name);
        listed(&self.disabled) || self.platform_disabled.get(source).is_some_and(|list| listed(list))
    }
}
