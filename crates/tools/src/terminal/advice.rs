//! What can be said of a command by looking at it: when it belongs in the background, what its exit
//! code means, where it asks for a password, and what it must not do to the gateway.

use regex::Regex;
use std::sync::LazyLock;

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this file are valid")
}

static QUOTED: LazyLock<[Regex; 3]> =
    LazyLock::new(|| [compiled("'[^']*'"), compiled(r#""(?s:[^"\\]|\\.)*""#), compiled("`[^`]*`")]);

static WRAPPED: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?im)(?:^|[;&|]\s*|&&\s*|\|\|\s*|\$\(\s*)(?:nohup|disown|setsid)\b"));

static AMPERSAND: LazyLock<Regex> = LazyLock::new(|| compiled(r"\s&\s|\s&\s*(?:#.*)?$"));

static LONG_LIVED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?i)\b(?:npm|pnpm|yarn|bun)\s+(?:run\s+)?(?:dev|start|serve|watch)\b|\bdocker\s+compose\s+up\b|\bnext\s+dev\b|\bvite(?:\s|$)|\bnodemon\b|\buvicorn\b|\bgunicorn\b|\bpython3?\s+-m\s+http\.server\b",
    )
});

/// Why a command should not run in the foreground, if it should not.
pub fn foreground(command: &str) -> Option<&'static str> {
    let words = command.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    if words.contains(" --help")
        || words.contains(" --version")
        || words.ends_with(" -h")
        || words.ends_with(" -v")
    {
        return None;
    }
    let [single, double, back] = &*QUOTED;
    let bare = single.replace_all(command, "''");
    let bare = double.replace_all(&bare, "\"\"");
    let bare = back.replace_all(&bare, "``");
    if WRAPPED.is_match(&bare) {
        return Some(
            "Foreground command uses shell-level background wrappers (nohup/disown/setsid). \
             Use terminal(background=true) so Hermes can track the process, then run \
             readiness checks and tests in separate commands.",
        );
    }
    if AMPERSAND.is_match(&bare) {
        return Some(
            "Foreground command uses '&' backgrounding. Use terminal(background=true) for long-lived \
             processes, then run health checks and tests in follow-up terminal calls.",
        );
    }
    LONG_LIVED.is_match(&bare).then_some(
        "This foreground command appears to start a long-lived server/watch process. \
         Run it with background=true, verify readiness (health endpoint/log signal), \
         then execute tests in a separate command.",
    )
}

static LIFECYCLE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(concat!(
        r"(?i)hermes\s+gateway\s+(?:restart|stop)",
        r"|launchctl\s+(?:kickstart|unload|load|stop|restart)\b[^\n]*\b(?:hermes[.\-]?gateway|throughline)",
        r"|systemctl\s+(?:-\S+\s+)*(?:restart|stop|start)\b[^\n]*\b(?:hermes[.\-]?gateway|throughline)",
        r"|p?kill\b[^\n]*\bhermes\b[^\n]*\bgateway|p?kill\b[^\n]*\bgateway\b[^\n]*\bhermes",
        r"|(?:pkill|killall)\b[^\n]*\bthroughline\b|\bthroughline\s+(?:gateway\s+)?(?:restart|stop)\b",
    ))
});

pub const LIFECYCLE_BLOCKED: &str = "Blocked: cannot restart or stop the gateway from inside the gateway process. \
     The gateway would kill this command before it could complete (SIGTERM propagates to child processes). \
     Run `hermes gateway restart` from a separate shell outside the running gateway.";

/// The command would end the gateway that runs it.
pub fn ends_gateway(command: &str) -> bool {
    LIFECYCLE.is_match(command)
}

static OPERATORS: LazyLock<Regex> = LazyLock::new(|| compiled(r"\s*(?:\|\||&&|[|;])\s*"));

/// What a code other than 0 means where it is no failure.
pub fn exit_code(command: &str, code: i32) -> Option<&'static str> {
    if code == 0 {
        return None;
    }
    let last = OPERATORS.split(command).last().unwrap_or(command);
    let word = last.split_whitespace().find(|word| !word.contains('=') || word.starts_with('-'))?;
    match (word.rsplit('/').next().unwrap_or(word), code) {
        ("grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack", 1) => Some("No matches found (not an error)"),
        ("diff" | "colordiff", 1) => Some("Files differ (expected, not an error)"),
        ("find", 1) => Some("Some directories were inaccessible (partial results may still be valid)"),
        ("test" | "[", 1) => Some("Condition evaluated to false (expected, not an error)"),
        ("curl", 6) => Some("Could not resolve host"),
        ("curl", 7) => Some("Failed to connect to host"),
        ("curl", 22) => Some("HTTP response code indicated error (e.g. 404, 500)"),
        ("curl", 28) => Some("Operation timed out"),
        ("git", 1) => Some("Non-zero exit (often normal — e.g. 'git diff' returns 1 when files differ)"),
        _ => None,
    }
}

