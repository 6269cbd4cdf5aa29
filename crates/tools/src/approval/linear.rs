//! What a model would run is foreign text: judging it is linear. Reading has a budget beside, beyond which a command is
//! refused; the work up to it is a bound of its own, and `tests.rs` tells what happens there.

use super::detect::{Detector, composed};
use super::{Place, glob, rules, shell};
use std::sync::LazyLock;
use throughline_complexity::assert_linear;

static DETECTOR: LazyLock<Detector> = LazyLock::new(|| {
    Detector::new(&Place {
        home: "/home/user/.hermes".into(),
        user_home: Some("/home/user".into()),
        temporary: "/tmp".into(),
    })
});

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("approval::detect::composed", |text| _ = composed(text).into_owned()),
        ("approval::glob::matches", |text| {
            _ = glob::matches("*a*b*c", text);
            _ = glob::matches("rm *", text);
        }),
        ("approval::shell::split", |text| _ = shell::split(&text.chars().collect::<Vec<_>>(), true)),
        ("approval::rules::translated", |text| _ = rules::translated(text)),
    ]);
}

/// Every reading of a command together, with every rule.
#[test]
fn p31_judging_a_command_is_bounded() {
    assert_linear(&[("approval::detect::Detector", |text| {
        let reading = DETECTOR.read(text);
        _ = (DETECTOR.hardline(&reading), DETECTOR.dangerous(text, &reading));
        _ = DETECTOR.denied(&reading, &["rm *".to_owned(), "*a*".to_owned()]);
    })]);
}
