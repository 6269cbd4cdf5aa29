//! Which paths are granted, so that those that are not remain.
//!
//! The homes are marked in a tree of paths. What lies beside the way to a mark gets all that its
//! surroundings have; the way itself gets nothing, because a grant there would hold for the mark.

use super::SandboxSettings;
use super::policy::{self, SandboxRights};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};
use throughline_hermes::file_policy::{self, Owner};

pub struct GrantPlan {
    homes: Vec<(PathBuf, Owner)>,
    workspace: Option<PathBuf>,
    /// Names in the homes that their owner opened.
    opened: Vec<String>,
}

pub struct PathGrant {
    pub path: PathBuf,
    pub rights: SandboxRights,
}

/// What is there now.
#[derive(Default)]
pub struct GrantSurvey {
    pub grants: Vec<PathGrant>,
    /// Directories whose entries it rests on.
    pub listed: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    Place(SandboxRights),
    Home(Owner),
    Profiles,
}

struct PathNode {
    kind: NodeKind,
    children: BTreeMap<OsString, PathNode>,
}

impl NodeKind {
    /// What an entry is if nothing is said about it.
    fn entry(self, name: &OsStr, opened: &[String]) -> NodeKind {
        match self {
            NodeKind::Place(rights) => NodeKind::Place(rights),
            NodeKind::Profiles => NodeKind::Home(Owner::Other),
            NodeKind::Home(_) if name == "profiles" => NodeKind::Profiles,
            NodeKind::Home(owner) => NodeKind::Place(policy::rights(Path::new(name), owner, opened)),
        }
    }
}

impl PathNode {
    fn new(kind: NodeKind) -> Self {
        Self { kind, children: BTreeMap::new() }
    }

    fn is_passage(&self) -> bool {
        !self.children.is_empty() || !matches!(self.kind, NodeKind::Place(_))
    }

    fn at(&mut self, path: &Path, opened: &[String]) -> &mut PathNode {
        let mut node = self;
        for name in names(path) {
            let kind = node.kind.entry(name, opened);
            node = node.children.entry(name.to_owned()).or_insert_with(|| PathNode::new(kind));
        }
        node
    }

    fn rights_at(&self, path: &Path, opened: &[String]) -> Option<SandboxRights> {
        let mut kind = self.kind;
        let mut node = Some(self);
        for name in names(path) {
            node = node.and_then(|node| node.children.get(name));
            kind = node.map_or_else(|| kind.entry(name, opened), |node| node.kind);
        }
        match (kind, node) {
            (NodeKind::Place(rights), None) => Some(rights),
            (NodeKind::Place(rights), Some(node)) if node.children.is_empty() => Some(rights),
            _ => None,
        }
    }
}

fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

impl GrantPlan {
    pub fn new(settings: &SandboxSettings) -> Self {
        let mut homes = vec![(settings.home.clone(), Owner::Own)];
        homes.extend(settings.others.iter().map(|home| (home.clone(), Owner::Other)));
        // A profile's home lies in `profiles` of the home that all profiles share.
        let parent = real(&settings.home).parent().map(Path::to_path_buf);
        if let Some(parent) = parent.filter(|parent| parent.ends_with("profiles"))
            && let Some(root) = parent.parent()
        {
            homes.push((root.to_path_buf(), Owner::Other));
        }
        let workspace = settings.workspace.as_ref().map(|path| real(path));
        Self { homes, workspace, opened: settings.opened.clone() }
    }

    /// Directories in which nothing can be created: those above the homes.
    pub fn passages(&self) -> Vec<PathBuf> {
        let homes: Vec<PathBuf> = self.homes.iter().map(|(home, _)| real(home)).collect();
        let above = homes.iter().flat_map(|home| home.ancestors().skip(1));
        let outside = above.filter(|path| !homes.iter().any(|home| path.starts_with(home)));
        let paths: BTreeSet<PathBuf> = outside.map(Path::to_path_buf).collect();
        paths.into_iter().collect()
    }

