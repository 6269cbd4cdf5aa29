//! When a line of output is worth a message, and when there were too many.
//!
//! One message per process and quarter of a minute; a window with more in it is a strike, and after
//! three in a row the process is watched no longer and reports its end instead. Above all processes
//! stands a breaker, so that many together do not flood a person. Times are handed in.

use super::output::first_chars;
use std::time::Duration;

/// Since some moment that the caller chose.
pub type WatchMoment = Duration;

pub const INTERVAL: Duration = Duration::from_secs(15);
pub const STRIKES_MAX: u32 = 3;

const GLOBAL_MAX: u32 = 15;
const GLOBAL_WINDOW: Duration = Duration::from_secs(10);
const GLOBAL_COOLDOWN: Duration = Duration::from_secs(30);

/// Longer lines are looked at in parts.
const LINE_MAX_BYTES: usize = 16 * 1024;

/// What a process's new output amounts to.
#[derive(Debug, PartialEq, Eq)]
pub enum WatchResult {
    Nothing,
    Match {
        pattern: String,
        output: String,
        suppressed: usize,
    },
    /// Too many: watched no longer.
    Disabled,
}

/// The watch over one process.
#[derive(Debug, Default)]
pub struct OutputWatch {
    pub patterns: Vec<String>,
    pub hits: usize,
    pub is_disabled: bool,
    suppressed: usize,
    cooldown_until: Option<WatchMoment>,
    has_struck: bool,
    strikes: u32,
    /// The line that has not ended, and whether it has matched already.
    line: String,
    line_matched: bool,
}

impl OutputWatch {
    pub fn over(patterns: Vec<String>) -> Self {
        Self { patterns, ..Self::default() }
    }

    pub fn is_on(&self) -> bool {
        !self.patterns.is_empty() && !self.is_disabled
    }

    pub fn see(&mut self, text: &str, now: WatchMoment) -> WatchResult {
        if !self.is_on() {
            return WatchResult::Nothing;
        }
        let (pattern, lines) = self.matches(text);
        let Some(pattern) = pattern else { return WatchResult::Nothing };
        if self.cooldown_until.is_some_and(|until| now < until) {
            self.suppressed += lines.len();
            return self.strike();
        }
        if self.cooldown_until.is_some() && !self.has_struck {
            self.strikes = 0;
        }
        self.has_struck = false;
        self.cooldown_until = Some(now + INTERVAL);
        self.hits += 1;
        let mut output = lines.into_iter().take(20).collect::<Vec<_>>().join("\n");
        if output.chars().count() > 2000 {
            output = format!("{}\n...(truncated)", first_chars(&output, 2000));
        }
        WatchResult::Match { pattern, output, suppressed: std::mem::take(&mut self.suppressed) }
    }

    /// One per window, however many matches it drops.
    fn strike(&mut self) -> WatchResult {
        if std::mem::replace(&mut self.has_struck, true) {
            return WatchResult::Nothing;
        }
        self.strikes += 1;
        if self.strikes < STRIKES_MAX {
            return WatchResult::Nothing;
        }
        self.is_disabled = true;
        WatchResult::Disabled
    }

    /// A line matches once, even if it comes in parts.
    fn matches(&mut self, text: &str) -> (Option<String>, Vec<String>) {
        let (mut pattern, mut lines) = (None, Vec::new());
        for part in text.split_inclusive(['\n', '\r']) {
            let has_ended = part.ends_with(['\n', '\r']);
            self.line.push_str(part.trim_end_matches(['\n', '\r']));
            if !self.line_matched
                && let Some(found) = self.patterns.iter().find(|pattern| self.line.contains(pattern.as_str()))
            {
                pattern.get_or_insert_with(|| found.clone());
                lines.push(self.line.trim_end().to_owned());
                self.line_matched = true;
            }
            if has_ended || self.line.len() > LINE_MAX_BYTES {
                self.line.clear();
                self.line_matched = false;
            }
        }
        (pattern, lines)
    }
}

