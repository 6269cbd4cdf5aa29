//! Arguments of tools, parsed from what the model wrote.
//!
//! Models send numbers as text, lists as JSON in a string, one thing where a list is wanted. What is
//! clearly meant is taken as it was meant, as Hermes takes it; anything else ends in a text that
//! names every argument that is wrong, so that the next attempt can be right.
//!
//! Deliberately absent: guessing at the end of a text that was cut off. Half of a file's content
//! would be written as if it were the whole.

use serde_json::{Map, Number, Value};
use std::fmt::Write as _;
use throughline_hermes::json;

/// Problems told at once: more would bury the first.
const PROBLEMS_MAX: usize = 8;

/// How much of a wrong value is shown, in characters.
const SHOWN_MAX: usize = 60;

/// The arguments of one call, made to fit the schema of its tool. The error is the whole result that
/// the model sees.
pub fn read(arguments: &str, schema: &Value) -> Result<Map<String, Value>, String> {
    let object = parse(arguments)?;
    fit(object, schema)
}

/// The arguments as an object with any fields. Nothing at all is an empty object.
pub fn parse(arguments: &str) -> Result<Map<String, Value>, String> {
    let text = arguments.trim();
    // Some servers write Python's word for "no arguments".
    if matches!(text, "" | "None" | "null") {
        return Ok(Map::new());
    }
    let value = serde_json::from_str(text).or_else(|first| match escape_controls(text) {
        Some(repaired) => serde_json::from_str(&repaired).map_err(|_| first),
        None => Err(first),
    });
    match value {
        Ok(Value::Object(object)) => Ok(object),
        // An object written as JSON in a string: encoded twice.
        Ok(Value::String(inner)) => match serde_json::from_str(&inner) {
            Ok(Value::Object(object)) => Ok(object),
            _ => Err(refusal("Tool arguments must be a JSON object, got a string.")),
        },
        Ok(other) => Err(refusal(format!("Tool arguments must be a JSON object, got {}.", article(&other)))),
        Err(error) => Err(format!(
            "Error: Invalid JSON arguments. {error}. For tools with no required parameters, use an empty \
             object: {{}}. Please retry with valid JSON."
        )),
    }
}

/// `object` with every argument in the type its schema asks for.
pub fn fit(object: Map<String, Value>, schema: &Value) -> Result<Map<String, Value>, String> {
    let mut problems = Problems::default();
    let object = fit_object(object, schema, "", &mut problems);
    match problems.told() {
        None => Ok(object),
        Some(told) => Err(refusal(told)),
    }
}

/// How Hermes tells that a tool failed.
pub fn refusal(message: impl AsRef<str>) -> String {
    json::dumps_unicode(&serde_json::json!({ "error": message.as_ref() }))
}

#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, problem: String) {
        self.0.push(problem);
    }

    fn told(self) -> Option<String> {
        let hidden = self.0.len().saturating_sub(PROBLEMS_MAX);
        let mut told = self.0.into_iter().take(PROBLEMS_MAX).collect::<Vec<_>>().join(" ");
        if hidden > 0 {
            let _ = write!(told, " ({hidden} more problems not shown.)");
        }
        (!told.is_empty()).then_some(told)
    }
}

fn fit_object(
    mut object: Map<String, Value>,
    schema: &Value,
    place: &str,
    problems: &mut Problems,
) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let Some(value) = object.get_mut(name).map(Value::take) else { continue };
        // Null where null is nothing the tool knows means that the argument was left out.
        if value.is_null() && !allows_null(property) {
            object.shift_remove(name);
            continue;
        }
        let inner = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        let fitted = fit_value(value, property, &inner, problems);
        object.insert(name.clone(), fitted);
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for name in &required {
        // Within a list or an object the tool decides: Hermes' own take half an item as a change to it.
        if object.contains_key(*name) || !place.is_empty() {
            continue;
        }
        match properties.and_then(|properties| properties.get(*name)?.get("default")) {
            Some(default) => {
                object.insert((*name).to_owned(), default.clone());
            }
            None => problems.add(missing(name, &required)),
        }
    }
    object
}

fn missing(name: &str, required: &[&str]) -> String {
    let names = required.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    format!("missing required field '{name}'. Re-emit the tool call with {names} set.")
}

