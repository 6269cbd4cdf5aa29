//! What is sent and what comes in here is foreign text: each function of it is linear.

use super::update::{Me, without_our_name};
use super::{fence, format, item, post, split};
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("telegram::post::preview", |text| _ = post::preview(text)),
        // A text that is one piece is a special case.
        ("telegram::split::split", |text| {
            _ = split::split(&text.repeat(8)).iter().map(split::Piece::text).collect::<Vec<_>>();
        }),
        ("telegram::split::first", |text| _ = split::first(text).map(|piece| piece.text())),
        ("telegram::format::html", |text| _ = format::html(text)),
        ("telegram::item::items", |text| _ = item::items(text)),
        ("telegram::fence::left_open", |text| _ = fence::left_open(text)),
        ("telegram::update::without_our_name", |text| {
            let me = Me { id: 1, username: "a".to_owned() };
            _ = without_our_name(text, &me);
            _ = without_our_name(&format!("/{text}"), &me);
        }),
    ]);
}
