//! What is read to be summarised is foreign text: each function of it is linear.

use super::boundary::Boundary;
use super::deeds::{Status, described_as};
use super::identifiers::{Found, is_definite};
use super::summary::{self, Earlier};
use super::{arguments, digest, request, text as texts};
use crate::message::{Assistant, Body, Content, Message};
use crate::time::Time;
use std::hint::black_box;
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("text::within_tokens", |text| _ = texts::within_tokens(text, 100).into_owned()),
        ("text::ends_within_tokens", |text| _ = texts::ends_within_tokens(text, 100).into_owned()),
        ("text::both_ends", |text| _ = texts::both_ends(text, 100, 50, 50).into_owned()),
        ("text::one_line", |text| _ = texts::one_line(text, text.len())),
        ("text::sentences", |text| _ = black_box(texts::sentences(text).count())),
        ("text::size", |text| _ = texts::size(text)),
        ("text::without_thinking", |text| _ = texts::without_thinking(text).into_owned()),
        ("text::without_media", |text| _ = texts::without_media(text).into_owned()),
        ("arguments::fields", |text| _ = arguments::fields(text)),
        ("arguments::fields of an object", |text| _ = arguments::fields(&format!("{{\"a\":{text}"))),
        ("arguments::shortened", |text| _ = arguments::shortened(text, 100)),
        ("identifiers::Found", |text| _ = black_box(Found::in_text(text).is_empty())),
        ("identifiers::is_definite", |text| _ = black_box(is_definite(text))),
        ("deeds::Status::of", |text| _ = black_box(Status::of(text))),
        ("deeds::described_as", |text| _ = described_as(text, text)),
        ("summary::tidied", |text| _ = summary::tidied(text)),
        ("summary::without_marks", |text| _ = summary::without_marks(text).into_owned()),
        ("summary::without_sections", |text| _ = summary::without_sections(text, &["## Goal", "#", "a"])),
        ("summary::recorded_request", |text| _ = summary::recorded_request(text)),
        ("summary::Earlier::read", |text| _ = Earlier::read(&summary::text(text)).is_some()),
        ("request::fault", |text| _ = black_box(request::fault(text, 1000, text))),
        ("request::memory", |text| _ = request::memory(text)),
        // A digest quotes 64,000 characters of a message at most: beyond them it costs the same.
        ("digest::body", |text| _ = digest::body(&conversation(&text[..floor(text, 32_000)]), WHOLE, 2000)),
    ]);
}

/// Where a text is cut that is too long.
fn floor(text: &str, most: usize) -> usize {
    (0..=text.len().min(most)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

const WHOLE: Boundary = Boundary { from: 0, to: 2 };

fn conversation(text: &str) -> [Message; 3] {
    let answer = Assistant { content: Content::text(text), ..Assistant::default() };
    [
        Message::user(Time(0), Content::text(text)),
        Message::new(Time(1), Body::Assistant(answer)),
        Message::user(Time(2), Content::text(text)),
    ]
}
