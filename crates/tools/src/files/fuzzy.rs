//! Finding the text that a model means, which is not always the text it wrote.
//!
//! Nine ways to look, from exact to merely alike, in Hermes' order; the first that finds anything
//! decides. More than one place is never guessed at. What is put in takes over the indentation and
//! the typography of what it replaces.
//!
//! All positions are bytes of the original text, at the borders of characters.

use super::sequence_match::{EditKind, alike, ratio, steps};
use super::text::lines;
use std::fmt::Write as _;
use std::ops::Range;

/// Comparing every line with every line stops being quick beyond this many pairs.
const PAIRS_MAX: usize = 4_000_000;
/// And comparing two blocks character by character beyond this length.
const BLOCK_CHARS_MAX: usize = 20_000;
/// Lines are compared by their beginnings where they are longer than any line that a person wrote.
const LINE_CHARS_MAX: usize = 1_000;

const NO_MATCH: &str = "Could not find a match for old_string in the file";

/// A text with its replacements made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    pub text: String,
    pub count: usize,
    pub strategy: &'static str,
}

/// Replaces `old` by `new`: in its one place, or in `all`.
pub fn replace(content: &str, old: &str, new: &str, all: bool) -> Result<Replaced, String> {
    if old.is_empty() {
        return Err("old_string cannot be empty".to_owned());
    }
    if old == new {
        return Err("old_string and new_string are identical".to_owned());
    }
    for (strategy, find) in STRATEGIES {
        let places = find(content, old);
        if places.is_empty() {
            continue;
        }
        if places.len() > 1 && !all {
            return Err(format!(
                "Found {} matches for old_string. Provide more context to make it unique, or use replace_all=True.",
                places.len()
            ));
        }
        let exact = strategy == "exact";
        if !exact && let Some(drift) = escape_drift(content, &places, old, new) {
            return Err(drift);
        }
        let mut new = unescaped(new, content, &places);
        if strategy == "unicode_normalized" {
            new = typography_kept(content, &places, old, &new);
        }
        let text = put(content, &places, &new, if exact { None } else { Some(old) });
        return Ok(Replaced { text, count: places.len(), strategy });
    }
    Err(NO_MATCH.to_owned())
}

/// What to show beside an error of [`replace`], if nothing was found but something comes close.
pub fn hint(error: &str, old: &str, content: &str) -> String {
    if !error.starts_with("Could not find") {
        return String::new();
    }
    match closest(old, content) {
        Some(sections) => format!("\n\nDid you mean one of these sections?\n{sections}"),
        None => String::new(),
    }
}

