//! What the model wrote, as a change to one of the stores.
//!
//! Read as leniently as Hermes does: null, an empty text and an absent field are the same. What has
//! the wrong type is named.

use crate::entry_change::{BatchOperation, EntryChange};
use crate::pending_writes::Proposal;
use crate::target::MemoryTarget;
use crate::tool_result::invalid;
use serde_json::{Map, Value, json};

#[derive(Debug, PartialEq)]
pub struct MemoryRequest {
    pub target: MemoryTarget,
    pub wish: RequestedChange,
}

#[derive(Debug, PartialEq)]
pub enum RequestedChange {
    Change {
        change: EntryChange,
        proposal: Proposal,
    },
    /// A replace or remove that does not say of what.
    Untargeted {
        action: String,
    },
}

/// The error is the tool's answer.
pub fn parse(arguments: &str) -> Result<MemoryRequest, String> {
    let fields = object(arguments)?;
    let target = target(&fields)?;
    let wish = match fields.get("operations").filter(|value| is_given(value)) {
        Some(Value::Array(operations)) => batch(target, operations)?,
        Some(_) => {
            return Err(invalid("operations must be a list of {action, content?, old_text?} objects."));
        }
        None => single(target, &fields)?,
    };
    Ok(MemoryRequest { target, wish })
}

fn object(arguments: &str) -> Result<Map<String, Value>, String> {
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(invalid("The arguments of 'memory' must be a JSON object.")),
        Err(error) => {
            Err(invalid(&format!("The arguments of 'memory' are not valid JSON ({error}). Send them again.")))
        }
    }
}

fn target(fields: &Map<String, Value>) -> Result<MemoryTarget, String> {
    match fields.get("target") {
        None | Some(Value::Null) => Ok(MemoryTarget::Memory),
        Some(Value::String(name)) if name == "memory" => Ok(MemoryTarget::Memory),
        Some(Value::String(name)) if name == "user" => Ok(MemoryTarget::User),
        Some(other) => Err(invalid(&format!("Invalid target '{}'. Use 'memory' or 'user'.", shown(other)))),
    }
}

fn single(target: MemoryTarget, fields: &Map<String, Value>) -> Result<RequestedChange, String> {
    let action = fields.get("action").map_or_else(|| "None".to_owned(), shown);
    let content = text(fields, "content").map_err(|error| invalid(&error))?;
    let old_text = text(fields, "old_text").map_err(|error| invalid(&error))?;
    let given = |name| fields.get(name).cloned().unwrap_or(Value::Null);
    let payload = json!({
        "action": action,
        "target": target.name(),
        "content": given("content"),
        "old_text": given("old_text"),
    });
    let (summary, detail, change) = match (&*action, &*content, &*old_text) {
        ("add", "", _) => return Err(invalid("Content is required for 'add' action.")),
        ("add", ..) => ("add to", content.clone(), EntryChange::Add { content }),
        ("replace" | "remove", _, "") => return Ok(RequestedChange::Untargeted { action }),
        ("replace", "", _) => return Err(invalid("content is required for 'replace' action.")),
        ("replace", ..) => (
            "replace in",
            format!("old: {old_text}\nnew: {content}"),
            EntryChange::Replace { old_text, content },
        ),
        ("remove", ..) => ("remove from", old_text.clone(), EntryChange::Remove { old_text }),
        _ => return Err(invalid(&format!("Unknown action '{action}'. Use: add, replace, remove"))),
    };
    let summary = format!("{summary} {}", label(target));
    Ok(RequestedChange::Change { change, proposal: Proposal { summary, detail, payload } })
}

fn batch(target: MemoryTarget, operations: &[Value]) -> Result<RequestedChange, String> {
    let steps = operations.iter().enumerate().map(|(at, operation)| {
        step(operation).map_err(|error| invalid(&format!("Operation {}: {error}", at + 1)))
    });
    let steps: Vec<BatchOperation> = steps.collect::<Result<_, _>>()?;
    let proposal = Proposal {
        summary: format!("apply {} op(s) to {}", operations.len(), label(target)),
        detail: operations.iter().map(line).collect::<Vec<_>>().join("\n"),
        payload: json!({"action": "batch", "target": target.name(), "operations": operations}),
    };
    Ok(RequestedChange::Change { change: EntryChange::Batch(steps), proposal })
}

fn step(operation: &Value) -> Result<BatchOperation, String> {
    match operation {
        Value::Object(fields) => Ok(BatchOperation {
            action: fields.get("action").filter(|action| is_given(action)).map(shown).unwrap_or_default(),
            content: text(fields, "content")?,
            old_text: text(fields, "old_text")?,
        }),
        other if !is_given(other) => Ok(BatchOperation::default()),
        _ => Err("it must be an object {action, content?, old_text?}.".to_owned()),
    }
}

/// One operation of a batch in a list a person reads.
fn line(operation: &Value) -> String {
    let field = |name: &str, missing: &str| operation.get(name).map_or_else(|| missing.to_owned(), shown);
    match &*field("action", "?") {
        "remove" => format!("- remove: {}", field("old_text", "")),
        "replace" => format!("- replace: {} -> {}", field("old_text", ""), field("content", "")),
        action => format!("- {action}: {}", field("content", "")),
    }
}

fn label(target: MemoryTarget) -> &'static str {
    match target {
        MemoryTarget::Memory => "memory",
        MemoryTarget::User => "user profile",
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> Result<String, String> {
    match fields.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) if is_given(other) => Err(format!("{name} must be a string.")),
        _ => Ok(String::new()),
    }
}

/// What Python counts as true.
fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// As Python prints it inside a text.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_arguments_get_an_answer_the_model_can_act_on() {
        for (arguments, part) in [
            ("{", "not valid JSON"),
            ("[1]", "must be a JSON object"),
            ("{\"target\": \"notes\"}", "Invalid target 'notes'. Use 'memory' or 'user'."),
            ("{\"target\": 5}", "Invalid target '5'"),
            ("", "Unknown action 'None'. Use: add, replace, remove"),
            ("{\"action\": \"forget\"}", "Unknown action 'forget'"),
            ("{\"action\": \"add\"}", "Content is required for 'add' action."),
            ("{\"action\": \"add\", \"content\": [\"a\"]}", "content must be a string."),
            ("{\"action\": \"replace\", \"old_text\": \"a\"}", "content is required for 'replace' action."),
            ("{\"operations\": {\"action\": \"add\"}}", "operations must be a list"),
            ("{\"operations\": [\"add\"]}", "Operation 1: it must be an object"),
            ("{\"operations\": [null, {\"content\": 7}]}", "Operation 2: content must be a string."),
            ("{\"action\": \"add\", \"content\": \"\\ud800\"}", "not valid JSON"),
        ] {
            let answer: Value = serde_json::from_str(&parse(arguments).unwrap_err()).unwrap();
            assert_eq!(answer["success"], false, "{arguments}");
            assert!(answer["error"].as_str().unwrap().contains(part), "{arguments}: {answer}");
        }
    }

    #[test]
    fn null_is_the_same_as_absent() {
        let request = parse(r#"{"target": null, "action": "remove", "old_text": null, "operations": null}"#);
        let wish = RequestedChange::Untargeted { action: "remove".to_owned() };
        assert_eq!(request, Ok(MemoryRequest { target: MemoryTarget::Memory, wish }));
    }
}
