//! A shell's grammar, as far as one must read it to see which words are commands.
//!
//! Nothing is expanded and nothing runs. The readers are those of Hermes, rule by rule, because
//! what they see decides what a command is called; they are not a shell, and do not become one.
//!
//! Text is read as characters. Every scan is paid for from a [`ReadingBudget`], because a nest of brackets
//! can make each of its characters a beginning: a text that costs too much is refused, not skimmed.

use regex::Regex;
use std::cell::Cell;
use std::sync::LazyLock;

/// What may be spent on reading one command, in characters looked at. A command of ordinary length
/// costs a few thousand; this is about a tenth of a second.
const BUDGET: usize = 8_000_000;

pub struct ReadingBudget(Cell<usize>);

impl ReadingBudget {
    pub fn new() -> Self {
        Self(Cell::new(BUDGET))
    }

    pub fn is_spent(&self) -> bool {
        self.0.get() == 0
    }

    pub fn spend(&self, characters: usize) {
        self.0.set(self.0.get().saturating_sub(characters));
    }
}

/// A stretch of text.
pub type TextSpan = (usize, usize);

/// How many words in front of a command may belong to what calls it (`sudo -u x env A=b …`).
const PREFIX_WORDS_MAX: usize = 12;

const WRAPPERS: [&str; 8] = ["sudo", "env", "exec", "nohup", "setsid", "time", "command", "builtin"];
const SUDO_OPTIONS_WITH_ARGUMENT: [&str; 10] =
    ["-c", "--close-from", "-g", "--group", "-h", "--host", "-p", "--prompt", "-u", "--user"];

/// Python's idea of white space: Unicode's, and four separators of old.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

pub fn text_of(chars: &[char]) -> String {
    chars.iter().collect()
}

pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn starts_with(text: &[char], at: usize, what: &str) -> bool {
    what.chars().enumerate().all(|(i, c)| text.get(at + i) == Some(&c))
}

/// The parts between `;`, `&`, `|` and line ends that stand outside quotes.
pub fn segments(text: &[char], budget: &ReadingBudget) -> Vec<TextSpan> {
    budget.spend(text.len());
    let mut spans = Vec::new();
    let (mut start, mut i) = (0, 0);
    let mut quote = None;
    let mut escaped = false;
    while i < text.len() {
        let c = text[i];
        if escaped {
            escaped = false;
        } else if c == '\\' && quote != Some('\'') {
            escaped = true;
        } else if quote.is_some() {
            if quote == Some(c) {
                quote = None;
            }
        } else if matches!(c, '\'' | '"') {
            quote = Some(c);
        } else if matches!(c, ';' | '&' | '|' | '\n') {
            if start < i {
                spans.push((start, i));
            }
            if matches!(c, '&' | '|') && text.get(i + 1) == Some(&c) {
                i += 1;
            }
            start = i + 1;
        }
        i += 1;
    }
    if start < text.len() {
        spans.push((start, text.len()));
    }
    spans
}

/// Where a shell would begin to read a command: at separators, brackets and substitutions outside
/// quotes, and at `$(` within double ones.
pub fn command_starts(text: &[char], budget: &ReadingBudget) -> Vec<usize> {
    budget.spend(text.len());
    let mut starts = vec![0];
    let mut quote = None;
    let mut i = 0;
    while i < text.len() {
        let c = text[i];
        if quote == Some('\'') {
            if c == '\'' {
                quote = None;
            }
            i += 1;
        } else if c == '\\' && i + 1 < text.len() {
            i += 2;
        } else if quote == Some('"') && c == '"' {
            quote = None;
            i += 1;
        } else if starts_with(text, i, "$(") {
            starts.push(i + 2);
            i += 2;
        } else if quote.is_some() {
            i += 1;
        } else {
            let doubled = matches!(c, '&' | '|') && text.get(i + 1) == Some(&c);
            match c {
                '\'' | '"' => quote = Some(c),
                '(' | '{' | ';' | '&' | '|' | '\n' => starts.push(i + 1 + usize::from(doubled)),
                _ => {}
            }
            i += 1 + usize::from(doubled);
        }
    }
    let mut seen = Vec::with_capacity(starts.len());
    for start in starts {
        let start = skip_space(text, start);
        // They only rise, so the one before is the only one it can repeat.
        if start < text.len() && seen.last().is_none_or(|last| *last < start) {
            seen.push(start);
        }
    }
    seen
}

