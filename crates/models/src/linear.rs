//! What a server answers, and what a client says to be passed on, is foreign text: each function of it is linear.

use crate::fault::Said;
use crate::json;
use std::hint::black_box;
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("json::fields", |text| _ = json::fields(text)),
        ("json::fields of an object", |text| {
            let fields: Vec<_> = text.split(' ').map(|name| format!("{}:1", json::string(name))).collect();
            _ = json::fields(&format!("{{{}}}", fields.join(",")));
        }),
        ("json::elements", |text| _ = black_box(json::elements(text).is_some())),
        ("json::elements of a list", |text| _ = black_box(json::elements(&format!("[{text}1]")).is_some())),
        ("json::kind", |text| _ = json::kind(text)),
        ("json::arguments", |text| _ = json::arguments(text)),
        ("fault::Said::from_body", |text| _ = Said::from_body(text).words),
        ("fault::Said::from_body of a page", |text| _ = Said::from_body(&format!("<title>{text}")).words),
    ]);
}
