//! What changed in a text, as a unified diff.

use super::sequence_match::{EditKind, EditStep, steps};
use super::text::lines_with_ends;
use std::fmt::Write as _;

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// Lines of both texts up to which they are compared as Python would.
const WHOLE_LINES_MAX: usize = 4_000;
const MIDDLE_LINES_MAX: usize = 20_000;

/// `difflib.unified_diff` of two texts: empty if they are the same.
pub fn unified(before: &str, after: &str, from: &str, to: &str) -> String {
    let (before, after) = (lines_with_ends(before), lines_with_ends(after));
    let mut out = String::new();
    for group in groups(changes(&before, &after)) {
        let (first, last) = (group[0], group[group.len() - 1]);
        if out.is_empty() {
            let _ = write!(out, "--- {from}\n+++ {to}\n");
        }
        let _ =
            writeln!(out, "@@ -{} +{} @@", range(first.from.0, last.to.0), range(first.from.1, last.to.1));
        for step in group {
            let (removed, added) = (&before[step.from.0..step.to.0], &after[step.from.1..step.to.1]);
            if step.tag == EditKind::Equal {
                removed.iter().for_each(|line| push(&mut out, ' ', line));
                continue;
            }
            removed.iter().for_each(|line| push(&mut out, '-', line));
            added.iter().for_each(|line| push(&mut out, '+', line));
        }
    }
    out
}

/// Python compares whole files; long ones are compared between what they share at both ends, and where
/// that is still too much, all of it changed.
fn changes(before: &[&str], after: &[&str]) -> Vec<EditStep> {
    if before.len() + after.len() <= WHOLE_LINES_MAX {
        return steps(before, after);
    }
    let start = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let (rest, other_rest) = (&before[start..], &after[start..]);
    let end = rest.iter().rev().zip(other_rest.iter().rev()).take_while(|(one, other)| one == other).count();
    let (to, other_to) = (before.len() - end, after.len() - end);
    let (middle, other_middle) = (&before[start..to], &after[start..other_to]);
    let mut found = Vec::new();
    if start > 0 {
        found.push(EditStep { tag: EditKind::Equal, from: (0, 0), to: (start, start) });
    }
    if middle.len() + other_middle.len() <= MIDDLE_LINES_MAX {
        let moved = |(one, other): (usize, usize)| (one + start, other + start);
        found.extend(steps(middle, other_middle).into_iter().map(|step| EditStep {
            from: moved(step.from),
            to: moved(step.to),
            ..step
        }));
    } else {
        found.push(EditStep { tag: EditKind::Replace, from: (start, start), to: (to, other_to) });
    }
    if end > 0 {
        found.push(EditStep { tag: EditKind::Equal, from: (to, other_to), to: (before.len(), after.len()) });
    }
    found
}

fn push(out: &mut String, mark: char, line: &str) {
    // The last line of a file may lack its end; the next line of the diff begins a line all the same.
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out.push(mark);
    out.push_str(line);
}

fn range(start: usize, stop: usize) -> String {
    match stop - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// Changes with their surroundings; those whose surroundings touch are one group.
fn groups(mut steps: Vec<EditStep>) -> Vec<Vec<EditStep>> {
    if let Some(first) = steps.first_mut().filter(|step| step.tag == EditKind::Equal) {
        first.from = (
            first.from.0.max(first.to.0.saturating_sub(CONTEXT)),
            first.from.1.max(first.to.1.saturating_sub(CONTEXT)),
        );
    }
    if let Some(last) = steps.last_mut().filter(|step| step.tag == EditKind::Equal) {
        last.to = (last.to.0.min(last.from.0 + CONTEXT), last.to.1.min(last.from.1 + CONTEXT));
    }
    let mut groups = Vec::new();
    let mut group: Vec<EditStep> = Vec::new();
    for mut step in steps {
        if step.tag == EditKind::Equal && step.to.0 - step.from.0 > 2 * CONTEXT {
            let end = (step.from.0 + CONTEXT, step.from.1 + CONTEXT);
            group.push(EditStep { to: end, ..step });
            groups.push(std::mem::take(&mut group));
            step.from = (step.to.0 - CONTEXT, step.to.1 - CONTEXT);
        }
        group.push(step);
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|step| step.tag != EditKind::Equal));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_that_of_difflib() {
        let before: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let after =
            before.replace("line 3\n", "LINE 3\n").replace("line 17\n", "").replace("line 20\n", "line 20");
        assert_eq!(
            unified(&before, &after, "a/x", "b/x"),
            "--- a/x\n+++ b/x\n@@ -1,6 +1,6 @@\n line 1\n line 2\n-line 3\n+LINE 3\n line 4\n line 5\n line 6\n\
             @@ -14,7 +14,6 @@\n line 14\n line 15\n line 16\n-line 17\n line 18\n line 19\n-line 20\n+line 20"
        );
        assert_eq!(unified("a", "b", "a/x", "b/x"), "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b");
        assert_eq!(unified("a\n", "a\n", "a/x", "b/x"), "");
        let long: String = (1..=9_000).map(|n| format!("line {n}\n")).collect();
        assert_eq!(
            unified(&long, &long.replace("line 5000\n", "x\ny\n"), "a/x", "b/x"),
            "--- a/x\n+++ b/x\n@@ -4997,7 +4997,8 @@\n line 4997\n line 4998\n line 4999\n-line 5000\n+x\n+y\n line 5001\n \
             line 5002\n line 5003\n"
        );
        assert_eq!(unified("", "a\n", "a/x", "b/x"), "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(
            unified("one\ntwo", "", "a/x", "/dev/null"),
            "--- a/x\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two"
        );
    }
}