/// What the breaker lets through, and what it has to say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Admission {
    pub is_admitted: bool,
    pub remark: Option<String>,
}

/// The breaker above all processes.
#[derive(Debug, Default)]
pub struct NoticeBreaker {
    window_start: WatchMoment,
    hits: u32,
    tripped_until: Option<WatchMoment>,
    suppressed: usize,
}

impl NoticeBreaker {
    pub fn admit(&mut self, now: WatchMoment) -> Admission {
        if self.tripped_until.is_some_and(|until| now < until) {
            self.suppressed += 1;
            return Admission::default();
        }
        let mut remark = None;
        if self.tripped_until.take().is_some() {
            let suppressed = std::mem::take(&mut self.suppressed);
            (self.window_start, self.hits) = (now, 0);
            remark = Some(format!(
                "Watch-pattern notifications resumed. {suppressed} match event(s) were suppressed during the flood."
            ));
        }
        if now.saturating_sub(self.window_start) >= GLOBAL_WINDOW {
            (self.window_start, self.hits) = (now, 0);
        }
        if self.hits < GLOBAL_MAX {
            self.hits += 1;
            return Admission { is_admitted: true, remark };
        }
        self.tripped_until = Some(now + GLOBAL_COOLDOWN);
        self.suppressed += 1;
        let remark = format!(
            "Watch-pattern overflow: >{GLOBAL_MAX} notifications in {}s across all processes. \
             Suppressing further watch_match events for {}s.",
            GLOBAL_WINDOW.as_secs(),
            GLOBAL_COOLDOWN.as_secs()
        );
        Admission { is_admitted: false, remark: Some(remark) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> WatchMoment {
        Duration::from_secs(1_000 + seconds)
    }

    #[test]
    fn one_match_per_window_and_three_full_windows_end_the_watch() {
        let mut watch = OutputWatch::over(vec!["ERR".into()]);
        let hit =
            |suppressed| WatchResult::Match { pattern: "ERR".into(), output: "ERR x".into(), suppressed };
        for (second, expected) in [
            (0, hit(0)),
            (1, WatchResult::Nothing), // strike one
            (2, WatchResult::Nothing), // the same window
            (15, hit(2)),
            (16, WatchResult::Nothing), // two
            (30, hit(1)),
            (31, WatchResult::Disabled), // three
            (60, WatchResult::Nothing),
        ] {
            assert_eq!(watch.see("ERR x\n", at(second)), expected, "second {second}");
        }
    }

    #[test]
    fn a_quiet_window_forgives() {
        let mut watch = OutputWatch::over(vec!["ERR".into()]);
        for second in [0, 1, 15, 16, 30, 60, 61, 75, 76] {
            assert_ne!(watch.see("ERR\n", at(second)), WatchResult::Disabled, "second {second}");
        }
        watch.see("ERR\n", at(90));
        assert_eq!(watch.see("ERR\n", at(91)), WatchResult::Disabled);
    }

    #[test]
    fn a_line_in_parts_matches_once() {
        let mut watch = OutputWatch::over(vec!["ready".into()]);
        assert_eq!(watch.see("server re", at(0)), WatchResult::Nothing);
        assert!(matches!(watch.see("ady on", at(1)), WatchResult::Match { .. }));
        assert_eq!(watch.see(" port 80\n", at(100)), WatchResult::Nothing);
    }

    #[test]
    fn many_processes_together_trip_the_breaker_once() {
        let mut breaker = NoticeBreaker::default();
        let admitted = (0..20).filter(|_| breaker.admit(at(0)).is_admitted).count();
        assert_eq!(admitted, 15);
        let resumed = breaker.admit(at(31));
        assert!(
            resumed.is_admitted && resumed.remark.is_some_and(|remark| remark.contains("5 match event(s)"))
        );
    }
}
