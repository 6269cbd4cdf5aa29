//! What no other user of this machine may look into.
//!
//! Modes are Unix's; on Windows the rights of the user's own profile are inherited.

use std::fs::OpenOptions;
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

/// 0700, also if it was there before.
pub fn directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}
