//! Every kind has a name of its own, and can be read back.

use super::*;

#[test]
fn names_of_kinds_are_stable_and_distinct() {
    let mut names: Vec<_> = FindingKind::ALL.iter().map(|kind| kind.name()).collect();
    for kind in FindingKind::ALL {
        assert_eq!(kind.name().parse(), Ok(*kind));
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!("nonsense".parse::<FindingKind>().is_err());
}

#[test]
fn a_report_begins_with_the_worst() {
    assert!(FindingKind::ALL.windows(2).all(|pair| pair[0].severity() <= pair[1].severity()));
}
