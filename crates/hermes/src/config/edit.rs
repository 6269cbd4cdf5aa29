//! Changes one key of a `config.yaml` and leaves every other character where it was.
//!
//! The text is spliced, never written anew, so comments, order, quotes and unknown keys
//! stay. Every change is read back before it is handed out: a text that would mean anything but
//! the old settings with this one key changed is refused instead.
//!
//! Lists only grow, by [`append`]. Deliberately absent: taking entries out of a list, and replacing a
//! whole mapping. People do that with an editor.

use super::scalar;
use super::tree::{self, Malformed, Node, Style, Value, YamlEntry};
use std::ops::Range;

/// What can be written for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar<'a> {
    Text(&'a str),
    Integer(i64),
    Bool(bool),
    /// Where no list was.
    List(&'a [&'a str]),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// Correct the file first.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// `a.b` cannot be set where `a` is a word.
    #[error("`{key}` holds {kind}; change it with an editor")]
    Occupied { key: String, kind: &'static str },
    /// The text around the key leaves no safe place for the change.
    #[error("`{key}` cannot be changed here without touching its surroundings; change it with an editor")]
    Entangled { key: String },
}

/// `text` with `key` (dotted) set to `value`.
pub fn set(text: &str, key: &str, value: Scalar<'_>) -> Result<String, EditError> {
    let root = tree::parse(text)?.root;
    let path: Vec<&str> = key.split('.').collect();
    let splice = find_place(text, &root, &path, value)?;
    let mut expected = root;
    write_into(&mut expected, &path, value);
    checked(text, splice, &expected).ok_or_else(|| EditError::Entangled { key: key.to_owned() })
}

/// `text` without `key` (dotted). Unchanged if the key is not there.
pub fn unset(text: &str, key: &str) -> Result<String, EditError> {
    let root = tree::parse(text)?.root;
    let path: Vec<&str> = key.split('.').collect();
    let Some((parent, entry)) = find_entry(&root, &path) else { return Ok(text.to_owned()) };
    let entangled = || EditError::Entangled { key: key.to_owned() };
    let range = match parent.written.style {
        Style::Flow => flow_entry(text, entry),
        _ => block_entry(text, entry).ok_or_else(entangled)?,
    };
    let mut expected = root.clone();
    remove_from(&mut expected, &path);
    checked(text, Splice { range, with: String::new() }, &expected).ok_or_else(entangled)
}

/// `text` with `entries` at the end of the list at `key` (dotted), which need not exist yet. An entry
/// that is in it already is not written again.
pub fn append(text: &str, key: &str, entries: &[&str]) -> Result<String, EditError> {
    let root = tree::parse(text)?.root;
    let path: Vec<&str> = key.split('.').collect();
    let list = find_entry(&root, &path).map(|(_, entry)| &entry.node);
    let known = |entry: &str| match list.map(|node| &node.value) {
        Some(Value::List(items)) => items.iter().any(|item| item.value == Value::Text(entry.to_owned())),
        _ => false,
    };
    let mut new: Vec<&str> = Vec::new();
    for entry in entries.iter().copied().filter(|entry| !known(entry)) {
        if !new.contains(&entry) {
            new.push(entry);
        }
    }
    if new.is_empty() {
        return Ok(text.to_owned());
    }
    let (node, items) = match list.map(|node| (node, &node.value)) {
        Some((node, Value::List(items))) => (node, items),
        Some((_, Value::Null)) | None => return set(text, key, Scalar::List(&new)),
        Some((_, other)) => return Err(occupied(&path, other)),
    };
    let entangled = || EditError::Entangled { key: key.to_owned() };
    let splice = lengthen(text, node, items, &new).ok_or_else(entangled)?;
    let mut expected = root.clone();
    lengthen_in(&mut expected, &path, &new);
    checked(text, splice, &expected).ok_or_else(entangled)
}

struct Splice {
    range: Range<usize>,
    with: String,
}

fn checked(text: &str, splice: Splice, expected: &Node) -> Option<String> {
    let Splice { range, with } = splice;
    let spliced = format!("{}{with}{}", text.get(..range.start)?, text.get(range.end..)?);
    let read = tree::parse(&spliced).ok()?;
    same(&read.root, expected).then_some(spliced)
}

// ------------------------------------------------------------------------------------ in the text

