//! Skills: notes on how to do things, kept as files.
//!
//! A skill is a directory with a `SKILL.md` in Hermes' layout. The model is told of each in one
//! line ([`SkillKit::index`]), loads one with `skill_view` and writes its own with `skill_manage`.
//! Everything is read from disk when it is asked for: a skill that a user edits is new at once.
//!
//! - no name and no path leads out of the directories of skills; what a link leads to is read and
//!   never changed
//! - a skill that is switched off, or made for another system, is not shown by any of the tools
//! - commands in a skill (`skills.inline_shell`) are judged and confined as the terminal's are, or not run
//! - every file is replaced whole, and what the user pinned is not deleted
//!
//! Deliberately absent: skills of plugins, the hub, the curator. What they keep in the skills
//! directory (`.hub/`, `.archive/`, `.usage.json`) is respected.

pub mod settings;

mod directories;
mod frontmatter;
mod guard;
mod index;
#[cfg(unix)]
mod inline_shell;
mod manage;
mod pending;
mod render;
mod replace;
mod usage_file;
mod view;

#[cfg(test)]
mod linear;
#[cfg(test)]
mod tests;

pub(crate) use directories::resolved;
pub use index::OfferedTools;
pub use replace::Replace;
pub use settings::SkillSettings;

#[cfg(unix)]
use crate::approval::Judgement;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
#[cfg(unix)]
use std::time::Duration;
use throughline_core::id::SessionId;
use throughline_core::message::JsonText;
use throughline_core::port::Promise;
use throughline_core::tool::{Call, Caller, Kit, Returned, Spec};
use throughline_hermes::json::dumps_unicode;
use usage_file::{SkillUsage, UsageCount};

/// One command in a skill may not hold up a turn for longer, even if the config allows it.
#[cfg(unix)]
const SHELL_TIMEOUT_MAX: u64 = 120;

/// Stands where a command's output would.
const NOT_RUN: &str = "[inline-shell error: commands in skills are not run here]";
#[cfg(unix)]
const BLOCKED: &str =
    "[inline-shell error: the commands of this skill may not run without a person's approval]";

/// The skills of one home.
pub struct SkillKit {
    shelf: Arc<SkillTools>,
    /// Environment variables that skills viewed in a session need.
    variables: Mutex<HashMap<SessionId, BTreeSet<String>>>,
    /// Who runs the commands of skills. Without one, none is run.
    #[cfg(unix)]
    runner: Option<inline_shell::Runner>,
}

struct SkillTools {
    settings: SkillSettings,
    replace: Replace,
    /// One change at a time: two calls of a turn may change one file.
    changing: Mutex<()>,
}

impl SkillKit {
    pub fn new(settings: SkillSettings) -> Self {
        let shelf = SkillTools { settings, replace: replace::replaced, changing: Mutex::new(()) };
        Self {
            shelf: Arc::new(shelf),
            variables: Mutex::new(HashMap::new()),
            #[cfg(unix)]
            runner: None,
        }
    }

    /// Commands in skills run as those of the terminal do: after this judge has let them, and confined so.
    #[cfg(unix)]
    #[must_use]
    pub fn running(
        self,
        judge: Arc<dyn crate::approval::CommandJudge>,
        confine: Arc<dyn crate::sandbox::Confine>,
    ) -> Self {
        Self { runner: Some(inline_shell::Runner { judge, confine }), ..self }
    }

    /// With another way for `patch` to find its place.
    #[must_use]
    pub fn matching(self, replace: Replace) -> Self {
        let shelf = SkillTools { settings: self.shelf.settings.clone(), replace, changing: Mutex::new(()) };
        Self { shelf: Arc::new(shelf), ..self }
    }

    pub fn settings(&self) -> &SkillSettings {
        &self.shelf.settings
    }

    /// The skills that a session is told of, for its system prompt; empty if there are none. Reads
    /// files: not for a thread that must not wait.
    pub fn index(&self, offered: OfferedTools<'_>) -> String {
        index::index(&self.shelf.settings, offered)
    }

