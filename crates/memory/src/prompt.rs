//! The files as the system prompt shows them.

use crate::memory_text::{MemoryText, joined};
use crate::python_text::chars;
use crate::settings::MemorySettings;
use crate::target::MemoryTarget;
use crate::threats;
use crate::tool_result::percent_usage;

const RULE_WIDTH: usize = 46;

/// What one file adds to a prompt. None: it is switched off, empty, or cannot be read.
pub fn block(target: MemoryTarget, settings: &MemorySettings) -> Option<String> {
    if !target.is_enabled(settings) {
        return None;
    }
    let held = target.file(settings).read().unwrap_or_else(|error| {
        tracing::warn!(%error, "memory is left out of the prompt");
        None
    })?;
    render(target, MemoryText::parse(&held).entries(), target.limit(settings))
}

fn render(target: MemoryTarget, entries: &[String], limit: usize) -> Option<String> {
    let shown: Vec<String> = entries.iter().map(|entry| harmless(entry, target.file_name())).collect();
    let content = joined(&shown);
    let title = match target {
        MemoryTarget::Memory => "MEMORY (your personal notes)",
        MemoryTarget::User => "USER PROFILE (who the user is)",
    };
    let rule = "═".repeat(RULE_WIDTH);
    let usage = percent_usage(chars(&content), limit);
    (!entries.is_empty()).then(|| format!("{rule}\n{title} [{usage}]\n{rule}\n{content}"))
}

/// An entry that reads like an attack is named, not shown. The file keeps it for a person to see.
fn harmless(entry: &str, file_name: &str) -> String {
    let findings = if entry.starts_with("[BLOCKED:") { Vec::new() } else { threats::findings(entry) };
    if findings.is_empty() {
        return entry.to_owned();
    }
    let found = findings.join(", ");
    tracing::warn!(file_name, found, "an entry is blocked from the prompt");
    format!(
        "[BLOCKED: {file_name} entry contained threat pattern(s): {found}. Removed from system prompt; use \
         memory(action=remove) to delete the original.]"
    )
}
