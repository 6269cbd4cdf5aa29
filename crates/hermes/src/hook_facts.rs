//! What Hermes' hooks call what they are told: the fields of a payload.

use throughline_core::port::{Fact, FactName};

/// The names of a fact in a payload. Hermes has two for some of them.
pub fn names(fact: FactName) -> &'static [&'static str] {
    match fact {
        FactName::Turn => &["turn_id"],
        FactName::Task => &["task_id"],
        FactName::Model => &["model"],
        FactName::Platform => &["platform"],
        FactName::User => &["user_id"],
        FactName::Sender => &["sender_id"],
        FactName::IsFirstTurn => &["is_first_turn"],
        FactName::SaidInShort => &["message"],
        FactName::Said => &["user_message"],
        FactName::Command => &["command", "raw_command"],
        FactName::Argument => &["args", "raw_args"],
        FactName::ToolNames => &["tools", "tool_names"],
        FactName::Iteration => &["iteration"],
        FactName::Completed => &["completed"],
        FactName::Interrupted => &["interrupted"],
        FactName::AnswerInShort => &["response"],
        FactName::Answer => &["assistant_response"],
        FactName::Parent => &["parent_session_id"],
        FactName::Child => &["child_session_id"],
        FactName::ChildRole => &["child_role"],
        FactName::ChildGoal => &["child_goal"],
        FactName::ChildSummary => &["child_summary"],
        FactName::ChildStatus => &["child_status"],
        FactName::DurationMs => &["duration_ms"],
        FactName::Reason => &["reason"],
        FactName::OldSession => &["old_session_id"],
        FactName::NewSession => &["new_session_id"],
        FactName::Epoch => &["epoch"],
        FactName::Key => &["idempotency_key"],
    }
}

/// Facts as fields, in order.
pub fn fields(facts: &[(FactName, Fact)]) -> impl Iterator<Item = (&'static str, &Fact)> {
    facts.iter().flat_map(|(name, fact)| names(*name).iter().map(move |name| (*name, fact)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_with_two_names_is_told_under_both() {
        let facts = [(FactName::Command, Fact::from("new")), (FactName::Epoch, Fact::Number(1))];
        let told: Vec<_> = fields(&facts).map(|(name, _)| name).collect();
        assert_eq!(told, ["command", "raw_command", "epoch"]);
    }
}
