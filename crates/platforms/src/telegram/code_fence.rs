//! Fenced code, as every part of this adapter reads it: the converter, the splitter and the tests.

/// More backticks than this open nothing. A bound, because what was opened is written again at the
/// top of every part that follows.
const LENGTH_MAX: usize = 8;
/// A language has a short name. A line with more behind its backticks is text.
const LANGUAGE_LENGTH_MAX: usize = 32;

/// The line that opened a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeFence {
    mark: char,
    length: usize,
    pub language: String,
}

impl CodeFence {
    /// Whether this line opens a block.
    pub fn opened_by(line: &str) -> Option<Self> {
        let line = line.trim();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = line.chars().take_while(|c| *c == mark).count();
        let language = line[length..].trim();
        let is_one = (3..=LENGTH_MAX).contains(&length)
            && language.len() <= LANGUAGE_LENGTH_MAX
            && !language.contains(['`', '~']);
        is_one.then(|| Self { mark, length, language: language.to_owned() })
    }

    /// Whether this line closes the block that was opened.
    pub fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        let length = line.chars().count();
        length >= self.length && length <= LENGTH_MAX && line.chars().all(|c| c == self.mark)
    }

    /// The line that opens the block once more.
    pub fn opening(&self) -> String {
        format!("{}{}\n", self.closing(), self.language)
    }

    pub fn closing(&self) -> String {
        std::iter::repeat_n(self.mark, self.length).collect()
    }
}

/// The block that is still open where `text` ends.
pub(crate) fn left_open(text: &str) -> Option<CodeFence> {
    text.lines().fold(None, |open: Option<CodeFence>, line| match open {
        Some(fence) if fence.is_closed_by(line) => None,
        Some(fence) => Some(fence),
        None => CodeFence::opened_by(line),
    })
}
