//! Placeholders in a SKILL.md: two variables, and commands where a user allows it.

#[cfg(unix)]
use super::inline_shell::{Runner, run};
use regex::Regex;
use std::path::Path;
use std::sync::LazyLock;
#[cfg(unix)]
use std::time::Duration;

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{(HERMES_SKILL_DIR|HERMES_SESSION_ID)\}").expect("a valid pattern"));
static SNIPPET: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"!`([^`\n]+)`").expect("a valid pattern"));

#[cfg(unix)]
/// Commands in one skill. Each may take the whole timeout, and a turn waits.
const SNIPPETS_MAX: usize = 20;

/// With `${HERMES_SKILL_DIR}` and `${HERMES_SESSION_ID}` replaced. What has no value stays.
pub fn substituted(content: &str, dir: Option<&Path>, session: &str) -> String {
    let replaced = VARIABLE.replace_all(content, |found: &regex::Captures<'_>| match (&found[1], dir) {
        ("HERMES_SKILL_DIR", Some(dir)) => dir.display().to_string(),
        ("HERMES_SESSION_ID", _) if !session.is_empty() => session.to_owned(),
        _ => found[0].to_owned(),
    });
    replaced.into_owned()
}

/// The commands of a skill, one to a line: what is judged before any of them runs.
#[cfg(unix)]
pub fn commands(content: &str) -> String {
    let found = SNIPPET.captures_iter(content).take(SNIPPETS_MAX);
    found.map(|found| found[1].trim().to_owned()).collect::<Vec<_>>().join("\n")
}

/// With `words` in the place of each ``!`command` ``.
pub fn replaced(content: &str, words: &str) -> String {
    SNIPPET.replace_all(content, regex::NoExpand(words)).into_owned()
}

/// With the output of each ``!`command` `` in its place.
#[cfg(unix)]
pub async fn executed(content: &str, dir: &Path, timeout: Duration, runner: &Runner) -> String {
    let mut out = String::with_capacity(content.len());
    let mut end = 0;
    for found in SNIPPET.captures_iter(content).take(SNIPPETS_MAX) {
        let Some(whole) = found.get(0) else { continue };
        out.push_str(&content[end..whole.start()]);
        let command = found[1].trim();
        if !command.is_empty() {
            out.push_str(&run(command, dir, timeout, runner).await);
        }
        end = whole.end();
    }
    out.push_str(&content[end..]);
    out
}
