//! A home as a backup reads it: below one directory that is held open, and through no link.
//!
//! A backup lists a home first and reads it afterwards. In between an agent may put a link where a file or a
//! directory was. So every name on the way is opened from the directory above it, without following a link, and what
//! was opened is judged and read. A path that has become a link is refused, wherever it leads.
//!
//! Deliberately absent: what of a home is kept (`survey`). Links are kept as links, and read as such.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The home, held open.
pub struct Tree {
    /// Its path without links.
    home: PathBuf,
    #[cfg(unix)]
    top: File,
}

impl Tree {
    pub fn of(home: &Path) -> io::Result<Self> {
        let home = home.canonicalize()?;
        #[cfg(unix)]
        let top = unix::top(&home)?;
        Ok(Self {
            home,
            #[cfg(unix)]
            top,
        })
    }

    /// Where `path` lies, for what can only be opened by name. No link leads there, unless one is put there later.
    pub fn place(&self, path: &str) -> PathBuf {
        self.home.join(path)
    }

    /// A regular file that lies there itself.
    pub fn file(&self, path: &str) -> io::Result<File> {
        let file = self.open(path)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is no file any more; it was replaced during the backup")),
        }
    }

    #[cfg(unix)]
    fn open(&self, path: &str) -> io::Result<File> {
        unix::at(&self.top, path, unix::file)
    }

    #[cfg(unix)]
    pub fn is_directory(&self, path: &str) -> bool {
        unix::at(&self.top, path, unix::directory).is_ok()
    }

    /// Where a link leads.
    #[cfg(unix)]
    pub fn link(&self, path: &str) -> io::Result<OsString> {
        unix::at(&self.top, path, unix::link)
    }

    #[cfg(not(unix))]
    fn open(&self, path: &str) -> io::Result<File> {
        let place = self.place(path);
        match place.canonicalize()? == place {
            true => File::open(place),
            false => Err(io::Error::other("it was replaced by a link during the backup")),
        }
    }

    #[cfg(not(unix))]
    pub fn is_directory(&self, path: &str) -> bool {
        let place = self.place(path);
        place.canonicalize().is_ok_and(|real| real == place && real.is_dir())
    }

    #[cfg(not(unix))]
    pub fn link(&self, path: &str) -> io::Result<OsString> {
        std::fs::read_link(self.place(path)).map(PathBuf::into_os_string)
    }
}

#[cfg(unix)]
mod unix {
    use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
    use rustix::io::Errno;
    use std::ffi::OsString;
    use std::fs::File;
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStringExt as _;
    use std::path::Path;

    /// Does `last` with the last name of `path`, in the directory that the names before it lead to.
    pub fn at<T>(top: &File, path: &str, last: fn(&File, &Path) -> io::Result<T>) -> io::Result<T> {
        let (above, name) = path.rsplit_once('/').map_or((None, path), |(above, name)| (Some(above), name));
        let mut held = None;
        for part in above.into_iter().flat_map(|above| above.split('/')) {
            held = Some(directory(held.as_ref().unwrap_or(top), Path::new(part))?);
        }
        last(held.as_ref().unwrap_or(top), Path::new(name))
    }

    /// Does not wait: a FIFO would wait for its writer.
    pub fn file(above: &File, name: &Path) -> io::Result<File> {
        opened(above, name, OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    pub fn directory(above: &File, name: &Path) -> io::Result<File> {
        opened(above, name, OFlags::DIRECTORY)
    }

    /// The directory that all of it begins with.
    pub fn top(path: &Path) -> io::Result<File> {
        opened(CWD, path, OFlags::DIRECTORY)
    }

    pub fn link(above: &File, name: &Path) -> io::Result<OsString> {
        Ok(OsString::from_vec(readlinkat(above, name, Vec::new())?.into_bytes()))
    }

    fn opened(above: impl AsFd, name: &Path, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(above, name, flags, Mode::empty()) {
            Ok(file) => Ok(File::from(file)),
            // A link; or, where a directory was asked for, a link or something else.
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(io::Error::other("it was replaced by a link during the backup"))
            }
            Err(error) => Err(error.into()),
        }
    }
}
