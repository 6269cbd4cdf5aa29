//! Which tools are on, decided as Hermes 0.19 decides it, from what `config.yaml` says.
//!
//! - `platform_toolsets.<platform>` is a list of toolsets; without it a platform has its default
//! - `agent.disabled_toolsets` comes last, on every platform, and takes a toolset's tools out of
//!   even if another toolset holds them. (Hermes' API server forgets that second half; here it does not.)
//! - MCP servers are toolsets by their own names: all of them, or those that a list names, or none
//!   where it says `no_mcp`. A server that is called like a toolset does not switch that one on,
//!   as it would in Hermes
//! - what cannot be read switches off, never on: a list that is no list leaves its platform without
//!   tools, where Hermes would fall back on everything
//! - an unknown name switches nothing, and is a [`Notice`]
//! - `toolsets:` at the top has no effect, in Hermes as here
//!
//! Hermes 0.14 differs in three ways that matter: a webhook had all tools there (0.19 leaves it the
//! harmless ones, and so do we), `messaging` existed (so it does here), and a native Discord toolset
//! was off even where a list asked for `hermes-discord`.
//!
//! Deliberately absent: Hermes' plugins, `agent.coding_context: focus`, and whether a tool exists.

mod table;

use crate::config::{ListSetting, Notice, Switches};
use std::collections::BTreeSet;
use table::{
    CONFIGURABLE, CORE, LEGACY, OFF_BY_DEFAULT, PLATFORMS, PLUGIN_PLATFORMS, RESTRICTED, TOOLSETS, Toolset,
};

/// The prefix by which the tools of an MCP server are grouped: `mcp-<server>`.
pub const MCP: &str = "mcp-";

/// Tools that a session which works for another one never has.
pub const NOT_FOR_CHILDREN: [&str; 6] =
    ["delegate_task", "clarify", "memory", "send_message", "execute_code", "cronjob"];

/// What a scheduled job never has: no person is there to answer, and jobs breed no jobs.
const NOT_FOR_CRON: [&str; 3] = ["cronjob", "messaging", "clarify"];

/// The tools that are on somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolsets {
    names: BTreeSet<String>,
    servers: BTreeSet<String>,
    on: ToolSelection,
    off: ToolSelection,
    child: Option<Child>,
}

/// What a child session may have of what its parent's place has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Child {
    /// None: all of it.
    pub toolsets: Option<Vec<String>>,
    /// It keeps `delegate_task`.
    pub may_delegate: bool,
    /// It keeps the MCP servers, even where `toolsets` does not name them.
    pub inherits_servers: bool,
}

/// A set of tools, some of which are known by their group only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ToolSelection {
    everything: bool,
    tools: BTreeSet<&'static str>,
    groups: BTreeSet<String>,
}

impl Toolsets {
    /// What is on at `platform`: `cli`, `api_server`, `telegram` … An unknown platform has
    /// the MCP servers and nothing else.
    pub fn for_platform(switches: &Switches, platform: &str) -> Self {
        let platform = key(platform);
        let Some(selection) = Selection::read(switches, platform) else { return Self::default() };
        let Some(disabled) = disabled(switches, platform) else { return Self::default() };
        let mut names = selection.toolsets();
        let mut servers = selection.servers();
        for name in &disabled {
            names.remove(name);
            servers.remove(name);
        }
        let mut on = ToolSelection::default();
        names.iter().for_each(|name| on.add(name));
        on.groups.extend(servers.iter().map(|server| format!("{MCP}{server}")));
        let mut off = ToolSelection::default();
        disabled.iter().for_each(|name| off.add_disabled(name));
        // A feature whose settings cannot be read is off as a whole.
        for feature in &switches.off {
            names.remove(feature.toolset);
            off.add(feature.toolset);
        }
        Self { names, servers, on, off, child: None }
    }

    /// The same for a session that works for one that has these.
    pub fn for_child(&self, child: Child) -> Self {
        Self { child: Some(child), ..self.clone() }
    }

    /// Whether a tool that belongs to `toolset` is on.
    pub fn allows(&self, tool: &str, toolset: &str) -> bool {
        self.on.holds(tool, toolset)
            && !self.off.holds(tool, toolset)
            && self.child.as_ref().is_none_or(|child| child.allows(tool, toolset))
    }

