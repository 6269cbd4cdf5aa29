//! What a text must not contain if it is to stand in a prompt.
//!
//! Hermes' patterns, in its three scopes: [`ThreatScope::All`] for any text, [`ThreatScope::Context`] for
//! files of a working directory and for memory, [`ThreatScope::Strict`] for what is written there.
//! Other ways to write ASCII letters are read as those letters; invisible characters are named.
//!
//! A guard, not a proof: it catches known attacks. Matching takes time linear in the text.

use super::ascii_fold;
use regex::bytes::{Regex, RegexBuilder};
use std::sync::LazyLock;

/// As far as Hermes looks into a text.
const SCAN_CHARS_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreatScope {
    All,
    Context,
    Strict,
}
use ThreatScope::{All, Context, Strict};

/// Up to eight words between those that matter. Bytes beyond ASCII belong to words.
const FILLER: &str = r"(?:[\w\x80-\xff]+\s+){0,8}";
const FEW: &str = r"(?:[\w\x80-\xff]+\s+){0,3}";

/// A pattern, what a finding is called, and from which scope on it counts.
#[rustfmt::skip]
const PATTERNS: [(&str, &str, ThreatScope); 36] = [
    (r#"ignore\s+{filler}(previous|all|above|prior)\s+{filler}instructions"#, "prompt_injection", All),
    (r#"system\s+prompt\s+override"#, "sys_prompt_override", All),
    (r#"disregard\s+{filler}(your|all|any)\s+{filler}(instructions|rules|guidelines)"#, "disregard_rules", All),
    (r#"act\s+as\s+(if|though)\s+{filler}you\s+{filler}(have\s+no|don\'t\s+have)\s+{filler}(restrictions|limits|rules)"#, "bypass_restrictions", All),
    (r#"<!--[^>]{0,512}(?:ignore|override|system|secret|hidden)[^>]{0,512}-->"#, "html_comment_injection", All),
    (r#"<\s*div\s+style\s*=\s*["\'][^>]{0,2048}display\s*:\s*none"#, "hidden_div", All),
    (r#"translate\s+[^\n]{0,512}\s+into\s+[^\n]{0,512}\s+and\s+(execute|run|eval)"#, "translate_execute", All),
    (r#"do\s+not\s+{filler}tell\s+{filler}the\s+user"#, "deception_hide", All),
    (r#"you\s+are\s+{filler}now\s+(?:a|an|the)\s+"#, "role_hijack", Context),
    (r#"pretend\s+{filler}(you\s+are|to\s+be)\s+"#, "role_pretend", Context),
    (r#"output\s+{filler}(system|initial)\s+prompt"#, "leak_system_prompt", Context),
    (r#"(respond|answer|reply)\s+without\s+{filler}(restrictions|limitations|filters|safety)"#, "remove_filters", Context),
    (r#"you\s+have\s+been\s+{filler}(updated|upgraded|patched)\s+to"#, "fake_update", Context),
    (r#"\bname\s+yourself\s+[\w\x80-\xff]+"#, "identity_override", Context),
    (r#"register\s+(as\s+)?a?\s*node"#, "c2_node_registration", Context),
    (r#"(heartbeat|beacon|check[\s\-]?in)\s+(to|with)\s+"#, "c2_heartbeat", Context),
    (r#"pull\s+(down\s+)?(?:new\s+)?task(?:ing|s)?\b"#, "c2_task_pull", Context),
    (r#"connect\s+to\s+the\s+network\b"#, "c2_network_connect", Context),
    (r#"you\s+must\s+{few}(register|connect|report|beacon)\b"#, "forced_action", Context),
    (r#"only\s+use\s+one[\s\-]?liners?\b"#, "anti_forensic_oneliner", Context),
    (r#"never\s+{filler}(?:create|write)\s+{filler}(?:script|file)\s+{filler}disk"#, "anti_forensic_disk", Context),
    (r#"unset\s+[\w\x80-\xff]*(?:CLAUDE|CODEX|HERMES|AGENT|OPENAI|ANTHROPIC)[\w\x80-\xff]*"#, "env_var_unset_agent", Context),
    (r#"\b(?:cobalt\s*strike|sliver|havoc|mythic|metasploit|brainworm)\b"#, "known_c2_framework", Context),
    (r#"\bc2\s+(?:server|channel|infrastructure|beacon)\b"#, "c2_explicit", Context),
    (r#"\bcommand\s+and\s+control\b"#, "c2_explicit_long", Context),
    (r#"curl\s+[^\n]{0,2048}\$\{?[\w\x80-\xff]*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|API)"#, "exfil_curl", All),
    (r#"wget\s+[^\n]{0,2048}\$\{?[\w\x80-\xff]*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|API)"#, "exfil_wget", All),
    (r#"cat\s+[^\n]{0,2048}(\.env|credentials|\.netrc|\.pgpass|\.npmrc|\.pypirc)"#, "read_secrets", All),
    (r#"(send|post|upload|transmit)\s+[^\n]{0,2048}\s+(to|at)\s+https?://"#, "send_to_url", Strict),
    (r#"(include|output|print|share)\s+{filler}(conversation|chat\s+history|previous\s+messages|full\s+context|entire\s+context)"#, "context_exfil", Strict),
    (r#"authorized_keys"#, "ssh_backdoor", Strict),
    (r#"\$HOME/\.ssh|\~/\.ssh"#, "ssh_access", Strict),
    (r#"\$HOME/\.hermes/\.env|\~/\.hermes/\.env"#, "hermes_env", Strict),
    (r#"(update|modify|edit|write|change|append|add\s+to)\s+[^\n]{0,2048}(?:AGENTS\.md|CLAUDE\.md|\.cursorrules|\.clinerules)"#, "agent_config_mod", Strict),
    (r#"(update|modify|edit|write|change|append|add\s+to)\s+[^\n]{0,2048}\.hermes/(config\.yaml|SOUL\.md)"#, "hermes_config_mod", Strict),
    (r#"(?:api[_-]?key|token|secret|password)\s*[=:]\s*["\'][A-Za-z0-9+/=_-]{20,}"#, "hardcoded_secret", Strict),
];

/// Characters that are not seen, or that turn the direction of reading.
const INVISIBLE: [char; 17] = [
    '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{2062}', '\u{2063}', '\u{2064}', '\u{feff}',
    '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}',
    '\u{2069}',
];

static COMPILED: LazyLock<Vec<(Regex, &str, ThreatScope)>> = LazyLock::new(|| {
    let compiled = |pattern: &str| {
        let pattern = pattern.replace("{filler}", FILLER).replace("{few}", FEW);
        RegexBuilder::new(&pattern).case_insensitive(true).unicode(false).build().expect("a valid pattern")
    };
    PATTERNS.iter().map(|(pattern, name, scope)| (compiled(pattern), *name, *scope)).collect()
});

/// What is wrong with the beginning of a text, as far as Hermes looks. Empty: nothing known.
pub fn findings(text: &str, scope: ThreatScope) -> Vec<String> {
    let end = text.char_indices().nth(SCAN_CHARS_MAX).map_or(text.len(), |(end, _)| end);
    findings_in_all(&text[..end], scope)
}

/// The same for the whole text, however long.
pub fn findings_in_all(text: &str, scope: ThreatScope) -> Vec<String> {
    let invisible = INVISIBLE.iter().filter(|c| text.contains(**c));
    let mut found: Vec<String> =
        invisible.map(|c| format!("invisible_unicode_U+{:04X}", u32::from(*c))).collect();
    let folded = ascii_fold::folded(text);
    let known =
        COMPILED.iter().filter(|(pattern, _, from)| *from <= scope && pattern.is_match(folded.as_bytes()));
    found.extend(known.map(|(_, name, _)| (*name).to_owned()));
    found
}