pub(super) type MatchRanges = Vec<Range<usize>>;
pub(super) type MatchStrategy = (&'static str, fn(&str, &str) -> MatchRanges);

/// The last two compare by likeness, which costs more than the length: they have bounds, beyond which they find nothing.
pub(super) const STRATEGIES: [MatchStrategy; 9] = [
    ("exact", exact),
    ("line_trimmed", line_trimmed),
    ("whitespace_normalized", whitespace_normalized),
    ("indentation_flexible", indentation_flexible),
    ("escape_normalized", escape_normalized),
    ("trimmed_boundary", trimmed_boundary),
    ("unicode_normalized", unicode_normalized),
    ("block_anchor", block_anchor),
    ("context_aware", context_aware),
];

fn exact(content: &str, pattern: &str) -> MatchRanges {
    content.match_indices(pattern).map(|(at, found)| at..at + found.len()).collect()
}

fn line_trimmed(content: &str, pattern: &str) -> MatchRanges {
    by_lines(content, pattern, |lines, wanted| runs(&each(lines, str::trim), &each(wanted, str::trim)))
}

fn indentation_flexible(content: &str, pattern: &str) -> MatchRanges {
    by_lines(content, pattern, |lines, wanted| {
        runs(&each(lines, str::trim_start), &each(wanted, str::trim_start))
    })
}

fn trimmed_boundary(content: &str, pattern: &str) -> MatchRanges {
    by_lines(content, pattern, |lines, wanted| {
        let last = wanted.len() - 1;
        let middles = match wanted.get(1..last) {
            Some(middle) if !middle.is_empty() => {
                runs(lines, middle).into_iter().filter_map(|at| at.checked_sub(1)).collect()
            }
            _ => (0..lines.len()).collect::<Vec<_>>(),
        };
        let is_same = |at: usize| {
            lines.get(at..=at + last).is_some_and(|lines| {
                lines[0].trim() == wanted[0].trim() && lines[last].trim() == wanted[last].trim()
            })
        };
        middles.into_iter().filter(|at| is_same(*at)).collect()
    })
}

fn whitespace_normalized(content: &str, pattern: &str) -> MatchRanges {
    let normalized = Normalized::of(content, |rest| {
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        (blank > 0).then_some((blank, " "))
    });
    let wanted = Normalized::of(pattern, |rest| {
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        (blank > 0).then_some((blank, " "))
    });
    let places = normalized.places(&exact(&normalized.text, &wanted.text));
    // From the start of the line, where only blanks come before: its indentation is then known.
    let indented = pattern.starts_with([' ', '\t']);
    let first_word = |line: usize| content.len() - content[line..].trim_start_matches([' ', '\t']).len();
    let (mut line, mut seen, mut word) = (0, 0, first_word(0));
    let whole = places.into_iter().map(|place| {
        if let Some(at) = content[seen..place.start].rfind('\n') {
            line = seen + at + 1;
            word = first_word(line);
        }
        seen = place.start;
        if word >= place.start && !indented { line..place.end } else { place }
    });
    whole.collect()
}

fn escape_normalized(content: &str, pattern: &str) -> MatchRanges {
    let plain = pattern.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r");
    if plain == pattern { Vec::new() } else { exact(content, &plain) }
}

fn unicode_normalized(content: &str, pattern: &str) -> MatchRanges {
    let (normalized, wanted) = (plain_typography(content), plain_typography(pattern));
    if normalized.text == content && wanted.text == pattern {
        return Vec::new();
    }
    let mut found = exact(&normalized.text, &wanted.text);
    if found.is_empty() {
        found = line_trimmed(&normalized.text, &wanted.text);
    }
    normalized.places(&found)
}

fn block_anchor(content: &str, pattern: &str) -> MatchRanges {
    let (normalized, wanted) = (plain_typography(content).text, plain_typography(pattern).text);
    let wanted: Vec<&str> = wanted.split('\n').collect();
    let lines: Vec<&str> = normalized.split('\n').collect();
    let count = wanted.len();
    if count < 2 || lines.len() < count {
        return Vec::new();
    }
    let (first, last) = (wanted[0].trim(), wanted[count - 1].trim());
    let candidates: Vec<usize> = (0..=lines.len() - count)
        .filter(|at| lines[*at].trim() == first && lines[at + count - 1].trim() == last)
        .collect();
    // One candidate needs less of a likeness than one of several.
    let least = if candidates.len() == 1 { 0.50 } else { 0.70 };
    let middle: Vec<char> = wanted[1..count - 1].join("\n").chars().collect();
    if candidates.len().saturating_mul(middle.len()) > PAIRS_MAX {
        return Vec::new(); // so many beginnings and ends alike single nothing out
    }
    let alike = candidates.into_iter().filter(|at| {
        let found: Vec<char> = lines[at + 1..at + count - 1].join("\n").chars().collect();
        count == 2 || found.len().max(middle.len()) <= BLOCK_CHARS_MAX && alike(&found, &middle, least)
    });
    let starts = line_starts(content);
    alike.map(|at| line_span(content, &starts, at, count)).collect()
}

fn context_aware(content: &str, pattern: &str) -> MatchRanges {
    let letters = |line: &str| -> Vec<char> { line.trim().chars().take(LINE_CHARS_MAX).collect() };
    let wanted: Vec<Vec<char>> = pattern.split('\n').map(letters).collect();
    let lines: Vec<Vec<char>> = content.split('\n').map(letters).collect();
    if lines.len() < wanted.len() || lines.len().saturating_mul(wanted.len()) > PAIRS_MAX {
        return Vec::new();
    }
    let starts = line_starts(content);
    let enough = wanted.len().div_ceil(2);
    let alike = (0..=lines.len() - wanted.len()).filter(|at| {
        let pairs = wanted.iter().zip(&lines[*at..]);
        pairs.filter(|(wanted, line)| alike(wanted, line, 0.80)).take(enough).count() >= enough
    });
    alike.map(|at| line_span(content, &starts, at, wanted.len())).collect()
}

/// The places that `find` finds for the lines of the pattern among those of the content.
fn by_lines(content: &str, pattern: &str, find: impl Fn(&[&str], &[&str]) -> Vec<usize>) -> MatchRanges {
    let wanted: Vec<&str> = pattern.split('\n').collect();
    let lines: Vec<&str> = content.split('\n').collect();
    if lines.len() < wanted.len() {
        return Vec::new();
    }
    let starts = line_starts(content);
    find(&lines, &wanted).into_iter().map(|at| line_span(content, &starts, at, wanted.len())).collect()
}

fn each<'a>(lines: &[&'a str], trimmed: fn(&'a str) -> &'a str) -> Vec<&'a str> {
    lines.iter().map(|line| trimmed(line)).collect()
}

