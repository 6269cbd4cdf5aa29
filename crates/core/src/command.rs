//! Orders to the gateway, as people type them: `/new`, `/stop`, `/steer`, `/approve` …

mod argument;
mod deferred;
pub mod skill;
mod table;

pub use argument::not_done;
pub use deferred::{DeferredCommand, Found, Past};
pub use table::{ALL, Entry, elsewhere, find, help, instead_of};

use crate::id::SessionId;
use crate::port::CallId;
use crate::session::ToolProgress;
use crate::tool::{Grant, Verdict};

/// What `/continue` says to the model.
const CONTINUE: &str = "Continue.";

/// So many bytes of a long text are kept of an order that waits.
const BEGINNING: usize = 32;

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
    /// A person lets agents go on whose budget was used up, and this one with what they said last.
    Continue,
    Status,
    Help,
    /// Dangerous commands are no longer asked about here, or are again.
    Yolo,
    /// How much of its tools is shown here. None: the next of them.
    Verbose {
        level: Option<ToolProgress>,
    },
    /// The shell has to look something up first.
    Deferred(DeferredCommand),
    /// Something people should read. From another agent's gateway: where people of this session last
    /// wrote. From a program: where it says. No user can type it.
    Notice {
        text: String,
    },
    /// Known from elsewhere, and not had here. Answered with what to use instead.
    Absent {
        name: String,
    },
    /// Looks like an order, is none of ours. Answered with a notice rather than sent to the model.
    Unknown {
        name: String,
    },
}

/// Which session an order needs an id for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newborn {
    /// The next conversation of a chat.
    Next,
    Branch,
    Background,
}

impl Newborn {
    /// What its id is made for: `usual` is the surface that the order came through.
    pub fn source(self, usual: &str) -> &str {
        match self {
            Newborn::Next => usual,
            Newborn::Branch => "branch",
            Newborn::Background => "background",
        }
    }
}

impl Command {
    /// The order in `text`, if it is one. `mint` names a session that it would begin.
    pub fn parse(text: &str, mint: impl FnOnce(Newborn) -> SessionId) -> Option<Command> {
        let (name, argument) = split(text)?;
        let Some(entry) = find(&name) else {
            return Some(match instead_of(&name) {
                Some(_) => Command::Absent { name },
                None => Command::Unknown { name },
            });
        };
        let text = || argument.to_owned();
        let some = || (!argument.is_empty()).then(text);
        if not_done(entry.name, argument).is_some() {
            return Some(Command::Deferred(DeferredCommand::Other {
                name: entry.name.into(),
                argument: text(),
            }));
        }
        Some(match entry.name {
            "new" => match some() {
                None => Command::New { successor: mint(Newborn::Next) },
                Some(title) => {
                    Command::Deferred(DeferredCommand::New { successor: mint(Newborn::Next), title })
                }
            },
            "stop" => Command::Stop,
            "steer" => Command::Steer { text: text() },
            "queue" => Command::Queue { text: text() },
            // What names a question is about another conversation than this one.
            name @ ("approve" | "deny") if code(argument).is_some() => {
                Command::Deferred(DeferredCommand::Other { name: name.into(), argument: text() })
            }
            "approve" => approve(argument),
            "deny" => deny(argument),
            "compress" => compress(argument),
            "continue" => Command::Continue,
            "status" => Command::Status,
            "help" => Command::Help,
            "yolo" => Command::Yolo,
            "verbose" => Command::Verbose { level: ToolProgress::named(argument) },
            "undo" => match argument.split_whitespace().next().unwrap_or("1").parse::<u32>() {
                Ok(turns) => Command::Deferred(DeferredCommand::Undo { turns: turns.max(1) }),
                Err(_) => Command::Deferred(DeferredCommand::Other { name: "undo".into(), argument: text() }),
            },
            "retry" => Command::Deferred(DeferredCommand::Retry),
            "branch" => {
                Command::Deferred(DeferredCommand::Branch { successor: mint(Newborn::Branch), name: some() })
            }
            "resume" => Command::Deferred(resume(argument)),
            "title" => Command::Deferred(DeferredCommand::Title { wanted: some() }),
            "background" if !argument.is_empty() => Command::Deferred(DeferredCommand::Background {
                session: mint(Newborn::Background),
                text: text(),
            }),
            other => Command::Deferred(DeferredCommand::Other { name: other.into(), argument: text() }),
        })
    }

