//! A text in pieces that Discord takes.
//!
//! The bodies of all pieces, one after the other, are the text. A piece that ends inside a block of
//! code closes it, and the next opens it again, in the same language. Files that a reply names on a
//! line of their own are pieces of their own, after all words.

use crate::media::tagged;

/// What Discord takes. It counts characters; counting the units of UTF-16 errs to the safe side.
pub const MESSAGE_UNITS_MAX: usize = 2_000;
/// A part leaves room for what the outbox may put before it when it is sent again.
const PART_UNITS_MAX: usize = 1_900;
/// How many files one message carries.
const FILES_MAX: usize = 10;
const FENCE: &str = "```";
/// A longer word behind a fence is no language.
const LANGUAGE_UNITS_MAX: usize = 40;

/// The parts of a reply: its words, then its files.
pub fn parts(text: &str) -> Vec<String> {
    let mut prose = String::new();
    let mut files: Vec<&str> = Vec::new();
    let mut fence = None;
    for line in text.split_inclusive('\n') {
        let file = fence.is_none().then(|| tagged(line)).flatten();
        turn(&mut fence, line);
        match file {
            Some(_) => files.push(line.trim()),
            None => prose.push_str(line),
        }
    }
    let pieces = split(&prose);
    // Discord refuses what is only white.
    let words = pieces.iter().filter(|piece| !piece.body.trim().is_empty()).map(DiscordPiece::text);
    words.chain(files.chunks(FILES_MAX).map(|lines| lines.join("\n"))).collect()
}

/// A stretch of the text, and what keeps its code a block.
#[derive(Debug, PartialEq, Eq)]
struct DiscordPiece<'a> {
    opened: Option<&'a str>,
    body: &'a str,
    closed: bool,
}

impl DiscordPiece<'_> {
    fn text(&self) -> String {
        let opening = self.opened.map(|language| format!("{FENCE}{language}\n")).unwrap_or_default();
        let line_end = if self.body.ends_with('\n') { "" } else { "\n" };
        match self.closed {
            true => format!("{opening}{}{line_end}{FENCE}", self.body),
            false => format!("{opening}{}", self.body),
        }
    }
}

fn split(text: &str) -> Vec<DiscordPiece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut fence: Option<&str> = None;
    while !rest.is_empty() {
        let opened = fence;
        let overhead = 2 * (FENCE.len() + 1) + opened.map_or(0, units);
        let end = cut(rest, PART_UNITS_MAX - overhead);
        let (body, after) = rest.split_at(end);
        for line in body.split_inclusive('\n') {
            turn(&mut fence, line);
        }
        let closed = fence.is_some() && !after.is_empty();
        pieces.push(DiscordPiece { opened, body, closed });
        rest = after;
    }
    pieces
}

/// Into a block of code, or out of it.
fn turn<'a>(fence: &mut Option<&'a str>, line: &'a str) {
    let Some(language) = line.trim_start().strip_prefix(FENCE) else { return };
    *fence = match fence {
        // `code` on the line of its fence is a block of its own.
        None if language.contains(FENCE) => None,
        None => Some(language.trim()).map(|word| if units(word) > LANGUAGE_UNITS_MAX { "" } else { word }),
        Some(_) => None,
    };
}

/// Where a piece of at most so many units ends: after a line, or a word, or wherever it must.
fn cut(text: &str, units_max: usize) -> usize {
    let mut used = 0;
    let full = text.char_indices().find(|(_, letter)| {
        used += letter.len_utf16();
        used > units_max
    });
    let Some((end, _)) = full else { return text.len() };
    let window = &text[..end];
    let after = |position: usize| position + 1;
    let line = window.rfind('\n').map(after).filter(|line| *line > end / 2);
    line.or_else(|| window.rfind(' ').map(after).filter(|word| *word > end / 4)).unwrap_or(end)
}

pub fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// The beginning of a text, for a message that will say it all later.
pub fn shortened(text: &str) -> String {
    if units(text) <= MESSAGE_UNITS_MAX {
        return text.to_owned();
    }
    let end = cut(text, MESSAGE_UNITS_MAX - 1);
    format!("{}…", text[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            "[a-z ]{0,80}",
            "[^\n]{0,300}",
            Just("```rust".to_owned()),
            Just("```".to_owned()),
            "(😀|ß|x){0,2500}",
        ];
        proptest::collection::vec(line, 0..60).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn splitting_loses_no_character(text in text()) {
            let bodies: String = split(&text).iter().map(|piece| piece.body).collect();
            prop_assert_eq!(bodies, text);
        }

        #[test]
        fn every_part_is_within_what_discord_takes_and_keeps_its_code_in_blocks(text in text()) {
            let parts = parts(&text);
            for (number, part) in parts.iter().enumerate() {
                prop_assert!(units(part) <= PART_UNITS_MAX, "{} units", units(part));
                prop_assert!(!part.trim().is_empty());
                let mut fence = None;
                part.lines().for_each(|line| turn(&mut fence, line));
                // Only what its writer left open is open at the end.
                prop_assert!(fence.is_none() || number + 1 == parts.len(), "{part}");
            }
        }

        #[test]
        fn the_same_text_always_gives_the_same_parts(text in text()) {
            prop_assert_eq!(parts(&text), parts(&text));
        }
    }

    #[test]
    fn code_is_closed_and_opened_again_in_its_language() {
        let text = format!("Look:\n```rust\n{}```\nDone.", "let x = 1;\n".repeat(400));
        let parts = parts(&text);
        assert_eq!(parts.len(), 3);
        assert!(parts[0].ends_with("let x = 1;\n```"));
        assert!(parts[1].starts_with("```rust\nlet x = 1;\n") && parts[1].ends_with("\n```"));
        assert!(parts[2].starts_with("```rust\n") && parts[2].ends_with("```\nDone."));
    }

    #[test]
    fn a_short_text_is_one_part_and_an_empty_one_none() {
        assert_eq!(parts("hello"), ["hello"]);
        assert!(parts("").is_empty());
        assert!(parts(" \n ").is_empty());
    }

    #[test]
    fn files_are_parts_of_their_own_but_not_inside_code() {
        let text = "Here:\nMEDIA:/tmp/a.png\n\nMEDIA:/tmp/b.png\nand\n```\nMEDIA:/tmp/c.png\n```";
        let words = "Here:\n\nand\n```\nMEDIA:/tmp/c.png\n```";
        assert_eq!(parts(text), [words, "MEDIA:/tmp/a.png\nMEDIA:/tmp/b.png"]);
        let many: Vec<String> = (0..23).map(|number| format!("MEDIA:/tmp/{number}")).collect();
        assert_eq!(parts(&many.join("\n")).len(), 3);
    }

    #[test]
    fn a_preview_fits() {
        assert_eq!(shortened("short"), "short");
        assert!(units(&shortened(&"😀 word ".repeat(2_000))) <= MESSAGE_UNITS_MAX);
    }
}
