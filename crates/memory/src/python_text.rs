//! Text as Python sees it, because Hermes reads and writes the same files.

use std::borrow::Cow;

/// What Python's `str.strip` takes for white space: Unicode's, and four old separators.
pub fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Line ends as Python's text mode reads them: `\r\n` and `\r` are `\n`.
pub fn universal_newlines(text: &str) -> Cow<'_, str> {
    match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    }
}

pub fn chars(text: &str) -> usize {
    text.chars().count()
}

/// The first characters, and nothing else.
pub fn head(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// The first characters of a longer text, with three dots.
pub fn preview(text: &str, width: usize) -> String {
    let shown = head(text, width);
    if shown.len() < text.len() { format!("{shown}...") } else { shown.to_owned() }
}

/// `2200` as `2,200`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in
            [(0, "0"), (7, "7"), (999, "999"), (1000, "1,000"), (22_000, "22,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_preview_counts_characters_and_marks_what_it_leaves_out() {
        assert_eq!(preview("äöü", 3), "äöü");
        assert_eq!(preview("äöüß", 3), "äöü...");
    }

    #[test]
    fn strip_knows_the_old_separators_that_python_knows() {
        assert_eq!(strip("\x1c\u{a0} a\u{200b}\x1f\n"), "a\u{200b}");
    }
}
