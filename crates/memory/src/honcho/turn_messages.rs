//! A turn as the messages that Honcho keeps of it: what each side said, cut where it is too long.

use super::peer::SessionPeers;
use super::scrub::unfenced;
use crate::python_text::{chars, head};
use throughline_core::memory::Retention;

const CONTINUED: &str = "[continued] ";

/// One message. Its place in the turn is its number, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnMessage {
    pub number: u64,
    pub peer: String,
    pub content: String,
}

/// First what was said to the agent, then what it replied. Empty if nothing was.
pub fn parts(retention: &Retention, peers: &SessionPeers, chars_max: usize) -> Vec<TurnMessage> {
    let said = retention.said.iter().map(|text| (&peers.user, text));
    let texts = said.chain([(&peers.agent, &retention.replied)]);
    let pieces = texts.flat_map(|(peer, text)| {
        let pieces = split(&unfenced(text), chars_max).into_iter();
        pieces.map(move |content| (peer.clone(), content))
    });
    pieces.zip(1..).map(|((peer, content), number)| TurnMessage { number, peer, content }).collect()
}

/// Pieces of at most `chars_max` characters, cut at a paragraph, a sentence or a word if one ends in
/// the last two thirds of it.
pub fn split(text: &str, chars_max: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mark = if pieces.is_empty() { "" } else { CONTINUED };
        let room = chars_max.saturating_sub(mark.len()).max(1);
        let piece = head(rest, room);
        let end = if piece.len() == rest.len() { piece.len() } else { cut(piece, room) };
        let content = rest[..end].trim_end();
        if !content.is_empty() {
            pieces.push(format!("{mark}{content}"));
        }
        rest = rest[end..].trim_start();
    }
    pieces
}

fn cut(piece: &str, room: usize) -> usize {
    let paragraph = piece.rfind("\n\n");
    let sentence = piece.rfind(". ").map(|at| at + 2);
    let word = piece.rfind(' ');
    let is_late = |at: &usize| chars(&piece[..*at]) * 10 >= room * 3 && *at > 0;
    [paragraph, sentence, word].into_iter().flatten().find(is_late).unwrap_or(piece.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_message_is_cut_where_something_ends() {
        assert_eq!(split("short", 100), ["short"]);
        assert!(split("", 100).is_empty());
        let paragraphs = format!("{}\n\n{}", "a".repeat(60), "b".repeat(60));
        assert_eq!(split(&paragraphs, 100), ["a".repeat(60), format!("[continued] {}", "b".repeat(60))]);
        let sentences = format!("{}. {}", "a".repeat(60), "b".repeat(60));
        assert_eq!(split(&sentences, 100)[0], format!("{}.", "a".repeat(60)));
        assert_eq!(
            split(&"é".repeat(250), 100).iter().map(|piece| chars(piece)).collect::<Vec<_>>(),
            [100, 100, 74 + 12 - 12]
        );
    }

    proptest! {
        #[test]
        fn nothing_but_white_space_is_lost_and_no_piece_is_too_long(text in "[a-zé \n.]{0,400}", chars_max in 20usize..80) {
            let pieces = split(&text, chars_max);
            prop_assert!(pieces.iter().all(|piece| chars(piece) <= chars_max));
            let joined: String = pieces.iter().map(|piece| piece.trim_start_matches(CONTINUED)).collect();
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&joined), letters(&text));
        }
    }
}
