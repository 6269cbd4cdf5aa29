//! What an unquoted word means: PyYAML's rules, which are YAML 1.1's with some of its own.
//!
//! Hermes reads its files with PyYAML, so `off` is false, `017` is fifteen and `1:30` is ninety,
//! while `1e3` and `0o17` are text. Dates stay text here; PyYAML makes dates of them, which no
//! setting of Hermes wants. Integers beyond 64 bits become numbers with a fraction.

use super::tree::Value;

/// The value of a plain scalar. The order of attempts is PyYAML's.
pub(super) fn plain(text: &str) -> Value {
    if let Some(value) = boolean(text) {
        return Value::Bool(value);
    }
    if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Value::Null;
    }
    // Everything below begins with a sign, a digit or a dot.
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Value::Text(text.to_owned());
    }
    if let Some(value) = number(text) {
        return Value::Number(value);
    }
    integer(text).unwrap_or_else(|| Value::Text(text.to_owned()))
}

/// The value of a scalar that says its type itself (`!!int "8642"`). None: it does not fit.
pub(super) fn tagged(text: &str, tag: &str) -> Option<Value> {
    match tag {
        "str" | "binary" | "timestamp" => Some(Value::Text(text.to_owned())),
        "null" => Some(Value::Null),
        "bool" => boolean(text).map(Value::Bool),
        "int" => integer(text),
        "float" => number(text).or_else(|| text.parse().ok()).map(Value::Number),
        _ => None,
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn sign(text: &str) -> (f64, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    }
}

/// A number with a point in it: `1.5`, `.5e+3`, `1:30.5`, `-.inf`. An exponent needs its sign.
fn number(text: &str) -> Option<f64> {
    let (sign, rest) = sign(text);
    match rest {
        ".inf" | ".Inf" | ".INF" => return Some(sign * f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" if rest.len() == text.len() => return Some(f64::NAN),
        _ => {}
    }
    let (whole, fraction) = rest.split_once('.')?;
    let (places, exponent) = match fraction.find(['e', 'E']) {
        Some(at) => (&fraction[..at], Some(&fraction[at + 1..])),
        None => (fraction, None),
    };
    if !places.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return None;
    }
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['+', '-'])?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
    }
    if whole.contains(':') {
        let places = places.replace('_', "");
        return match exponent {
            Some(_) => None,
            None => Some(sign * (sexagesimal(whole, 0)? + format!("0.{places}0").parse::<f64>().ok()?)),
        };
    }
    let bare = whole.is_empty();
    // `.5` takes no sign and needs a digit right after the point.
    if bare && (rest.len() != text.len() || !places.starts_with(|c: char| c.is_ascii_digit())) {
        return None;
    }
    if !bare && !is_digits(whole) {
        return None;
    }
    let text: String = format!("0{rest}").chars().filter(|c| *c != '_').collect();
    text.parse::<f64>().ok().map(|value| sign * value)
}

fn integer(text: &str) -> Option<Value> {
    let (sign, rest) = sign(text);
    let digits = rest.replace('_', "");
    if let Some(binary) = rest.strip_prefix("0b") {
        return radix(sign, binary, 2);
    }
    if let Some(hexadecimal) = rest.strip_prefix("0x") {
        return radix(sign, hexadecimal, 16);
    }
    if rest == "0" {
        return Some(Value::Integer(0));
    }
    if let Some(octal) = rest.strip_prefix('0') {
        return radix(sign, octal, 8);
    }
    if rest.contains(':') {
        return sexagesimal(rest, 1).map(|value| whole(sign * value));
    }
    if !is_digits(rest) {
        return None;
    }
    Some(match digits.parse::<i64>() {
        Ok(value) => Value::Integer(if sign < 0.0 { -value } else { value }),
        Err(_) => Value::Number(sign * digits.parse::<f64>().ok()?),
    })
}

fn radix(sign: f64, text: &str, base: u32) -> Option<Value> {
    if text.is_empty() || !text.chars().all(|c| c == '_' || c.is_digit(base)) {
        return None;
    }
    let digits = text.replace('_', "");
    match digits.is_empty() {
        true if base == 8 => Some(Value::Integer(0)), // `0_`
        true => None,
        false => i64::from_str_radix(&digits, base)
            .ok()
            .map(|value| Value::Integer(if sign < 0.0 { -value } else { value })),
    }
}