    pub fn survey(&self) -> GrantSurvey {
        let tree = self.tree();
        let mut survey = GrantSurvey::default();
        // Names can be seen everywhere: a shell that cannot list a directory is of no use.
        survey.grants.push(PathGrant { path: PathBuf::from("/"), rights: SandboxRights::List });
        walk(Path::new("/"), &tree, &self.opened, &mut survey);
        // What is closed within a directory that is granted as a whole may appear there at any time.
        for (home, _) in &self.homes {
            let parents = file_policy::closed_within().filter_map(|path| Path::new(path).parent());
            let parents: BTreeSet<PathBuf> = parents.map(|parent| real(home).join(parent)).collect();
            survey.listed.extend(parents.into_iter().filter(|parent| parent.is_dir()));
        }
        survey
    }

    fn tree(&self) -> PathNode {
        let mut tree = PathNode::new(NodeKind::Place(SandboxRights::All));
        let mut marks: Vec<(PathBuf, NodeKind)> = Vec::new();
        for (home, owner) in &self.homes {
            let place = real(home);
            // A link to the home must not be turned elsewhere.
            if let (Some(parent), Some(name)) = (home.parent(), home.file_name()) {
                let link = real(parent).join(name);
                if link != place {
                    marks.push((link, NodeKind::Place(SandboxRights::Nothing)));
                }
            }
            marks.push((place, NodeKind::Home(*owner)));
        }
        // Outer homes first: what lies within is read by their rules. The agent's own comes last, for
        // it may be named twice.
        marks.sort_by_key(|(path, kind)| (path.components().count(), *kind == NodeKind::Home(Owner::Own)));
        for (path, kind) in &marks {
            tree.at(path, &self.opened).kind = *kind;
        }
        for (path, kind) in &marks {
            if let NodeKind::Home(owner) = kind {
                mark_within(path, *owner, &self.opened, &mut tree);
            }
        }
        if let Some(workspace) = &self.workspace
            && tree.rights_at(workspace, &self.opened).is_some_and(|rights| rights < SandboxRights::All)
            && self.is_in_a_home(workspace)
        {
            tree.at(workspace, &self.opened).kind = NodeKind::Place(SandboxRights::All);
        }
        tree
    }
}

impl GrantPlan {
    /// In a home, and where its owner may have chosen to have the agent work.
    fn is_in_a_home(&self, workspace: &Path) -> bool {
        let homes = self.homes.iter().map(|(home, _)| real(home)).filter(|home| workspace.starts_with(home));
        let Some(home) = homes.max_by_key(|home| home.components().count()) else { return false };
        workspace.strip_prefix(home).is_ok_and(file_policy::may_be_workspace)
    }
}

/// Marks what needs more than the name of an entry: links out of a home, and secrets in its cache.
fn mark_within(home: &Path, owner: Owner, opened: &[String], tree: &mut PathNode) {
    for rest in file_policy::closed_within() {
        let closed = home.join(rest);
        let surroundings = policy::rights(Path::new(rest).parent().unwrap_or(Path::new("")), owner, opened);
        if surroundings > SandboxRights::Nothing && closed.symlink_metadata().is_ok() {
            tree.at(&closed, opened).kind = NodeKind::Place(SandboxRights::Nothing);
        }
    }
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in entries.flatten() {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !is_link || !file_policy::holds_through_links(&name) {
            continue;
        }
        let rights = policy::rights(Path::new(&*name), owner, opened);
        if let Ok(target) = entry.path().canonicalize()
            && tree.rights_at(&target, opened).is_some_and(|now| rights < now)
        {
            tree.at(&target, opened).kind = NodeKind::Place(rights);
        }
    }
}

/// Grants what lies beside the marks, and goes on towards them.
fn walk(directory: &Path, node: &PathNode, opened: &[String], survey: &mut GrantSurvey) {
    survey.listed.push(directory.to_path_buf());
    for (name, child) in &node.children {
        visit(directory.join(name), child, opened, survey);
    }
    // What cannot be listed cannot be granted; what is marked in it still is.
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_link || node.children.contains_key(&name) {
            continue;
        }
        visit(entry.path(), &PathNode::new(node.kind.entry(&name, opened)), opened, survey);
    }
}

fn visit(path: PathBuf, node: &PathNode, opened: &[String], survey: &mut GrantSurvey) {
    let is_directory = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    if node.is_passage() {
        if is_directory {
            walk(&path, node, opened, survey);
        }
    } else if let NodeKind::Place(rights) = node.kind
        && rights > SandboxRights::Nothing
    {
        survey.grants.push(PathGrant { path, rights });
    }
}

/// Where it lies, if it is there; otherwise where it would.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    absolute.canonicalize().unwrap_or(absolute)
}
