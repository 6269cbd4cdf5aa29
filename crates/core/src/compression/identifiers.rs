//! Names of things in a text: paths, addresses, and identifiers (ids, hashes, versions, amounts, dates).
//!
//! The reader of a summary can look these up, or needs them to the letter; no paraphrase will do. They are
//! known by their form alone. Deliberately absent: any list of what programs call their things.

use std::collections::HashSet;

/// What was found, each once, in the order of its first mention.
#[derive(Default)]
pub struct Found {
    pub paths: Vec<String>,
    pub names: Vec<String>,
    seen: HashSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Path,
    Name,
}

/// Longer than any name worth keeping.
const LENGTH_MAX: usize = 200;
/// So many of a kind are remembered: a listing of a thousand files is no list of what matters.
const EACH_MAX: usize = 400;

impl Found {
    pub fn in_text(text: &str) -> Self {
        let mut found = Self::default();
        found.add(text);
        found
    }

    pub fn add(&mut self, text: &str) {
        if !may_name(text) {
            return; // most sentences
        }
        let mut before: Option<&str> = None;
        for word in words(text) {
            if let Some((form, name)) = named(word) {
                self.remember(name.to_owned(), form);
            } else if let Some(number) = before.filter(|number| is_number(number) && is_unit(word)) {
                self.remember(format!("{number} {word}"), Form::Name);
            }
            before = Some(word);
        }
    }

    fn remember(&mut self, word: String, form: Form) {
        let list = match form {
            Form::Path => &mut self.paths,
            Form::Name => &mut self.names,
        };
        if list.len() < EACH_MAX && !self.seen.contains(&word) {
            self.seen.insert(word.clone());
            list.push(word);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.names.is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().chain(&self.names).map(String::as_str)
    }
}

fn is_separator(character: char) -> bool {
    if character.is_ascii_alphanumeric() {
        return false; // most characters
    }
    character.is_whitespace()
        || matches!(
            character,
            '"' | '\''
                | '`'
                | '('
                | ')'
                | '['
                | ']'
                | '{'
                | '}'
                | '<'
                | '>'
                | ','
                | ';'
                | '|'
                | '“'
                | '”'
                | '„'
                | '。'
                | '、'
                | '，'
        )
}

/// Without the punctuation around a word in a sentence.
fn trimmed(word: &str) -> &str {
    let word = word.trim_end_matches(['.', ':', '!', '?', '*', '…', '=']);
    word.trim_start_matches(['*', '=', ':', '!', '?'])
}

/// No name of a thing is without one of these. Most words are.
fn tells_a_name(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'/' | b'.' | b'\\' | b'@' | b'#' | b'=')
}

/// Whether any name can be in a text: a glance at its bytes, where [`Found`] takes it apart. A stop counts only
/// within a word, as in `notes.md`: almost every sentence ends in one.
pub fn may_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let within = |at: usize| bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric);
    bytes.iter().enumerate().any(|(at, byte)| tells_a_name(*byte) && (*byte != b'.' || within(at)))
}

/// The words of a text as names are made of them.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_separator).map(trimmed).filter(|word| !word.is_empty())
}

/// Whether a text says something that could be looked up or got wrong: a name, a number, a date. Known by a
/// glance: a word with a digit, a path, an address, or a capital that begins no sentence.
pub fn is_definite(text: &str) -> bool {
    let mut begins = true;
    text.split_whitespace().any(|word| {
        let bare = word.trim_start_matches(|character: char| !character.is_alphanumeric());
        let named = word.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b'/' | b'@' | b'_'));
        let capital =
            !begins && bare.chars().count() > 1 && bare.chars().next().is_some_and(char::is_uppercase);
        begins = word.ends_with(['.', '!', '?', ':', '…']);
        named || capital
    })
}

fn named(word: &str) -> Option<(Form, &str)> {
    if word.len() < 2 || word.len() > LENGTH_MAX || !word.bytes().any(tells_a_name) {
        return None;
    }
    match word.split_once('=') {
        _ if word.contains("://") => Some((Form::Name, word)), // an address may hold anything
        Some((_, value)) => named(trimmed(value)),             // `--file=/x`, `id=42a`
        None if is_path(word) => Some((Form::Path, word)),
        None => is_name(word).then_some((Form::Name, word)),
    }
}

