//! What the model may ask of Hindsight by itself: Hermes' three tools, their arguments and their answers.
//!
//! All of them can be repeated: two only read, and what is kept is named by its own words.

use super::provider::Hindsight;
use super::settings::{MemoryMode, tags};
use serde_json::{Map, Value, json};
use throughline_core::memory::{MemoryError, Scope};
use throughline_core::message::JsonText;
use throughline_core::tool::Spec;
use throughline_hermes::json::{dumps, dumps_unicode};

const RETAIN: &str = "hindsight_retain";
const RECALL: &str = "hindsight_recall";
const REFLECT: &str = "hindsight_reflect";
const NOTHING: &str = "No relevant memories found.";

/// What a system prompt says about it. Nothing in it changes from turn to turn.
pub(super) fn prompt(mode: MemoryMode) -> &'static str {
    match mode {
        MemoryMode::Context => {
            "# Hindsight Memory\nWhat bears on a message from earlier conversations is put beside it by itself."
        }
        MemoryMode::Tools => {
            "# Hindsight Memory\nNothing is recalled by itself. hindsight_recall searches earlier conversations, \
             hindsight_reflect answers a question from all of them, hindsight_retain keeps a fact."
        }
        MemoryMode::Hybrid => {
            "# Hindsight Memory\nWhat bears on a message from earlier conversations is put beside it by itself. For more, \
             hindsight_recall searches them, hindsight_reflect answers a question from all of them, and \
             hindsight_retain keeps a fact."
        }
    }
}

pub(super) fn specs() -> Vec<Spec> {
    let text = |description: &str| json!({ "type": "string", "description": description });
    vec![
        spec(
            RETAIN,
            "Keep something in long-term memory. Facts, people and relations in it are found and indexed by themselves.",
            json!({
                "content": text("What to keep."),
                "context": text("A short label, such as 'user preference' or 'project decision'."),
                "tags": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "More tags for this memory, beside the configured ones.",
                },
            }),
            "content",
        ),
        spec(
            RECALL,
            "Search long-term memory. Returns the memories that bear on the question, the most relevant first.",
            json!({ "query": text("What to search for.") }),
            "query",
        ),
        spec(
            REFLECT,
            "Get a reasoned answer drawn from all of long-term memory, instead of a list of single memories.",
            json!({ "query": text("The question to think about.") }),
            "query",
        ),
    ]
}

fn spec(name: &str, description: &str, properties: Value, required: &str) -> Spec {
    let parameters = json!({ "type": "object", "properties": properties, "required": [required] });
    Spec {
        name: name.to_owned(),
        toolset: "memory".to_owned(),
        description: description.to_owned(),
        parameters: JsonText::from_valid(parameters.to_string()),
        repeatable: true,
    }
}

pub(super) async fn call(hindsight: &Hindsight, scope: &Scope, name: &str, arguments: &str) -> String {
    if !matches!(name, RETAIN | RECALL | REFLECT) || hindsight.settings().mode == MemoryMode::Context {
        return failed(&format!("Unknown tool: {name}"));
    }
    let arguments = match serde_json::from_str(arguments) {
        Ok(Value::Object(arguments)) => arguments,
        _ => return failed("The arguments are no JSON object."),
    };
    let wanted = if name == RETAIN { "content" } else { "query" };
    let Some(said) = words(&arguments, wanted) else {
        return failed(&format!("Missing required parameter: {wanted}"));
    };
    match name {
        RETAIN => {
            let context = words(&arguments, "context").unwrap_or_default();
            let extra = arguments.get("tags").map(tags).unwrap_or_default();
            let kept = hindsight.note(scope, said, context, &extra).await;
            told("Failed to store memory", kept.map(|()| "Memory stored successfully.".to_owned()))
        }
        RECALL => {
            let found = hindsight.search(scope, said).await.map(|texts| {
                let lines = texts.iter().enumerate().map(|(index, text)| format!("{}. {text}", index + 1));
                lines.collect::<Vec<_>>().join("\n")
            });
            told("Failed to search memory", found)
        }
        _ => told("Failed to reflect", hindsight.reflect(scope, said).await),
    }
}

fn words<'a>(arguments: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    arguments.get(key)?.as_str().filter(|text| !text.trim().is_empty())
}

fn told(failure: &str, result: Result<String, MemoryError>) -> String {
    match result {
        Ok(text) if text.is_empty() => dumps(&json!({ "result": NOTHING })),
        Ok(text) => dumps(&json!({ "result": text })),
        Err(error) => failed(&format!("{failure}: {error}")),
    }
}

fn failed(sentence: &str) -> String {
    dumps_unicode(&json!({ "error": sentence }))
}
