//! YAML as PyYAML reads it, with the place of everything that was written.
//!
//! - one document, a mapping at the top; an empty file is an empty mapping
//! - aliases are copies and merge keys (`<<`) are applied; what a file may grow to is bounded
//! - the last of two equal keys counts, as in Hermes, and is reported
//! - a key is its text: `1:` and `"1":` are one key here, two in PyYAML, and neither is read
//!
//! Values may be secrets: nothing here prints one. `Debug` tells kinds and lengths.

use super::scalar;
use serde_saphyr::granit_parser::{
    Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, StructureStyle, Tag, options,
};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

/// What a file may grow to when its aliases are followed: a hundred times Hermes' own defaults.
const NODES_MAX: usize = 100_000;

/// What anchors and aliases may copy of its text, in all.
const COPIED_BYTES_MAX: usize = 4 << 20;

/// How deep lists and mappings may lie in each other. They are read by recursion, and a stranger's skill may hold
/// any text: a deeper one would use up the stack, and with it end the process.
const DEPTH_MAX: usize = 128;

/// Where something was written, counted from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}", self.line, self.column)
    }
}

#[derive(Clone)]
pub struct Node {
    pub value: Value,
    pub place: Place,
    pub(super) written: WrittenNode,
}

#[derive(Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<YamlEntry>),
}

#[derive(Clone)]
pub struct YamlEntry {
    pub key: String,
    pub place: Place,
    pub node: Node,
    /// Came in by `<<`: its text is somewhere else.
    pub(super) merged: bool,
    pub(super) key_span: Range<usize>,
}

/// How a node stands in the text, for `edit`.
#[derive(Clone)]
pub(super) struct WrittenNode {
    /// In bytes. Of a block collection only the start is meant.
    pub span: Range<usize>,
    pub style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// On one line or several, but not by indentation: plain, quoted.
    Inline,
    /// By `|` or `>`.
    BlockScalar,
    Block,
    Flow,
}

/// Two nodes are equal if they mean the same, wherever they stand.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl PartialEq for YamlEntry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.node == other.node
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => formatter.write_str("null"),
            Value::Bool(value) => value.fmt(formatter),
            Value::Integer(_) | Value::Number(_) => formatter.write_str("a number"),
            Value::Text(text) => write!(formatter, "text of {} characters", text.chars().count()),
            Value::List(items) => write!(formatter, "a list of {}", items.len()),
            Value::Map(entries) => formatter.debug_list().entries(entries.iter().map(|e| &e.key)).finish(),
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} at {}", self.value, self.place)
    }
}

impl Value {
    /// What it is, for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Bool(_) => "a yes or no",
            Value::Integer(_) | Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

impl Node {
    pub fn entries(&self) -> &[YamlEntry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    pub fn entry(&self, key: &str) -> Option<&YamlEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The node at the end of a dotted path.
    pub fn get(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, key| node.entry(key).map(|entry| &entry.node))
    }
}

/// The text is no YAML, or none that PyYAML would load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Malformed {
    pub place: Place,
    pub message: String,
}

/// Something that a reader should know about a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub place: Place,
    pub text: String,
}

impl Notice {
    /// Whether both begin with what they are about, and that is the same key.
    pub(super) fn is_about_the_same(&self, other: &Notice) -> bool {
        let key =
            |notice: &Notice| notice.text.strip_prefix('`')?.split_once('`').map(|(key, _)| key.to_owned());
        key(self).is_some_and(|own| key(other) == Some(own))
    }
}

pub(super) struct YamlDocument {
    pub root: Node,
    pub notices: Vec<Notice>,
}

pub(super) fn parse(text: &str) -> Result<YamlDocument, Malformed> {
    // PyYAML and editors on Windows agree on this mark; it is no part of the first key.
    let skipped = text.len() - text.trim_start_matches('\u{feff}').len();
    let options = options! { emit_comments: false };
    let mut builder = Builder {
        parser: Parser::new_from_str_with_options(&text[skipped..], options),
        anchors: HashMap::new(),
        notices: Vec::new(),
        nodes: 0,
        copied: 0,
        depth: 0,
        skipped,
    };
    let root = builder.document()?;
    Ok(YamlDocument { root, notices: builder.notices })
}

struct Builder<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// None while the node is still being read: it cannot contain itself.
    anchors: HashMap<usize, Option<Node>>,
    notices: Vec<Notice>,
    nodes: usize,
    /// Bytes of text that anchors and aliases made copies of.
    copied: usize,
    /// How many collections are being read at the moment.
    depth: usize,
    /// Bytes before the text that the parser sees.
    skipped: usize,
}

type Tagged<'t> = Option<Cow<'t, Tag>>;

