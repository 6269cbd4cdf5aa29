//! What a model writes into a file, and what lies in one, is foreign text: each function of it is linear.

use super::{diff, fuzzy, lint, text as texts, v4a};
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
        ("files::lint::check of YAML", |text| _ = black_box(lint::check(Path::new("a.yaml"), text))),
        ("files::diff::unified", |text| _ = diff::unified(text, &text.replace('a', "b"), "a", "b")),
        ("files::diff::unified with little in common", |text| {
            _ = diff::unified(text, &text.chars().rev().collect::<String>(), "a", "b");
        }),
        ("files::fuzzy::replace of a line", |text| _ = fuzzy::replace(text, "some line", "x", false)),
        ("files::fuzzy::replace of its half", |text| {
            let half = text.floor_char_boundary(text.len() / 2);
            _ = fuzzy::replace(text, &format!("{}!", &text[..half]), "x", false);
        }),
        ("files::fuzzy::replace in little", |text| _ = fuzzy::replace("some line", text, "x", false)),
        ("files::fuzzy::replace of all", |text| _ = fuzzy::replace(text, "a", "bb", true)),
        ("files::fuzzy::hint", |text| {
            _ = fuzzy::hint("Could not find", &text[..text.floor_char_boundary(text.len() / 2)], text)
        }),
    ]);
}
