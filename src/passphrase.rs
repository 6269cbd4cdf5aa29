//! A passphrase: from a file, from the environment, or typed without being shown.
//!
//! It is never an argument: what is on a command line is read by every process of the machine.

use anyhow::{Context, bail};
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use throughline_core::redact::Secret;
use throughline_home::config::Environment;

pub const VARIABLE: &str = "THROUGHLINE_PASSPHRASE";

/// For what is encrypted now: if it is typed, it is typed twice.
pub fn new(file: Option<&Path>, environment: &Environment) -> anyhow::Result<Secret> {
    if let Some(given) = given(file, environment)? {
        return Ok(given);
    }
    let first = typed("Passphrase: ")?;
    if typed("Once more: ")?.expose() != first.expose() {
        bail!("the two are not the same; nothing was written");
    }
    Ok(first)
}

/// For what was encrypted before.
pub fn known(file: Option<&Path>, environment: &Environment) -> anyhow::Result<Secret> {
    match given(file, environment)? {
        Some(given) => Ok(given),
        None => typed("Passphrase: "),
    }
}

fn given(file: Option<&Path>, environment: &Environment) -> anyhow::Result<Option<Secret>> {
    let (text, place) = match (file, environment.get(VARIABLE)) {
        (Some(file), _) => {
            let text = fs::read_to_string(file)
                .with_context(|| format!("the passphrase in {} cannot be read", file.display()))?;
            (text, file.display().to_string())
        }
        (None, Some(text)) => (text, VARIABLE.to_owned()),
        (None, None) => return Ok(None),
    };
    let passphrase = text.trim_end_matches(['\n', '\r']);
    if passphrase.is_empty() {
        bail!("the passphrase in {place} is empty");
    }
    Ok(Some(Secret::new(passphrase)))
}

fn typed(question: &str) -> anyhow::Result<Secret> {
    if !io::stdin().is_terminal() {
        bail!(
            "there is no terminal to ask for a passphrase: give it with --passphrase-file FILE or {VARIABLE}"
        );
    }
    let mut terminal = io::stderr();
    write!(terminal, "{question}")?;
    terminal.flush()?;
    let hidden = Hidden::new();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    drop(hidden);
    writeln!(terminal)?;
    let passphrase = line.trim_end_matches(['\n', '\r']);
    if passphrase.is_empty() {
        bail!("an empty passphrase protects nothing; nothing was written");
    }
    Ok(Secret::new(passphrase))
}

/// While this lives, the terminal does not show what is typed.
#[cfg(unix)]
struct Hidden(Option<rustix::termios::Termios>);

#[cfg(unix)]
impl Hidden {
    fn new() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &quiet);
        }
        Self(before)
    }
}

#[cfg(unix)]
impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, before);
        }
    }
}

#[cfg(not(unix))]
struct Hidden;

#[cfg(not(unix))]
impl Hidden {
    fn new() -> Self {
        Self
    }
}
