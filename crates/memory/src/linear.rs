//! What is remembered is foreign text: each function of it is linear.

use crate::entry_change::{EntryChange, usage};
use crate::memory_text::MemoryText;
use crate::tool_result;
use crate::{python_text as texts, threats, tool_arguments};
use serde_json::json;
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("threats::findings", |text| _ = threats::findings(text)),
        ("threats::refusal", |text| _ = threats::refusal(text)),
        ("document::Document", |text| {
            let document = MemoryText::parse(text);
            let mut draft = document.draft();
            draft.add(text);
            _ = (document.is_drifted(1000), document.render(&draft), draft.matching("a").len());
            _ = usage(document.entries(), 1000);
        }),
        ("change::Change::apply", |text| {
            let document = MemoryText::parse(&text.replace(' ', "\n§\n"));
            for change in [
                EntryChange::Replace { old_text: "w".to_owned(), content: "b".to_owned() },
                EntryChange::Remove { old_text: text.to_owned() },
                EntryChange::Add { content: text.to_owned() },
            ] {
                let outcome = change.flaw().map_or_else(|| change.apply(&document, 1000), Err);
                _ = outcome.map_err(|refused| tool_result::refused(&refused, document.entries(), 1000));
            }
        }),
        ("text::universal_newlines", |text| _ = texts::universal_newlines(text).into_owned()),
        ("text::preview", |text| _ = texts::preview(text, 100)),
        ("arguments::parse", |text| _ = tool_arguments::parse(text).is_ok()),
        ("arguments::parse of a text", |text| {
            let arguments = json!({"action": "add", "target": "memory", "content": text});
            _ = tool_arguments::parse(&arguments.to_string()).is_ok();
        }),
    ]);
}
