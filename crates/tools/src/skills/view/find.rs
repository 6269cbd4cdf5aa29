//! Which file a name of a skill means.

use super::super::directories::{self, FollowLinks, Skill};
use super::super::refused;
use super::super::settings::SkillSettings;
use super::{PATH_HINT, SUGGESTIONS_MAX, dir_name};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use throughline_core::tool::Caller;

#[derive(Debug)]
pub(super) struct FoundSkill {
    /// None for a skill that is a single file.
    pub(super) dir: Option<PathBuf>,
    pub(super) file: PathBuf,
}

/// Why a name may not be looked up: it would lead out of the directories of skills.
pub(super) fn lookup_error(name: &str) -> Option<&'static str> {
    let name = name.trim();
    let drive = name.len() >= 2 && name.as_bytes()[1] == b':' && name.as_bytes()[0].is_ascii_alphabetic();
    if name.starts_with(['/', '\\']) || drive {
        return Some("Skill name must be a relative path within the skills directory.");
    }
    directories::has_traversal(name).then_some("Skill name cannot contain '..' path traversal components.")
}

pub(super) fn located(settings: &SkillSettings, name: &str, caller: &Caller) -> Result<FoundSkill, Value> {
    let nested = match name.split_once(':') {
        None => None,
        Some((space, bare)) => Some(qualified(name, space, bare)?),
    };
    let roots: Vec<_> = directories::roots(settings).into_iter().filter(|root| root.exists()).collect();
    if roots.is_empty() {
        return Err(refused("Skills directory does not exist yet. It will be created on first install."));
    }
    let mut candidates = SkillCandidates::default();
    for root in roots.iter().filter(|_| !name.is_empty()) {
        candidates.named(settings, root, name);
        if let Some(nested) = &nested {
            candidates.direct(root, nested);
        }
    }
    match candidates.found.len() {
        1 => Ok(candidates.found.remove(0)),
        0 => Err(unknown(settings, name, caller)),
        _ => Err(ambiguous(name, &candidates.found)),
    }
}

/// `category:skill` is another way to write `category/skill`.
fn qualified(name: &str, space: &str, bare: &str) -> Result<String, Value> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if space.is_empty() || !space.chars().all(is_valid) {
        return Err(refused(format!(
            "Invalid namespace '{space}' in '{name}'. Namespaces must match [a-zA-Z0-9_-]+."
        )));
    }
    let nested = format!("{space}/{bare}");
    match lookup_error(&nested).or_else(|| lookup_error(bare)) {
        Some(error) => Err(json!({"success": false, "error": error, "hint": PATH_HINT})),
        None => Ok(nested),
    }
}

#[derive(Default)]
struct SkillCandidates {
    found: Vec<FoundSkill>,
    seen: BTreeSet<PathBuf>,
}

impl SkillCandidates {
    fn add(&mut self, dir: Option<PathBuf>, file: PathBuf) {
        if self.seen.insert(directories::resolved(&file)) {
            self.found.push(FoundSkill { dir, file });
        }
    }

    /// At this very path: a directory with a SKILL.md, or one file.
    fn direct(&mut self, root: &Path, path: &str) {
        let dir = root.join(path);
        let single = root.join(format!("{path}.md"));
        if !directories::is_support(&dir) && dir.join("SKILL.md").is_file() {
            self.add(Some(dir.clone()), dir.join("SKILL.md"));
        } else if single.is_file() && !directories::is_support(&single) {
            self.add(None, single);
        }
    }

    /// By path, by the name of its directory or the name it gives itself, and as a single file.
    fn named(&mut self, settings: &SkillSettings, root: &Path, name: &str) {
        self.direct(root, name);
        for file in directories::skill_files(root, FollowLinks::Follow) {
            let calls_itself =
                || Skill::open(settings, &file)?.fields.get("name")?.as_str().map(|own| own == name);
            if dir_name(&file) == name || calls_itself() == Some(true) {
                self.add(file.parent().map(Path::to_owned), file.clone());
            }
        }
        let single = format!("{name}.md");
        let last = Path::new(&single).file_name().map(|last| last.to_string_lossy().into_owned());
        let Some(last) = last.filter(|last| last != "SKILL.md") else { return };
        for file in directories::files(root, FollowLinks::Stay, &|file| file == last) {
            if file.ends_with(&single) && !directories::is_support(&file) {
                self.add(None, file);
            }
        }
    }
}

fn ambiguous(name: &str, found: &[FoundSkill]) -> Value {
    let matches: Vec<_> = found.iter().map(|found| found.file.display().to_string()).collect();
    json!({
        "success": false,
        "error": format!(
            "Ambiguous skill name '{name}': {} skills match across your local skills dir and external_dirs. \
             Refusing to guess — load one explicitly by its categorized path.",
            matches.len()
        ),
        "matches": matches,
        "hint": "Pass the full relative path instead of the bare name (e.g., 'category/skill-name'), \
                 or rename one of the colliding skills so each name is unique.",
    })
}

fn unknown(settings: &SkillSettings, name: &str, caller: &Caller) -> Value {
    let known = directories::list(settings, &caller.source);
    let available: Vec<_> = known.into_iter().take(SUGGESTIONS_MAX).map(|skill| skill.name).collect();
    json!({
        "success": false,
        "error": format!("Skill '{name}' not found."),
        "available_skills": available,
        "hint": "Use skills_list to see all available skills",
    })
}
