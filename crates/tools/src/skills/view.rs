//! `skills_list` and `skill_view`.

use super::directories::{self, FollowLinks, Skill};
use super::frontmatter::{self, SkillFields};
use super::settings::SkillSettings;
use super::{refused, render};
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};
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

// ---------------------------------------------------------------------------------------- finding

#[derive(Debug)]
struct FoundSkill {
    /// None for a skill that is a single file.
    dir: Option<PathBuf>,
    file: PathBuf,
}

/// Why a name may not be looked up: it would lead out of the directories of skills.
fn lookup_error(name: &str) -> Option<&'static str> {
    let name = name.trim();
    let drive = name.len() >= 2 && name.as_bytes()[1] == b':' && name.as_bytes()[0].is_ascii_alphabetic();
    if name.starts_with(['/', '\\']) || drive {
        return Some("Skill name must be a relative path within the skills directory.");
    }
    directories::has_traversal(name).then_some("Skill name cannot contain '..' path traversal components.")
}

fn located(settings: &SkillSettings, name: &str, caller: &Caller) -> Result<FoundSkill, Value> {
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

// ------------------------------------------------------------------------------------ linked files

fn linked(settings: &SkillSettings, name: &str, dir: &Path, path: &str) -> ViewedSkill {
    let refusal = |error: String| json!({"success": false, "error": error, "hint": FILE_HINT}).into();
    if directories::has_traversal(path) {
        return refusal("Path traversal ('..') is not allowed.".to_owned());
    }
    let target = dir.join(path);
    if let Some(error) = directories::escape(&target, dir) {
        return refusal(error);
    }
    if !target.exists() {
        return json!({
            "success": false,
            "error": format!("File '{path}' not found in skill '{name}'."),
            "available_files": available(dir),
            "hint": "Use one of the available file paths listed above",
        })
        .into();
    }
    let size = match target.metadata() {
        Ok(known) if known.is_dir() => {
            return refusal(format!("'{path}' in skill '{name}' is a directory. Name a file in it."));
        }
        Ok(known) => known.len(),
        Err(error) => return refusal(format!("'{path}' in skill '{name}' could not be read: {error}")),
    };
    let answer = match directories::read(settings, &target) {
        Ok(content) => json!({
            "success": true,
            "name": name,
            "file": path,
            "content": content,
            "file_type": target.extension().map(|kind| format!(".{}", kind.to_string_lossy())).unwrap_or_default(),
        }),
        Err(error) if error.contains("UTF-8") => json!({
            "success": true,
            "name": name,
            "file": path,
            "content": format!("[Binary file: {}, size: {size} bytes]", file_name(&target)),
            "is_binary": true,
        }),
        Err(error) => return refusal(format!("'{path}' in skill '{name}' could not be read: {error}")),
    };
    ViewedSkill { used: Some(name.to_owned()), ..ViewedSkill::from(answer) }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// All that can be asked for, by directory.
fn available(dir: &Path) -> Value {
    let mut groups: Map<String, Value> = Map::new();
    for group in ["references", "templates", "assets", "scripts", "other"] {
        groups.insert(group.to_owned(), json!([]));
    }
    for path in below(dir, dir, &|file| file_name(file) != "SKILL.md") {
        let group = directories::SUPPORT.into_iter().find(|support| path.starts_with(&format!("{support}/")));
        let shown = ["md", "py", "yaml", "yml", "json", "tex", "sh"];
        let is_shown =
            || Path::new(&path).extension().is_some_and(|kind| shown.contains(&&*kind.to_string_lossy()));
        let Some(group) = group.or_else(|| is_shown().then_some("other")) else { continue };
        if let Some(Value::Array(paths)) = groups.get_mut(group) {
            paths.push(Value::String(path));
        }
    }
    groups.retain(|_, paths| paths.as_array().is_some_and(|paths| !paths.is_empty()));
    Value::Object(groups)
}

/// Paths of the wanted files at any depth, relative to `base`, in order.
pub fn below(dir: &Path, base: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if path.is_dir() {
                // A link may lead back up; what Hermes lists does not follow it either.
                if !is_link && depth < 8 {
                    dirs.push((path, depth + 1));
                }
            } else if path.is_file() && wanted(&path) && found.len() < LISTING_MAX {
                found.extend(path.strip_prefix(base).ok().map(|path| path.to_string_lossy().into_owned()));
            }
        }
    }
    found.sort();
    found
}

