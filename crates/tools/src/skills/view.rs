//! The tools `skills_list` and `skill_view`.

mod find;
mod linked_files;
mod setup;

use super::directories;
use super::frontmatter::{self, SkillFields};
use super::settings::SkillSettings;
use super::{refused, render};
use find::{FoundSkill, located, lookup_error};
pub use linked_files::below;
use linked_files::{file_name, linked, linked_files};
use regex::Regex;
use serde_json::{Value, json};
use setup::SkillSetup;
#[cfg(test)]
pub use setup::required_variables;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use throughline_core::tool::Caller;

/// Offered where a name is not known.
const SUGGESTIONS_MAX: usize = 20;
/// Names in a listing of what belongs to a skill. More would crowd out the skill itself.
const LISTING_MAX: usize = 500;

/// Backends on which a skill's requirements must be met elsewhere than here.
const REMOTE_BACKENDS: [&str; 5] = ["docker", "singularity", "modal", "ssh", "daytona"];

/// Phrases that make a skill worth a line in the log. It is shown all the same.
const SUSPICIOUS: [&str; 9] = [
    "ignore previous instructions",
    "ignore all previous",
    "you are now",
    "disregard your",
    "forget your instructions",
    "new instructions:",
    "system prompt:",
    "<system>",
    "]]>",
];

const PATH_HINT: &str = "Use a skill name or relative path within the skills directory.";
const FILE_HINT: &str = "Use a relative path within the skill directory";
const NO_SECRETS_HERE: &str = "Secure secret entry is not supported over messaging. \
     Load this skill in the local CLI to be prompted, or add the key to ~/.hermes/.env manually.";

/// What `skills_list` answers.
pub fn list(settings: &SkillSettings, category: Option<&str>, caller: &Caller) -> Value {
    let dir = settings.skills_dir();
    let nothing =
        |message: String| json!({"success": true, "skills": [], "categories": [], "message": message});
    if !dir.exists() {
        return match std::fs::create_dir_all(&dir) {
            Ok(()) => nothing(format!(
                "No skills found. Skills directory created at {}/skills/",
                settings.shown_home
            )),
            Err(error) => {
                json!({"error": format!("{} could not be created: {error}", dir.display()), "success": false})
            }
        };
    }
    let mut skills = directories::list(settings, &caller.source);
    if skills.is_empty() {
        return nothing("No skills found in skills/ directory.".to_owned());
    }
    if let Some(category) = category.filter(|category| !category.is_empty()) {
        skills.retain(|skill| skill.category.as_deref() == Some(category));
    }
    let categories: BTreeSet<_> = skills.iter().filter_map(|skill| skill.category.clone()).collect();
    let rows: Vec<Value> = skills
        .iter()
        .map(
            |skill| json!({"name": skill.name, "description": skill.description, "category": skill.category}),
        )
        .collect();
    json!({
        "success": true,
        "skills": rows,
        "categories": categories,
        "count": rows.len(),
        "hint": "Use skill_view(name) to see full content, tags, and linked files",
    })
}

/// What `skill_view` answers, and what is still to be done about it.
pub struct ViewedSkill {
    pub answer: Value,
    /// Whose use is to be counted.
    pub used: Option<String>,
    /// Environment variables that the skill's commands need and that are set.
    pub variables: Vec<String>,
    /// Commands in the text are to be run here.
    pub shell_in: Option<PathBuf>,
}

impl From<Value> for ViewedSkill {
    fn from(answer: Value) -> Self {
        Self { answer, used: None, variables: Vec::new(), shell_in: None }
    }
}

pub fn view(settings: &SkillSettings, name: &str, file_path: Option<&str>, caller: &Caller) -> ViewedSkill {
    if let Some(error) = lookup_error(name) {
        return json!({"success": false, "error": error, "hint": PATH_HINT}).into();
    }
    let found = match located(settings, name, caller) {
        Ok(found) => found,
        Err(answer) => return answer.into(),
    };
    let content = match directories::read(settings, &found.file) {
        Ok(content) => content,
        Err(error) => return refused(format!("Failed to read skill '{name}': {error}")).into(),
    };
    warn_of(settings, name, &found.file, &content);
    let (fields, _) = frontmatter::parse(&content);
    if !directories::fits_platform(&fields) {
        return json!({
            "success": false,
            "error": format!("Skill '{name}' is not supported on this platform."),
            "readiness_status": "unsupported",
        })
        .into();
    }
    let known_as = fields.get("name").map_or_else(|| dir_name(&found.file), frontmatter::text);
    if settings.is_disabled(&known_as, &caller.source) {
        return refused(format!(
            "Skill '{known_as}' is disabled. Enable it with `hermes skills` or inspect the files directly on disk."
        ))
        .into();
    }
    match (file_path.filter(|path| !path.is_empty()), &found.dir) {
        (Some(path), Some(dir)) => linked(settings, name, dir, path),
        _ => whole(settings, &found, &content, &fields, caller),
    }
}

