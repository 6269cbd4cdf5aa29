//! Local time without a zone, as `sessions.json` writes it: `2025-11-15T21:18:03.120456`.
//!
//! Hermes compares these with its own naive clock, so a writer must keep the convention. Which
//! instant one means depends on a zone, which is always an argument.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::fmt;
use std::str::FromStr;
use throughline_core::Time;

/// To the microsecond, like Python's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalTime(DateTime);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a local time like 2025-11-15T21:18:03")]
pub struct NotALocalTime(String);

impl LocalTime {
    pub fn of(time: Time, zone: &TimeZone) -> Self {
        Self(civil(time, zone))
    }

    /// Python's choice where the clocks change: the first of two, and past the gap for none.
    pub fn at(self, zone: &TimeZone) -> Time {
        let instant = zone.to_ambiguous_zoned(self.0).compatible();
        Time(instant.map_or(0, |zoned| zoned.timestamp().as_microsecond()))
    }
}

/// The zone that this machine, and so a Hermes beside us, goes by.
pub fn system_zone() -> TimeZone {
    TimeZone::system()
}

/// When the clock on the wall last struck this hour, at `time` or before. Python's choice where the
/// clocks change.
pub fn last_struck(time: Time, hour: u8, zone: &TimeZone) -> Time {
    let wall = civil(time, zone);
    let today = wall.date();
    let day = match wall.hour() < i8::try_from(hour).unwrap_or(0) {
        true => today.yesterday().unwrap_or(today),
        false => today,
    };
    LocalTime(day.at(i8::try_from(hour).unwrap_or(0).clamp(0, 23), 0, 0, 0)).at(zone)
}

/// What the clock on the wall shows. Times that no calendar here has are taken for its ends.
pub(crate) fn civil(time: Time, zone: &TimeZone) -> DateTime {
    let end = if time.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
    zone.to_datetime(Timestamp::from_microsecond(time.0).unwrap_or(end))
}

impl FromStr for LocalTime {
    type Err = NotALocalTime;

    fn from_str(text: &str) -> Result<Self, NotALocalTime> {
        let invalid = || NotALocalTime(text.to_owned());
        // With an offset it would be an instant, which Hermes could not compare with its own.
        if text.get(10..).is_some_and(|clock| clock.contains(['+', '-', 'Z', 'z', '['])) {
            return Err(invalid());
        }
        let read: DateTime = text.parse().map_err(|_| invalid())?;
        let micros = read.subsec_nanosecond() / 1_000 * 1_000;
        read.with().subsec_nanosecond(micros).build().map(Self).map_err(|_| invalid())
    }
}

impl fmt::Display for LocalTime {
    /// Python's `isoformat`: six digits of a second, or none.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%S"))?;
        match self.0.subsec_nanosecond() / 1_000 {
            0 => Ok(()),
            micros => write!(formatter, ".{micros:06}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn berlin() -> TimeZone {
        // Central European time, spelled out so that no test depends on the machine's files.
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    #[test]
    fn local_times_are_written_as_python_writes_them() {
        for (text, again) in [
            ("2025-11-15T21:17:00", Some("2025-11-15T21:17:00")),
            ("2025-11-15T21:18:03.120456", Some("2025-11-15T21:18:03.120456")),
            ("2025-11-15T21:18:03.000005", Some("2025-11-15T21:18:03.000005")),
            ("2025-11-15 21:18:03.5", Some("2025-11-15T21:18:03.500000")),
            ("2025-11-15T21:18:03.123456789", Some("2025-11-15T21:18:03.123456")),
            ("2025-11-15T21:18", Some("2025-11-15T21:18:00")),
            ("2025-11-15", Some("2025-11-15T00:00:00")),
            ("2025-11-15T21:18:03Z", None),
            ("2025-11-15T21:18:03+01:00", None),
            ("2025-11-15T21:18:03-01:00", None),
            ("2025-02-30T21:18:03", None),
            ("soon", None),
            ("", None),
        ] {
            let read = text.parse::<LocalTime>().ok().map(|time| time.to_string());
            assert_eq!(read.as_deref(), again, "{text:?}");
        }
    }

    #[test]
    fn a_zone_makes_an_instant_of_it() {
        for (text, seconds) in [
            ("2025-11-15T21:17:00", 1_763_237_820),
            ("2025-07-15T21:17:00", 1_752_607_020),
            ("2025-10-26T02:30:00", 1_761_438_600), // shown twice: the first
            ("2025-03-30T02:30:00", 1_743_298_200), // never shown: past the gap
        ] {
            let local: LocalTime = text.parse().unwrap();
            assert_eq!(local.at(&berlin()), Time(seconds * 1_000_000), "{text}");
        }
        assert_eq!(
            LocalTime::of(Time(1_752_607_020_000_001), &berlin()).to_string(),
            "2025-07-15T21:17:00.000001"
        );
        assert_eq!(LocalTime::of(Time(0), &TimeZone::UTC).to_string(), "1970-01-01T00:00:00");
        let far = LocalTime::of(Time(i64::MAX), &TimeZone::UTC).to_string();
        assert!(far.starts_with("9999-12-"), "{far}");
    }

    #[test]
    fn an_hour_struck_today_or_yesterday() {
        let at = |text: &str| text.parse::<LocalTime>().unwrap().at(&berlin());
        for (now, hour, struck) in [
            ("2025-11-15T03:59:59", 4, "2025-11-14T04:00:00"),
            ("2025-11-15T04:00:00", 4, "2025-11-15T04:00:00"),
            ("2025-11-15T23:00:00", 0, "2025-11-15T00:00:00"),
            ("2025-11-01T00:30:00", 23, "2025-10-31T23:00:00"),
            ("2025-03-30T12:00:00", 2, "2025-03-30T02:00:00"), // an hour that was left out
            ("2025-10-26T12:00:00", 2, "2025-10-26T02:00:00"), // one that came twice: the first
        ] {
            assert_eq!(last_struck(at(now), hour, &berlin()), at(struck), "{now}");
        }
    }

    proptest! {
        #[test]
        fn in_a_zone_without_summer_nothing_is_lost(micros in -62_000_000_000_000_000i64..200_000_000_000_000_000) {
            let zone = TimeZone::posix("JST-9").unwrap();
            let local = LocalTime::of(Time(micros), &zone);
            prop_assert_eq!(local.to_string().parse::<LocalTime>().unwrap(), local);
            prop_assert_eq!(local.at(&zone), Time(micros));
        }
    }
}
