//! What is looked for, and what it is looked for in, is foreign text: each function of it is linear.

use super::*;
use std::hint::black_box;
use throughline_complexity::assert_linear;

fn found(text: &str) -> SearchCandidate {
    SearchCandidate {
        id: 1,
        session: "20260101_000000_00000000".parse().expect("this is an id"),
        role: "user".to_owned(),
        at: Time(0),
        text: text.to_owned(),
        index: None,
        demoted: false,
    }
}

/// What a search of this text may ask for: its words, and phrases of many.
fn terms(text: &str) -> Vec<String> {
    let phrase: String = text.chars().take(1000).collect();
    let mut terms = SearchQuery::parse(&format!("a \"{phrase}!\" aa \"a a a a b\" {phrase}")).terms;
    terms.push(format!("{}b", "a ".repeat(500)));
    terms
}

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("search::SearchQuery::parse", |text| _ = SearchQuery::parse(text).terms),
        ("search::like_pattern", |text| _ = like_pattern(text)),
        ("search::excerpt", |text| _ = excerpt(text, &terms(text))),
        ("search::ranked", |text| _ = ranked(vec![found(text), found("a")], &terms(text))),
        ("matcher::TextIndex::query", |text| _ = TextIndex::query(&[text.to_owned()])),
        ("matcher::TextIndex::matches of words", |text| {
            terms(text).into_iter().for_each(|term| _ = black_box(TextIndex::Words.matches(text, &[term])));
        }),
        ("matcher::TextIndex::matches of its half", |text| {
            let half = format!("{}b", &text[..text.floor_char_boundary(text.len() / 2)]);
            _ = black_box(TextIndex::Words.matches(text, &[half]));
        }),
        ("matcher::TextIndex::matches of trigrams", |text| {
            terms(text)
                .into_iter()
                .for_each(|term| _ = black_box(TextIndex::Trigrams.matches(text, &[term])));
        }),
    ]);
}
