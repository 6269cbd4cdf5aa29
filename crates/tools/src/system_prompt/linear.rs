//! What lies in a workspace is foreign text: each function of it is linear.

use super::ascii_fold::folded;
use super::threats::{ThreatScope, findings, findings_in_all};
use throughline_complexity::assert_linear;

#[test]
fn p31_text_functions_are_linear() {
    assert_linear(&[
        ("system_prompt::fold::folded", |text| _ = folded(text)),
        ("system_prompt::threat::findings", |text| _ = findings(text, ThreatScope::Context)),
        ("system_prompt::threat::findings_in_all", |text| _ = findings_in_all(text, ThreatScope::Context)),
    ]);
}
