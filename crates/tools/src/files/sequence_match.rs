//! How alike two sequences are, and what changed between them.
//!
//! The rule is Python's `difflib`, because thresholds and diffs were tuned to it: the longest common
//! run first, then the same on both sides of it; in long sequences what is everywhere anchors nothing.

use std::collections::HashMap;
use std::hash::Hash;

/// From this length on, elements in more than one percent of the places are passed over.
const POPULAR_FROM: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchingBlock {
    pub left: usize,
    pub right: usize,
    pub length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditKind {
    Equal,
    Replace,
    Delete,
    Insert,
}

/// `left[from.0..to.0]` became `right[from.1..to.1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditStep {
    pub tag: EditKind,
    pub from: (usize, usize),
    pub to: (usize, usize),
}

/// Twice the share of what both have in common: 1.0 is the same, 0.0 has nothing in common.
pub fn ratio<T: Eq + Hash>(left: &[T], right: &[T]) -> f64 {
    let matched: usize = blocks(left, right).iter().map(|block| block.length).sum();
    share(matched, left.len() + right.len())
}

/// Whether [`ratio`] reaches `least`, decided by its cheap upper bounds where they suffice.
pub fn alike<T: Eq + Hash>(left: &[T], right: &[T], least: f64) -> bool {
    let length = left.len() + right.len();
    if share(left.len().min(right.len()), length) < least {
        return false;
    }
    let mut counts: HashMap<&T, usize> = HashMap::new();
    for element in right {
        *counts.entry(element).or_default() += 1;
    }
    let common = left.iter().filter(|element| match counts.get_mut(element) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    });
    share(common.count(), length) >= least && ratio(left, right) >= least
}

fn share(matched: usize, length: usize) -> f64 {
    if length == 0 { 1.0 } else { 2.0 * matched as f64 / length as f64 }
}

/// The steps from `left` to `right`, in order, without gaps.
pub fn steps<T: Eq + Hash>(left: &[T], right: &[T]) -> Vec<EditStep> {
    let (mut i, mut j) = (0, 0);
    let mut steps = Vec::new();
    let end = MatchingBlock { left: left.len(), right: right.len(), length: 0 };
    for block in blocks(left, right).into_iter().chain([end]) {
        let tag = match (i < block.left, j < block.right) {
            (true, true) => Some(EditKind::Replace),
            (true, false) => Some(EditKind::Delete),
            (false, true) => Some(EditKind::Insert),
            (false, false) => None,
        };
        if let Some(tag) = tag {
            steps.push(EditStep { tag, from: (i, j), to: (block.left, block.right) });
        }
        (i, j) = (block.left + block.length, block.right + block.length);
        if block.length > 0 {
            steps.push(EditStep { tag: EditKind::Equal, from: (block.left, block.right), to: (i, j) });
        }
    }
    steps
}

/// The common runs, in order, neighbours joined.
fn blocks<T: Eq + Hash>(left: &[T], right: &[T]) -> Vec<MatchingBlock> {
    let places = places(right);
    let mut found = Vec::new();
    let mut queue = vec![(0, left.len(), 0, right.len())];
    while let Some((left_from, left_to, right_from, right_to)) = queue.pop() {
        let block = longest(left, right, &places, (left_from, left_to), (right_from, right_to));
        if block.length == 0 {
            continue;
        }
        found.push(block);
        if left_from < block.left && right_from < block.right {
            queue.push((left_from, block.left, right_from, block.right));
        }
        let (left_next, right_next) = (block.left + block.length, block.right + block.length);
        if left_next < left_to && right_next < right_to {
            queue.push((left_next, left_to, right_next, right_to));
        }
    }
    found.sort_by_key(|block| (block.left, block.right));
    let mut joined: Vec<MatchingBlock> = Vec::with_capacity(found.len());
    for block in found {
        match joined.last_mut() {
            Some(last)
                if last.left + last.length == block.left && last.right + last.length == block.right =>
            {
                last.length += block.length;
            }
            _ => joined.push(block),
        }
    }
    joined
}

