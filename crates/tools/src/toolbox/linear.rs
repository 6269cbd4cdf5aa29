//! How a model spells a call, and what a tool brings in from outside, is foreign text: each function of it is linear.

use super::{tool_names, untrusted_result};
use crate::arguments;
use serde_json::json;
use throughline_complexity::assert_linear;

const NAMES: [&str; 4] = ["todo", "write_file", "browser_click", "terminal"];

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("arguments::parse", |text| _ = arguments::parse(text)),
        ("arguments::parse of an object", |text| _ = arguments::parse(&format!("{{\"a\": {text}}}"))),
        ("arguments::parse of a text", |text| _ = arguments::parse(&format!("{{\"a\": \"{text}\"}}"))),
        ("arguments::read", |text| {
            let schema = json!({"properties": {"a": {"type": ["integer", "object", "array"]}}, "required": ["a", "b"]});
            _ = arguments::read(&json!({ "a": text }).to_string(), &schema);
        }),
        ("toolbox::name::repaired", |text| _ = tool_names::repaired(text, || NAMES.into_iter())),
        ("toolbox::name::nearest", |text| _ = tool_names::nearest(text, &NAMES)),
        ("toolbox::stranger::marked", |text| _ = untrusted_result::marked("web_search", text.to_owned())),
    ]);
}
