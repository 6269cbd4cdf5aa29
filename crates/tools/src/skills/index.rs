//! The list of skills that stands in the system prompt.

use super::directories::{self, FollowLinks, Skill};
use super::frontmatter::{self, SkillFields, head};
use super::settings::SkillSettings;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One line each; more would be a catalogue, not a prompt. The others are found by `skills_list`.
const SKILLS_MAX: usize = 1000;
/// Of a description in the index.
const DESCRIPTION_CHARS_MAX: usize = 60;
/// Of the description of a category.
const CATEGORY_CHARS_MAX: usize = 1024;

/// What a session has: skills that need more, or that stand in for something it has, are not shown.
#[derive(Clone, Copy, Debug)]
pub struct OfferedTools<'o> {
    pub tools: &'o [String],
    pub toolsets: &'o [String],
    /// Where the session is: `telegram`, `cli` …
    pub source: &'o str,
}

const GUIDANCE: &str = "## Skills (mandatory)
Look through the skills below before you answer. Load every one that fits the task, even partly, with \
skill_view(name), and follow it: a skill holds commands, endpoints and pitfalls that general knowledge lacks, and \
says how this user wants the work done. When in doubt, load it; do so even for tasks you could do without.
";
const ABOUT_HERMES: &str =
    "For anything about this agent's own setup (commands, config, models, tools, skills, \
gateway, plugins), load the `hermes-agent` skill first instead of guessing.
";
const UPKEEP: &str =
    "Correct a skill that is wrong or incomplete with skill_manage(action='patch') before you \
finish. After hard or iterative work, offer to save the approach as a skill.
";
const CLOSING: &str = "Go on without a skill only if none of them is relevant.";

pub fn index(settings: &SkillSettings, offered: OfferedTools<'_>) -> String {
    let mut shelf = IndexEntries::default();
    for root in directories::roots(settings) {
        shelf.add(settings, &root, offered);
    }
    if shelf.categories.is_empty() {
        return String::new();
    }
    let (lines, left_out) = shelf.lines();
    let has = |name: &str| offered.tools.iter().any(|tool| tool == name);
    let about = if shelf.names.contains("hermes-agent") { ABOUT_HERMES } else { "" };
    let upkeep = if has("skill_manage") { UPKEEP } else { "" };
    let more = match left_out {
        0 => String::new(),
        count => format!("  (and {count} more: skills_list names them)\n"),
    };
    format!("{GUIDANCE}{about}{upkeep}\n<available_skills>\n{lines}{more}</available_skills>\n\n{CLOSING}")
}

#[derive(Default)]
struct IndexEntries {
    /// By category: name and description. The first of a name counts.
    categories: BTreeMap<String, BTreeMap<String, String>>,
    descriptions: BTreeMap<String, String>,
    names: BTreeSet<String>,
}

impl IndexEntries {
    fn add(&mut self, settings: &SkillSettings, root: &Path, offered: OfferedTools<'_>) {
        let is_own = root == settings.skills_dir();
        let known_before = self.names.clone();
        for file in directories::skill_files(root, FollowLinks::Follow) {
            let (category, dir) = place(&file, root);
            let skill = Skill::open(settings, &file);
            if skill.as_ref().is_some_and(|skill| !skill.fits(settings) || !is_shown(&skill.fields, offered))
            {
                continue;
            }
            let name = skill
                .as_ref()
                .map_or_else(|| dir.clone(), |skill| line(&skill.name(), frontmatter::NAME_CHARS_MAX));
            let is_off = [&name, &dir].iter().any(|name| settings.is_disabled(name, offered.source));
            let is_known = if is_own { known_before.contains(&name) } else { self.names.contains(&name) };
            if is_off || is_known {
                continue;
            }
            let description = skill.map(|skill| described(&skill.fields)).unwrap_or_default();
            self.names.insert(name.clone());
            self.categories.entry(category).or_default().entry(name).or_insert(description);
        }
        for file in directories::files(root, FollowLinks::Follow, &|name| name == "DESCRIPTION.md") {
            let Some(about) = Skill::open(settings, &file)
                .and_then(|about| frontmatter::field(&about.fields, "description"))
            else {
                continue;
            };
            let about = line(about.trim().trim_matches(['\'', '"']), CATEGORY_CHARS_MAX);
            self.descriptions.entry(described_by(&file, root)).or_insert(about);
        }
    }

    fn lines(&self) -> (String, usize) {
        let mut lines = String::new();
        let (mut shown, mut left_out) = (0, 0);
        for (category, skills) in &self.categories {
            match self.descriptions.get(category).filter(|about| !about.is_empty()) {
                Some(about) => lines.push_str(&format!("  {category}: {about}\n")),
                None => lines.push_str(&format!("  {category}:\n")),
            }
            for (name, description) in skills {
                if shown == SKILLS_MAX {
                    left_out += 1;
                    continue;
                }
                shown += 1;
                match description.as_str() {
                    "" => lines.push_str(&format!("    - {name}\n")),
                    description => lines.push_str(&format!("    - {name}: {description}\n")),
                }
            }
        }
        (lines, left_out)
    }
}

/// The category of a skill, and the name of its directory.
fn place(file: &Path, root: &Path) -> (String, String) {
    let path = file.strip_prefix(root).unwrap_or(file);
    let parts: Vec<_> =
        path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    match parts.as_slice() {
        [.., dir, _] if parts.len() == 2 => (dir.clone(), dir.clone()),
        [categories @ .., dir, _] => (categories.join("/"), dir.clone()),
        _ => {
            let dir = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            ("general".to_owned(), dir)
        }
    }
}

/// Which category a DESCRIPTION.md describes.
fn described_by(file: &Path, root: &Path) -> String {
    let dir = file.parent().and_then(|dir| dir.strip_prefix(root).ok()).unwrap_or(Path::new(""));
    let parts: Vec<_> =
        dir.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    if parts.is_empty() { "general".to_owned() } else { parts.join("/") }
}

fn described(fields: &SkillFields) -> String {
    let said = frontmatter::field(fields, "description").unwrap_or_default();
    let said = line(said.trim().trim_matches(['\'', '"']), usize::MAX);
    match said.chars().count() > DESCRIPTION_CHARS_MAX {
        true => head(&said, DESCRIPTION_CHARS_MAX - 3).to_owned() + "...",
        false => said,
    }
}

/// On one line, so that a description cannot look like the lines around it.
fn line(text: &str, chars: usize) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    head(text.trim(), chars).to_owned()
}

fn is_shown(fields: &SkillFields, offered: OfferedTools<'_>) -> bool {
    let wanted =
        |key: &str| frontmatter::list(frontmatter::hermes(fields).and_then(|hermes| hermes.get(key)));
    let (tools, toolsets) = (offered.tools, offered.toolsets);
    !wanted("fallback_for_toolsets").iter().any(|name| toolsets.contains(name))
        && !wanted("fallback_for_tools").iter().any(|name| tools.contains(name))
        && wanted("requires_toolsets").iter().all(|name| toolsets.contains(name))
        && wanted("requires_tools").iter().all(|name| tools.contains(name))
}