    /// As in [`ALL`]; for what is not in it, as it was typed. Empty for what no user can type.
    pub fn name(&self) -> &str {
        match self {
            Command::New { .. } => "new",
            Command::Stop => "stop",
            Command::Steer { .. } => "steer",
            Command::Queue { .. } => "queue",
            Command::Approve { .. } => "approve",
            Command::Deny { .. } => "deny",
            Command::Compress { .. } => "compress",
            Command::Continue => "continue",
            Command::Status => "status",
            Command::Help => "help",
            Command::Yolo => "yolo",
            Command::Verbose { .. } => "verbose",
            Command::Deferred(deferred) => deferred.name(),
            Command::Absent { name } | Command::Unknown { name } => name,
            Command::Notice { .. } => "",
        }
    }

    /// Answered at once, ahead of all that waits.
    pub fn passes_the_queue(&self) -> bool {
        !matches!(
            self,
            Command::New { .. }
                | Command::Steer { .. }
                | Command::Queue { .. }
                | Command::Continue
                | Command::Compress { .. }
                | Command::Deferred(_)
        )
    }

    /// What it says to the model, if anything.
    pub fn words(&self) -> Option<&str> {
        match self {
            Command::Steer { text } | Command::Queue { text } if !text.is_empty() => Some(text),
            Command::Continue => Some(CONTINUE),
            _ => None,
        }
    }

    /// How long the texts are that it waits with. What a compression should keep in mind is not among them: the order
    /// is part of the operation for as long as that takes.
    pub fn bytes(&self) -> usize {
        match self {
            Command::Steer { text } | Command::Queue { text } => text.len(),
            Command::Deferred(deferred) => deferred.bytes(),
            _ => 0,
        }
    }

    /// The same order with the beginnings of its texts: enough to know what kind of order it is.
    #[must_use]
    pub(crate) fn light(&self) -> Self {
        let mut light = self.clone();
        for text in light.texts() {
            text.truncate(text.floor_char_boundary(BEGINNING));
            text.shrink_to_fit();
        }
        light
    }

    fn texts(&mut self) -> Vec<&mut String> {
        match self {
            Command::Steer { text } | Command::Queue { text } => vec![text],
            Command::Deferred(deferred) => deferred.texts(),
            _ => Vec::new(),
        }
    }

    /// A person wants something of the model with it, rather than of the gateway.
    pub fn wakes(&self) -> bool {
        self.words().is_some()
            || matches!(self, Command::Deferred(DeferredCommand::Retry | DeferredCommand::Background { .. }))
    }

    /// The chat leads elsewhere afterwards: what comes behind it goes along.
    pub fn ends(&self) -> bool {
        match self {
            Command::New { .. } => true,
            Command::Deferred(deferred) => deferred.ends(),
            _ => false,
        }
    }

    /// The shell looks something up for it, while everything else goes on.
    pub fn is_beside(&self) -> bool {
        matches!(self, Command::Deferred(deferred) if deferred.is_beside())
    }
}