/// `gh auth login --with-token` reads its token from a pipe, and waits for ever on a terminal.
pub fn needs_pipe(command: &str) -> bool {
    let words = command.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    words.starts_with("gh auth login") && words.contains("--with-token")
}

pub const PTY_REFUSED: &str = "PTY disabled for this command because it expects piped stdin/EOF (for example gh auth \
     login --with-token). For local background processes, call process(action='close') after writing so it receives \
     EOF.";

/// Why a directory may not be used, if it may not: it goes into a script.
pub fn workdir(workdir: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "/\\:_-.~ +@=,".contains(c);
    let wrong = workdir.chars().find(|c| !allowed(*c))?;
    Some(format!(
        "Blocked: workdir contains disallowed character '{}'. \
         Use a simple filesystem path without shell metacharacters.",
        wrong.escape_debug()
    ))
}

/// The command with every real call of sudo made to read its password from standard input, and how
/// many there are. A word in quotes, in a comment or as an argument is no call.
pub fn piped_sudo(command: &str) -> (String, usize) {
    let mut out = String::with_capacity(command.len());
    let (mut rest, mut starts, mut calls) = (command, true, 0);
    while let Some(first) = rest.chars().next() {
        let taken = if first.is_whitespace() {
            starts |= first == '\n';
            first.len_utf8()
        } else if first == '#' && starts {
            rest.find('\n').unwrap_or(rest.len())
        } else if ";|&(".contains(first) {
            starts = true;
            1
        } else if first == ')' {
            starts = false;
            1
        } else {
            let word = word_length(rest);
            if starts && &rest[..word] == "sudo" {
                calls += 1;
                out.push_str("sudo -S -p ''");
                rest = &rest[word..];
                starts = false;
                continue;
            }
            starts = starts && is_assignment(&rest[..word]);
            word
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    (out, calls)
}

/// How long the shell word at the beginning is, with its quotes and escapes.
fn word_length(text: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('\''), '\'') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, _) if c.is_whitespace() || ";|&()".contains(c) => return at,
            (None, _) => {}
        }
    }
    text.len()
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// sudo was told a wrong password.
pub fn sudo_refused(output: &str) -> bool {
    let output = output.to_lowercase();
    let refusals = [
        "sudo: authentication failed",
        "sudo: incorrect password attempt",
        "sudo: maximum 3 incorrect authentication attempts",
        "sudo: 3 incorrect password attempts",
    ];
    refusals.iter().any(|refusal| output.contains(refusal))
}

/// sudo wanted a password and had no person to ask.
pub fn sudo_asked(output: &str) -> bool {
    ["sudo: a password is required", "sudo: no tty present", "sudo: a terminal is required"]
        .iter()
        .any(|failure| output.contains(failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_sent_to_the_background_and_their_names_in_quotes_are_not() {
        for (command, refused) in [
            ("npm run dev", true),
            ("python3 -m http.server 8000", true),
            ("nohup ./x", true),
            ("sleep 5 & echo", true),
            ("./server &", true),
            ("git commit -m 'use setsid & nohup'", false),
            ("vite --help", false),
            ("make 2>&1 | tee log", false),
            ("true && false", false),
        ] {
            assert_eq!(foreground(command).is_some(), refused, "{command}");
        }
    }

    #[test]
    fn an_exit_code_is_explained_by_the_last_command() {
        assert_eq!(exit_code("cat x | LANG=C /usr/bin/grep y", 1), Some("No matches found (not an error)"));
        assert_eq!(exit_code("grep y x && make", 1), None);
        assert_eq!(exit_code("grep y", 2), None);
        assert_eq!(
            exit_code("curl -f http://x", 22),
            Some("HTTP response code indicated error (e.g. 404, 500)")
        );
    }

    #[test]
    fn only_real_calls_of_sudo_read_a_password() {
        for (command, expected, calls) in [
            ("sudo ls && A=1 sudo -n id", "sudo -S -p '' ls && A=1 sudo -S -p '' -n id", 2),
            ("echo 'sudo x' sudo # sudo", "echo 'sudo x' sudo # sudo", 0),
            ("(sudo a); \"sudo\" b", "(sudo -S -p '' a); \"sudo\" b", 1),
        ] {
            assert_eq!(piped_sudo(command), (expected.to_owned(), calls), "{command}");
        }
    }

    #[test]
    fn the_gateway_is_not_ended_from_within() {
        assert!(
            ends_gateway("hermes gateway restart") && ends_gateway("systemctl --user stop hermes-gateway")
        );
        assert!(ends_gateway("throughline stop --all") && ends_gateway("pkill -f throughline"));
        assert!(!ends_gateway("hermes gateway status") && !ends_gateway("grep -r throughline ."));
    }

    #[test]
    fn p31_a_directory_cannot_smuggle_in_a_command() {
        assert_eq!(workdir("/home/me/my project_1"), None);
        let blocked = workdir("/tmp; rm -rf ~").unwrap();
        assert!(blocked.starts_with("Blocked: workdir contains disallowed character ';'."));
        assert!(workdir("$(id)").is_some() && workdir("/tmp\nid").is_some());
    }
}
