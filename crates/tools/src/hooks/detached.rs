//! Runs that outlive the process that began them, and are begun once.
//!
//! A run has a directory, named by the hook and the key of what it is told. A small shell around the
//! program makes `claim` there first, which only one can, leaves its own number in it, and afterwards
//! the program's exit code, under its name only when it is whole. So the directory tells every
//! process: the run has not begun; it runs; it has ended, and how; or the process that ran it was killed.
//!
//! - if the gateway is killed at any moment, the program goes on, and the next gateway waits for it or
//!   reads how it ended: it is not begun again
//! - only a program that was killed itself, or lost with the machine, is begun again. It finds the same
//!   `idempotency_key` in what it is told

use super::HookSurroundings;
use super::once::in_words;
use crate::terminal::process_group::{self, FOREGROUND_GRACE, ProcessIdentity};
use rustix::process::{Pid, test_kill_process};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use throughline_private_files as private_files;
use tokio::time::sleep;

/// How often a run is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between its claim and its number a shell needs no time to speak of. One that has left none by
/// then was killed in between.
const CLAIM_PATIENCE: Duration = Duration::from_secs(5);
/// What was never claimed by then never will be.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// As much of what a program said as is told when it failed.
const SAID_CHARS: usize = 400;

/// `$1` is the directory of the run, the rest is the program. `mkdir` decides between two shells. The
/// start time beside the number tells the shell from a later process of the same number.
const SHELL: &str = r#"
run=$1; shift
mkdir "$run/claim" 2>/dev/null || exit 75
start=$(sed 's/.*) //' /proc/$$/stat 2>/dev/null | cut -d' ' -f20)
echo "$$ $start" > "$run/claim/new" && mv "$run/claim/new" "$run/claim/pid"
"$@" < "$run/input" > "$run/said" 2>&1
echo $? > "$run/code.new" && mv "$run/code.new" "$run/code"
"#;

pub struct DetachedRuns {
    runs: PathBuf,
    surroundings: Arc<HookSurroundings>,
}

/// What is known of a run.
#[derive(Debug, PartialEq, Eq)]
enum RunRecord {
    Nothing,
    Claimed,
    Runs(ProcessIdentity),
    Ended(i32),
    Killed,
}

impl DetachedRuns {
    pub fn new(runs: PathBuf, surroundings: Arc<HookSurroundings>) -> Self {
        Self { runs, surroundings }
    }

    pub(super) fn of(&self, name: &str, key: &str) -> PathBuf {
        let digest = Sha256::new().chain_update(name).chain_update([0]).chain_update(key).finalize();
        let short: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        self.runs.join(short)
    }

    /// Waits for its end, and begins it only if no process has.
    pub async fn run(
        &self,
        name: &str,
        key: &str,
        words: &[String],
        input: &str,
        timeout: Duration,
    ) -> Result<(), String> {
        let run = self.of(name, key);
        let kept =
            |error: io::Error| format!("its run could not be kept in {}: {error}", self.runs.display());
        let mut began = None;
        loop {
            let age = age_of(&run.join("claim"));
            match look(&run) {
                RunRecord::Ended(0) => return Ok(()),
                RunRecord::Ended(code) => {
                    let said = said(&run);
                    clear(&run).map_err(kept)?;
                    return Err(format!("exit code {code}{said}"));
                }
                RunRecord::Runs(shell) if age > timeout => {
                    let ending =
                        tokio::task::spawn_blocking(move || process_group::end(shell, FOREGROUND_GRACE));
                    let _ = ending.await; // it runs no longer, or cannot be ended
                    clear(&run).map_err(kept)?;
                    return Err(format!("it took longer than {} seconds", timeout.as_secs()));
                }
                RunRecord::Claimed if age > CLAIM_PATIENCE => clear(&run).map_err(kept)?,
                RunRecord::Killed if began.is_some() => {
                    clear(&run).map_err(kept)?;
                    return Err("it was killed before its end".to_owned());
                }
                RunRecord::Killed => clear(&run).map_err(kept)?, // in an earlier life: it is begun again
                RunRecord::Nothing => match began {
                    None => {
                        begin(&run, words, input, &self.surroundings)?;
                        began = Some(SystemTime::now());
                    }
                    Some(since) if since.elapsed().unwrap_or_default() > START_PATIENCE => {
                        return Err("it could not be started".to_owned());
                    }
                    Some(_) => {}
                },
                RunRecord::Runs(_) | RunRecord::Claimed => {}
            }
            sleep(LOOK_EVERY).await;
        }
    }

