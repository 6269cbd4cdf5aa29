//! Files and directories that only their owner may read.
//!
//! Modes are Unix's; on Windows the rights of the user's own profile are inherited. Nothing here knows what is in a file.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Options that create a file with mode 0600. A file that exists keeps its mode.
pub fn file_options() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory and its missing parents with mode 0700. A directory that exists keeps its mode.
pub fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// The same, but a directory that exists gets mode 0700, too.
pub fn restrict_directory(path: &Path) -> io::Result<()> {
    create_directory(path)?;
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    #[cfg(not(unix))]
    let _ = fs::metadata(path)?;
    Ok(())
}

/// Makes the names in a directory durable. Windows opens no directory as a file, and its file systems keep names in a
/// journal of their own.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    fs::File::open(path)?.sync_all()?;
    let _ = path;
    Ok(())
}