    /// What a skill says, for a session that begins with it; None if the caller may not see one of this
    /// name. Reads files: not for a thread that must not wait.
    pub fn content(&self, name: &str, caller: &Caller) -> Option<String> {
        let answer = view::view(&self.shelf.settings, name, None, caller).answer;
        let content = answer["content"].as_str().filter(|_| answer["success"] == true)?;
        Some(content.to_owned())
    }

    /// Names of environment variables that skills viewed in this session need and that are set:
    /// what a command of that session may see of the environment.
    pub fn variables(&self, session: &SessionId) -> BTreeSet<String> {
        let variables = self.variables.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        variables.get(session).cloned().unwrap_or_default()
    }

    async fn answer(&self, call: &Call) -> Result<Value, Returned> {
        let arguments = match serde_json::from_str::<Value>(&call.arguments) {
            _ if call.arguments.trim().is_empty() => Map::new(),
            Ok(Value::Object(arguments)) => arguments,
            Ok(_) => return Ok(json!({"error": "The arguments must be a JSON object.", "success": false})),
            Err(error) => {
                return Ok(
                    json!({"error": format!("The arguments are not valid JSON: {error}"), "success": false}),
                );
            }
        };
        let shelf = self.shelf.clone();
        let task = call.clone();
        let done = tokio::task::spawn_blocking(move || shelf.act(&task, &arguments)).await;
        match done {
            Ok(viewed) => self.finished(call, viewed).await,
            Err(error) => Ok(json!({"error": format!("{} failed: {error}", call.name), "success": false})),
        }
    }

    /// Err: a person must allow the commands of the skill first.
    async fn finished(&self, call: &Call, viewed: view::ViewedSkill) -> Result<Value, Returned> {
        let mut answer = viewed.answer;
        if !viewed.variables.is_empty() {
            let mut known = self.variables.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            known.entry(call.caller.session.clone()).or_default().extend(viewed.variables);
        }
        if let (Some(dir), Some(content)) = (viewed.shell_in, answer["content"].as_str()) {
            answer["content"] = json!(self.with_commands(call, content, &dir).await?);
        }
        Ok(answer)
    }

    #[cfg(unix)]
    async fn with_commands(&self, call: &Call, content: &str, dir: &Path) -> Result<String, Returned> {
        let Some(runner) = &self.runner else { return Ok(render::replaced(content, NOT_RUN)) };
        match runner.judge.judge(call, &render::commands(content)).await {
            Judgement::Run { .. } => {
                let seconds = self.shelf.settings.inline_shell_timeout_seconds.clamp(1, SHELL_TIMEOUT_MAX);
                Ok(render::executed(content, dir, Duration::from_secs(seconds), runner).await)
            }
            Judgement::Ask { question, patience } => Err(Returned::Ask { question, patience }),
            Judgement::Block(_) => Ok(render::replaced(content, BLOCKED)),
        }
    }

    /// Commands need `bash` and a process group to end them by.
    #[cfg(not(unix))]
    async fn with_commands(&self, _: &Call, content: &str, _: &Path) -> Result<String, Returned> {
        Ok(render::replaced(content, NOT_RUN))
    }
}

impl SkillTools {
    fn act(&self, call: &Call, arguments: &Map<String, Value>) -> view::ViewedSkill {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str);
        match call.name.as_str() {
            "skills_list" => view::list(&self.settings, text("category"), &call.caller).into(),
            "skill_view" => match arguments.get("name").unwrap_or(&json!("")) {
                Value::String(name) => self.view(call, name, text("file_path")),
                _ => json!({
                    "success": false,
                    "error": "Skill name must be a string.",
                    "hint": "Use a skill name or relative path within the skills directory.",
                })
                .into(),
            },
            "skill_manage" => {
                let _alone = self.changing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                manage::SkillManager { settings: &self.settings, replace: self.replace }
                    .run(call, arguments)
                    .into()
            }
            other => json!({"error": format!("Unknown tool: {other}"), "success": false}).into(),
        }
    }

    fn view(&self, call: &Call, name: &str, file_path: Option<&str>) -> view::ViewedSkill {
        let viewed = view::view(&self.settings, name, file_path, &call.caller);
        if let Some(used) = &viewed.used {
            SkillUsage::of(&self.settings.skills_dir()).count(used, UsageCount::Viewed, call.caller.now);
        }
        viewed
    }
}

