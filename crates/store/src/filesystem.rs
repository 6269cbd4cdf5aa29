//! Which file system a home lies on, and whether SQLite's write-ahead log is safe there.
//!
//! The log's index is memory shared between processes. Network and host-shared file systems do
//! not keep such memory the same for everyone, and a home on one can be corrupted without a word.
//! The kernel's own table of mounts names the file system; where there is no such table, nothing
//! is claimed.

use std::path::Path;

/// The file system of `path`, if it is one on which a write-ahead log is not safe.
pub(crate) fn unsafe_for_wal(path: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let path = existing_ancestor(path)?;
    let name = name_in(&mounts, &path)?;
    is_unsafe(name).then(|| name.to_owned())
}

/// The nearest directory that is there: the file itself may be yet to come.
fn existing_ancestor(path: &Path) -> Option<std::path::PathBuf> {
    path.ancestors().find_map(|ancestor| {
        let ancestor = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
        ancestor.canonicalize().ok()
    })
}

/// Of the mounts above `path`, the deepest; of several on one place, the last.
fn name_in<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mut found: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let Some(point) = left.split(' ').nth(4).map(unescaped) else { continue };
        let Some(name) = right.split(' ').next() else { continue };
        let depth = Path::new(&point).components().count();
        if path.starts_with(&point) && found.is_none_or(|(deepest, _)| depth >= deepest) {
            found = Some((depth, name));
        }
    }
    found.map(|(_, name)| name)
}

/// The kernel writes blanks and backslashes in a path as three octal digits.
fn unescaped(point: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(point.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

fn is_unsafe(name: &str) -> bool {
    const SHARED: [&str; 14] = [
        "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "virtiofs", "vboxsf", "prl_fs", "afs", "coda",
        "ncpfs", "fuse",
    ];
    SHARED.contains(&name) || name.starts_with("fuse.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /mnt/share rw - nfs4 server:/export rw
31 22 0:41 / /mnt/my\\040disk rw - fuse.sshfs me@host: rw
32 30 0:42 / /mnt/share/local rw - xfs /dev/vdb rw
33 22 0:43 / /mnt/over rw - ext4 /dev/vdc rw
34 22 0:44 / /mnt/over rw - 9p host rw";

    #[test]
    fn the_deepest_and_latest_mount_decides() {
        for (path, name, refused) in [
            ("/home/a/state.db", "ext4", false),
            ("/mnt/share/home/state.db", "nfs4", true),
            ("/mnt/share/local/state.db", "xfs", false),
            ("/mnt/sharefish/state.db", "ext4", false),
            ("/mnt/my disk/state.db", "fuse.sshfs", true),
            ("/mnt/over/state.db", "9p", true),
        ] {
            assert_eq!(name_in(MOUNTS, Path::new(path)), Some(name), "{path}");
            assert_eq!(is_unsafe(name), refused, "{name}");
        }
    }

    #[test]
    fn a_file_that_is_yet_to_come_lies_where_its_directory_does() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("not/there/yet/state.db");
        assert_eq!(existing_ancestor(&file), directory.path().canonicalize().ok());
    }
}
