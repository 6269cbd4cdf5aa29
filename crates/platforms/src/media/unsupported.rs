//! A file where Unix's means are not there.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

pub fn open(resolved: &Path) -> io::Result<File> {
    File::open(resolved)
}

/// Where the open file lies. None: its path leads elsewhere by now.
pub fn place(_file: &File, resolved: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(resolved).ok().filter(|again| again == resolved)
}

/// Puts a file into a directory without links in its path.
pub fn put(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = directory.join(format!(".{name}.new"));
    std::fs::write(&new, bytes)?;
    std::fs::rename(new, directory.join(name))
}

/// A second name of a file needs rights here that an agent's commands do not have.
pub fn has_other_names(_facts: &Metadata) -> bool {
    false
}

pub fn is_same(_facts: &Metadata, _path: &Path) -> bool {
    false
}