/// The name of an order, in small letters, and what follows it. None: it is talk.
pub fn split(text: &str) -> Option<(String, &str)> {
    let rest = text.trim().strip_prefix('/')?;
    let (word, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // Telegram writes `/new@the_bot`; a path such as `/etc/hosts` is talk.
    let name = word.split('@').next()?.to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then(|| (name, argument.trim()))
}

/// `[number|title|id] [--all]`, also in the brackets or quotes that people copy from a manual.
fn resume(argument: &str) -> DeferredCommand {
    let is_flag = |word: &&str| ["--all", "--cross-room"].contains(word);
    let everywhere = argument.split_whitespace().any(|word| is_flag(&word));
    let words: Vec<&str> = argument.split_whitespace().filter(|word| !is_flag(word)).collect();
    let wanted = words.join(" ");
    let bare = [('<', '>'), ('[', ']'), ('"', '"'), ('\'', '\'')]
        .into_iter()
        .find_map(|(open, close)| wanted.strip_prefix(open)?.strip_suffix(close))
        .unwrap_or(&wanted)
        .trim();
    DeferredCommand::Resume { wanted: (!bare.is_empty()).then(|| bare.to_owned()), everywhere }
}

/// The code of the question that `/approve` or `/deny` names, and the rest of its words.
pub fn code(argument: &str) -> Option<(String, &str)> {
    let (first, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    CallId::is_code(first).then(|| (first.to_ascii_lowercase(), rest.trim()))
}

/// What a person decides by `/approve` or `/deny` with these words behind it.
pub fn verdict(name: &str, words: &str) -> Option<Verdict> {
    match if name == "approve" { approve(words) } else { deny(words) } {
        Command::Approve { grant, .. } => Some(Verdict::Granted(grant)),
        Command::Deny { reason, .. } => Some(Verdict::Denied { reason }),
        _ => None,
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
    /// As many exchanges stay if the order names no number.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn compressing(focus: Option<&str>, keep: Option<u32>, preview: bool) -> Command {
        Command::Compress { focus: focus.map(str::to_owned), keep, preview }
    }

    #[test]
    fn p4_orders_are_told_from_talk() {
        let next = || "next".parse::<SessionId>().expect("a plain id");
        let other = |name: &str, argument: &str| {
            Some(Command::Deferred(DeferredCommand::Other { name: name.into(), argument: argument.into() }))
        };
        let resume = |wanted: Option<&str>, everywhere| {
            Some(Command::Deferred(DeferredCommand::Resume { wanted: wanted.map(str::to_owned), everywhere }))
        };
        for (text, command) in [
            ("/new", Some(Command::New { successor: next() })),
            ("  /RESET ", Some(Command::New { successor: next() })),
            (
                "/new the move",
                Some(Command::Deferred(DeferredCommand::New { successor: next(), title: "the move".into() })),
            ),
            ("/undo", Some(Command::Deferred(DeferredCommand::Undo { turns: 1 }))),
            ("/undo 3", Some(Command::Deferred(DeferredCommand::Undo { turns: 3 }))),
            ("/undo 0", Some(Command::Deferred(DeferredCommand::Undo { turns: 1 }))),
            ("/undo that", other("undo", "that")),
            ("/retry", Some(Command::Deferred(DeferredCommand::Retry))),
            ("/fork", Some(Command::Deferred(DeferredCommand::Branch { successor: next(), name: None }))),
            ("/resume", resume(None, false)),
            ("/resume --all", resume(None, true)),
            ("/resume <the move> --all", resume(Some("the move"), true)),
            ("/resume 2", resume(Some("2"), false)),
            ("/title", Some(Command::Deferred(DeferredCommand::Title { wanted: None }))),
            (
                "/btw look at it",
                Some(Command::Deferred(DeferredCommand::Background {
                    session: next(),
                    text: "look at it".into(),
                })),
            ),
            ("/bg", other("background", "")),
            ("/set-home", other("sethome", "")),
            ("/reload_mcp", other("reload-mcp", "")),
            ("/model gpt --global", other("model", "gpt --global")),
            ("/yolo", Some(Command::Yolo)),
            ("/yolo off", other("yolo", "off")),
            ("/stop it all", Some(Command::Stop)),
            ("/retry with tea", other("retry", "with tea")),
            ("/approve no", other("approve", "no")),
            ("/verbose loud", other("verbose", "loud")),
            ("/snap list", other("snapshot", "list")),
            ("/verbose all", Some(Command::Verbose { level: Some(ToolProgress::All) })),
            ("/commands 2", other("commands", "2")),
            ("/kanban list", Some(Command::Absent { name: "kanban".into() })),
            ("/continue", Some(Command::Continue)),
            ("/status@some_bot", Some(Command::Status)),
            ("/help", Some(Command::Help)),
            ("/stop", Some(Command::Stop)),
            ("/steer  rather the blue one ", Some(Command::Steer { text: "rather the blue one".into() })),
            ("/q later", Some(Command::Queue { text: "later".into() })),
            ("/approve", Some(Command::Approve { grant: Grant::Once, all: false })),
            ("/approve 0123abcd session", other("approve", "0123abcd session")),
            ("/deny 0123ABCD no", other("deny", "0123ABCD no")),
            ("/deny deadline", Some(Command::Deny { reason: Some("deadline".into()), all: false })),
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
            assert_eq!(Command::parse(text, |_| next()), command, "{text:?}");
        }
    }
}
