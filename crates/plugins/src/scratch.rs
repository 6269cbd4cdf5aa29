//! Where a plugin puts temporary files and sockets: a private directory whose path is short enough for a socket.

use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use throughline_private_files::restrict_directory;

/// A socket's address has room for 107 bytes; the plugin's name for the socket takes up to 52 of them.
const SCRATCH_MAX: usize = 107 - 52;

/// The scratch directory of the plugin whose own directory is `of`: below it, or in the system's temporary directory where
/// that path would be too long for a socket.
pub fn directory(of: &Path) -> io::Result<PathBuf> {
    let below = of.join("tmp");
    if !cfg!(unix) || below.as_os_str().len() <= SCRATCH_MAX {
        restrict_directory(&below)?;
        return Ok(below);
    }
    let digest = Sha256::digest(of.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let short = std::env::temp_dir().join(format!("tl-{name}"));
    if short.as_os_str().len() > SCRATCH_MAX {
        restrict_directory(&below)?;
        return Ok(below); // no socket fits anywhere
    }
    match fs::symlink_metadata(&short) {
        // Others may write where this lies: what they have put there is not used.
        Ok(found) if !found.is_dir() || !is_same_owner(&found, &fs::metadata(of)?) => {
            let message = format!("{} is not a directory of yours; remove it", short.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        _ => restrict_directory(&short)?,
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
            restrict_directory(&home).unwrap();
            let scratch = directory(&home).unwrap();
            std::os::unix::net::UnixListener::bind(scratch.join(format!("{}.sock", "x".repeat(40)))).unwrap();
            assert_eq!(fs::metadata(&scratch).unwrap().permissions().mode() & 0o777, 0o700);
            fs::remove_dir_all(&scratch).unwrap();
        }
    }
}
