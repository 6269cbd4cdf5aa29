//! What is sent and what comes in here is foreign text: each function of it is linear.

use super::{cursor::Cursor, event, split};
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("discord::split::parts", |text| _ = split::parts(text)),
        ("discord::split::shortened", |text| _ = split::shortened(text)),
        ("discord::event::thread_name", |text| _ = event::thread_name(text)),
        ("discord::cursor::Cursor::parse", |text| _ = Cursor::parse(text)),
    ]);
}
