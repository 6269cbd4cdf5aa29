//! How far long work is, for whoever waits: how much is done, how fast, and how much time is left.
//!
//! On standard error, and only where that is a terminal: a log or a pipe gets nothing. A line is written over the
//! one before it, at most ten times a second, and is gone when the work is over.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(100);
/// Work that is over before this shows nothing.
const PATIENCE: Duration = Duration::from_millis(700);

pub struct Progress {
    label: &'static str,
    total: u64,
    done: u64,
    began: Instant,
    shown: Option<Instant>,
    is_seen: bool,
}

impl Progress {
    pub fn new(label: &'static str, total: u64) -> Self {
        let is_seen = io::stderr().is_terminal();
        Self { label, total, done: 0, began: Instant::now(), shown: None, is_seen }
    }

    /// So much of it is done now.
    pub fn reach(&mut self, label: &'static str, done: u64, total: u64) {
        if self.label != label {
            (self.label, self.began) = (label, Instant::now());
        }
        (self.done, self.total) = (done, total);
        self.show();
    }

    fn show(&mut self) {
        let now = Instant::now();
        let early = now.duration_since(self.began) < PATIENCE;
        if !self.is_seen || early || self.shown.is_some_and(|shown| now.duration_since(shown) < EVERY) {
            return;
        }
        self.shown = Some(now);
        let line = line(self.label, self.done, self.total, now.duration_since(self.began));
        // Whoever cannot be shown how far it is still gets the result.
        let _ = write!(io::stderr(), "\r\x1b[2K{line}");
        let _ = io::stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
            let _ = io::stderr().flush();
        }
    }
}

/// `reading transcripts: 4200 of 10000, 1400 a second, 4 s left`
fn line(label: &str, done: u64, total: u64, took: Duration) -> String {
    if total <= 1 {
        return format!("{label} …");
    }
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    let left = match rate > 0.0 {
        true => format!(", {:.0} a second, {:.0} s left", rate, total.saturating_sub(done) as f64 / rate),
        false => String::new(),
    };
    format!("{label}: {done} of {total}{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_how_fast_and_how_long() {
        let shown = line("reading transcripts", 4_200, 10_000, Duration::from_secs(3));
        assert_eq!(shown, "reading transcripts: 4200 of 10000, 1400 a second, 4 s left");
        assert_eq!(line("checking the file", 0, 1, Duration::from_secs(3)), "checking the file …");
    }
}