fn find_place(text: &str, root: &Node, path: &[&str], value: Scalar<'_>) -> Result<Splice, EditError> {
    let mut node = root;
    let mut depth = 0;
    loop {
        let Some(entry) = literal(node, path[depth]) else {
            return insert(text, node, path, depth, value);
        };
        depth += 1;
        if depth == path.len() {
            return replace(text, entry, path, value);
        }
        match &entry.node.value {
            Value::Map(_) => node = &entry.node,
            Value::Null => return Ok(fill(text, node, entry, &path[depth..], value)),
            other => return Err(occupied(&path[..depth], other)),
        }
    }
}

fn replace(text: &str, entry: &YamlEntry, path: &[&str], value: Scalar<'_>) -> Result<Splice, EditError> {
    let written = &entry.node.written;
    match (&entry.node.value, written.style) {
        (value @ (Value::Map(_) | Value::List(_)), Style::Block | Style::Flow) => Err(occupied(path, value)),
        (_, Style::BlockScalar) => {
            let start = after_colon(text, entry);
            Ok(Splice { range: start..end_of(text, &entry.node), with: format!(" {}\n", render(value)) })
        }
        // `key:` with nothing behind it. Where that nothing is, parsers do not agree.
        _ if written.span.is_empty() => {
            let at = after_colon(text, entry);
            Ok(Splice { range: at..at, with: format!(" {}", render(value)) })
        }
        _ => Ok(Splice { range: written.span.clone(), with: render(value) }),
    }
}

/// A mapping where there was nothing: below the key in a block, in braces elsewhere.
fn fill(text: &str, parent: &Node, entry: &YamlEntry, missing: &[&str], value: Scalar<'_>) -> Splice {
    let span = entry.node.written.span.clone();
    if !span.is_empty() || parent.written.style == Style::Flow {
        let space = if span.is_empty() { " " } else { "" };
        return Splice { range: span, with: format!("{space}{}", in_braces(missing, value)) };
    }
    let at = next_line(text, span.end);
    let lines = in_lines(missing, value, entry.place.column + 1);
    Splice { range: at..at, with: on_its_own_lines(text, at, lines) }
}

fn insert(
    text: &str,
    node: &Node,
    path: &[&str],
    depth: usize,
    value: Scalar<'_>,
) -> Result<Splice, EditError> {
    let missing = &path[depth..];
    if node.written.style == Style::Flow {
        let at = node.written.span.end - 1;
        let before = text[..at].trim_end();
        let separator = match before.chars().next_back() {
            Some('{') => "",
            Some(',') => " ",
            _ => ", ",
        };
        let entry = in_braces(missing, value);
        // Without its own braces: it joins those that are there.
        let entry = &entry[1..entry.len() - 1];
        return Ok(Splice { range: before.len()..before.len(), with: format!("{separator}{entry}") });
    }
    let literals: Vec<_> = node.entries().iter().filter(|entry| !entry.merged).collect();
    let (Some(first), Some(last)) = (literals.first(), literals.last()) else {
        return match depth {
            // An empty file, or one with nothing but comments.
            0 => Ok(Splice {
                range: text.len()..text.len(),
                with: on_its_own_lines(text, text.len(), in_lines(missing, value, 0)),
            }),
            _ => Err(EditError::Entangled { key: path.join(".") }),
        };
    };
    let end = end_of(text, &last.node);
    let at = match text[..end].ends_with('\n') {
        true => end,
        false => next_line(text, end),
    };
    let lines = in_lines(missing, value, first.place.column - 1);
    Ok(Splice { range: at..at, with: on_its_own_lines(text, at, lines) })
}

/// New entries behind the last one, written as the others are. None: the list stands elsewhere.
fn lengthen(text: &str, list: &Node, items: &[Node], new: &[&str]) -> Option<Splice> {
    let new: Vec<String> = new.iter().map(|entry| render(Scalar::Text(entry))).collect();
    match (list.written.style, items.last()) {
        (Style::Flow, None) => {
            let at = list.written.span.start + 1;
            Some(Splice { range: at..at, with: new.join(", ") })
        }
        (Style::Flow, Some(last)) => {
            let at = end_of(text, last);
            Some(Splice { range: at..at, with: format!(", {}", new.join(", ")) })
        }
        (Style::Block, Some(last)) => {
            let end = end_of(text, last);
            let at = if text[..end].ends_with('\n') { end } else { next_line(text, end) };
            let indent = dash_indent(text, items.first()?)?;
            let lines: String = new.iter().map(|entry| format!("{indent}- {entry}\n")).collect();
            Some(Splice { range: at..at, with: on_its_own_lines(text, at, lines) })
        }
        _ => None,
    }
}

