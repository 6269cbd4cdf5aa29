//! What is sent and what comes in here is foreign text: each function of it is linear.

use super::{cursor::Cursor, reading, split};
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("discord::split::parts", |text| _ = split::parts(text)),
        ("discord::split::shortened", |text| _ = split::shortened(text)),
        ("discord::reading::thread_name", |text| _ = reading::thread_name(text)),
        ("discord::cursor::Cursor::parse", |text| _ = Cursor::parse(text)),
    ]);
}
