//! One word of a script: its quotes, expansions and substitutions, as far as the text shows them.

use super::{DEPTH_MAX, ScriptReader, VALUE_CHARS_MAX, WRAPPERS};

impl ScriptReader<'_> {
    pub(super) fn word(&mut self, end: Option<char>) -> ScriptWord {
        let start = self.at;
        let mut word = ScriptWord { value: Some(String::new()), ..ScriptWord::default() };
        let mut is_quoted = false;
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | ')' => break,
                '(' => break,
                _ if Some(c) == end => break,
                '\\' => {
                    if let Some(next) = self.peek(1).filter(|next| *next != '\n') {
                        word.push(next);
                    }
                    self.at = (self.at + 2).min(self.text.len());
                }
                '\'' => {
                    is_quoted = true;
                    self.single_quoted(&mut word);
                }
                '"' => {
                    is_quoted = true;
                    self.at += 1;
                    self.double_quoted(&mut word);
                }
                '$' => self.expansion(&mut word),
                '`' => self.backticks(&mut word),
                '=' if !is_quoted && word.assigns.is_none() && self.assigned_name(start).is_some() => {
                    let (name, appends) = self.assigned_name(start).unwrap_or_default();
                    // An element of an array is none of its name.
                    let value = (self.text[self.at - 1] != ']').then(String::new);
                    word = ScriptWord { value, assigns: Some((name, appends)), ..ScriptWord::default() };
                    self.at += 1;
                    if self.peek(0) == Some('(') {
                        // An array; its first element is what its name stands for.
                        self.at += 1;
                        self.nested_words();
                        word.value = None;
                        break;
                    }
                }
                // The text does not show what a pattern matches, nor what braces are written out to.
                '*' | '?' | '[' if !is_test(self.text, start, self.at) => {
                    word.value = word.value.take().filter(|_| word.assigns.is_some());
                    word.push(c);
                    self.at += 1;
                }
                '{' if self.at == start && self.peek(1).is_some_and(|next| !next.is_whitespace()) => {
                    word.value = None;
                    self.at += 1;
                }
                c => {
                    word.push(c);
                    self.at += 1;
                }
            }
        }
        if self.at == start {
            // A bracket that no rule above takes: it is stepped over.
            self.at += 1;
        }
        word.raw = self.text[start..self.at.min(self.text.len())].iter().collect();
        if word.value.as_ref().is_some_and(|value| value.chars().count() > VALUE_CHARS_MAX) && word.is_filled
        {
            word.value = None;
        }
        word
    }

    fn single_quoted(&mut self, word: &mut ScriptWord) {
        self.at += 1;
        while let Some(c) = self.peek(0).filter(|c| *c != '\'') {
            word.push(c);
            self.at += 1;
        }
        self.at += usize::from(self.peek(0).is_some());
    }

    /// The name before the `=` at which the reader stands, if it is one; `NAME+=` appends.
    fn assigned_name(&self, start: usize) -> Option<(String, bool)> {
        let written: String = self.text[start..self.at].iter().collect();
        let (name, appends) = match written.strip_suffix('+') {
            Some(name) => (name, true),
            None => (written.as_str(), false),
        };
        let name = match name.split_once('[') {
            Some((name, element)) if element.ends_with(']') => name,
            _ => name,
        };
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then(|| (name.to_owned(), appends))
    }

    /// Words up to a closing bracket: an array's.
    fn nested_words(&mut self) {
        while let Some(c) = self.peek(0) {
            match c {
                ')' => {
                    self.at += 1;
                    return;
                }
                c if c.is_whitespace() || matches!(c, ';' | '&' | '|' | '<' | '>' | '(') => self.at += 1,
                _ => drop(self.word(None)),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut ScriptWord) {
        while let Some(c) = self.peek(0) {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    if let Some(next) = self.peek(1) {
                        if !matches!(next, '$' | '`' | '"' | '\\' | '\n') {
                            word.push('\\');
                        }
                        if next != '\n' {
                            word.push(next);
                        }
                    }
                    self.at = (self.at + 2).min(self.text.len());
                }
                '$' => self.expansion(word),
                '`' => self.backticks(word),
                c => {
                    word.push(c);
                    self.at += 1;
                }
            }
        }
    }

    /// From a `$` on.
    pub(super) fn expansion(&mut self, word: &mut ScriptWord) {
        if self.starts("$((") && self.arithmetic(3) {
            word.value = None;
        } else if self.starts("$(") {
            self.at += 2;
            let from = self.at;
            self.nested(Some(')'));
            let to = self.at.saturating_sub(1).max(from).min(self.text.len());
            let script = self.text[from..to].to_vec();
            word.add(printed(&script));
        } else if self.starts("${") {
            self.at += 2;
            let name = self.name_here();
            let is_plain = !name.is_empty() && self.peek(0) == Some('}');
            let value = self.variables.get(&name).cloned().flatten().filter(|_| is_plain);
            self.skip_braces();
            word.add(value);
        } else if self.starts("$'") {
            self.at += 2;
            let from = self.at;
            while let Some(c) = self.peek(0).filter(|c| *c != '\'') {
                self.at += 1 + usize::from(c == '\\');
            }
            let to = self.at.min(self.text.len());
            self.at = (to + 1).min(self.text.len());
            let text: String = self.text[from..to].iter().collect();
            word.add((!text.contains('\\')).then_some(text));
        } else if self.starts("$\"") {
            self.at += 1; // translated; the quotes are read next
        } else {
            self.at += 1;
            let name = self.name_here();
            match name.is_empty() {
                // `$` alone is a character; `$1`, `$@` and their like are not known.
                true if self.peek(0).is_some_and(|c| c.is_ascii_digit() || "@*#?-$!".contains(c)) => {
                    self.at += 1;
                    word.value = None;
                }
                true => word.push('$'),
                false => {
                    let value = self.variables.get(&name).cloned().flatten();
                    word.add(value);
                }
            }
        }
    }

    fn name_here(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek(0) {
            let fits =
                c == '_' || if name.is_empty() { c.is_ascii_alphabetic() } else { c.is_ascii_alphanumeric() };
            if !fits {
                break;
            }
            name.push(c);
            self.at += 1;
        }
        name
    }

    /// The rest of `${…}`. What is run within it is read.
    fn skip_braces(&mut self) {
        let mut ignored = ScriptWord::default();
        while let Some(c) = self.peek(0) {
            match c {
                '}' => {
                    self.at += 1;
                    return;
                }
                '\\' => self.at = (self.at + 2).min(self.text.len()),
                '$' if self.depth >= DEPTH_MAX => self.give_up(),
                '$' => {
                    self.depth += 1;
                    self.expansion(&mut ignored);
                    self.depth -= 1;
                }
                '`' => self.backticks(&mut ignored),
                _ => self.at += 1,
            }
        }
    }

    pub(super) fn backticks(&mut self, word: &mut ScriptWord) {
        self.at += 1;
        let from = self.at;
        self.nested(Some('`'));
        let to = self.at.saturating_sub(1).max(from).min(self.text.len());
        let script = self.text[from..to].to_vec();
        word.add(printed(&script));
    }
}