fn dir_name(file: &Path) -> String {
    let name = file.parent().and_then(Path::file_name);
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn warn_of(settings: &SkillSettings, name: &str, file: &Path, content: &str) {
    let real = directories::resolved(file);
    if !directories::roots(settings).iter().any(|root| real.starts_with(directories::resolved(root))) {
        tracing::warn!(skill = name, file = %real.display(), "a link leads this skill out of the skills directories");
    }
    let content = content.to_lowercase();
    if SUSPICIOUS.iter().any(|phrase| content.contains(phrase)) {
        tracing::warn!(skill = name, file = %file.display(), "this skill reads as if it wanted to take over the agent");
    }
}

fn whole(
    settings: &SkillSettings,
    found: &FoundSkill,
    content: &str,
    fields: &SkillFields,
    caller: &Caller,
) -> ViewedSkill {
    let hermes = frontmatter::hermes(fields);
    let meta = |key: &str| {
        let nested = hermes.and_then(|hermes| hermes.get(key)).filter(|value| frontmatter::is_truthy(value));
        frontmatter::tags(nested.or_else(|| fields.get(key)))
    };
    let name = fields.get("name").map_or_else(|| own_name(found), frontmatter::text);
    let linked = found.dir.as_deref().map(linked_files).unwrap_or_default();
    let setup = SkillSetup::of(settings, fields);
    let content = match settings.template_vars {
        true => render::substituted(content, found.dir.as_deref(), caller.session.as_str()),
        false => content.to_owned(),
    };
    let has_links = !linked.is_empty();
    let mut answer = json!({
        "success": true,
        "name": name,
        "description": fields.get("description").cloned().unwrap_or_else(|| json!("")),
        "tags": meta("tags"),
        "related_skills": meta("related_skills"),
        "content": content,
        "path": relative(settings, &found.file),
        "skill_dir": found.dir.as_ref().map(|dir| dir.display().to_string()),
        "linked_files": has_links.then_some(Value::Object(linked)),
        "usage_hint": has_links.then_some("To view linked files, call skill_view(name, file_path) where file_path is e.g. 'references/api.md' or 'assets/config.yaml'"),
        "required_environment_variables": setup.required,
        "required_commands": [],
        "missing_required_environment_variables": setup.missing_variables,
        "missing_credential_files": setup.missing_files,
        "missing_required_commands": [],
        "setup_needed": setup.is_needed(),
        "setup_skipped": false,
        "readiness_status": if setup.is_needed() { "setup_needed" } else { "available" },
    });
    setup.annotate(&mut answer, settings, caller);
    if let Some(compatibility) = fields.get("compatibility").filter(|value| frontmatter::is_truthy(value)) {
        answer["compatibility"] = compatibility.clone();
    }
    if let Some(metadata) = fields.get("metadata").filter(|value| value.is_object()) {
        answer["metadata"] = metadata.clone();
    }
    let runs_commands = settings.inline_shell && content_of(&answer).contains("!`");
    ViewedSkill {
        answer,
        used: Some(name),
        variables: setup.available_variables(),
        shell_in: found.dir.clone().filter(|_| runs_commands),
    }
}

fn content_of(answer: &Value) -> &str {
    answer["content"].as_str().unwrap_or_default()
}

fn own_name(found: &FoundSkill) -> String {
    match &found.dir {
        Some(dir) => file_name(dir),
        None => found.file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
    }
}

/// As seen from the skills directory; of an external skill, its own directory and file.
fn relative(settings: &SkillSettings, file: &Path) -> String {
    let outside = || file.ancestors().nth(2).and_then(|above| file.strip_prefix(above).ok()).unwrap_or(file);
    let path = file.strip_prefix(settings.skills_dir()).unwrap_or_else(|_| outside());
    path.display().to_string()
}

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[A-Za-z_][A-Za-z0-9_]*$").expect("a valid pattern"));