impl Kit for SkillKit {
    fn specs(&self) -> Vec<Spec> {
        specs(&self.shelf.settings)
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async move {
            match self.answer(call).await {
                Ok(answer) => Returned::text(dumps_unicode(&answer)),
                Err(asking) => asking,
            }
        })
    }

    fn forget(&self, session: &SessionId) {
        self.variables.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(session);
    }
}

/// A refusal that the model can act on.
fn refused(error: impl Into<String>) -> Value {
    json!({"success": false, "error": error.into()})
}

fn specs(settings: &SkillSettings) -> Vec<Spec> {
    let text = |description: &str| json!({"type": "string", "description": description});
    let spec =
        |name: &str, description: String, properties: Value, required: &[&str], repeatable: bool| Spec {
            name: name.to_owned(),
            toolset: "skills".to_owned(),
            description,
            parameters: JsonText::from_valid(dumps_unicode(
                &json!({"type": "object", "properties": properties, "required": required}),
            )),
            repeatable,
        };
    vec![
        spec(
            "skills_list",
            "List the skills there are, by name and description. skill_view(name) loads one.".to_owned(),
            json!({"category": text("Only skills of this category")}),
            &[],
            true,
        ),
        spec(
            "skill_view",
            "Load a skill: instructions for a kind of task, with scripts and templates. The first call gives its \
             SKILL.md and, in 'linked_files', what else belongs to it; call again with file_path for one of those."
                .to_owned(),
            json!({
                "name": text("The skill's name as skills_list shows it, or its path ('category/skill')."),
                "file_path": text("OPTIONAL: a linked file of the skill (e.g. 'references/api.md', 'templates/config.yaml', 'scripts/validate.py'). Leave it out for SKILL.md itself."),
            }),
            &["name"],
            !settings.inline_shell, // a view that runs commands is not a mere look
        ),
        spec(
            "skill_manage",
            format!(
                "Create, change and delete skills, your memory of how things are done. New ones go to {}/skills/; \
                 an existing one is changed where it is.\n\n\
                 Actions: create (whole SKILL.md, optional category), patch (old_string/new_string; best for fixes), \
                 edit (whole SKILL.md anew; for major rewrites only), delete, write_file, remove_file.\n\n\
                 Create one after a complex task (5+ calls) went well, errors were overcome, the user corrected you, \
                 or asks you to remember a procedure. Patch one at once when it turned out wrong, stale or incomplete. \
                 Not for one-offs; ask the user before you create or delete.\n\n\
                 A good skill says when it applies, gives numbered steps with exact commands, names pitfalls, and how \
                 to verify. On delete, absorbed_into=<skill> says where the content went (that skill must exist), \
                 absorbed_into=\"\" that it went nowhere. Pinned skills can be patched and not deleted.",
                settings.shown_home
            ),
            json!({
                "action": {
                    "type": "string",
                    "enum": ["create", "patch", "edit", "delete", "write_file", "remove_file"],
                    "description": "What to do.",
                },
                "name": text("The skill's name (lowercase, hyphens/underscores, max 64 chars). Except for create it must exist."),
                "content": text("The whole SKILL.md (YAML frontmatter and markdown). Required for 'create' and 'edit'; before an 'edit', read it with skill_view()."),
                "old_string": text("The text to find (required for 'patch'). It must occur once, unless replace_all=true: give enough around it."),
                "new_string": text("What takes its place (required for 'patch'). Empty deletes it."),
                "replace_all": {"type": "boolean", "description": "For 'patch': replace every occurrence (default: false)."},
                "category": text("For 'create': a directory to group the skill in (e.g. 'devops', 'data-science')."),
                "file_path": text("A file of the skill, under references/, templates/, scripts/ or assets/. Required for 'write_file' and 'remove_file'; for 'patch' SKILL.md if left out."),
                "file_content": text("The content of the file. Required for 'write_file'."),
                "absorbed_into": text("For 'delete': the existing skill that took over the content, or empty if none did."),
            }),
            &["action", "name"],
            false,
        ),
    ]
}
