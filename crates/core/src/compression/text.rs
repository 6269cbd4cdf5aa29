//! Text cut to size: by characters, by tokens, to one line. Cuts never split a character, and each
//! leaves a sign that something is missing.

use super::text_tokens;
use std::borrow::Cow;

/// Stands where the middle of a text was left out.
const GAP: &str = "\n...[truncated]...\n";

/// The beginning of `text`, of at most so many tokens.
pub fn within_tokens(text: &str, tokens: u64) -> Cow<'_, str> {
    if text_tokens(text) <= tokens {
        return Cow::Borrowed(text);
    }
    let kept = fitting(text.chars(), (tokens * 4).saturating_sub(quarters('…')));
    match tokens {
        0 => Cow::Borrowed(""),
        _ => Cow::Owned(format!("{}…", text[..kept].trim_end())),
    }
}

/// Stands where words were left out within a line.
const ELLIPSIS: &str = " … ";
/// What it weighs, rounded up.
const ELLIPSIS_TOKENS: u64 = 1;

/// The beginning and the end of `text`, of at most so many tokens together; two thirds of it the beginning.
pub fn ends_within_tokens(text: &str, tokens: u64) -> Cow<'_, str> {
    if text_tokens(text) <= tokens {
        return Cow::Borrowed(text);
    }
    let quarters = tokens.saturating_sub(ELLIPSIS_TOKENS) * 4;
    let (head, tail) = (quarters * 2 / 3, quarters / 3);
    let head = &text[..fitting(text.chars(), head)];
    let tail = &text[text.len() - fitting(text[head.len()..].chars().rev(), tail)..];
    // Half a word, or half a number, may be another one.
    let whole = head.rfind(is_gap).map_or(head, |end| &head[..end]);
    let head = if head.len() - whole.len() <= WORD_MAX { whole } else { head };
    let whole = tail.find(is_gap).map_or(tail, |start| &tail[start..]);
    let tail = if tail.len() - whole.len() <= WORD_MAX { whole } else { tail };
    match tokens {
        0 => Cow::Borrowed(""),
        _ => Cow::Owned(format!("{}{ELLIPSIS}{}", head.trim_end(), tail.trim_start_matches(is_gap))),
    }
}

/// So much is given up for the sake of a whole word, in bytes.
const WORD_MAX: usize = 40;

fn is_gap(character: char) -> bool {
    character.is_whitespace() || matches!(character, '。' | '、' | '，')
}

/// How many bytes the first of these characters take that weigh at most so many quarters of a token.
fn fitting(characters: impl Iterator<Item = char>, mut left: u64) -> usize {
    let fits = |character: &char| {
        let weight = quarters(*character);
        let enough = weight <= left;
        left = left.saturating_sub(weight);
        enough
    };
    characters.take_while(fits).map(char::len_utf8).sum()
}

/// What a character weighs in quarters of a token, as [`text_tokens`] counts.
fn quarters(character: char) -> u64 {
    match character as u32 {
        0..0x0250 => 1,
        0x0250..0x2e80 => 2,
        _ => 4,
    }
}

/// The beginning and the end of a text that is longer than `most` characters.
pub fn both_ends(text: &str, most: usize, head: usize, tail: usize) -> Cow<'_, str> {
    if text.len() <= most || text.chars().nth(most).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{GAP}{}", first(text, head), last(text, tail)))
}

/// The first so many characters.
pub fn first(text: &str, characters: usize) -> &str {
    if text.len() <= characters {
        return text;
    }
    if text.as_bytes()[..characters].is_ascii() {
        return &text[..characters]; // a character a byte, and the next one begins there
    }
    match text.char_indices().nth(characters) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

fn last(text: &str, characters: usize) -> &str {
    match characters.checked_sub(1).and_then(|before| text.char_indices().rev().nth(before)) {
        Some((start, _)) => &text[start..],
        None if characters == 0 => "",
        None => text,
    }
}

/// At most so many characters on one line. Reads no further than it needs.
pub fn one_line(text: &str, most: usize) -> String {
    if text.len() <= most && is_one_line(text.as_bytes()) {
        return text.to_owned();
    }
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        if word.len() <= most.saturating_sub(length) {
            line.push_str(word); // no more characters than bytes
            length += word.chars().count();
            continue;
        }
        for character in word.chars() {
            if length >= most {
                line.truncate(line.trim_end().len());
                line.push('…');
                return line;
            }
            line.push(character);
            length += 1;
        }
    }
    line
}

/// Whether it is one line already: no blank but single ones between words. True of plain characters only,
/// which is enough to spare most texts being taken apart.
fn is_one_line(bytes: &[u8]) -> bool {
    let mut before = b' ';
    let tidy = bytes.iter().all(|byte| {
        let fits = matches!(byte, b'!'..=b'~') || (*byte == b' ' && before != b' ');
        before = *byte;
        fits
    });
    tidy && (before != b' ' || bytes.is_empty())
}

/// The sentences and lines of a text, each with what ends it. A stop within a word ends nothing.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut characters = rest.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            let mut before_blank = || characters.peek().is_none_or(|(_, next)| next.is_whitespace());
            let ends = match character {
                '\n' | '。' | '！' | '？' => true,
                '.' | '!' | '?' => before_blank(),
                _ => false,
            };
            if ends {
                let (sentence, after) = rest.split_at(at + character.len_utf8());
                rest = after;
                return Some(sentence);
            }
        }
        (!rest.is_empty()).then(|| std::mem::take(&mut rest))
    })
}

