//! What a client has been shown of an answer, and what it must still be shown.
//!
//! A stream cannot take back what it said. When the model is asked anew (its connection broke, or
//! its tools have run), the new attempt usually begins with other words. Then the client gets a
//! blank line and the new attempt from its beginning: the whole answer, in one piece, is always the
//! end of what it has. An error would be wrong (the turn succeeded), silence would be worse (the
//! text would be of two halves that do not fit). As long as the new attempt repeats the old words,
//! it is held back, and a client sees nothing of it.
//!
//! A program that must have the answer and nothing else finds it apart: see [`StreamedText::is_torn`].

use std::borrow::Cow;

#[derive(Debug, Default)]
pub struct StreamedText {
    /// The last attempt the client has seen the beginning of.
    attempt: String,
    /// What the newest attempt has said so far, while it may still repeat the one before.
    repeating: Option<String>,
    torn: bool,
}

/// Stands between an attempt that was given up and the one that counts.
const TEAR: &str = "\n\n";

impl StreamedText {
    /// What to show of the next words.
    pub fn delta<'a>(&mut self, words: &'a str) -> Cow<'a, str> {
        let Some(repeating) = &mut self.repeating else {
            self.attempt.push_str(words);
            return Cow::Borrowed(words);
        };
        repeating.push_str(words);
        if self.attempt.starts_with(repeating.as_str()) {
            return Cow::Borrowed("");
        }
        let new = self.repeating.take().unwrap_or_default();
        Cow::Owned(self.go_on(new))
    }

    /// What was said so far is void.
    pub fn restart(&mut self) {
        if !self.attempt.is_empty() {
            self.repeating = Some(String::new());
        }
    }

    /// What to show so that the client has all of `answer`.
    pub fn finish(&mut self, answer: &str) -> String {
        self.repeating = None;
        let has_it = self.attempt.trim() == answer.trim(); // what is stored may have lost a newline
        if has_it {
            return String::new();
        }
        if !answer.is_empty() && self.attempt.ends_with(answer) {
            self.torn = true; // something came before it that does not belong to it
            return String::new();
        }
        self.go_on(answer.to_owned())
    }

    /// The client has seen words that are not part of the answer.
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    fn go_on(&mut self, attempt: String) -> String {
        let rest = match attempt.strip_prefix(self.attempt.as_str()) {
            Some(rest) => rest.to_owned(),
            None => {
                self.torn = true;
                format!("{TEAR}{attempt}")
            }
        };
        self.attempt = attempt;
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn play(steps: &[Option<&str>], answer: &str) -> (String, bool) {
        let mut shown = StreamedText::default();
        let mut seen = String::new();
        for step in steps {
            match step {
                Some(words) => seen.push_str(&shown.delta(words)),
                None => shown.restart(),
            }
        }
        seen.push_str(&shown.finish(answer));
        (seen, shown.is_torn())
    }

    #[test]
    fn the_answer_is_the_end_of_what_a_client_has_seen() {
        const AGAIN: Option<&str> = None;
        for (steps, answer, seen, torn) in [
            (vec![], "abc", "abc", false),                      // nothing was streamed
            (vec![Some("ab"), Some("c")], "abc", "abc", false), // the plain case
            (vec![Some("ab")], "abc", "abc", false),            // the rest was missed
            (vec![Some("abc\n")], "abc", "abc\n", false),       // trimmed by the store
            (vec![Some("ab"), AGAIN, Some("a"), Some("bc")], "abc", "abc", false), // repeated: not seen twice
            (vec![Some("ab"), AGAIN, AGAIN, Some("abc")], "abc", "abc", false), // twice
            (vec![Some("ab"), AGAIN, Some("xy"), Some("z")], "xyz", "ab\n\nxyz", true), // other words
            (vec![Some("ab"), AGAIN], "xyz", "ab\n\nxyz", true), // other words, not streamed
            (vec![Some("look. "), Some("abc")], "abc", "look. abc", true), // a remark before a tool ran
            (vec![AGAIN, Some("abc")], "abc", "abc", false),    // nothing to take back
        ] {
            assert_eq!(play(&steps, answer), (seen.to_owned(), torn), "{steps:?}");
        }
    }

    proptest! {
        #[test]
        fn p10_whatever_was_streamed_the_answer_arrives_whole(
            steps in prop::collection::vec(prop::option::of("[ab]{0,3}"), 0..12),
            answer in "[ab]{0,6}",
        ) {
            let steps: Vec<_> = steps.iter().map(Option::as_deref).collect();
            let (seen, torn) = play(&steps, &answer);
            prop_assert!(seen.ends_with(&answer), "{seen:?}");
            prop_assert!(torn || seen == answer, "{seen:?} is not {answer:?}, and the client is not told");
        }
    }
}
