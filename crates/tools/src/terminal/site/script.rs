//! The scripts around a command.

use super::super::output::token;

/// The names by which one session's commands find each other.
#[derive(Clone, Debug)]
pub struct SessionScript {
    marker: String,
    snapshot: String,
    scratch: String,
}

impl SessionScript {
    pub fn new(scratch: &str) -> Self {
        let (token, scratch) = (token(), scratch.trim_end_matches('/').to_owned());
        Self {
            marker: format!("__HERMES_CWD_{token}__"),
            snapshot: format!("{scratch}/hermes-snap-{token}.sh"),
            scratch,
        }
    }

    /// Stands before and after the directory in which a command ended.
    pub fn marker(&self) -> &str {
        &self.marker
    }

    /// The file with what the session has exported.
    pub fn snapshot(&self) -> &str {
        &self.snapshot
    }

    /// Where a script notes its number, for the gateway, which may have to end it.
    pub fn pid_file(&self, token: &str) -> String {
        format!("{}/hermes-run-{token}.pid", self.scratch)
    }

    /// Captures what a login shell knows: variables, functions, aliases. Functions go by name, so
    /// that none is torn; those of completions (`_git` …) stay behind. The file is replaced in one
    /// step, because other commands of the session read it meanwhile.
    pub fn bootstrap(&self, directory: &str) -> String {
        let snapshot = quoted(&self.snapshot);
        let fresh = format!("{}$BASHPID", quoted(&format!("{}.tmp.", self.snapshot)));
        [
            "umask 077".to_owned(),
            format!("export -p > {fresh}"),
            "__hermes_functions=$(declare -F | awk '{print $3}' | grep -vE '^_[^_]') || true".to_owned(),
            format!("[ -n \"$__hermes_functions\" ] && declare -f $__hermes_functions >> {fresh} 2>/dev/null || true"),
            format!("alias -p >> {fresh}"),
            format!("printf '%s\\n' 'shopt -s expand_aliases' 'set +e' 'set +u' >> {fresh}"),
            format!("mv -f {fresh} {snapshot} || {{ rm -f {fresh}; exit 1; }}"),
            format!("builtin cd -- {} 2>/dev/null || true", directory_word(directory)),
            self.report(),
        ]
        .join("\n")
    }

    /// One command within the session.
    pub fn wrapped(
        &self,
        command: &str,
        directory: &str,
        has_snapshot: bool,
        pid_file: Option<&str>,
    ) -> String {
        let mut lines = self.preamble(has_snapshot, pid_file);
        lines.push(format!("builtin cd -- {} || exit 126", directory_word(directory)));
        lines.push(format!("eval {}", always_quoted(command)));
        lines.push("__hermes_ec=$?".to_owned());
        // What was exported may be secret; the user's own umask held while the command ran.
        lines.push("umask 077".to_owned());
        if has_snapshot {
            let snapshot = quoted(&self.snapshot);
            let fresh = format!("{}$BASHPID", quoted(&format!("{}.tmp.", self.snapshot)));
            lines.push(format!(
                "{{ export -p > {fresh} && mv -f {fresh} {snapshot}; }} 2>/dev/null || rm -f {fresh} 2>/dev/null || true"
            ));
        }
        lines.extend(pid_file.map(|file| format!("rm -f {} 2>/dev/null", quoted(file))));
        lines.push(self.report());
        lines.push("exit $__hermes_ec".to_owned());
        lines.join("\n")
    }

    /// One command that runs by itself: it takes from the session and gives nothing back.
    pub fn background(
        &self,
        command: &str,
        directory: &str,
        has_snapshot: bool,
        pid_file: Option<&str>,
    ) -> String {
        let mut lines = self.preamble(has_snapshot, pid_file);
        lines.push("export PYTHONUNBUFFERED=1".to_owned());
        lines.push(format!("builtin cd -- {} || exit 126", directory_word(directory)));
        lines.push(format!("eval {}", always_quoted(command)));
        lines.join("\n")
    }

    fn preamble(&self, has_snapshot: bool, pid_file: Option<&str>) -> Vec<String> {
        let noted = pid_file.map(|file| format!("(umask 077; echo $$ > {})", quoted(file)));
        let taken =
            has_snapshot.then(|| format!("source {} >/dev/null 2>&1 || true", quoted(&self.snapshot)));
        noted.into_iter().chain(taken).collect()
    }

    /// On a line of its own, even after an unfinished line of the command.
    fn report(&self) -> String {
        format!("printf '\\n{0}%s{0}\\n' \"$(pwd -P)\"", self.marker)
    }
}

/// Ends a script elsewhere by the number it noted: its group, or it alone where it leads none.
pub fn ending(pid_file: &str) -> String {
    let file = quoted(pid_file);
    format!(
        "p=$(cat {file} 2>/dev/null) || exit 0; [ -n \"$p\" ] || exit 0; \
         kill -TERM -- -\"$p\" 2>/dev/null || kill -TERM \"$p\" 2>/dev/null; \
         for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 -- -\"$p\" 2>/dev/null || kill -0 \"$p\" 2>/dev/null || break; sleep 0.1; done; \
         kill -KILL -- -\"$p\" 2>/dev/null || kill -KILL \"$p\" 2>/dev/null; rm -f {file}"
    )
}

/// One shell word, as Python's `shlex.quote` writes it.
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => always_quoted(text),
    }
}

fn always_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A directory for `cd`, in which `~` still means home.
fn directory_word(directory: &str) -> String {
    match directory {
        "~" => "~".to_owned(),
        "~/" => "$HOME".to_owned(),
        _ => match directory.strip_prefix("~/") {
            Some(below) => format!("\"$HOME\"/{}", quoted(below)),
            None => quoted(directory),
        },
    }
}
