//! The terminal itself, below the line editor: what was typed early, and answers to questions.
//!
//! - while the agent works the terminal is in its ordinary mode: it shows what is typed and keeps it
//! - [`typed_so_far`] takes all of that away, whole lines and the unfinished one, so that none of it
//!   can answer a question that was shown later
//! - [`line()`] reads one line in the ordinary mode. Nothing is read ahead: what follows the line stays
//!   in the terminal for the line editor
//! - [`keep_typing_at_interrupts`] makes Ctrl-C leave what was typed where it is
//!
//! Deliberately absent: prompts, and what a line means.

use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};
use tokio::net::unix::pipe::Receiver;

/// The kernel keeps 4 KiB of what is not read. More comes only from a program that writes all the time.
const EARLY_BYTES_MAX: usize = 64 << 10;
/// As much as the kernel takes as one line in its ordinary mode.
const LINE_BYTES_MAX: usize = 4096;

/// What was typed and is not read yet. Afterwards the terminal holds none of it.
pub fn typed_so_far() -> io::Result<String> {
    let stdin = io::stdin();
    let before = tcgetattr(stdin.as_fd())?;
    let mut waiting_for_nothing = before.clone();
    waiting_for_nothing.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    waiting_for_nothing.special_codes[SpecialCodeIndex::VMIN] = 0;
    waiting_for_nothing.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(stdin.as_fd(), OptionalActions::Now, &waiting_for_nothing)?;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let read = loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(stdin.as_fd(), &mut piece)) {
            Ok(length @ 1..) if bytes.len() < EARLY_BYTES_MAX => bytes.extend_from_slice(&piece[..length]),
            Ok(_) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    tcsetattr(stdin.as_fd(), OptionalActions::Now, &before)?;
    tcflush(stdin.as_fd(), QueueSelector::IFlush)?;
    read?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The next line that is typed, without its end. None: Ctrl-D. Dropping it loses nothing.
pub async fn line() -> io::Result<Option<String>> {
    let stdin: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    // Waited for as a pipe is, and read only when a line is there: the terminal is shared with the shell, so it must
    // not be made one that does not block.
    let stdin = Receiver::from_file_unchecked(File::from(stdin))?;
    stdin.readable().await?;
    let mut bytes = [0; LINE_BYTES_MAX];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(&stdin, &mut bytes))?;
    let text = String::from_utf8_lossy(&bytes[..length]);
    Ok((length > 0).then(|| text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// Without this, Ctrl-C throws away what was typed for the next message. The terminal is as before
/// when this is dropped. None: there is no terminal.
pub fn keep_typing_at_interrupts() -> Option<Restored> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return None;
    }
    let before = tcgetattr(stdin.as_fd()).ok()?;
    let mut keeping = before.clone();
    keeping.local_modes.insert(LocalModes::NOFLSH);
    tcsetattr(stdin.as_fd(), OptionalActions::Now, &keeping).ok()?;
    Some(Restored(before))
}

/// How the terminal was.
pub struct Restored(Termios);

impl Drop for Restored {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &self.0);
    }
}
