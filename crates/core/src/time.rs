//! A point in time, handed in by code that may read a clock.

use std::fmt;
use std::time::Duration;

/// Microseconds since the Unix epoch, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1e6).round() as i64)
    }

    /// As Hermes stores it: Unix seconds with a fraction.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    pub fn whole_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// `YYYYMMDDTHHMMSSffffffZ`, in UTC: sorts as it counts.
    pub fn compact(self) -> String {
        let (seconds, micros) = (self.whole_seconds(), self.0.rem_euclid(1_000_000));
        let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil_date(day);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}{micros:06}Z")
    }

    /// How long ago `earlier` was; zero if the clock went backwards in between.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Year, month and day of the so many-th day after the first of 1970, in the Gregorian calendar.
/// Years begin in March here, so that a leap day is the last of its year.
fn civil_date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468; // from the first of March of the year 0
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, date)
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:06}", self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compact_time_is_a_date_and_sorts_as_it_counts() {
        for (seconds, text) in [
            (0, "19700101T000000000000Z"),
            (951_782_400, "20000229T000000000000Z"),
            (1_709_164_799, "20240228T235959000000Z"),
            (1_709_164_800, "20240229T000000000000Z"),
            (1_779_960_910, "20260528T093510000000Z"),
            (4_107_542_400, "21000301T000000000000Z"),
            (-1, "19691231T235959000000Z"),
        ] {
            assert_eq!(Time(seconds * 1_000_000).compact(), text);
        }
        assert_eq!(Time(1_000_001).compact(), "19700101T000001000001Z");
    }
}
