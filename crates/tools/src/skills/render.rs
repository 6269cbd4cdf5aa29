//! What stands in a SKILL.md for something else: two variables, and commands where a user allows it.

#[cfg(unix)]
use super::snippet::run;
use regex::Regex;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{(HERMES_SKILL_DIR|HERMES_SESSION_ID)\}").expect("a valid pattern"));
static SNIPPET: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"!`([^`\n]+)`").expect("a valid pattern"));

/// Commands in one skill. Each may take the whole timeout, and somebody waits.
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

/// With the output of each ``!`command` `` in its place.
pub async fn executed(content: &str, dir: &Path, timeout: Duration) -> String {
    let mut out = String::with_capacity(content.len());
    let mut end = 0;
    for found in SNIPPET.captures_iter(content).take(SNIPPETS_MAX) {
        let Some(whole) = found.get(0) else { continue };
        out.push_str(&content[end..whole.start()]);
        let command = found[1].trim();
        if !command.is_empty() {
            out.push_str(&run(command, dir, timeout).await);
        }
        end = whole.end();
    }
    out.push_str(&content[end..]);
    out
}

/// Commands need `bash` and a process group to end them by.
#[cfg(not(unix))]
async fn run(_command: &str, _dir: &Path, _timeout: Duration) -> String {
    "[inline-shell error: commands in skills are run on Linux and macOS only]".to_owned()
}
