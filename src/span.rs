//! Lengths of time and moments, as people give them to a command.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::str::FromStr;
use std::time::Duration;
use throughline_core::Time;

/// `90d`, `12h`, `2w`, `30m`, `10s`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no length of time: write 90d, 12h, 2w, 30m or 10s");
        let text = text.trim();
        let end = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(bad)?;
        let number: u64 = text[..end].parse().map_err(|_| bad())?;
        let seconds = match &text[end..] {
            "s" => 1,
            "m" | "min" => 60,
            "h" => 3_600,
            "d" => 86_400,
            "w" => 7 * 86_400,
            _ => return Err(bad()),
        };
        number.checked_mul(seconds).map(|seconds| Span(Duration::from_secs(seconds))).ok_or_else(bad)
    }
}

/// So long ago, or a date and perhaps a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    Ago(Duration),
    At(Time),
}

impl Since {
    pub fn before(self, now: Time) -> Time {
        match self {
            Since::Ago(span) => {
                Time(now.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
            }
            Since::At(time) => time,
        }
    }
}

impl FromStr for Since {
    type Err = String;

    /// A time without a zone is one on the clock on the wall.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(Span(span)) = text.parse() {
            return Ok(Since::Ago(span));
        }
        let here =
            |time: DateTime| time.to_zoned(TimeZone::system()).ok().map(|time: Zoned| time.timestamp());
        let at = text
            .parse::<Timestamp>()
            .ok()
            .or_else(|| text.parse::<DateTime>().ok().and_then(here))
            .or_else(|| text.parse::<Date>().ok().and_then(|day| here(day.at(0, 0, 0, 0))));
        at.map(|at| Since::At(Time(at.as_microsecond()))).ok_or_else(|| {
            format!(
                "{text:?} is neither a length of time (90d, 12h) nor a time (2026-05-28, 2026-05-28T09:35)"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_moments_are_read_as_people_write_them() {
        for (text, seconds) in
            [("90d", 7_776_000), ("12h", 43_200), ("2w", 1_209_600), ("30m", 1_800), ("0d", 0)]
        {
            assert_eq!(text.parse(), Ok(Span(Duration::from_secs(seconds))), "{text}");
        }
        for text in ["", "90", "d", "-3d", "3 years", "99999999999999999999d"] {
            assert!(text.parse::<Span>().unwrap_err().contains("is no length of time"), "{text}");
        }
        let now = Time(1_779_953_710_000_000);
        let since = |text: &str| text.parse::<Since>().map(|since| since.before(now));
        assert_eq!(since("1h"), Ok(Time(now.0 - 3_600_000_000)));
        assert_eq!(since("2026-05-28T07:35:10Z"), Ok(now));
        assert!(since("2026-05-28").is_ok() && since("2026-05-28T09:35").is_ok());
        assert!(since("yesterday").unwrap_err().contains("is neither a length of time"));
    }
}