/// The text with a line end before each command, so that patterns which look for the beginning of a
/// line find it.
pub fn with_starts_marked(text: &[char], budget: &ReadingBudget) -> Vec<char> {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut previous = 0;
    for start in command_starts(text, budget).into_iter().filter(|start| *start > 0) {
        out.extend_from_slice(&text[previous..start]);
        out.push('\n');
        previous = start;
    }
    out.extend_from_slice(&text[previous..]);
    out
}

fn skip_space(text: &[char], from: usize) -> usize {
    (from..text.len()).find(|i| !is_space(text[*i])).unwrap_or(text.len().max(from))
}

/// The words that may name what is run: wrappers and assignments in front of it are read past, and
/// named too.
pub fn command_words(text: &[char], budget: &ReadingBudget) -> Vec<TextSpan> {
    let mut spans = Vec::new();
    for start in command_starts(text, budget) {
        let mut position = start;
        let (mut in_options, mut skip_next) = (false, false);
        for _ in 0..PREFIX_WORDS_MAX {
            if budget.is_spent() {
                return spans;
            }
            let (word_start, word_end) = word(text, position, budget);
            if word_start == word_end {
                break;
            }
            position = word_end;
            if skip_next {
                skip_next = false;
                continue;
            }
            let plain = plain_word(&text[word_start..word_end], budget);
            let lower = plain.to_lowercase();
            if in_options && lower.starts_with('-') {
                skip_next = !lower.contains('=') && SUDO_OPTIONS_WITH_ARGUMENT.contains(&lower.as_str());
                continue;
            }
            spans.push((word_start, word_end));
            if WRAPPERS.contains(&lower.as_str()) {
                in_options = matches!(lower.as_str(), "sudo" | "env");
            } else if is_assignment(&plain) {
                in_options = false;
            } else {
                break;
            }
        }
    }
    spans
}

fn is_assignment(word: &str) -> bool {
    let Some((name, value)) = word.split_once('=') else { return false };
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !value.contains('\n')
}

/// One word from `from` on, with its quotes and substitutions as they stand.
fn word(text: &[char], from: usize, budget: &ReadingBudget) -> TextSpan {
    let start = skip_space(text, from);
    let mut i = start;
    let mut quote = None;
    while i < text.len() {
        let c = text[i];
        if let Some(open) = quote {
            if c == '\\' && open == '"' && i + 1 < text.len() {
                i += 2;
                continue;
            }
            if c == open {
                quote = None;
            }
            i += 1;
        } else if matches!(c, '\'' | '"') {
            quote = Some(c);
            i += 1;
        } else if c == '\\' && i + 1 < text.len() {
            i += 2;
        } else if starts_with(text, i, "$(") {
            i = substitution_end(text, i, budget).unwrap_or(i + 2);
        } else if starts_with(text, i, "${") {
            budget.spend(text.len() - i);
            i = (i + 2..text.len()).find(|i| text[*i] == '}').map_or(i + 2, |end| end + 1);
        } else if c == '`' {
            i = backtick_end(text, i, budget).unwrap_or(i + 1);
        } else if is_space(c) || matches!(c, ';' | '&' | '|') {
            break;
        } else {
            i += 1;
        }
        if budget.is_spent() {
            break;
        }
    }
    budget.spend(i - start);
    (start, i)
}

