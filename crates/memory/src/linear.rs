//! What is remembered is foreign text: each function of it is linear.

use crate::answer;
use crate::change::{Change, usage};
use crate::document::Document;
use crate::{arguments, text as texts, threats};
use serde_json::json;
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("threats::findings", |text| _ = threats::findings(text)),
        ("threats::refusal", |text| _ = threats::refusal(text)),
        ("document::Document", |text| {
            let document = Document::parse(text);
            let mut draft = document.draft();
            draft.add(text);
            _ = (document.is_drifted(1000), document.render(&draft), draft.matching("a").len());
            _ = usage(document.entries(), 1000);
        }),
        ("change::Change::apply", |text| {
            let document = Document::parse(&text.replace(' ', "\n§\n"));
            for change in [
                Change::Replace { old_text: "w".to_owned(), content: "b".to_owned() },
                Change::Remove { old_text: text.to_owned() },
                Change::Add { content: text.to_owned() },
            ] {
                let outcome = change.flaw().map_or_else(|| change.apply(&document, 1000), Err);
                _ = outcome.map_err(|refused| answer::refused(&refused, document.entries(), 1000));
            }
        }),
        ("text::universal_newlines", |text| _ = texts::universal_newlines(text).into_owned()),
        ("text::preview", |text| _ = texts::preview(text, 100)),
        ("arguments::parse", |text| _ = arguments::parse(text).is_ok()),
        ("arguments::parse of a text", |text| {
            let arguments = json!({"action": "add", "target": "memory", "content": text});
            _ = arguments::parse(&arguments.to_string()).is_ok();
        }),
    ]);
}
