//! Every command there is, in words: one list for `/help`, for the menus of platforms, and for the parser.
//!
//! Names and meanings are those that people know. What they may know and we do not have stands in a list of
//! its own, with what to use instead.

/// One command as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// What may follow the name.
    pub arguments: &'static str,
    pub does: &'static str,
}

const fn entry(
    name: &'static str,
    aliases: &'static [&'static str],
    arguments: &'static str,
    does: &'static str,
) -> Entry {
    Entry { name, aliases, arguments, does }
}

/// In the order in which `/help` shows them.
pub const ALL: &[Entry] = &[
    entry("new", &["reset", "clear"], "[name]", "end this conversation and begin another"),
    entry("resume", &[], "[number|title|id] [--all]", "go on with an earlier conversation; alone: list them"),
    entry("sessions", &[], "[words]", "list your conversations, or find one by what was said"),
    entry("branch", &["fork"], "[name]", "go on in a copy of this conversation; the original stays"),
    entry("title", &[], "[name]", "name this conversation, or show its name"),
    entry("history", &[], "", "show conversation history"),
    entry("copy", &[], "[number]", "copy the last assistant response, or the one with this number"),
    entry("save", &[], "", "save the current conversation as JSON, in the agent's home"),
    entry(
        "snapshot",
        &["snap"],
        "",
        "list what summaries and restores of this conversation have left behind",
    ),
    entry("topic", &[], "", "which conversation this topic or thread has"),
    entry("undo", &[], "[N]", "take back the last exchange, or the last N"),
    entry("retry", &[], "", "ask the last message again, without the answer it got"),
    entry(
        "compress",
        &["compact"],
        "[topic | here [N]] [--preview]",
        "summarise what was said; the last N stay as they are",
    ),
    entry("stop", &[], "", "end the running turn; what waits stays"),
    entry("steer", &[], "<text>", "join the running turn after its next step"),
    entry("queue", &["q"], "<text>", "wait for the next turn"),
    entry("continue", &[], "", "let agents go on whose budget for one message was used up"),
    entry(
        "background",
        &["bg", "btw"],
        "<text>",
        "have it done beside this conversation; the answer comes here",
    ),
    entry("agents", &["tasks"], "", "what runs beside this conversation"),
    entry("approve", &[], "[session|always] [all]", "allow what a tool asked for"),
    entry("deny", &[], "[all] [reason]", "refuse it"),
    entry("yolo", &[], "", "switch off, or on again, that dangerous commands are asked about here"),
    entry("model", &[], "[name] [--global]", "which model answers here"),
    entry("reasoning", &[], "[level|reset] [--global]", "how long the model thinks here"),
    entry("personality", &[], "[name|none]", "how the agent speaks here"),
    entry("verbose", &[], "[off|new|all|verbose]", "how much of its tools is shown here"),
    entry("busy", &[], "", "what becomes of a message while a turn runs"),
    entry(
        "memory",
        &[],
        "[status | show | history | restore <name> | pending | approve <id> | reject <id> | jobs | retry [turn]]",
        "what the agent remembers, and what is gone of it",
    ),
    entry("skills", &[], "", "list the skills"),
    entry("tools", &[], "", "list the tools that the agent has here"),
    entry("toolsets", &[], "", "list the toolsets that are on here"),
    entry("plugins", &[], "", "list installed plugins and their status"),
    entry("platforms", &["gateway"], "", "show gateway/messaging platform status"),
    entry("config", &[], "", "show current configuration"),
    entry("debug", &[], "", "show a debug report; nothing is uploaded"),
    entry("version", &["v"], "", "show the version"),
    entry("usage", &[], "", "what this conversation has cost"),
    entry("insights", &[], "[days]", "what your conversations have cost"),
    entry("status", &[], "", "where this conversation stands"),
    entry("whoami", &[], "", "as whom you are known here"),
    entry("profile", &[], "", "which agent this is, and where it lives"),
    entry("sethome", &["set-home", "set_home"], "", "make this chat the home channel"),
    entry("reload-mcp", &["reload_mcp"], "", "connect the MCP servers of the configuration again"),
    entry("reload-skills", &["reload_skills"], "", "look for skills that were added or removed"),
    entry("restart", &[], "", "start the gateway again once nothing runs"),
    entry("commands", &[], "[page]", "all commands, with skills and your own"),
    entry("help", &[], "", "this list"),
];

