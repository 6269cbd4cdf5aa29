//! One command of a SKILL.md: run, read, and ended with all that it started.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

/// What one command may add to a skill, in characters.
const OUTPUT_CHARS_MAX: usize = 4000;
/// What is read of an output before it is cut: four bytes for each character.
const OUTPUT_BYTES_MAX: u64 = 4 * OUTPUT_CHARS_MAX as u64 + 4;
/// Of the environment, a skill's commands see what a shell needs to find its way, and no secret.
const PASSED_ON: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SHELL"];

/// What it said, or why it said nothing.
pub async fn run(command: &str, dir: &Path, timeout: Duration) -> String {
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
