//! `clarify`: a question to the user. The answer, whenever it comes, is the result.

use super::{HandsSettings, error, spec as of, text};
use serde_json::{Map, Value, json};
use throughline_core::tool::{Question, Returned, Spec};

pub const NAME: &str = "clarify";
/// More than fit on a row of buttons are not a choice any more.
const CHOICES_MAX: usize = 4;

pub fn spec() -> Spec {
    let parameters = json!({
        "type": "object",
        "properties": {
            "question": {
                "type": "string",
                "description": "The question alone. Options to choose from belong in choices, not here."
            },
            "choices": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": CHOICES_MAX,
                "description": "Up to four options, one per element. The user may always answer in other words. Leave it out for an open question."
            }
        },
        "required": ["question"]
    });
    of(
        NAME,
        "clarify",
        "Ask the user something before going on: which of several ways to take, a decision with \
         consequences, a missing detail. The turn waits for the answer. Not for permission to run a \
         dangerous command (the terminal asks by itself), and not where a sensible default will do.",
        parameters,
    )
}

pub fn run(settings: &HandsSettings, arguments: &Map<String, Value>) -> Returned {
    let Some(question) = text(arguments, "question") else {
        return error("Question text is required.");
    };
    let choices = match arguments.get("choices") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(choices)) => {
            choices.iter().map(label).filter(|choice| !choice.is_empty()).take(CHOICES_MAX).collect()
        }
        Some(_) => return error("choices must be a list of strings."),
    };
    let question = Question::Clarify { question: question.to_owned(), choices };
    Returned::Ask { question, patience: settings.clarify_patience }
}

/// Models wrap choices in objects now and then; what a person would read of one counts.
fn label(choice: &Value) -> String {
    match choice {
        Value::String(text) => text.trim().to_owned(),
        Value::Object(fields) => ["label", "description", "text", "title"]
            .iter()
            .find_map(|name| text(fields, name))
            .unwrap_or_default()
            .to_owned(),
        Value::Array(parts) => parts.iter().map(label).collect::<Vec<_>>().join(" ").trim().to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
