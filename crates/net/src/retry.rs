//! How long a server asks to be left alone.
//!
//! A date is read against the `Date` of the same answer, so that no clock of ours is asked and
//! two clocks that disagree do no harm.

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use std::time::Duration;

/// If a server asks for a longer wait, the next try comes after this all the same: a turn waits with a person behind it.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// None: it did not say.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let exact = text("retry-after-ms").and_then(|text| seconds(text, 1e-3));
    let wait = exact.or_else(|| {
        let text = text(RETRY_AFTER.as_str())?;
        seconds(text, 1.0).or_else(|| until(text, headers.get(DATE)?.to_str().ok()?))
    });
    wait.map(|wait| wait.min(RETRY_AFTER_MAX))
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
    Duration::try_from_secs_f64((number * unit).min(RETRY_AFTER_MAX.as_secs_f64())).ok()
}

fn until(then: &str, now: &str) -> Option<Duration> {
    let wait = date(then)?.saturating_sub(date(now)?);
    Some(Duration::from_secs(u64::try_from(wait).unwrap_or(0)))
}

/// Unix seconds of `Sun, 06 Nov 1994 08:49:37 GMT`. The two older forms are extinct.
fn date(text: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, rest) = text.split_once(", ")?;
    let mut fields = rest.split_ascii_whitespace();
    let day: i64 = fields.next()?.parse().ok()?;
    let name = fields.next().filter(|name| name.len() == 3)?;
    let place = MONTHS.find(name).filter(|place| place % 3 == 0)?;
    let month = i64::try_from(place / 3).ok()? + 1;
    let year: i64 = fields.next()?.parse().ok()?;
    let mut clock = fields.next()?.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let in_range = (1970..=9999).contains(&year) && (1..=31).contains(&day);
    let on_clock = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    (fields.next() == Some("GMT") && in_range && on_clock)
        .then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days since 1970-01-01 in the Gregorian calendar; years are counted from March, so that the
/// leap day comes last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    fn asked(headers: &[(&'static str, &'static str)]) -> Option<f64> {
        let pairs = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        retry_after(&pairs.collect()).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn seconds_and_dates_are_read_and_bounded() {
        let now = ("date", "Sun, 15 Nov 2026 20:59:50 GMT");
        for (headers, expected) in [
            (vec![("retry-after", "20")], Some(20.0)),
            (vec![("retry-after", " 1.5 ")], Some(1.5)),
            (vec![("retry-after-ms", "250"), ("retry-after", "1")], Some(0.25)),
            (vec![("retry-after", "99999999999999999999")], Some(3600.0)),
            (vec![("retry-after", "-3")], None),
            (vec![("retry-after", "NaN")], None),
            (vec![("retry-after", "soon")], None),
            (vec![now, ("retry-after", "Sun, 15 Nov 2026 21:00:20 GMT")], Some(30.0)),
            (vec![now, ("retry-after", "Sun, 15 Nov 2026 20:00:00 GMT")], Some(0.0)),
            (vec![now, ("retry-after", "Mon, 15 Nov 2027 20:00:00 GMT")], Some(3600.0)),
            (vec![("retry-after", "Sun, 15 Nov 2026 21:00:20 GMT")], None),
            (vec![now, ("retry-after", "Sun, 15 Nov 2026 21:00 GMT")], None),
            (vec![now, ("retry-after", "Sun, 15 ovD 2026 21:00:00 GMT")], None),
            (vec![], None),
        ] {
            assert_eq!(asked(&headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(date("Tue, 31 Dec 2024 23:59:59 GMT"), Some(1_735_689_599));
    }
}
