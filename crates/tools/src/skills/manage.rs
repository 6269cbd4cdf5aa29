//! `skill_manage`: the agent's own changes to skills.
//!
//! New skills go to the home; one that exists is changed where it lies, but never through a link:
//! what a link leads to is not the agent's. Every write replaces a file whole. A skill that
//! is deleted is gone, as in Hermes; a pinned one is not deleted.

use super::directories::{self, FollowLinks};
use super::frontmatter::{self, SkillFields};
use super::replace::Replace;
use super::settings::SkillSettings;
use super::usage_file::{SkillUsage, UsageCount};
use super::{guard, pending, refused};
use regex::Regex;
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use throughline_core::tool::Call;

/// What a model can reasonably take in at once, in characters: about 36k tokens.
const CONTENT_CHARS_MAX: usize = 100_000;
const FILE_BYTES_MAX: usize = 1_048_576;
/// Profiles looked through for a skill of the same name.
const PROFILES_MAX: usize = 64;

static NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[a-z0-9][a-z0-9._-]*$").expect("a valid pattern"));

const ACTIONS: [&str; 6] = ["create", "edit", "patch", "delete", "write_file", "remove_file"];
const TEXTS: [&str; 7] =
    ["content", "category", "file_path", "file_content", "old_string", "new_string", "absorbed_into"];

pub struct SkillManager<'m> {
    pub settings: &'m SkillSettings,
    pub replace: Replace,
}

/// What a change did: the answer, or why nothing was changed.
type SkillChange = Result<Value, Value>;

