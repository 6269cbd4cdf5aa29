//! A skill may be a stranger's: each function of its text is linear.

use super::{frontmatter, render, replace};
use std::path::Path;
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("skills::frontmatter::parse", |text| _ = frontmatter::parse(text)),
        ("skills::frontmatter::parse of YAML", |text| {
            _ = frontmatter::parse(&format!("---\n{text}\n---\nbody"))
        }),
        ("skills::frontmatter::check", |text| {
            _ = frontmatter::check(&format!("---\nname: a\nd: {text}\n---\nbody"))
        }),
        ("skills::render::substituted", |text| _ = render::substituted(text, Some(Path::new("/a")), "s")),
        ("skills::replace::replaced", |text| _ = replace::replaced(text, "some line", "x", false)),
        ("skills::replace::replaced by its half", |text| {
            let half = text.floor_char_boundary(text.len() / 2);
            _ = replace::replaced(text, &format!("{}!", &text[..half]), "x", false);
        }),
    ]);
}