/// One word, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct ScriptWord {
    pub(super) raw: String,
    pub(super) value: Option<String>,
    /// Something in it was filled in.
    pub(super) is_filled: bool,
    /// The name that it assigns to, and whether it appends.
    pub(super) assigns: Option<(String, bool)>,
}

impl ScriptWord {
    pub(super) fn push(&mut self, c: char) {
        if let Some(value) = &mut self.value {
            value.push(c);
        }
    }

    /// What an expansion comes to; None: unknown.
    fn add(&mut self, text: Option<String>) {
        self.is_filled = true;
        match (&mut self.value, text) {
            (Some(value), Some(text)) => value.push_str(&text),
            _ => self.value = None,
        }
    }
}

/// Wrappers stand before the name.
pub(super) fn is_wrapper(word: &ScriptWord) -> bool {
    let base = word.value.as_deref().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    WRAPPERS.iter().any(|(name, _)| *name == base)
}

pub(super) fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+')
}

/// `[` and `[[` are commands.
fn is_test(text: &[char], start: usize, at: usize) -> bool {
    let ends = |i: usize| text.get(i).is_none_or(|c| c.is_whitespace());
    text[start] == '['
        && (ends(start + 1) || (text.get(start + 1) == Some(&'[') && ends(start + 2)))
        && at <= start + 1
}

/// What `echo x`, `printf x`, `which x` and `command -v x` print, as far as a name goes.
fn printed(script: &[char]) -> Option<String> {
    let words = super::super::shell::split(script, false)?;
    let is_known = |word: &String| !word.is_empty() && word.chars().all(|c| is_plain(c) || c == '/');
    let words: Vec<&str> = words.iter().filter(|word| is_known(word)).map(String::as_str).collect();
    let count = super::super::shell::split(script, false)?.len();
    match words.as_slice() {
        ["echo" | "printf" | "which", name] if count == 2 => Some((*name).to_owned()),
        ["echo", "-n", name] | ["command", "-v", name] | ["type", "-p" | "-P", name] if count == 3 => {
            Some((*name).to_owned())
        }
        _ => None,
    }
}
