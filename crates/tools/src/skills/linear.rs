//! What stands in a skill is foreign text, and so is what a model writes into one: each function of it is linear.

#[cfg(unix)]
use super::render::commands;
use super::render::{replaced as without_commands, substituted};
use super::replace::replaced;
use super::{frontmatter, guard, pending, view};
use serde_json::json;
use std::path::Path;
use throughline_complexity::assert_linear;

fn parsed(yaml: &str) {
    let (fields, _) = frontmatter::parse(&format!("---\n{yaml}\n---\nwords\n"));
    _ = view::required_variables(&fields);
    _ = frontmatter::tags(fields.get("tags"));
}

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("skills::frontmatter::parse", |text| _ = frontmatter::parse(text)),
        ("skills::frontmatter::parse of fields", parsed),
        ("skills::frontmatter::parse of a value", |text| parsed(&format!("tags: {text}"))),
        ("skills::frontmatter::parse without an end", |text| _ = frontmatter::parse(&format!("---\n{text}"))),
        ("skills::frontmatter::check", |text| _ = frontmatter::check(&format!("---\n{text}\n---\nwords"))),
        ("skills::view::required_variables", |text| {
            let names: Vec<_> = text.split(' ').collect();
            let fields = json!({"setup": {"help": text}, "required_environment_variables": names});
            _ = fields.as_object().map(view::required_variables);
        }),
        ("skills::render::substituted", |text| _ = substituted(text, Some(Path::new("/d")), "session")),
        #[cfg(unix)]
        ("skills::render::commands", |text| _ = commands(text)),
        ("skills::render::replaced", |text| _ = without_commands(text, "words")),
        ("skills::replace::replaced of a line", |text| _ = replaced(text, "a line", "b", true)),
        ("skills::replace::replaced of its half", |text| {
            _ = replaced(text, &format!("{}!", &text[..text.floor_char_boundary(text.len() / 2)]), "b", true);
        }),
        ("skills::replace::replaced of a letter", |text| _ = replaced(text, "a", "b", true)),
        ("skills::replace::replaced in little", |text| _ = replaced("a line", text, "b", true)),
        ("skills::guard::findings", |text| _ = guard::findings("a.md", text).len()),
        ("skills::pending::gist", |text| {
            _ = pending::gist(&json!({"action": "create", "name": "a", "content": text}));
        }),
    ]);
}