impl SkillManager<'_> {
    pub fn run(&self, call: &Call, arguments: &Map<String, Value>) -> Value {
        self.checked(call, arguments).unwrap_or_else(|refusal| refusal)
    }

    fn checked(&self, call: &Call, arguments: &Map<String, Value>) -> SkillChange {
        for key in ["action", "name"].iter().chain(&TEXTS) {
            if !matches!(arguments.get(*key), None | Some(Value::Null | Value::String(_))) {
                return Err(failed(format!("'{key}' must be a string.")));
            }
        }
        let text = |key: &str| arguments.get(key).and_then(Value::as_str);
        let replace_all = arguments.get("replace_all").is_some_and(frontmatter::is_truthy);
        let (action, name) = (text("action").unwrap_or_default(), text("name").unwrap_or_default());
        if self.settings.write_approval && ACTIONS.contains(&action) {
            return Ok(pending::stage(self.settings, call, payload(arguments, action, name, replace_all)));
        }
        let given =
            |key: &str, error: &str| text(key).filter(|text| !text.is_empty()).ok_or_else(|| failed(error));
        let answer = match action {
            "create" => {
                let content = given(
                    "content",
                    "content is required for 'create'. Provide the full SKILL.md text (frontmatter + body).",
                )?;
                self.create(name, content, text("category"))
            }
            "edit" => {
                let content = given(
                    "content",
                    "content is required for 'edit'. Provide the full updated SKILL.md text.",
                )?;
                self.edit(name, content)
            }
            "patch" => {
                let old =
                    given("old_string", "old_string is required for 'patch'. Provide the text to find.")?;
                let new = text("new_string").ok_or_else(|| {
                    failed("new_string is required for 'patch'. Use empty string to delete matched text.")
                })?;
                self.patch(
                    name,
                    SkillPatch { old, new, replace_all },
                    text("file_path").filter(|path| !path.is_empty()),
                )
            }
            "delete" => self.delete(name, text("absorbed_into").unwrap_or_default().trim()),
            "write_file" => {
                let path = given(
                    "file_path",
                    "file_path is required for 'write_file'. Example: 'references/api-guide.md'",
                )?;
                let content = text("file_content")
                    .ok_or_else(|| failed("file_content is required for 'write_file'."))?;
                self.write_file(name, path, content)
            }
            "remove_file" => {
                let path = given("file_path", "file_path is required for 'remove_file'.")?;
                self.remove_file(name, path)
            }
            _ => Err(refused(format!("Unknown action '{action}'. Use: {}", ACTIONS.join(", ")))),
        }?;
        let usage = SkillUsage::of(&self.settings.skills_dir());
        match action {
            "create" => {}
            "delete" => usage.forget(name),
            _ => usage.count(name, UsageCount::Patched, call.caller.now),
        }
        // What Hermes has remembered of the index is out of date now.
        let _ = std::fs::remove_file(self.settings.home.join(".skills_prompt_snapshot.json"));
        Ok(answer)
    }

    fn create(&self, name: &str, content: &str, category: Option<&str>) -> SkillChange {
        check_name(name)?;
        let category = check_category(category)?;
        let fields = frontmatter::check(content).map_err(refused)?;
        check_size(content, "SKILL.md")?;
        let root = self.settings.skills_dir();
        let existing = directories::roots(self.settings)
            .iter()
            .find_map(|root| directories::find_in(root, name, FollowLinks::Follow));
        if let Some(existing) = existing {
            return Err(refused(format!("A skill named '{name}' already exists at {}.", existing.display())));
        }
        let dir = category.map_or_else(|| root.clone(), |category| root.join(category)).join(name);
        if let Some(error) = directories::escape(&dir, &root) {
            return Err(refused(error));
        }
        let file = dir.join("SKILL.md");
        let was_there = dir.exists();
        write(&file, content).map_err(|error| unwritten(&file, &error))?;
        if let Some(objection) = self.objection(&dir) {
            let _ = if was_there { std::fs::remove_file(&file) } else { std::fs::remove_dir_all(&dir) };
            return Err(refused(objection));
        }
        let mut answer = json!({
            "success": true,
            "message": format!("Skill '{name}' created."),
            "path": dir.strip_prefix(&root).unwrap_or(&dir).display().to_string(),
            "skill_md": file.display().to_string(),
            "_change": change(&fields),
        });
        if let Some(category) = category {
            answer["category"] = json!(category);
        }
        answer["hint"] = json!(format!(
            "To add reference files, templates, or scripts, use skill_manage(action='write_file', name='{name}', file_path='references/example.md', file_content='...')"
        ));
        Ok(answer)
    }

    fn edit(&self, name: &str, content: &str) -> SkillChange {
        let fields = frontmatter::check(content).map_err(refused)?;
        check_size(content, "SKILL.md")?;
        let dir = self.found(name, "")?;
        self.replaced(&dir, &dir.join("SKILL.md"), content)?;
        Ok(json!({
            "success": true,
            "message": format!("Skill '{name}' updated (full rewrite)."),
            "path": dir.display().to_string(),
            "_change": change(&fields),
        }))
    }

    fn patch(&self, name: &str, patch: SkillPatch<'_>, path: Option<&str>) -> SkillChange {
        let dir = self.found(name, "")?;
        let target = match path {
            Some(path) => target(&dir, name, path)?,
            None => dir.join("SKILL.md"),
        };
        if !target.exists() {
            let shown = target.strip_prefix(&dir).unwrap_or(&target).display();
            return Err(refused(format!("File not found: {shown}")));
        }
        let content = directories::read(self.settings, &target).map_err(|error| unread(&target, &error))?;
        let (changed, count) =
            (self.replace)(&content, patch.old, patch.new, patch.replace_all).map_err(|error| {
                let more = if content.chars().nth(500).is_some() { "..." } else { "" };
                json!({
                    "success": false,
                    "error": error,
                    "file_preview": format!("{}{more}", frontmatter::head(&content, 500)),
                })
            })?;
        let label = path.unwrap_or("SKILL.md");
        check_size(&changed, label)?;
        if target == dir.join("SKILL.md") {
            frontmatter::check(&changed)
                .map_err(|error| refused(format!("Patch would break SKILL.md structure: {error}")))?;
        }
        self.replaced(&dir, &target, &changed)?;
        let plural = if count > 1 { "s" } else { "" };
        Ok(json!({
            "success": true,
            "message": format!("Patched {label} in skill '{name}' ({count} replacement{plural})."),
            "_change": {"old": preview(patch.old), "new": preview(patch.new)},
        }))
    }

    fn delete(&self, name: &str, absorbed_into: &str) -> SkillChange {
        let dir = self.found(name, "")?;
        if SkillUsage::of(&self.settings.skills_dir()).is_pinned(name) {
            return Err(refused(format!(
                "Skill '{name}' is pinned and cannot be deleted by skill_manage. Ask the user to run \
                 `hermes curator unpin {name}` if they want to delete it. Patches and edits are allowed on \
                 pinned skills; only deletion is blocked."
            )));
        }
        if absorbed_into == name {
            return Err(refused(format!(
                "absorbed_into='{absorbed_into}' cannot equal the skill being deleted."
            )));
        }
        if !absorbed_into.is_empty() && directories::find(self.settings, absorbed_into).is_none() {
            return Err(refused(format!(
                "absorbed_into='{absorbed_into}' does not exist. Create or patch the umbrella skill first, then retry the delete."
            )));
        }
        let root = self.deletable(&dir)?;
        std::fs::remove_dir_all(&dir).map_err(|error| {
            refused(format!("Skill '{name}' at {} could not be deleted: {error}", dir.display()))
        })?;
        remove_if_empty(dir.parent().filter(|parent| directories::resolved(parent) != root));
        let mut message = format!("Skill '{name}' deleted.");
        if !absorbed_into.is_empty() {
            message += &format!(" Content absorbed into '{absorbed_into}'.");
        }
        Ok(json!({"success": true, "message": message}))
    }

    fn write_file(&self, name: &str, path: &str, content: &str) -> SkillChange {
        check_path(name, path)?;
        if content.len() > FILE_BYTES_MAX {
            return Err(refused(format!(
                "File content is {} bytes (limit: {} bytes / 1 MiB). Consider splitting into smaller files.",
                grouped(content.len()),
                grouped(FILE_BYTES_MAX)
            )));
        }
        check_size(content, path)?;
        let dir = self.found(name, " Create it first with action='create'.")?;
        let target = target(&dir, name, path)?;
        if target == dir.join("SKILL.md") {
            frontmatter::check(content).map_err(refused)?;
        }
        self.replaced(&dir, &target, content)?;
        Ok(json!({
            "success": true,
            "message": format!("File '{path}' written to skill '{name}'."),
            "path": target.display().to_string(),
        }))
    }

    fn remove_file(&self, name: &str, path: &str) -> SkillChange {
        check_path(name, path)?;
        let dir = self.found(name, "")?;
        let target = target(&dir, name, path)?;
        if target == dir.join("SKILL.md") {
            return Err(refused("SKILL.md is the skill itself. Use action='delete' to remove the skill."));
        }
        if !target.is_file() {
            let mut available = Vec::new();
            for group in directories::SUPPORT {
                available.extend(super::view::below(&dir.join(group), &dir, &|_| true));
            }
            return Err(json!({
                "success": false,
                "error": format!("File '{path}' not found in skill '{name}'."),
                "available_files": (!available.is_empty()).then_some(available),
            }));
        }
        std::fs::remove_file(&target)
            .map_err(|error| refused(format!("{} could not be removed: {error}", target.display())))?;
        remove_if_empty(target.parent().filter(|parent| *parent != dir));
        Ok(json!({"success": true, "message": format!("File '{path}' removed from skill '{name}'.")}))
    }

    /// The directory of a skill that may be changed.
    fn found(&self, name: &str, suffix: &str) -> Result<PathBuf, Value> {
        if let Some(dir) = directories::find(self.settings, name) {
            return Ok(dir);
        }
        let linked = directories::roots(self.settings)
            .iter()
            .find_map(|root| directories::find_in(root, name, FollowLinks::Follow));
        if let Some(dir) = linked {
            return Err(refused(format!(
                "Skill '{name}' at {} is reached through a symbolic link and is not changed by skill_manage. \
                 Its files are in {}; edit them there if the user wants that.",
                dir.display(),
                directories::resolved(&dir).display()
            )));
        }
        Err(refused(not_found(self.settings, name) + suffix))
    }

    /// The root that a skill lies in, if it may be deleted.
    fn deletable(&self, dir: &Path) -> Result<PathBuf, Value> {
        let refusal = |why: &str| refused(format!("Refusing to delete '{}': {why}", dir.display()));
        if dir.is_symlink() {
            return Err(refusal(
                "the skill directory is a symlink/junction. Remove the link target manually if intended.",
            ));
        }
        let real = directories::resolved(dir);
        for root in directories::roots(self.settings).iter().map(|root| directories::resolved(root)) {
            if real == root {
                return Err(refusal(
                    "resolves to the skills root itself, which would remove every installed skill.",
                ));
            }
            if real.starts_with(&root) {
                return Ok(root);
            }
        }
        Err(refusal("path does not resolve inside any known skills root."))
    }

    /// Writes a file, and takes it back if the scan objects.
    fn replaced(&self, dir: &Path, target: &Path, content: &str) -> Result<(), Value> {
        if let Some(error) = directories::escape(target, dir) {
            return Err(refused(error));
        }
        let before = match self.settings.guard_agent_created && target.exists() {
            true => Some(directories::read(self.settings, target).map_err(|error| unread(target, &error))?),
            false => None,
        };
        write(target, content).map_err(|error| unwritten(target, &error))?;
        let Some(objection) = self.objection(dir) else { return Ok(()) };
        let undone = match before {
            Some(before) => write(target, &before),
            None => std::fs::remove_file(target),
        };
        Err(refused(match undone {
            Ok(()) => objection,
            Err(error) => format!("{objection}\n{} could not be restored: {error}", target.display()),
        }))
    }

    fn objection(&self, dir: &Path) -> Option<String> {
        self.settings.guard_agent_created.then(|| guard::objection(self.settings, dir)).flatten()
    }
}

