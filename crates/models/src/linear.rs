//! What a server answers, and what a client says to be passed on, is foreign text: each function of it is linear.

use crate::json;
use crate::provider_error::Complaint;
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
        ("provider_error::Complaint::from_body", |text| _ = Complaint::from_body(text).words),
        ("provider_error::Complaint::from_body of a page", |text| {
            _ = Complaint::from_body(&format!("<title>{text}")).words
        }),
    ]);
}