impl<'t> Builder<'t> {
    fn document(&mut self) -> Result<Node, Malformed> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(malformed(
                        span.start,
                        "a second document begins here; a settings file has one",
                    ));
                }
                Event::DocumentStart(..) => {
                    let (event, span) = self.next()?;
                    root = Some(self.node(event, span)?);
                }
                Event::StreamEnd => break,
                _ => return Err(malformed(span.start, "unexpected content between documents")),
            }
        }
        let top = Place { line: 1, column: 1 };
        let inline = WrittenNode { span: 0..0, style: Style::Inline };
        let empty = Node { value: Value::Map(Vec::new()), place: top, written: inline };
        match root {
            None => Ok(empty),
            Some(node) if node.value == Value::Null => Ok(empty),
            Some(node) if matches!(node.value, Value::Map(_)) => Ok(node),
            Some(node) => Err(Malformed {
                place: node.place,
                message: format!("settings are a mapping of `key: value`, and this is {}", node.value.kind()),
            }),
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Malformed> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(scan_error(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span) -> Result<Node, Malformed> {
        self.count(1, span.start)?;
        match event {
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar_value(&text, style, tag.as_deref(), span.start)?;
                let style = match style {
                    ScalarStyle::Literal | ScalarStyle::Folded => Style::BlockScalar,
                    _ => Style::Inline,
                };
                self.finish(value, span, style, anchor)
            }
            Event::SequenceStart(style, anchor, tag) => {
                collection_tag(&tag, "seq", span.start)?;
                self.begin(anchor, span.start)?;
                let (items, end) = self.items()?;
                self.depth -= 1;
                self.finish(Value::List(items), cover(span, end), structure(style), anchor)
            }
            Event::MappingStart(style, anchor, tag) => {
                collection_tag(&tag, "map", span.start)?;
                self.begin(anchor, span.start)?;
                let (entries, end) = self.entries()?;
                self.depth -= 1;
                self.finish(Value::Map(entries), cover(span, end), structure(style), anchor)
            }
            _ => Err(malformed(span.start, "a value is missing here")),
        }
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<Node, Malformed> {
        let Some(Some(target)) = self.anchors.get(&anchor) else {
            return Err(malformed(span.start, "this alias refers to the value that contains it"));
        };
        let size = CopySize::of(target);
        self.count_copy(size, span.start)?;
        let Some(Some(target)) = self.anchors.get(&anchor).cloned() else {
            return Err(malformed(span.start, "this alias refers to nothing"));
        };
        let written = WrittenNode { span: self.range(span), style: Style::Inline };
        Ok(Node { value: target.value, place: target.place, written })
    }

    fn begin(&mut self, anchor: usize, at: Marker) -> Result<(), Malformed> {
        if self.depth == DEPTH_MAX {
            return Err(malformed(at, "lists and mappings lie in each other more than 128 deep here"));
        }
        self.depth += 1;
        if anchor > 0 {
            self.anchors.insert(anchor, None);
        }
        Ok(())
    }

    fn finish(&mut self, value: Value, span: Span, style: Style, anchor: usize) -> Result<Node, Malformed> {
        let written = WrittenNode { span: self.range(span), style };
        let node = Node { value, place: place(span.start), written };
        if anchor > 0 {
            self.count_copy(CopySize::of(&node), span.start)?;
            self.anchors.insert(anchor, Some(node.clone()));
        }
        Ok(node)
    }

    fn items(&mut self) -> Result<(Vec<Node>, Span), Malformed> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, span) => return Ok((items, span)),
                (event, span) => items.push(self.node(event, span)?),
            }
        }
    }

    fn entries(&mut self) -> Result<(Vec<YamlEntry>, Span), Malformed> {
        let mut entries: Vec<YamlEntry> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut merges: Vec<Node> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let (key, plain) = match event {
                Event::MappingEnd => return Ok((merge(merges, entries), span)),
                Event::Scalar(text, style, ..) => (text.into_owned(), style == ScalarStyle::Plain),
                Event::Alias(anchor) => (key_text(&self.alias(anchor, span)?, span)?, false),
                _ => return Err(malformed(span.start, "a key must be a word, not a list or a mapping")),
            };
            let (event, value_span) = self.next()?;
            let node = self.node(event, value_span)?;
            if plain && key == "<<" {
                merges.extend(mergeable(node)?);
                continue;
            }
            let entry =
                YamlEntry { key, place: place(span.start), node, merged: false, key_span: self.range(span) };
            match places.get(&entry.key) {
                Some(known) => {
                    let known = &mut entries[*known];
                    self.notices.push(twice(&entry, known.place));
                    *known = entry;
                }
                None => {
                    places.insert(entry.key.clone(), entries.len());
                    entries.push(entry);
                }
            }
        }
    }

    fn count(&mut self, nodes: usize, at: Marker) -> Result<(), Malformed> {
        self.nodes += nodes;
        match self.nodes > NODES_MAX {
            true => Err(malformed(
                at,
                &format!("the file holds more than {NODES_MAX} values; is an alias repeated?"),
            )),
            false => Ok(()),
        }
    }

    fn count_copy(&mut self, size: CopySize, at: Marker) -> Result<(), Malformed> {
        self.count(size.nodes, at)?;
        self.copied += size.bytes;
        match self.copied > COPIED_BYTES_MAX {
            true => {
                let most = COPIED_BYTES_MAX >> 20;
                Err(malformed(at, &format!("anchors and aliases copy more than {most} MiB of text")))
            }
            false => Ok(()),
        }
    }

    fn range(&self, span: Span) -> Range<usize> {
        let range = span.byte_range().unwrap_or_default();
        range.start + self.skipped..range.end + self.skipped
    }
}

