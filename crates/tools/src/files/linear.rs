//! What a model writes into a file, and what lies in one, is foreign text: each function of it is linear.
//!
//! Likeness is not: what changed between two files, and which section comes closest, is found as Python's `difflib` finds
//! it. Those have bounds instead (`diff::MIDDLE_LINES_MAX`, `fuzzy::PAIRS_MAX` and its kin), and run apart from the workers.

use super::{fuzzy, lint, text as texts, v4a};
use std::hint::black_box;
use std::path::Path;
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("files::v4a::parse", |text| _ = v4a::parse(text)),
        ("files::v4a::parse of a patch", |text| {
            _ = v4a::parse(&format!("*** Begin Patch\n*** Update File: a\n{text}\n*** End Patch"));
        }),
        ("files::text::lines", |text| _ = (texts::lines(text), texts::lines_with_ends(text))),
        ("files::text::with_ends", |text| _ = texts::with_ends(text, true).into_owned()),
        ("files::text::quoted", |text| _ = texts::quoted(text)),
        ("files::lint::check of JSON", |text| _ = black_box(lint::check(Path::new("a.json"), text))),
        ("files::fuzzy of a line", |text| strategies(text, "some line")),
        ("files::fuzzy of its half", |text| {
            strategies(text, &format!("{}!", &text[..text.floor_char_boundary(text.len() / 2)]));
        }),
        ("files::fuzzy of a letter", |text| strategies(text, "a")),
        ("files::fuzzy in little", |text| strategies("some line", text)),
    ]);
}

fn strategies(content: &str, old: &str) {
    fuzzy::STRATEGIES[..7].iter().for_each(|(_, find)| _ = black_box(find(content, old)));
}
