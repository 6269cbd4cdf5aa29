//! Who else has a home's database open.
//!
//! A gateway says that it owns a home; Hermes' terminal client, its editor bridge and its scheduled jobs only open the
//! file. Found by looking only, as far as this user may: a process of another user is not seen.

use std::path::Path;

/// A process that has the database open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    pub program: String,
}

#[cfg(target_os = "linux")]
pub fn of(database: &Path) -> Vec<Holder> {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    let Ok(wanted) = fs::metadata(database) else { return Vec::new() };
    let is_database = |path: &Path| {
        fs::metadata(path).is_ok_and(|about| (about.dev(), about.ino()) == (wanted.dev(), wanted.ino()))
    };
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid.filter(|pid| *pid != std::process::id()) else { continue };
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        if files.map(|file| file.path()).any(|file| is_database(&file)) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(Holder { pid, program: name.trim().to_owned() });
        }
    }
    found.sort_by_key(|holder| holder.pid);
    found
}

#[cfg(not(target_os = "linux"))]
pub fn of(_: &Path) -> Vec<Holder> {
    Vec::new() // nothing here tells; the home's own lock has to do
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;
    use std::process::{Command, Stdio};

    #[test]
    fn p16_whoever_has_the_database_open_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("state.db");
        fs::write(&database, "x").unwrap();
        let own = fs::File::open(&database).unwrap();
        assert_eq!(of(&database), [], "we ourselves do not count");
        let mut other = Command::new("sleep").arg("60").stdin(Stdio::from(own)).spawn().unwrap();
        let found = of(&database);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(found.iter().map(|holder| holder.pid).collect::<Vec<_>>(), [other.id()]);
        assert_eq!(of(&database), []);
    }
}
