//! `MEMORY.md` and `USER.md` on disk: read whole, replaced whole, under the lock that Hermes takes.
//!
//! - A writer holds an exclusive `flock` on `<file>.lock`, as Hermes does, so the two exclude each
//!   other across processes. Who waits too long is told so; nothing is written without the lock.
//! - A file that is not text, cannot be read or is far too large is never replaced.
//! - Replacing is compare-and-swap: the file must still hold what was read under the lock. Editors
//!   take no lock, so it is compared again just before the rename.
//! - A new text is on disk, file and directory, before it counts as saved. A crash leaves the old
//!   file or the new one.
//! - Files are 0600, directories 0700. Where the file is a symlink, the file it names is replaced.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;
use throughline_private_files as private_files;

/// Between two attempts at a lock: short at first, because Hermes holds it for a few milliseconds.
const LOCK_RETRY: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(20);
/// Names tried for one backup. More than one is taken only if the clock went back.
const BACKUP_NAMES_MAX: usize = 64;
/// Links followed from one name, as the kernel's own bound.
const LINKS_MAX: usize = 40;
/// A file may be this much larger than its entries may be: room for what people add, not for a log.
const SLACK_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub struct MemoryFile {
    path: PathBuf,
    bytes_max: u64,
    lock_patience: Duration,
}

/// What a file held when it was looked at. None: there was no file.
pub type FileText = Option<String>;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Try again later.
    #[error(
        "{} is locked by another process (waited {waited_s} s for {}.lock). Nothing was changed; try again \
         later.",
        .path.display(),
        .path.display()
    )]
    Busy { path: PathBuf, waited_s: u64 },
    /// The caller has gone.
    #[error("The call was given up before {} was changed.", .0.display())]
    Abandoned(PathBuf),
    /// A person must look at the file.
    #[error("{} cannot be used: {why}. It was left as it is; a person must repair or move it first.", .path.display())]
    Unusable { path: PathBuf, why: String },
    /// Read again and decide again.
    #[error("{} was changed by something else while it was being edited. Nothing was written; try again.", .0.display())]
    Changed(PathBuf),
    /// What a call would take away has no other place to stay.
    #[error(
        "What this would remove from memory cannot be kept in {}: {source}. Nothing was changed; a person must \
         make that file writable first.",
        .path.display()
    )]
    Unkept { path: PathBuf, source: io::Error },
    #[error("Failed to write memory file {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl MemoryFile {
    /// `chars_max` is how much its entries may hold.
    pub fn new(path: PathBuf, chars_max: usize, lock_patience: Duration) -> Self {
        let widest = u64::try_from(chars_max).unwrap_or(u64::MAX).saturating_mul(4);
        Self { path, bytes_max: widest.saturating_add(SLACK_BYTES), lock_patience }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `MEMORY.md`, without the directory.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Needs no lock: a file is replaced whole.
    pub fn read(&self) -> Result<FileText, FileError> {
        let bytes = match self.read_bytes() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unusable(error.to_string())),
        };
        if bytes.len() as u64 > self.bytes_max {
            return Err(self.unusable(format!("it is larger than {} bytes", self.bytes_max)));
        }
        String::from_utf8(bytes).map(Some).map_err(|error| {
            self.unusable(format!("it is not UTF-8 text (byte {})", error.utf8_error().valid_up_to()))
        })
    }

    fn read_bytes(&self) -> io::Result<Vec<u8>> {
        // Looked at before it is opened: opening a pipe would wait for its writer.
        if !fs::metadata(&self.path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(&self.path)?.take(self.bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Waits for the lock until the caller gives up. The lock ends with the returned value.
    pub fn lock(&self, abandoned: impl Fn() -> bool) -> Result<LockedFile<'_>, FileError> {
        let file = self.lock_file().map_err(|source| self.not_written(source))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                _ if abandoned() => return Err(FileError::Abandoned(self.path.clone())),
                Ok(()) => return Ok(LockedFile { file: self, _lock: file }),
                Err(TryLockError::Error(source)) => return Err(self.not_written(source)),
                Err(TryLockError::WouldBlock) if begun.elapsed() >= self.lock_patience => {
                    let waited_s = self.lock_patience.as_secs();
                    return Err(FileError::Busy { path: self.path.clone(), waited_s });
                }
                Err(TryLockError::WouldBlock) => {
                    let pause = begun.elapsed() / 4;
                    std::thread::sleep(pause.clamp(*LOCK_RETRY.start(), *LOCK_RETRY.end()));
                }
            }
        }
    }

    pub fn backup_path(&self, unix_seconds: i64) -> PathBuf {
        with_suffix(&self.path, &format!(".bak.{unix_seconds}"))
    }

    fn lock_file(&self) -> io::Result<File> {
        private_files::create_directory(parent(&self.path))?;
        let path = with_suffix(&self.path, ".lock");
        private_files::file_options().create(true).append(true).read(true).open(path)
    }

    fn unusable(&self, why: String) -> FileError {
        FileError::Unusable { path: self.path.clone(), why }
    }

    fn not_written(&self, source: io::Error) -> FileError {
        FileError::Write { path: self.path.clone(), source }
    }
}