    /// The toolsets that are on, MCP servers included, as Hermes lists them.
    pub fn names(&self) -> BTreeSet<&str> {
        self.names.iter().chain(&self.servers).map(String::as_str).collect()
    }
}

impl Child {
    fn allows(&self, tool: &str, toolset: &str) -> bool {
        let forbidden = NOT_FOR_CHILDREN.contains(&tool) && !(tool == "delegate_task" && self.may_delegate);
        let within = self.toolsets.as_ref().is_none_or(|names| {
            let mut wanted = ToolSelection::default();
            names.iter().for_each(|name| wanted.add(name));
            wanted.holds(tool, toolset) || (self.inherits_servers && toolset.starts_with(MCP))
        });
        within && !forbidden
    }
}

impl ToolSelection {
    fn holds(&self, tool: &str, toolset: &str) -> bool {
        self.everything || self.tools.contains(tool) || self.groups.contains(toolset)
    }

    /// What a name stands for: a toolset of the table, an older name, or a server.
    fn add(&mut self, name: &str) {
        if is_everything(name) {
            self.everything = true;
            return;
        }
        match find(name) {
            Some(_) => {
                self.tools.extend(tools_of(name));
                self.groups.extend(closure(name).into_iter().map(str::to_owned));
            }
            None => self.tools.extend(legacy(name)),
        }
        // Grouped under this very name, or as the server of this name.
        self.groups.insert(name.to_owned());
        if find(name).is_none() {
            self.groups.insert(format!("{MCP}{name}"));
        }
    }

    /// A platform's bundle that is switched off takes its own tools along and leaves the common
    /// ones, which other toolsets hold, too.
    fn add_disabled(&mut self, name: &str) {
        let bundle = find(name).filter(|set| set.posture || set.name.starts_with("hermes-"));
        match bundle {
            None => self.add(name),
            Some(set) => {
                let included = set.includes.iter().filter_map(|name| find(name));
                let own = included.chain([set]).flat_map(|set| set.tools.iter().copied());
                self.tools.extend(own.filter(|tool| !CORE.contains(tool)));
            }
        }
        if find(name).is_some() {
            self.groups.insert(format!("{MCP}{name}"));
        }
    }
}

// ---------------------------------------------------------------------------- what a platform has

/// What was asked for at one platform.
struct Selection<'a> {
    platform: &'a str,
    names: Vec<String>,
    /// The user wrote the list; it is not the platform's default.
    written: bool,
    switches: &'a Switches,
}

impl<'a> Selection<'a> {
    /// None if there is a list and it cannot be read.
    fn read(switches: &'a Switches, platform: &'a str) -> Option<Self> {
        let list = match &switches.platforms {
            ListSetting::Unreadable(_) => return None,
            ListSetting::Absent => None,
            ListSetting::Entries(entries) => {
                entries.iter().find(|(name, _)| name == platform).map(|(_, list)| list)
            }
        };
        let (names, written) = match list {
            Some(ListSetting::Unreadable(_)) => return None,
            Some(ListSetting::Entries(names)) => (names.iter().map(|at| at.value.clone()).collect(), true),
            Some(ListSetting::Absent) | None => (vec![default_of(platform)], false),
        };
        Some(Self { platform, names, written, switches })
    }

    fn toolsets(&self) -> BTreeSet<String> {
        let mut names = match self.names.iter().any(|name| is_configurable(name)) {
            true => self.ticked(),
            false => self.inferred(),
        };
        self.add_native(&mut names);
        let engine = self.switches.context_engine.as_deref().unwrap_or("compressor");
        if engine != "compressor" && !self.names.is_empty() {
            names.insert("context_engine".to_owned());
        }
        names.extend(self.passed_on().filter(|name| *name != "no_mcp").map(str::to_owned));
        names
    }

    fn servers(&self) -> BTreeSet<String> {
        let enabled = &self.switches.servers;
        if self.names.iter().any(|name| name == "no_mcp") {
            return BTreeSet::new();
        }
        let named: BTreeSet<String> = self
            .names
            .iter()
            .filter(|name| enabled.contains(name) && find(name).is_none())
            .cloned()
            .collect();
        match named.is_empty() {
            true => enabled.iter().cloned().collect(),
            false => named,
        }
    }

