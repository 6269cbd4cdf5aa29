//! What lies in a home may come from anyone: each function of it is linear.

use crate::call::calls_from_json;
use crate::config::{Config, Place, edit, excerpt, legacy_resets};
use crate::content::content_from_json;
use crate::env::Dotenv;
use crate::lock::{Record, is_gateway};
use crate::message::message_from_json;
use crate::sessions_json::Index;
use crate::{entry, json, log, pairing, state, title, unsupported};
use std::hint::black_box;
use throughline_complexity::assert_linear;

fn dotenv(text: &str) {
    _ = Dotenv::parse(text.as_bytes(), &|name| (name == "a").then(|| "b".to_owned())).warnings.len();
}

fn config(text: &str) {
    _ = Config::parse(text, &|name| (name == "a").then(|| "b".to_owned())).is_ok();
}

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("json::read", |text| _ = json::read(text).is_some()),
        ("json::read of a list", |text| _ = json::read(&format!("[{text}1]")).is_some()),
        ("json::read of an object", |text| _ = json::read(&format!("{{\"a\":{text}}}")).is_some()),
        ("json::members", |text| _ = json::members(text)),
        ("json::members of an object", |text| {
            let fields: Vec<_> = text.split(' ').map(|name| format!("{}: 1", json::quote(name))).collect();
            _ = json::members(&format!("{{{}}}", fields.join(", ")));
        }),
        ("json::items", |text| _ = json::items(text)),
        ("json::items of a list", |text| _ = json::items(&format!("[{text}1]"))),
        ("calls_from_json", |text| _ = calls_from_json(&format!("[{text}1]"))),
        ("content_from_json", |text| _ = content_from_json(text)),
        ("content_from_json of a list", |text| _ = content_from_json(&format!("[{text}1]"))),
        ("message_from_json", |text| _ = message_from_json(text).is_ok()),
        ("message_from_json of an object", |text| {
            _ = message_from_json(&format!("{{\"role\": \"user\", \"content\": {text}}}")).is_ok();
        }),
        ("entry::entry_from_json", |text| _ = entry::entry_from_json(text).is_ok()),
        ("entry::is_key_unsafe", |text| {
            _ = black_box(entry::is_key_unsafe(text) | entry::is_path_unsafe(text))
        }),
        ("sessions_json::Index::parse", |text| _ = Index::parse(text).is_ok()),
        ("lock::Record::parse", |text| _ = Record::parse(text).is_some()),
        ("lock::is_gateway", |text| _ = black_box(is_gateway(text))),
        ("log::read", |text| _ = log::read(text).is_some()),
        ("log::read of a line", |text| {
            _ = log::read(&format!(
                "2026-01-02 03:04:05,678 INFO gateway.run: context compression started: {text}"
            ))
            .is_some();
        }),
        ("state::Directory", |text| _ = black_box(state::Directory::read(text).shown())),
        ("title::clean", |text| _ = title::clean(text).is_ok()),
        ("title::base", |text| _ = black_box(title::base(text))),
        ("unsupported::jobs", |text| _ = unsupported::jobs(text)),
        ("pairing::parse", |text| _ = pairing::parse(text).len()),
        ("env::Dotenv::parse", dotenv),
        ("env::Dotenv::parse of a value", |text| dotenv(&format!("A='{text}"))),
        ("env::Dotenv::parse of names", |text| {
            let lines = text.split(' ').map(|word| format!("{word}=${{{word}}}${{a}}\n"));
            dotenv(&lines.collect::<String>());
        }),
        ("env::Dotenv::parse of references", |text| dotenv(&format!("a={text}\nb=${{a}}{text}\n"))),
        ("config::Config::parse", config),
        ("config::Config::parse of a value", |text| config(&format!("a: {text}"))),
        ("config::Config::parse of a block", |text| {
            let block = text.split('\n').map(|line| format!("  {line}\n"));
            config(&format!("model:\n{}", block.collect::<String>()));
        }),
        ("config::Config::parse of a text", |text| config(&format!("a: {}", json::quote(text)))),
        ("config::Config::parse of a list", |text| config(&format!("a: [{text}]"))),
        ("config::Config::parse of keys", |text| {
            let lines = text.split(' ').map(|word| format!("{}: 1\n", json::quote(word)));
            config(&lines.collect::<String>());
        }),
        ("config::excerpt", |text| _ = excerpt(text, Place { line: 1, column: 1 })),
        ("config::edit::unset", |text| _ = edit::unset(text, "a.b").is_ok()),
        ("config::legacy_resets", |text| _ = black_box(legacy_resets(text))),
    ]);
}
