//! One command of a SKILL.md: run, read, and ended with all that it started.
//!
//! It is a command like any of the terminal's: the same judge has let it, and it may touch no more.

use crate::approval::CommandJudge;
use crate::sandbox::Confine;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::unix::pipe::Receiver;

/// What one command may add to a skill, in characters.
const OUTPUT_CHARS_MAX: usize = 4000;
/// What is read of an output before it is cut: four bytes for each character.
const OUTPUT_BYTES_MAX: u64 = 4 * OUTPUT_CHARS_MAX as u64 + 4;
/// Of the environment, a skill's commands see what a shell needs to find its way, and no secret.
const PASSED_ON: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SHELL"];

/// Who lets commands run, and what they may touch.
#[derive(Clone)]
pub struct Runner {
    pub judge: Arc<dyn CommandJudge>,
    pub confine: Arc<dyn Confine>,
}

/// What it said, or why it said nothing.
pub async fn run(command: &str, dir: &Path, timeout: Duration, runner: &Runner) -> String {
    let mut prepared = Command::new("bash");
    let known = PASSED_ON.iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
    prepared.args(["-c", command]).current_dir(dir).env_clear().envs(known).process_group(0);
    prepared.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let confine = runner.confine.clone();
    // What the command started goes with it: at its end, at the timeout, and if the call is given up.
    let spawned = tokio::task::spawn_blocking(move || {
        confine.spawn(prepared).map(|child| (SnippetProcessGroup(child.id()), child))
    });
    let (_group, child) = match spawned.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(started) => started,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return "[inline-shell error: bash not found]".to_owned();
        }
        Err(error) => return format!("[inline-shell error: {error}]"),
    };
    match tokio::time::timeout(timeout, said(child)).await {
        Err(_) => format!("[inline-shell timeout after {}s: {command}]", timeout.as_secs()),
        Ok(Err(error)) => format!("[inline-shell error: {error}]"),
        Ok(Ok((stdout, stderr))) => {
            let output = if stdout.is_empty() { stderr } else { stdout };
            match output.char_indices().nth(OUTPUT_CHARS_MAX) {
                Some((end, _)) => format!("{}...[truncated]", &output[..end]),
                None => output,
            }
        }
    }
}

/// Both outputs, once it has ended.
async fn said(mut child: Child) -> io::Result<(String, String)> {
    let pipe = |end: Option<OwnedFd>| end.map(Receiver::from_owned_fd).transpose();
    let (stdout, stderr) =
        (pipe(child.stdout.take().map(OwnedFd::from))?, pipe(child.stderr.take().map(OwnedFd::from))?);
    let ended = tokio::task::spawn_blocking(move || child.wait());
    let (stdout, stderr, _) = tokio::join!(head(stdout), head(stderr), ended);
    Ok((stdout, stderr))
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
struct SnippetProcessGroup(u32);

impl Drop for SnippetProcessGroup {
    fn drop(&mut self) {
        let group = format!("-{}", self.0);
        let mut kill = Command::new("kill");
        let kill = kill
            .args(["-KILL", "--", &group])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let _ = kill.status();
    }
}
