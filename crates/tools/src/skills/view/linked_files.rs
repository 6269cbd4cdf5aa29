//! The files beside a SKILL.md that a skill is made of.

use super::super::directories;
use super::super::settings::SkillSettings;
use super::{FILE_HINT, LISTING_MAX, ViewedSkill};
use serde_json::{Map, Value, json};
use std::path::Path;

pub(super) fn linked(settings: &SkillSettings, name: &str, dir: &Path, path: &str) -> ViewedSkill {
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

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// All that can be asked for, by directory.
pub(super) fn available(dir: &Path) -> Value {
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

/// What belongs to a skill, by directory, with the kinds of files that Hermes shows of each.
pub(super) fn linked_files(dir: &Path) -> Map<String, Value> {
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
