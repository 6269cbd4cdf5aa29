//! Processes that outlived their gateway.
//!
//! A gateway that is killed ends nothing. Its plugins see their input end and go, unless they hang; for those it is written
//! down who runs, beside the plugin's directory, where the plugin itself cannot write. The next gateway ends what it finds
//! there, group and all: a process is known by its number and by when it began, so none that came later is meant.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use unsupported as system;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use throughline_private_files as private_files;

const ENDING: &str = ".process";

fn file(directory: &Path) -> PathBuf {
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(ENDING);
    directory.with_file_name(name)
}

/// Writes down that this process works in this directory.
pub(crate) fn note(directory: &Path, process: u32) -> io::Result<()> {
    let Some(identity) = system::identity(process) else { return Ok(()) }; // it has ended already
    let mut file =
        private_files::file_options().create(true).write(true).truncate(true).open(file(directory))?;
    writeln!(file, "{process} {identity}")
}

/// It has ended, and all that it led with it.
pub(crate) fn strike(directory: &Path, process: u32) {
    let is_its = |text: String| text.split(' ').next() == Some(process.to_string().as_str());
    if fs::read_to_string(file(directory)).is_ok_and(is_its) {
        let _ = fs::remove_file(file(directory));
    }
}

/// Ends what an earlier gateway left behind in this directory. Some: it did, and this was its number.
fn end(directory: &Path) -> Option<u32> {
    let text = fs::read_to_string(file(directory)).ok()?;
    let (process, identity) = text.trim_end().split_once(' ')?;
    let process = process.parse().ok()?;
    let ended =
        system::identity(process).is_some_and(|now| now == identity) && system::end(process, identity);
    let _ = fs::remove_file(file(directory));
    ended.then_some(process)
}

/// The same for all plugins below a directory, also for those that are not started any more; with their names. Only for
/// the process that owns the directory and has started none of them yet.
pub fn end_all(plugins: &Path) -> Vec<(String, u32)> {
    let entries = fs::read_dir(plugins).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name().to_str()?.strip_suffix(ENDING)?.to_owned();
            let process = end(&plugins.join(&name))?;
            Some((name, process))
        })
        .collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("3600").process_group(0).spawn().unwrap()
    }

    #[test]
    fn p31_what_a_killed_gateway_left_behind_is_ended_and_nobody_else() {
        let plugins = tempfile::tempdir().unwrap();
        let (one, other) = (plugins.path().join("one"), plugins.path().join("other"));
        let (mut left, mut stranger) = (sleeper(), sleeper());
        note(&one, left.id()).unwrap();
        // The number has gone to a process that came later.
        note(&other, stranger.id()).unwrap();
        let text = fs::read_to_string(file(&other)).unwrap();
        let (number, identity) = text.split_once(' ').unwrap();
        fs::write(file(&other), format!("{number} 1{identity}")).unwrap();

        assert_eq!(end_all(plugins.path()), [("one".to_owned(), left.id())]);
        left.wait().unwrap();
        assert!(stranger.try_wait().unwrap().is_none(), "it came later");
        assert_eq!(fs::read_dir(plugins.path()).unwrap().count(), 0, "nothing is left to be done");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn one_that_ended_is_struck_and_another_is_not() {
        let plugins = tempfile::tempdir().unwrap();
        let directory = plugins.path().join("one");
        let mut first = sleeper();
        note(&directory, first.id()).unwrap();
        strike(&directory, first.id() + 1);
        assert!(file(&directory).exists());
        strike(&directory, first.id());
        assert!(!file(&directory).exists());
        first.kill().unwrap();
        first.wait().unwrap();
    }
}
