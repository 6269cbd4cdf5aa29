//! Foreign text as people may be shown it, in a terminal and in a chat.

use std::borrow::Cow;

/// `text` as it may be shown: line breaks and tabs stay, every other control character becomes a
/// picture of itself, so that no message can move the cursor or rename the window.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_harmless) {
        return text.into();
    }
    let text = text.replace("\r\n", "\n");
    text.chars().map(|c| if is_harmless(c) { c } else { picture(c) }).collect::<String>().into()
}

/// `text` on one line.
pub fn one_line(text: &str) -> String {
    visible(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

fn picture(c: char) -> char {
    match u32::from(c) {
        low @ 0..=0x1f => char::from_u32(0x2400 + low).unwrap_or(char::REPLACEMENT_CHARACTER),
        0x7f => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    }
}
