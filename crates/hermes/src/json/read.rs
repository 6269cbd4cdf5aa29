//! Reading JSON that Python wrote, which is a little more than JSON.

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// `text` as JSON that any parser accepts, or None where Python's would refuse it, too.
///
/// Python also writes `NaN`, `Infinity` and halves of surrogate pairs. The first become strings of
/// that name; the last become U+FFFD, as Hermes itself does before it sends or stores them. All
/// other text comes back as it is. Nesting deeper than 127 is refused.
pub fn read(text: &str) -> Option<Cow<'_, str>> {
    if is_json(text) {
        return Some(Cow::Borrowed(text));
    }
    let mended = mend(text);
    is_json(&mended).then_some(Cow::Owned(mended))
}

/// The members of an object in order, each value as it is written. None if it is no object.
pub fn members(text: &str) -> Option<Vec<(String, &str)>> {
    let members: JsonMembers<'_> = serde_json::from_str(text).ok()?;
    Some(members.0)
}

/// The items of a list, each as it is written. None if it is no list.
pub fn items(text: &str) -> Option<Vec<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

struct JsonMembers<'a>(Vec<(String, &'a str)>);

impl<'de> serde::Deserialize<'de> for JsonMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = JsonMembers<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    members.push((name, value.get()));
                }
                Ok(JsonMembers(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

fn mend(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '"' => mend_string(rest, &mut out),
            'N' | 'I' | '-' => mend_number(rest, &mut out),
            c => {
                out.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

/// Copies what stands at the start of `rest` and says how much that was.
fn mend_number(rest: &str, out: &mut String) -> usize {
    let Some(name) = ["NaN", "Infinity", "-Infinity"].into_iter().find(|name| rest.starts_with(name)) else {
        out.push_str(&rest[..1]); // ASCII, as the caller has seen
        return 1;
    };
    out.push('"');
    out.push_str(name);
    out.push('"');
    name.len()
}

fn mend_string(rest: &str, out: &mut String) -> usize {
    out.push('"');
    let mut at = 1;
    while let Some(c) = rest[at..].chars().next() {
        let tail = &rest[at..];
        let taken = match (c, unit(tail)) {
            ('"', _) => {
                out.push('"');
                return at + 1;
            }
            (_, Some(0xd800..0xdc00)) if matches!(unit(&tail[6..]), Some(0xdc00..0xe000)) => 12,
            (_, Some(0xd800..0xe000)) => {
                out.push_str("\\ufffd");
                at += 6;
                continue;
            }
            ('\\', None) => 1 + tail[1..].chars().next().map_or(0, char::len_utf8),
            (c, _) => c.len_utf8(),
        };
        out.push_str(&tail[..taken]);
        at += taken;
    }
    at
}

/// The code unit of an escape like `\ud83d` at the start of `text`.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}
