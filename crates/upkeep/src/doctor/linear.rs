//! What lies in a home is foreign text: each function of it is linear. Lines of logs are cut before
//! they are read; what reads them is in the table of `throughline_hermes` and `throughline_core`.

use super::{files, transcripts};
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("doctor::files::memory", |text| _ = files::memory("MEMORY.md", text, 2200).len()),
        ("doctor::files::memory of entries", |text| {
            _ = files::memory("MEMORY.md", &text.replace(' ', "\n§\n"), 2200).len();
        }),
        ("doctor::transcripts::list", |text| _ = transcripts::list(text).is_some()),
        ("doctor::transcripts::list of messages", |text| {
            let messages: Vec<_> =
                text.split(' ').map(|text| serde_json::json!({"role": "user", "content": text})).collect();
            _ = transcripts::list(&serde_json::json!({ "messages": messages }).to_string()).is_some();
        }),
    ]);
}
