//! A file on Unix: opened without following a link, and found again by what it is.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, renameat, unlinkat};
use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many files this process has begun: no two of them share a temporary name.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Follows no link at its end, and does not wait: a FIFO would wait for its writer.
pub fn open(resolved: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, resolved, flags, Mode::empty())?))
}

/// Where the open file lies. None: not where it was opened, for its path leads elsewhere by now.
pub fn place(file: &File, resolved: &Path) -> Option<PathBuf> {
    match fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) {
        Ok(place) => (place == resolved).then_some(place),
        // No such directory here: the path must still mean itself, and this file.
        Err(_) => {
            let again = fs::canonicalize(resolved).ok().filter(|again| again == resolved)?;
            file.metadata().is_ok_and(|facts| is_same(&facts, &again)).then_some(again)
        }
    }
}

/// Puts a file into a directory without links in its path, which stays the same one meanwhile. A link
/// under this name is replaced, and not followed.
pub fn put(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = File::from(openat(CWD, directory, flags, Mode::empty())?);
    if place(&held, directory).is_none() {
        return Err(io::Error::other("the directory changed while it was being opened"));
    }
    let new = format!(".new-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
    let _ = unlinkat(&held, &new, AtFlags::empty()); // of a process that had this number before
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(openat(&held, &new, flags, Mode::RUSR | Mode::WUSR)?).write_all(bytes)?;
    Ok(renameat(&held, &new, &held, name)?)
}

pub fn has_other_names(facts: &Metadata) -> bool {
    facts.nlink() > 1
}

/// Whether the path names the file of these facts; a link does not.
pub fn is_same(facts: &Metadata, path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|other| facts.dev() == other.dev() && facts.ino() == other.ino())
}
