//! Which tools a caller may use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use throughline_core::input::AGENT_PLATFORM;
use throughline_core::tool::Caller;
use throughline_hermes::config;
use throughline_hermes::toolset::{Child, Toolsets};

/// Hermes' defaults: children have none of their own, and keep the servers of their parent.
const SPAWN_DEPTH: u32 = 1;

/// Sources are few; a stranger's must not fill the memory.
const SOURCES_MAX: usize = 64;

/// Decides which tools a caller has, by where its session lives and for whom it works.
pub struct ToolAccess {
    for_source: Box<dyn Fn(&str) -> Toolsets + Send + Sync>,
    children: ChildRules,
    decided: Mutex<HashMap<String, Arc<Toolsets>>>,
}

/// What holds for sessions that work for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildRules {
    /// A child above this depth may have children, if its task says so.
    pub depth_max: u32,
    /// Whether any child may.
    pub may_delegate: bool,
    pub inherit_servers: bool,
}

impl Default for ChildRules {
    fn default() -> Self {
        Self { depth_max: SPAWN_DEPTH, may_delegate: true, inherit_servers: true }
    }
}

const API_PLATFORM: &str = "api_server";

impl ToolAccess {
    /// `for_source` must answer the same for as long as this gate lives: answers are kept.
    pub fn new(for_source: impl Fn(&str) -> Toolsets + Send + Sync + 'static, children: ChildRules) -> Self {
        Self { for_source: Box::new(for_source), children, decided: Mutex::default() }
    }

    /// As the settings of a home say.
    pub fn of_settings(settings: &config::Tools) -> Self {
        let delegation = &settings.delegation;
        let written = |given: &Option<config::Given<bool>>| given.as_ref().is_none_or(|given| given.value);
        let depth_max = delegation.max_spawn_depth.as_ref().map(|given| given.value);
        let children = ChildRules {
            depth_max: depth_max.map_or(SPAWN_DEPTH, |depth| u32::try_from(depth).unwrap_or(u32::MAX)),
            may_delegate: written(&delegation.orchestrator_enabled),
            inherit_servers: written(&delegation.inherit_mcp_toolsets),
        };
        let switches = settings.switches.clone();
        // Hermes knows no platform where agents write to each other. Unless it is listed, it has what
        // the API has: everything but what talks to people.
        let is_listed = matches!(&switches.platforms, config::ListSetting::Entries(lists)
            if lists.iter().any(|(platform, _)| platform == AGENT_PLATFORM));
        let platform = move |source: &str| match source {
            AGENT_PLATFORM if !is_listed => API_PLATFORM.to_owned(),
            source => source.to_owned(),
        };
        Self::new(move |source| Toolsets::for_platform(&switches, &platform(source)), children)
    }

    pub(super) fn of(&self, caller: &Caller) -> Arc<Toolsets> {
        let toolsets = self.of_source(&caller.source);
        let Some(task) = &caller.task else { return toolsets };
        let asked = task.toolsets.as_ref().is_some_and(|names| names.iter().any(|name| name == "delegation"));
        Arc::new(toolsets.for_child(Child {
            toolsets: task.toolsets.clone(),
            may_delegate: asked && self.children.may_delegate && task.depth < self.children.depth_max,
            inherits_servers: self.children.inherit_servers,
        }))
    }

    fn of_source(&self, source: &str) -> Arc<Toolsets> {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(toolsets) = decided.get(source) {
            return toolsets.clone();
        }
        if decided.len() >= SOURCES_MAX {
            decided.clear();
        }
        let toolsets = Arc::new((self.for_source)(source));
        decided.insert(source.to_owned(), toolsets.clone());
        toolsets
    }
}
