//! Commands on this machine.

use super::super::environment::EnvironmentVariables;
use super::super::process_group::Abort;
use super::super::settings::TerminalSettings;
use super::script::quoted;
use super::{CommandSite, Shell, find_program};
use crate::sandbox::Confine;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

pub struct LocalSite {
    confine: Arc<dyn Confine>,
    scratch: PathBuf,
    cwd: String,
    init_files: Vec<String>,
    auto_source_bashrc: bool,
}

impl LocalSite {
    pub fn new(settings: &TerminalSettings, confine: Arc<dyn Confine>, scratch: PathBuf) -> Self {
        Self {
            confine,
            scratch,
            cwd: settings.cwd.clone(),
            init_files: settings.shell_init_files.clone(),
            auto_source_bashrc: settings.auto_source_bashrc,
        }
    }

    /// Files that put programs on the path and that a login bash would pass over. A failing one
    /// does not spoil the rest.
    fn with_init_files(&self, script: &str, variables: &EnvironmentVariables) -> String {
        let auto = ["~/.profile", "~/.bash_profile", "~/.bashrc"].map(String::from);
        let files = match self.init_files.is_empty() {
            false => self.init_files.as_slice(),
            true if self.auto_source_bashrc => auto.as_slice(),
            true => &[],
        };
        let paths =
            files.iter().map(|file| expanded(file, variables)).filter(|path| Path::new(path).is_file());
        let sources = paths.map(|path| {
            let word = quoted(&path);
            format!("[ -r {word} ] && . {word} 2>/dev/null || true\n")
        });
        let sources = sources.collect::<String>();
        if sources.is_empty() { script.to_owned() } else { format!("set +e\n{sources}{script}") }
    }
}

impl CommandSite for LocalSite {
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn command(
        &self,
        script: &str,
        shell: Shell,
        variables: &EnvironmentVariables,
        directory: &Path,
    ) -> Command {
        let path = variables.get(OsStr::new("PATH")).map(|path| path.as_os_str());
        let bash = find_program("bash", path).unwrap_or_else(|| "/bin/sh".into());
        let mut command = in_own_session(&bash, path);
        match shell {
            Shell::Login => command.args(["-l", "-c"]).arg(self.with_init_files(script, variables)),
            Shell::Plain => command.arg("-c").arg(script),
        };
        command.env_clear().envs(variables).current_dir(directory);
        command
    }

    fn spawn(&self, command: Command) -> io::Result<Child> {
        self.confine.spawn(command)
    }

    /// Relative paths are meant from where this process was started.
    fn first_directory(&self) -> String {
        let here = std::env::current_dir().unwrap_or_else(|_| std::env::temp_dir());
        let wanted = match self.cwd.trim() {
            "" | "." | "auto" | "cwd" => return here.to_string_lossy().into_owned(),
            wanted => expanded(wanted, &std::env::vars_os().collect()),
        };
        let candidate = here.join(&wanted);
        match !candidate.is_dir() && here.ends_with(&wanted) {
            true => here.to_string_lossy().into_owned(), // started from within it already
            false => candidate.to_string_lossy().into_owned(),
        }
    }

    fn scratch(&self) -> String {
        self.scratch.to_string_lossy().into_owned()
    }

    fn abort(&self, _pid_file: &str) -> Option<Abort> {
        None
    }

    fn is_local(&self) -> bool {
        true
    }
}

/// A session without a terminal: a prompt for a password fails at once, and a process group is not
/// enough for that. Without `setsid` the group must do.
pub fn in_own_session(program: &Path, path: Option<&OsStr>) -> Command {
    match find_program("setsid", path) {
        Some(setsid) => {
            let mut command = Command::new(setsid);
            command.arg(program);
            command
        }
        None => {
            let mut command = Command::new(program);
            command.process_group(0);
            command
        }
    }
}

/// `~` and `$NAME` or `${NAME}` in a path. An unknown name stays as it is.
fn expanded(path: &str, variables: &EnvironmentVariables) -> String {
    let value =
        |name: &str| variables.get(OsStr::new(name)).map(|value| value.to_string_lossy().into_owned());
    let home = || value("HOME").unwrap_or_else(|| "~".to_owned());
    let mut out = String::new();
    let mut rest = match path.strip_prefix('~') {
        Some(below) if below.is_empty() || below.starts_with('/') => {
            out.push_str(&home());
            below
        }
        _ => path,
    };
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let name_end =
            |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, length) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, name.len() + 2),
            None => (&after[..name_end(after)], name_end(after)),
        };
        match value(name) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&rest[at..at + 1 + length]),
        }
        rest = &after[length..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_expand_as_in_a_shell_and_unknown_names_stay() {
        let variables = EnvironmentVariables::from([("HOME".into(), "/me".into()), ("A".into(), "x".into())]);
        assert_eq!(expanded("~/.bashrc", &variables), "/me/.bashrc");
        assert_eq!(expanded("$A/${A}b/$NO/~", &variables), "x/xb/$NO/~");
    }
}
