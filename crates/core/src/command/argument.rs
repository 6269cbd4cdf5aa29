//! What follows a command's name and is not carried out.
//!
//! People know arguments from Hermes that this program does not have. Such an order does nothing, and its answer says
//! so, with what to use instead: an answer that only shows something would look as if the order had been carried out.
//!
//! - `/stop` is the exception: it stops, with any argument

use super::table::{Entry, find};
use crate::session::ToolProgress;

/// As much of an argument as an answer repeats.
const SHOWN_CHARS: usize = 60;

/// A command that takes nothing but its name.
struct Alone {
    name: &'static str,
    /// Words that ask for what the command does anyway.
    same: &'static [&'static str],
    /// What to use for anything else that people may expect of it.
    instead: &'static str,
}

const fn alone(name: &'static str, same: &'static [&'static str], instead: &'static str) -> Alone {
    Alone { name, same, instead }
}

const SWITCHING_TOOLS: &str = "To switch toolsets on or off, change platform_toolsets or agent.disabled_toolsets in \
                               config.yaml; that counts from the next /restart on.";

const ALONE: &[Alone] = &[
    alone("history", &["show"], "/sessions <words> finds a conversation by what was said in it."),
    alone("save", &[], "The name of the file cannot be chosen."),
    alone(
        "snapshot",
        &["list"],
        "On the machine itself `throughline backup` copies the whole home, `throughline sessions restore` brings a snapshot \
         back, and `throughline prune` deletes old ones.",
    ),
    alone(
        "topic",
        &["status"],
        "Every topic and thread has a conversation of its own, and no setting changes that. /new begins another one here, \
         /resume <id> goes on with an earlier one.",
    ),
    alone("retry", &[], "To ask something else, take the last exchange back with /undo and write it anew."),
    alone("continue", &[], "To say more than that, write a message."),
    alone("agents", &["list"], "/stop ends the running turn of the conversation in which it is ordered."),
    alone("yolo", &[], "/yolo alone switches between asking about dangerous commands and not asking."),
    alone(
        "busy",
        &["status"],
        "To change it, set display.busy_input_mode in config.yaml to queue, steer or interrupt, and /restart. /queue <text> \
         and /steer <text> choose for one message.",
    ),
    alone(
        "skills",
        &["list"],
        "Skills are files below skills/ in the agent's home: put one there, or ask the agent to write one. skills.disabled \
         in config.yaml switches one off.",
    ),
    alone("tools", &["list"], SWITCHING_TOOLS),
    alone("toolsets", &["list"], SWITCHING_TOOLS),
    alone(
        "plugins",
        &["list"],
        "On the machine itself `throughline plugin enable <name>` and `throughline plugin disable <name>` switch one on or \
         off; that counts from the next /restart on.",
    ),
    alone(
        "platforms",
        &["list", "status"],
        "To switch a platform off, set `enabled: false` for it in config.yaml and /restart. One that fails is tried again \
         by itself.",
    ),
    alone(
        "config",
        &["show"],
        "To change a setting, edit config.yaml in the agent's home and /restart; `throughline config check` says what \
         becomes of it.",
    ),
    alone("debug", &["local"], "Nothing is uploaded from here; `throughline doctor` and the logs say more."),
    alone("version", &[], ""),
    alone("usage", &[], "The limits of a provider are changed on the provider's own site."),
    alone("status", &[], "/sessions lists your conversations."),
    alone("whoami", &[], ""),
    alone("profile", &["show"], "Another agent has chats of its own: write to it there."),
    alone("sethome", &["here"], "Order it in the chat that is to be the home channel."),
    alone("reload-mcp", &["now"], "mcp_servers in config.yaml says which servers there are."),
    alone("reload-skills", &["now"], ""),
    alone("restart", &["now"], "On the machine itself `throughline restart` takes more options."),
    alone("help", &[], "/commands lists skills and your own commands, too."),
];

/// What to answer to a command that was not carried out because of what follows its name. None: it is carried out.
pub fn not_done(name: &str, argument: &str) -> Option<String> {
    let (entry, argument) = (find(name)?, argument.trim());
    let is_good = match entry.name {
        _ if argument.is_empty() => true,
        "approve" => super::code(argument).is_some() || is_approval(argument),
        "commands" | "insights" => argument.parse::<u32>().is_ok(),
        "verbose" => ToolProgress::named(argument).is_some(),
        _ => is_taken(entry, argument),
    };
    (!is_good).then(|| told(entry, argument))
}

/// Whether a command can do something with what follows its name.
fn is_taken(entry: &Entry, argument: &str) -> bool {
    let same = ALONE.iter().find(|alone| alone.name == entry.name).map(|alone| alone.same);
    same.is_none_or(|same| same.iter().any(|word| word.eq_ignore_ascii_case(argument)))
}

/// Whether all words after `/approve` are known. A word such as `no` must not allow anything.
fn is_approval(argument: &str) -> bool {
    const KNOWN: [&str; 7] = ["once", "session", "ses", "always", "permanent", "permanently", "all"];
    argument.split_whitespace().all(|word| KNOWN.iter().any(|known| known.eq_ignore_ascii_case(word)))
}

fn told(entry: &Entry, argument: &str) -> String {
    let name = entry.name;
    let shown = match argument.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &argument[..end]),
        None => argument.to_owned(),
    };
    let takes = match entry.arguments {
        "" => format!("/{name} takes no words after its name. Alone it does this: {}.", entry.does),
        arguments => format!("/{name} {arguments} does this: {}.", entry.does),
    };
    let instead = ALONE.iter().find(|alone| alone.name == name).map_or("", |alone| alone.instead);
    format!("\"/{name} {shown}\" was not carried out, and nothing was changed. {takes} {instead}")
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::table::ALL;
    use super::*;

    #[test]
    fn every_command_without_arguments_says_what_to_use_instead_of_one() {
        for entry in ALL.iter().filter(|entry| entry.arguments.is_empty() && entry.name != "stop") {
            assert!(ALONE.iter().any(|alone| alone.name == entry.name), "{}", entry.name);
        }
        for alone in ALONE {
            assert!(find(alone.name).is_some_and(|entry| entry.arguments.is_empty()), "{}", alone.name);
        }
    }

    #[test]
    fn p4_an_argument_that_is_not_carried_out_is_answered_as_such() {
        for (order, instead) in [
            ("tools disable x", "agent.disabled_toolsets"),
            ("toolsets enable x", "platform_toolsets"),
            ("snapshot create", "`throughline backup`"),
            ("busy bogus", "display.busy_input_mode"),
            ("plugins enable y", "`throughline plugin enable <name>`"),
            ("topic off", "/resume <id>"),
            ("yolo off", "/yolo alone switches"),
            ("approve no", "/approve [session|always] [all]"),
            ("verbose loud", "/verbose [off|new|all|verbose]"),
            ("insights weekly", "/insights [days]"),
            ("commands last", "/commands [page]"),
            ("retry with tea", "/undo"),
        ] {
            let (name, argument) = order.split_once(' ').unwrap_or_default();
            let said = not_done(name, argument).unwrap_or_default();
            assert!(
                said.starts_with(&format!("\"/{order}\" was not carried out, and nothing was changed.")),
                "{said}"
            );
            assert!(said.contains(instead), "{said}");
        }
        for order in [
            "tools ",
            "tools list",
            "snap LIST",
            "stop at once",
            "insights 7",
            "approve all session",
            "model x",
        ] {
            let (name, argument) = order.split_once(' ').unwrap_or_default();
            assert_eq!(not_done(name, argument), None, "{order}");
        }
    }
}
