//! One run of one program, waited for here: its answer, and no longer than its time.

use super::{HookOutcome, HookSurroundings};
use crate::terminal::process_group::{self, FOREGROUND_GRACE, ProcessIdentity, code_of};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// More than a decision needs; what comes after it is not read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// What a program has said by its end is there at once; a grandchild may hold the pipe open for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Blocks.
pub fn run(words: &[String], surroundings: &HookSurroundings, input: &str, timeout: Duration) -> HookOutcome {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    surroundings.apply(&mut command);
    let mut child = match command.process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => return HookOutcome::NotAtAll(in_words(&error)),
    };
    let identity = ProcessIdentity::of(child.id());
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_owned();
        thread::spawn(move || drop(stdin.write_all(input.as_bytes()))); // it may not want to know
    }
    let answer = reading(child.stdout.take());
    let complaint = reading(child.stderr.take());
    let deadline = Instant::now() + timeout;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
            Ok(None) => {
                process_group::end(identity, FOREGROUND_GRACE);
                let _ = child.wait();
                return HookOutcome::TooLong(timeout);
            }
            Err(error) => return HookOutcome::NotAtAll(error.to_string()),
        }
    };
    let heard = |pipe: &mpsc::Receiver<String>| pipe.recv_timeout(LAST_WORDS).unwrap_or_default();
    HookOutcome::ToItsEnd { code: code_of(status), answer: heard(&answer), complaint: heard(&complaint) }
}

impl HookSurroundings {
    pub(super) fn apply(&self, command: &mut Command) {
        command.env_clear().envs(&self.environment);
        if self.directory.is_dir() {
            command.current_dir(&self.directory);
        }
    }
}

/// What went wrong, as Hermes' users know it.
pub fn in_words(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "command not found".to_owned(),
        ErrorKind::PermissionDenied => "command not executable".to_owned(),
        _ => error.to_string(),
    }
}

fn reading(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (told, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes); // what was read counts
        }
        let _ = told.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    heard
}
