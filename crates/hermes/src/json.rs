//! JSON as Python writes it.
//!
//! Hermes stores what `json.dumps` gives: a space after each comma and colon, everything beyond
//! ASCII escaped, floats by their shortest repr. Text that is composed here has that form to the
//! byte. Text that came from elsewhere is never re-formatted: it travels as it is, because a
//! parser may round its numbers and a prompt must stay the same.

mod read;

pub use read::{items, members, read};

use serde_json::{Number, Value};
use std::fmt::Write as _;

/// `json.dumps(value)`: what every JSON column of Hermes' tables holds.
pub fn dumps(value: &Value) -> String {
    PythonJsonWriter { escape: escape_ascii, indent: None, enough: usize::MAX }.text(value)
}

/// `json.dumps(value, ensure_ascii=False)`: the form of Hermes' `.jsonl` transcripts.
pub fn dumps_unicode(value: &Value) -> String {
    PythonJsonWriter { escape: escape_unicode, indent: None, enough: usize::MAX }.text(value)
}

/// `json.dumps(value, indent=2)`: the form of `sessions.json`.
pub fn dumps_indented(value: &Value) -> String {
    PythonJsonWriter { escape: escape_ascii, indent: Some(2), enough: usize::MAX }.text(value)
}

/// The first `most` characters of [`dumps_indented`]. What is nested a hundred deep is indented to a hundred times its
/// size, so nothing is written beyond that.
pub fn dumps_indented_within(value: &Value, most: usize) -> String {
    let mut text = PythonJsonWriter { escape: escape_ascii, indent: Some(2), enough: most }.text(value);
    text.truncate(most); // all of it is ASCII
    text
}

/// `json.dumps(value, indent=2, ensure_ascii=False)`: the form of Hermes' pairing files.
pub fn dumps_indented_unicode(value: &Value) -> String {
    PythonJsonWriter { escape: escape_unicode, indent: Some(2), enough: usize::MAX }.text(value)
}

/// One string, as `json.dumps` writes it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_string(&mut out, text, escape_ascii);
    out
}

/// A float as Python's `repr` and `json.dumps` print it: `1.0`, `1e-05`, `1e+16`.
pub fn float(number: f64) -> String {
    if !number.is_finite() {
        let sign = if number < 0.0 { "-" } else { "" };
        return if number.is_nan() { "NaN".to_owned() } else { format!("{sign}Infinity") };
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` always writes an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` writes its exponent as an integer");
    if (-4..16).contains(&exponent) {
        let plain = number.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

struct PythonJsonWriter {
    escape: fn(&mut String, char),
    indent: Option<usize>,
    /// Nothing is begun behind so many bytes.
    enough: usize,
}

impl PythonJsonWriter {
    fn text(&self, value: &Value) -> String {
        let mut out = String::new();
        self.write(&mut out, value, 0);
        out
    }

    fn write(&self, out: &mut String, value: &Value, depth: usize) {
        match value {
            Value::Null => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Number(number) => out.push_str(&number_text(number)),
            Value::String(text) => write_string(out, text, self.escape),
            Value::Array(items) if items.is_empty() => out.push_str("[]"),
            Value::Object(members) if members.is_empty() => out.push_str("{}"),
            Value::Array(items) => {
                out.push('[');
                for (nth, item) in items.iter().enumerate() {
                    if out.len() >= self.enough {
                        return;
                    }
                    self.separate(out, nth, depth + 1);
                    self.write(out, item, depth + 1);
                }
                self.close(out, ']', depth);
            }
            Value::Object(members) => {
                out.push('{');
                for (nth, (name, member)) in members.iter().enumerate() {
                    if out.len() >= self.enough {
                        return;
                    }
                    self.separate(out, nth, depth + 1);
                    write_string(out, name, self.escape);
                    out.push_str(": ");
                    self.write(out, member, depth + 1);
                }
                self.close(out, '}', depth);
            }
        }
    }

    fn separate(&self, out: &mut String, nth: usize, depth: usize) {
        match (self.indent, nth) {
            (None, 0) => {}
            (None, _) => out.push_str(", "),
            (Some(width), nth) => {
                if nth > 0 {
                    out.push(',');
                }
                new_line(out, width * depth);
            }
        }
    }

    fn close(&self, out: &mut String, bracket: char, depth: usize) {
        if let Some(width) = self.indent {
            new_line(out, width * depth);
        }
        out.push(bracket);
    }
}

fn new_line(out: &mut String, spaces: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', spaces));
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => float(value),
        _ => number.to_string(),
    }
}

fn write_string(out: &mut String, text: &str, escape: fn(&mut String, char)) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c => escape(out, c),
        }
    }
    out.push('"');
}

fn escape_ascii(out: &mut String, c: char) {
    match c {
        ' '..='~' => out.push(c),
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("writing to a String cannot fail");
            }
        }
    }
}

fn escape_unicode(out: &mut String, c: char) {
    match c {
        '\0'..'\u{20}' => escape_ascii(out, c),
        c => out.push(c),
    }
}

#[cfg(test)]
mod tests;