/// `1:30` is a minute and a half. `first_min` is 1 where the first part may not begin with a zero.
fn sexagesimal(text: &str, first_min: u8) -> Option<f64> {
    let mut parts = text.split(':');
    let first = parts.next()?;
    if !is_digits(first) || (first_min == 1 && first.starts_with('0')) {
        return None;
    }
    let mut value = first.replace('_', "").parse::<f64>().ok()?;
    for part in parts {
        let digits = part.as_bytes();
        let fits = match digits {
            [one] => one.is_ascii_digit(),
            [tens, ones] => matches!(tens, b'0'..=b'5') && ones.is_ascii_digit(),
            _ => false,
        };
        if !fits {
            return None;
        }
        value = value * 60.0 + part.parse::<f64>().ok()?;
    }
    Some(value)
}

fn is_digits(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

fn whole(value: f64) -> Value {
    match value.abs() < 9e15 {
        true => Value::Integer(value as i64),
        false => Value::Number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p15_unquoted_words_mean_what_they_mean_to_hermes() {
        let text = |text: &str| Value::Text(text.to_owned());
        for (word, value) in [
            ("on", Value::Bool(true)),
            ("Off", Value::Bool(false)),
            ("YES", Value::Bool(true)),
            ("no", Value::Bool(false)),
            ("y", text("y")),
            ("oN", text("oN")),
            ("", Value::Null),
            ("~", Value::Null),
            ("NULL", Value::Null),
            ("nil", text("nil")),
            ("8642", Value::Integer(8642)),
            ("-7", Value::Integer(-7)),
            ("+7", Value::Integer(7)),
            ("1_000", Value::Integer(1000)),
            ("017", Value::Integer(15)),
            ("-017", Value::Integer(-15)),
            ("08", text("08")),
            ("0", Value::Integer(0)),
            ("0_", Value::Integer(0)),
            ("00", Value::Integer(0)),
            ("0o17", text("0o17")),
            ("0x1F", Value::Integer(31)),
            ("0b101", Value::Integer(5)),
            ("1:30", Value::Integer(90)),
            ("1:30:00", Value::Integer(5400)),
            ("-1:30", Value::Integer(-90)),
            ("1:60", text("1:60")),
            ("0:30", text("0:30")),
            ("0:30.5", Value::Number(30.5)),
            ("190:20:30.15", Value::Number(685_230.15)),
            ("1e3", text("1e3")),
            ("1.5e3", text("1.5e3")),
            ("1.5e+3", Value::Number(1500.0)),
            ("1.", Value::Number(1.0)),
            (".5", Value::Number(0.5)),
            ("-.5", text("-.5")),
            ("+.5", text("+.5")),
            ("0.50", Value::Number(0.5)),
            ("1_0.2_5", Value::Number(10.25)),
            (".", text(".")),
            ("-", text("-")),
            ("..", text("..")),
            ("1.2.3", text("1.2.3")),
            (".inf", Value::Number(f64::INFINITY)),
            ("-.INF", Value::Number(f64::NEG_INFINITY)),
            ("+.nan", text("+.nan")),
            ("127.0.0.1", text("127.0.0.1")),
            ("::1", text("::1")),
            ("2026-11-15", text("2026-11-15")),
            ("9223372036854775807", Value::Integer(i64::MAX)),
            ("9223372036854775808", Value::Number(9_223_372_036_854_775_808.0)),
        ] {
            assert!(plain(word) == value, "{word:?} is {:?}", plain(word));
        }
        assert!(matches!(plain(".nan"), Value::Number(value) if value.is_nan()));
    }

    #[test]
    fn a_type_that_is_written_out_must_fit() {
        for (word, tag, value) in [
            ("8642", "str", Some(Value::Text("8642".into()))),
            ("8642", "int", Some(Value::Integer(8642))),
            ("off", "bool", Some(Value::Bool(false))),
            ("2", "float", Some(Value::Number(2.0))),
            ("x", "int", None),
            ("x", "set", None),
        ] {
            assert!(tagged(word, tag) == value, "{word} {tag}");
        }
    }
}