// ----------------------------------------------------------------------------------- a whole skill

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

/// What belongs to a skill, by directory, with the kinds of files that Hermes shows of each.
fn linked_files(dir: &Path) -> Map<String, Value> {
    let mut linked = Map::new();
    let mut add = |group: &str, files: Vec<String>| {
        if !files.is_empty() {
            linked.insert(group.to_owned(), json!(files));
        }
    };
    let is_one_of = |file: &Path, kinds: &[&str]| {
        file.extension().is_some_and(|kind| kinds.contains(&kind.to_string_lossy().as_ref()))
    };
    let flat = |group: &str, kinds: &[&str]| {
        let root = dir.join(group);
        let direct = |file: &Path| file.parent() == Some(&root) && is_one_of(file, kinds);
        by_kind(below(&root, dir, &direct), kinds)
    };
    let deep = |group: &str, kinds: &[&str]| {
        by_kind(below(&dir.join(group), dir, &|file| is_one_of(file, kinds)), kinds)
    };
    add("references", flat("references", &["md"]));
    add("templates", deep("templates", &["md", "py", "yaml", "yml", "json", "tex", "sh"]));
    add("assets", below(&dir.join("assets"), dir, &|_| true));
    add("scripts", flat("scripts", &["py", "sh", "bash", "js", "ts", "rb"]));
    linked
}

/// In the order of the kinds, then of the names.
fn by_kind(mut files: Vec<String>, kinds: &[&str]) -> Vec<String> {
    let kind_of = |file: &String| kinds.iter().position(|kind| file.ends_with(&format!(".{kind}")));
    files.sort_by_key(kind_of);
    files
}

// ------------------------------------------------------------------------------------ requirements

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[A-Za-z_][A-Za-z0-9_]*$").expect("a valid pattern"));

/// What a skill needs before it can be used, and what of it is missing.
struct SkillSetup {
    required: Vec<Value>,
    missing_variables: Vec<String>,
    missing_files: Vec<String>,
}

impl SkillSetup {
    fn of(settings: &SkillSettings, fields: &SkillFields) -> Self {
        let required = required_variables(fields);
        let known = dotenv(&settings.home);
        let is_set = |name: &str| match known.get(name) {
            Some(has_value) => *has_value,
            None => settings.variables.contains(name),
        };
        let missing_variables = required
            .iter()
            .filter(|entry| entry.get("optional").is_none())
            .filter_map(|entry| entry["name"].as_str())
            .filter(|name| !is_set(name))
            .map(str::to_owned)
            .collect();
        Self { required, missing_variables, missing_files: missing_files(settings, fields) }
    }

    fn is_needed(&self) -> bool {
        !self.missing_variables.is_empty() || !self.missing_files.is_empty()
    }

    fn available_variables(&self) -> Vec<String> {
        let names = self.required.iter().filter_map(|entry| entry["name"].as_str());
        let missing: BTreeSet<&str> = self.missing_variables.iter().map(String::as_str).collect();
        names.filter(|name| !missing.contains(name)).map(str::to_owned).collect()
    }

    fn annotate(&self, answer: &mut Value, settings: &SkillSettings, caller: &Caller) {
        let help = self.required.iter().find_map(|entry| entry["help"].as_str());
        if let Some(help) = help {
            answer["setup_help"] = json!(help);
        }
        if !self.missing_variables.is_empty() && caller.source != "cli" {
            answer["gateway_setup_hint"] = json!(NO_SECRETS_HERE);
        }
        if !self.is_needed() {
            return;
        }
        let variables = self.missing_variables.iter().map(|name| format!("env ${name}"));
        let missing: Vec<_> =
            variables.chain(self.missing_files.iter().map(|path| format!("file {path}"))).collect();
        let mut note = format!("Setup needed before using this skill: missing {}.", missing.join(", "));
        if let Some(help) = help {
            note = format!("{note} {help}");
        }
        let backend = settings.terminal_backend.trim().to_lowercase();
        if REMOTE_BACKENDS.contains(&backend.as_str()) {
            note = format!(
                "{note} {}-backed skills need these requirements available inside the remote environment as well.",
                backend.to_uppercase()
            );
        }
        answer["setup_note"] = json!(note);
    }
}

