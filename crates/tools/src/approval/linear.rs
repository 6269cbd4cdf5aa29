//! What a model would run is foreign text: each function of it is linear. What reads it as a shell would is not: it has a
//! budget (`shell::ReadingBudget`), beyond which a command is refused, and `tests.rs` shows that.

use super::danger::composed;
use super::{glob, rules, shell};
use throughline_complexity::assert_linear;

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
