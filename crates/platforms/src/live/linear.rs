//! What a call is given is foreign text: showing it is linear.

use super::progress::ProgressLines;
use throughline_complexity::assert_linear;
use throughline_hermes::config::platforms::ToolProgress;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[("live::progress::Lines::add", |text| {
        let arguments = serde_json::json!({ "command": text }).to_string();
        for (mode, arguments) in [
            (ToolProgress::All, arguments.as_str()),
            (ToolProgress::Verbose, &arguments),
            (ToolProgress::All, text),
        ] {
            let mut progress = ProgressLines::new(mode, 40);
            progress.add("call", "terminal", arguments);
            _ = progress.news(false);
        }
    })]);
}
