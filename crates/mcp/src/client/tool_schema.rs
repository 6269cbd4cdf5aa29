//! Schemas of foreign tools in a form that every provider takes. One schema that is refused spoils
//! the whole request, so these repairs are Hermes', in Hermes' order.
//!
//! - `definitions` become `$defs`, and references follow
//! - a union with null becomes its other branch, marked `nullable`
//! - what looks like an object is called one, has properties, and requires only what it has

use serde_json::{Map, Value, json};

/// What stands around a union and goes on standing when the union is gone.
const NOTES: [&str; 4] = ["title", "description", "default", "examples"];

pub fn normalised(schema: &Map<String, Value>) -> Value {
    let empty = || json!({"type": "object", "properties": {}});
    if schema.is_empty() {
        return empty();
    }
    let schema = with_defs(&Value::Object(schema.clone()));
    match repaired(&without_null(&schema)) {
        Value::Object(object) => Value::Object(object),
        _ => empty(),
    }
}

fn with_defs(node: &Value) -> Value {
    let object = match node {
        Value::Array(items) => return items.iter().map(with_defs).collect(),
        Value::Object(object) => object,
        _ => return node.clone(),
    };
    let mut out = Map::new();
    for (key, value) in object {
        match (key.as_str(), value) {
            // Names of parameters: one of them may well be called `definitions`.
            ("properties" | "patternProperties", Value::Object(named)) => {
                let named = named.iter().map(|(name, schema)| (name.clone(), with_defs(schema)));
                out.insert(key.clone(), Value::Object(named.collect()));
            }
            ("definitions", value) => {
                out.insert("$defs".to_owned(), with_defs(value));
            }
            ("$ref", Value::String(target)) => {
                let target = match target.strip_prefix("#/definitions/") {
                    Some(name) => format!("#/$defs/{name}"),
                    None => target.clone(),
                };
                out.insert(key.clone(), Value::String(target));
            }
            (_, value) => {
                out.insert(key.clone(), with_defs(value));
            }
        }
    }
    Value::Object(out)
}

fn without_null(node: &Value) -> Value {
    let object = match node {
        Value::Array(items) => return items.iter().map(without_null).collect(),
        Value::Object(object) => object,
        _ => return node.clone(),
    };
    let stripped: Map<String, Value> =
        object.iter().map(|(key, value)| (key.clone(), without_null(value))).collect();
    for key in ["anyOf", "oneOf"] {
        let Some(Value::Array(variants)) = stripped.get(key) else { continue };
        let mut others = variants.iter().filter(|variant| variant["type"] != "null");
        let (Some(only), None) = (others.next(), others.next()) else { continue };
        if variants.len() > 1 {
            return without_null(&Value::Object(in_place_of_union(only, &stripped)));
        }
    }
    Value::Object(stripped)
}

fn in_place_of_union(only: &Value, union: &Map<String, Value>) -> Map<String, Value> {
    let mut replacement = only.as_object().cloned().unwrap_or_default();
    replacement.entry("nullable").or_insert(Value::Bool(true));
    for note in NOTES {
        // A default beside a reference is refused by strict providers.
        let is_refused = note == "default" && replacement.contains_key("$ref");
        if let (Some(value), false, false) = (union.get(note), replacement.contains_key(note), is_refused) {
            replacement.insert(note.to_owned(), value.clone());
        }
    }
    replacement
}

fn repaired(node: &Value) -> Value {
    let object = match node {
        Value::Array(items) => return items.iter().map(repaired).collect(),
        Value::Object(object) => object,
        _ => return node.clone(),
    };
    let within = |key: &str, value: &Value| match (key, value) {
        // Names, not a schema: a parameter may be called `required`.
        ("properties" | "patternProperties" | "$defs", Value::Object(named)) => {
            Value::Object(named.iter().map(|(name, schema)| (name.clone(), repaired(schema))).collect())
        }
        (_, value) => repaired(value),
    };
    let mut out: Map<String, Value> =
        object.iter().map(|(key, value)| (key.clone(), within(key, value))).collect();
    let is_untyped = out.get("type").is_none_or(|kind| matches!(kind.as_str(), None | Some("")))
        && !out.get("type").is_some_and(Value::is_array);
    if is_untyped && (out.contains_key("properties") || out.contains_key("required")) {
        out.insert("type".to_owned(), json!("object"));
    }
    if out.get("type") == Some(&json!("object")) {
        if !out.get("properties").is_some_and(Value::is_object) {
            out.insert("properties".to_owned(), json!({}));
        }
        prune_required(&mut out);
    }
    Value::Object(out)
}

fn prune_required(object: &mut Map<String, Value>) {
    let Some(Value::Array(required)) = object.get("required") else { return };
    let is_there = |name: &&Value| name.as_str().is_some_and(|name| object["properties"].get(name).is_some());
    let kept: Vec<Value> = required.iter().filter(is_there).cloned().collect();
    match (kept.len() == required.len(), kept.is_empty()) {
        (true, _) => {}
        (false, true) => drop(object.shift_remove("required")),
        (false, false) => drop(object.insert("required".to_owned(), Value::Array(kept))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: Value) -> Value {
        normalised(schema.as_object().unwrap())
    }

    #[test]
    fn schemas_are_repaired_as_hermes_repairs_them() {
        for (schema, expected) in [
            (json!({}), json!({"type": "object", "properties": {}})),
            (json!({"type": "object"}), json!({"type": "object", "properties": {}})),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            ),
            (
                json!({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "title": "A"}}}),
                json!({"properties": {"a": {"type": "string", "nullable": true, "title": "A", "default": null}}, "type": "object"}),
            ),
            (
                json!({"type": "object", "definitions": {"x": {"type": "string"}},
                       "properties": {"definitions": {"$ref": "#/definitions/x"}}}),
                json!({"type": "object", "$defs": {"x": {"type": "string"}},
                       "properties": {"definitions": {"$ref": "#/$defs/x"}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "number"}]}}}),
                json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "number"}]}}}),
            ),
        ] {
            assert_eq!(of(schema.clone()), expected, "from {schema}");
        }
    }

    #[test]
    fn a_parameter_that_is_called_required_is_no_list() {
        let schema = json!({"type": "object", "properties": {"required": {"type": "boolean"}}});
        assert_eq!(of(schema.clone()), schema);
    }
}
