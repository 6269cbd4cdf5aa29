//! What is known of dangerous commands: Hermes' patterns, in its order and its notation.
//!
//! The texts are kept as Hermes writes them because they are also names: before patterns had
//! descriptions, `command_allowlist` held a piece of the expression, and such entries still count
//! ([`names_of`]). The dialect is Python's; [`RulePattern::read`] says what differs here.
//!
//! The first pattern that matches gives a command its name, so their order is part of the rule.

use regex::{Regex, RegexBuilder};
use std::sync::LazyLock;

/// No setting lets these run: there is no way back from them.
const HARDLINE: [(&str, &str); 12] = [
    (r"%RM%%ROOT%", "recursive delete of root filesystem"),
    (r"%RM%%SYSTEM_DIRECTORY%", "recursive delete of system directory"),
    (r"%RM%%USER_DIRECTORY%", "recursive delete of home directory"),
    (r"\bmkfs(\.[a-z0-9]+)?\b", "format filesystem (mkfs)"),
    (r"\bdd\b[^\n]*\bof=/dev/(sd|nvme|hd|mmcblk|vd|xvd)[a-z0-9]*", "dd to raw block device"),
    (r">\s*/dev/(sd|nvme|hd|mmcblk|vd|xvd)[a-z0-9]*\b", "redirect to raw block device"),
    (r":\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:", "fork bomb"),
    (r"\bkill\s+(-[^\s]+\s+)*-1\b", "kill all processes"),
    (r"%START%(shutdown|reboot|halt|poweroff)\b", "system shutdown/reboot"),
    (r"%START%init\s+[06]\b", "init 0/6 (shutdown/reboot)"),
    (r"%START%systemctl\s+(poweroff|reboot|halt|kexec)\b", "systemctl poweroff/reboot"),
    (r"%START%telinit\s+[06]\b", "telinit 0/6 (shutdown/reboot)"),
];
/// A person, a list or an assessor must allow these first.
const DANGEROUS: [(&str, &str); 70] = [
    (r"\brm\s+(-[^\s]*\s+)*/", "delete in root path"),
    (r"\brm\s+-[^\s]*r", "recursive delete"),
    (r"\brm\s+--recursive\b", "recursive delete (long flag)"),
    (r"\bcmd(?:\.exe)?\s+/(?:c|k)\s+.*\b(?:del|erase|rd|rmdir)\b", "Windows cmd destructive delete"),
    (
        r#"\b(?:powershell|pwsh)(?:\.exe)?\b(?:\s+-\S+)*\s+(?:-(?:command|c)\s+)?["\']?(?:remove-item|rmdir|erase|del|rd|ri|rm)\b"#,
        "Windows PowerShell destructive delete",
    ),
    (
        r"\b(?:powershell|pwsh)(?:\.exe)?\b.*\s-(?:encodedcommand|enc|e)\b",
        "PowerShell encoded command execution",
    ),
    (r"\bchmod\s+(-[^\s]*\s+)*(777|666|o\+[rwx]*w|a\+[rwx]*w)\b", "world/other-writable permissions"),
    (
        r"\bchmod\s+--recursive\b.*(777|666|o\+[rwx]*w|a\+[rwx]*w)",
        "recursive world/other-writable (long flag)",
    ),
    (r"\bchown\s+(-[^\s]*)?R\s+root", "recursive chown to root"),
    (r"\bchown\s+--recur[a-z]*\b.*root", "recursive chown to root (long flag)"),
    (r"\bmkfs\b", "format filesystem"),
    (r"\bdd\s+.*if=", "disk copy"),
    (r">\s*/dev/sd", "write to block device"),
    (r"\bDROP\s+(TABLE|DATABASE)\b", "SQL DROP"),
    (r"\bDELETE\s+FROM\b(?![^\n]*\bWHERE\b)", "SQL DELETE without WHERE"),
    (r"\bTRUNCATE\s+(TABLE)?\s*\w", "SQL TRUNCATE"),
    (r">\s*%SYSTEM%", "overwrite system config"),
    (r"\bsystemctl\s+(-[^\s]+\s+)*(stop|restart|disable|mask)\b", "stop/restart system service"),
    (r"\bkill\s+-9\s+-1\b", "kill all processes"),
    (r"\bpkill\s+-9\b", "force kill processes"),
    (r"\bkillall\s+(-[^\s]*\s+)*-(9|KILL|SIGKILL)\b", "force kill processes (killall -KILL)"),
    (r"\bkillall\s+(-[^\s]*\s+)*-s\s+(KILL|SIGKILL|9)\b", "force kill processes (killall -s KILL)"),
    (r"\bkillall\s+(-[^\s]*\s+)*-r\b", "kill processes by regex (killall -r)"),
    (r":\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:", "fork bomb"),
    (r"\b(curl|wget)\b.*\|\s*(?:[/\w]*/)?(?:ba)?sh(?:\s|$|-c)", "pipe remote content to shell"),
    (r"\b(bash|sh|zsh|ksh)\s+<\s*<?\s*\(\s*(curl|wget)\b", "execute remote script via process substitution"),
    (
        r"(?:\beval\b|\bsource\b|\.)\s*(?:\$\(\s*|`\s*)(?:curl|wget)\b",
        "execute remote content via command substitution",
    ),
    (
        r"\b(base64|base32|base16)\s+(?:-[dD]|--decode)\b.*\|\s*\b(bash|sh|zsh|ksh|dash)\b",
        "pipe decoded content to shell (possible command obfuscation)",
    ),
    (
        r"\bxxd\s+-r\b.*\|\s*\b(bash|sh|zsh|ksh|dash)\b",
        "pipe xxd-decoded content to shell (possible command obfuscation)",
    ),
    (
        r"\becho\b[^|]*\|\s*\btr\b[^|]*\|\s*\b(bash|sh|zsh|ksh|dash)\b",
        "pipe tr-transformed output to shell (possible command obfuscation)",
    ),
    (
        r"\bopenssl\b.*\b(?:base64|enc)\b[^|]*\s+-[dD]\b[^|]*\|\s*\b(bash|sh|zsh|ksh|dash)\b",
        "pipe openssl-decoded content to shell (possible command obfuscation)",
    ),
    (r#"\btee\b.*["\']?%SENSITIVE%"#, "overwrite system file via tee"),
    (r#">>?\s*["\']?%SENSITIVE%"#, "overwrite system file via redirection"),
    (r#"\btee\b.*["\']?%PROJECT%["\']?%BOUNDARY%"#, "overwrite project env/config via tee"),
    (r#">>?\s*["\']?%PROJECT%["\']?%BOUNDARY%"#, "overwrite project env/config via redirection"),
    (r"\bxargs\s+.*\brm\b", "xargs with rm"),
    (r"\bfind\b.*-exec(?:dir)?\s+(/\S*/)?rm\b", "find -exec/-execdir rm"),
    (r"\bfind\b.*-delete\b", "find -delete"),
    (
        r"\bhermes\s+(?:-{1,2}\S+(?:\s+\S+)?\s+)*gateway\s+(stop|restart)\b",
        "stop/restart hermes gateway (kills running agents)",
    ),
    (r"\bhermes\s+update\b", "hermes update (restarts gateway, kills running agents)"),
    (
        r"\bdocker\s+compose\s+(restart|stop|kill|down)\b",
        "docker compose restart/stop/kill/down (container lifecycle)",
    ),
    (r"\bdocker\s+(restart|stop|kill)\b", "docker restart/stop/kill (container lifecycle)"),
    (
        r"gateway\s+run\b.*(&\s*$|&\s*;|\bdisown\b|\bsetsid\b)",
        "start gateway outside systemd (use 'systemctl --user restart hermes-gateway')",
    ),
    (
        r"\bnohup\b.*gateway\s+run\b",
        "start gateway outside systemd (use 'systemctl --user restart hermes-gateway')",
    ),
    (r"\b(pkill|killall)\b.*\b(hermes|gateway|cli\.py)\b", "kill hermes/gateway process (self-termination)"),
    (r"\bkill\b.*\$\(\s*(pgrep|pidof)\b", "kill process via pgrep/pidof expansion (self-termination)"),
    (r"\bkill\b.*`\s*(pgrep|pidof)\b", "kill process via backtick pgrep/pidof expansion (self-termination)"),
    (
        r"\blaunchctl\s+(stop|kickstart|bootout|unload|kill|disable|remove)\b.*\b(hermes|ai\.hermes)\b",
        "stop/restart hermes launchd service (kills running agents)",
    ),
    (r"\b(cp|mv|install)\b.*\s%SYSTEM%", "copy/move file into system config path"),
    (r#"\b(cp|mv|install)\b.*\s["\']?%PROJECT%["\']?%TAIL%"#, "overwrite project env/config file"),
    (
        r#"\b(cp|mv|install)\b.*\s["\']?%SENSITIVE%[^\s"\']*["\']?%TAIL%"#,
        "copy/move file into sensitive credential/SSH/shell-rc path",
    ),
    (r#"\bsed\s+-[^\s]*i.*(?:%USER%)[^\s"\']*"#, "in-place edit of sensitive credential/SSH/shell-rc path"),
    (
        r#"\bsed\s+--in-place\b.*(?:%USER%)[^\s"\']*"#,
        "in-place edit of sensitive credential/SSH/shell-rc path (long flag)",
    ),
    (
        r#"\b(?:perl|ruby)\b.*(?:^|\s)-[^\s]*i\b.*(?:%USER%)[^\s"\']*"#,
        "in-place edit of sensitive credential/SSH/shell-rc path (perl/ruby)",
    ),
    (r"\bsed\s+-[^\s]*i.*\s%SYSTEM%", "in-place edit of system config"),
    (r"\bsed\s+--in-place\b.*\s%SYSTEM%", "in-place edit of system config (long flag)"),
    (r"\bsed\s+-[^\s]*i.*(?:%CONFIG%|%ENV%)", "in-place edit of Hermes config/env"),
    (r"\bsed\s+--in-place\b.*(?:%CONFIG%|%ENV%)", "in-place edit of Hermes config/env (long flag)"),
    (
        r"\b(?:perl|ruby)\b.*(?:^|\s)-[^\s]*i\b.*(?:%CONFIG%|%ENV%)",
        "in-place edit of Hermes config/env (perl/ruby)",
    ),
    (r"\b(bash|sh|zsh|ksh)\s+<<", "shell execution via heredoc"),
    (r"\bgit\s+reset\s+--h(?:a(?:r(?:d)?)?)?\b", "git reset --hard (destroys uncommitted changes)"),
    (r"\bgit\s+push\b.*--forc[a-z]*\b", "git force push (rewrites remote history)"),
    (r"\bgit\s+push\b.*-f\b", "git force push short flag (rewrites remote history)"),
    (r"\bgit\s+clean\s+-[^\s]*f", "git clean with force (deletes untracked files)"),
    (r"\bgit\s+branch\s+-D\b", "git branch force delete"),
    (
        r"\bgit\s+branch\b[^;|&\n]*?(?:-d\b|--delete\b)[^;|&\n]*?(?:-f\b|--force\b)",
        "git branch force delete (long flags)",
    ),
    (
        r"\bgit\s+branch\b[^;|&\n]*?(?:-f\b|--force\b)[^;|&\n]*?(?:-d\b|--delete\b)",
        "git branch force delete (long flags, force-first)",
    ),
    (r"\bchmod\s+\+x\b.*[;&|]+\s*\./", "chmod +x followed by immediate execution"),
    (
        r"\bsudo\b[^;|&\n]*?\s+(?:-s\b|--st[a-z]*\b|-a\b|--a[a-z]*\b)",
        "sudo with privilege flag (stdin/askpass/shell/list)",
    ),
    (r"\bsudo\b[^;|&\n]*?\s+-[a-z]*[sa][a-z]*\b", "sudo with combined-flag privilege escalation"),
];
/// Parts that several patterns share.
const PARTS: [(&str, &str); 14] = [
    ("%RM%", r"%START%rm\s+(-[^\s]*\s+)*"),
    (
        "%START%",
        r"(?:^|[\n`]|\$\()\s*(?:sudo\s+(?:-[^\s]+\s+)*)?(?:env\s+(?:\w+=\S*\s+)*)?(?:(?:exec|nohup|setsid|time)\s+)*\s*",
    ),
    ("%SENSITIVE%", r"(?:%SYSTEM%|/dev/sd|%SSH%|%ENV%|%CONFIG%|%SHELL%)"),
    ("%USER%", r"(?:%SSH%|%SHELL%)"),
    ("%SSH%", r"(?:~|\$home|\$\{home\})/\.ssh(?:/|$)"),
    (
        "%SHELL%",
        r"(?:~|\$home|\$\{home\})/\.(?:bashrc|zshrc|profile|bash_profile|zprofile)\b|(?:~|\$home|\$\{home\})/\.(?:netrc|pgpass|npmrc|pypirc)\b",
    ),
    ("%CONFIG%", r"%HOME%config\.yaml\b"),
    ("%ENV%", r"%HOME%\.env\b"),
    ("%HOME%", r"(?:~\/\.hermes/|(?:\$home|\$\{home\})/\.hermes/|(?:\$hermes_home|\$\{hermes_home\})/)"),
    ("%SYSTEM%", r"(?:/etc/|/private/(?:etc|var|tmp|home)/)"),
    (
        "%PROJECT%",
        r#"(?:(?:(?:/|\.{1,2}/)?(?:[^\s/"\'`]+/)*\.env(?:\.[^/\s"\'`]+)*)|(?:(?:/|\.{1,2}/)?(?:[^\s/"\'`]+/)*config\.yaml))"#,
    ),
    ("%TAIL%", r"(?:\s*(?:&&|\|\||;).*)?$"),
    ("%BOUNDARY%", r#"(?=[\s;&|<>"\']|$)"#),
    ("%END%", r"(?:\s|$|[)`;|&])"),
];

/// Places whose recursive deletion is never meant. Each is matched in quotes, or bare up to its end.
const PLACES: [(&str, &str); 3] = [
    ("%ROOT%", r"/(?:(?:\.\.?)?/)*(?:\.\.?)?\**|/ \*"),
    (
        "%SYSTEM_DIRECTORY%",
        r"/home|/home/\*|/root|/root/\*|/etc|/etc/\*|/usr|/usr/\*|/var|/var/\*|/bin|/bin/\*|/sbin|/sbin/\*|/boot|/boot/\*|/lib|/lib/\*",
    ),
    ("%USER_DIRECTORY%", r"(?:~|\$\{?HOME\}?)(?:/?|/\*)?"),
];

/// Names under which rules that Hermes has since replaced were allowed.
const RETIRED: [(&str, &str); 2] = [
    ("script execution via -e/-c flag", r"(python[23]?|perl|ruby|node)\s+-[ec]\s+"),
    ("script execution via heredoc", r"(python[23]?|perl|ruby|node)\s+<<"),
];

pub struct CommandRule {
    /// What it is called, in questions and in lists of what is allowed.
    pub name: &'static str,
    /// What older lists call it.
    old_name: String,
    pattern: RulePattern,
}

impl CommandRule {
    pub fn matches(&self, text: &str) -> bool {
        self.pattern.matches(text)
    }

    fn read((pattern, name): &(&'static str, &'static str)) -> Self {
        let pattern = expanded(pattern);
        let old_name = match pattern.split(r"\b").nth(1) {
            Some(piece) => piece.to_owned(),
            None => pattern.chars().take(20).collect(),
        };
        Self { name, old_name, pattern: RulePattern::read(&pattern) }
    }
}

pub static HARDLINE_RULES: LazyLock<Vec<CommandRule>> =
    LazyLock::new(|| HARDLINE.iter().map(CommandRule::read).collect());
pub static DANGEROUS_RULES: LazyLock<Vec<CommandRule>> =
    LazyLock::new(|| DANGEROUS.iter().map(CommandRule::read).collect());

/// Every name under which a list may already allow what is called `name` today.
pub fn names_of(name: &str) -> Vec<&str> {
    let old = DANGEROUS_RULES.iter().filter(|rule| rule.name == name).map(|rule| rule.old_name.as_str());
    let retired = RETIRED.iter().filter(|(today, _)| *today == name).map(|(_, old)| *old);
    std::iter::once(name).chain(old).chain(retired).collect()
}

fn expanded(pattern: &str) -> String {
    let mut text = pattern.to_owned();
    for (mark, places) in PLACES {
        text = text.replace(mark, &format!(r#"(?:["\'](?:{places})["\']|(?:{places})%END%)"#));
    }
    for (mark, part) in PARTS {
        text = text.replace(mark, part);
    }
    text
}

enum RulePattern {
    Plain(Regex),
    /// Matches where the rest of the line does not hold something else.
    Unless {
        start: Regex,
        rest: Regex,
    },
}

impl RulePattern {
    /// Reads Python's notation. Looking ahead is not possible here: at the end of a pattern it is as
    /// good to take what is seen, and "not followed by" is done by hand.
    fn read(text: &str) -> Self {
        match text.split_once(r"(?![^\n]*") {
            Some((start, rest)) => Self::Unless {
                start: compiled(start),
                rest: compiled(rest.strip_suffix(')').expect("a group ends in a bracket")),
            },
            None => Self::Plain(compiled(text)),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Plain(regex) => regex.is_match(text),
            Self::Unless { start, rest } => start.find_iter(text).any(|found| {
                let line = text[found.end()..].split('\n').next().unwrap_or_default();
                !rest.is_match(line)
            }),
        }
    }
}

fn compiled(python: &str) -> Regex {
    RegexBuilder::new(&translated(python))
        .case_insensitive(true)
        .dot_matches_new_line(true)
        .build()
        .expect("the patterns above are expressions; a test compiles them all")
}

/// Python's dialect in this library's: `$` may stand before a last line end, and four control
/// characters are white space.
pub fn translated(python: &str) -> String {
    let mut out = String::with_capacity(python.len() * 2);
    let mut chars = python.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('s') => out.push_str(r"[\s\x1c-\x1f]"),
                Some('S') => out.push_str(r"[^\s\x1c-\x1f]"),
                Some(escaped) => out.extend(['\\', escaped]),
                None => out.push('\\'),
            },
            '[' => {
                in_class = true;
                out.push('[');
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '$' if !in_class => out.push_str(r"(?:\n?\z)"),
            _ => out.push(c),
        }
    }
    out.replace("(?=", "(?:")
}
