//! What no other user of this machine may look into.
//!
//! Modes are Unix's; on Windows the rights of the user's own profile are inherited.

use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

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

/// A socket's address has room for 107 bytes, and what makes one there names it with up to this many less.
const SCRATCH_MAX: usize = 107 - 52;

/// Where whoever is at home in `of` may put what it needs for a moment: below it, unless that is too long a path for a
/// socket; then a short one of its own where the system keeps such things.
pub fn scratch(of: &Path) -> io::Result<PathBuf> {
    let below = of.join("tmp");
    if !cfg!(unix) || below.as_os_str().len() <= SCRATCH_MAX {
        directory(&below)?;
        return Ok(below);
    }
    let digest = Sha256::digest(of.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let short = std::env::temp_dir().join(format!("tl-{name}"));
    if short.as_os_str().len() > SCRATCH_MAX {
        directory(&below)?;
        return Ok(below); // no socket fits anywhere
    }
    match fs::symlink_metadata(&short) {
        // Others may write where this lies: what they have put there is not used.
        Ok(found) if !found.is_dir() || !is_same_owner(&found, &fs::metadata(of)?) => {
            let message = format!("{} is not a directory of yours; remove it", short.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        _ => directory(&short)?,
    }
    Ok(short)
}

#[cfg(unix)]
fn is_same_owner(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    one.uid() == other.uid()
}

#[cfg(not(unix))]
fn is_same_owner(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn p31_a_socket_fits_into_the_scratch_of_a_plugin_however_deep_its_home_lies_and_nobody_else_may_look() {
        let place = tempfile::tempdir().unwrap();
        for depth in ["home".to_owned(), format!("{}/home", "deep".repeat(30))] {
            let home = place.path().join(depth);
            directory(&home).unwrap();
            let scratch = scratch(&home).unwrap();
            std::os::unix::net::UnixListener::bind(scratch.join(format!("{}.sock", "x".repeat(40)))).unwrap();
            assert_eq!(fs::metadata(&scratch).unwrap().permissions().mode() & 0o777, 0o700);
            fs::remove_dir_all(&scratch).unwrap();
        }
    }
}