/// What stands before the dash of an entry. None if the dash is on another line.
fn dash_indent<'t>(text: &'t str, item: &Node) -> Option<&'t str> {
    let start = item.written.span.start;
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line..start];
    let dash = before.trim_start_matches(' ').starts_with('-');
    dash.then(|| &before[..before.len() - before.trim_start_matches(' ').len()])
}

/// The lines of an entry in a block, from the start of its first to the start of the next.
fn block_entry(text: &str, entry: &YamlEntry) -> Option<Range<usize>> {
    let start = text[..entry.key_span.start].rfind('\n').map_or(0, |at| at + 1);
    let alone = text[start..entry.key_span.start].trim_start_matches('\u{feff}').trim().is_empty();
    let end = end_of(text, &entry.node);
    let end = match text[..end].ends_with('\n') && end > entry.key_span.end {
        true => end,
        false => next_line(text, end),
    };
    let start = start + if text[start..].starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    alone.then_some(start..end)
}

/// An entry between braces, with one of the commas around it.
fn flow_entry(text: &str, entry: &YamlEntry) -> Range<usize> {
    let mut range = entry.key_span.start..end_of(text, &entry.node);
    let rest = text[range.end..].trim_start();
    if let Some(after) = rest.strip_prefix(',') {
        range.end = text.len() - after.trim_start_matches(' ').len();
    } else if let Some(before) = text[..range.start].trim_end().strip_suffix(',') {
        range.start = before.len();
    }
    range
}

/// Where the text of a node ends. A block scalar owns its line ends, so there it is a line's start.
fn end_of(text: &str, node: &Node) -> usize {
    let span = &node.written.span;
    match (&node.value, node.written.style) {
        (_, Style::BlockScalar) => match text[..span.end].rfind('\n') {
            Some(at) if text[at + 1..span.end].trim().is_empty() => at + 1,
            _ => span.end,
        },
        (Value::Map(entries), Style::Block) => {
            let ends = entries.iter().filter(|entry| !entry.merged).map(|entry| end_of(text, &entry.node));
            ends.max().unwrap_or(span.end)
        }
        (Value::List(items), Style::Block) => {
            items.iter().map(|item| end_of(text, item)).max().unwrap_or(span.end)
        }
        _ => span.end,
    }
}

fn after_colon(text: &str, entry: &YamlEntry) -> usize {
    let end = entry.key_span.end;
    end + text[end..].find(':').map_or(0, |at| at + 1)
}

fn next_line(text: &str, from: usize) -> usize {
    text[from..].find('\n').map_or(text.len(), |at| from + at + 1)
}

/// Lines end here as they do in the rest of the file, and a last line without an end gets one first.
fn on_its_own_lines(text: &str, at: usize, lines: String) -> String {
    let lines = match at > 0 && !text[..at].ends_with('\n') && text[..at] != *"\u{feff}" {
        true => format!("\n{lines}"),
        false => lines,
    };
    match text.contains("\r\n") {
        true => lines.replace('\n', "\r\n"),
        false => lines,
    }
}

fn in_lines(missing: &[&str], value: Scalar<'_>, indent: usize) -> String {
    let mut out = String::new();
    for (depth, key) in missing.iter().enumerate() {
        out.push_str(&" ".repeat(indent + 2 * depth));
        out.push_str(&render(Scalar::Text(key)));
        out.push(':');
        if depth + 1 == missing.len() {
            out.push(' ');
            out.push_str(&render(value));
        }
        out.push('\n');
    }
    out
}

fn in_braces(missing: &[&str], value: Scalar<'_>) -> String {
    missing
        .iter()
        .rev()
        .fold(render(value), |inner, key| format!("{{{}: {inner}}}", render(Scalar::Text(key))))
}