/// Where `wanted`, which is not empty, begins in `lines`, also where it overlaps itself. Each line is compared with a few
/// (Knuth, Morris and Pratt): a file of a million lines that are all the same must not cost a million times a million.
fn runs<T: PartialEq>(lines: &[T], wanted: &[T]) -> Vec<usize> {
    // How many of the first lines of `wanted` its first n + 1 lines also end with.
    let mut ends_with = vec![0; wanted.len()];
    let next = |ends_with: &[usize], mut matched: usize, line: &T| {
        while matched > 0 && (matched == wanted.len() || wanted[matched] != *line) {
            matched = ends_with[matched - 1];
        }
        matched + usize::from(wanted[matched] == *line)
    };
    for at in 1..wanted.len() {
        ends_with[at] = next(&ends_with, ends_with[at - 1], &wanted[at]);
    }
    let mut matched = 0;
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        matched = next(&ends_with, matched, line);
        if matched == wanted.len() {
            found.push(at + 1 - matched);
        }
    }
    found
}

fn line_starts(content: &str) -> Vec<usize> {
    let ends = content.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}

/// `count` lines from the one called `at`, without the end of the last.
fn line_span(content: &str, starts: &[usize], at: usize, count: usize) -> Range<usize> {
    let end = starts.get(at + count).map_or(content.len(), |next| next - 1);
    starts[at]..end
}

/// A text in another spelling, and where each of its bytes comes from.
struct Normalized {
    text: String,
    /// The span of the original for each byte of `text`.
    from: Vec<(usize, usize)>,
}

