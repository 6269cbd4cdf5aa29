//! What no other user of this machine may look into.
//!
//! Modes are Unix's; on Windows the rights of the user's own profile are inherited.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// 0700, with its parents. What is there keeps its mode.
pub fn directory() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// 0600, if it is made.
pub fn file() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// The names in a directory are on disk, too. Windows opens no directory as a file, and its file
/// systems keep names in a journal of their own.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    std::fs::File::open(path)?.sync_all()?;
    let _ = path;
    Ok(())
}