fn render(value: Scalar<'_>) -> String {
    match value {
        Scalar::Integer(number) => number.to_string(),
        Scalar::Bool(value) => value.to_string(),
        Scalar::Text(text) if is_plain(text) => text.to_owned(),
        Scalar::Text(text) => quoted(text),
        Scalar::List(items) => {
            let items: Vec<String> = items.iter().map(|item| render(Scalar::Text(item))).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// A word that needs no quotes, in a block or between braces, for any reader of YAML.
fn is_plain(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+');
    let word = text.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_'));
    word && text.chars().all(inner)
        && scalar::plain(text) == Value::Text(text.to_owned())
        && !is_number_elsewhere(text)
}

/// `1e3` and `0o17` are text to PyYAML and numbers to readers of YAML 1.2.
fn is_number_elsewhere(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && (text.parse::<f64>().is_ok() || text.starts_with("0o"))
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            '\u{2028}' | '\u{2029}' | '\u{feff}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

// ------------------------------------------------------------------------------------ in the tree

fn literal<'n>(node: &'n Node, key: &str) -> Option<&'n YamlEntry> {
    node.entry(key).filter(|entry| !entry.merged)
}

fn find_entry<'n>(root: &'n Node, path: &[&str]) -> Option<(&'n Node, &'n YamlEntry)> {
    let (last, parents) = path.split_last()?;
    let parent = parents.iter().try_fold(root, |node, key| literal(node, key).map(|entry| &entry.node))?;
    literal(parent, last).map(|entry| (parent, entry))
}

fn occupied(path: &[&str], value: &Value) -> EditError {
    EditError::Occupied { key: path.join("."), kind: value.kind() }
}

/// What the change means, independent of the text.
fn write_into(node: &mut Node, path: &[&str], value: Scalar<'_>) {
    let Some((key, rest)) = path.split_first() else {
        node.value = match value {
            Scalar::Text(text) => Value::Text(text.to_owned()),
            Scalar::Integer(number) => Value::Integer(number),
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::List(items) => Value::List(items.iter().map(|item| as_item(node, item)).collect()),
        };
        return;
    };
    if !matches!(node.value, Value::Map(_)) {
        node.value = Value::Map(Vec::new());
    }
    let (place, written) = (node.place, node.written.clone());
    let Value::Map(entries) = &mut node.value else { return };
    let index = entries.iter().position(|entry| entry.key == *key).unwrap_or_else(|| {
        let node = Node { value: Value::Null, place, written };
        entries.push(YamlEntry { key: (*key).to_owned(), place, node, merged: false, key_span: 0..0 });
        entries.len() - 1
    });
    // A merged mapping is not written into: the new key hides it.
    if entries[index].merged && !rest.is_empty() {
        entries[index].node.value = Value::Null;
    }
    write_into(&mut entries[index].node, rest, value);
}

fn lengthen_in(node: &mut Node, path: &[&str], new: &[&str]) {
    match (path.split_first(), &mut node.value) {
        (Some((key, rest)), Value::Map(entries)) => {
            let entries = entries.iter_mut().filter(|entry| entry.key == *key);
            entries.for_each(|entry| lengthen_in(&mut entry.node, rest, new));
        }
        (None, Value::List(_)) => {
            let added: Vec<Node> = new.iter().map(|item| as_item(node, item)).collect();
            if let Value::List(items) = &mut node.value {
                items.extend(added);
            }
        }
        _ => {}
    }
}

/// An entry of a list. Where it stands does not matter: it is only compared.
fn as_item(list: &Node, text: &str) -> Node {
    Node { value: Value::Text(text.to_owned()), place: list.place, written: list.written.clone() }
}

fn remove_from(node: &mut Node, path: &[&str]) {
    let (Some((key, rest)), Value::Map(entries)) = (path.split_first(), &mut node.value) else { return };
    match rest.is_empty() {
        true => entries.retain(|entry| entry.key != *key),
        false => entries
            .iter_mut()
            .filter(|entry| entry.key == *key)
            .for_each(|entry| remove_from(&mut entry.node, rest)),
    }
}

/// The same settings: the order of keys does not matter, and an empty mapping is nothing.
fn same(left: &Node, right: &Node) -> bool {
    let is_empty =
        |node: &Node| node.value == Value::Null || matches!(&node.value, Value::Map(map) if map.is_empty());
    match (&left.value, &right.value) {
        (Value::Map(one), Value::Map(other)) if !one.is_empty() && !other.is_empty() => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|entry| right.entry(&entry.key).is_some_and(|found| same(&entry.node, &found.node)))
        }
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Number(one), Value::Number(other)) => one == other || (one.is_nan() && other.is_nan()),
        _ => left.value == right.value || (is_empty(left) && is_empty(right)),
    }
}

#[cfg(test)]
mod tests;