/// A file that no other holder of the lock can change.
pub struct LockedFile<'a> {
    file: &'a MemoryFile,
    _lock: File,
}

impl LockedFile<'_> {
    pub fn read(&self) -> Result<FileText, FileError> {
        self.file.read()
    }

    /// Puts `text` in the place of what was `held`. If the file holds anything else by now, it stays.
    pub fn replace(&self, held: &FileText, text: &str) -> Result<(), FileError> {
        let prepared = self.prepare(text).map_err(|source| self.file.not_written(source))?;
        if self.file.read()? != *held {
            return Err(FileError::Changed(self.file.path.clone()));
        }
        prepared.put().map_err(|source| self.file.not_written(source))
    }

    fn prepare(&self, text: &str) -> io::Result<PreparedFile> {
        PreparedFile::write(&destination(&self.file.path)?, text.as_bytes())
    }

    /// Saves what the file holds beside it and says where. What is already saved is not saved again,
    /// so a model that insists does not fill the disk.
    pub fn back_up(&self, text: &str, unix_seconds: i64) -> Result<PathBuf, FileError> {
        let saved = self.backup_of(text).map_or_else(|| self.new_backup(text, unix_seconds), Ok);
        saved.map_err(|source| self.file.not_written(source))
    }

    fn backup_of(&self, text: &str) -> Option<PathBuf> {
        let prefix = format!("{}.bak.", self.file.name());
        let siblings = fs::read_dir(parent(&self.file.path)).ok()?.filter_map(Result::ok);
        let backups = siblings.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        backups
            .map(|entry| entry.path())
            .find(|path| fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes()))
    }

    /// A second backup within a second has other content and gets a later name.
    fn new_backup(&self, text: &str, unix_seconds: i64) -> io::Result<PathBuf> {
        let mut tried = Err(io::Error::from(io::ErrorKind::AlreadyExists));
        for at in (unix_seconds..).take(BACKUP_NAMES_MAX) {
            let path = self.file.backup_path(at);
            tried = put_new(&path, text.as_bytes()).map(|()| path);
            if !matches!(&tried, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
                break;
            }
        }
        tried
    }
}

/// A text that is on disk under another name.
struct PreparedFile {
    temporary: NamedTempFile,
    destination: PathBuf,
}

impl PreparedFile {
    fn write(destination: &Path, bytes: &[u8]) -> io::Result<Self> {
        // 0600, like all temporary files.
        let mut temporary =
            tempfile::Builder::new().prefix(".mem_").suffix(".tmp").tempfile_in(parent(destination))?;
        temporary.write_all(bytes)?;
        temporary.as_file().sync_all()?;
        Ok(Self { temporary, destination: destination.to_owned() })
    }

    fn put(self) -> io::Result<()> {
        let directory = parent(&self.destination).to_owned();
        match self.temporary.persist(&self.destination) {
            Ok(_) => private_files::sync_directory(&directory),
            Err(failed) if failed.error.kind() == io::ErrorKind::ResourceBusy => {
                overwrite(failed.file, &self.destination)
            }
            Err(failed) => Err(failed.error),
        }
    }
}

/// For a file that is itself a mount and cannot be renamed over (a single file bound into a
/// container). The complete copy lies beside it until this one is on disk.
fn overwrite(mut temporary: NamedTempFile, destination: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    temporary.as_file_mut().seek(SeekFrom::Start(0))?;
    temporary.as_file_mut().read_to_end(&mut text)?;
    let (_, copy) = temporary.keep().map_err(|error| error.error)?;
    let mut file = OpenOptions::new().write(true).truncate(true).open(destination)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::remove_file(copy)
}

