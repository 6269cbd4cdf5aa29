//! The terminal below the line editor, where it is not one of Unix: see `terminal.rs`.
//!
//! Deliberately absent: setting aside what was typed early. Only whole words are answers, here as there.

use std::io;

pub fn typed_so_far() -> io::Result<String> {
    Ok(String::new())
}

/// The next line that is typed, without its end. None: the end of the input.
pub async fn line() -> io::Result<Option<String>> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        let length = io::stdin().read_line(&mut text)?;
        Ok((length > 0).then(|| text.trim_end_matches(['\n', '\r']).to_owned()))
    });
    reading.await.unwrap_or_else(|_| Err(io::Error::other("the input can no longer be read")))
}

pub fn keep_typing_at_interrupts() -> Option<()> {
    None
}
