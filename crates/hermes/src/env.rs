//! Hermes' `.env`, read as python-dotenv reads it, because that is what Hermes uses.
//!
//! - `export`, comments, three kinds of values (bare, `'…'`, `"…"`), values over several lines
//! - `${NAME}` and `${NAME:-default}` are replaced in every kind of value, from lines above and
//!   from the environment; a line above wins, as the file wins over the environment
//! - a line that cannot be read is a warning with its number, and the rest is read
//! - credentials keep their ASCII characters only, as in Hermes: others are accidents of copying
//!
//! What it costs to read grows with the file, however many names it has and however they refer to each other.
//!
//! Values are secrets: no message, and no `Debug`, shows one. Deliberately absent: writing the
//! file, and Hermes' repair of two assignments on one line, which it does on disk by itself.

use crate::config::{Notice, Place, Secret};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// What `${NAME}` may bring in, over the whole file. Names that each refer twice to the one before double with every line;
/// settings that people write stay far below.
const BROUGHT_IN_BYTES_MAX: usize = 1 << 20;

/// Names that end so hold credentials.
const CREDENTIAL_ENDINGS: [&str; 4] = ["_API_KEY", "_TOKEN", "_SECRET", "_KEY"];

#[derive(Debug, Default)]
pub struct Dotenv {
    /// In the order of their first mention; of two lines with one name the last counts.
    pub variables: Vec<Variable>,
    pub warnings: Vec<Notice>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub value: Secret,
    pub line: usize,
}

impl Dotenv {
    pub fn get(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// `environment` looks a name up among the variables that the process was started with.
    pub fn parse(bytes: &[u8], environment: &dyn Fn(&str) -> Option<String>) -> Dotenv {
        let mut dotenv = Dotenv::default();
        let text = match decoded(bytes) {
            Ok(text) => text,
            Err(text) => {
                dotenv.warnings.push(Notice { place: Place { line: 1, column: 1 }, text: text.to_owned() });
                return dotenv;
            }
        };
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut assigned: Vec<(String, Option<String>, usize)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut room = BROUGHT_IN_BYTES_MAX;
        for binding in (DotenvReader { rest: &text, line: 1 }) {
            match binding {
                Binding::Assigned { name, value, line } => {
                    let known = |name: &str| match places.get(name) {
                        Some(place) => Some(assigned[*place].1.as_deref().unwrap_or_default().into()),
                        None => environment(name).map(Cow::Owned),
                    };
                    let value = value.map(|value| interpolated(&value, &known, &mut room));
                    if let Some(None) = value {
                        let most = BROUGHT_IN_BYTES_MAX >> 20;
                        let text = format!(
                            "`{name}` has no effect: its references, with those above, bring in more than {most} MiB"
                        );
                        dotenv.warn(line, &text);
                        continue;
                    }
                    let value = value.flatten();
                    match places.get(&name) {
                        Some(place) => (assigned[*place].1, assigned[*place].2) = (value, line),
                        None => {
                            places.insert(name.clone(), assigned.len());
                            assigned.push((name, value, line));
                        }
                    }
                }
                Binding::Unreadable { line } => {
                    dotenv.warn(line, "this line cannot be read, and has no effect")
                }
                Binding::Nothing => {}
            }
        }
        for (name, value, line) in assigned {
            let Some(value) = value else {
                dotenv.warn(line, &format!("`{name}` has no value; write `{name}=…`"));
                continue;
            };
            let value = dotenv.sanitised(&name, value, line);
            dotenv.variables.push(Variable { name, value: Secret::new(value), line });
        }
        dotenv
    }

    fn sanitised(&mut self, name: &str, value: String, line: usize) -> String {
        let credential = CREDENTIAL_ENDINGS.iter().any(|ending| name.ends_with(ending));
        if !credential || value.is_ascii() {
            return value;
        }
        let strange = value.chars().filter(|c| !c.is_ascii()).count();
        self.warn(
            line,
            &format!("`{name}` holds {strange} characters that no key has, and they are left out; copy the key again"),
        );
        value.chars().filter(char::is_ascii).collect()
    }

    fn warn(&mut self, line: usize, text: &str) {
        self.warnings.push(Notice { place: Place { line, column: 1 }, text: text.to_owned() });
    }
}

/// UTF-8 with or without a mark, UTF-16 with one, and Latin-1 for the rest. NUL is dropped.
fn decoded(bytes: &[u8]) -> Result<String, &'static str> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        char::decode_utf16(units)
            .collect::<Result<String, _>>()
            .map_err(|_| "this is not valid UTF-16; save it as UTF-8")
    };
    let text = match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => return Err("this is UTF-32; save it as UTF-8"),
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes)?,
        _ => match str::from_utf8(bytes) {
            Ok(text) => text.trim_start_matches('\u{feff}').to_owned(),
            Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
        },
    };
    Ok(text.replace('\0', ""))
}

enum Binding {
    Assigned { name: String, value: Option<String>, line: usize },
    Unreadable { line: usize },
    Nothing,
}

/// python-dotenv's grammar, one binding at a time.
struct DotenvReader<'t> {
    rest: &'t str,
    line: usize,
}

struct UnreadableBinding;