/// The position after a balanced `$(…)`.
fn substitution_end(text: &[char], start: usize, budget: &ReadingBudget) -> Option<usize> {
    let mut depth = 1;
    let mut quote = None;
    let mut i = start + 2;
    while i < text.len() && !budget.is_spent() {
        budget.spend(1);
        let c = text[i];
        if let Some(open) = quote {
            if c == '\\' && open == '"' && i + 1 < text.len() {
                i += 2;
                continue;
            }
            if c == open {
                quote = None;
            }
            i += 1;
        } else if matches!(c, '\'' | '"') {
            quote = Some(c);
            i += 1;
        } else if c == '\\' && i + 1 < text.len() {
            i += 2;
        } else if starts_with(text, i, "$(") {
            depth += 1;
            i += 2;
        } else if c == ')' {
            depth -= 1;
            i += 1;
            if depth == 0 {
                return Some(i);
            }
        } else {
            i += 1;
        }
    }
    None
}

fn backtick_end(text: &[char], start: usize, budget: &ReadingBudget) -> Option<usize> {
    let mut i = start + 1;
    while i < text.len() && !budget.is_spent() {
        budget.spend(1);
        match text[i] {
            '\\' if i + 1 < text.len() => i += 2,
            '`' => return Some(i + 1),
            _ => i += 1,
        }
    }
    None
}

/// How a word would read once its quotes are gone and the simplest substitutions are made: `r\m`,
/// `r''m` and `$(echo rm)` are all `rm`.
pub fn plain_word(word: &[char], budget: &ReadingBudget) -> String {
    static REPLACED: LazyLock<Regex> = LazyLock::new(|| expression(r"\$\{[^}/\s]+/[^}/]*/([^}]*)\}"));
    static DEFAULTED: LazyLock<Regex> = LazyLock::new(|| expression(r"\$\{[^}:}\s]+:-([^}]*)\}"));
    let mut plain = text_of(word);
    for _ in 0..2 {
        budget.spend(plain.len());
        let before = plain.clone();
        let chars: Vec<char> = plain.chars().collect();
        let substituted = with_substitutions(&chars, budget);
        let substituted = REPLACED.replace_all(&substituted, "$1");
        let substituted = DEFAULTED.replace_all(&substituted, "$1");
        plain = without_quotes(&substituted);
        if plain == before {
            break;
        }
    }
    plain
}

fn expression(python: &str) -> Regex {
    Regex::new(&super::rules::translated(python)).expect("the expression is in this file; tests use it")
}

fn with_substitutions(word: &[char], budget: &ReadingBudget) -> String {
    let mut out = String::with_capacity(word.len());
    let mut i = 0;
    while i < word.len() {
        let found = if starts_with(word, i, "$(") {
            substitution_end(word, i, budget).map(|end| (i + 2, end))
        } else if word[i] == '`' {
            backtick_end(word, i, budget).map(|end| (i + 1, end))
        } else {
            None
        };
        let literal = found.and_then(|(from, end)| Some((literal_output(&word[from..end - 1])?, end)));
        match literal {
            Some((text, end)) => {
                out.push_str(&text);
                i = end;
            }
            None => {
                out.push(word[i]);
                i += 1;
            }
        }
    }
    out
}

