//! Writes that wait for a person: `pending/skills/<id>.json`, which Hermes' `/skills approve` reads.

use super::settings::SkillSettings;
use serde_json::{Value, json};
use throughline_core::prompt::Digest;
use throughline_core::tool::Call;

/// Puts a write aside. The same call has the same id, however often it comes.
pub fn stage(settings: &SkillSettings, call: &Call, payload: Value) -> Value {
    let mut id = Digest::of(&[b"pending", call.key.as_bytes()]).to_hex();
    id.truncate(8);
    let gist = gist(&payload);
    let record = json!({
        "id": id,
        "subsystem": "skills",
        "action": payload["action"],
        "summary": gist,
        "origin": "foreground",
        "created_at": call.caller.now.as_seconds(),
        "payload": payload,
    });
    let file = settings.home.join("pending").join("skills").join(format!("{id}.json"));
    let text = serde_json::to_string_pretty(&record).unwrap_or_default();
    if let Err(error) = super::manage::write(&file, &text) {
        return super::refused(format!(
            "skills.write_approval is on, and the change could not be put aside in {}: {error}. Nothing was changed.",
            file.display()
        ));
    }
    json!({
        "success": true,
        "staged": true,
        "pending_id": id,
        "gist": gist,
        "message": "Staged for approval (skills.write_approval is on). Not yet saved — review with /skills pending.",
    })
}

/// One line that says what the write would do.
pub fn gist(payload: &Value) -> String {
    let text = |key: &str| payload[key].as_str().unwrap_or_default();
    let (action, name, content) = (text("action"), text("name"), text("content"));
    let lines = |text: &str| if text.is_empty() { 0 } else { text.matches('\n').count() + 1 };
    match action {
        "create" | "edit" if !content.is_empty() => {
            let chars = content.chars().count();
            let size =
                if chars >= 1024 { format!("{} KB", chars / 1024 + 1) } else { format!("{chars} chars") };
            let verb = if action == "create" { "create" } else { "rewrite" };
            match description(content) {
                "" => format!("{verb} '{name}' ({size})"),
                description => format!("{verb} '{name}' — {description} ({size})"),
            }
        }
        "patch" => {
            let target = if text("file_path").is_empty() { "SKILL.md" } else { text("file_path") };
            let (added, removed) = (lines(text("new_string")), lines(text("old_string")));
            format!("patch '{name}' {target} (+{added}/-{removed} lines)")
        }
        "write_file" => format!("write {} in '{name}'", text("file_path")),
        "remove_file" => format!("remove {} from '{name}'", text("file_path")),
        "delete" => format!("delete skill '{name}'"),
        _ => format!("{action} '{name}'"),
    }
}

fn description(content: &str) -> &str {
    let line = content.lines().find_map(|line| line.strip_prefix("description:")).unwrap_or_default();
    super::frontmatter::head(line.trim().trim_matches(['\'', '"']), 140)
}