/// Where each element of `right` stands, without those that are everywhere.
fn places<T: Eq + Hash>(right: &[T]) -> HashMap<&T, Vec<usize>> {
    let mut places: HashMap<&T, Vec<usize>> = HashMap::new();
    for (at, element) in right.iter().enumerate() {
        places.entry(element).or_default().push(at);
    }
    if right.len() >= POPULAR_FROM {
        let most = right.len() / 100 + 1;
        places.retain(|_, places| places.len() <= most);
    }
    places
}

fn longest<T: Eq + Hash>(
    left: &[T],
    right: &[T],
    places: &HashMap<&T, Vec<usize>>,
    (left_from, left_to): (usize, usize),
    (right_from, right_to): (usize, usize),
) -> MatchingBlock {
    let mut best = MatchingBlock { left: left_from, right: right_from, length: 0 };
    // The length of the common run that ends at each place of `right`, for the element of `left` before.
    let mut runs: HashMap<usize, usize> = HashMap::new();
    for (i, element) in left.iter().enumerate().take(left_to).skip(left_from) {
        let mut next = HashMap::new();
        for &j in places.get(element).map_or(&[][..], Vec::as_slice) {
            if j < right_from {
                continue;
            }
            if j >= right_to {
                break;
            }
            let before = if j > 0 { runs.get(&(j - 1)).copied().unwrap_or(0) } else { 0 };
            let length = before + 1;
            next.insert(j, length);
            if length > best.length {
                best = MatchingBlock { left: i + 1 - length, right: j + 1 - length, length };
            }
        }
        runs = next;
    }
    // What anchors nothing still belongs to a run that it touches.
    while best.left > left_from && best.right > right_from && left[best.left - 1] == right[best.right - 1] {
        best = MatchingBlock { left: best.left - 1, right: best.right - 1, length: best.length + 1 };
    }
    while best.left + best.length < left_to
        && best.right + best.length < right_to
        && left[best.left + best.length] == right[best.right + best.length]
    {
        best.length += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chars(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    #[test]
    fn likeness_is_that_of_difflib() {
        // Printed by Python: SequenceMatcher(None, a, b).ratio()
        for (a, b, ratio_of_python) in [
            ("abcd", "bcde", 0.75),
            ("", "", 1.0),
            ("abc", "", 0.0),
            ("def fooo():", "def foo():", 0.9523809523809523),
            ("return 99", "yield 10", 0.23529411764705882),
            ("private Thread currentThread;", "private volatile Thread currentThread;", 0.8656716417910447),
            ("qabxcd", "abycdf", 0.6666666666666666),
        ] {
            let (a, b) = (chars(a), chars(b));
            assert!((ratio(&a, &b) - ratio_of_python).abs() < 1e-12, "{}", ratio(&a, &b));
        }
        // Long enough for what is everywhere to be passed over.
        let a: String = (0..80).map(|n| format!("x{} ", n * 7 % 13)).collect();
        let b: String = (0..80).map(|n| format!("x{} ", n * 5 % 11)).collect();
        assert!(
            (ratio(&chars(&a), &chars(&b)) - 0.015810276679841896).abs() < 1e-12,
            "{}",
            ratio(&chars(&a), &chars(&b))
        );
    }

    proptest! {
        #[test]
        fn the_steps_lead_from_one_to_the_other(a in "[ab\n]{0,40}", b in "[ab\n]{0,40}") {
            let (a, b) = (chars(&a), chars(&b));
            let (mut i, mut j, mut made) = (0, 0, Vec::<char>::new());
            for step in steps(&a, &b) {
                prop_assert_eq!((i, j), step.from);
                match step.tag {
                    EditKind::Equal => {
                        prop_assert_eq!(&a[step.from.0..step.to.0], &b[step.from.1..step.to.1]);
                        made.extend(&a[step.from.0..step.to.0]);
                    }
                    _ => made.extend(&b[step.from.1..step.to.1]),
                }
                (i, j) = step.to;
            }
            prop_assert_eq!(made, b);
        }

        #[test]
        fn the_short_cut_decides_as_the_long_way(a in "[a-d]{0,20}", b in "[a-d]{0,20}", least in 0.0_f64..1.0) {
            let (a, b) = (chars(&a), chars(&b));
            prop_assert_eq!(alike(&a, &b, least), ratio(&a, &b) >= least);
        }
    }
}