    /// The list names toolsets that can be ticked: those, and what a bundle beside them stands for.
    fn ticked(&self) -> BTreeSet<String> {
        let bundles = self.names.iter().filter(|name| !is_configurable(name) && find(name).is_some());
        let tools: BTreeSet<_> = bundles.flat_map(|name| tools_of(name)).collect();
        let mut names: BTreeSet<String> =
            self.names.iter().filter(|name| is_configurable(name) && self.fits(name)).cloned().collect();
        if !tools.is_empty() {
            names.extend(self.held_by(&tools));
        }
        names
    }

    /// The list names bundles only: the toolsets whose tools they hold.
    fn inferred(&self) -> BTreeSet<String> {
        let tools: BTreeSet<_> = self.names.iter().flat_map(|name| resolved(name)).collect();
        let mut names = self.held_by(&tools);
        if self.switches.has_xai {
            names.insert("x_search".to_owned());
        }
        names
    }

    fn held_by(&self, tools: &BTreeSet<&'static str>) -> BTreeSet<String> {
        let held = |name: &&&str| {
            let own = tools_of(name);
            !own.is_empty() && own.is_subset(tools) && self.fits(name) && !self.is_off_by_default(name)
        };
        CONFIGURABLE.iter().filter(held).map(|name| (*name).to_owned()).collect()
    }

    /// Toolsets that cannot be ticked and the platform's bundle holds.
    fn add_native(&self, names: &mut BTreeSet<String>) {
        let universe: BTreeSet<_> = resolved(&default_of(self.platform)).into_iter().collect();
        let tickable: BTreeSet<_> = CONFIGURABLE.iter().flat_map(|name| tools_of(name)).collect();
        let mut claimed: BTreeSet<_> = names.iter().flat_map(|name| resolved(name)).collect();
        for set in TOOLSETS {
            let skipped = is_configurable(set.name)
                || set.name.starts_with("hermes-")
                || set.posture
                || !set.includes.is_empty();
            let own = tools_of(set.name);
            if skipped || own.is_empty() || !own.is_subset(&universe) || own.is_subset(&tickable) {
                continue;
            }
            if !own.is_subset(&claimed) {
                names.insert(set.name.to_owned());
                claimed.extend(own);
            }
        }
    }

    /// Names that are neither ticked nor a platform's default stand for themselves.
    fn passed_on(&self) -> impl Iterator<Item = &str> {
        let is_default = |name: &str| PLATFORMS.iter().any(|(_, default)| *default == name);
        let is_server =
            |name: &str| self.switches.servers.iter().any(|server| server == name) && find(name).is_none();
        let names = self.names.iter().map(String::as_str);
        names.filter(move |name| !is_configurable(name) && !is_default(name) && !is_server(name))
    }

    fn fits(&self, name: &str) -> bool {
        let restricted = RESTRICTED.iter().filter(|(toolset, _)| *toolset == name);
        restricted.into_iter().all(|(_, platform)| *platform == self.platform)
    }

    fn is_off_by_default(&self, name: &str) -> bool {
        let restriction = RESTRICTED.iter().find(|(toolset, _)| *toolset == name);
        let asked_for = match restriction {
            Some((_, platform)) => self.written && *platform == self.platform,
            None => name == self.platform || (name == "homeassistant" && self.switches.has_home_assistant),
        };
        OFF_BY_DEFAULT.contains(&name) && !asked_for
    }
}

/// None if there is something to switch off and it cannot be read.
fn disabled(switches: &Switches, platform: &str) -> Option<Vec<String>> {
    let mut names: Vec<String> = match &switches.disabled {
        ListSetting::Unreadable(_) => return None,
        ListSetting::Absent => Vec::new(),
        ListSetting::Entries(names) => names.iter().map(|at| at.value.trim().to_owned()).collect(),
    };
    if platform == "cron" {
        names.extend(NOT_FOR_CRON.map(str::to_owned));
    }
    Some(names)
}

/// The terminal and its older names are one platform.
fn key(platform: &str) -> &str {
    match platform {
        "local" | "tui" => "cli",
        other => other,
    }
}