fn structure(style: StructureStyle) -> Style {
    match style {
        StructureStyle::Flow => Style::Flow,
        StructureStyle::Block => Style::Block,
    }
}

fn cover(start: Span, end: Span) -> Span {
    Span::new(start.start, end.end)
}

fn scalar_value(text: &str, style: ScalarStyle, tag: Option<&Tag>, at: Marker) -> Result<Value, Malformed> {
    let untagged = || match style {
        ScalarStyle::Plain => scalar::plain(text),
        _ => Value::Text(text.to_owned()),
    };
    let Some(tag) = tag else { return Ok(untagged()) };
    let full = format!("{}{}", tag.handle(), tag.suffix());
    match full.strip_prefix("tag:yaml.org,2002:") {
        None if full == "!" => Ok(untagged()),
        None => Err(malformed(at, &meaningless(tag))),
        Some(name) => scalar::tagged(text, name)
            .ok_or_else(|| malformed(at, &format!("this value is marked as `!!{name}` and does not fit it"))),
    }
}

fn meaningless(tag: &Tag) -> String {
    format!("the tag `{}` means nothing to Hermes or Throughline", tag.original())
}

fn collection_tag(tag: &Tagged<'_>, expected: &str, at: Marker) -> Result<(), Malformed> {
    match tag {
        Some(tag) if !tag.is_yaml_core_schema_tag(expected) => Err(malformed(
            at,
            &format!("the tag `{}` means nothing to Hermes or Throughline", tag.original()),
        )),
        _ => Ok(()),
    }
}

fn key_text(node: &Node, span: Span) -> Result<String, Malformed> {
    match &node.value {
        Value::Text(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        other => Err(malformed(span.start, &format!("a key must be a word, not {}", other.kind()))),
    }
}

/// The mappings that a merge key brings in; the first of a list weighs most.
fn mergeable(node: Node) -> Result<Vec<Node>, Malformed> {
    let wrong = |node: &Node| Malformed {
        place: node.place,
        message: format!("`<<` takes a mapping or a list of mappings, not {}", node.value.kind()),
    };
    match node.value {
        Value::Map(_) => Ok(vec![node]),
        Value::List(items) => match items.iter().find(|item| !matches!(item.value, Value::Map(_))) {
            Some(item) => Err(wrong(item)),
            None => Ok(items),
        },
        _ => Err(wrong(&node)),
    }
}

/// What was merged comes first and gives way to what is written.
fn merge(merges: Vec<Node>, own: Vec<YamlEntry>) -> Vec<YamlEntry> {
    if merges.is_empty() {
        return own;
    }
    let mut known: HashSet<String> = own.iter().map(|entry| entry.key.clone()).collect();
    let mut entries: Vec<YamlEntry> = Vec::new();
    for node in merges {
        let Value::Map(merged) = node.value else { continue };
        for entry in merged {
            if known.insert(entry.key.clone()) {
                entries.push(YamlEntry { merged: true, ..entry });
            }
        }
    }
    entries.extend(own);
    entries
}

fn twice(entry: &YamlEntry, first: Place) -> Notice {
    let text = format!("`{}` is written twice; this one counts and line {} does not", entry.key, first.line);
    Notice { place: entry.place, text }
}

/// What a copy of a node takes.
#[derive(Clone, Copy, Default)]
struct CopySize {
    nodes: usize,
    bytes: usize,
}

impl CopySize {
    fn of(node: &Node) -> Self {
        let one = |bytes| Self { nodes: 1, bytes };
        match &node.value {
            Value::Text(text) => one(text.len()),
            Value::List(items) => items.iter().map(Self::of).fold(one(0), Self::and),
            Value::Map(entries) => {
                let sizes = entries.iter().map(|entry| one(entry.key.len()).and(Self::of(&entry.node)));
                sizes.fold(one(0), Self::and)
            }
            _ => one(0),
        }
    }

    fn and(self, other: Self) -> Self {
        Self { nodes: self.nodes + other.nodes, bytes: self.bytes + other.bytes }
    }
}

fn place(marker: Marker) -> Place {
    Place { line: marker.line().max(1), column: marker.col() + 1 }
}

fn malformed(at: Marker, message: &str) -> Malformed {
    Malformed { place: place(at), message: message.to_owned() }
}

fn scan_error(error: &ScanError) -> Malformed {
    malformed(*error.marker(), &error.info())
}
