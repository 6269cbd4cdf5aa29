//! The two tools as the model is told of them.

use serde_json::json;
use throughline_core::message::JsonText;
use throughline_core::tool::Spec;

pub fn terminal(timeout_seconds: u64, foreground_max_seconds: u64) -> Spec {
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The shell command to run"},
            "background": {
                "type": "boolean",
                "description": "Run it in the background and return a session_id at once. Pair it with notify_on_complete=true for anything that ends by itself (tests, builds, deploys): otherwise nobody tells you that it has ended, and you must call process(action='poll'). Leave that off only for what never exits (servers, watchers). Short commands belong in the foreground with a generous timeout.",
                "default": false
            },
            "timeout": {
                "type": "integer",
                "description": format!("Longest wait in seconds (default: {timeout_seconds}, foreground max: {foreground_max_seconds}). The result comes as soon as the command ends, so a high value costs nothing. Above {foreground_max_seconds}s a foreground command is refused: use background=true."),
                "minimum": 1
            },
            "workdir": {"type": "string", "description": "Directory for this command (absolute path). Default: the session's working directory."},
            "pty": {
                "type": "boolean",
                "description": "Give a background command a pseudo-terminal (PTY), for interactive programs such as Codex, Claude Code or a Python REPL. Local backend only. Default: false.",
                "default": false
            },
            "notify_on_complete": {
                "type": "boolean",
                "description": "With background=true: you are told exactly once when the process has ended. Right for almost every long task with an end. Excludes watch_patterns, which is dropped if both are set.",
                "default": false
            },
            "watch_patterns": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Strings to look for in a background process's output. At most 1 notification per 15 seconds per process; after 3 windows in a row with dropped matches the watch ends and the process reports its exit instead. Only for rare signals of processes that never exit (a server's 'startup complete'). Not for end markers, not for errors in loops: use notify_on_complete there. The two exclude each other."
            }
        },
        "required": ["command"]
    });
    Spec {
        name: "terminal".to_owned(),
        toolset: "terminal".to_owned(),
        description: TERMINAL.to_owned(),
        parameters: JsonText::from_valid(parameters.to_string()),
        repeatable: false,
    }
}

const TERMINAL: &str = "Run shell commands. Files, the working directory and exported variables persist between \
calls of a session: activate a virtualenv or export settings once.

For files there are better tools: read_file instead of cat/head/tail, search_files instead of grep/rg/find/ls, patch \
instead of sed/awk, write_file instead of echo or heredocs. Keep terminal for builds, installs, git, scripts, network, \
package managers and processes.

Foreground (default): returns as soon as the command ends, however high the timeout. Set timeout=300 for long builds.
Background: background=true returns a session_id for the process tool. Set notify_on_complete=true for whatever ends by \
itself; leave it off for servers and watchers. Do not use nohup, disown, setsid or a trailing '&' instead. After \
starting a server check that it is ready, then go on in another call; no blind sleeps.
process(action=\"poll\") shows progress, process(action=\"wait\") blocks until the end.
Output that is too long is cut in the middle; full_output then names the file that holds all of it.
Interactive programs (vim, REPLs) need background=true with pty=true: elsewhere there is no standard input. Pipe git \
output to cat if it might page.";

pub fn process() -> Spec {
    let parameters = json!({
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": ["list", "poll", "log", "wait", "kill", "write", "submit", "close"],
                "description": "What to do"
            },
            "session_id": {"type": "string", "description": "The process, by the session_id that terminal(background=true) returned. Needed for all actions but 'list'."},
            "data": {"type": "string", "description": "Text for the process's standard input (for 'write' and 'submit')"},
            "timeout": {"type": "integer", "description": "Longest wait in seconds for 'wait'. What was written so far comes back on timeout.", "minimum": 1},
            "offset": {"type": "integer", "description": "First line for 'log' (default: the last 200 lines)"},
            "limit": {"type": "integer", "description": "Most lines for 'log'", "minimum": 1}
        },
        "required": ["action"]
    });
    Spec {
        name: "process".to_owned(),
        toolset: "terminal".to_owned(),
        description: PROCESS.to_owned(),
        parameters: JsonText::from_valid(parameters.to_string()),
        repeatable: false,
    }
}

const PROCESS: &str = "Manage the processes that terminal(background=true) started. Actions: 'list' (all of this \
session), 'poll' (status and latest output), 'log' (output by lines), 'wait' (until it ends, or the timeout), 'kill', \
'write' (raw text to its standard input), 'submit' (text and Enter), 'close' (end of input).";
