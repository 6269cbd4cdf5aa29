//! A skill may be a stranger's: each function of its text is linear.
//!
//! Not here yet: what reads YAML (`frontmatter`), which still calls itself for every `: ` in a line.

use super::{render, replace};
use std::path::Path;
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("skills::render::substituted", |text| _ = render::substituted(text, Some(Path::new("/a")), "s")),
        ("skills::replace::replaced", |text| _ = replace::replaced(text, "some line", "x", false)),
        ("skills::replace::replaced by its half", |text| {
            let half = text.floor_char_boundary(text.len() / 2);
            _ = replace::replaced(text, &format!("{}!", &text[..half]), "x", false);
        }),
    ]);
}
