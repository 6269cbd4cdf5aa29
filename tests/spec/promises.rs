//! The page of promises, compared with the code: each promise names what keeps it and what tests it, and each test that
//! names a promise stands where the page says.

use crate::tidy::{root, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// What `docs/promises.md` says of one promise.
#[derive(Default)]
struct Promise {
    is_kept: bool,
    kept_by: Vec<String>,
    /// Files, and directories that end in `/`.
    tests: Vec<String>,
}

/// The promises that are still to come. No other may be marked as not kept.
const TO_COME: [u32; 4] = [32, 33, 34, 35];

fn page() -> BTreeMap<u32, Promise> {
    let text = fs::read_to_string(root().join("docs/promises.md")).expect("there is a page of promises");
    let mut promises = BTreeMap::new();
    for section in text.split("\n### P").skip(1) {
        let (number, body) = section.split_once(". ").expect("a heading is a number and a name");
        let number: u32 = number.parse().expect("a promise has a number");
        let mut promise = Promise { is_kept: true, ..Promise::default() };
        for paragraph in body.split("\n\n") {
            let paths = paragraph.split('`').skip(1).step_by(2).map(str::to_owned);
            match paragraph {
                text if text.starts_with("Kept by:") => promise.kept_by = paths.collect(),
                text if text.starts_with("Tests:") => promise.tests = paths.collect(),
                text if text.starts_with("**Not kept yet.**") => promise.is_kept = false,
                _ => {}
            }
        }
        assert!(promises.insert(number, promise).is_none(), "P{number} stands on the page twice");
    }
    promises
}

/// The promises that the functions of a source name: `p8_p9_…` is of P8 and P9.
fn named(source: &str) -> BTreeSet<u32> {
    let names = source.split("fn ").skip(1);
    let parts = |name: &str| -> Vec<u32> {
        let numbers = name.split('_').map_while(|part| part.strip_prefix('p')?.parse().ok());
        numbers.collect()
    };
    names.flat_map(parts).collect()
}

/// Every file with tests of promises, and of which.
fn tested() -> BTreeMap<String, BTreeSet<u32>> {
    let places = ["crates", "src", "tests", "bench/src"].map(|directory| sources(&root().join(directory)));
    let mut found = BTreeMap::new();
    for path in places.into_iter().flatten() {
        let promises = named(&fs::read_to_string(&path).expect("a source can be read"));
        let path = path.strip_prefix(root()).expect("it lies in the repository").display().to_string();
        if !promises.is_empty() {
            found.insert(path, promises);
        }
    }
    found
}

fn covers(listed: &str, file: &str) -> bool {
    listed == file || listed.ends_with('/') && file.starts_with(listed)
}

#[test]
fn every_promise_says_what_keeps_it_and_what_tests_it() {
    let (page, tested) = (page(), tested());
    assert_eq!(page.keys().copied().collect::<Vec<_>>(), (1..=35).collect::<Vec<_>>());
    for (number, promise) in &page {
        assert_eq!(promise.is_kept, !TO_COME.contains(number), "P{number} is kept or not kept yet");
        for path in &promise.kept_by {
            assert!(root().join(path).exists(), "P{number} is kept by {path}, which is not there");
        }
        for listed in &promise.tests {
            let has_one = tested.iter().any(|(file, of)| covers(listed, file) && of.contains(number));
            assert!(has_one, "{listed} has no test of P{number}; docs/promises.md says so");
        }
        if promise.is_kept {
            assert!(!promise.kept_by.is_empty(), "P{number} does not say what keeps it");
            let has_one =
                tested.iter().any(|(file, of)| file.starts_with("tests/spec/") && of.contains(number));
            assert!(has_one, "the specification has no test of P{number}");
        }
    }
}

#[test]
fn every_test_that_names_a_promise_stands_where_the_page_says() {
    let page = page();
    let mut missing = Vec::new();
    for (file, promises) in tested() {
        for number in promises {
            let promise = page.get(&number).unwrap_or_else(|| panic!("{file}: there is no P{number}"));
            if !promise.tests.iter().any(|listed| covers(listed, &file)) {
                missing.push(format!("P{number}: {file}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "tests name a promise that docs/promises.md does not list them under. Either the number is wrong, or the page is:\n  {}",
        missing.join("\n  ")
    );
}

#[test]
fn the_numbers_of_a_test_are_read_from_its_name() {
    let of = |text: &str| named(text).into_iter().collect::<Vec<_>>();
    assert_eq!(of("async fn p8_p12_a_thing() {}"), [8, 12]);
    assert_eq!(of("fn a_p8_thing() {} fn people() {} fn p_1() {} fn p9() {}"), Vec::<u32>::new());
}

#[test]
fn every_word_of_the_glossary_has_its_type_where_the_page_says() {
    let text = fs::read_to_string(root().join("docs/glossary.md")).expect("there is a glossary");
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("` in `")).collect();
    assert!(rows.len() > 30, "only {} words", rows.len());
    for row in rows {
        let (before, after) = row.rsplit_once("` in `").expect("a type and a path");
        let name = before.rsplit('`').next().unwrap_or_default();
        let path = root().join(after.split('`').next().unwrap_or_default());
        let source = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{} is not there", path.display()));
        let is_word = |line: &str| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
        assert!(path.ends_with(name) || source.lines().any(is_word), "{name} is not in {}", path.display());
    }
}
