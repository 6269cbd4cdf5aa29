//! What is sent and what comes in here is foreign text: each function of it is linear.

use super::update::{TelegramBot, without_our_name};
use super::{code_fence, format, reply_parts, send, split};
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("telegram::send::preview", |text| _ = send::preview(text)),
        // A text that is one piece is a special case.
        ("telegram::split::split", |text| {
            _ = split::split(&text.repeat(8)).iter().map(split::TelegramPiece::text).collect::<Vec<_>>();
        }),
        ("telegram::split::first", |text| _ = split::first(text).map(|piece| piece.text())),
        ("telegram::format::html", |text| _ = format::html(text)),
        ("telegram::reply_parts::items", |text| _ = reply_parts::items(text)),
        ("telegram::code_fence::left_open", |text| _ = code_fence::left_open(text)),
        ("telegram::update::without_our_name", |text| {
            let me = TelegramBot { id: 1, username: "a".to_owned() };
            _ = without_our_name(text, &me);
            _ = without_our_name(&format!("/{text}"), &me);
        }),
    ]);
}
