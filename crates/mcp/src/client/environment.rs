//! What a server's process is told of the world it runs in, and which program it is.
//!
//! The gateway's own environment holds keys of every kind. A server gets a handful of variables
//! that carry none, and what the user wrote below `env`; nothing else passes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use throughline_core::redact::Secret;

const PASSED: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR"];
/// Without these, programs on Windows find neither the system nor a place for their files.
const PASSED_ON_WINDOWS: [&str; 14] = [
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "COMSPEC",
    "PATHEXT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "NUMBER_OF_PROCESSORS",
];

/// Between two directories of `PATH`.
const BETWEEN: &str = if cfg!(windows) { ";" } else { ":" };
/// What the name of a program may end with beyond what is written.
const ENDINGS: &[&str] = if cfg!(windows) { &["", ".exe", ".cmd", ".bat"] } else { &[""] };

/// Programs that are looked for beyond `PATH` as well: services are often started without one that
/// has Node in it.
const NODE: [&str; 3] = ["npx", "npm", "node"];

/// A process that can be started.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerProgram {
    pub path: PathBuf,
    pub environment: BTreeMap<String, String>,
}

/// Makes out of `command` what is to be started. `ours` is the environment of the gateway, `home`
/// the Hermes home.
pub fn program(
    command: &str,
    env: &[(String, Secret)],
    ours: &[(String, String)],
    home: &Path,
) -> ServerProgram {
    let mut environment: BTreeMap<String, String> =
        ours.iter().filter(|(name, _)| is_passed(name)).cloned().collect();
    environment.extend(env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
    let user = ours.iter().find(|(name, _)| name == "HOME").map(|(_, path)| PathBuf::from(path));
    let path = found(command.trim(), &environment, user.as_deref(), home);
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        // `npx` starts `node` through its own PATH: the two lie beside each other.
        let joined = with_directory(environment.get("PATH"), directory);
        environment.insert("PATH".to_owned(), joined);
    }
    ServerProgram { path, environment }
}

fn is_passed(name: &str) -> bool {
    PASSED.contains(&name) || name.starts_with("XDG_") || cfg!(windows) && PASSED_ON_WINDOWS.contains(&name)
}

fn found(command: &str, environment: &BTreeMap<String, String>, user: Option<&Path>, home: &Path) -> PathBuf {
    let command = match (command.strip_prefix("~/"), user) {
        (Some(rest), Some(user)) => user.join(rest),
        _ => PathBuf::from(command),
    };
    if command.components().count() != 1 {
        return command;
    }
    let path = environment.get("PATH").map(String::as_str).unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(path).collect();
    if command.to_str().is_some_and(|name| NODE.contains(&name)) {
        places.push(home.join("node/bin"));
        places.extend(user.map(|user| user.join(".local/bin")));
        places.push(PathBuf::from("/usr/local/bin"));
    }
    let names = ENDINGS.iter().map(|ending| format!("{}{ending}", command.display())).collect::<Vec<_>>();
    let mut candidates = places.iter().flat_map(|place| names.iter().map(|name| place.join(name)));
    candidates.find(|candidate| is_program(candidate)).unwrap_or(command)
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// By its ending, which `found` adds.
#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

fn with_directory(path: Option<&String>, directory: &Path) -> String {
    let path = path.map(String::as_str).unwrap_or_default();
    let directory = directory.to_string_lossy();
    if path.split(BETWEEN).any(|part| part == directory) {
        return path.to_owned();
    }
    let parts =
        std::iter::once(directory.as_ref()).chain(path.split(BETWEEN).filter(|part| !part.is_empty()));
    parts.collect::<Vec<_>>().join(BETWEEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn p31_a_server_sees_what_was_written_for_it_and_no_key_of_ours() {
        let ours =
            [pair("PATH", "/usr/bin:/bin"), pair("XDG_DATA_HOME", "/d"), pair("OPENAI_API_KEY", "sk-secret")];
        let env = [("TOKEN".to_owned(), Secret::new("theirs"))];
        let program = program("/bin/sh", &env, &ours, Path::new("/home"));
        let names: Vec<&str> = program.environment.keys().map(String::as_str).collect();
        assert_eq!(names, ["PATH", "TOKEN", "XDG_DATA_HOME"]);
        assert_eq!(program.environment["PATH"], "/usr/bin:/bin");
    }

    #[test]
    fn a_bare_name_is_found_on_the_path_and_its_neighbours_with_it() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("node/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("npx"), "").unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(bin.join("npx"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let ours = [pair("PATH", "/nowhere")];
        let program = program("npx", &[], &ours, home.path());
        // A machine may have its own in the last place that is looked in; ours comes before it.
        assert_eq!(program.path, bin.join("npx"));
        assert_eq!(program.environment["PATH"], format!("{}:/nowhere", bin.display()));
    }

    #[test]
    fn a_tilde_is_the_users_home() {
        let ours = [pair("HOME", "/users/me")];
        assert_eq!(program("~/bin/x", &[], &ours, Path::new("/h")).path, Path::new("/users/me/bin/x"));
    }
}