fn default_of(platform: &str) -> String {
    match PLATFORMS.iter().find(|(name, _)| *name == platform) {
        Some((_, default)) => (*default).to_owned(),
        None => format!("hermes-{platform}"),
    }
}

// ---------------------------------------------------------------------------------- what is known

/// What a reader of the settings should know about the names in them.
pub fn notices(switches: &Switches) -> Vec<Notice> {
    let mut notices = Vec::new();
    let servers = &switches.servers;
    if let ListSetting::Entries(platforms) = &switches.platforms {
        for (platform, list) in platforms {
            let ListSetting::Entries(names) = list else { continue };
            for at in names.iter().filter(|at| !is_known(&at.value, servers)) {
                let text = unknown(&format!("platform_toolsets.{platform}"), &at.value);
                notices.push(Notice { place: at.place, text });
            }
            for at in names.iter().filter(|at| misplaced(&at.value, key(platform))) {
                let text = format!("`{}` has no effect on {platform}", at.value);
                notices.push(Notice { place: at.place, text });
            }
        }
    }
    if let ListSetting::Entries(names) = &switches.disabled {
        for at in names.iter().filter(|at| !is_known(at.value.trim(), servers) || at.value == "no_mcp") {
            let text = unknown("agent.disabled_toolsets", &at.value);
            notices.push(Notice { place: at.place, text });
        }
    }
    notices
}

fn unknown(list: &str, name: &str) -> String {
    let names = TOOLSETS.iter().map(|set| set.name).chain(["no_mcp"]);
    let nearest = names.map(|known| (crate::config::distance(name, known), known)).min();
    let hint = match nearest.filter(|(distance, known)| *distance <= known.len() / 3) {
        Some((_, known)) => format!("; did you mean `{known}`?"),
        None => String::new(),
    };
    format!("`{list}` names `{name}`, which is neither a toolset nor an MCP server, and has no effect{hint}")
}

/// Whether a toolset has this name.
pub fn is_toolset(name: &str) -> bool {
    find(name).is_some()
}

fn misplaced(name: &str, platform: &str) -> bool {
    RESTRICTED.iter().any(|(toolset, only)| *toolset == name && *only != platform)
}

fn is_known(name: &str, servers: &[String]) -> bool {
    let server = name.strip_prefix(MCP).unwrap_or(name);
    is_everything(name)
        || name == "no_mcp"
        || find(name).is_some()
        || !legacy(name).is_empty()
        || servers.iter().any(|known| known == server)
        || name.strip_prefix("hermes-").is_some_and(|platform| PLUGIN_PLATFORMS.contains(&platform))
}

fn is_everything(name: &str) -> bool {
    matches!(name, "all" | "*")
}

fn is_configurable(name: &str) -> bool {
    CONFIGURABLE.contains(&name)
}

fn find(name: &str) -> Option<&'static Toolset> {
    TOOLSETS.iter().find(|set| set.name == name)
}

fn legacy(name: &str) -> &'static [&'static str] {
    LEGACY.iter().find(|(known, _)| *known == name).map_or(&[], |(_, tools)| tools)
}

/// The toolset and those it includes. None of the table includes itself.
fn closure(name: &str) -> Vec<&'static str> {
    let Some(set) = find(name) else { return Vec::new() };
    std::iter::once(set.name).chain(set.includes.iter().flat_map(|name| closure(name))).collect()
}

fn tools_of(name: &str) -> BTreeSet<&'static str> {
    let sets = closure(name).into_iter().filter_map(find);
    sets.flat_map(|set| set.tools.iter().chain(if set.core { CORE } else { &[] })).copied().collect()
}

/// As [`tools_of`], for names that stand for more than one toolset, too.
fn resolved(name: &str) -> BTreeSet<&'static str> {
    if is_everything(name) {
        return TOOLSETS.iter().flat_map(|set| tools_of(set.name)).collect();
    }
    match name.strip_prefix("hermes-").is_some_and(|platform| PLUGIN_PLATFORMS.contains(&platform)) {
        true => CORE.iter().copied().collect(),
        false => tools_of(name),
    }
}

#[cfg(test)]
mod tests;
