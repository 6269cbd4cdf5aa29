//! What is sent to a memory service, and what comes from it, is foreign text: each function of it is linear.

use super::{fence, name, parts};
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("honcho::parts::split", |text| _ = parts::split(text, 500)),
        ("honcho::fence::scrubbed", |text| _ = fence::scrubbed(text)),
        ("honcho::name::valid", |text| _ = (name::valid(text), name::id(text), name::bounded_id(text))),
    ]);
}
