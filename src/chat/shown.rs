//! What the screen shows of an answer, and what it must still show.
//!
//! A terminal does not take back what it printed. When the model is asked anew, what repeats is
//! held back; where the new attempt says something else, the old one ends in an ellipsis and the
//! new one follows from its beginning. So the whole answer, in one piece, is always the end of what
//! was printed.

/// Stands between an attempt that was given up and the one that counts.
const TEAR: &str = "…\n\n";

#[derive(Debug, Default)]
pub struct Shown {
    /// The last attempt whose beginning was printed.
    attempt: String,
    /// What the newest attempt has said so far, while it may still repeat the one before.
    repeating: Option<String>,
}

impl Shown {
    /// What to print of the next words.
    pub fn delta(&mut self, words: &str) -> String {
        let Some(repeating) = &mut self.repeating else {
            self.attempt.push_str(words);
            return words.to_owned();
        };
        repeating.push_str(words);
        if self.attempt.starts_with(repeating.as_str()) {
            return String::new();
        }
        let attempt = std::mem::take(repeating);
        self.go_on(attempt)
    }

    /// The words come again from the beginning, perhaps others.
    pub fn restart(&mut self) {
        if !self.attempt.is_empty() {
            self.repeating = Some(String::new());
        }
    }

    /// What to print so that all of `answer` is there.
    pub fn finish(&mut self, answer: &str) -> String {
        let printed = self.attempt.trim_end(); // what is stored may have lost a line break
        let is_there = match self.repeating.take() {
            Some(_) => printed == answer.trim_end(),
            None => printed.ends_with(answer.trim_end()), // behind a remark, perhaps
        };
        if is_there { String::new() } else { self.go_on(answer.to_owned()) }
    }

    /// Nothing has been printed yet.
    pub fn is_empty(&self) -> bool {
        self.attempt.is_empty()
    }

    fn go_on(&mut self, attempt: String) -> String {
        self.repeating = None;
        let rest = match attempt.strip_prefix(self.attempt.as_str()) {
            Some(rest) => rest.to_owned(),
            None => format!("{TEAR}{attempt}"),
        };
        self.attempt = attempt;
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AGAIN: Option<&str> = None;

    fn printed(steps: &[Option<&str>], answer: &str) -> String {
        let mut shown = Shown::default();
        let mut printed = String::new();
        for step in steps {
            match step {
                Some(words) => printed.push_str(&shown.delta(words)),
                None => shown.restart(),
            }
        }
        printed + &shown.finish(answer)
    }

    #[test]
    fn what_repeats_is_printed_once() {
        for (steps, answer, expected) in [
            (vec![], "abc", "abc"),                                         // nothing was streamed
            (vec![Some("ab"), Some("c")], "abc", "abc"),                    // the plain case
            (vec![Some("ab")], "abc", "abc"),                               // the rest was missed
            (vec![Some("abc\n")], "abc", "abc\n"),                          // trimmed by the store
            (vec![Some("ab"), AGAIN, Some("a"), Some("bc")], "abc", "abc"), // the same words
            (vec![Some("ab"), AGAIN, AGAIN, Some("abc")], "abc", "abc"),    // twice
            (vec![Some("ab"), AGAIN, Some("xy"), Some("z")], "xyz", "ab…\n\nxyz"), // other words
            (vec![Some("ab"), AGAIN], "xyz", "ab…\n\nxyz"),                 // other words, not streamed
            (vec![Some("look. "), AGAIN, Some("abc")], "abc", "look. …\n\nabc"), // a tool ran in between
            (vec![AGAIN, Some("abc")], "abc", "abc"),                       // nothing to take back
            (vec![Some("ab"), AGAIN, Some("xy"), AGAIN, Some("xyz")], "xyz", "ab…\n\nxyz"),
            (vec![Some("banana"), AGAIN], "na", "banana…\n\nna"), // its end by chance
            (vec![Some("ab")], "", "ab"),                         // only a remark was made
        ] {
            assert_eq!(printed(&steps, answer), expected, "{steps:?}");
        }
    }

    proptest! {
        #[test]
        fn p10_whatever_was_streamed_the_answer_is_printed_whole(
            steps in prop::collection::vec(prop::option::of("[ab]{0,3}"), 0..12),
            answer in "[ab]{0,6}",
        ) {
            let steps: Vec<_> = steps.iter().map(Option::as_deref).collect();
            let printed = printed(&steps, &answer);
            prop_assert!(printed.ends_with(&answer), "{printed:?}");
        }
    }
}
