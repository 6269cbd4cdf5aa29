//! What is sent to a memory service, and what comes from it, is foreign text: each function of it is linear.

use super::{scrub, session_name, turn_messages};
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("honcho::parts::split", |text| _ = turn_messages::split(text, 500)),
        ("honcho::fence::scrubbed", |text| _ = scrub::scrubbed(text)),
        ("honcho::name::valid", |text| {
            _ = (session_name::valid(text), session_name::id(text), session_name::bounded_id(text))
        }),
    ]);
}