    pub fn forget(&self, name: &str, key: &str) {
        let _ = clear(&self.of(name, key)); // what stays is small, and is not read again
    }
}

fn look(run: &Path) -> RunRecord {
    if let Some(code) = fs::read_to_string(run.join("code")).ok().and_then(|code| code.trim().parse().ok()) {
        return RunRecord::Ended(code);
    }
    match fs::read_to_string(run.join("claim/pid")) {
        Ok(text) => {
            let mut numbers = text.split_whitespace();
            let pid = numbers.next().and_then(|pid| pid.parse().ok());
            let start = numbers.next().and_then(|start| start.parse().ok());
            match pid.map(|pid| ProcessIdentity { pid, start }) {
                Some(shell) if is_alive(shell) => RunRecord::Runs(shell),
                // It may have ended between the two looks.
                _ => {
                    match fs::read_to_string(run.join("code")).ok().and_then(|code| code.trim().parse().ok())
                    {
                        Some(code) => RunRecord::Ended(code),
                        None => RunRecord::Killed,
                    }
                }
            }
        }
        Err(_) if run.join("claim").exists() => RunRecord::Claimed,
        Err(_) => RunRecord::Nothing,
    }
}

fn is_alive(shell: ProcessIdentity) -> bool {
    match Path::new("/proc/self").exists() {
        true => shell.is_alive(),
        false => {
            let pid = i32::try_from(shell.pid).ok().and_then(Pid::from_raw);
            pid.is_some_and(|pid| test_kill_process(pid).is_ok()) // no start time is known there
        }
    }
}

fn begin(run: &Path, words: &[String], input: &str, surroundings: &HookSurroundings) -> Result<(), String> {
    if !is_there(&words[0], surroundings) {
        return Err("command not found".to_owned());
    }
    let kept = |error: io::Error| format!("its run could not be kept in {}: {error}", run.display());
    private_files::create_directory(run).map_err(kept)?;
    let file = private_files::file_options().write(true).create(true).truncate(true).open(run.join("input"));
    io::Write::write_all(&mut file.map_err(kept)?, input.as_bytes()).map_err(kept)?;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(SHELL).arg("throughline-hook").arg(run).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    surroundings.apply(&mut command);
    let mut child = command.spawn().map_err(|error| in_words(&error))?;
    std::thread::spawn(move || child.wait()); // or its number would never be free again
    Ok(())
}

/// A shell would say so, too, but in its own words and as if the program had said it.
fn is_there(program: &str, surroundings: &HookSurroundings) -> bool {
    if program.contains('/') {
        return Path::new(program).exists();
    }
    let path = surroundings.environment.get("PATH").map(String::as_str).unwrap_or_default();
    std::env::split_paths(path).any(|directory| directory.join(program).exists())
}

fn age_of(claim: &Path) -> Duration {
    let made = fs::metadata(claim).and_then(|found| found.modified());
    made.ok().and_then(|made| made.elapsed().ok()).unwrap_or_default()
}

fn said(run: &Path) -> String {
    let said = fs::read(run.join("said")).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let said: String = said.trim().chars().take(SAID_CHARS).collect();
    if said.is_empty() { said } else { format!(": {said}") }
}

fn clear(run: &Path) -> io::Result<()> {
    match fs::remove_dir_all(run) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        cleared => cleared,
    }
}