struct SkillPatch<'p> {
    old: &'p str,
    new: &'p str,
    replace_all: bool,
}

/// Hermes' form of an error about arguments.
fn failed(error: impl Into<String>) -> Value {
    json!({"error": error.into(), "success": false})
}

fn unread(file: &Path, error: &str) -> Value {
    refused(format!("{} could not be read: {error}", file.display()))
}

fn unwritten(file: &Path, error: &std::io::Error) -> Value {
    refused(format!("{} could not be written: {error}. Nothing was changed.", file.display()))
}

/// Whole or not at all. A link stays one, and what it leads to is replaced.
pub fn write(file: &Path, content: &str) -> std::io::Result<()> {
    let file = if file.is_symlink() { directories::resolved(file) } else { file.to_owned() };
    let dir = file.parent().ok_or_else(|| std::io::Error::other("it has no directory"))?;
    std::fs::create_dir_all(dir)?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut builder = tempfile::Builder::new();
    let prefix = format!(".{name}.tmp.");
    builder.prefix(&prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&file).map_or(0o644, |known| known.permissions().mode() & 0o777);
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    let mut new = builder.tempfile_in(dir)?;
    new.write_all(content.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(&file).map(drop).map_err(|error| error.error)
}

fn remove_if_empty(dir: Option<&Path>) {
    // `remove_dir` refuses one that still holds something.
    if let Some(dir) = dir {
        let _ = std::fs::remove_dir(dir);
    }
}

fn payload(arguments: &Map<String, Value>, action: &str, name: &str, replace_all: bool) -> Value {
    let mut payload = json!({"action": action, "name": name});
    for key in ["content", "category", "file_path", "file_content", "old_string", "new_string"] {
        if let Some(value) = arguments.get(key).filter(|value| !value.is_null()) {
            payload[key] = value.clone();
        }
    }
    payload["replace_all"] = json!(replace_all);
    if let Some(value) = arguments.get("absorbed_into").filter(|value| !value.is_null()) {
        payload["absorbed_into"] = value.clone();
    }
    payload
}

fn change(fields: &SkillFields) -> Value {
    let description = fields.get("description").map(frontmatter::text).unwrap_or_default();
    json!({"description": frontmatter::head(&description, 120)})
}

fn preview(text: &str) -> String {
    let more = if text.chars().nth(200).is_some() { "…" } else { "" };
    format!("{}{more}", frontmatter::head(text, 200))
}

// ------------------------------------------------------------------------------------------ checks

fn check_name(name: &str) -> Result<(), Value> {
    if name.is_empty() {
        return Err(refused("Skill name is required."));
    }
    if name.chars().count() > frontmatter::NAME_CHARS_MAX {
        return Err(refused(format!("Skill name exceeds {} characters.", frontmatter::NAME_CHARS_MAX)));
    }
    match NAME.is_match(name) {
        true => Ok(()),
        false => Err(refused(format!(
            "Invalid skill name '{name}'. Use lowercase letters, numbers, hyphens, dots, and underscores. \
             Must start with a letter or digit."
        ))),
    }
}

fn check_category(category: Option<&str>) -> Result<Option<&str>, Value> {
    let Some(category) = category.map(str::trim).filter(|category| !category.is_empty()) else {
        return Ok(None);
    };
    if category.chars().count() > frontmatter::NAME_CHARS_MAX && !category.contains(['/', '\\']) {
        return Err(refused(format!("Category exceeds {} characters.", frontmatter::NAME_CHARS_MAX)));
    }
    match NAME.is_match(category) {
        true => Ok(Some(category)),
        false => Err(refused(format!(
            "Invalid category '{category}'. Use lowercase letters, numbers, hyphens, dots, and underscores. \
             Categories must be a single directory name."
        ))),
    }
}

fn check_size(content: &str, label: &str) -> Result<(), Value> {
    let chars = content.chars().count();
    match chars > CONTENT_CHARS_MAX {
        false => Ok(()),
        true => Err(refused(format!(
            "{label} content is {} characters (limit: {}). Consider splitting into a smaller SKILL.md with \
             supporting files in references/ or templates/.",
            grouped(chars),
            grouped(CONTENT_CHARS_MAX)
        ))),
    }
}

/// `SKILL.md`, or something under one of the four directories.
fn check_path(name: &str, path: &str) -> Result<(), Value> {
    if directories::has_traversal(path) {
        return Err(refused("Path traversal ('..') is not allowed."));
    }
    let parts: Vec<_> = Path::new(path).components().map(|part| part.as_os_str().to_string_lossy()).collect();
    match parts.iter().map(AsRef::as_ref).collect::<Vec<&str>>().as_slice() {
        ["SKILL.md"] => Ok(()),
        [dir, "SKILL.md"] if *dir == name => Ok(()),
        [dir] if directories::SUPPORT.contains(dir) => {
            Err(refused(format!("Provide a file path, not just a directory. Example: '{dir}/myfile.md'")))
        }
        [dir, ..] if directories::SUPPORT.contains(dir) => Ok(()),
        _ => Err(refused(format!(
            "File must be under one of: assets, references, scripts, templates. Got: '{path}'"
        ))),
    }
}

/// The file that a path names within a skill.
fn target(dir: &Path, name: &str, path: &str) -> Result<PathBuf, Value> {
    check_path(name, path)?;
    let is_main = Path::new(path) == Path::new(name).join("SKILL.md");
    let target = if is_main { dir.join("SKILL.md") } else { dir.join(path) };
    match directories::escape(&target, dir) {
        Some(error) => Err(refused(error)),
        None => Ok(target),
    }
}

/// With a comma between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn not_found(settings: &SkillSettings, name: &str) -> String {
    let base = format!("Skill '{name}' not found in active profile '{}'.", settings.profile());
    match elsewhere(settings, name).as_slice() {
        [] => format!("{base} Use skills_list() to see available skills."),
        [(profile, path)] => format!(
            "{base} A skill by that name exists in profile '{profile}' ({}). To edit a skill in another profile, \
             switch profiles (`hermes -p {profile}`) or operate via explicit file tools with ``cross_profile=True``.",
            path.display()
        ),
        many => {
            let names: Vec<_> = many.iter().map(|(profile, _)| format!("'{profile}'")).collect();
            format!(
                "{base} Skills by that name exist in other profiles: {}. Switch profiles (`hermes -p <name>`) to edit \
                 there, or operate via explicit file tools with ``cross_profile=True``.",
                names.join(", ")
            )
        }
    }
}

/// Other profiles of this root that have a skill of this name.
fn elsewhere(settings: &SkillSettings, name: &str) -> Vec<(String, PathBuf)> {
    let here = directories::resolved(&settings.skills_dir());
    let root = settings.root();
    let mut homes = vec![("default".to_owned(), root.to_owned())];
    let profiles = std::fs::read_dir(root.join("profiles")).into_iter().flatten().flatten();
    homes.extend(profiles.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())));
    homes.truncate(PROFILES_MAX);
    homes[1..].sort();
    let others = homes.into_iter().map(|(profile, home)| (profile, home.join("skills")));
    let others = others.filter(|(_, dir)| directories::resolved(dir) != here);
    others
        .filter_map(|(profile, dir)| Some((profile, directories::find_in(&dir, name, FollowLinks::Stay)?)))
        .collect()
}