impl Normalized {
    /// `rule` tells how many bytes at the start of the rest are written otherwise, and how.
    fn of(original: &str, rule: impl Fn(&str) -> Option<(usize, &'static str)>) -> Self {
        let mut normalized =
            Self { text: String::with_capacity(original.len()), from: Vec::with_capacity(original.len()) };
        let mut at = 0;
        while let Some(c) = original[at..].chars().next() {
            let (length, written) = rule(&original[at..]).unwrap_or((c.len_utf8(), ""));
            let before = normalized.text.len();
            match written {
                "" => normalized.text.push(c),
                written => normalized.text.push_str(written),
            }
            let added = normalized.text.len() - before;
            normalized.from.extend(std::iter::repeat_n((at, at + length), added));
            at += length;
        }
        normalized
    }

    fn places(&self, found: &[Range<usize>]) -> MatchRanges {
        let original = found.iter().filter(|place| !place.is_empty()).map(|place| {
            let (start, _) = self.from[place.start];
            let (_, end) = self.from[place.end - 1];
            start..end
        });
        original.collect()
    }
}

fn plain_typography(text: &str) -> Normalized {
    Normalized::of(text, |rest| {
        let c = rest.chars().next()?;
        let plain = match c {
            '\u{201c}' | '\u{201d}' => "\"",
            '\u{2018}' | '\u{2019}' => "'",
            '\u{2014}' => "--",
            '\u{2013}' => "-",
            '\u{2026}' => "...",
            '\u{a0}' => " ",
            _ => return None,
        };
        Some((c.len_utf8(), plain))
    })
}

fn regions(content: &str, places: &[Range<usize>]) -> String {
    places.iter().map(|place| &content[place.clone()]).collect()
}

/// A backslash before a quote that is in both texts and not in the file came from the way here.
fn escape_drift(content: &str, places: &[Range<usize>], old: &str, new: &str) -> Option<String> {
    let suspects = [("\\'", "\"\\\\'\"", "\"'\""), ("\\\"", "'\\\\\"'", "'\"'")];
    let found = regions(content, places);
    let (_, shown, plain) = suspects
        .into_iter()
        .find(|(suspect, ..)| new.contains(suspect) && old.contains(suspect) && !found.contains(suspect))?;
    Some(format!(
        "Escape-drift detected: old_string and new_string contain the literal sequence {shown} but the matched region \
         of the file does not: the backslash was added on the way. Re-read the file with read_file and pass \
         old_string/new_string without backslash-escaping {plain} characters."
    ))
}

/// `\t` and `\r` spelled out are meant as such where the file has them.
fn unescaped(new: &str, content: &str, places: &[Range<usize>]) -> String {
    let mut out = new.to_owned();
    for (spelled, meant) in [("\\t", "\t"), ("\\r", "\r")] {
        if out.contains(spelled) && places.iter().any(|place| content[place.clone()].contains(meant)) {
            out = out.replace(spelled, meant);
        }
    }
    out
}

/// The replacement with the file's own dashes and quotes wherever the edit left them alone.
fn typography_kept(content: &str, places: &[Range<usize>], old: &str, new: &str) -> String {
    let region = regions(content, places);
    let (file, wanted) = (plain_typography(&region), plain_typography(old));
    if file.text != wanted.text {
        return new.to_owned();
    }
    let before: Vec<(usize, char)> = wanted.text.char_indices().collect();
    let before_letters: Vec<char> = before.iter().map(|(_, c)| *c).collect();
    let after: Vec<char> = new.chars().collect();
    if before_letters.len().max(after.len()) > BLOCK_CHARS_MAX {
        return new.to_owned();
    }
    let mut out = String::with_capacity(new.len());
    for step in steps(&before_letters, &after) {
        if step.tag != EditKind::Equal {
            out.extend(&after[step.from.1..step.to.1]);
            continue;
        }
        let start = before[step.from.0].0;
        let end = before.get(step.to.0).map_or(wanted.text.len(), |(at, _)| *at);
        let mut at = start;
        while at < end {
            let origin = file.from[at];
            let stop = at + file.from[at..].iter().take_while(|from| **from == origin).count();
            let begins = at == 0 || file.from[at - 1] != origin;
            // Part of a character that was spelled with several stays in that spelling.
            match begins && stop <= end {
                true => out.push_str(&region[origin.0..origin.1]),
                false => out.push_str(&file.text[at..stop.min(end)]),
            }
            at = stop.min(end);
        }
    }
    out
}

fn put(content: &str, places: &[Range<usize>], new: &str, old: Option<&str>) -> String {
    let mut out = String::with_capacity(content.len() + new.len());
    let mut at = 0;
    for place in places {
        // Ways that look at lines may find places that overlap: the first one counts.
        if place.start < at {
            continue;
        }
        out.push_str(&content[at..place.start]);
        match old {
            Some(old) => out.push_str(&indented(&content[place.clone()], old, new)),
            None => out.push_str(new),
        }
        at = place.end;
    }
    out.push_str(&content[at..]);
    out
}

/// `new` moved from the indentation of `old` to that of the file.
fn indented(region: &str, old: &str, new: &str) -> String {
    let first = |text: &str| -> Option<String> {
        let line = text.split('\n').find(|line| !line.trim().is_empty())?;
        Some(line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned())
    };
    let (Some(from), Some(to)) = (first(old), first(region)) else { return new.to_owned() };
    if from == to || new.is_empty() {
        return new.to_owned();
    }
    let lines = new.split('\n').map(|line| {
        if line.trim().is_empty() {
            return line.to_owned();
        }
        match line.strip_prefix(&from) {
            Some(rest) => format!("{to}{rest}"),
            None => format!("{to}{}", line.trim_start_matches([' ', '\t'])),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The parts of a file that are most like the first line of what was looked for.
fn closest(old: &str, content: &str) -> Option<String> {
    const AROUND: usize = 2;
    const SHOWN_MAX: usize = 3;
    let (wanted, found) = (lines(old), lines(content));
    let letters = |line: &str| -> Vec<char> { line.trim().chars().take(LINE_CHARS_MAX).collect() };
    let anchor = letters(wanted.iter().find(|line| !line.trim().is_empty())?);
    if found.len() > PAIRS_MAX / 100 {
        return None;
    }
    let mut scored: Vec<(f64, usize)> = found
        .iter()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .filter_map(|(at, line)| {
            let line = letters(line);
            alike(&anchor, &line, 0.3).then(|| (ratio(&anchor, &line), at)).filter(|(ratio, _)| *ratio > 0.3)
        })
        .collect();
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let mut shown: Vec<(usize, usize)> = Vec::new();
    for (_, at) in scored.into_iter().take(SHOWN_MAX) {
        let range = (at.saturating_sub(AROUND), found.len().min(at + wanted.len() + AROUND));
        if !shown.contains(&range) {
            shown.push(range);
        }
    }
    let sections = shown.into_iter().map(|(start, end)| {
        let mut section = String::new();
        for (nth, line) in found[start..end].iter().enumerate() {
            let _ = write!(section, "{}{:4}| {line}", if nth == 0 { "" } else { "\n" }, start + nth + 1);
        }
        section
    });
    let sections: Vec<String> = sections.collect();
    (!sections.is_empty()).then(|| sections.join("\n---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn done(content: &str, old: &str, new: &str) -> (String, &'static str) {
        let replaced = replace(content, old, new, false).unwrap();
        (replaced.text, replaced.strategy)
    }

    #[test]
    fn each_way_finds_what_it_is_for() {
        for (content, old, new, made, way) in [
            ("a b c", "b", "x", "a x c", "exact"),
            ("  foo()\n  bar()\n", "foo()\nbar()", "foo()\nbaz()", "  foo()\n  baz()\n", "line_trimmed"),
            ("x =  1 +\t2\n", "x = 1 + 2", "x = 3", "x = 3\n", "whitespace_normalized"),
            (
                "    foo  bar\n      baz\n",
                "foo bar\n  baz",
                "foo qux\n  baz",
                "    foo qux\n      baz\n",
                "whitespace_normalized",
            ),
            ("one\ntwo\n", "one\\ntwo", "three", "three\n", "escape_normalized"),
            (
                "say “hello” — now\n",
                "say \"hello\" -- now",
                "say \"hello\" -- later",
                "say “hello” — later\n",
                "unicode_normalized",
            ),
            (
                "fn f() {\n    let alpha = 1;\n    g(alpha);\n}\n",
                "fn f() {\n    let beta = 1;\n    g(beta);\n}",
                "gone",
                "gone\n",
                "block_anchor",
            ),
            (
                "def foo():\n    yield 10\n\nx\n",
                "def fooo():\n    return 99",
                "zzz",
                "zzz\n\nx\n",
                "context_aware",
            ),
        ] {
            assert_eq!(done(content, old, new), (made.to_owned(), way), "{old:?}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_told_as_hermes_tells_it() {
        let error = |content: &str, old: &str, new: &str| replace(content, old, new, false).unwrap_err();
        assert_eq!(error("x", "", "y"), "old_string cannot be empty");
        assert_eq!(error("x", "y", "y"), "old_string and new_string are identical");
        assert_eq!(
            error("aa", "a", "b"),
            "Found 2 matches for old_string. Provide more context to make it unique, or use replace_all=True."
        );
        assert_eq!(error("x\n", "nothing like it", "y"), NO_MATCH);
        assert_eq!(replace("aaaa", "aa", "b", true).unwrap().text, "bb");
        assert_eq!(replace("aXbX", "X", "", true).unwrap().count, 2);
    }

    /// What Hermes 0.19 made of texts and edits drawn at random.
    #[test]
    fn edits_come_out_as_in_hermes() {
        for line in include_str!("fuzzy-0.19.jsonl").lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let given = |name: &str| case[name].as_str().unwrap_or_default();
            match replace(given("content"), given("old"), given("new"), case["all"] == true) {
                Ok(replaced) => assert_eq!(
                    (replaced.text.as_str(), replaced.strategy),
                    (given("text"), given("strategy")),
                    "{line}"
                ),
                Err(error) => {
                    assert!(
                        !given("error").is_empty() && error.starts_with(given("error")),
                        "{line}: {error}"
                    );
                    assert_eq!(hint(&error, given("old"), given("content")), given("hint"), "{line}");
                }
            }
        }
    }

    #[test]
    fn places_that_overlap_are_replaced_once() {
        // Hermes replaces both and spoils the text between.
        assert_eq!(
            replace("foo\nfoo\n    foo\n", "foo\n  foo", "bar\n  bar", true).unwrap().text,
            "bar\n  bar\n    foo\n"
        );
    }

    #[test]
    fn the_nearest_sections_are_shown() {
        assert_eq!(
            hint(NO_MATCH, "nope", "uno\n2\n"),
            "\n\nDid you mean one of these sections?\n   1| uno\n   2| 2"
        );
        assert_eq!(hint(NO_MATCH, "zzz", "uno\n2\n"), "");
        assert_eq!(hint("Found 2 matches", "uno", "uno\n"), "");
    }

    #[test]
    fn tabs_spelled_out_are_tabs_where_the_file_has_tabs() {
        assert_eq!(done("\tfoo\n", "\tfoo", "\\tbar").0, "\tbar\n");
        assert_eq!(done("sep = '\\t'\n", "sep = '\\t'", "sep2 = '\\t'").0, "sep2 = '\\t'\n");
    }

    #[test]
    fn a_huge_file_is_searched_in_bounded_time() {
        let content = "some line of text that repeats\n".repeat(100_000);
        let started = std::time::Instant::now();
        assert!(replace(&content, "unlike\nanything\nin here", "x", false).is_err());
        assert!(started.elapsed().as_secs() < 30);
    }

    proptest! {
        #[test]
        fn runs_are_where_every_window_would_be_the_same(
            lines in prop::collection::vec(0u8..2, 0..24), wanted in prop::collection::vec(0u8..2, 1..6),
        ) {
            let windows = lines.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted);
            prop_assert_eq!(runs(&lines, &wanted), windows.map(|(at, _)| at).collect::<Vec<_>>());
        }

        #[test]
        fn an_exact_place_is_replaced_and_nothing_else(before in "[a-c é\n]{0,30}", after in "[a-c é\n]{0,30}", new in ".{0,10}") {
            let content = format!("{before}NEEDLE{after}");
            let made = replace(&content, "NEEDLE", &new, false).unwrap();
            prop_assert_eq!(made.text, format!("{before}{new}{after}"));
        }

        #[test]
        fn no_text_makes_it_panic(content in "[a-c“—é \t\r\n\\\\']{0,60}", old in "[a-c\"—é \t\n\\\\']{1,20}", new in "[a-c\"-é \t\n\\\\']{0,20}", all in any::<bool>()) {
            let _ = replace(&content, &old, &new, all).map_err(|error| hint(&error, &old, &content));
        }
    }
}