/// How many characters a text has, with separators: `12,345 chars`.
pub fn size(text: &str) -> String {
    let digits = text.chars().count().to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped} chars")
}

/// Tags between which models write down what they think.
const THOUGHTS: [&str; 5] = ["think", "thinking", "reasoning", "reasoning_scratchpad", "thought"];

/// `text` without inline blocks of thinking. One that is never closed goes on to the end if it begins a
/// line; a tag that a sentence merely mentions takes nothing else with it.
pub fn without_thinking(text: &str) -> Cow<'_, str> {
    if !text.contains('<') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let (mut copied, mut at) = (0, 0);
    let mut never_closed = [false; THOUGHTS.len()]; // looked for once, so that work stays linear
    let first_word = text.len() - text.trim_start().len();
    while let Some(found) = text[at..].find('<') {
        let start = at + found;
        at = start + 1;
        let Some(tag) = tag_at(&text[start..]) else { continue };
        out.push_str(&text[copied..start]);
        let after = start + tag.length;
        let close = match tag.closes || never_closed[tag.kind] {
            true => None,
            false => closing(&text[after..], tag.kind),
        };
        never_closed[tag.kind] |= !tag.closes && close.is_none();
        let begins_line = start <= first_word || text[..start].trim_end_matches([' ', '\t']).ends_with('\n');
        copied = match close {
            Some(end) => after + end,
            None if !tag.closes && begins_line => text.len(),
            None => after,
        };
        at = copied;
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

struct Tag {
    kind: usize,
    closes: bool,
    length: usize,
}

fn tag_at(text: &str) -> Option<Tag> {
    let inner = text.strip_prefix('<')?;
    let (closes, inner) = match inner.strip_prefix('/') {
        Some(rest) => (true, rest),
        None => (false, inner),
    };
    let kind = THOUGHTS.iter().position(|name| {
        let bytes = inner.as_bytes();
        bytes.len() > name.len()
            && bytes[..name.len()].eq_ignore_ascii_case(name.as_bytes())
            && bytes[name.len()] == b'>'
    })?;
    Some(Tag { kind, closes, length: 1 + usize::from(closes) + THOUGHTS[kind].len() + 1 })
}

fn closing(text: &str, kind: usize) -> Option<usize> {
    let ends = text.match_indices("</").filter_map(|(start, _)| {
        let tag = tag_at(&text[start..])?;
        (tag.kind == kind).then_some(start + tag.length)
    });
    ends.into_iter().next()
}

/// Says to a surface: attach this file. In a summary it would be said again.
const MEDIA: &str = "MEDIA:";

pub fn without_media(text: &str) -> Cow<'_, str> {
    if !text.contains(MEDIA) {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split(MEDIA);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(char::is_whitespace).unwrap_or(piece.len());
        out.push_str(if end == 0 { MEDIA } else { "[media attachment]" });
        out.push_str(&piece[end..]);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn thinking_is_left_out_and_mentions_of_it_are_not() {
        for (text, kept) in [
            ("plain", "plain"),
            ("<think>a\nb</think>answer", "answer"),
            ("one <THINKING>x</thinking> two", "one  two"),
            ("<reasoning>never closed", ""),
            ("said\n  <think>never closed", "said\n  "),
            ("the <think> tag in prose", "the  tag in prose"),
            ("stray</thought> end", "stray end"),
            ("a < b and <b>bold</b>", "a < b and <b>bold</b>"),
        ] {
            assert_eq!(without_thinking(text), kept, "{text:?}");
        }
    }

    #[test]
    fn directives_to_attach_files_are_left_out() {
        assert_eq!(without_media("see MEDIA:/tmp/a.png now"), "see [media attachment] now");
        assert_eq!(without_media("MEDIA: is a word"), "MEDIA: is a word");
    }

    proptest! {
        #[test]
        fn a_line_is_its_words_with_a_blank_between(text in "[ab.~ \\n\\t\u{a0}é]{0,12}") {
            let words: Vec<_> = text.split_whitespace().collect();
            prop_assert_eq!(one_line(&text, usize::MAX), words.join(" "));
            prop_assert!(one_line(&text, 4).chars().count() <= 5);
        }
    }

    #[test]
    fn a_size_is_easy_to_read() {
        assert_eq!(size("abc"), "3 chars");
        assert_eq!(size(&"x".repeat(1_234_567)), "1,234,567 chars");
    }

    proptest! {
        #[test]
        fn what_is_cut_to_tokens_fits(text in "\\PC{0,200}", tokens in 0u64..60) {
            let cut = within_tokens(&text, tokens);
            prop_assert!(text_tokens(&cut) <= tokens);
            let cut = ends_within_tokens(&text, tokens);
            prop_assert!(text_tokens(&cut) <= tokens, "{}", cut);
        }

        #[test]
        fn what_is_cut_to_characters_fits(text in "(?s).{0,80}", most in 1usize..90) {
            prop_assert!(one_line(&text, most).chars().count() <= most + 1);
            prop_assert!(!one_line(&text, most).contains('\n'));
            prop_assert!(both_ends(&text, most, most / 2, most / 4).chars().count() <= most + GAP.len());
        }

        #[test]
        fn any_text_loses_its_thoughts_in_peace(text in "(?s)(<think>|</think>|<thought>|</thought>|a|\n|é){0,40}") {
            let left = without_thinking(&text);
            prop_assert!(left.len() <= text.len());
        }
    }
}