/// Writes a file that must not exist yet: whole and durable, or not at all.
pub fn put_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let prepared = PreparedFile::write(path, bytes)?;
    prepared.temporary.persist_noclobber(path).map_err(|failed| failed.error)?;
    private_files::sync_directory(parent(path))
}

/// Where a symlink leads, even to a file that does not exist yet: the link survives a write.
fn destination(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(next) => path = parent(&path).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symlinks"))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    fn file_in(home: &Path) -> MemoryFile {
        MemoryFile::new(home.join("memories/MEMORY.md"), 2200, Duration::from_millis(200))
    }

    fn put(file: &MemoryFile, text: &str) {
        let locked = file.lock(|| false).unwrap();
        let held = locked.read().unwrap();
        locked.replace(&held, text).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_0600_and_directories_0700() {
        let home = tempfile::tempdir().unwrap();
        let file = file_in(home.path());
        put(&file, "a");
        assert_eq!(mode(file.path()), 0o600);
        assert_eq!(mode(&home.path().join("memories/MEMORY.md.lock")), 0o600);
        assert_eq!(mode(&home.path().join("memories")), 0o700);
    }

    #[test]
    fn only_what_was_read_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let file = file_in(home.path());
        put(&file, "a");
        let locked = file.lock(|| false).unwrap();
        let held = locked.read().unwrap();
        fs::write(file.path(), "an editor was here").unwrap();
        assert!(matches!(locked.replace(&held, "b"), Err(FileError::Changed(_))));
        assert!(matches!(locked.replace(&None, "b"), Err(FileError::Changed(_))));
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "an editor was here");
        assert_eq!(fs::read_dir(home.path().join("memories")).unwrap().count(), 2); // no temporary file stays
    }

    #[test]
    fn a_symlink_survives_and_its_file_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let file = file_in(home.path());
        fs::create_dir_all(home.path().join("memories")).unwrap();
        fs::create_dir_all(home.path().join("dotfiles")).unwrap();
        symlink("../dotfiles/notes.md", file.path()).unwrap(); // to a file that is not there yet
        for text in ["a", "b"] {
            put(&file, text);
            assert!(fs::symlink_metadata(file.path()).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(home.path().join("dotfiles/notes.md")).unwrap(), text);
        }
    }

    #[test]
    fn a_file_that_cannot_be_renamed_over_is_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("MEMORY.md");
        fs::write(&path, "much longer than the new text").unwrap();
        overwrite(PreparedFile::write(&path, "new".as_bytes()).unwrap().temporary, &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_state_is_backed_up_once() {
        let home = tempfile::tempdir().unwrap();
        let file = file_in(home.path());
        let locked = file.lock(|| false).unwrap();
        let first = locked.back_up("one", 100).unwrap();
        assert_eq!(first, with_suffix(file.path(), ".bak.100"));
        assert_eq!(locked.back_up("one", 200).unwrap(), first);
        assert_eq!(locked.back_up("two", 100).unwrap(), with_suffix(file.path(), ".bak.101"));
        assert_eq!(fs::read_to_string(first).unwrap(), "one");
    }

    #[test]
    fn a_process_that_dies_between_writing_and_renaming_leaves_the_old_file_and_no_lock() {
        let home = tempfile::tempdir().unwrap();
        let file = file_in(home.path());
        put(&file, "old");
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "files::tests::child_that_dies_before_the_rename", "--ignored"]);
        let status = child.env("DYING_HOME", home.path()).output().unwrap().status;
        assert!(!status.success());
        let left = fs::read_dir(home.path().join("memories")).unwrap().filter_map(Result::ok);
        let temporary = left.filter(|entry| entry.file_name().to_string_lossy().ends_with(".tmp"));
        assert_eq!(temporary.count(), 1); // it had got that far
        assert_eq!(file.read().unwrap().as_deref(), Some("old"));
        put(&file, "newer");
        assert_eq!(file.read().unwrap().as_deref(), Some("newer"));
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn child_that_dies_before_the_rename() {
        let Some(home) = std::env::var_os("DYING_HOME") else { return };
        let file = file_in(Path::new(&home));
        let locked = file.lock(|| false).unwrap();
        let _prepared = locked.prepare("new").unwrap();
        std::process::abort();
    }
}
