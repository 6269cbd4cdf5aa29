//! A file on Unix: opened without following a link, and found again by what it is.

use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

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

pub fn has_other_names(facts: &Metadata) -> bool {
    facts.nlink() > 1
}

/// Whether the path names the file of these facts; a link does not.
pub fn is_same(facts: &Metadata, path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|other| facts.dev() == other.dev() && facts.ino() == other.ino())
}
