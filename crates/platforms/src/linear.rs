//! What people write and what agents answer is foreign text: each function of it is linear. What only one platform
//! does is in that platform's own table.

use crate::media;
use std::hint::black_box;
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("media::tagged", |text| _ = black_box(media::tagged(text))),
        ("media::all_tagged", |text| _ = media::all_tagged(text)),
    ]);
}
