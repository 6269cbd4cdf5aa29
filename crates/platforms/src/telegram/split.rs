//! A long text in pieces that Telegram takes.
//!
//! - every character of the text is in exactly one piece, in order; only what is blank may be missing
//! - each piece fits as it is written and as it is sent, and leaves room for a word before it
//! - a block of code that is cut is closed, and opened again in the next piece
//!
//! Lengths are in UTF-16 units, which is how Telegram counts. Cuts are between characters, so no
//! pair of surrogates is ever divided.

use super::code_fence::{CodeFence, left_open};
use super::format::html;

/// What Telegram takes in one message.
pub(crate) const LENGTH_MAX: usize = 4096;
/// Left free for the mark on a reply that is sent again.
const RESERVE: usize = 96;
/// Room for the line that closes a block of code.
const CLOSING: usize = 10;
/// A text whose markup is longer than itself is cut shorter, but never below this.
const ROOM_MIN: usize = 256;

/// One message's worth of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TelegramPiece<'a> {
    /// Written again from the piece before.
    pub opening: String,
    pub body: &'a str,
    /// Added because the body ends inside a block.
    pub closing: String,
}

impl<'a> TelegramPiece<'a> {
    fn new(open: &Option<CodeFence>, body: &'a str) -> (Self, Option<CodeFence>) {
        let opening = open.as_ref().map(CodeFence::opening).unwrap_or_default();
        // Read as it will be read: by itself.
        let left = left_open(&format!("{opening}{body}"));
        let closing = left.as_ref().map(|fence| {
            let on_new_line = if body.ends_with('\n') { "" } else { "\n" };
            format!("{on_new_line}{}", fence.closing())
        });
        (Self { opening, body, closing: closing.unwrap_or_default() }, left)
    }

    pub fn text(&self) -> String {
        format!("{}{}{}", self.opening, self.body, self.closing)
    }
}

pub(crate) fn split(text: &str) -> Vec<TelegramPiece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut open = None;
    while !rest.is_empty() {
        let (piece, left) = next(&open, rest);
        rest = &rest[piece.body.len()..];
        open = left;
        // Telegram refuses a message that shows nothing.
        if !piece.body.trim().is_empty() {
            pieces.push(piece);
        }
    }
    pieces
}

/// As much as fits. Always at least one character, so that it ends.
/// The first piece alone: of a reply that is still being written, no more is shown.
pub(crate) fn first(text: &str) -> Option<TelegramPiece<'_>> {
    let blank = text.len() - text.trim_start().len();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, _) = next(&None, rest); // nothing but white stands before it, so no block is open
        if text.len() - rest.len() + piece.body.len() > blank {
            return Some(piece);
        }
        rest = &rest[piece.body.len()..];
    }
    None
}

fn next<'a>(open: &Option<CodeFence>, rest: &'a str) -> (TelegramPiece<'a>, Option<CodeFence>) {
    let opening = open.as_ref().map_or(0, |fence| units(&fence.opening()));
    let mut room = LENGTH_MAX - RESERVE - CLOSING - opening;
    loop {
        let (piece, left) = TelegramPiece::new(open, &rest[..cut(rest, room)]);
        let sent = units(&html(&piece.text()));
        match sent + RESERVE <= LENGTH_MAX || room <= ROOM_MIN {
            true => return (piece, left),
            // By as much as it is over, and a little more.
            false => room = (room * (LENGTH_MAX - RESERVE) / sent).min(room * 9 / 10).max(ROOM_MIN),
        }
    }
}

pub(crate) fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// The bytes of the longest beginning of at most this many units.
pub(crate) fn beginning(text: &str, room: usize) -> usize {
    let mut taken = 0;
    for (place, c) in text.char_indices() {
        taken += c.len_utf16();
        if taken > room {
            return place;
        }
    }
    text.len()
}

/// Where to cut: after a paragraph, a line, a word; or, where there is none, in the middle of one.
/// Only the later half is searched: a short piece is worse than an ugly cut.
fn cut(text: &str, room: usize) -> usize {
    let end = beginning(text, room);
    if end == text.len() {
        return end;
    }
    let half = text.floor_char_boundary(end / 2);
    let after = |mark: &str| text[half..end].rfind(mark).map(|place| half + place + mark.len());
    after("\n\n").or_else(|| after("\n")).or_else(|| after(" ")).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str) {
        let pieces = split(text);
        let joined: String = pieces.iter().map(|piece| piece.body).collect();
        assert_eq!(joined, text, "a character is missing, doubled or out of order");
        for piece in &pieces {
            let text = piece.text();
            assert!(units(&text) <= LENGTH_MAX, "{} units", units(&text));
            assert!(units(&html(&text)) <= LENGTH_MAX, "{} units as sent", units(&html(&text)));
            assert_eq!(left_open(&text), None, "a block is open at the end of {text:?}");
        }
    }

    #[test]
    fn a_text_that_fits_is_one_piece_as_it_was_written() {
        let text = "Hello *you*\n\n```rust\nfn main() {}\n```\n";
        let pieces: Vec<_> = split(text).iter().map(TelegramPiece::text).collect();
        assert_eq!(pieces, [text]);
    }

    #[test]
    fn a_long_block_of_code_is_closed_and_opened_again() {
        let code = "let x = 1;\n".repeat(900);
        let text = format!("Here:\n```rust\n{code}```\nDone.");
        let pieces = split(&text);
        assert!(pieces.len() > 2);
        assert!(pieces[0].text().ends_with("\n```"));
        assert!(pieces[1].text().starts_with("```rust\n"));
        assert!(pieces.last().unwrap().text().ends_with("Done."));
        check(&text);
    }

    #[test]
    fn a_gigantic_line_without_any_gap_is_cut_between_characters() {
        check(&"😀".repeat(50_000));
        check(&"<&>".repeat(20_000));
        check(&"`".repeat(10_000));
        check(&"*".repeat(10_000));
        check(&"~~~".repeat(5_000));
    }

    #[test]
    fn a_gigantic_text_is_cut_in_reasonable_time() {
        let before = std::time::Instant::now();
        check(&"a*b_c`d [x](y) ".repeat(70_000)); // a megabyte
        assert!(before.elapsed().as_secs() < 20);
    }

    #[test]
    fn nothing_blank_is_sent() {
        assert!(split("").is_empty());
        assert!(split(&"\n".repeat(9000)).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn every_character_stays_and_every_piece_fits(
            words in proptest::collection::vec(
                prop_oneof![
                    "[a-z]{1,12} ", "[A-Z😀é日<&>]{1,40}", Just("\n".to_owned()), Just("\n\nx".to_owned()),
                    Just("\n```rust\n".to_owned()), Just("\n```\n".to_owned()), Just("\n~~~\n".to_owned()),
                    Just("````".to_owned()), Just("**bold** _it_ `code` ".to_owned()),
                    Just("> quoted\n".to_owned()), Just("\n| a | b |\n|---|---|\n| 1 | 2 |\n".to_owned()),
                    Just("[a](https://b.c/d?e=f&g=h)".to_owned()),
                ],
                0..1500,
            )
        ) {
            // A piece of nothing but blanks is dropped; none of these texts begins or ends with so many.
            check(&format!("x{}x", words.concat()));
        }
    }
}
