//! Orders to the gateway, as people type them: `/new`, `/status`, `/help`.

use crate::id::SessionId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// End this conversation and begin another in the same chat. The id of the next is fixed when
    /// the order comes in, so that a crash cannot make two.
    New {
        successor: SessionId,
    },
    Status,
    Help,
    /// Looks like an order, is none of ours. Answered with a notice rather than sent to the model.
    Unknown {
        name: String,
    },
}

impl Command {
    /// The order in `text`, if it is one. `successor` names the session that `/new` would begin.
    pub fn parse(text: &str, successor: impl FnOnce() -> SessionId) -> Option<Command> {
        let rest = text.trim().strip_prefix('/')?;
        let word = rest.split_whitespace().next()?;
        // Telegram writes `/new@the_bot`; a path such as `/etc/hosts` is talk.
        let name = word.split('@').next()?.to_ascii_lowercase();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return None;
        }
        Some(match name.as_str() {
            "new" | "reset" => Command::New { successor: successor() },
            "status" => Command::Status,
            "help" | "commands" => Command::Help,
            _ => Command::Unknown { name },
        })
    }

    /// Answered at once, whatever waits before it.
    pub fn passes_the_queue(&self) -> bool {
        !matches!(self, Command::New { .. })
    }
}

pub const HELP: &str = "\
/new     end this conversation and begin another
/status  where this conversation stands
/help    this list";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p4_orders_are_told_from_talk() {
        let next = || "next".parse::<SessionId>().expect("a plain id");
        for (text, command) in [
            ("/new", Some(Command::New { successor: next() })),
            ("  /RESET please ", Some(Command::New { successor: next() })),
            ("/status@some_bot", Some(Command::Status)),
            ("/help", Some(Command::Help)),
            ("/etc/hosts is broken", None),
            ("/", None),
            ("// comment", None),
            ("say /new", None),
            ("/frobnicate", Some(Command::Unknown { name: "frobnicate".into() })),
        ] {
            assert_eq!(Command::parse(text, next), command, "{text:?}");
        }
    }
}
