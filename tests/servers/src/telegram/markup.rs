//! Formatted text as people see it, and what of it the server refuses.

use super::refused;
use serde_json::Value;
use std::collections::BTreeMap;

/// What people will see of a text, if its markup can be read.
pub(super) fn shown(parameters: &Value, field: &str) -> Result<String, (u16, String, Value)> {
    let text = parameters[field].as_str().unwrap_or_default();
    match parameters["parse_mode"].as_str() {
        Some("HTML") => html_shown(text),
        Some("MarkdownV2") => markdown_shown(text),
        _ => Ok(text.to_owned()),
    }
}

fn html_shown(text: &str) -> Result<String, (u16, String, Value)> {
    const TAGS: [&str; 15] = [
        "b",
        "strong",
        "i",
        "em",
        "u",
        "ins",
        "s",
        "strike",
        "del",
        "code",
        "pre",
        "a",
        "tg-spoiler",
        "blockquote",
        "span",
    ];
    let unreadable = |why: String| refused(400, &format!("Bad Request: can't parse entities: {why}"));
    let mut open: Vec<&str> = Vec::new();
    let mut shown = String::new();
    let mut rest = text;
    while let Some(place) = rest.find(['<', '&']) {
        shown.push_str(&rest[..place]);
        let offset = text.len() - rest.len() + place;
        if rest[place..].starts_with('&') {
            let known = [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"')];
            let entity = known.iter().find(|(entity, _)| rest[place..].starts_with(entity));
            shown.push(entity.map_or('&', |(_, c)| *c));
            rest = &rest[place + entity.map_or(1, |(entity, _)| entity.len())..];
            continue;
        }
        let Some(end) = rest[place..].find('>') else {
            return unreadable(format!("Unclosed start tag at byte offset {offset}"));
        };
        let tag = &rest[place + 1..place + end];
        rest = &rest[place + end + 1..];
        match tag.strip_prefix('/') {
            Some(name) if open.pop() == Some(name) => {}
            Some(name) => {
                return unreadable(format!("Unexpected end tag \"{name}\" at byte offset {offset}"));
            }
            None => {
                let name = tag.split(' ').next().unwrap_or_default();
                if !TAGS.contains(&name) {
                    return unreadable(format!("Unsupported start tag \"{name}\" at byte offset {offset}"));
                }
                open.push(name);
            }
        }
    }
    shown.push_str(rest);
    match open.last() {
        Some(name) => unreadable(format!("Can't find end tag corresponding to start tag \"{name}\"")),
        None => Ok(shown),
    }
}

/// Roughly: every mark has a partner, and what has no meaning is escaped.
fn markdown_shown(text: &str) -> Result<String, (u16, String, Value)> {
    let mut shown = String::new();
    let mut marks: BTreeMap<char, usize> = BTreeMap::new();
    let mut escaped = false;
    for c in text.chars() {
        match c {
            c if escaped => {
                shown.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '*' | '_' | '~' | '`' => *marks.entry(c).or_default() += 1,
            '.' | '!' | '-' | '+' | '=' | '{' | '}' | '#' => {
                return refused(
                    400,
                    &format!(
                        "Bad Request: can't parse entities: Character '{c}' is reserved and must be escaped with the preceding '\\'"
                    ),
                );
            }
            c => shown.push(c),
        }
    }
    match marks.iter().find(|(_, count)| *count % 2 == 1) {
        Some((mark, _)) => {
            refused(400, &format!("Bad Request: can't parse entities: Can't find end of the entity '{mark}'"))
        }
        None => Ok(shown),
    }
}
