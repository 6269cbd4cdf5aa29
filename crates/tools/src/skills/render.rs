//! What stands in a SKILL.md for something else: two variables, and commands where a user allows it.

use regex::Regex;
use std::path::Path;
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{(HERMES_SKILL_DIR|HERMES_SESSION_ID)\}").expect("a valid pattern"));
static SNIPPET: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"!`([^`\n]+)`").expect("a valid pattern"));

/// What one command may add to a skill, in characters.
const OUTPUT_CHARS_MAX: usize = 4000;
/// What is read of an output before it is cut: four bytes for each character.
const OUTPUT_BYTES_MAX: u64 = 4 * OUTPUT_CHARS_MAX as u64 + 4;
/// Commands in one skill. Each may take the whole timeout, and somebody waits.
const SNIPPETS_MAX: usize = 20;
/// Of the environment, a skill's commands see what a shell needs to find its way, and no secret.
const PASSED_ON: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SHELL"];

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

async fn run(command: &str, dir: &Path, timeout: Duration) -> String {
    let known = PASSED_ON.iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
    let spawned = Command::new("bash")
        .args(["-c", command])
        .current_dir(dir)
        .env_clear()
        .envs(known)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return "[inline-shell error: bash not found]".to_owned();
        }
        Err(error) => return format!("[inline-shell error: {error}]"),
    };
    // Whatever the command started goes with it: at its end, at the timeout, and if nobody waits.
    let _group = Group(child.id());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let finished = tokio::time::timeout(timeout, async {
        let ((stdout, stderr), _) =
            tokio::join!(async { tokio::join!(head(stdout), head(stderr)) }, child.wait());
        (stdout, stderr)
    });
    match finished.await {
        Err(_) => format!("[inline-shell timeout after {}s: {command}]", timeout.as_secs()),
        Ok((stdout, stderr)) => {
            let output = if stdout.is_empty() { stderr } else { stdout };
            match output.char_indices().nth(OUTPUT_CHARS_MAX) {
                Some((end, _)) => format!("{}...[truncated]", &output[..end]),
                None => output,
            }
        }
    }
}

/// The beginning of an output. The rest is read and dropped, so that the command can end.
async fn head(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let mut bytes = Vec::new();
    let _ = (&mut pipe).take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()
}

/// A process group that ends when this is dropped.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let Some(id) = self.0 else { return };
        let group = format!("-{id}");
        let mut kill = std::process::Command::new("kill");
        let kill = kill
            .args(["-KILL", "--", &group])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let _ = kill.status();
    }
}
