//! Taking an object of Hermes' apart, field by field, as forgivingly as Python does.

use serde_json::{Map, Value};

/// What is taken is known; what is left over is kept for the next writer.
pub struct LenientFields(pub Map<String, Value>);

impl LenientFields {
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.shift_remove(name)
    }

    /// A text, or a number as Python would print it. Anything else is no text.
    pub fn text(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(crate::json::dumps(&Value::Number(number))),
            _ => None,
        }
    }

    pub fn number(&mut self, name: &str) -> i64 {
        let value = self.take(name);
        value
            .and_then(|value| value.as_i64().or_else(|| value.as_f64().map(|float| float as i64)))
            .unwrap_or(0)
    }

    pub fn flag(&mut self, name: &str) -> bool {
        self.take(name).is_some_and(|value| is_truthy(&value))
    }
}

pub fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}
