//! What no other user of this machine may look into.
//!
//! Modes are Unix's; on Windows the rights of the user's own profile are inherited.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// 0600, if it is made.
pub fn file() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// 0700, whether it was there or not.
pub fn directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    #[cfg(not(unix))]
    let _ = fs::metadata(path)?;
    Ok(())
}
