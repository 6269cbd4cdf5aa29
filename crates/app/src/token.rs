//! Who may use a bot's token: one agent on this machine at a time.
//!
//! Two that poll with the same token take each other's messages. Between processes Hermes' own lock
//! files decide, below the user's state directory; within this one, the agent that comes first. An agent that is
//! refused is told by whom, and the token itself is never shown.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use throughline_core::Time;
use throughline_hermes::lock::{Record, TOKEN_LOCKS, Token, token_lock};
use throughline_hermes::state::utc;
use throughline_home::config::Environment;
use throughline_home::home::{self, process};

/// Every token that this process uses, and by whom.
pub struct Tokens {
    /// None: it is not known where locks are kept, and only this process is looked at.
    directory: Option<PathBuf>,
    held: Mutex<BTreeMap<String, String>>,
    record: Record,
}

/// A token is this agent's until this is dropped.
pub struct TokenLock {
    tokens: Arc<Tokens>,
    file_name: String,
}

impl Tokens {
    pub fn new(environment: &Environment) -> Self {
        let given =
            |name: &str| environment.get(name).filter(|value| !value.trim().is_empty()).map(PathBuf::from);
        let state = || given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
        let directory = given("HERMES_GATEWAY_LOCK_DIR").or_else(|| Some(state()?.join(TOKEN_LOCKS)));
        Self { directory, held: Mutex::default(), record: home::own_record(env!("CARGO_PKG_VERSION")) }
    }

    /// The error says who has it, and what to do.
    pub fn take(
        self: &Arc<Self>,
        agent: &str,
        token: Token<'_>,
        platform: &str,
        now: Time,
    ) -> Result<TokenLock, String> {
        let file_name = token.file_name();
        let mut held = self.held.lock().expect("nothing panics while it holds the tokens");
        if let Some(other) = held.get(&file_name) {
            return Err(format!(
                "{agent} and {other} have the same {platform} token, and only {other} uses it; give each agent a bot of its own"
            ));
        }
        if let Some(directory) = &self.directory {
            let content = token_lock(&self.record, token, platform, &utc(now));
            self.lock(&directory.join(&file_name), &content)
                .map_err(|owner| format!("the {platform} token of {agent} is in use by {owner}"))?;
        }
        held.insert(file_name.clone(), agent.to_owned());
        Ok(TokenLock { tokens: self.clone(), file_name })
    }

    /// A file that cannot be written is no reason to stay silent: locks are a courtesy between programs.
    fn lock(&self, path: &Path, content: &str) -> Result<(), String> {
        if path.parent().is_some_and(|parent| home::private_directory().create(parent).is_err()) {
            return Ok(());
        }
        for _ in 0..2 {
            match home::private_file().write(true).create_new(true).open(path) {
                Ok(mut file) => {
                    let _ = file.write_all(content.as_bytes());
                    return Ok(());
                }
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Ok(()),
                Err(_) => {}
            }
            let owner = fs::read_to_string(path).ok().and_then(|text| Record::parse(&text));
            match owner {
                Some(owner)
                    if owner.pid != self.record.pid && owner.holds_token(process(owner.pid).as_ref()) =>
                {
                    let pid = owner.pid;
                    return Err(match owner.throughline {
                        Some(_) => format!(
                            "another Throughline (pid {pid}); stop it, or give one of them another bot"
                        ),
                        None => format!("a Hermes gateway (pid {pid}); stop it: `hermes gateway stop`"),
                    });
                }
                _ => drop(fs::remove_file(path)), // its owner is gone, or was this process before it began anew
            }
        }
        Ok(())
    }
}

impl Drop for TokenLock {
    fn drop(&mut self) {
        let mut held = self.tokens.held.lock().expect("nothing panics while it holds the tokens");
        held.remove(&self.file_name);
        let Some(directory) = &self.tokens.directory else { return };
        let path = directory.join(&self.file_name);
        let ours = fs::read_to_string(&path).ok().and_then(|text| Record::parse(&text));
        if ours.is_some_and(|record| record.pid == self.tokens.record.pid) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token<'_> = Token { scope: "telegram-bot-token", identity: "123:canary" };

    fn tokens(directory: &Path) -> Arc<Tokens> {
        let directory = directory.to_str().unwrap();
        Arc::new(Tokens::new(&Environment::from([("HERMES_GATEWAY_LOCK_DIR", directory)])))
    }

    #[test]
    fn p5_of_two_agents_with_one_token_the_first_gets_it_and_both_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = tokens(directory.path());
        let first = tokens.take("work", TOKEN, "telegram", Time(0)).unwrap();
        let refused = tokens.take("play", TOKEN, "telegram", Time(0)).err().unwrap();
        assert!(
            refused.contains("work") && refused.contains("play") && !refused.contains("canary"),
            "{refused}"
        );
        assert!(directory.path().join(TOKEN.file_name()).exists());
        drop(first);
        assert!(!directory.path().join(TOKEN.file_name()).exists());
        tokens.take("play", TOKEN, "telegram", Time(0)).unwrap();
    }

    #[test]
    fn a_lock_counts_while_its_owner_lives() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(TOKEN.file_name());
        // One that cannot be looked at closely, but started when the record says: the first of all processes.
        let start_time = process(1).and_then(|process| process.start_time);
        let living = Record {
            argv: vec!["hermes".into(), "gateway".into()],
            ..Record::own(1, vec![], start_time, "x")
        };
        for (record, is_free) in [
            (Record { pid: 4_000_000, ..living.clone() }, true),
            (Record { start_time: Some(1), ..living }, true),
        ] {
            fs::write(&path, record.emit()).unwrap();
            assert_eq!(
                tokens(directory.path()).take("a", TOKEN, "telegram", Time(0)).is_ok(),
                is_free,
                "{record:?}"
            );
        }
        fs::write(&path, "torn").unwrap();
        assert!(tokens(directory.path()).take("a", TOKEN, "telegram", Time(0)).is_ok());
    }
}