fn fit_value(value: Value, schema: &Value, place: &str, problems: &mut Problems) -> Value {
    if let Some(branches) = union(schema) {
        return fit_union(value, branches, place, problems);
    }
    let kinds = kinds(schema);
    let value = coerced(value, &kinds, schema);
    let nothing = value.is_null() && allows_null(schema);
    let fits = kinds.is_empty() || nothing || kinds.iter().any(|kind| is_kind(&value, kind));
    if !fits {
        problems.add(format!("'{place}' must be {}, got {}.", wanted(&kinds), shown(&value)));
        return value;
    }
    let value = match value {
        Value::Array(items) => match schema.get("items") {
            Some(inner) => fit_items(items, inner, place, problems),
            None => Value::Array(items),
        },
        Value::Object(object) => Value::Object(fit_object(object, schema, place, problems)),
        other => other,
    };
    fit_choice(value, schema, place, problems)
}

fn fit_items(items: Vec<Value>, schema: &Value, place: &str, problems: &mut Problems) -> Value {
    let fitted = items.into_iter().enumerate();
    Value::Array(
        fitted.map(|(nth, item)| fit_value(item, schema, &format!("{place}[{nth}]"), problems)).collect(),
    )
}

/// The branch that takes the value as it is, else the first that takes it somehow.
fn fit_union(value: Value, branches: &[Value], place: &str, problems: &mut Problems) -> Value {
    let mut first = None;
    for branch in branches {
        let mut found = Problems::default();
        let fitted = fit_value(value.clone(), branch, place, &mut found);
        if found.0.is_empty() && fitted == value {
            return value;
        }
        if found.0.is_empty() && first.is_none() {
            first = Some(fitted);
        }
    }
    first.unwrap_or_else(|| {
        let kinds: Vec<&str> = branches.iter().flat_map(kinds).collect();
        problems.add(format!("'{place}' must be {}, got {}.", wanted(&kinds), shown(&value)));
        value
    })
}

/// One of the listed values; a text in the wrong case is the one that it spells.
fn fit_choice(value: Value, schema: &Value, place: &str, problems: &mut Problems) -> Value {
    let single = schema.get("const").map(std::slice::from_ref);
    let Some(choices) = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice).or(single) else {
        return value;
    };
    if choices.contains(&value) || value.is_null() {
        return value;
    }
    if let Some(text) = value.as_str() {
        let spelled = choices
            .iter()
            .find(|choice| choice.as_str().is_some_and(|c| c.eq_ignore_ascii_case(text.trim())));
        if let Some(choice) = spelled {
            return choice.clone();
        }
    }
    let choices = choices.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    problems.add(format!("'{place}' must be one of {choices}, got {}.", shown(&value)));
    value
}

fn union(schema: &Value) -> Option<&[Value]> {
    let branches = schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()?;
    (!branches.is_empty()).then_some(branches)
}

/// The types a schema allows; none if it does not say (or says it in a way not followed here).
fn kinds(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn allows_null(schema: &Value) -> bool {
    kinds(schema).contains(&"null")
        || schema.get("nullable") == Some(&Value::Bool(true))
        || union(schema).is_some_and(|branches| branches.iter().any(|branch| kinds(branch).contains(&"null")))
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true, // a type of a later dialect: the server that named it checks it
    }
}

/// The value in the first type that takes it without loss; as it is if none does.
fn coerced(value: Value, kinds: &[&str], schema: &Value) -> Value {
    if kinds.is_empty() || kinds.iter().any(|kind| is_kind(&value, kind)) {
        // A text may still be the word for nothing, where nothing is allowed and text is not meant.
        return match &value {
            Value::String(text) if allows_null(schema) && text.trim().eq_ignore_ascii_case("null") => {
                Value::Null
            }
            _ => value,
        };
    }
    if let Value::String(text) = &value
        && allows_null(schema)
        && text.trim().eq_ignore_ascii_case("null")
    {
        return Value::Null;
    }
    for kind in kinds {
        if let Some(fitted) = as_kind(&value, kind) {
            return fitted;
        }
    }
    // One thing where a list is wanted is a list of one.
    match kinds.contains(&"array") && !value.is_null() {
        true => Value::Array(vec![value]),
        false => value,
    }
}

