//! A terminal for programs that want one.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::Mutex;

/// Hermes' size.
const SIZE: Winsize = Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

/// A program that does not read must not hold up the one who writes.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// The keyboard of a terminal.
pub struct PtyInput(Mutex<Sender>);

/// A new terminal: its screen, its keyboard, and the side that becomes a program's own.
///
/// Screen and keyboard are one file that behaves like a pipe's ends, which is how they are read and
/// written. When the last program has gone, reading the screen fails.
pub fn open() -> io::Result<(Receiver, PtyInput, File)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    #[cfg(target_os = "linux")]
    let flags = flags | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?; // where it could not be asked for
    grantpt(&master)?;
    unlockpt(&master)?;
    tcsetwinsize(&master, SIZE)?;
    let name = ptsname(&master, Vec::new())?;
    // Not ours: opening it must not make it the terminal of this process.
    let flags = OpenptFlags::NOCTTY.bits() as i32;
    let path = OsStr::from_bytes(name.as_bytes());
    let slave = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    rustix::io::ioctl_fionbio(&master, true)?;
    let master = File::from(master);
    let keyboard = PtyInput(Mutex::new(Sender::from_file_unchecked(master.try_clone()?)?));
    Ok((Receiver::from_file_unchecked(master)?, keyboard, slave))
}

impl PtyInput {
    pub async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let writing = async { self.0.lock().await.write_all(bytes).await };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the process does not read its input");
        tokio::time::timeout(WRITE_PATIENCE, writing).await.map_err(late)?
    }
}
