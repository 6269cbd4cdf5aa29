//! What is delivered is foreign text: each function of it is linear.

use super::template::{filled, prompt};
use serde_json::{Value, json};
use throughline_complexity::assert_linear;

/// Arrays in arrays, as deep as a payload may be.
fn nested(text: &str) -> Value {
    (0..120).fold(json!(text.split(' ').collect::<Vec<_>>()), |inner, _| json!([inner]))
}

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("webhook::template::filled", |text| _ = filled(text, &json!({"a": "b"}), "e")),
        ("webhook::template::filled with the text", |text| {
            _ = filled("{a} {__raw__} {b}", &json!({"a": text, "b": [text]}), text);
        }),
        ("webhook::template::prompt", |text| _ = prompt("", &nested(text), text, "route")),
    ]);
}