fn is_path(word: &str) -> bool {
    let rooted = ["/", "~/", "./", "../"].iter().any(|root| word.starts_with(root));
    let drive = word.as_bytes().get(1..3) == Some(b":\\");
    let has_letter = word.chars().any(char::is_alphabetic);
    has_letter && (drive || (rooted && word.len() > 2) || is_file_name(word) || is_deep(word))
}

/// `fuzz/corpus/seed`; not `and/or`.
fn is_deep(word: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    word.split('/').count() > 2 && word.split('/').all(is_part)
}

/// `src/main.rs`, `notes.md`; not `e.g`, `1.2.3` or `example.`
fn is_file_name(word: &str) -> bool {
    let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let Some((stem, extension)) = last.rsplit_once('.') else { return false };
    let plain = extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let begins = extension.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    stem.len() > 1 && plain && begins && extension.len() <= 5 && !word.contains('@') && !word.contains(':')
}

fn is_name(word: &str) -> bool {
    let bytes = word.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = word.chars().any(char::is_alphabetic);
    if let Some((user, host)) = word.split_once('@') {
        return !user.is_empty() && host.contains('.');
    }
    if word.starts_with(['$', '€', '£', '¥', '#', '@']) {
        return word.chars().count() > 1 && (digits > 0 || word.starts_with(['#', '@']));
    }
    if digits == 0 {
        return false;
    }
    let joined = word.contains(['-', '_', '.', ':', '/', '#', '%', '€', '$']);
    let hexadecimal = word.len() >= 7 && bytes.iter().all(u8::is_ascii_hexdigit);
    let number = digits >= 3 && !letters;
    hexadecimal
        || number
        || (joined && digits >= 1 && word.chars().count() >= 3)
        || (letters && word.len() >= 3)
}

fn is_number(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn is_unit(word: &str) -> bool {
    let length = word.chars().count();
    let capitals = (2..=4).contains(&length) && word.chars().all(|character| character.is_ascii_uppercase());
    capitals || matches!(word, "%" | "€" | "$" | "ms" | "kg" | "km" | "euros" | "dollars")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_things_are_told_from_words() {
        let text = "Deployed v2.4.1 (commit 3f2a9c1) to https://prod.example.org/x, ticket PROJ-123, invoice \
            INV-2026-0042 over 1200 EUR and €35; wrote `src/main.rs`, /etc/app.conf, fuzz/corpus/seed and/or ~/notes.md at 14:30 on \
            2026-05-12. Mail ann@example.org, room #ops, message_id=88123. This is e.g. a plain sentence, isn't it?";
        let found = Found::in_text(text);
        assert_eq!(found.paths, ["src/main.rs", "/etc/app.conf", "fuzz/corpus/seed", "~/notes.md"]);
        assert_eq!(
            found.names,
            [
                "v2.4.1",
                "3f2a9c1",
                "https://prod.example.org/x",
                "PROJ-123",
                "INV-2026-0042",
                "1200",
                "1200 EUR",
                "€35",
                "14:30",
                "2026-05-12",
                "ann@example.org",
                "#ops",
                "88123"
            ]
        );
    }

    /// The glance sees all that the closer look finds.
    #[test]
    fn no_name_is_in_a_text_that_cannot_name_one() {
        let parts = [
            "a", "bc", ".", "..", "/", "\\", "@", "#", "=", "7", "12", " ", "://", "é", "~", "$", "-", ":",
            "EUR",
        ];
        let count = parts.len();
        for text in (0..count.pow(4)).map(|number| {
            let place = |power: u32| parts[number / count.pow(power) % count];
            [place(0), place(1), place(2), place(3)].concat()
        }) {
            assert!(may_name(&text) || words(&text).all(|word| named(word).is_none()), "{text:?}");
        }
        assert!(may_name("see notes.md") && may_name("at 3") && !may_name("Go on. And the rest... please."));
    }

    #[test]
    fn something_definite_is_told_from_an_encouragement() {
        for text in
            ["Take 3.", "ask Ingrid", "see src/lib", "am Freitag bei Frau Petersen", "KR-350 にします"]
        {
            assert!(is_definite(text), "{text}");
        }
        for text in ["Go on. Please continue.", "And the rest?", "続けてください。", "I see", ""] {
            assert!(!is_definite(text), "{text}");
        }
    }

    #[test]
    fn each_is_named_once_and_not_without_end() {
        let text: String = (0..2000).map(|n| format!("file{n}.txt file{n}.txt ")).collect();
        assert_eq!(Found::in_text(&text).paths.len(), EACH_MAX);
    }
}
