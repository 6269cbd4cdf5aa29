//! Paths and files as Windows has them, and what belongs to the system there.
//!
//! One file has many names: in other letters, in the short form of old (`AUTH~1.JSO`), with a stream
//! behind a colon, with dots at its end. What exists is therefore called by the name the system itself
//! gives it; a name that would mean something else than it says is refused.

use same_file::Handle;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf, Prefix};

/// Without it no directory is opened.
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
/// Others may read and write, and neither rename nor delete.
const FILE_SHARE_READ_WRITE: u32 = 0x1 | 0x2;

/// Devices in every directory, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
/// Devices with a number behind them.
const PORTS: [&str; 2] = ["com", "lpt"];

/// Where Windows and its programs lie, by the variables that say so.
const SYSTEM: [&str; 3] = ["SystemRoot", "ProgramFiles", "ProgramFiles(x86)"];

/// What no tool writes.
pub fn is_protected(path: &Path) -> bool {
    let directories = SYSTEM.iter().filter_map(std::env::var_os);
    directories.filter_map(|directory| canonical(Path::new(&directory)).ok()).any(|it| path.starts_with(it))
}

/// What no tool reads: where accounts and their passwords are kept.
pub fn is_secret(path: &Path) -> bool {
    let root = std::env::var_os("SystemRoot").map(PathBuf::from);
    root.and_then(|root| canonical(&root.join("System32/config")).ok()).is_some_and(|it| path.starts_with(it))
}

/// [`real`] has refused them already.
pub fn is_device(_: &Path) -> bool {
    false
}

/// The path as the system itself calls it, as far as it exists.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    for part in path.components() {
        match part {
            Component::Prefix(prefix) => match prefix.kind() {
                Prefix::Disk(_) | Prefix::VerbatimDisk(_) => {}
                // The server of a share learns who asks for it: no model decides that.
                Prefix::UNC(..) | Prefix::VerbatimUNC(..) => {
                    return Err(io::Error::other(
                        "it lies on another machine; give its share a drive letter",
                    ));
                }
                Prefix::DeviceNS(_) | Prefix::Verbatim(_) => return Err(io::Error::other("it is a device")),
            },
            Component::Normal(name) => plain_name(&name.to_string_lossy()).map_err(io::Error::other)?,
            Component::RootDir | Component::CurDir | Component::ParentDir => {}
        }
    }
    canonical(path)
}

/// Whether a name means the file it says, and no other.
fn plain_name(name: &str) -> Result<(), &'static str> {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let is_port = PORTS.iter().any(|port| {
        let number = stem.strip_prefix(port);
        number.is_some_and(|number| number.chars().count() == 1 && !number.starts_with(char::is_alphabetic))
    });
    if is_port || DEVICES.contains(&stem.as_str()) {
        return Err("it is the name of a device");
    }
    if name.contains([':', '/', '*', '?', '"', '<', '>', '|']) || name.ends_with(['.', ' ']) {
        return Err("a name holds none of : / * ? \" < > | and ends with no dot or space");
    }
    Ok(())
}

/// The longest part that exists, as the system calls it, and the rest as it is written.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    let mut known = whole.as_path();
    loop {
        match fs::canonicalize(known) {
            Ok(there) => {
                let rest = whole.strip_prefix(known).unwrap_or(Path::new(""));
                // An empty rest would leave a separator at the end.
                return Ok(if rest.as_os_str().is_empty() {
                    usual(&there)
                } else {
                    usual(&there).join(rest)
                });
            }
            Err(error) => match known.parent() {
                Some(parent) if error.kind() == io::ErrorKind::NotFound => known = parent,
                Some(_) => return Err(error),
                None => return Ok(whole), // a drive that is not there
            },
        }
    }
}

/// `C:\…` for `\\?\C:\…`, which only few programs take.
fn usual(path: &Path) -> PathBuf {
    let mut parts = path.components();
    let root = match parts.next() {
        Some(Component::Prefix(prefix)) => match prefix.kind() {
            Prefix::VerbatimDisk(letter) => format!("{}:", char::from(letter)),
            Prefix::VerbatimUNC(server, share) => {
                format!(r"\\{}\{}", server.to_string_lossy(), share.to_string_lossy())
            }
            _ => return path.to_owned(),
        },
        _ => return path.to_owned(),
    };
    let mut usual = PathBuf::from(root);
    usual.extend(parts); // its root directory first
    usual
}

pub fn open(resolved: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(resolved)
}

/// Links are followed here, and found out by [`lies_at`].
pub fn met_a_link(_: &io::Error) -> bool {
    false
}

/// A directory that is held open: while it is, no process renames or deletes it, nor one above it.
pub struct HeldDirectory {
    directory: PathBuf,
    _file: File,
}

impl HeldDirectory {
    pub fn open(directory: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).share_mode(FILE_SHARE_READ_WRITE);
        let file = options.open(directory)?;
        if !file.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if !lies_at(&file, directory) {
            return Err(io::Error::other("the directory changed while it was being opened"));
        }
        Ok(Self { directory: directory.to_owned(), _file: file })
    }

    pub fn path(&self) -> PathBuf {
        self.directory.clone()
    }

    /// The file system keeps names in a journal of its own.
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether what was opened lies where the decision was made about.
pub fn lies_at(file: &File, resolved: &Path) -> bool {
    canonical(resolved).is_ok_and(|again| again == resolved) && is_same(file, resolved)
}

/// Not told with the rest of a file's facts.
pub fn may_have_another_name(_: &Metadata) -> bool {
    true
}

/// See [`may_have_another_name`]: looking through a home for each file would take too long.
pub fn has_several_names(_: &Metadata) -> bool {
    false
}

pub fn is_file_of(_: &Metadata, _: &Path) -> bool {
    false
}

/// Whether the path leads to this very file.
pub fn is_same(file: &File, path: &Path) -> bool {
    let own = file.try_clone().and_then(Handle::from_file);
    match (own, Handle::from_path(path)) {
        (Ok(own), Ok(other)) => own == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_a_name_that_means_another_file_is_refused() {
        for name in
            [".env::$DATA", "notes.txt:hidden", ".env.", ".env ", "NUL", "con.txt", "Com1", "lpt9.log"]
        {
            assert!(plain_name(name).is_err(), "{name}");
        }
        for name in [".env", "notes.txt", "console", "com", "common.rs", "nullable.txt", "ü.md", "a b"] {
            assert_eq!(plain_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn what_exists_is_called_as_the_system_calls_it_and_the_rest_as_written() {
        let directory = tempfile::tempdir().unwrap();
        let root = canonical(directory.path()).unwrap();
        fs::create_dir(root.join("there")).unwrap();
        assert_eq!(real(&directory.path().join("there")).unwrap(), root.join("there"));
        let new = root.join("there").join("new").join("file.txt");
        assert_eq!(real(&new).unwrap(), new);
        assert_eq!(real(&new).unwrap(), real(&real(&new).unwrap()).unwrap(), "resolving is final");
    }

    #[test]
    fn what_is_opened_and_held_is_what_was_decided_about() {
        let directory = tempfile::tempdir().unwrap();
        let root = canonical(directory.path()).unwrap();
        fs::write(root.join("a"), "a").unwrap();
        fs::write(root.join("b"), "b").unwrap();
        let file = open(&root.join("a")).unwrap();
        assert!(lies_at(&file, &root.join("a")) && !lies_at(&file, &root.join("b")));
        assert!(open(&root).unwrap().metadata().unwrap().is_dir());
        assert_eq!(HeldDirectory::open(&root).unwrap().path(), root);
        assert!(HeldDirectory::open(&root.join("a")).is_err());
    }
}
