//! How far a long piece of work is: one line on standard error, with rate and time left.
//!
//! Nothing is written where standard error is no terminal, and the line is gone when the work is over: a log or a pipe
//! never sees it. The line is about the work, not part of what was asked for.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// A line that changes more often cannot be read.
const PAUSE: Duration = Duration::from_millis(200);
/// A rate over less than this is a guess.
const RATE_AFTER: Duration = Duration::from_millis(800);

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgressUnit {
    Bytes,
    Things,
    /// Of patience: they pass at a rate that everybody knows.
    Seconds,
}

pub struct Progress {
    label: String,
    unit: ProgressUnit,
    done: u64,
    total: u64,
    began: Instant,
    /// When the line last changed. None: it was never shown.
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    /// Of `total` things; 0 if the number is unknown.
    pub fn new(label: &str, total: u64) -> Self {
        Self::of(label, ProgressUnit::Things, total)
    }

    pub fn bytes(label: &str, total: u64) -> Self {
        Self::of(label, ProgressUnit::Bytes, total)
    }

    /// Of waiting: how long it has been, and how long it may be.
    pub fn seconds(label: &str) -> Self {
        Self::of(label, ProgressUnit::Seconds, 0)
    }

    fn of(label: &str, unit: ProgressUnit, total: u64) -> Self {
        Self {
            label: label.to_owned(),
            unit,
            done: 0,
            total,
            began: Instant::now(),
            shown: None,
            is_terminal: io::stderr().is_terminal(),
        }
    }

    pub fn advance(&mut self, by: u64) {
        self.stands_at(self.done + by, self.total);
    }

    /// The same of work that comes in several parts: a new one begins anew.
    pub fn reach(&mut self, label: &str, done: u64, total: u64) {
        if self.label != label {
            (self.label, self.began) = (label.to_owned(), Instant::now());
        }
        self.stands_at(done, total);
    }

    pub fn stands_at(&mut self, done: u64, total: u64) {
        (self.done, self.total) = (done, total);
        self.draw(|shown| line(&shown.label, shown.unit, (done, total), shown.began.elapsed()));
    }

    /// The work goes on, and cannot say how far it is: how long it has been is told instead.
    pub fn beats(&mut self) {
        self.draw(|shown| match shown.total {
            0 | 1 => format!("{}  {} s", shown.label, shown.began.elapsed().as_secs()),
            total => line(&shown.label, shown.unit, (shown.done, total), shown.began.elapsed()),
        });
    }

    fn draw(&mut self, line: impl FnOnce(&Self) -> String) {
        if !self.is_terminal || self.shown.unwrap_or(self.began).elapsed() < PAUSE {
            return;
        }
        self.shown = Some(Instant::now());
        let line = line(self);
        let mut terminal = io::stderr().lock();
        let _ = write!(terminal, "\r\x1b[2K{line}").and_then(|()| terminal.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let mut terminal = io::stderr().lock();
            let _ = write!(terminal, "\r\x1b[2K").and_then(|()| terminal.flush());
        }
    }
}

/// `copy state.db  34 %  120 of 350 MB  48 MB/s  5 s left`
fn line(label: &str, unit: ProgressUnit, (done, total): (u64, u64), elapsed: Duration) -> String {
    let amount = |n: u64| match unit {
        ProgressUnit::Bytes => size(n),
        ProgressUnit::Things | ProgressUnit::Seconds => n.to_string(),
    };
    let mut line = label.to_owned();
    if unit == ProgressUnit::Seconds {
        return format!("{line}  {done} s of {total} s at most; Ctrl-C stops here, and --undo goes back");
    }
    match total {
        0 => line += &format!("  {}", amount(done)),
        _ => {
            let percent = done.min(total) as u128 * 100 / u128::from(total);
            line += &format!("  {percent} %  {} of {}", amount(done), amount(total));
        }
    }
    if elapsed >= RATE_AFTER && done > 0 {
        let rate = done as f64 / elapsed.as_secs_f64();
        line += &format!("  {}/s", amount(rate as u64));
        if total > done {
            line += &format!("  {} left", time((total - done) as f64 / rate));
        }
    }
    line
}

/// `512 B`, `1.4 KB`, `33 MB`
pub fn size(bytes: u64) -> String {
    let mut number = bytes as f64;
    for unit in ["B", "KB", "MB", "GB"] {
        match number {
            _ if unit == "B" && number < 1_000.0 => return format!("{bytes} B"),
            small if unit != "B" && small < 10.0 => return format!("{small:.1} {unit}"),
            small if small < 1_000.0 => return format!("{small:.0} {unit}"),
            _ => number /= 1_000.0,
        }
    }
    format!("{number:.1} TB")
}

fn time(seconds: f64) -> String {
    match seconds.ceil() as u64 {
        short @ 0..60 => format!("{short} s"),
        middling @ 60..3_600 => format!("{} min {} s", middling / 60, middling % 60),
        long => format!("{} h {} min", long / 3_600, long % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_how_fast_and_how_long() {
        let at =
            |done, total, ms| line("copy", ProgressUnit::Bytes, (done, total), Duration::from_millis(ms));
        assert_eq!(at(0, 350_000_000, 0), "copy  0 %  0 B of 350 MB");
        assert_eq!(at(100_000_000, 350_000_000, 500), "copy  28 %  100 MB of 350 MB", "too early for a rate");
        let soon = at(100_000_000, 350_000_000, 2_000);
        assert_eq!(soon, "copy  28 %  100 MB of 350 MB  50 MB/s  5 s left");
        assert_eq!(at(350_000_000, 350_000_000, 7_000), "copy  100 %  350 MB of 350 MB  50 MB/s");
        let things = line("sessions", ProgressUnit::Things, (50, 10_000), Duration::from_secs(10));
        assert_eq!(things, "sessions  0 %  50 of 10000  5/s  33 min 10 s left");
        assert_eq!(line("lines", ProgressUnit::Things, (7, 0), Duration::ZERO), "lines  7");
        let waiting = line("waiting", ProgressUnit::Seconds, (3, 120), Duration::from_secs(3));
        assert!(waiting.starts_with("waiting  3 s of 120 s at most"), "{waiting}");
    }
}
