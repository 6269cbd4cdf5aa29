//! What a reply is made of, in order: texts, and files that stand on lines of their own.
//!
//! A path inside a block of code is an example and stays text.

use super::code_fence::CodeFence;
use crate::media;

/// Hermes' wishes for how a file is shown. They are for a gateway, not for people.
const WISHES: [&str; 2] = ["[[audio_as_voice]]", "[[as_document]]"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplyPart {
    /// With its line breaks: joined, the texts are the reply without its files.
    Text(String),
    /// A line that stands for a file.
    File(String),
}

pub(crate) fn items(text: &str) -> Vec<ReplyPart> {
    let mut items: Vec<ReplyPart> = Vec::new();
    let mut open: Option<CodeFence> = None;
    for line in text.split_inclusive('\n') {
        let is_text = open.is_some();
        open = match open {
            Some(fence) if fence.is_closed_by(line) => None,
            Some(fence) => Some(fence),
            None => CodeFence::opened_by(line),
        };
        if !is_text && WISHES.contains(&line.trim()) {
            continue;
        }
        let path = media::tagged(line).filter(|_| !is_text);
        match (path, items.last_mut()) {
            (Some(path), _) => items.push(ReplyPart::File(format!("MEDIA:{path}"))),
            (None, Some(ReplyPart::Text(text))) => text.push_str(line),
            (None, _) => items.push(ReplyPart::Text(line.to_owned())),
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_its_own_is_a_file_and_an_example_is_not() {
        let text = "Here:\nMEDIA:/a/b c.png\n`MEDIA:/x.ogg`\n[[audio_as_voice]]\nEnd MEDIA:/not/this\n\
                    ```\nMEDIA:/an/example\n```\nMEDIA:/last";
        assert_eq!(
            items(text),
            [
                ReplyPart::Text("Here:\n".to_owned()),
                ReplyPart::File("MEDIA:/a/b c.png".to_owned()),
                ReplyPart::File("MEDIA:/x.ogg".to_owned()),
                ReplyPart::Text("End MEDIA:/not/this\n```\nMEDIA:/an/example\n```\n".to_owned()),
                ReplyPart::File("MEDIA:/last".to_owned()),
            ]
        );
    }
}