/// What people may know from elsewhere, and what to do here instead.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["rollback"],
        "Files are not tracked here, so none can be brought back. /undo takes back what was said.",
    ),
    (&["handoff"], "Use /title here and /resume with that title where you want to go on."),
    (
        &["goal", "subgoal", "moa"],
        "Say what is wanted in a message; /background has it done beside the conversation.",
    ),
    (&["voice"], "Messages are read and written as text here, and no setting changes that."),
    (
        &["fast"],
        "The speed of a model cannot be chosen here. /model chooses another model, /reasoning how long it thinks.",
    ),
    (&["footer"], "Replies have no footer here. /usage and /status show what it would."),
    (&["codex-runtime", "codex_runtime"], "There is one runtime here. /model chooses the model."),
    (
        &[
            "bundles",
            "learn",
            "curator",
            "hatch",
            "generate-pet",
            "pet",
            "journey",
            "learning",
            "memory-graph",
        ],
        "/skills lists the skills; a skill is used by its name, and the agent can write one if you ask it to.",
    ),
    (
        &["cron", "suggestions", "suggest", "blueprint", "bp"],
        "Nothing runs on a schedule here. The scheduler of the machine can: it may call `throughline chat -q`.",
    ),
    (&["kanban"], "There is no board here. Agents of one process give each other tasks if you ask them to."),
    (&["platform"], "/platforms shows how each platform is. One that fails is tried again by itself."),
    (&["browser"], "There are no browser tools here; an MCP server can bring some."),
    (&["reload"], "/restart reads config.yaml and .env again."),
    (&["update"], "/version names the version; on the machine itself its package updates it."),
    (
        &["topup", "subscription", "upgrade"],
        "Your provider's own site has it; /usage shows what was used here.",
    ),
    (
        &[
            "redraw",
            "prompt",
            "compose",
            "statusbar",
            "sb",
            "timestamps",
            "ts",
            "skin",
            "indicator",
            "paste",
            "image",
            "quit",
            "exit",
        ],
        "It belongs to a terminal; `throughline chat` is ours.",
    ),
];

/// The command of this name or alias.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name || entry.aliases.contains(&name))
}

/// What to use in place of a command that people know from elsewhere.
pub fn instead_of(name: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead)
}

/// Names of commands that people know from elsewhere and that are not here, in order.
pub fn elsewhere() -> Vec<&'static str> {
    let mut names: Vec<_> = ELSEWHERE.iter().flat_map(|(names, _)| names.iter().copied()).collect();
    names.sort_unstable();
    names
}

/// All of them, one on a line.
pub fn help() -> String {
    let lines: Vec<String> = ALL.iter().map(Entry::line).collect();
    lines.join("\n")
}

impl Entry {
    pub fn line(&self) -> String {
        match self.arguments {
            "" => format!("/{}: {}", self.name, self.does),
            arguments => format!("/{} {arguments}: {}", self.name, self.does),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_means_two_things() {
        let mut names = BTreeSet::new();
        let ours = ALL.iter().flat_map(|entry| entry.aliases.iter().chain([&entry.name]));
        let theirs = ELSEWHERE.iter().flat_map(|(names, _)| names.iter());
        for name in ours.chain(theirs) {
            assert!(names.insert(name), "{name} stands there twice");
            assert_eq!(**name, name.to_ascii_lowercase());
        }
    }

    #[test]
    fn help_names_every_command() {
        let help = help();
        assert!(ALL.iter().all(|entry| help.contains(&format!("/{}", entry.name))));
        assert_eq!(find("fork").map(|entry| entry.name), Some("branch"));
        assert!(instead_of("kanban").is_some() && instead_of("frobnicate").is_none());
    }
}