/// What `echo x` or `printf x` would print, where that is certain.
fn literal_output(script: &[char]) -> Option<String> {
    let tokens = split(script, false)?;
    let (command, mut arguments) = tokens.split_first()?;
    match command.to_lowercase().as_str() {
        "echo" => {
            while arguments.first().is_some_and(|option| is_echo_option(option)) {
                arguments = &arguments[1..];
            }
            match arguments {
                [only] if is_literal(only) => Some(only.clone()),
                _ => None,
            }
        }
        "printf" => match arguments {
            [only] if is_literal(only) => Some(only.clone()),
            [format, only] if format == "%s" && is_literal(only) => Some(only.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn is_echo_option(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-') && text[1..].chars().all(|c| matches!(c, 'n' | 'E' | 'e'))
}

fn is_literal(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_./:@%+=,-".contains(c))
}

fn without_quotes(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut chars = word.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None | Some('"') if c == '\\' => out.push(chars.next().unwrap_or(c)),
            _ => out.push(c),
        }
    }
    out
}

/// Python's `shlex` on words that only white space divides. With `redirections`, runs of `<` and `>`
/// are words of their own. None: a quote is not closed, or nothing follows a last backslash.
pub fn split(text: &[char], redirections: bool) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut token = String::new();
    let (mut in_word, mut quoted) = (false, false);
    let mut i = 0;
    while i < text.len() {
        let c = text[i];
        i += 1;
        match c {
            ' ' | '\t' | '\r' | '\n' => {
                if in_word && (quoted || !token.is_empty()) {
                    words.push(std::mem::take(&mut token));
                }
                (in_word, quoted) = (false, false);
            }
            '<' | '>' if redirections => {
                if !token.is_empty() || quoted {
                    words.push(std::mem::take(&mut token));
                }
                token.push(c);
                while i < text.len() && matches!(text[i], '<' | '>') {
                    token.push(text[i]);
                    i += 1;
                }
                words.push(std::mem::take(&mut token));
                (in_word, quoted) = (false, false);
            }
            '\'' => {
                (in_word, quoted) = (true, true);
                let end = (i..text.len()).find(|i| text[*i] == '\'')?;
                token.extend(&text[i..end]);
                i = end + 1;
            }
            '"' => {
                (in_word, quoted) = (true, true);
                i = double_quoted(text, i, &mut token)?;
            }
            '\\' => {
                in_word = true;
                token.push(*text.get(i)?);
                i += 1;
            }
            _ => {
                in_word = true;
                token.push(c);
            }
        }
    }
    if in_word && (quoted || !token.is_empty()) {
        words.push(token);
    }
    Some(words)
}

/// Reads up to the closing quote and says where it goes on. Only the quote itself and the backslash
/// can be escaped.
fn double_quoted(text: &[char], from: usize, token: &mut String) -> Option<usize> {
    let mut i = from;
    loop {
        match *text.get(i)? {
            '"' => return Some(i + 1),
            '\\' => {
                let escaped = *text.get(i + 1)?;
                if !matches!(escaped, '"' | '\\') {
                    token.push('\\');
                }
                token.push(escaped);
                i += 2;
            }
            c => {
                token.push(c);
                i += 1;
            }
        }
    }
}

/// A word with the place it came from.
pub struct ShellToken {
    pub value: String,
    pub span: TextSpan,
    /// All of it stands in single quotes: the shell looks at none of it.
    pub inert: bool,
}

/// Words with their places. None: a quote is not closed.
pub fn placed_words(text: &[char], from: usize, budget: &ReadingBudget) -> Option<Vec<ShellToken>> {
    budget.spend(text.len() - from.min(text.len()));
    let mut tokens = Vec::new();
    let mut i = skip_space(text, from);
    while i < text.len() {
        let start = i;
        let mut value = String::new();
        let mut quote = None;
        while i < text.len() && (quote.is_some() || !is_space(text[i])) {
            let c = text[i];
            i += 1;
            match quote {
                Some(open) if c == open => quote = None,
                Some('"') if c == '\\' && i < text.len() => {
                    value.push(text[i]);
                    i += 1;
                }
                None if matches!(c, '\'' | '"') => quote = Some(c),
                None if c == '\\' => {
                    value.push(*text.get(i)?);
                    i += 1;
                }
                _ => value.push(c),
            }
        }
        if quote.is_some() {
            return None;
        }
        let raw = &text[start..i];
        let ends_quoted = raw.last() == Some(&'\'');
        let assigned = raw.windows(2).any(|pair| pair == ['=', '\'']);
        let inert = ends_quoted && (raw.first() == Some(&'\'') || assigned);
        tokens.push(ShellToken { value, span: (start, i), inert });
        i = skip_space(text, i);
    }
    Some(tokens)
}