/// Names in the home's `.env`, and whether they have a value.
fn dotenv(home: &Path) -> HashMap<String, bool> {
    let bytes = std::fs::read(home.join(".env")).unwrap_or_default();
    let parsed = throughline_hermes::env::Dotenv::parse(&bytes, &|_| None);
    parsed.variables.into_iter().map(|known| (known.name, !known.value.expose().is_empty())).collect()
}

fn trimmed(entry: &SkillFields, key: &str) -> Option<String> {
    let text = entry.get(key)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// `required_environment_variables`, `setup.collect_secrets` and `prerequisites.env_vars`: three
/// ways to say one thing.
pub fn required_variables(fields: &SkillFields) -> Vec<Value> {
    let setup = fields.get("setup").and_then(Value::as_object);
    // It is told with each variable.
    let help = setup.and_then(|setup| trimmed(setup, "help"));
    let help = help.map(|help| frontmatter::head(&help, frontmatter::DESCRIPTION_CHARS_MAX).to_owned());
    let mut required: Vec<Value> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut add = |entry: &SkillFields| {
        let named = |key| entry.get(key).filter(|value| frontmatter::is_truthy(value)).map(frontmatter::text);
        let name = named("name").or_else(|| named("env_var")).unwrap_or_default().trim().to_owned();
        if !VARIABLE.is_match(&name) || !seen.insert(name.clone()) {
            return;
        }
        let prompt = named("prompt").unwrap_or_else(|| format!("Enter value for {name}"));
        let mut normal = json!({"name": name, "prompt": prompt.trim()});
        let given = ["help", "provider_url", "url"].into_iter().find_map(|key| trimmed(entry, key));
        if let Some(help) = given.or_else(|| help.clone()) {
            normal["help"] = json!(help);
        }
        if let Some(purpose) = trimmed(entry, "required_for") {
            normal["required_for"] = json!(purpose);
        }
        if entry.get("optional").is_some_and(frontmatter::is_truthy) {
            normal["optional"] = json!(true);
        }
        required.push(normal);
    };
    let bare = |name: &str| SkillFields::from_iter([("name".to_owned(), json!(name))]);
    for item in many(fields.get("required_environment_variables")) {
        match item {
            Value::String(name) => add(&bare(name)),
            Value::Object(entry) => add(entry),
            _ => {}
        }
    }
    for item in many(setup.and_then(|setup| setup.get("collect_secrets"))) {
        if let Value::Object(entry) = item {
            let mut entry = entry.clone();
            entry.shift_remove("name");
            entry.shift_remove("help");
            add(&entry);
        }
    }
    let legacy = fields.get("prerequisites").and_then(|prerequisites| prerequisites.get("env_vars"));
    frontmatter::list(legacy).iter().for_each(|name| add(&bare(name)));
    required
}

/// The items of a list, or one mapping that stands for a list of one.
fn many(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(items)) => items,
        Some(value @ Value::Object(_)) => std::slice::from_ref(value),
        _ => &[],
    }
}

/// `required_credential_files` that are not in the home. One outside of it is never there.
fn missing_files(settings: &SkillSettings, fields: &SkillFields) -> Vec<String> {
    let Some(Value::Array(entries)) = fields.get("required_credential_files") else { return Vec::new() };
    let paths = entries.iter().filter_map(|entry| match entry {
        Value::String(path) => Some(path.trim().to_owned()),
        Value::Object(entry) => trimmed(entry, "path").or_else(|| trimmed(entry, "name")),
        _ => None,
    });
    let is_there = |path: &String| {
        let file = settings.home.join(path);
        Path::new(path).is_relative()
            && directories::escape(&file, &settings.home).is_none()
            && file.is_file()
    };
    paths.filter(|path| !path.is_empty() && !is_there(path)).collect()
}
