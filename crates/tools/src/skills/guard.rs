//! The scan of what the agent writes, where a user has switched it on (`skills.guard_agent_created`).
//!
//! Of Hermes' patterns those are here that decide: for a skill the agent made, only a critical
//! finding stops the write. Lower ones would be listed and let through, so they are left out.

use super::settings::SkillSettings;
use super::view::below;
use regex::{Regex, RegexBuilder};
use std::path::Path;
use std::sync::LazyLock;

/// Kinds of files that hold instructions or code.
const SCANNED: [&str; 23] = [
    "md", "txt", "py", "sh", "bash", "js", "ts", "rb", "yaml", "yml", "json", "toml", "cfg", "ini", "conf",
    "html", "css", "xml", "tex", "r", "jl", "pl", "php",
];
/// Findings in one report. The first is reason enough.
const FINDINGS_MAX: usize = 50;

/// A pattern, and what it belongs to.
#[rustfmt::skip]
const CRITICAL: [(&str, &str); 49] = [
    (r#"curl\s+[^\n]*\$\{?\w*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|API)"#, "exfiltration"),
    (r#"wget\s+[^\n]*\$\{?\w*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|API)"#, "exfiltration"),
    (r#"fetch\s*\([^\n]*\$\{?\w*(KEY|TOKEN|SECRET|PASSWORD|API)"#, "exfiltration"),
    (r#"httpx?\.(get|post|put|patch)\s*\([^\n]*(KEY|TOKEN|SECRET|PASSWORD)"#, "exfiltration"),
    (r#"requests\.(get|post|put|patch)\s*\([^\n]*(KEY|TOKEN|SECRET|PASSWORD)"#, "exfiltration"),
    (r#"\$HOME/\.hermes/\.env|\~/\.hermes/\.env"#, "exfiltration"),
    (r#"cat\s+[^>\n][^\n]*(\.env|credentials|\.netrc|\.pgpass|\.npmrc|\.pypirc)"#, "exfiltration"),
    (r#"os\.environ\s*\.get\s*\(\s*["\'][^"\']*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)"#, "exfiltration"),
    (r#"os\.getenv\s*\(\s*[^\)]*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)"#, "exfiltration"),
    (r#"ENV\[.*(?:KEY|TOKEN|SECRET|PASSWORD)"#, "exfiltration"),
    (r#"\b(dig|nslookup|host)\s+[^\n]*\$"#, "exfiltration"),
    (r#">\s*/tmp/[^\s]*\s*&&\s*(curl|wget|nc|python)"#, "exfiltration"),
    (r#"ignore\s+(?:\w+\s+)*(previous|all|above|prior)\s+instructions"#, "injection"),
    (r#"do\s+not\s+(?:\w+\s+)*tell\s+(?:\w+\s+)*the\s+user"#, "injection"),
    (r#"system\s+(?:\w+\s+)*prompt\s+(?:\w+\s+)*override"#, "injection"),
    (r#"disregard\s+(?:\w+\s+)*(your|all|any)\s+(?:\w+\s+)*(instructions|rules|guidelines)"#, "injection"),
    (r#"act\s+as\s+(if|though)\s+(?:\w+\s+)*you\s+(?:\w+\s+)*(have\s+no|don\'t\s+have)\s+(?:\w+\s+)*(restrictions|limits|rules)"#, "injection"),
    (r#"translate\s+.*\s+into\s+.*\s+and\s+(execute|run|eval)"#, "injection"),
    (r#"rm\s+-rf\s+/"#, "destructive"),
    (r#"rm\s+(-[^\s]*)?r.*\$HOME|\brmdir\s+.*\$HOME"#, "destructive"),
    (r#">\s*/etc/"#, "destructive"),
    (r#"\bmkfs\b"#, "destructive"),
    (r#"\bdd\s+.*if=.*of=/dev/"#, "destructive"),
    (r#"truncate\s+-s\s*0\s+/"#, "destructive"),
    (r#"authorized_keys"#, "persistence"),
    (r#"/etc/sudoers|visudo"#, "persistence"),
    (r#"\bnc\s+-[lp]|ncat\s+-[lp]|\bsocat\b"#, "network"),
    (r#"/bin/(ba)?sh\s+-i\s+.*>/dev/tcp/"#, "network"),
    (r#"python[23]?\s+-c\s+["\']import\s+socket"#, "network"),
    (r#"echo\s+[^\n]*\|\s*(bash|sh|python|perl|ruby|node)"#, "obfuscation"),
    (r#"/etc/passwd|/etc/shadow"#, "traversal"),
    (r#"xmrig|stratum\+tcp|monero|coinhive|cryptonight"#, "mining"),
    (r#"curl\s+[^\n]*\|\s*(ba)?sh"#, "supply_chain"),
    (r#"wget\s+[^\n]*-O\s*-\s*\|\s*(ba)?sh"#, "supply_chain"),
    (r#"curl\s+[^\n]*\|\s*python"#, "supply_chain"),
    (r#"setuid|setgid|cap_setuid"#, "privilege_escalation"),
    (r#"NOPASSWD"#, "privilege_escalation"),
    (r#"chmod\s+[u+]?s"#, "privilege_escalation"),
    (r#"AGENTS\.md|CLAUDE\.md|\.cursorrules|\.clinerules"#, "persistence"),
    (r#"\.hermes/config\.yaml|\.hermes/SOUL\.md"#, "persistence"),
    (r#"(?:api[_-]?key|token|secret|password)\s*[=:]\s*["\'][A-Za-z0-9+/=_-]{20,}"#, "credential_exposure"),
    (r#"-----BEGIN\s+(RSA\s+)?PRIVATE\s+KEY-----"#, "credential_exposure"),
    (r#"ghp_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{80,}"#, "credential_exposure"),
    (r#"sk-[A-Za-z0-9]{20,}"#, "credential_exposure"),
    (r#"sk-ant-[A-Za-z0-9_-]{90,}"#, "credential_exposure"),
    (r#"AKIA[0-9A-Z]{16}"#, "credential_exposure"),
    (r#"\bDAN\s+mode\b|Do\s+Anything\s+Now"#, "injection"),
    (r#"\bdeveloper\s+mode\b.*\benabled?\b"#, "injection"),
    (r#"(respond|answer|reply)\s+without\s+(?:\w+\s+)*(restrictions|limitations|filters|safety)"#, "injection"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compiled = |pattern: &str| RegexBuilder::new(pattern).case_insensitive(true).unicode(true).build();
    CRITICAL.iter().map(|(pattern, kind)| (compiled(pattern).expect("a valid pattern"), *kind)).collect()
});

/// Why a skill may not stay as it now is.
pub fn objection(settings: &SkillSettings, dir: &Path) -> Option<String> {
    let mut findings = Vec::new();
    for path in below(dir, dir, &|_| true) {
        let file = dir.join(&path);
        if file.is_symlink() && super::directories::escape(&file, dir).is_some() {
            findings.push(line("traversal", &path, 0, "symlink out of the skill"));
            continue;
        }
        let kind = file.extension().map(|kind| kind.to_string_lossy().to_lowercase()).unwrap_or_default();
        if !SCANNED.contains(&kind.as_str()) {
            continue;
        }
        let Ok(text) = super::directories::read(settings, &file) else { continue };
        findings.extend(self::findings(&path, &text));
    }
    if findings.is_empty() {
        return None;
    }
    let count = findings.len();
    findings.truncate(FINDINGS_MAX);
    let reason =
        format!("Requires confirmation (agent-created source + dangerous verdict, {count} findings)");
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Some(format!(
        "Security scan blocked this skill ({reason}):\nScan: {name} (agent-created/agent-created)  Verdict: DANGEROUS\n{}\n\nDecision: NEEDS CONFIRMATION — {reason}",
        findings.join("\n")
    ))
}

/// What is wrong with one file.
pub fn findings(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, content) in text.split('\n').enumerate() {
        for (_, kind) in PATTERNS.iter().filter(|(pattern, _)| pattern.is_match(content)) {
            findings.push(line(kind, path, number + 1, content.trim()));
        }
    }
    findings
}

fn line(kind: &str, path: &str, number: usize, found: &str) -> String {
    let place = format!("{path}:{number}");
    format!("  CRITICAL {kind:<14} {place:<30} \"{}\"", super::frontmatter::head(found, 60))
}
