//! Orders to the gateway, as people type them: `/new`, `/stop`, `/steer`, `/approve` …

use crate::id::SessionId;
use crate::tool::Grant;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// End this conversation and begin another in the same chat. The id of the next is fixed when
    /// the order comes in, so that a crash cannot make two.
    New {
        successor: SessionId,
    },
    /// End the running turn. What waits stays.
    Stop,
    /// Words that join the running turn after its next step.
    Steer {
        text: String,
    },
    /// Words that wait for a turn of their own.
    Queue {
        text: String,
    },
    /// Yes to what a tool asked: to the oldest question, or to all.
    Approve {
        grant: Grant,
        all: bool,
    },
    Deny {
        reason: Option<String>,
        all: bool,
    },
    /// Summarise what was said, with a topic that is kept in favour of the rest.
    Compress {
        focus: Option<String>,
        /// So many exchanges at the end stay as they are.
        keep: Option<u32>,
        /// Only say what would be done.
        preview: bool,
    },
    Status,
    Help,
    /// Something the people of this session should read, from another agent's gateway. Nobody can
    /// type it.
    Notice {
        text: String,
    },
    /// Looks like an order, is none of ours. Answered with a notice rather than sent to the model.
    Unknown {
        name: String,
    },
}

impl Command {
    /// The order in `text`, if it is one. `successor` names the session that `/new` would begin.
    pub fn parse(text: &str, successor: impl FnOnce() -> SessionId) -> Option<Command> {
        let rest = text.trim().strip_prefix('/')?;
        let (word, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let argument = argument.trim();
        // Telegram writes `/new@the_bot`; a path such as `/etc/hosts` is talk.
        let name = word.split('@').next()?.to_ascii_lowercase();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return None;
        }
        let text = || argument.to_owned();
        Some(match name.as_str() {
            "new" | "reset" => Command::New { successor: successor() },
            "stop" => Command::Stop,
            "steer" => Command::Steer { text: text() },
            "queue" | "q" => Command::Queue { text: text() },
            "approve" => approve(argument),
            "deny" => deny(argument),
            "compress" => compress(argument),
            "status" => Command::Status,
            "help" | "commands" => Command::Help,
            _ => Command::Unknown { name },
        })
    }

    /// Answered at once, whatever waits before it.
    pub fn passes_the_queue(&self) -> bool {
        !matches!(
            self,
            Command::New { .. } | Command::Steer { .. } | Command::Queue { .. } | Command::Compress { .. }
        )
    }

    /// What it says to the model, if anything.
    pub fn words(&self) -> Option<&str> {
        match self {
            Command::Steer { text } | Command::Queue { text } if !text.is_empty() => Some(text),
            _ => None,
        }
    }
}

fn approve(argument: &str) -> Command {
    let has = |names: &[&str]| {
        argument.split_whitespace().any(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name)))
    };
    let grant = match () {
        () if has(&["always", "permanent", "permanently"]) => Grant::Always,
        () if has(&["session", "ses"]) => Grant::Session,
        () => Grant::Once,
    };
    Command::Approve { grant, all: has(&["all"]) }
}

/// `[focus]`, `here [N]`, and `--preview` beside either.
fn compress(argument: &str) -> Command {
    /// As many exchanges stay if nobody says how many.
    const KEEP: u32 = 2;
    let is_preview = |word: &&str| ["--preview", "--dry-run"].contains(&word.to_ascii_lowercase().as_str());
    let preview = argument.split_whitespace().any(|word| is_preview(&word));
    let words: Vec<&str> = argument.split_whitespace().filter(|word| !is_preview(word)).collect();
    let keep = match words.as_slice() {
        [here] if here.eq_ignore_ascii_case("here") => Some(KEEP),
        [here, count] if here.eq_ignore_ascii_case("here") => {
            count.parse().ok().map(|count: u32| count.max(1))
        }
        _ => None,
    };
    let focus = (keep.is_none() && !words.is_empty()).then(|| words.join(" "));
    Command::Compress { focus, keep, preview }
}

fn deny(argument: &str) -> Command {
    let (all, reason) = match argument.split_once(char::is_whitespace).unwrap_or((argument, "")) {
        (first, rest) if first.eq_ignore_ascii_case("all") => (true, rest.trim()),
        _ => (false, argument),
    };
    Command::Deny { reason: (!reason.is_empty()).then(|| reason.to_owned()), all }
}

pub const HELP: &str = "\
/new             end this conversation and begin another
/stop            end the running turn; what waits stays
/steer <text>    join the running turn after its next step
/queue <text>    wait for the next turn
/approve [session|always] [all]   allow what a tool asked for
/deny [all] [reason]              refuse it
/compress [topic]       summarise what was said; the topic is kept in favour of the rest
/compress here [N]      the same, and the last N exchanges stay as they are
                        with --preview: only say what would be done
/status          where this conversation stands
/help            this list";

#[cfg(test)]
mod tests {
    use super::*;

    fn compressing(focus: Option<&str>, keep: Option<u32>, preview: bool) -> Command {
        Command::Compress { focus: focus.map(str::to_owned), keep, preview }
    }

    #[test]
    fn p4_orders_are_told_from_talk() {
        let next = || "next".parse::<SessionId>().expect("a plain id");
        for (text, command) in [
            ("/new", Some(Command::New { successor: next() })),
            ("  /RESET please ", Some(Command::New { successor: next() })),
            ("/status@some_bot", Some(Command::Status)),
            ("/help", Some(Command::Help)),
            ("/stop", Some(Command::Stop)),
            ("/steer  rather the blue one ", Some(Command::Steer { text: "rather the blue one".into() })),
            ("/q later", Some(Command::Queue { text: "later".into() })),
            ("/approve", Some(Command::Approve { grant: Grant::Once, all: false })),
            ("/approve all session", Some(Command::Approve { grant: Grant::Session, all: true })),
            ("/approve Always", Some(Command::Approve { grant: Grant::Always, all: false })),
            ("/deny", Some(Command::Deny { reason: None, all: false })),
            ("/deny all of it", Some(Command::Deny { reason: Some("of it".into()), all: true })),
            ("/deny not there", Some(Command::Deny { reason: Some("not there".into()), all: false })),
            ("/compress", Some(compressing(None, None, false))),
            ("/compress the database move", Some(compressing(Some("the database move"), None, false))),
            ("/compress here", Some(compressing(None, Some(2), false))),
            ("/compress HERE 5 --preview", Some(compressing(None, Some(5), true))),
            ("/compress here and there", Some(compressing(Some("here and there"), None, false))),
            ("/compress --dry-run", Some(compressing(None, None, true))),
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
