//! Paths and files as Unix has them, and what belongs to the system there.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// As many links as Linux itself follows.
const LINKS_MAX: usize = 40;

const DIRECTORIES: [&str; 7] = ["/etc", "/boot", "/usr/lib/systemd", "/private/etc", "/dev", "/proc", "/sys"];
const FILES: [&str; 2] = ["/var/run/docker.sock", "/run/docker.sock"];
const SECRETS: [&str; 4] = ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d"];

/// What the kernel tells of a process that may hold its environment or its memory.
const PROCESS_FILES: [&str; 9] =
    ["environ", "cmdline", "maps", "smaps", "smaps_rollup", "numa_maps", "mem", "auxv", "pagemap"];

/// What no tool writes.
pub fn is_protected(path: &Path) -> bool {
    DIRECTORIES.iter().any(|directory| path.starts_with(directory))
        || FILES.iter().any(|file| path == Path::new(file))
}

/// What no tool reads.
pub fn is_secret(path: &Path) -> bool {
    SECRETS.iter().any(|secret| path.starts_with(secret))
}

pub fn is_device(path: &Path) -> bool {
    if path.starts_with("/dev") {
        // Shared memory is made of ordinary files.
        return !path.starts_with("/dev/shm");
    }
    let Ok(rest) = path.strip_prefix("/proc") else { return false };
    let descriptor = rest.parent().is_some_and(|parent| parent.file_name().is_some_and(|name| name == "fd"));
    let told = rest.file_name().is_some_and(|name| PROCESS_FILES.iter().any(|file| name == *file));
    descriptor || (told && rest.components().count() > 1)
}

/// The path with links and `..` resolved as far as it exists.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    let mut rest: Vec<OsString> = parts(path);
    let mut out = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == ".." {
            out.pop();
            continue;
        }
        let next = out.join(&part);
        if !fs::symlink_metadata(&next).is_ok_and(|facts| facts.is_symlink()) {
            out = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            out = PathBuf::from("/");
        }
        rest.extend(parts(&target));
    }
    Ok(out)
}

/// Last part first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}

/// Follows no link at its end, and does not wait: a FIFO would wait for its writer, a terminal for its
/// user.
pub fn open(resolved: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(resolved)
}

/// Whether a link stood where [`open`] follows none.
pub fn met_a_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// A directory that is held open.
pub struct HeldDirectory {
    directory: PathBuf,
    file: File,
}

impl HeldDirectory {
    pub fn open(directory: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(directory)?;
        if !lies_at(&file, directory) {
            return Err(io::Error::other("the directory changed while it was being opened"));
        }
        Ok(Self { directory: directory.to_owned(), file })
    }

    /// A path to the directory itself, wherever its name leads by now.
    pub fn path(&self) -> PathBuf {
        let held = descriptor(&self.file);
        if held.exists() { held } else { self.directory.clone() }
    }

    /// What is in the directory has the names it has now, also after a power cut.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

fn descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Whether what was opened lies where the decision was made about.
pub fn lies_at(file: &File, resolved: &Path) -> bool {
    match fs::read_link(descriptor(file)) {
        Ok(place) => place == resolved,
        // No such directory here: the path must still mean itself, and the same file.
        Err(_) => real(resolved).is_ok_and(|again| again == resolved) && is_same(file, resolved),
    }
}

/// Elsewhere than on Linux a file is often found under other letters than its own, too.
pub fn may_have_another_name(facts: &Metadata) -> bool {
    facts.nlink() > 1 || cfg!(not(target_os = "linux"))
}

/// Whether it is sure to have a second name (a hard link).
pub fn has_several_names(facts: &Metadata) -> bool {
    facts.nlink() > 1
}

/// Whether the path is a name of the file of these facts; a link is none.
pub fn is_file_of(facts: &Metadata, path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|other| facts.dev() == other.dev() && facts.ino() == other.ino())
}

/// Whether the path leads to this very file.
pub fn is_same(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(own), Ok(other)) => own.dev() == other.dev() && own.ino() == other.ino(),
        _ => false,
    }
}