fn as_kind(value: &Value, kind: &str) -> Option<Value> {
    match (kind, value) {
        ("integer", Value::String(text)) => number(text).filter(|value| is_kind(value, "integer")),
        ("number", Value::String(text)) => number(text),
        ("integer", Value::Number(number)) => whole(number.as_f64()?),
        ("boolean", Value::String(text)) if text.trim().eq_ignore_ascii_case("true") => {
            Some(Value::Bool(true))
        }
        ("boolean", Value::String(text)) if text.trim().eq_ignore_ascii_case("false") => {
            Some(Value::Bool(false))
        }
        ("array" | "object", Value::String(text)) => {
            serde_json::from_str::<Value>(text.trim()).ok().filter(|parsed| is_kind(parsed, kind))
        }
        // Ids are numbers to many models.
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        _ => None,
    }
}

fn number(text: &str) -> Option<Value> {
    let text = text.trim();
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
    whole(number).or_else(|| Number::from_f64(number).map(Value::Number))
}

fn whole(number: f64) -> Option<Value> {
    /// Above this a float no longer tells neighbouring integers apart.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then(|| Value::from(number as i64))
}

/// The text with raw control characters inside its strings escaped, as some local servers forget to.
/// None if there are none.
fn escape_controls(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut inside, mut escaped, mut changed) = (false, false, false);
    for c in text.chars() {
        if inside && u32::from(c) < 0x20 {
            changed = true;
            let _ = write!(out, "\\u{:04x}", u32::from(c));
            escaped = false;
            continue;
        }
        match c {
            '"' if !escaped => inside = !inside,
            _ => {}
        }
        escaped = inside && c == '\\' && !escaped;
        out.push(c);
    }
    changed.then_some(out)
}

fn wanted(kinds: &[&str]) -> String {
    let named = kinds.iter().map(|kind| match *kind {
        "array" => "a list".to_owned(),
        "integer" => "an integer".to_owned(),
        "object" => "an object".to_owned(),
        "null" => "null".to_owned(),
        kind => format!("a {kind}"),
    });
    named.collect::<Vec<_>>().join(" or ")
}

