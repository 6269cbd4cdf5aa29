//! What a client may wish about how the model speaks. Checked for its type, never for its value:
//! which temperatures a model takes is the model's to say.

use crate::error::ApiError;
use crate::request_body::{RequestFields, wrong_type};
use serde_json::{Map, Value};
use throughline_core::JsonText;

#[derive(Clone, Copy)]
enum OptionType {
    Number,
    Whole,
    Text,
    Object,
    Stop,
}

/// As chat completions name them, and servers that speak like it.
const FIELDS: [(&str, OptionType); 15] = [
    ("temperature", OptionType::Number),
    ("top_p", OptionType::Number),
    ("top_k", OptionType::Whole),
    ("min_p", OptionType::Number),
    ("max_tokens", OptionType::Whole),
    ("max_completion_tokens", OptionType::Whole),
    ("stop", OptionType::Stop),
    ("seed", OptionType::Whole),
    ("presence_penalty", OptionType::Number),
    ("frequency_penalty", OptionType::Number),
    ("repetition_penalty", OptionType::Number),
    ("logit_bias", OptionType::Object),
    ("response_format", OptionType::Object),
    ("reasoning_effort", OptionType::Text),
    ("verbosity", OptionType::Text),
];

/// Of a chat completion, beside what it says about tools.
pub fn of_chat(
    fields: &mut RequestFields,
    mut wishes: Map<String, Value>,
) -> Result<Option<JsonText>, ApiError> {
    for (name, shape) in FIELDS {
        if let Some(value) = fields.take(name) {
            wishes.insert(name.to_owned(), checked(name, shape, value)?);
        }
    }
    Ok(as_text(wishes))
}

/// Of a response, under the names that chat completions have for the same things.
pub fn of_response(
    fields: &mut RequestFields,
    mut wishes: Map<String, Value>,
) -> Result<Option<JsonText>, ApiError> {
    let mut wish = |name: &str, as_name: &str, shape, value: Option<Value>| match value {
        None | Some(Value::Null) => Ok(()),
        Some(value) => checked(name, shape, value).map(|value| {
            wishes.insert(as_name.to_owned(), value);
        }),
    };
    wish("temperature", "temperature", OptionType::Number, fields.take("temperature"))?;
    wish("top_p", "top_p", OptionType::Number, fields.take("top_p"))?;
    wish("max_output_tokens", "max_completion_tokens", OptionType::Whole, fields.take("max_output_tokens"))?;
    let mut reasoning = object("reasoning", fields.take("reasoning"))?;
    wish("reasoning.effort", "reasoning_effort", OptionType::Text, reasoning.remove("effort"))?;
    let mut text = object("text", fields.take("text"))?;
    wish("text.verbosity", "verbosity", OptionType::Text, text.remove("verbosity"))?;
    let format = object("text.format", text.remove("format"))?;
    wish("text.format", "response_format", OptionType::Object, response_format(format))?;
    Ok(as_text(wishes))
}

/// What neither API can have here, and what asks for nothing that an answer could show.
pub fn refuse_impossible(fields: &mut RequestFields) -> Result<(), ApiError> {
    let idle = |value: &Value| matches!(value, Value::Bool(false)) || value.as_u64() == Some(0);
    for name in ["logprobs", "top_logprobs"] {
        if fields.take(name).is_some_and(|value| !idle(&value)) {
            let message = format!("{name} is not supported: probabilities of tokens are not known here.");
            return Err(ApiError::invalid(name, message).code("unsupported_parameter"));
        }
    }
    match fields.text("service_tier")?.as_deref() {
        None | Some("auto" | "default") => {}
        Some(other) => {
            let message = format!("service_tier is {other:?}; it can be auto or default.");
            return Err(ApiError::invalid("service_tier", message).code("unsupported_value"));
        }
    }
    // Names of the caller's own, and hints for caches: the answer is the same without them.
    fields.pass_over(&["metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"]);
    Ok(())
}

/// Responses lay a schema flat beside its type; chat completions nest it.
fn response_format(mut format: Map<String, Value>) -> Option<Value> {
    match format.get("type").and_then(Value::as_str) {
        None | Some("text") => None, // what everybody does anyway
        Some("json_schema") if !format.contains_key("json_schema") => {
            let kind = format.shift_remove("type")?;
            Some(Value::Object(Map::from_iter([
                ("type".to_owned(), kind),
                ("json_schema".to_owned(), Value::Object(format)),
            ])))
        }
        Some(_) => Some(Value::Object(format)),
    }
}

fn object(name: &str, value: Option<Value>) -> Result<Map<String, Value>, ApiError> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(other) => Err(wrong_type(name, "an object", &other)),
    }
}

fn checked(name: &str, shape: OptionType, value: Value) -> Result<Value, ApiError> {
    let (fits, wanted) = match shape {
        OptionType::Number => (value.is_number(), "a number"),
        OptionType::Whole => (value.is_i64() || value.is_u64(), "a whole number"),
        OptionType::Text => (value.is_string(), "a string"),
        OptionType::Object => (value.is_object(), "an object"),
        OptionType::Stop => {
            let texts = value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
            (texts || value.is_string(), "a string or an array of strings")
        }
    };
    match fits {
        true => Ok(value),
        false => Err(wrong_type(name, wanted, &value)),
    }
}

fn as_text(wishes: Map<String, Value>) -> Option<JsonText> {
    (!wishes.is_empty()).then(|| JsonText::from_valid(Value::Object(wishes).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_body::parse;

    #[test]
    fn wishes_reach_the_model_under_one_name() {
        let mut fields = parse(br#"{"temperature": 0.5, "stop": ["a"], "top_p": null, "tools": []}"#)
            .unwrap_or_else(|_| panic!());
        assert_eq!(
            of_chat(&mut fields, Map::new()).unwrap().unwrap().as_str(),
            r#"{"temperature":0.5,"stop":["a"]}"#
        );
        assert!(fields.refuse_rest().unwrap_err().message().contains("\"tools\""));
        let body = br#"{"max_output_tokens": 9, "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}}"#;
        let mut fields = parse(body).unwrap_or_else(|_| panic!());
        assert_eq!(
            of_response(&mut fields, Map::new()).unwrap().unwrap().as_str(),
            r#"{"max_completion_tokens":9,"reasoning_effort":"low","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}}}"#
        );
        let mut fields = parse(br#"{"text": {"format": {"type": "text"}}}"#).unwrap_or_else(|_| panic!());
        assert_eq!(of_response(&mut fields, Map::new()).unwrap(), None);
    }

    #[test]
    fn a_wish_of_the_wrong_type_is_refused() {
        for body in [
            r#"{"temperature": "hot"}"#,
            r#"{"max_tokens": 1.5}"#,
            r#"{"stop": [1]}"#,
            r#"{"logit_bias": []}"#,
        ] {
            let mut fields = parse(body.as_bytes()).unwrap_or_else(|_| panic!());
            assert!(of_chat(&mut fields, Map::new()).is_err(), "{body}");
        }
        let mut fields = parse(br#"{"reasoning": "low"}"#).unwrap_or_else(|_| panic!());
        assert!(of_response(&mut fields, Map::new()).is_err());
    }
}