impl Iterator for DotenvReader<'_> {
    type Item = Binding;

    fn next(&mut self) -> Option<Binding> {
        if self.rest.is_empty() {
            return None;
        }
        self.take_while(is_space);
        let line = self.line;
        Some(match self.binding() {
            Ok(None) => Binding::Nothing,
            Ok(Some((name, value))) => Binding::Assigned { name, value, line },
            Err(UnreadableBinding) => {
                self.take_while(|c| c != '\n');
                self.take_while_at_most(1, |c| c == '\n');
                Binding::Unreadable { line }
            }
        })
    }
}

impl<'t> DotenvReader<'t> {
    fn binding(&mut self) -> Result<Option<(String, Option<String>)>, UnreadableBinding> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.export();
        let name = self.name()?;
        self.take_while(is_blank);
        let value = match self.rest.starts_with('=') {
            true => {
                self.take(1);
                self.take_while(is_blank);
                Some(self.value()?)
            }
            false => None,
        };
        self.end_of_line()?;
        Ok(name.map(|name| (name, value)))
    }

    fn export(&mut self) {
        if self.rest.strip_prefix("export").is_some_and(|rest| rest.starts_with(is_blank)) {
            self.take("export".len());
            self.take_while(is_blank);
        }
    }

    /// None: a comment stands here.
    fn name(&mut self) -> Result<Option<String>, UnreadableBinding> {
        if self.rest.starts_with('#') {
            return Ok(None);
        }
        let name = match self.rest.strip_prefix('\'') {
            Some(inner) => {
                let end = inner.find('\'').filter(|end| *end > 0).ok_or(UnreadableBinding)?;
                self.take(end + 2);
                &inner[..end]
            }
            None => self.take_while(|c| c != '=' && c != '#' && !is_space(c)),
        };
        match name.is_empty() {
            true => Err(UnreadableBinding),
            false => Ok(Some(name.to_owned())),
        }
    }

    fn value(&mut self) -> Result<String, UnreadableBinding> {
        match self.rest.chars().next() {
            Some(quote @ ('\'' | '"')) => {
                let text = self.quoted(quote)?;
                Ok(unescaped(text, if quote == '"' { "\\'\"abfnrtv" } else { "\\'" }))
            }
            None | Some('\n') => Ok(String::new()),
            Some(_) => {
                let line = self.take_while(|c| c != '\n');
                Ok(without_comment(line).trim_end_matches(is_space).to_owned())
            }
        }
    }

    /// Up to the first quote without a backslash before it. If there is none, the last one with it.
    fn quoted(&mut self, quote: char) -> Result<&'t str, UnreadableBinding> {
        let inner = &self.rest[1..];
        let mut close = None;
        for (at, _) in inner.char_indices().filter(|(_, c)| *c == quote) {
            close = Some(at);
            if !inner[..at].ends_with('\\') {
                break;
            }
        }
        let end = close.ok_or(UnreadableBinding)?;
        self.take(end + 2);
        Ok(&inner[..end])
    }

    fn end_of_line(&mut self) -> Result<(), UnreadableBinding> {
        self.take_while(is_blank);
        if self.rest.starts_with('#') {
            self.take_while(|c| c != '\n');
        }
        match self.rest.is_empty() {
            true => Ok(()),
            false if self.rest.starts_with('\n') => {
                self.take(1);
                Ok(())
            }
            false => Err(UnreadableBinding),
        }
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        self.take(end)
    }

    fn take_while_at_most(&mut self, bytes: usize, wanted: impl Fn(char) -> bool) {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        self.take(end.min(bytes));
    }
}

/// Python's idea of white space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn is_blank(c: char) -> bool {
    is_space(c) && c != '\n'
}

/// A comment in a bare value needs white space before it.
fn without_comment(line: &str) -> &str {
    let comment = line.char_indices().find(|(at, c)| *c == '#' && line[..*at].ends_with(is_space));
    comment.map_or(line, |(at, _)| &line[..at])
}

fn unescaped(text: &str, escapes: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let escape = chars.peek().copied().filter(|next| c == '\\' && escapes.contains(*next));
        let Some(escape) = escape else {
            out.push(c);
            continue;
        };
        chars.next();
        out.push(match escape {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            other => other,
        });
    }
    out
}

/// Replaces `${NAME}` and `${NAME:-default}`; what is neither stays. None: that would bring in more than there is room for.
fn interpolated<'k>(
    text: &str,
    known: &dyn Fn(&str) -> Option<Cow<'k, str>>,
    room: &mut usize,
) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let inner = &rest[start + 2..];
        // Where nothing closes any more, nothing that begins later is closed, either.
        let Some(name_end) = inner.find(['}', ':']) else { break };
        let (name, after) = inner.split_at(name_end);
        let (default, after) = match after.strip_prefix(":-") {
            Some(after) => {
                let Some(end) = after.find('}') else { break };
                (&after[..end], &after[end..])
            }
            None => ("", after),
        };
        match after.strip_prefix('}') {
            Some(after) => {
                out.push_str(&rest[..start]);
                let value = known(name).unwrap_or(Cow::Borrowed(default));
                *room = room.checked_sub(value.len())?;
                out.push_str(&value);
                rest = after;
            }
            None => {
                out.push_str(&rest[..start + 2]);
                rest = inner;
            }
        }
    }
    out.push_str(rest);
    Some(out)
}

impl fmt::Display for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.name, self.value)
    }
}

#[cfg(test)]
mod tests;