fn article(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// What was sent instead, short enough to read. Texts may be secrets and are only named.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(_) | Value::Bool(_) | Value::Null => value.to_string(),
        Value::String(text) if text.chars().count() <= SHOWN_MAX => {
            format!("{:?}", throughline_core::redact::redacted(text))
        }
        other => article(other).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer", "default": 50},
                "ratio": {"type": "number"},
                "all": {"type": "boolean"},
                "mode": {"type": "string", "enum": ["replace", "patch"], "default": "replace"},
                "names": {"type": "array", "items": {"type": "string"}},
                "either": {"type": ["integer", "string"]},
                "maybe": {"type": ["integer", "null"]},
                "union": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
                "todos": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"id": {"type": "string"}, "status": {"type": "string", "enum": ["pending", "completed"]}},
                    "required": ["id", "status"]
                }}
            },
            "required": ["path", "mode"]
        })
    }

    fn value(arguments: &str) -> Value {
        Value::Object(read(arguments, &schema()).unwrap())
    }

    fn error(arguments: &str) -> String {
        read(arguments, &schema()).unwrap_err()
    }

    #[test]
    fn what_was_meant_is_taken_as_it_was_meant() {
        for (written, meant) in [
            (r#"{"limit":"42"}"#, json!({"limit": 42})),
            (r#"{"limit":" 7.0 "}"#, json!({"limit": 7})),
            (r#"{"limit":3.0}"#, json!({"limit": 3})),
            (r#"{"ratio":"0.5"}"#, json!({"ratio": 0.5})),
            (r#"{"ratio":"4"}"#, json!({"ratio": 4})),
            (r#"{"all":"True"}"#, json!({"all": true})),
            (r#"{"all":"false"}"#, json!({"all": false})),
            (r#"{"names":"[\"a\",\"b\"]"}"#, json!({"names": ["a", "b"]})),
            (r#"{"names":"a"}"#, json!({"names": ["a"]})),
            (r#"{"names":"[a"}"#, json!({"names": ["[a"]})),
            (r#"{"either":"12"}"#, json!({"either": "12"})),
            (r#"{"maybe":"null"}"#, json!({"maybe": null})),
            (r#"{"maybe":null}"#, json!({"maybe": null})),
            (r#"{"limit":null}"#, json!({})),
            (r#"{"union":"[1,\"2\"]"}"#, json!({"union": [1, 2]})),
            (r#"{"union":null}"#, json!({"union": null})),
            (r#"{"mode":"PATCH"}"#, json!({"mode": "patch"})),
            (
                r#"{"todos":["{\"id\":1,\"status\":\"pending\"}"]}"#,
                json!({"todos": [{"id": "1", "status": "pending"}]}),
            ),
            (
                r#"{"todos":{"id":"1","status":"Completed"}}"#,
                json!({"todos": [{"id": "1", "status": "completed"}]}),
            ),
            (r#"{"unheard_of":[1]}"#, json!({"unheard_of": [1]})),
            ("{\"path\":\"a\tb\nc\"}", json!({"path": "a\tb\nc"})),
        ] {
            let mut schema = schema();
            schema["required"] = json!([]);
            assert_eq!(Value::Object(read(written, &schema).unwrap()), meant, "{written}");
        }
    }

    #[test]
    fn a_required_argument_with_a_default_may_be_left_out() {
        assert_eq!(value(r#"{"path":"x"}"#), json!({"path": "x", "mode": "replace"}));
    }

    #[test]
    fn nothing_is_an_empty_object() {
        for nothing in ["", "  ", "None", "null", "{}"] {
            assert_eq!(parse(nothing).unwrap(), Map::new(), "{nothing:?}");
        }
        assert_eq!(parse(r#""{\"a\":1}""#).unwrap(), *json!({"a": 1}).as_object().unwrap());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (written, told) in [
            (r#"{"path""#, "Error: Invalid JSON arguments. "),
            ("[1]", "must be a JSON object, got a list"),
            ("7", "must be a JSON object, got a number"),
            ("{}", "missing required field 'path'. Re-emit the tool call with 'path', 'mode' set."),
            (r#"{"path":["a"]}"#, "'path' must be a string, got a list."),
            (r#"{"path":true}"#, "'path' must be a string, got true."),
            (r#"{"path":"p","limit":"many"}"#, r#"'limit' must be an integer, got \"many\"."#),
            (r#"{"path":"p","limit":2.5}"#, "'limit' must be an integer, got 2.5."),
            (
                r#"{"path":"p","mode":"mend"}"#,
                r#"'mode' must be one of \"replace\", \"patch\", got \"mend\"."#,
            ),
            (
                r#"{"path":"p","todos":[{"id":"1","status":"done"}]}"#,
                r#"'todos[0].status' must be one of \"pending\", \"completed\", got \"done\"."#,
            ),
            (r#"{"path":"p","todos":[5]}"#, "'todos[0]' must be an object, got 5."),
        ] {
            assert!(error(written).contains(told), "{written}: {}", error(written));
        }
        // All at once, so that one more attempt is enough.
        let both = error(r#"{"limit":"many","all":"maybe","path":"p"}"#);
        assert!(both.contains("'limit'") && both.contains("'all'"), "{both}");
    }

    #[test]
    fn a_call_that_was_cut_off_is_not_completed() {
        assert!(error(r#"{"path":"a","content":"half of "#).starts_with("Error: Invalid JSON arguments."));
    }

    #[test]
    fn a_secret_sent_in_the_wrong_place_is_not_repeated() {
        let told = error(r#"{"path":"p","limit":"sk-abcdefghijklmnopqrstuvwxyz"}"#);
        assert!(!told.contains("ghijklmnop"), "{told}");
    }

    proptest! {
        #[test]
        fn any_text_gives_an_object_or_a_text(text in ".{0,200}") {
            match read(&text, &schema()) {
                Ok(object) => prop_assert!(object.contains_key("path")),
                Err(told) => prop_assert!(!told.is_empty()),
            }
        }

        #[test]
        fn what_fits_stays_as_it_is(path in ".*", limit in any::<i64>(), all in any::<bool>()) {
            let given = json!({"path": path, "limit": limit, "all": all, "mode": "patch"});
            prop_assert_eq!(value(&given.to_string()), given);
        }

        #[test]
        fn fitting_twice_is_fitting_once(limit in ".{0,6}", names in ".{0,12}", path in any::<i32>()) {
            let given = json!({"path": path, "limit": limit, "names": names, "mode": "patch"});
            if let Ok(once) = read(&given.to_string(), &schema()) {
                prop_assert_eq!(fit(once.clone(), &schema()).unwrap(), once);
            }
        }
    }
}
