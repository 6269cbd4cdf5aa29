//! What is sent and what comes in here is foreign text: each function of it is linear.

use super::text;
use std::hint::black_box;
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("slack::text::parts", |text| _ = text::parts(text)),
        // Only what was cut into parts is translated.
        ("slack::text::mrkdwn of parts", |text| {
            text::parts(text).iter().for_each(|part| _ = text::mrkdwn(part));
        }),
        ("slack::text::clipped", |text| _ = text::clipped(text)),
        ("slack::text::plain", |text| _ = text::plain(text)),
        ("slack::text::without_leading_mention", |text| {
            _ = black_box(text::without_leading_mention(text, "1"));
        }),
        ("slack::text::mentions", |text| _ = black_box(text::mentions(text, "1"))),
    ]);
}
